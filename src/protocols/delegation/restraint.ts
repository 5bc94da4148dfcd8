// What a task's people laid down, as it holds back the agent of a run. Protocols know one another's documents by name only.
import { rule, type Read } from '#kernel/operation.ts'
import { taskDoc } from './schema.ts'

export type Restraint = { readonly autonomy: string | null; readonly isLate: boolean }
type TaskLimits = {
  readonly overdue: boolean
  readonly deadline: string | null
  readonly spec: { readonly constraints: { readonly autonomy?: string } }
}

export async function restraintOf(read: Read, task_id: string | null, now: string): Promise<Restraint> {
  const task = task_id === null ? null : ((await read.raw(taskDoc(), task_id)) as TaskLimits | null)
  const isLate = task !== null && (task.overdue || (task.deadline !== null && task.deadline <= now))
  return { autonomy: task?.spec.constraints.autonomy ?? null, isLate }
}

/** A passed deadline stops the agent, never the people. */
export const isInTime = rule<Pick<Restraint, 'isLate'>>(
  'DEADLINE_EXCEEDED',
  'the task is within its deadline and max_duration',
  ({ isLate }, _, { actor }) => actor.kind !== 'agent' || !isLate,
  'the deadline of the task has passed, or its max_duration is spent: only task.extend lets the agent go on',
)
