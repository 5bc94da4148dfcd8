// Tasks of the daemon (HACP hardware draft, 3.4 to 3.6): submit, get, cancel, history. All steps of a submission are accepted, or none.
import { definedFields } from '#kernel/codec/strict-json.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { anyone, system, type Actor } from '#kernel/declare/access.ts'
import { image, put } from '#kernel/declare/facts.ts'
import { limits } from '#kernel/limits.ts'
import { command, query, rule, type Read } from '#kernel/declare/operation.ts'
import { nextCursor, pageIn, pageOf } from '#kernel/declare/paging.ts'
import { either, matches, nullable, parse, t } from '#kernel/declare/schema.ts'
import type { Value } from '#kernel/log/store.ts'
import { daemonFact } from '../events.ts'
import { approvalFor } from '../approval.ts'
import { argsHash } from '../audit-line.ts'
import type { DaemonPorts, ParsedStep } from '../ports.ts'
import { judgeSteps, type Judged } from '../judging.ts'
import {
  Id,
  NamedTask,
  Plan,
  Question,
  ShownTask,
  Step,
  stepId,
  SubmittedTask,
  Task,
  TaskEvent,
  UsedApproval,
  type PlannedStep,
  type ShownStep,
} from '../schema.ts'
import type { Policy } from '../policy.ts'
import { openSession, policyFor } from './session.ts'

const Given = t.Object({ receipt: t.Unknown(), request: t.Unknown() })

type Submitting = Judged & { readonly policy: Policy; readonly isUsed: boolean }

const submit = (ports: DaemonPorts) =>
  command({
    name: 'task.submit',
    summary: 'Submit an intent and its steps; all of them are checked before any of them runs.',
    draft: 'HACP hardware draft, 3.4: task.submit',
    input: t.Object({
      session_id: Id,
      task: SubmittedTask,
      approval: t.Optional(Given),
      wait_for_approval: t.Optional(t.Boolean()),
      correlation_id: t.Optional(t.String({ minLength: 1, maxLength: limits.idCharsMax })),
    }),
    output: t.Object({ task_id: t.String(), status: t.String() }),
    callers: [anyone],
    requires: [],
    audit: 'task.submit',
    // W24: a client that retries after a lost connection has another session.
    besides: ['session_id'],
    // W45: arguments that no schema names belong to no tool.
    understood: ({ task, ...rest }) => ({ ...rest, task: { ...task, steps: task.steps.map((step) => knownStep(ports, step)) } }),
    async load(read, { session_id, task, approval = null, wait_for_approval = false }, { actor, now }): Promise<Submitting> {
      await openSession(read, session_id, actor)
      const policy = policyFor(ports, actor)
      const found = await judgeSteps(ports, { session_id, policy, task, approval, waits: wait_for_approval, now })
      const most = policy.queue + policy.concurrent
      if ((await read.count(Task, 'open', [policy.name])) >= most) throw full(policy)
      const isUsed = found.approval !== null && (await read.maybe(UsedApproval, found.approval.receipt_id)) !== null
      return { ...found, policy, isUsed }
    },
    decide(state, { session_id, task, correlation_id = null }, { actor, now, newId, secret }) {
      const { policy, steps, cap, approval, asks, isUsed } = state
      if (isUsed) throw approvalUsedRefusal()
      const id = newId('task')
      const planned = steps.map((step) => plannedStep(step, secret))
      const created: Task = {
        id,
        session_id,
        policy: policy.name,
        principal: actor.id,
        intent: task.intent,
        status: 'QUEUED',
        code: null,
        cancelling: false,
        waiting: asks !== null,
        steps: steps.length,
        failed: false,
        cap,
        max_duration_ms: task.constraints?.max_duration_ms ?? null,
        abort_on_step_failure: task.constraints?.abort_on_step_failure ?? true,
        rollback_on_failure: task.constraints?.rollback_on_failure ?? false,
        correlation_id,
        approval: approval && { receipt_id: approval.receipt_id, request_id: approval.request_id, before: [...approval.before] },
        created_at: now,
        started_at: null,
        finished_at: null,
      }
      const questions = asks === null ? [] : [image(Question, { id, body: asks as Value, request_id: null })]
      const detail = {
        ...aboutTask(created),
        steps: steps.map(({ tool }, i) => ({ tool: tool.name, args_hash: planned[i]!.args_hash })),
      }
      return {
        facts: [
          daemonFact('task.submit', [image(Task, created), image(Plan, { id, steps: planned }), ...questions], { detail }),
          ...(approval ? [usedBy(created, approval, now)] : []),
        ],
        atMost: [
          {
            doc: Task,
            index: 'open',
            prefix: [policy.name],
            max: policy.queue + policy.concurrent,
            message: 'the queue is full',
            decidesAgain: true,
          },
        ],
        output: { task_id: id, status: 'QUEUED' },
      }
    },
    example: {
      given: 'session',
      as: 'client',
      input: ({ session_id }) => ({
        session_id,
        task: { intent: 'Light the lamp', steps: [{ tool: 'gpio.set', args: { line: 17, value: 1 } }] },
      }),
    },
  })

