// Ownership: passing a task on. The executor can change; the principal never does.
import { Refusal } from '#kernel/declare/errors.ts'
import { image } from '#kernel/declare/facts.ts'
import { administrator, system } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, rule } from '#kernel/declare/operation.ts'
import { refusedAs, t, type Static } from '#kernel/declare/schema.ts'
import { fact } from '../events.ts'
import { moveTask, withExecutor } from '../task/ownership.ts'
import { agentFor, executingAgent, isActive, isInTime, workerFor, isAtRevision, leavesReviewersFree } from '../access.ts'
import { Id, Task, TaskSpecInput, Timestamp, Via, ExpectedRevision } from '../schema.ts'
import { narrowSpec, refuseUnknownInputs } from '../task/spec.ts'
import { addChild, newTask, treeBound } from './task.ts'

type OfTask = { readonly task: Task }
type To = { readonly to: string }
const isSomebodyElse = rule<OfTask, To>(
  'PRECONDITION_FAILED',
  'it goes to another executor',
  ({ task }, { to }) => to !== (task.executor ?? task.ownership.assignee),
  'the task is theirs already: name another one',
)

const transfer = command({
  name: 'ownership.transfer',
  summary:
    'Hand a task to another executor. While a person holds it, this says whom it goes back to; before task.assign it changes the assignee, and no work begins.',
  draft: 'HACP 0.1.0, Operations; Ownership',
  input: t.Object({ task_id: Id, ...ExpectedRevision, to: Id, via: t.Optional(refusedAs('INVALID_SPEC', Via)) }),
  output: t.Object({ task: Task.schema }),
  callers: [system, administrator],
  requires: [isAtRevision, isActive, isSomebodyElse, leavesReviewersFree],
  audit: 'ownership.transferred',
  besides: ['expected_task_revision'],
  async load(read, { task_id, to }) {
    const task = await read(Task, task_id)
    await workerFor(read, to, task.project_id)
    return { task }
  },
  decide({ task }, { to, via = 'handoff' }, { actor, now }) {
    // The system calls this for an agent's handoff. When a person hands the task on, the delegation depth restarts at 0.
    const updated = actor.kind === 'system' ? task : { ...task, depth: 0 }
    const next = withExecutor(updated, to, { via, reason: 'ownership.transfer', now })
    return {
      facts: [fact('ownership.transferred', [image(Task, next)], { detail: { to } })],
      output: { task: next },
    }
  },
  example: { given: 'in_progress', as: 'admin', input: ({ task }) => ({ task_id: task.id, to: 'agent_robin' }) },
})

const isDelegable = rule<OfTask>(
  'PRECONDITION_FAILED',
  'the task is delegable',
  ({ task }) => task.ownership.delegable,
  'the task is not delegable (spec.constraints.delegable or the way it was passed on)',
)
const isHeld = rule<OfTask>(
  'PRECONDITION_FAILED',
  'the executor holds the task',
  ({ task }) => task.state === 'assigned' || task.state === 'in_progress',
  'the task is neither assigned nor in progress, so its executor cannot pass it on',
)
const isShallow = rule<OfTask>(
  'PRECONDITION_FAILED',
  `work is delegated at most ${limits.delegationDepthMax} deep`,
  ({ task }) => task.depth < limits.delegationDepthMax,
  `the task was passed on ${limits.delegationDepthMax} times, which is the most`,
)

const DelegateInput = t.Object({
  ...ExpectedRevision,
  task_id: Id,
  to: Id,
  spec: t.Optional(TaskSpecInput),
  type: t.Optional(t.String({ minLength: 1, maxLength: limits.labelCharsMax })),
  deadline: t.Optional(Timestamp),
  delegable: t.Optional(t.Boolean()),
})

const delegate = command({
  name: 'ownership.delegate',
  summary: 'Pass the task down to another agent; with a spec, a part of it as a child task.',
  draft: 'HACP 0.1.0, Ownership; Operation Preconditions',
  input: DelegateInput,
  output: t.Object({ task: Task.schema, child: t.Union([Task.schema, t.Null()]) }),
  callers: [executingAgent],
  requires: [isAtRevision, isInTime, isDelegable, isHeld, isShallow, isSomebodyElse],
  audit: 'ownership.delegated',
  besides: ['expected_task_revision'],
  async load(read, { task_id, to, spec }, { actor }) {
    const task = await read(Task, task_id)
    await agentFor(read, to, task.project_id)
    if (spec) await refuseUnknownInputs(read, spec, task.project_id, actor)
    return { task }
  },
  decide({ task }, input, { now, newId }) {
    if (input.spec) return childOf(task, { ...input, spec: input.spec }, newId('task'), newId('aud'), now)
    const passed = withExecutor(task, input.to, { via: 'assign', reason: 'ownership.delegate', now })
    const next: Task = {
      ...passed,
      depth: task.depth + 1,
      ownership: { ...passed.ownership, delegable: input.delegable ?? passed.ownership.delegable },
    }
    return {
      facts: [fact('ownership.delegated', [image(Task, next)], { detail: { to: input.to } })],
      output: { task: next, child: null },
    }
  },
  example: { given: 'delegable', as: 'devin', input: ({ task }) => ({ task_id: task.id, to: 'agent_robin' }) },
})

/** A child task with the same principal and never more time than its parent. */
function childOf(
  parent: Task,
  input: Static<typeof DelegateInput> & { spec: Static<typeof TaskSpecInput> },
  id: string,
  event: string,
  now: string,
) {
  const { to, spec, type, delegable } = input
  const draft = newTask({
    id,
    event,
    now,
    project_id: parent.project_id,
    parent,
    principal: parent.ownership.principal,
    spec: narrowSpec(parent.spec.constraints, spec),
    type: type ?? parent.type,
    delegable,
    deadline: input.deadline,
    reviewers: parent.reviewers,
  })
  if (parent.deadline !== null && draft.deadline !== null && draft.deadline > parent.deadline) {
    throw new Refusal('INVALID_SPEC', 'a child task cannot have a later deadline than its parent', { field: 'deadline' })
  }
  const delegators = [...new Set([...parent.delegators, parent.executor!])]
  const created: Task = { ...draft, deadline: draft.deadline ?? parent.deadline, depth: parent.depth + 1, delegators }
  const child = moveTask({ ...created, executor: to, executors: [to] }, 'task.assign', { via: 'assign', reason: 'ownership.delegate', now })
  const task = addChild(parent, id)
  return {
    facts: [
      fact('ownership.delegated', [image(Task, task)], { detail: { to, child: id } }),
      fact('task.created', [image(Task, created)], { id: event, cause: 0 }),
      fact('task.assigned', [image(Task, child)], { cause: 1 }),
    ],
    atMost: [treeBound(child.root_task_id)],
    output: { task, child },
  }
}

export const ownershipOperations = [transfer, delegate]
