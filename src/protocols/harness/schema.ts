// Sessions, declarations and callers as documents. Field names come from HCP 1.0; our own are marked.
import { readsProject, SYSTEM_SCOPE, type Actor } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { doc, either, index, nullable, t, type Static } from '#kernel/declare/schema.ts'
import { dueOfCursor, dueOfEarly, dueOfSession } from './session/deadlines.ts'
import { isEnded, sessionStates } from './states.ts'

const text = (maxLength: number, description?: string) => t.String({ maxLength, ...(description ? { description } : {}) })
export const Id = text(limits.idCharsMax)
export const Timestamp = text(40, 'an RFC 3339 time')
export const Words = text(limits.textCharsMax)
export const Open = t.Object({}, { additionalProperties: true })
export const Duration = text(40, 'an ISO 8601 duration such as PT72H')
export const HarnessId = t.String({
  pattern: '^[a-z0-9][a-z0-9-]{0,62}$',
  description: 'small letters, digits and dashes, at most 63: no dots, stars or capitals',
})
export const Name = t.String({
  pattern: '^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$',
  description: 'letters, digits, . _ : or -, at most 128',
})
export const Risk = either('R1', 'R2', 'R3', 'R4', 'R5')
export type Risk = Static<typeof Risk>
export const DataClass = either('T1', 'T2', 'T3', 'T4')
export type DataClass = Static<typeof DataClass>

// --- Declarations (L3) -----------------------------------------------------------------------------------------------------

export const Parameter = t.Object({
  min: t.Optional(t.Number()),
  max: t.Optional(t.Number()),
  unit: t.Optional(text(limits.labelCharsMax)),
  hard_limit: t.Optional(t.Union([t.Boolean(), t.Number()])),
})
export const SafetyEnvelope = t.Object({
  parameters: t.Optional(t.Record(t.String(), Parameter)),
  prohibited_actions: t.Optional(t.Array(text(limits.labelCharsMax), { maxItems: limits.harnessRulesMax })),
  emergency_procedures: t.Optional(
    t.Union([t.Array(text(limits.textCharsMax), { maxItems: limits.harnessRulesMax }), t.Record(t.String(), Words), Words]),
  ),
})
export type SafetyEnvelope = Static<typeof SafetyEnvelope>

const Safety = t.Object({
  risk_ceiling: t.Optional(Risk),
  risk_floor: t.Optional(Risk),
  requires_human_approval: t.Optional(t.Boolean()),
  involves_physical_resources: t.Optional(t.Boolean()),
  resource_types: t.Optional(t.Array(text(limits.labelCharsMax), { maxItems: limits.harnessRulesMax })),
  hazard_categories: t.Optional(t.Array(text(limits.labelCharsMax), { maxItems: limits.harnessRulesMax })),
})
export const Declaration = t.Object({
  name: Name,
  version: t.String({ pattern: '^\\d{1,6}\\.\\d{1,6}\\.\\d{1,6}(-[0-9A-Za-z.-]{1,40})?$', description: 'a version such as 1.2.0' }),
  description: t.Optional(Words),
  input_schema: t.Optional(Open),
  output_schema: t.Optional(Open),
  safety: t.Optional(Safety),
  constraints: t.Optional(
    t.Object({
      max_duration: t.Optional(Duration),
      concurrent_limit: t.Optional(t.Integer({ minimum: 1, maximum: limits.concurrencyMax })),
    }),
  ),
  extensions: t.Optional(t.Array(text(limits.labelCharsMax), { maxItems: limits.harnessRulesMax })),
})
export type Declaration = Static<typeof Declaration>
/** Fields that L3 marks as required: stored declarations of earlier versions can lack them, new ones must not. */
export const NewDeclaration = t.Object({
  ...Declaration.properties,
  description: Words,
  safety: t.Object({ ...Safety.properties, requires_human_approval: t.Boolean() }),
})

export const RiskRule = t.Object({
  path: t.String({
    minLength: 1,
    maxLength: limits.labelCharsMax,
    description: 'a place in the inputs: temperature, or oven.zones.0.target',
  }),
  op: either('>', '>=', '<', '<=', '==', '!='),
  value: t.Union([t.Number(), text(limits.labelCharsMax), t.Boolean()]),
  raise_to: Risk,
})
export type RiskRule = Static<typeof RiskRule>
const ClockTime = t.String({ pattern: '^([01]\\d|2[0-3]):[0-5]\\d$|^24:00$', description: 'a time of the day from 00:00 to 24:00' })
export const ContextRule = t.Union([
  t.Object({ kind: either('hours'), from: ClockTime, to: ClockTime, zone: text(60, 'a time zone such as Europe/Berlin'), raise_to: Risk }),
  t.Object({ kind: either('resource'), resource: t.String({ minLength: 1, maxLength: limits.labelCharsMax }), raise_to: Risk }),
])
export type ContextRule = Static<typeof ContextRule>