/** The step unchanged if its tool does not accept the arguments: such a submission is refused. */
function knownStep(ports: DaemonPorts, { tool, args = {} }: SubmittedTask['steps'][number]): object {
  const schema = ports.toolNamed(tool)?.params_schema
  return { tool, args: schema && matches(schema, args) ? parse(schema, args) : args }
}

const full = (policy: Policy): Refusal =>
  new Refusal('QUEUE_FULL', 'the queue is full', {
    reason: `the policy ${policy.name} lets ${policy.queue} tasks wait`,
    limit: policy.queue,
  })
const approvalUsedRefusal = (): Refusal =>
  new Refusal('APPROVAL_USED', 'the approval was used before', { reason: 'one approval covers one submission' })

function plannedStep({ tool, args, risk_level, resource }: ParsedStep, secret: () => string): PlannedStep {
  const salt = secret()
  return { tool: tool.name, args, salt, args_hash: argsHash(salt, args), risk_level, resource }
}

type Used = { readonly receipt_id: string; readonly request_id: string; readonly iss: string; readonly aud: string }
const usedBy = (task: Task, { receipt_id, request_id, iss, aud }: Used, now: string) =>
  daemonFact('approval.used', [image(UsedApproval, { id: receipt_id, task_id: task.id, at: now })], {
    detail: { ...aboutTask(task), receipt_id, request_id, iss, aud },
  })

/** Fields of each line of a task: they link it to the work that it belongs to and to the approval that allowed it (W46). */
export const aboutTask = ({ id: task_id, session_id, policy, correlation_id, approval }: Task): Value => ({
  session_id,
  task_id,
  policy,
  ...(correlation_id === null ? {} : { correlation_id }),
  ...(approval === null ? {} : { receipt_id: approval.receipt_id, request_id: approval.request_id }),
})

/** A task of this session. Tasks of other sessions are reported as absent. */
async function ownTask(read: Read, { session_id, task_id }: { session_id: string; task_id: string }, actor: Actor): Promise<Task> {
  await openSession(read, session_id, actor)
  const task = await read.raw(Task, task_id)
  if (task?.session_id !== session_id)
    throw new Refusal('TASK_NOT_FOUND', 'the session has no such task', { reason: 'task.history shows the tasks of earlier sessions' })
  return task
}

/** W23: omits steps that have not begun but still can. */
async function shownTask(read: Read, task: Task): Promise<ShownTask> {
  const plan = (await read.raw(Plan, task.id))!
  const steps: ShownStep[] = []
  for (const [i, { tool }] of plan.steps.entries()) {
    const step = await read.raw(Step, stepId(task.id, i))
    if (step) {
      const { status, result, error, code, latency_ms, rolled_back } = step
      steps.push({
        tool,
        status,
        ...definedFields({ result, error, code, latency_ms, rolled_back }),
      })
    } else if (task.finished_at !== null) steps.push({ tool, status: 'CANCELLED', skipped: true })
    else break
  }
  const { id, status, code, intent, created_at, finished_at, approval } = task
  const view = { task_id: id, status, ...(code === null ? {} : { code }), intent, steps, created_at, finished_at }
  return approval === null ? view : { ...view, approval: { receipt_id: approval.receipt_id, request_id: approval.request_id } }
}

const OfTask = t.Object({ session_id: Id, task_id: NamedTask })

