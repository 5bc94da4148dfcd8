// Steps of a task: each is an effect between two facts. It starts under the lock of its resource, where everything is checked once more;
// the port acts; it finishes. A step that a crash left open ends as unknown and is never done again.
import { definedFields } from '#kernel/codec/strict-json.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { system } from '#kernel/declare/access.ts'
import { image } from '#kernel/declare/facts.ts'
import { command, type Read } from '#kernel/declare/operation.ts'
import { t } from '#kernel/declare/schema.ts'
import type { Value } from '#kernel/log/store.ts'
import { daemonFact } from '../events.ts'
import type { DaemonPorts } from '../ports.ts'
import { allowsTool } from '../policy.ts'
import { Id, Outcome, Plan, Session, Step, stepId, Task, type PlannedStep } from '../schema.ts'
import { aboutTask, finishTask } from './task.ts'

export type StepRequest = {
  readonly task_id: string
  readonly session_id: string
  readonly policy: string
  readonly index: number
  readonly tool: string
  readonly args: Value
  readonly undo: boolean
}

const aboutStep = (task: Task, index: number, { tool, args_hash }: PlannedStep): Value => ({
  ...aboutTask(task),
  step_index: index,
  tool,
  args_hash,
})

const stoppedRefusal = (code: string, message: string): Refusal => new Refusal('STOPPED', message, { code })

/** P23, P24: checks under the lock everything that might have changed since the submission. */
async function startable(ports: DaemonPorts, read: Read, task_id: string, index: number): Promise<{ task: Task; planned: PlannedStep }> {
  const task = await read(Task, task_id)
  const planned = (await read(Plan, task_id)).steps[index]!
  const session = await read.raw(Session, task.session_id)
  if (task.finished_at !== null || task.waiting) throw stoppedRefusal('ended', 'the task does not run')
  if (task.cancelling || session?.state !== 'open') throw stoppedRefusal('cancelled', 'the task is cancelled')
  const policy = ports.policyOf(task.principal)
  const tool = ports.toolNamed(planned.tool)
  if (!policy || !tool || !allowsTool(policy, tool)) throw stoppedRefusal('denied', `the policy does not allow ${planned.tool} any more`)
  // A cap that was lowered since counts, an approval was for this very task.
  const cap = Math.min(task.cap, Math.max(policy.max_risk_level, policy.relax_to))
  const { risk_level } = ports.targetOf(tool, planned.args)
  if (risk_level > cap && (task.approval === null || !policy.approvals))
    throw stoppedRefusal('denied', `max_risk_level=${cap} < tool=${risk_level}`)
  return { task, planned }
}

const start = (ports: DaemonPorts) =>
  command({
    name: 'step.start',
    summary: 'Start a step under the lock of its resource, do it, and record its outcome. The daemon calls it.',
    draft: 'HACP hardware draft, 3.4, 7 and 12: every step start is audited, and no step exceeds the cap',
    input: t.Object({ task_id: Id, index: t.Integer({ minimum: 0 }) }),
    output: t.Object({ step: Step.schema, task: Task.schema }),
    callers: [system],
    requires: [],
    audit: 'task.step.start',
    effect: { port: 'device', conclude: 'hardware/step.finish' },
    load: (read, { task_id, index }) => startable(ports, read, task_id, index),
    decide({ task, planned }, { task_id, index }, { now }) {
      const { tool, args } = planned
      const step: Step = { id: stepId(task_id, index), task_id, index, tool, status: 'RUNNING', started_at: now, finished_at: null }
      const next: Task = { ...task, status: 'RUNNING', started_at: task.started_at ?? now }
      const begun = task.status === 'RUNNING' ? [] : [image(Task, next)]
      const { session_id, policy } = task
      const request: StepRequest = { task_id, session_id, policy, index, tool, args, undo: false }
      return {
        facts: [daemonFact('task.step.start', [image(Step, step), ...begun], { detail: aboutStep(task, index, planned) })],
        effect: { id: step.id, request },
        output: { step, task: next },
      }
    },
    example: { given: 'submitted', as: 'system', input: ({ task_id }) => ({ task_id, index: 0 }) },
  })

const finish = command({
  name: 'step.finish',
  summary: 'Record the outcome of a step; without one it is recorded as unknown. The daemon calls it once.',
  draft: 'HACP hardware draft, 3.5 and 7: every step finish is audited, a failed step has an error',
  input: t.Object({ id: t.String(), outcome: t.Optional(Outcome) }),
  output: t.Object({ step: Step.schema, task: Task.schema }),
  callers: [system],
  requires: [],
  audit: 'task.step.finish',
  async load(read, { id }) {
    const step = await read(Step, id)
    const task = await read(Task, step.task_id)
    return { step, task, planned: (await read(Plan, step.task_id)).steps[step.index]! }
  },
  decide({ step, task, planned }, { outcome = UNKNOWN }, { now }) {
    const { status, result, error, code, latency_ms } = outcome
    const results = {
      ...definedFields({ result, error, code }),
    }
    const next: Step = { ...step, status, ...results, latency_ms, finished_at: now }
    const failed = task.failed || status === 'FAILED'
    const detail = { ...aboutStep(task, step.index, planned), status, latency_ms, ...(code === undefined ? {} : { code }) }
    const isLast = step.index + 1 === task.steps
    // A normal end goes into the same batch. The runner handles every other end, because it might have to roll back first.
    const isDone = isLast && status === 'SUCCESS' && !failed && !task.cancelling && !isLate(task, now)
    const end = isDone ? finishTask(task, 'SUCCESS', null, now) : null
    const after = end?.task ?? { ...task, failed }
    const changes = end === null && failed !== task.failed
    return {
      facts: [
        daemonFact('task.step.finish', changes ? [image(Step, next), image(Task, after)] : [image(Step, next)], { detail }),
        ...(end === null ? [] : [daemonFact('task.finish', [image(Task, end.task)], { detail: end.detail, cause: 0 })]),
      ],
      output: { step: next, task: after },
    }
  },
  example: {
    given: 'submitted',
    as: 'system',
    refused: 'NOT_FOUND',
    input: { id: 'task_none/0', outcome: { status: 'SUCCESS', latency_ms: 1 } },
  },
})
const UNKNOWN: Outcome = {
  status: 'FAILED',
  code: 'unknown_outcome',
  error: 'the outcome is unknown: the daemon ended while the step was under way',
  latency_ms: 0,
}

