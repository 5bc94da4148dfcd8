// A task for people: one line about what was done to it, or a card with its main fields. `--json` has every field.
import type { Task } from '#protocols/collaboration/schema.ts'
import { escapeControl } from './safe-text.ts'

const firstLine = (text: string): string => escapeControl(text.split('\n', 1)[0]!)
const holderOf = ({ executor, ownership }: Task): string => executor ?? ownership.assignee
/** `completed` is the draft's word for every end: a task that was cancelled or rejected is called so. */
export const stateOf = ({ state, outcome }: Pick<Task, 'state' | 'outcome'>): string =>
  typeof outcome === 'string' && outcome !== 'accepted' ? outcome.split('_')[0]! : state

type TaskAnswer = { readonly task: Task }
/** The lines about operations that change a task. */
const acts: Readonly<Record<string, (answer: TaskAnswer) => string>> = {
  'task.create': ({ task }) => `created ${task.id}: ${firstLine(task.spec.goal)}`,
  'task.assign': ({ task }) => `assigned ${task.id} to ${holderOf(task)}`,
  'task.reassign': ({ task }) => `handed ${task.id} to ${holderOf(task)}`,
  'task.cancel': ({ task }) => `cancelled ${task.id}: ${firstLine(task.spec.goal)}`,
}

export const isTaskAnswer = (answer: unknown): answer is TaskAnswer =>
  typeof (answer as { task?: { spec?: { goal?: unknown } } | null } | null)?.task?.spec?.goal === 'string'

/** One line about an operation that changed a task; null: the operation has no such line. */
export const actLine = (operation: string, answer: TaskAnswer): string | null =>
  Object.hasOwn(acts, operation) ? acts[operation]!(answer) : null

/** The main fields of a task. */
export function taskCard(task: Task): Readonly<Record<string, unknown>> {
  const { spec, ownership, pending_checkpoint, delivered, reviewers, deadline, parent_task, created_at, project_id, type } = task
  return {
    id: task.id,
    state: stateOf(task),
    goal: spec.goal,
    criteria: spec.acceptance_criteria,
    held_by: holderOf(task),
    principal: ownership.principal,
    reviewers,
    waits_for: pending_checkpoint,
    delivered: delivered ?? null,
    deadline,
    parent_task,
    project: project_id,
    type,
    created_at,
  }
}