const get = query({
  name: 'task.get',
  summary: 'Fetch a task with the results of its steps.',
  draft: 'HACP hardware draft, 3.5: task.get',
  input: OfTask,
  output: ShownTask,
  callers: [anyone],
  load: (read, input, { actor }) => ownTask(read, input, actor),
  view: (task, _, __, read) => shownTask(read, task),
  example: { given: 'submitted', as: 'client', input: ({ session_id, task_id }) => ({ session_id, task_id }) },
})

/** W21: the past events of a task in order, in the format of the subscription. */
async function pastEvents(read: Read, { id: task_id, steps, status, finished_at }: Task): Promise<TaskEvent[]> {
  const events: TaskEvent[] = []
  for (let step_index = 0; step_index < steps; step_index++) {
    const step = await read.raw(Step, stepId(task_id, step_index))
    if (!step) break
    events.push({ task_id, step_index, phase: 'start', ts: step.started_at })
    if (step.finished_at !== null) events.push({ task_id, step_index, phase: 'finish', status: step.status, ts: step.finished_at })
  }
  if (finished_at !== null) events.push({ task_id, phase: 'task_finish', status, ts: finished_at })
  return events
}

const past = query({
  name: 'task.events',
  summary: 'The events of a task so far. The bridge asks it for a subscriber.',
  draft: 'HACP hardware draft, 8: task.events',
  input: OfTask,
  output: t.Object({ events: t.Array(TaskEvent) }),
  callers: [anyone],
  load: (read, input, { actor }) => ownTask(read, input, actor),
  view: async (task, _, __, read) => ({ events: await pastEvents(read, task) }),
  example: { given: 'submitted', as: 'client', input: ({ session_id, task_id }) => ({ session_id, task_id }) },
})

const history = query({
  name: 'task.history',
  summary: 'List the tasks of a principal, newest first, also after a close and a restart.',
  draft: 'ours (W9): results outlive their session',
  input: t.Object({
    session_id: Id,
    limit: t.Optional(t.Integer({ minimum: 1, maximum: limits.pageMax })),
    cursor: t.Optional(t.String({ maxLength: 1_000 })),
  }),
  output: t.Object({ tasks: t.Array(ShownTask), next_cursor: nextCursor }),
  callers: [anyone],
  async load(read, { session_id, ...page }, { actor }) {
    await openSession(read, session_id, actor)
    const listed = await read.list(Task, 'principal', [[actor.id]], { ...pageIn('task.history', page), reverse: true })
    const tasks: ShownTask[] = []
    for (const [i, { id }] of listed.entries()) {
      tasks.push(await shownTask(read, (await read.raw(Task, id))!))
      if (read.isFull() && i + 1 < listed.length) return { listed: listed.slice(0, i + 1), tasks, isCut: true }
    }
    return { listed, tasks, isCut: false }
  },
  view({ listed, tasks, isCut }, { session_id: _, ...page }) {
    const { items, next_cursor } = pageOf('task.history', page, listed, tasks, isCut)
    return { tasks: items, next_cursor }
  },
  example: { given: 'submitted', as: 'client', input: ({ session_id }) => ({ session_id }) },
})

const cancel = command({
  name: 'task.cancel',
  summary: 'Ask a task to end: the step under way yields, and no other begins.',
  draft: 'HACP hardware draft, 3.6: task.cancel',
  input: OfTask,
  output: t.Object({ task_id: t.String(), status: t.String() }),
  callers: [anyone],
  requires: [],
  audit: 'task.cancel',
  load: (read, input, { actor }) => ownTask(read, input, actor),
  decide(task) {
    const { id: task_id } = task
    if (task.finished_at !== null) return { facts: [], output: { task_id, status: task.status } }
    if (task.cancelling) return { facts: [], output: { task_id, status: 'CANCELLING' } }
    const next: Task = { ...task, cancelling: true }
    return {
      facts: [daemonFact('task.cancel', [image(Task, next)], { detail: aboutTask(task) })],
      output: { task_id, status: 'CANCELLING' },
    }
  },
  example: { given: 'submitted', as: 'client', input: ({ session_id, task_id }) => ({ session_id, task_id }) },
})

