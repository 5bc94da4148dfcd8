// Agent cards, runs and their documents. Field names are the draft's; our own are marked.
import { readsProject, speaksFor, SYSTEM_SCOPE, type Actor } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { Attempt, forgetAt } from '#kernel/ports/delivery-log.ts'
import { doc, either, index, nullable, t, type Static } from '#kernel/declare/schema.ts'
import { taskKind } from '#kernel/ports/tasks.ts'
import { isActive, runStates } from './states.ts'

const text = (maxLength: number, description?: string) => t.String({ maxLength, ...(description ? { description } : {}) })
const someText = (maxLength: number) => t.String({ minLength: 1, maxLength })
export const Id = text(limits.idCharsMax)
export const Timestamp = text(40, 'an RFC 3339 time')
export const Text = text(limits.textCharsMax)
export const Open = t.Object({}, { additionalProperties: true })

// --- Agent card ------------------------------------------------------------------------------------------------------------

/** CAP's only way to name a capability. */
export const CapabilityRef = t.Object({ capability_id: someText(200), version: someText(40) })
export type CapabilityRef = Static<typeof CapabilityRef>
export const Tag = t.String({ pattern: '^[a-z0-9][a-z0-9._:-]{0,63}$', description: 'up to 64 small letters, digits, . _ : or -' })
export const Reach = either('pull', 'webhook', 'process', 'acp', 'local', 'hcp', 'a2a')

const CardSchema = t.Object({
  id: Id,
  agent_id: Id,
  name: someText(limits.nameCharsMax),
  description: Text,
  capabilities: t.Array(CapabilityRef),
  protocol: someText(limits.labelCharsMax),
  // Ours, from here on. The draft's endpoint is a separate document, because people must not see it.
  tags: t.Array(Tag),
  manifest: Open,
  concurrency: nullable(t.Integer()), // maximum of concurrent runs; null: no limit
  reach: Reach, // how it receives messages
  available: t.Boolean(),
  a2a: t.Optional(t.Boolean()), // other systems find its card and send it messages at /a2a/<agent_id>
  card_key: t.Optional(text(100)), // the key that signed the remote agent's own card when it was first read; `none`: that card is not signed
  declared: t.Optional(t.Array(Open)), // capabilities for other harnesses, declared by the operator
  owner: nullable(Id),
  projects: t.Array(Id), // from its registration: the projects that can find it
  disabled: t.Boolean(),
  updated_at: Timestamp,
})
export type Card = Static<typeof CardSchema>
const isMember = (actor: Actor, id: string): boolean => actor.projects !== 'all' && actor.projects.has(id)
const foundIn = (card: Card): readonly string[] => (card.disabled || !card.available ? [] : card.projects)
const capabilitiesOf = (card: Card): string[] => [...new Set(card.capabilities.map(({ capability_id }) => capability_id))]

export const Card = doc('delegation.card', CardSchema, {
  scopeOf: () => SYSTEM_SCOPE,
  visibleTo: (card, actor) =>
    card.id === actor.id || (actor.kind === 'human' && actor.owner === true) || card.projects.some((id) => isMember(actor, id)),
  indexes: {
    project: index((card) => foundIn(card).map((id) => [id])),
    capability: index((card) => foundIn(card).flatMap((id) => capabilitiesOf(card).map((name) => [id, name]))),
    tag: index((card) => foundIn(card).flatMap((id) => card.tags.map((tag) => [id, tag]))),
    reach: index((card) => (card.reach === 'a2a' ? [[card.reach]] : [])), // agents that a worker of the server speaks for
  },
})

/**
 * The address of an agent. No fact contains it: it is for the runtime and for agents, never for people. `credential` is what a remote agent
 * expects from us; no operation shows it.
 */
export const Endpoint = doc(
  'delegation.endpoint',
  t.Object({ id: Id, endpoint: text(2_000), credential: t.Optional(text(limits.a2aTokenCharsMax)) }),
  { scopeOf: () => SYSTEM_SCOPE },
)
export type Endpoint = Static<typeof Endpoint.schema>

