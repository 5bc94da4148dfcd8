// Webhooks of agents: the signing secret, the delivery of one message, and the delivery log.
import { attemptFields, attemptsWith, forgetEntry } from '#kernel/ports/delivery-log.ts'
import { timestampOf } from '#kernel/ports/clock.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { image, put } from '#kernel/declare/facts.ts'
import { type Actor, administrator, forAgentsToo, installationOwner, isIn, role, system } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, query, rule, type Change, type Read } from '#kernel/declare/operation.ts'
import { nextCursor, pageIn, pageInput, pageOf } from '#kernel/declare/paging.ts'
import { nullable, t, type Static } from '#kernel/declare/schema.ts'
import { fact } from '../events.ts'
import { acceptRun, ackMailbox, leaseEnd, pushMessage } from '../runs/mailbox.ts'
import { Card, Id, Mailbox, Posting, postingId, Request, Run, Signing } from '../schema.ts'
import { isActive } from '../states.ts'
import { agentItself, agentOwner, seenAgent, signingFor, type OfAgent } from './card.ts'
import { MailboxItem } from './mailbox.ts'

const later = (now: string, ms: number): string => timestampOf(Date.parse(now) + ms)
const Number_ = t.Integer({ minimum: 1, maximum: 1_000_000_000 })

const rotate = command({
  name: 'webhook.rotate',
  summary: 'Make a new secret for the webhook of an agent. It is shown once; for a day messages carry a signature by the old one as well.',
  draft: 'ours: AAP leaves the transport to the host',
  input: t.Object({ agent_id: t.Optional(Id) }),
  output: t.Object({ card: Card.schema, secret: nullable(t.String({ description: 'shown once' })) }),
  callers: [system, administrator, installationOwner, agentItself, agentOwner],
  requires: [
    rule<{ card: Card }>(
      'PRECONDITION_FAILED',
      'the agent is reached by webhook',
      ({ card }) => card.reach === 'webhook',
      'the agent is not reached by webhook: its card says otherwise',
    ),
    rule<{ signing: Signing | null }>(
      'PRECONDITION_FAILED',
      'there is a secret',
      ({ signing }) => signing !== null,
      'the agent has no webhook secret yet: agent.publish makes one, with reach webhook and an endpoint',
    ),
  ],
  audit: 'agent.secret_rotated',
  once: ['secret'],
  async load(read, { agent_id }, { actor }) {
    const agent = await seenAgent(read, agent_id, actor)
    const card = await read.raw(Card, agent.id)
    if (!card) throw new Refusal('AGENT_NOT_FOUND', `there is no card of an agent ${agent.id}`)
    return { agent, card, signing: await read.raw(Signing, agent.id) }
  },
  decide({ card, signing }, _, { now, secret }) {
    const rotated = signingFor(card.id, secret(), signing!.secret, later(now, limits.webhookSecretMs))
    return {
      facts: [fact('agent.secret_rotated', [image(Card, card)])],
      puts: [put(Signing, card.id, rotated)],
      output: { card, secret: rotated.secret },
    }
  },
  example: { given: 'hooked', as: 'robin', input: { agent_id: 'agent_robin' } },
})

/** Its run ended between two attempts, so the log must not announce another attempt. */
function withdrawn(logged: Posting | null, now: string): Change[] {
  if (logged?.state !== 'waiting') return []
  const error = 'the message was withdrawn before it was delivered'
  const recent = attemptsWith(logged.recent, { status: null, duration_ms: 0, error }, now)
  return [put(Posting, logged.id, { ...logged, state: 'given_up', last_at: now, recent })]
}

const push = command({
  name: 'mailbox.push',
  summary: 'Hand one message to the worker that posts it. A run and a resume begin a new attempt each time; item is null if it is settled.',
  draft: 'ours: AAP leaves the transport to the host',
  input: t.Object({ run_id: Id, number: Number_ }),
  output: t.Object({ item: nullable(MailboxItem) }),
  callers: [system],
  requires: [],
  audit: null,
  async load(read, { run_id, number }) {
    const [mailbox, run, request] = await Promise.all([read.raw(Mailbox, run_id), read.raw(Run, run_id), read.raw(Request, run_id)])
    const message = mailbox?.messages.find((entry) => entry.number === number)
    if (mailbox && run && request && message) return { held: { mailbox, run, request, message }, logged: null }
    return { held: null, logged: await read.raw(Posting, postingId(run_id, number)) }
  },
  decide({ held, logged }, _, { now }) {
    if (held === null) return { facts: [], puts: withdrawn(logged, now), output: { item: null } }
    const { run, request, message } = held
    const lease_until = leaseEnd(now, undefined)
    const mailbox = pushMessage(held.mailbox, message, lease_until)
    return {
      facts: [],
      puts: [put(Mailbox, mailbox.id, mailbox)],
      output: { item: { run, request, attempt: mailbox.attempt, lease_until, messages: [message] } },
    }
  },
  example: { given: 'posted', as: 'system', input: ({ run }) => ({ run_id: run.id, number: 1 }) },
})