/** The last fact of a task. */
export const finishTask = (task: Task, status: Task['status'], code: string | null, now: string) => {
  const next: Task = { ...task, status, code, waiting: false, finished_at: now }
  return { task: next, detail: { ...aboutTask(task), status, ...(code === null ? {} : { code }) } satisfies Value }
}

const finish = command({
  name: 'task.finish',
  summary: 'End a task; steps that have not begun are skipped. The daemon calls it.',
  draft: 'HACP hardware draft, 5: QUEUED -> RUNNING -> { SUCCESS | FAILED | CANCELLED }',
  input: t.Object({ task_id: Id, status: either('SUCCESS', 'FAILED', 'CANCELLED'), code: t.Optional(t.String()) }),
  output: t.Object({ status: t.String() }),
  callers: [system],
  requires: [
    rule<{ task: Task }>('STOPPED', 'the task has not ended', ({ task }) => task.finished_at === null, 'the task has ended already'),
  ],
  audit: 'task.finish',
  load: async (read, { task_id }) => ({ task: await read(Task, task_id) }),
  decide({ task }, { status, code = null }, { now }) {
    const end = finishTask(task, status, code, now)
    return { facts: [daemonFact('task.finish', [image(Task, end.task)], { detail: end.detail })], output: { status } }
  },
  example: { given: 'submitted', as: 'system', input: ({ task_id }) => ({ task_id, status: 'CANCELLED' }) },
})

const approve = (ports: DaemonPorts) =>
  command({
    name: 'task.approve',
    summary: 'Apply the answer to a waiting task. The daemon calls it.',
    draft: 'W5: wait_for_approval keeps the task QUEUED until then',
    input: t.Object({ task_id: Id, approval: Given }),
    output: t.Object({ task_id: t.String() }),
    callers: [system],
    requires: [
      rule<{ task: Task }>(
        'STOPPED',
        'the task waits',
        ({ task }) => task.waiting && task.finished_at === null && !task.cancelling,
        'the task no longer waits',
      ),
    ],
    audit: 'approval.used',
    async load(read, { task_id, approval: given }, { now }) {
      const task = await read(Task, task_id)
      const plan = await read(Plan, task_id)
      const policy = ports.policyOf(task.principal)
      if (!policy) throw new Refusal('APPROVAL_MISMATCH', 'the policy is gone')
      const steps = plan.steps.map(({ tool, args }) => {
        const known = ports.toolNamed(tool)!
        return { tool: known, args, ...ports.targetOf(known, args) }
      })
      const approval = await approvalFor(ports, policy, steps, given, now)
      return { task, approval, isUsed: (await read.maybe(UsedApproval, approval.receipt_id)) !== null }
    },
    decide({ task, approval, isUsed }, _, { now }) {
      if (isUsed) throw approvalUsedRefusal()
      const { receipt_id, request_id, before } = approval
      const next: Task = { ...task, waiting: false, approval: { receipt_id, request_id, before: [...before] } }
      const usedFact = usedBy(task, approval, now)
      return {
        facts: [{ ...usedFact, images: [...usedFact.images, { doc: Task, id: next.id, after: next }] }],
        output: { task_id: task.id },
      }
    },
    example: {
      given: 'submitted',
      as: 'system',
      refused: 'APPROVAL_INVALID',
      input: ({ task_id }) => ({ task_id, approval: { receipt: {}, request: {} } }),
    },
  })

const noteRequest = command({
  name: 'task.asked',
  summary: 'Remember which request asks people about a task; null: none does. The daemon calls it.',
  draft: 'W44: a waiting task that ends withdraws its request',
  input: t.Object({ task_id: Id, request_id: nullable(t.String()) }),
  output: t.Object({}),
  callers: [system],
  requires: [],
  audit: null,
  load: (read, { task_id }) => read(Question, task_id),
  decide: (question, { request_id }) => ({ facts: [], puts: [put(Question, question.id, { ...question, request_id })], output: {} }),
  example: { given: 'submitted', as: 'system', refused: 'NOT_FOUND', input: ({ task_id }) => ({ task_id, request_id: null }) },
})

export const taskOperations = (ports: DaemonPorts) => [submit(ports), get, past, history, cancel, finish, approve(ports), noteRequest]