/**
 * The secret that signs messages to a webhook. The server needs it to sign, so it is stored as is. No fact holds it, and only the response
 * that creates it shows it. The previous secret stays valid for a while, so that a receiver can switch over.
 */
export const Signing = doc(
  'delegation.signing',
  t.Object({ id: Id, secret: text(100), before: nullable(text(100)), before_until: nullable(Timestamp) }),
  { scopeOf: () => SYSTEM_SCOPE },
)
export type Signing = Static<typeof Signing.schema>

/** The draft's AgentCard. Only agents and the runtime get the endpoint. */
export const AgentCard = t.Object({ ...Card.schema.properties, endpoint: t.Optional(text(2_000)) })
export type AgentCard = Static<typeof AgentCard>

// --- Run -------------------------------------------------------------------------------------------------------------------

const Ancestor = t.Object({ run_id: Id, agent_id: Id, correlation_id: Id })
const Progress = t.Object({
  message: nullable(Text),
  percent: nullable(t.Number({ minimum: 0, maximum: 100 })),
  at: Timestamp,
  count: t.Integer(),
})

const RunSchema = t.Object({
  id: Id,
  run_id: Id, // the draft's name of `id`
  agent_id: Id,
  correlation_id: Id, // the task's id; for a run without a task, of its root run
  state: either(...runStates),
  created_at: Timestamp,
  // Ours, from here on.
  project_id: Id,
  task_id: nullable(Id), // null: a run without a task
  root_task_id: Id,
  parent_run: nullable(Id),
  chain: t.Array(Ancestor), // from the outermost run down to the parent
  owners: t.Optional(t.Array(Id)), // without a task: the owners of its agents, who can read it
  delegated_by: t.Optional(Id), // the agent that delegated it outside of a run
  continues: nullable(Id), // the run whose work it continues: after a review, a failure, or handed off
  capability: nullable(CapabilityRef),
  delegable: t.Boolean(),
  session_id: t.Optional(Id), // the session of another harness whose task it executes
  started_at: nullable(Timestamp),
  ended_at: nullable(Timestamp),
  checkpoint_id: nullable(Id), // the checkpoint that a blocked run waits for
  reason: nullable(text(limits.labelCharsMax)), // why it is blocked, or why it failed
  error: nullable(Text),
  result: t.Unknown(),
  progress: nullable(Progress),
  asked: t.Optional(t.Object({ message: Text, at: Timestamp })), // a question to the delegator: the next steering message answers it
})
export type Run = Static<typeof RunSchema>

/** A run as readers see it. Taking a run adds no fact, so `queued` comes from its mailbox and not from the run document. */
export const SeenRun = t.Object({
  ...RunSchema.properties,
  queued: t.Boolean({ description: 'no process has taken the run yet, or it waits to resume: its agent is not connected, or busy' }),
})
export type SeenRun = Static<typeof SeenRun>

const asItsTask = (of: { readonly task_id: string | null }) => (of.task_id === null ? null : { doc: taskKind(), id: of.task_id })

export const Run = doc('delegation.run', RunSchema, {
  scopeOf: (run) => run.project_id,
  taskOf: (run) => run.correlation_id,
  rootOf: (run) => run.root_task_id,
  visibleTo: mayRead,
  within: asItsTask,
  indexes: {
    root: index((run) => [[run.root_task_id, run.correlation_id]]),
    agent: index((run) => [[run.agent_id, run.state]], 2),
    project: index((run) => [[run.project_id, run.state]]),
    delegated: index((run) => (run.delegated_by === undefined ? [] : [[run.delegated_by, run.agent_id]])),
    // Active runs below a run without a task. Under a task only one run is current at a time.
    below: index((run) => (run.task_id === null && run.parent_run !== null && isActive(run.state) ? [[run.parent_run]] : []), 1),
  },
})
/** The agent that delegated the run; null if the runtime did. */
export const delegatorOf = ({ chain, delegated_by }: Pick<Run, 'chain' | 'delegated_by'>): string | null =>
  chain.at(-1)?.agent_id ?? delegated_by ?? null