/** W34: counted from the start of the first step. */
export const isLate = ({ started_at, max_duration_ms }: Task, now: string): boolean =>
  started_at !== null && max_duration_ms !== null && Date.parse(now) - Date.parse(started_at) > max_duration_ms

const fail = command({
  name: 'step.fail',
  summary: 'Record a step that could not begin: its resource stayed busy, or its moment had passed. The daemon calls it.',
  draft: 'W16: the lock is waited for, then the step is FAILED',
  input: t.Object({ task_id: Id, index: t.Integer({ minimum: 0 }), code: t.String(), error: t.String() }),
  output: t.Object({ step: Step.schema, task: Task.schema }),
  callers: [system],
  requires: [],
  audit: 'task.step.finish',
  load: async (read, { task_id, index }) => ({ task: await read(Task, task_id), planned: (await read(Plan, task_id)).steps[index]! }),
  decide({ task, planned }, { task_id, index, code, error }, { now }) {
    const step: Step = {
      id: stepId(task_id, index),
      task_id,
      index,
      tool: planned.tool,
      status: 'FAILED',
      error,
      code,
      latency_ms: 0,
      started_at: now,
      finished_at: now,
    }
    const next: Task = { ...task, status: 'RUNNING', started_at: task.started_at ?? now, failed: true }
    const detail = { ...aboutStep(task, index, planned), status: 'FAILED', code, latency_ms: 0 }
    return { facts: [daemonFact('task.step.finish', [image(Step, step), image(Task, next)], { detail })], output: { step, task: next } }
  },
  example: { given: 'submitted', as: 'system', input: ({ task_id }) => ({ task_id, index: 0, code: 'busy', error: 'gpio:17 is in use' }) },
})

const rollback = command({
  name: 'step.rollback',
  summary: 'Roll a step back, and record whether that succeeded. The daemon calls it.',
  draft: 'W33: in reverse order, each with its event',
  input: t.Object({ task_id: Id, index: t.Integer({ minimum: 0 }) }),
  output: t.Object({ rolled_back: t.Boolean() }),
  callers: [system],
  requires: [],
  audit: 'task.step.rollback.start',
  effect: { port: 'device', conclude: 'hardware/step.restored' },
  async load(read, { task_id, index }) {
    const task = await read(Task, task_id)
    return { task, step: await read(Step, stepId(task_id, index)), planned: (await read(Plan, task_id)).steps[index]! }
  },
  decide({ task, step, planned }, { task_id, index }) {
    const { session_id, policy } = task
    const request: StepRequest = { task_id, session_id, policy, index, tool: planned.tool, args: planned.args, undo: true }
    return {
      facts: [daemonFact('task.step.rollback.start', [image(Step, step)], { detail: aboutStep(task, index, planned) })],
      effect: { id: step.id, request },
      output: { rolled_back: false },
    }
  },
  example: { given: 'submitted', as: 'system', refused: 'NOT_FOUND', input: ({ task_id }) => ({ task_id, index: 0 }) },
})

const restored = command({
  name: 'step.restored',
  summary: 'Record whether a step could be rolled back. The daemon calls it once.',
  draft: 'W33: rolled_back true or false',
  input: t.Object({ id: t.String(), outcome: t.Optional(Outcome) }),
  output: t.Object({ rolled_back: t.Boolean() }),
  callers: [system],
  requires: [],
  audit: 'task.step.rollback',
  async load(read, { id }) {
    const step = await read(Step, id)
    return { step, task: await read(Task, step.task_id), planned: (await read(Plan, step.task_id)).steps[step.index]! }
  },
  decide({ step, task, planned }, { outcome }) {
    const rolled_back = outcome?.status === 'SUCCESS'
    const detail = { ...aboutStep(task, step.index, planned), status: rolled_back ? 'SUCCESS' : 'FAILED' }
    return { facts: [daemonFact('task.step.rollback', [image(Step, { ...step, rolled_back })], { detail })], output: { rolled_back } }
  },
  example: { given: 'submitted', as: 'system', refused: 'NOT_FOUND', input: { id: 'task_none/0' } },
})

export const stepOperations = (ports: DaemonPorts) => [start(ports), finish, fail, rollback, restored]