const Outcome = t.Object({
  run_id: Id,
  number: Number_,
  attempt: t.Integer(),
  state: Posting.schema.properties.state,
  ...attemptFields,
})

/** The log of one message with one more attempt. */
function noteAttempt(found: Posting | null, run: Run, mailbox: Mailbox | null, outcome: Static<typeof Outcome>, now: string): Change[] {
  const { number, state } = outcome
  const id = postingId(run.id, number)
  const kind = found?.kind ?? mailbox?.messages.find((message) => message.number === number)?.kind ?? 'cancel'
  const { agent_id, project_id } = run
  const first_at = found?.first_at ?? now
  const recent = attemptsWith(found?.recent ?? [], outcome, now)
  const attempts = (found?.attempts ?? 0) + 1
  const next: Posting = { id, run_id: run.id, agent_id, project_id, number, kind, state, attempts, first_at, last_at: now, recent }
  return [put(Posting, id, next)]
}

const record = command({
  name: 'delivery.record',
  summary: 'Record the outcome of one post. An accepted message is settled with it.',
  draft: 'ours: the delivery log',
  input: Outcome,
  output: t.Object({ recorded: t.Boolean() }),
  callers: [system],
  requires: [],
  audit: null,
  async load(read, { run_id, number }) {
    const run = await read.maybe(Run, run_id)
    if (!run) throw new Refusal('RUN_NOT_FOUND', `there is no run ${run_id}`)
    return { run, mailbox: await read.raw(Mailbox, run_id), found: await read.raw(Posting, postingId(run_id, number)) }
  },
  decide({ run, mailbox, found }, outcome, { now }) {
    const isSettled = outcome.state !== 'waiting' && mailbox?.attempt === outcome.attempt
    const held = isSettled && outcome.state === 'accepted' ? acceptRun(mailbox) : mailbox
    const settles = isSettled ? [ackMailbox(held!, outcome.number, !isActive(run.state))] : []
    return { facts: [], puts: [...noteAttempt(found, run, mailbox, outcome, now), ...settles], output: { recorded: true } }
  },
  example: {
    given: 'posted',
    as: 'system',
    input: ({ run }) => ({
      run_id: run.id,
      number: 1,
      attempt: 0,
      state: 'waiting',
      status: 503,
      duration_ms: 12,
      error: 'it answered 503',
    }),
  },
})

type Listing = { readonly agent: OfAgent['agent'] | null; readonly isOfRun: boolean }
const reader = forAgentsToo(role<Listing>('a reader of the run', (_, { isOfRun }) => isOfRun))
const ofAgent = (is: (actor: Actor, state: OfAgent) => boolean) => (actor: Actor, state: Listing) =>
  state.agent !== null && is(actor, { agent: state.agent })
const itself = forAgentsToo(role<Listing>(agentItself.name, ofAgent(agentItself.is)))
const itsOwner = role<Listing>(agentOwner.name, ofAgent(agentOwner.is))

const ListInput = t.Object({ run_id: t.Optional(Id), agent_id: t.Optional(Id), ...pageInput })

async function listPostings(read: Read, input: Static<typeof ListInput>, prefix: string, actor: Actor) {
  const index = input.run_id === undefined ? 'agent' : 'run'
  const found = await read.list(Posting, index, [[prefix]], { ...pageIn('delivery.list', input), reverse: true })
  const items = await Promise.all(found.map(({ id }) => read.raw(Posting, id)))
  return { found, items: items.filter((item) => item !== null).filter((item) => isIn(actor, item.project_id)) }
}

const list = query({
  name: 'delivery.list',
  summary: 'List the outcomes of messages to a webhook, the newest first: of a run for its readers, of an agent for its owner.',
  draft: 'ours: the delivery log',
  input: ListInput,
  output: t.Object({ items: t.Array(Posting.schema), next_cursor: nextCursor }),
  callers: [system, administrator, installationOwner, itself, itsOwner, reader],
  async load(read, input, { actor }) {
    const { run_id, agent_id } = input
    if (run_id !== undefined && agent_id !== undefined)
      throw new Refusal('INVALID_REQUEST', 'give run_id or agent_id, not both', { field: 'run_id' })
    if (run_id === undefined) {
      const agent = await seenAgent(read, agent_id, actor)
      return { agent, isOfRun: false, ...(await listPostings(read, input, agent.id, actor)) }
    }
    if (!(await read.maybe(Run, run_id))) throw new Refusal('RUN_NOT_FOUND', `there is no run ${run_id}`)
    return { agent: null, isOfRun: true, ...(await listPostings(read, input, run_id, actor)) }
  },
  view: ({ found, items }, input) => pageOf('delivery.list', input, found, items),
  example: { given: 'posted', as: 'robin', input: ({ run }) => ({ run_id: run.id }) },
})

const forget = forgetEntry(Posting, {
  name: 'delivery.forget',
  summary: 'Forget the log entry of one message. The system calls it by timer.',
  example: { given: 'posted', as: 'system', input: ({ run }) => ({ id: postingId(run.id, 1) }) },
})

export const webhookOperations = [rotate, push, record, list, forget]
