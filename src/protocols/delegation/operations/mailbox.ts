// The mailbox of an agent that pulls: the agent takes messages under a lease and acknowledges them when it is done.
import { Refusal } from '#kernel/declare/errors.ts'
import { image, put } from '#kernel/declare/facts.ts'
import { type Actor, forAgentsToo, isIn, role, system } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, rule, type Read } from '#kernel/declare/operation.ts'
import { nullable, t, type Static } from '#kernel/declare/schema.ts'
import { durationMs } from '#kernel/codec/timestamps.ts'
import { fact } from '../events.ts'
import {
  ackMailbox,
  extendLease,
  isFree,
  isHeldBy,
  isPast,
  putMailbox,
  leaseAgain,
  leaseEnd,
  releaseMailbox,
  settleMessages,
  takeMailbox,
} from '../runs/mailbox.ts'
import { Attempt, runAgent, runOf, type OfRun } from '../access.ts'
import { openedRequest } from '../runs/sealed-input.ts'
import { Id, Mailbox, Message, Request, Run, Timestamp } from '../schema.ts'
import { isActive } from '../states.ts'

type OfMailbox = { readonly agent_id: string }
const agentItself = forAgentsToo(
  role<OfMailbox>('the agent itself', (actor, { agent_id }) => actor.kind === 'agent' && actor.id === agent_id),
)

const Worker = t.Optional(
  t.String({
    minLength: 1,
    maxLength: limits.workerCharsMax,
    description: 'the process of the agent that asks; runs that it holds stay with it',
  }),
)
const Lease = t.Optional(t.String({ maxLength: 40, description: 'an ISO 8601 duration of at most an hour; PT1M by default' }))
export const MailboxItem = t.Object({
  run: Run.schema,
  request: Request.schema,
  attempt: t.Integer(),
  lease_until: Timestamp,
  messages: t.Array(Message),
})

/** Mailboxes examined per call. Other processes of the same agent can hold some of them. */
const LANES = 200

/** Runs with messages to take, longest waiting first, and the time at which the next of the others is due. */
async function lanes(read: Read, agent_id: string, now: string): Promise<{ ids: string[]; again: string | null }> {
  const listed = await read.list(Mailbox, 'due', [[agent_id]], { limit: LANES })
  const due = listed.filter(({ at }) => isPast(dueIn(at, now), now))
  const later = listed.find(({ at }) => !isPast(dueIn(at, now), now))
  return { ids: due.map(({ id }) => id), again: later ? dueIn(later.at, now) : null }
}
const dueIn = (at: string, now: string): string => at.slice(0, now.length)

type Taking = { readonly worker?: string; readonly held?: boolean }
/** When a mailbox can be taken by this worker: now, later, or (null) never in this state. */
function takableAt(mailbox: Mailbox, { worker, held = false }: Taking, now: string): string | null {
  const workerId = worker ?? null
  if (mailbox.messages.length === 0 || mailbox.waits !== undefined || (held && mailbox.worker !== workerId)) return null
  const free = isFree(mailbox, now) || isHeldBy(mailbox, workerId, now) ? now : mailbox.until!
  const due = isPast(mailbox.due, now) ? now : mailbox.due
  return free > due ? free : due
}
const earlier = (one: string | null, other: string): string => (one === null || other < one ? other : one)

const take = command({
  name: 'mailbox.take',
  summary: 'Take the messages that wait for an agent, in the order of each run, and hold their runs for the time of a lease.',
  draft: 'ours: AAP leaves the transport to the host',
  input: t.Object({
    agent_id: t.Optional(Id),
    run_id: t.Optional(Id),
    worker: Worker,
    lease: Lease,
    limit: t.Optional(t.Integer({ minimum: 1, maximum: limits.takenMax, description: 'runs at a time' })),
    held: t.Optional(t.Boolean({ description: 'only messages of runs that the worker has taken before' })),
    wait: t.Optional(
      t.String({ maxLength: 40, description: 'an ISO 8601 duration of at most a minute: how long to wait while there is nothing' }),
    ),
  }),
  output: t.Object({ items: t.Array(MailboxItem) }),
  callers: [system, agentItself],
  requires: [],
  audit: null,
  waits({ agent_id, wait }, actor) {
    if (wait === undefined) return null
    return { wakeIds: [agent_id ?? actor.id], maxMs: Math.min(limits.waitMsMax, durationMs(wait, 'INVALID_REQUEST', 'wait')) }
  },
  async load(read, { agent_id: whose, run_id, limit = limits.takenMax, ...taking }, { actor, now, notary }) {
    const agent_id = whose ?? actor.id
    const found: { mailbox: Mailbox; run: Run; request: Request }[] = []
    if (agent_id !== actor.id && actor.kind !== 'system') return { agent_id, found, again: null }
    const { ids, again: next } = run_id === undefined ? await lanes(read, agent_id, now) : { ids: [run_id], again: null }
    let again = next
    for (const id of ids) {
      const mailbox = await read.raw(Mailbox, id)
      // A key for one project takes no messages of another, and an agent takes no messages of a project that it has left.
      const isOwn = mailbox?.agent_id === agent_id && isIn(actor, mailbox.project_id)
      const at: string | null = isOwn ? takableAt(mailbox, taking, now) : null
      if (at === null) continue
      if (at > now) {
        again = earlier(again, at)
        continue
      }
      const [run, request] = await Promise.all([read.raw(Run, id), read.raw(Request, id)])
      found.push({ mailbox: mailbox!, run: run!, request: await openedRequest(request!, notary) })
      if (found.length === limit) break
    }
    return { agent_id, found, again }
  },
  decide({ found, again }, { worker = null, lease }, { now }) {
    if (found.length === 0) return { facts: [], output: { items: [] }, nothing: { again } }
    const lease_until = leaseEnd(now, lease)
    const all = found.map(({ mailbox, run, request }) => ({ ...takeMailbox(mailbox, worker, lease_until, now), run, request }))
    return {
      facts: [],
      puts: all.map(({ mailbox }) => put(Mailbox, mailbox.id, mailbox)),
      output: {
        items: all.map(({ mailbox, run, request, messages }) => ({
          run,
          request,
          attempt: mailbox.attempt,
          lease_until,
          messages: [...messages],
        })),
      },
    }
  },
  example: { given: 'delegated', as: 'robin', input: { worker: 'robin-1', lease: 'PT5M' } },
})