/** A task's readers read its runs; without a task, the agents of its chain, its delegator, their owners and the owners of the project. */
function mayRead(run: Run, actor: Actor): boolean {
  if (run.task_id !== null) return true
  return (
    run.agent_id === actor.id ||
    delegatorOf(run) === actor.id ||
    run.chain.some(({ agent_id }) => agent_id === actor.id) ||
    (actor.kind === 'human' && (run.owners ?? []).some((who) => speaksFor(actor, who, run.project_id))) ||
    readsProject(actor, run.project_id)
  )
}

/** The draft's DelegateRequest, as it was when the run was made. It never changes. */
export const Request = doc(
  'delegation.request',
  t.Object({
    id: Id,
    project_id: Id,
    correlation_id: Id,
    root_task_id: Id,
    to_agent: Id,
    task_id: nullable(Id),
    capability: nullable(CapabilityRef),
    input: Open,
    parent_run: nullable(Id),
    context: nullable(Open), // ours: the context that a handoff passed along
    sealed: t.Optional(t.Record(t.String(), t.String())), // confidential input fields, opened when the run is handed out
  }),
  {
    scopeOf: (request) => request.project_id,
    taskOf: (request) => request.correlation_id,
    rootOf: (request) => request.root_task_id,
    within: (request) => ({ doc: Run, id: request.id }),
  },
)
export type Request = Static<typeof Request.schema>

/** The runs of a correlation id: at most one active root, and the current run. */
export const Work = doc(
  'delegation.work',
  t.Object({
    id: Id,
    project_id: Id,
    root_task_id: Id,
    task_id: nullable(Id),
    root_run: nullable(Id),
    current_run: nullable(Id),
    last_run: Id,
  }),
  {
    scopeOf: (work) => work.project_id,
    taskOf: (work) => work.id,
    rootOf: (work) => work.root_task_id,
    within: (work) => asItsTask(work) ?? { doc: Run, id: work.last_run },
  },
)
export type Work = Static<typeof Work.schema>

/** Reports of a harness to its task: a question or an artifact. */
export const ReportType = either('needs_approval', 'needs_choice', 'needs_input', 'artifact')
export const Report = doc(
  'delegation.report',
  t.Object({
    id: Id,
    run_id: Id,
    task_id: Id,
    project_id: Id,
    root_task_id: Id,
    type: ReportType,
    payload: Open,
    at: Timestamp,
  }),
  {
    scopeOf: (report) => report.project_id,
    taskOf: (report) => report.task_id,
    rootOf: (report) => report.root_task_id,
    within: (report) => ({ doc: Run, id: report.run_id }),
  },
)

// --- What waits for an agent -------------------------------------------------------------------------------------------------

export const Message = t.Object({
  number: t.Integer(),
  kind: either('run', 'block', 'resume', 'steer', 'cancel'),
  at: Timestamp,
  body: Open,
})
export type Message = Static<typeof Message>

/**
 * Unsettled messages to a run's agent, in order, and the process that holds them. No fact describes the mailbox: taking a message has no
 * effect to record, and its content is in the record already.
 */
export const Mailbox = doc(
  'delegation.mailbox',
  t.Object({
    id: Id, // of the run
    agent_id: Id,
    project_id: Id,
    reach: Reach,
    due: Timestamp, // when there is a message to take
    worker: nullable(text(limits.workerCharsMax)), // which process of the agent holds it
    until: nullable(Timestamp), // the end of its lease
    lease_ms: t.Optional(t.Integer()), // length of the lease
    queued: t.Optional(t.Boolean()), // not taken yet, or not accepted by a receiver
    // The agent has no free place: messages from this number on are held back.
    waits: t.Optional(t.Object({ since: Timestamp, from: t.Integer() })),
    at_work: t.Optional(t.Boolean()), // the run has one of its agent's places
    attempt: t.Integer(), // 0: it was not taken yet
    handed: t.Integer(), // the last number that was handed over in this attempt
    last: t.Integer(), // the last number that was given
    messages: t.Array(Message),
  }),
  {
    scopeOf: (mailbox) => mailbox.project_id,
    wakes: (mailbox) =>
      mailbox.waits === undefined && mailbox.messages.some(({ number }) => number > mailbox.handed) ? mailbox.agent_id : null,
    indexes: {
      due: index((mailbox) => (mailbox.messages.length > 0 && mailbox.waits === undefined ? [[mailbox.agent_id, mailbox.due]] : [])),
      waits: index(({ agent_id, waits }) => (waits === undefined ? [] : [[agent_id, waits.since]]), 1),
      at_work: index((mailbox) => (mailbox.at_work === true ? [[mailbox.agent_id]] : []), 1),
    },
  },
)
export type Mailbox = Static<typeof Mailbox.schema>

