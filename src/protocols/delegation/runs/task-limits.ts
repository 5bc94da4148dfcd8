// Limits that a task's people have set on its agent.
import { rule, type Context, type Read } from '#kernel/declare/operation.ts'
import { hasTime } from '#kernel/codec/timestamps.ts'

export type Restraint = { readonly autonomy: string | null; readonly isLate: boolean }

export async function restraintOf(read: Read, task_id: string | null, { now }: Pick<Context, 'now'>): Promise<Restraint> {
  const task = task_id === null ? null : await read.ports.tasks.task(read, task_id)
  return { autonomy: task?.spec.constraints.autonomy ?? null, isLate: task !== null && !hasTime(task, now) }
}

/** A passed deadline or a spent max_duration stops the agent, never the people, and not the word that its run ends. */
export const isInTime = rule<Pick<Restraint, 'isLate'>>(
  'DEADLINE_EXCEEDED',
  'the task is within its deadline and max_duration',
  ({ isLate }, _, { actor }) => actor.kind !== 'agent' || !isLate,
  'the deadline of the task has passed, or its max_duration is spent: only task.extend lets the agent continue',
)