const isHolding = rule<OfRun, { attempt?: number }>(
  'CONFLICT',
  'the attempt is the present one: another process has taken the run since',
  ({ mailbox }, { attempt = 0 }) => mailbox === null || mailbox.attempt === attempt,
  'another process has taken the run since: take it again to continue',
)

const ack = command({
  name: 'mailbox.ack',
  summary: 'Acknowledge the messages of a run up to a number: they are not delivered again.',
  draft: 'ours: AAP leaves the transport to the host',
  input: t.Object({ run_id: Id, attempt: Attempt, number: t.Integer({ minimum: 1, maximum: 1_000_000_000 }) }),
  output: t.Object({ settled: t.Integer() }),
  callers: [system, runAgent],
  requires: [isHolding],
  audit: null,
  load: (read, { run_id }, { actor }) => runOf(read, run_id, actor),
  decide({ run, mailbox }, { number }) {
    if (mailbox === null) return { facts: [], output: { settled: 0 } }
    const count = mailbox.messages.length - settleMessages(mailbox, number).messages.length
    // Another harness waits for the confirmation that the agent has stopped.
    const isPutDown =
      run.session_id !== undefined && mailbox.messages.some((message) => message.kind === 'cancel' && message.number <= number)
    const facts = isPutDown ? [fact('run.put_down', [image(Run, run)])] : []
    return { facts, puts: [ackMailbox(mailbox, number, !isActive(run.state))], output: { settled: count } }
  },
  example: { given: 'taken', as: 'robin', input: ({ run }) => ({ run_id: run.id, attempt: 1, number: 1 }) },
})

const Held = t.Array(t.Object({ run_id: Id, attempt: t.Integer() }), { maxItems: limits.takenMax })
const anAgent = forAgentsToo(role<{ isAgent: boolean }>('an agent', (_, { isAgent }) => isAgent))

/** The mailboxes of runs of the caller; null if another process has taken the run since. */
async function heldBy(read: Read, runs: Static<typeof Held>, actor: Actor) {
  const mailboxes = await Promise.all(runs.map(({ run_id }) => read.raw(Mailbox, run_id)))
  // Check the runs, not the mailboxes: a run that ended long ago has no mailbox, but still belongs to its agent.
  if (actor.kind === 'agent')
    for (const { run_id } of runs)
      if ((await read.maybe(Run, run_id))?.agent_id !== actor.id) throw new Refusal('RUN_NOT_FOUND', `there is no run ${run_id}`)
  const held = runs.map(({ run_id, attempt }, i) => {
    const mailbox = mailboxes[i]
    return { run_id, mailbox: mailbox?.attempt === attempt && attempt > 0 ? mailbox : null }
  })
  return { held, isAgent: actor.kind === 'agent' }
}

const extend = command({
  name: 'mailbox.extend',
  summary: 'Extend the lease of runs. Runs that another process has taken since are null in the answer.',
  draft: 'ours: AAP leaves the transport to the host',
  input: t.Object({
    runs: Held,
    lease: t.Optional(t.String({ maxLength: 40, description: 'an ISO 8601 duration of at most an hour; the same as before by default' })),
  }),
  output: t.Object({ items: t.Array(t.Object({ run_id: Id, lease_until: nullable(Timestamp) })) }),
  callers: [system, anAgent],
  requires: [],
  audit: null,
  load: (read, { runs }, { actor }) => heldBy(read, runs, actor),
  decide({ held }, { lease }, { now }) {
    const end = lease === undefined ? null : leaseEnd(now, lease)
    const untilOf = (mailbox: Mailbox): string => end ?? leaseAgain(mailbox, now)
    return {
      facts: [],
      puts: held.flatMap(({ mailbox }) => (mailbox ? [putMailbox(extendLease(mailbox, untilOf(mailbox)))] : [])),
      output: { items: held.map(({ run_id, mailbox }) => ({ run_id, lease_until: mailbox ? untilOf(mailbox) : null })) },
    }
  },
  example: { given: 'taken', as: 'robin', input: ({ run }) => ({ runs: [{ run_id: run.id, attempt: 1 }], lease: 'PT10M' }) },
})

const release = command({
  name: 'mailbox.release',
  summary: 'Give runs back before their lease ends: the next process takes them immediately, from the beginning.',
  draft: 'ours: AAP leaves the transport to the host',
  input: t.Object({ runs: Held }),
  output: t.Object({ released: t.Integer() }),
  callers: [system, anAgent],
  requires: [],
  audit: null,
  load: (read, { runs }, { actor }) => heldBy(read, runs, actor),
  decide({ held }, _, { now }) {
    const releases = held.flatMap(({ mailbox }) => (mailbox ? [put(Mailbox, mailbox.id, releaseMailbox(mailbox, now))] : []))
    return { facts: [], puts: releases, output: { released: releases.length } }
  },
  example: { given: 'taken', as: 'robin', input: ({ run }) => ({ runs: [{ run_id: run.id, attempt: 1 }] }) },
})

export const mailboxOperations = [take, ack, extend, release]