/** The delivery log of one message to a webhook, with its last attempts. Like a mailbox, it is not described by facts. */
export const Posting = doc(
  'delegation.posting',
  t.Object({
    id: text(120),
    run_id: Id,
    agent_id: Id,
    project_id: Id,
    number: t.Integer(),
    kind: Message.properties.kind,
    state: either('waiting', 'accepted', 'given_up'),
    attempts: t.Integer(),
    first_at: Timestamp,
    last_at: Timestamp,
    recent: t.Array(Attempt),
  }),
  {
    scopeOf: (posting) => posting.project_id,
    indexes: {
      run: index((posting) => [[posting.run_id, posting.first_at]]),
      agent: index((posting) => [[posting.agent_id, posting.first_at]]),
    },
    due: (posting) => [forgetAt('delegation/delivery.forget', posting)],
  },
)
export type Posting = Static<typeof Posting.schema>
export const postingId = (run_id: string, number: number): string => `${run_id}/${String(number).padStart(9, '0')}`

/** A step that a handler has finished, so that a restarted handler does not repeat it. */
export const Memo = doc(
  'delegation.memo',
  t.Object({ id: text(400), run_id: Id, project_id: Id, key: text(200), value: t.Unknown(), at: Timestamp }),
  { scopeOf: (memo) => memo.project_id, indexes: { run: index((memo) => [[memo.run_id]], 1) } },
)
export const memoId = (run_id: string, key: string): string => `${run_id}/${key}`

/** The channel of the outbox that posts to addresses of A2A. */
export const PUSH_CHANNEL = 'a2a-push'
export const PushName = t.String({ pattern: '^[A-Za-z0-9._~-]{1,100}$', description: 'up to 100 letters, digits, . _ ~ or -' })
/** Both become headers, so that neither has a line break. */
export const PushScheme = t.String({ pattern: '^[A-Za-z][A-Za-z0-9-]{0,39}$', description: 'of the header Authorization, such as Bearer' })
export const PushSecret = t.String({ pattern: '^[!-~]( *[!-~])*$', minLength: 1, maxLength: limits.a2aTokenCharsMax })
/**
 * An address that hears of changes of one piece of work, as its caller asked over A2A. No fact holds it, as with endpoints: the address and
 * its secrets are for the one who named it.
 */
export const Push = doc(
  'delegation.push',
  t.Object({
    id: t.String({ maxLength: limits.a2aIdCharsMax }),
    work_id: Id,
    config_id: PushName,
    agent_id: Id,
    project_id: Id,
    owner: Id,
    endpoint: t.String({ maxLength: limits.a2aUrlCharsMax }),
    token: t.Optional(PushSecret),
    scheme: t.Optional(PushScheme),
    credentials: t.Optional(PushSecret),
    created_at: Timestamp,
    look_at: Timestamp, // when it is looked at again, whether the work has ended
    sent: nullable(t.String({ maxLength: 100 })), // the digest of the state that was accepted last
  }),
  {
    scopeOf: (push) => push.project_id,
    visibleTo: (push, actor) => push.owner === actor.id,
    indexes: { work: index((push) => [[push.work_id]], 1) },
    due: (push) => [{ at: push.look_at, call: 'delegation/push.tidy', input: { push_id: push.id } }],
  },
)
export type Push = Static<typeof Push.schema>
export const pushId = (work_id: string, config_id: string): string => `${work_id}/${config_id}`
