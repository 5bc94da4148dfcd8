// Documents of the daemon: sessions, tasks with their plans and steps, and the daemon itself. All of them belong to one chain.
import { limits } from '#kernel/limits.ts'
import { doc, either, index, nullable, t, type Static } from '#kernel/declare/schema.ts'

/** The one chain of a daemon: each of its facts is one line of the audit file, in the same order and with the same number. */
export const DEVICE_SCOPE = 'device'
const scopeOf = (): string => DEVICE_SCOPE

export const Id = t.String({ minLength: 1, maxLength: 64, pattern: '^[0-9a-zA-Z_-]+$', description: 'an id of this daemon' })
/** A client's name for a task. A malformed one is reported as not found. */
export const NamedTask = t.String({ minLength: 1, maxLength: 1_000, description: 'the id of a task' })
const Timestamp = t.String()
const Fields = t.Record(t.String(), t.Unknown(), { additionalProperties: true })

/** The daemon as it was last started, and how many denials it has counted. */
export const Daemon = doc(
  'hardware.daemon',
  t.Object({ id: t.String(), device_id: t.String(), state: either('running', 'stopped'), version: t.String(), board: t.String() }),
  { scopeOf },
)
export const DAEMON = 'daemon'

export const Session = doc(
  'hardware.session',
  t.Object({
    id: t.String(),
    policy: t.String(),
    principal: t.String(),
    client_name: nullable(t.String()),
    client_version: nullable(t.String()),
    state: either('open', 'closed'),
    reason: nullable(either('closed', 'idle', 'shutdown')),
    opened_at: Timestamp,
    closed_at: nullable(Timestamp),
  }),
  { scopeOf, indexes: { open: index((s) => (s.state === 'open' ? [[s.policy]] : []), 1) } },
)
export type Session = Static<typeof Session.schema>

export const TaskStatus = either('QUEUED', 'RUNNING', 'SUCCESS', 'FAILED', 'CANCELLED')
export type TaskStatus = Static<typeof TaskStatus>

/** The subject of an approval, kept with the task that it allowed. */
const Approved = t.Object({ receipt_id: t.String(), request_id: t.String(), before: t.Array(t.Unknown()) })

export const Task = doc(
  'hardware.task',
  t.Object({
    id: t.String(),
    session_id: t.String(),
    policy: t.String(),
    principal: t.String(),
    intent: t.String(),
    status: TaskStatus,
    code: nullable(t.String()),
    cancelling: t.Boolean(),
    /** It waits for a person's approval, and nothing of it has begun. */
    waiting: t.Boolean(),
    steps: t.Integer(),
    /** A step has failed although the others continue. */
    failed: t.Boolean(),
    cap: t.Integer(),
    max_duration_ms: nullable(t.Integer()),
    abort_on_step_failure: t.Boolean(),
    rollback_on_failure: t.Boolean(),
    correlation_id: nullable(t.String()),
    approval: nullable(Approved),
    created_at: Timestamp,
    started_at: nullable(Timestamp),
    finished_at: nullable(Timestamp),
  }),
  {
    scopeOf,
    indexes: {
      open: index((task) => (task.finished_at === null ? [[task.policy]] : []), 1),
      principal: index((task) => [[task.principal, task.created_at]]),
    },
  },
)
export type Task = Static<typeof Task.schema>

export const PlannedStep = t.Object({
  tool: t.String(),
  args: Fields,
  /** `args_hash` covers it and the arguments, which could otherwise be guessed. */
  salt: t.String(),
  args_hash: t.String(),
  risk_level: t.Integer(),
  resource: nullable(t.String()),
})
export type PlannedStep = Static<typeof PlannedStep>

/** The steps that a task is to do, written once. */
export const Plan = doc('hardware.plan', t.Object({ id: t.String(), steps: t.Array(PlannedStep) }), { scopeOf })
export type Plan = Static<typeof Plan.schema>

export const StepStatus = either('RUNNING', 'SUCCESS', 'FAILED', 'CANCELLED')
export const Step = doc(
  'hardware.step',
  t.Object({
    id: t.String(),
    task_id: t.String(),
    index: t.Integer(),
    tool: t.String(),
    status: StepStatus,
    result: t.Optional(t.Unknown()),
    error: t.Optional(t.String()),
    code: t.Optional(t.String()),
    latency_ms: t.Optional(t.Number()),
    rolled_back: t.Optional(t.Boolean()),
    started_at: Timestamp,
    finished_at: nullable(Timestamp),
  }),
  { scopeOf },
)
export type Step = Static<typeof Step.schema>
export const stepId = (task_id: string, i: number): string => `${task_id}/${i}`

/** A receipt that has allowed something: it never does so again. */
export const UsedApproval = doc('hardware.approval', t.Object({ id: t.String(), task_id: t.String(), at: Timestamp }), { scopeOf })

/** The question to people about a waiting task, and its open request. */
export const Question = doc('hardware.question', t.Object({ id: t.String(), body: Fields, request_id: nullable(t.String()) }), {
  scopeOf,
  indexes: { open: index((question) => (question.request_id === null ? [] : [[]])) },
})
export type Question = Static<typeof Question.schema>

/** The outcome of a step, as the port reports it. */
export const Outcome = t.Object({
  status: either('SUCCESS', 'FAILED', 'CANCELLED'),
  result: t.Optional(t.Unknown()),
  error: t.Optional(t.String()),
  code: t.Optional(t.String()),
  latency_ms: t.Number(),
})
export type Outcome = Static<typeof Outcome>

// --- On the wire -----------------------------------------------------------------------------------------------------------

export const ShownStep = t.Object({
  tool: t.String(),
  status: StepStatus,
  result: t.Optional(t.Unknown()),
  error: t.Optional(t.String()),
  code: t.Optional(t.String()),
  latency_ms: t.Optional(t.Number()),
  skipped: t.Optional(t.Boolean()),
  rolled_back: t.Optional(t.Boolean()),
})
export type ShownStep = Static<typeof ShownStep>

export const ShownTask = t.Object({
  task_id: t.String(),
  status: TaskStatus,
  code: t.Optional(t.String()),
  intent: t.String(),
  steps: t.Array(ShownStep),
  created_at: Timestamp,
  finished_at: nullable(Timestamp),
  approval: t.Optional(t.Unknown()),
})
export type ShownTask = Static<typeof ShownTask>

export const TaskEvent = t.Object({
  task_id: t.String(),
  step_index: t.Optional(t.Integer()),
  phase: either('start', 'progress', 'finish', 'task_finish'),
  status: t.Optional(t.String()),
  ts: Timestamp,
})
export type TaskEvent = Static<typeof TaskEvent>

export const SubmittedTask = t.Object({
  intent: t.String({ maxLength: limits.goalCharsMax }),
  steps: t.Array(t.Object({ tool: t.String({ minLength: 1, maxLength: limits.nameCharsMax }), args: t.Optional(Fields) }), {
    minItems: 1,
    maxItems: limits.stepsMax,
  }),
  constraints: t.Optional(
    t.Object({
      max_duration_ms: t.Optional(t.Integer({ minimum: 1, maximum: limits.taskMsMax })),
      abort_on_step_failure: t.Optional(t.Boolean()),
      max_risk_level: t.Optional(t.Integer({ minimum: 0, maximum: 3 })),
      rollback_on_failure: t.Optional(t.Boolean()),
    }),
  ),
})
export type SubmittedTask = Static<typeof SubmittedTask>
