// Continuous control: a person interrupts, redirects or takes over a task without restarting it.
import { image } from '#kernel/declare/facts.ts'
import { anyone } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, query, rule, type Context, type Made, type Read } from '#kernel/declare/operation.ts'
import { nextCursor, pageIn, pageInput, pageOf } from '#kernel/declare/paging.ts'
import { t } from '#kernel/declare/schema.ts'
import { fact } from '../events.ts'
import { applyAnswer, answeredAlong, broughtBy } from '../task/answering.ts'
import { familyOf, type Family } from '../task/cancellation.ts'
import { plainQuestion, raisedOn, type Asked } from '../task/checkpoints.ts'
import { allows, principal, isAtRevision } from '../access.ts'
import { Amendment, Checkpoint, Id, Intent, Task, ExpectedRevision } from '../schema.ts'

type OfTask = { readonly task: Task }
const Reason = t.Optional(t.String({ minLength: 1, maxLength: limits.promptCharsMax }))

const WITH_ANOTHER = 'Interrupted together with a task above it.'

/** Descendants in progress, at any depth. */
const atWorkBelow = ({ children }: Family): Task[] =>
  children.flatMap((child) => [...(child.task.state === 'in_progress' ? [child.task] : []), ...atWorkBelow(child)])

/**
 * Stops the agent with a checkpoint of kind interrupt, which only people raise. Agents on tasks below stop in the same batch, which is
 * possible because the size of a tree is bounded.
 */
function interruptTree(family: Family, action: Stop, message: string, takeover: boolean, { actor, now, newId }: Context) {
  const raise = (task: Task, asked: Asked, isBounded: boolean) => raisedOn(task, newId('ckpt'), asked, now, 'task.interrupt', isBounded)
  const below = atWorkBelow(family).map((task) => raise(task, plainQuestion('interrupt', WITH_ANOTHER, actor.id), false))
  const brings = below.length > 0 ? { brings: below.map(({ checkpoint }) => checkpoint.id) } : {}
  const asked = raise(family.task, { ...plainQuestion('interrupt', message, actor.id), takeover, ...brings }, true)
  const raised = takeover ? { ...asked, task: { ...asked.task, taken_over: asked.checkpoint.id } } : asked
  const factsOf = ({ task, checkpoint }: Raised, name: Stop, at: number): Made[] => [
    fact(name, [image(Task, task)], at === 0 ? {} : { cause: 0 }),
    fact('task.checkpoint.raised', [image(Checkpoint, checkpoint)], { cause: at }),
  ]
  return {
    facts: [...factsOf(raised, action, 0), ...below.flatMap((child, i) => factsOf(child, 'task.interrupted', 2 * (i + 1)))],
    output: { task: raised.task, checkpoint: raised.checkpoint },
  }
}
type Stop = 'task.interrupted' | 'task.taken_over'
type Raised = { readonly task: Task; readonly checkpoint: Checkpoint }

async function familyToStop(read: Read, { task_id }: { readonly task_id: string }): Promise<Family> {
  return familyOf(read, await read(Task, task_id))
}

const interrupt = command({
  name: 'task.interrupt',
  summary: 'Stop the agent and all agents on parts of the task; they wait until the person answers the interrupt.',
  draft: 'continuous control: task.interrupt',
  input: t.Object({ task_id: Id, ...ExpectedRevision, reason: Reason }),
  output: t.Object({ task: Task.schema, checkpoint: Checkpoint.schema }),
  callers: [principal],
  requires: [isAtRevision, allows('task.interrupt')],
  audit: 'task.interrupted',
  besides: ['expected_task_revision'],
  load: familyToStop,
  decide: (family, { reason = 'Interrupted by the principal.' }, context) =>
    interruptTree(family, 'task.interrupted', reason, false, context),
  example: { given: 'in_progress', as: 'alice', input: ({ task }) => ({ task_id: task.id, reason: 'Wait, wrong branch.' }) },
})

const takeover = command({
  name: 'task.takeover',
  summary: 'Take the work into your own hands; the agent, and all who work on parts of the task, wait until task.return.',
  draft: 'continuous control: take-over',
  input: t.Object({ task_id: Id, ...ExpectedRevision, reason: Reason }),
  output: t.Object({ task: Task.schema, checkpoint: Checkpoint.schema }),
  callers: [principal],
  requires: [isAtRevision, allows('task.interrupt', 'task.takeover')],
  audit: 'task.taken_over',
  besides: ['expected_task_revision'],
  load: familyToStop,
  decide: (family, { reason = 'Taken over by the principal.' }, context) => interruptTree(family, 'task.taken_over', reason, true, context),
  example: { given: 'in_progress', as: 'alice', input: ({ task }) => ({ task_id: task.id }) },
})

