// The effect of an answer on a checkpoint, on its task, and on the interrupts of tasks below that came with it.
import { canonical } from '#kernel/log/canonical-json.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { image } from '#kernel/declare/facts.ts'
import { mergePatch, refuseMismatch } from '#kernel/declare/foreign-schema.ts'
import { limits } from '#kernel/limits.ts'
import type { Made, Read } from '#kernel/declare/operation.ts'
import { fact } from '../events.ts'
import { moveTask, withExecutor } from './ownership.ts'
import { Checkpoint, Task, type CheckpointAnswer } from '../schema.ts'

export type Resolving = { readonly checkpoint: Checkpoint; readonly task: Task }

/** The task after an answer: a reject ends it, any other answer continues it. */
export function applyAnswer({ checkpoint, task }: Resolving, answer: CheckpointAnswer, by: string, now: string): Resolving {
  const state = patchedState(checkpoint, answer)
  const resolved: Checkpoint = {
    ...checkpoint,
    state: 'resolved',
    resolution: { by, ...answer, ...(state === undefined ? {} : { state }), at: now },
  }
  const free: Task = { ...task, pending_checkpoint: null }
  const event = `checkpoint.resolve/${answer.action}`
  if (answer.action === 'reject') {
    const ended = moveTask(free, event, { via: 'reject', reason: 'checkpoint.resolve', now })
    return { checkpoint: resolved, task: { ...ended, outcome: 'rejected_at_checkpoint', outcome_reason: answer.comment ?? null } }
  }
  const via = answer.action === 'reassign' ? 'handoff' : 'approve'
  const hand = { via, reason: event, now } as const
  // A person hands the task on, so the delegation depth restarts at 0.
  const next = answer.action === 'reassign' ? withExecutor({ ...free, depth: 0 }, answer.reassign_to!, hand) : free
  return { checkpoint: resolved, task: moveTask(next, event, hand) }
}

/** The agent resumes from the state that the person edited, which must still match the agent's schema. */
function patchedState({ state_shown, state_schema }: Checkpoint, { state_patch }: CheckpointAnswer): unknown {
  if (state_patch === undefined) return undefined
  if (state_shown === null) throw new Refusal('INVALID_SPEC', 'the checkpoint shows no state to patch', { field: 'state_patch' })
  const patched = mergePatch(state_shown, state_patch)
  if (Buffer.byteLength(canonical(patched)) > limits.stateBytesMax)
    throw new Refusal('INVALID_SPEC', `the patched state is more than ${limits.stateBytesMax} bytes`, { field: 'state_patch' })
  if (state_schema !== null) refuseMismatch(state_schema, patched, 'INVALID_SPEC', 'state_patch')
  return patched
}

/** Pending interrupts of tasks below that were raised with this one, even if the actor cannot read those tasks. */
export async function broughtBy(read: Read, checkpoint: Checkpoint | null): Promise<Resolving[]> {
  const found = await Promise.all(
    (checkpoint?.brings ?? []).map(async (id) => {
      const below = await read.raw(Checkpoint, id)
      const task = below?.state === 'pending' ? await read.raw(Task, below.task_id) : null
      return below && task ? [{ checkpoint: below, task }] : []
    }),
  )
  return found.flat()
}

/**
 * Resolves the interrupts below in the same batch, and each task continues where it stopped. A task that has used up its transfers keeps
 * its interrupt for its own people, so that it does not block the others. `before` are the facts of the answer.
 */
export function answeredAlong(brought: readonly Resolving[], before: readonly Made[], by: string, now: string): Made[] {
  const free = brought.filter(({ task }) => task.ownership.chain.length < limits.transfersPerTaskMax)
  const done = free.map((interrupt) => applyAnswer(interrupt, { action: 'approve' }, by, now))
  const facts = done.map((next) =>
    fact('task.checkpoint.resolved', [image(Checkpoint, next.checkpoint), image(Task, next.task)], { cause: 0 }),
  )
  return [...before, ...facts]
}