const CapabilitySchema = t.Object({
  id: Name,
  capability: Declaration,
  agent_id: Id,
  approvers: t.Array(Id),
  risk_rules: t.Array(RiskRule),
  context_rules: t.Array(ContextRule),
  safety_envelope: SafetyEnvelope,
  abort_timeout: Duration,
  approval_timeout: nullable(Duration),
  ask_from: nullable(either('R1', 'R2', 'R3')),
  declared_at: Timestamp,
  withdrawn: t.Boolean(),
})
export type Capability = Static<typeof CapabilitySchema>
/** A service of this harness for others, with the rules of its own side. */
export const Capability = doc('harness.capability', CapabilitySchema, {
  scopeOf: () => SYSTEM_SCOPE,
  indexes: {
    all: index((of) => (of.withdrawn ? [] : [[]])),
    agent: index((of) => (of.withdrawn ? [] : [[of.agent_id]]), 1),
  },
})

const CallerSchema = t.Object({
  id: HarnessId,
  caller_id: HarnessId,
  capabilities: t.Array(t.Union([Name, either('*')])),
  risk_max: Risk,
  data_max: DataClass,
  allowed_at: Timestamp,
  disallowed: t.Boolean(),
})
export type Caller = Static<typeof CallerSchema>
/** The permissions of another harness to submit here. */
export const Caller = doc('harness.caller', CallerSchema, {
  scopeOf: () => SYSTEM_SCOPE,
  indexes: { all: index((of) => (of.disallowed ? [] : [[]])) },
})

// --- Tasks (L4) ------------------------------------------------------------------------------------------------------------

export const Constraints = t.Object({
  max_duration: t.Optional(Duration),
  confidence_threshold: t.Optional(t.Number({ minimum: 0, maximum: 1 })),
  data_classification: t.Optional(DataClass),
  priority: t.Optional(either('low', 'normal', 'high', 'urgent')),
})
export const ExpectedOutput = t.Object({
  format: t.Optional(text(limits.labelCharsMax)),
  required_fields: t.Optional(t.Array(text(limits.labelCharsMax), { maxItems: limits.harnessRulesMax })),
  schema: t.Optional(Open),
})
export const TaskContext = t.Object(
  {
    purpose: t.Optional(Words),
    references: t.Optional(t.Array(t.Unknown(), { maxItems: limits.harnessRulesMax })),
    notes: t.Optional(Words),
    correlation_id: t.Optional(Id),
  },
  { additionalProperties: true },
)
export const taskFields = {
  capability: Name,
  capability_version: t.Optional(text(limits.labelCharsMax, 'a range of versions such as ^1.2.0')),
  intent: t.String({
    minLength: 1,
    maxLength: limits.goalCharsMax,
    description: 'the result to be reached; the other harness decides how',
  }),
  inputs: t.Optional(Open),
  constraints: t.Optional(Constraints),
  expected_output: t.Optional(ExpectedOutput),
  context: t.Optional(TaskContext),
  resume_from: t.Optional(
    t.Object(
      { session_id: Id, checkpoint_id: t.Optional(Id) },
      { description: 'an ended session, from whose snapshot the new one continues' },
    ),
  ),
}
export const Submission = t.Object({ ...taskFields, caller_id: HarnessId })
export type Submission = Static<typeof Submission>

export const Artifact = t.Object({
  name: t.String({ minLength: 1, maxLength: limits.nameCharsMax }),
  type: text(limits.labelCharsMax),
  uri: text(2_000),
  url: t.Optional(text(2_000)),
  size_bytes: t.Integer(),
  checksum: t.Optional(text(100)),
})
export type Artifact = Static<typeof Artifact>

const Rejection = t.Object({
  reason_code: text(limits.labelCharsMax),
  reason_message: Words,
  assessed_risk_level: t.Optional(nullable(Risk)),
  suggestion: t.Optional(nullable(Words)),
})
export type Rejection = Static<typeof Rejection>

