// A task as people read it: what was done to it in a line, or the things that they ask about it first. `--json` has every field.
import type { Task } from '#protocols/collaboration/schema.ts'
import { escapeControl } from './safe-text.ts'

const firstLine = (text: string): string => escapeControl(text.split('\n', 1)[0]!)
const holderOf = ({ executor, ownership }: Task): string => executor ?? ownership.assignee
/** `completed` is the draft's word for every end: a task that was cancelled or rejected is called so. */
export const stateOf = ({ state, outcome }: Pick<Task, 'state' | 'outcome'>): string =>
  typeof outcome === 'string' && outcome !== 'accepted' ? outcome.split('_')[0]! : state

type Told = { readonly task: Task }
/** One line for an act that leaves a task behind. */
const acts: Readonly<Record<string, (told: Told) => string>> = {
  'task.create': ({ task }) => `created ${task.id}: ${firstLine(task.spec.goal)}`,
  'task.assign': ({ task }) => `assigned ${task.id} to ${holderOf(task)}`,
  'task.reassign': ({ task }) => `handed ${task.id} to ${holderOf(task)}`,
  'task.cancel': ({ task }) => `cancelled ${task.id}: ${firstLine(task.spec.goal)}`,
}

export const isTold = (answer: unknown): answer is Told =>
  typeof (answer as { task?: { spec?: { goal?: unknown } } | null } | null)?.task?.spec?.goal === 'string'

/** The act in a line; null: it is no such act. */
export const actLine = (operation: string, told: Told): string | null => (Object.hasOwn(acts, operation) ? acts[operation]!(told) : null)

/** The fields of a task, the ones that are asked for first. */
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