type Returning = { readonly task: Task; readonly checkpoint: Checkpoint | null }

const giveBack = command({
  name: 'task.return',
  summary: 'Give a task that you took over back to its executor.',
  draft: 'continuous control: take-over',
  input: t.Object({
    task_id: Id,
    ...ExpectedRevision,
    comment: t.Optional(t.String({ maxLength: limits.textCharsMax })),
  }),
  output: t.Object({ task: Task.schema, checkpoint: Checkpoint.schema }),
  callers: [principal],
  requires: [
    isAtRevision,
    rule<Returning>(
      'PRECONDITION_FAILED',
      'the task was taken over',
      ({ checkpoint }) => checkpoint?.takeover === true && checkpoint.state === 'pending',
      'the task was not taken over: task.takeover comes first',
    ),
  ],
  audit: 'task.returned',
  besides: ['expected_task_revision'],
  async load(read, { task_id }) {
    const task = await read(Task, task_id)
    const checkpoint = task.pending_checkpoint === null ? null : await read(Checkpoint, task.pending_checkpoint)
    return { task, checkpoint, brought: await broughtBy(read, checkpoint) }
  },
  decide({ task, checkpoint, brought }, { comment }, { actor, now }) {
    const done = applyAnswer(
      { task, checkpoint: checkpoint! },
      { action: 'approve', ...(comment === undefined ? {} : { comment }) },
      actor.id,
      now,
    )
    const facts = [
      fact('task.checkpoint.resolved', [image(Checkpoint, done.checkpoint), image(Task, done.task)]),
      fact('task.returned', [image(Task, done.task)], { cause: 0 }),
    ]
    return { facts: answeredAlong(brought, facts, actor.id, now), output: done }
  },
  example: { given: 'taken_over', as: 'alice', input: ({ task }) => ({ task_id: task.id, comment: 'The config is fixed; go on.' }) },
})

const amend = command({
  name: 'task.amend',
  summary: 'Redirect the running agent without restarting it: append to the steering log. The spec never changes.',
  draft: 'continuous control: task.amend',
  input: t.Object({ task_id: Id, ...ExpectedRevision, text: t.String({ minLength: 1, maxLength: limits.textCharsMax }), intent: Intent }),
  output: t.Object({ task: Task.schema, amendment: Amendment.schema }),
  callers: [principal],
  requires: [
    isAtRevision,
    rule<OfTask>(
      'PRECONDITION_FAILED',
      'the task is in progress or blocked',
      ({ task }) => task.state === 'in_progress' || task.state === 'blocked',
      'the task is neither in progress nor blocked',
    ),
    rule<OfTask>(
      'QUOTA_EXCEEDED',
      `a task is amended at most ${limits.amendmentsPerTaskMax} times`,
      ({ task }) => task.amendments < limits.amendmentsPerTaskMax,
      `the task was amended ${limits.amendmentsPerTaskMax} times, which is the most: make a new task`,
    ),
  ],
  audit: 'task.amended',
  besides: ['expected_task_revision'],
  load: async (read, { task_id }) => ({ task: await read(Task, task_id) }),
  decide({ task }, { text, intent }, { actor, now, newId }) {
    const { id: task_id, project_id, root_task_id } = task
    const amendment = { id: newId('amd'), task_id, project_id, root_task_id, text, intent, by: actor.id, at: now }
    const next: Task = { ...task, amendments: task.amendments + 1 }
    return {
      facts: [fact('task.amended', [image(Amendment, amendment), image(Task, next)], { detail: { intent } })],
      output: { task: next, amendment },
    }
  },
  example: {
    given: 'in_progress',
    as: 'alice',
    input: ({ task }) => ({ task_id: task.id, text: 'Leave the old API alone.', intent: 'constrain' }),
  },
})

const steering = query({
  name: 'task.steering',
  summary: 'Read the steering log of a task, oldest first.',
  draft: 'continuous control: steering_log',
  input: t.Object({ task_id: Id, ...pageInput }),
  output: t.Object({ items: t.Array(Amendment.schema), next_cursor: nextCursor }),
  callers: [anyone],
  async load(read, input) {
    await read(Task, input.task_id)
    const listed = await read.list(Amendment, 'task', [[input.task_id]], pageIn('task.steering', input))
    return { listed, items: await Promise.all(listed.map(({ id }) => read(Amendment, id))) }
  },
  view: ({ listed, items }, input) => pageOf('task.steering', input, listed, items),
  example: { given: 'in_progress', as: 'devin', input: ({ task }) => ({ task_id: task.id }) },
})

export const controlOperations = [interrupt, takeover, giveBack, amend, steering]
