// How an agent that comes for its messages gets them: it takes what waits, for the time of a lease, and settles it when it is done.
import { Refusal } from '#kernel/errors.ts'
import { put } from '#kernel/facts.ts'
import { role, system } from '#kernel/identity.ts'
import { limits } from '#kernel/limits.ts'
import { command, rule, type Read } from '#kernel/operation.ts'
import { nullable, t } from '#kernel/schema.ts'
import { acked, extended, isFree, isHeldBy, isPast, kept, leaseEnd, settled, taken } from '../mailbox.ts'
import { Attempt, runAgent, runOf, type OfRun } from '../rules.ts'
import { Id, Mailbox, Message, Request, Run, Timestamp } from '../schema.ts'
import { isActive } from '../states.ts'

type OfInbox = { readonly agent_id: string }
const agentItself = role<OfInbox>('the agent itself', (actor, { agent_id }) => actor.kind === 'agent' && actor.id === agent_id)

const Worker = t.Optional(
  t.String({ minLength: 1, maxLength: limits.workerCharsMax, description: 'which process of the agent asks: what it holds stays with it' }),
)
const Lease = t.Optional(t.String({ maxLength: 40, description: 'an ISO 8601 duration of at most an hour; PT1M by default' }))
export const Item = t.Object({
  run: Run.schema,
  request: Request.schema,
  attempt: t.Integer(),
  lease_until: Timestamp,
  messages: t.Array(Message),
})

/** Looked at for one call: more of them may be held by other processes of the same agent. */
const LANES = 200

/** Runs with something to take, those that waited longest first. */
async function lanes(read: Read, agent_id: string, now: string): Promise<string[]> {
  const listed = await read.list(Mailbox, 'due', [[agent_id]], { limit: LANES })
  return listed.filter(({ at }) => isPast(at.slice(0, now.length), now)).map(({ id }) => id)
}

const take = command({
  name: 'inbox.take',
  summary: 'Take the messages that wait for an agent, in the order of each run, and hold their runs for the time of a lease.',
  draft: 'ours: AAP leaves the transport to the host',
  input: t.Object({
    agent_id: t.Optional(Id),
    run_id: t.Optional(Id),
    worker: Worker,
    lease: Lease,
    limit: t.Optional(t.Integer({ minimum: 1, maximum: limits.takenMax, description: 'runs at a time' })),
  }),
  output: t.Object({ items: t.Array(Item) }),
  callers: [system, agentItself],
  requires: [],
  audit: null,
  async load(read, { agent_id: whose, run_id, worker = null, limit = limits.takenMax }, { actor, now }) {
    const agent_id = whose ?? actor.id
    const found: { mailbox: Mailbox; run: Run; request: Request }[] = []
    if (agent_id !== actor.id && actor.kind !== 'system') return { agent_id, found }
    for (const id of run_id === undefined ? await lanes(read, agent_id, now) : [run_id]) {
      const mailbox = await read.raw(Mailbox, id)
      if (mailbox?.agent_id !== agent_id || mailbox.messages.length === 0 || !isPast(mailbox.due, now)) continue
      if (!isFree(mailbox, now) && !isHeldBy(mailbox, worker, now)) continue
      const [run, request] = await Promise.all([read.raw(Run, id), read.raw(Request, id)])
      found.push({ mailbox, run: run!, request: request! })
      if (found.length === limit) break
    }
    return { agent_id, found }
  },
  decide({ found }, { worker = null, lease }, { now }) {
    const lease_until = leaseEnd(now, lease)
    const all = found.map(({ mailbox, run, request }) => ({ ...taken(mailbox, worker, lease_until, now), run, request }))
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
)

const ack = command({
  name: 'inbox.ack',
  summary: 'Settle the messages of a run up to a number: they are not handed over again.',
  draft: 'ours: AAP leaves the transport to the host',
  input: t.Object({ run_id: Id, attempt: Attempt, number: t.Integer({ minimum: 1, maximum: 1_000_000_000 }) }),
  output: t.Object({ settled: t.Integer() }),
  callers: [system, runAgent],
  requires: [isHolding],
  audit: null,
  load: (read, { run_id }, { actor }) => runOf(read, run_id, actor),
  decide({ run, mailbox }, { number }) {
    if (mailbox === null) return { facts: [], output: { settled: 0 } }
    const count = mailbox.messages.length - settled(mailbox, number).messages.length
    return { facts: [], puts: [acked(mailbox, number, !isActive(run.state))], output: { settled: count } }
  },
  example: { given: 'taken', as: 'robin', input: ({ run }) => ({ run_id: run.id, attempt: 1, number: 1 }) },
})

const extend = command({
  name: 'inbox.extend',
  summary: 'Hold runs for another lease. Those that another process has taken since are answered with null.',
  draft: 'ours: AAP leaves the transport to the host',
  input: t.Object({
    runs: t.Array(t.Object({ run_id: Id, attempt: t.Integer() }), { maxItems: limits.takenMax }),
    lease: Lease,
  }),
  output: t.Object({ items: t.Array(t.Object({ run_id: Id, lease_until: nullable(Timestamp) })) }),
  callers: [system, role<{ isAgent: boolean }>('an agent', (_, { isAgent }) => isAgent)],
  requires: [],
  audit: null,
  async load(read, { runs }, { actor }) {
    const mailboxes = await Promise.all(runs.map(({ run_id }) => read.raw(Mailbox, run_id)))
    if (mailboxes.some((mailbox) => mailbox && actor.kind === 'agent' && mailbox.agent_id !== actor.id))
      throw new Refusal('RUN_NOT_FOUND', 'one of the runs does not exist')
    return { mailboxes, isAgent: actor.kind === 'agent' }
  },
  decide({ mailboxes }, { runs, lease }, { now }) {
    const until = leaseEnd(now, lease)
    const held = runs.map(({ run_id, attempt }, i) => {
      const mailbox = mailboxes[i]
      return { run_id, mailbox: mailbox?.attempt === attempt && attempt > 0 ? mailbox : null }
    })
    return {
      facts: [],
      puts: held.flatMap(({ mailbox }) => (mailbox ? [kept(extended(mailbox, until))] : [])),
      output: { items: held.map(({ run_id, mailbox }) => ({ run_id, lease_until: mailbox ? until : null })) },
    }
  },
  example: { given: 'taken', as: 'robin', input: ({ run }) => ({ runs: [{ run_id: run.id, attempt: 1 }], lease: 'PT10M' }) },
})

export const inboxOperations = [take, ack, extend]
