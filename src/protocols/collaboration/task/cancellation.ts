// Ending a task and its dependents: its pending question expires, its active descendants end with it, and no work is started or resumed
// below it.
import { image } from '#kernel/declare/facts.ts'
import { rule, type Made, type Read } from '#kernel/declare/operation.ts'
import { canMove } from '#kernel/declare/transitions.ts'
import { fact } from '../events.ts'
import { moveTask } from './ownership.ts'
import { Checkpoint, isTerminal, Task } from '../schema.ts'
import { taskMoves } from '../states.ts'

/** A task, the checkpoint it waits for, and its descendants. */
export type Family = { readonly task: Task; readonly pending: Checkpoint | null; readonly children: readonly Family[] }

/** Reads without access checks: ending a task also ends descendants that the person cannot read. */
export async function familyOf(read: Read, task: Task): Promise<Family> {
  const pending = task.pending_checkpoint === null ? null : await read.raw(Checkpoint, task.pending_checkpoint)
  const children = (await Promise.all(task.children.map((id) => read.raw(Task, id)))).filter((child) => child !== null)
  return { task, pending, children: await Promise.all(children.map((child) => familyOf(read, child))) }
}

export function expireCheckpoint(checkpoint: Checkpoint): Checkpoint {
  return { ...checkpoint, state: 'expired' }
}

/** Facts in causal order. */
export function cancelFamily(family: Family, reason: string | null, now: string): { facts: Made[]; ended: Task } {
  const ending = createEnding([], 'parent_cancelled', now)
  const ended = ending.end(family, reason, null)
  return { facts: ending.facts, ended }
}

/** Ends the active descendants of a task that ended in another way. `before` are the facts that ended it. */
export function withoutChildren(family: Family, before: readonly Made[], now: string): Made[] {
  const ending = createEnding(before, 'parent_ended', now)
  ending.endChildren(family.children, before.length - 1)
  return ending.facts
}

function createEnding(before: readonly Made[], why: 'parent_cancelled' | 'parent_ended', now: string) {
  const facts: Made[] = [...before]
  return { facts, end, endChildren }

  function end({ task, pending, children }: Family, reason: string | null, cause: number | null): Task {
    const moving = moveTask(task, 'task.cancel', { via: 'handoff', reason: 'task.cancel', now })
    const next: Task = { ...moving, outcome: 'cancelled', outcome_reason: reason, pending_checkpoint: null }
    const cancelled = facts.push(fact('task.cancelled', [image(Task, next)], cause === null ? {} : { cause })) - 1
    if (pending?.state === 'pending') {
      const over = expireCheckpoint(pending)
      facts.push(fact('task.checkpoint.expired', [image(Checkpoint, over)], { cause: cancelled }))
    }
    endChildren(children, cancelled)
    return next
  }

  /** A child in review stays with its principal: the draft ends it by a review only. Tasks below it still end. */
  function endChildren(children: readonly Family[], cause: number): void {
    for (const child of children) {
      if (canMove(taskMoves, child.task.state, 'task.cancel')) end(child, why, cause)
      else endChildren(child.children, cause)
    }
  }
}

/** Whether a task above this one has ended. A new attempt begins after the rejected task that it names, not under it. */
export async function hasEndedAbove(read: Read, task: Pick<Task, 'parent_task' | 'new_attempt'>): Promise<boolean> {
  for (let below = task; below.parent_task !== null;) {
    const above = await read.raw(Task, below.parent_task)
    if (above === null) return false
    if (isTerminal(above.state) && !(above.state === 'rejected' && below.new_attempt)) return true
    below = above
  }
  return false
}

type Below = { readonly isUnderEnded: boolean }
/** Below an ended task only a verdict that ends the task is accepted: work that is no longer needed is not resumed. */
export const isNotTakenUpAgain = rule<Below & { readonly kind: string }, { readonly verdict: string }>(
  'CONFLICT',
  'a task above this one has not ended, or the verdict ends this one',
  ({ isUnderEnded, kind }, { verdict }) => !isUnderEnded || verdict === 'rejected' || (verdict === 'approved' && kind !== 'plan'),
  'a task above this one has ended, so this one is not worked on again: approve or reject what was delivered',
)