export const Role = either('caller', 'callee')
const SessionSchema = t.Object({
  id: Id, // of a session that we submitted: of the message that it began with; of another's: of the session
  session_id: nullable(Id), // null until the callee has answered
  role: Role,
  state: either(...sessionStates),
  reason: nullable(text(limits.labelCharsMax)),
  waiting_for: nullable(either('human', 'answer', 'cleanup')),
  risk_level: nullable(Risk),
  data_classification: DataClass,
  caller_id: HarnessId,
  callee_id: HarnessId,
  submit_id: Id,
  capability: text(limits.labelCharsMax),
  created_at: Timestamp,
  updated_at: Timestamp,
  accepted_at: nullable(Timestamp),
  ended_at: nullable(Timestamp),
  outputs: nullable(t.Unknown()),
  outputs_valid: nullable(t.Boolean()),
  partial_outputs: nullable(t.Unknown()),
  artifacts: t.Array(Artifact),
  error: nullable(t.Object({ error_code: text(limits.labelCharsMax), error_message: Words })),
  error_details: nullable(t.Unknown()),
  execution_summary: nullable(Open),
  rejection: nullable(Rejection),
  metadata: Open,
  // Ours, from here on.
  project_id: Id,
  submitted_by: nullable(Id),
  agent_id: nullable(Id), // of a session of another harness: the agent that executes it
  run_id: nullable(Id),
  task_id: nullable(Id),
  abort_reason: nullable(Words),
  deadline: nullable(Timestamp), // when its time is up: for an answer of people, for the work, for the clean-up
  resources: t.Array(text(limits.labelCharsMax)),
  sealed: nullable(t.Record(t.String(), t.String())), // the sealed values of confidential fields by name: T3 and T4
})
export type Session = Static<typeof SessionSchema>

/** The actor who submitted it, the owners of its project, and administrators. The agent that executes it has its own operations. */
const mayRead = (session: Session, actor: Actor): boolean =>
  session.submitted_by === actor.id || session.agent_id === actor.id || readsProject(actor, session.project_id)

export const Session = doc('harness.session', SessionSchema, {
  noun: 'session',
  scopeOf: (session) => session.project_id,
  taskOf: (session) => session.task_id,
  visibleTo: mayRead,
  due: dueOfSession,
  wakes: (session) => session.id,
  indexes: {
    other: index(({ role, session_id, submit_id }) => {
      const other = role === 'caller' ? session_id : submit_id
      return other === null ? [] : [[other]]
    }),
    project: index((session) => [[session.project_id, session.created_at]]),
    by: index((session) => [[session.submitted_by ?? session.agent_id ?? '', session.created_at]]),
    open: index((session) => (session.role === 'callee' && !isEnded(session.state) ? [[session.capability]] : []), 1),
    resource: index((session) => (session.role === 'callee' && !isEnded(session.state) ? session.resources.map((name) => [name]) : []), 1),
    unanswered: index((session) =>
      session.role === 'caller' && session.session_id === null && !isEnded(session.state) ? [[session.callee_id]] : [],
    ),
    run: index((session) => (session.run_id === null ? [] : [[session.run_id]])),
  },
})

/** The task of a session as it was submitted; it never changes. */
export const Task = doc(
  'harness.task',
  t.Object({
    id: Id, // of the session
    project_id: Id,
    submission: Open, // without sealed fields
    sealed: nullable(t.Record(t.String(), t.String())),
    declaration: nullable(CapabilitySchema), // as it was when the session began
  }),
  { scopeOf: (task) => task.project_id, within: (task) => ({ doc: Session, id: task.id }) },
)
export type Task = Static<typeof Task.schema>

export const Event = doc(
  'harness.event',
  t.Object({
    id: text(120), // `${session}/${sequence}`
    session: Id,
    project_id: Id,
    sequence: t.Integer(),
    event_type: text(limits.labelCharsMax),
    data: t.Unknown(),
    message_id: Id,
    at: Timestamp,
    late: t.Optional(t.Boolean()),
    after_end: t.Optional(t.Boolean()), // it arrived when the session had ended, and is not one of its events
    sealed: t.Optional(t.String()),
  }),
  {
    scopeOf: (event) => event.project_id,
    taskOf: (event) => event.session,
    within: (event) => ({ doc: Session, id: event.session }),
    indexes: {
      session: index((event) => (event.after_end === true ? [] : [[event.session, event.sequence]])),
      late: index((event) => (event.after_end === true ? [[event.session, event.sequence]] : [])),
    },
  },
)
export type Event = Static<typeof Event.schema>
export const eventId = (session: string, sequence: number): string => `${session}/${String(sequence).padStart(9, '0')}`
const AFTER_END = '/late/'
/** The id of a late event, from its message id: it must not take a number of the session's own events. */
export const lateEventId = (session: string, message_id: string): string => `${session}${AFTER_END}${message_id}`
export const isLateEventKey = (key: string): boolean => key.includes(AFTER_END)

const Held = t.Object({
  order: t.Number(),
  type: text(40),
  message_id: Id,
  timestamp: Timestamp,
  payload: t.Unknown(),
  sealed: nullable(t.String()),
})
export type Held = Static<typeof Held>

/**
 * The progress of a session: numbers of the messages sent and processed, and the messages that wait for an earlier one. No fact describes
 * it; the messages that it counts are in the record.
 */
export const Cursor = doc(
  'harness.cursor',
  t.Object({
    id: Id,
    project_id: Id,
    role: Role,
    sequence: t.Integer(), // of the last event
    sent: t.Integer(), // messages in the outbox
    attempt: t.Integer(), // the last attempt of the run that reported
    steps: t.Integer(),
    checkpoints: t.Integer(),
    snapshot: nullable(Id), // the newest resumable one
    last_checkpoint: nullable(Id),
    risk_events: t.Array(Open),
    warnings: t.Array(Open),
    seen: t.Array(t.Object({ message_id: Id, digest: t.String() })),
    missing: t.Array(t.Integer()),
    closed: t.Optional(t.Boolean()), // its last event was taken
    late: t.Optional(t.Integer()), // events that arrived after the end
    held: t.Array(Held),
    gap_until: nullable(Timestamp),
    republish_at: nullable(Timestamp),
    abort: nullable(t.Object({ reason: Words })), // wanted before the session was known
  }),
  { scopeOf: (cursor) => cursor.project_id, due: dueOfCursor },
)
export type Cursor = Static<typeof Cursor.schema>

/** The token of a session and the first answer to a submission, which is repeated byte by byte. No fact holds them. */
export const Answer = doc(
  'harness.answer',
  t.Object({
    id: text(200), // `${caller_id}/${message_id}`
    session: nullable(Id),
    digest: t.String(),
    deliveries: t.Array(t.Unknown()),
    token: nullable(t.String()),
  }),
  { scopeOf: () => SYSTEM_SCOPE, indexes: { session: index((answer) => (answer.session === null ? [] : [[answer.session]])) } },
)
export type Answer = Static<typeof Answer.schema>
export const answerId = (caller_id: string, message_id: string): string => `${caller_id}/${message_id}`

/** The submission of this server that a session of another harness belongs to. Every event of the session reads it. */
export const Route = doc(
  'harness.route',
  t.Object({ id: text(200), session: Id }), // `${callee_id}/${session_id}`: another callee cannot take the place
  { scopeOf: () => SYSTEM_SCOPE },
)
export const routeId = (callee_id: string, session_id: string): string => `${callee_id}/${session_id}`

const EarlyMessage = t.Object({ envelope: Open, sealed: t.Record(t.String(), t.String()) })
export type EarlyMessage = Static<typeof EarlyMessage>
/** Messages that arrived before the answer that names their session. They are sealed: their class of data is not known yet. */
export const Early = doc(
  'harness.early',
  t.Object({
    id: text(200), // that of the route that the answer will make
    sender: HarnessId,
    session_id: Id,
    messages: t.Array(EarlyMessage),
    until: Timestamp,
  }),
  { scopeOf: () => SYSTEM_SCOPE, due: dueOfEarly, indexes: { sender: index((early) => [[early.sender]], 1) } },
)
export type Early = Static<typeof Early.schema>

/** Refusals of one broker user without rights here, counted for a minute. */
export const Stranger = doc('harness.stranger', t.Object({ id: text(255), since: Timestamp, count: t.Integer() }), {
  scopeOf: () => SYSTEM_SCOPE,
})

export const Snapshot = doc(
  'harness.snapshot',
  t.Object({
    id: text(200), // `${session}/${checkpoint_id}`
    session: Id,
    project_id: Id,
    checkpoint_id: Id,
    description: Words,
    resumable: t.Boolean(),
    created_at: Timestamp,
    state: t.Unknown(),
    sealed: nullable(t.String()),
  }),
  {
    scopeOf: (snapshot) => snapshot.project_id,
    within: (snapshot) => ({ doc: Session, id: snapshot.session }),
    indexes: { session: index((snapshot) => [[snapshot.session, snapshot.created_at, snapshot.checkpoint_id]], 1) },
  },
)
export type Snapshot = Static<typeof Snapshot.schema>

/** The text of an artifact that came with the end of a session. Bytes are stored as blobs. */
export const Content = doc(
  'harness.content',
  t.Object({
    id: text(400), // `${session}/${name}`
    session: Id,
    project_id: Id,
    name: text(limits.nameCharsMax),
    type: text(limits.labelCharsMax),
    text: nullable(t.String()),
    blob: nullable(t.String()),
    sealed: nullable(t.String()),
  }),
  { scopeOf: (content) => content.project_id, within: (content) => ({ doc: Session, id: content.session }) },
)
export type Content = Static<typeof Content.schema>

/** The failed attempts of a message, counted here because a classic queue counts nothing. */
export const Tries = doc('harness.tries', t.Object({ id: Id, tries: t.Integer(), at: Timestamp }), { scopeOf: () => SYSTEM_SCOPE })
