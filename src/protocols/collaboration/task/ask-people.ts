// Questions of the system to the people of a task about its future, by the state that the task is in.
import { image } from '#kernel/declare/facts.ts'
import { SYSTEM_ID } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { cutTo } from '#kernel/codec/cut-text.ts'
import type { Made } from '#kernel/declare/operation.ts'
import { fact } from '../events.ts'
import { expireCheckpoint } from './cancellation.ts'
import { plainQuestion, raisedOn, supersededBy } from './checkpoints.ts'
import { moveTask } from './ownership.ts'
import { Checkpoint, Task } from '../schema.ts'

export type Escalated = { readonly facts: Made[]; readonly task: Task; readonly checkpoint: Checkpoint | null }

/** `cause` is the fact of the same decision that led to the question. */
export function askAbout(
  task: Task,
  pending: Checkpoint | null,
  message: string,
  id: string,
  now: string,
  cause: number | null,
): Escalated {
  const more = cause === null ? {} : { cause }
  const question = plainQuestion('escalation', cutTo(message, limits.promptCharsMax), SYSTEM_ID)
  if (task.state === 'blocked' && pending) {
    const over: Checkpoint = { ...expireCheckpoint(pending), reason: 'superseded' }
    const next = supersededBy(pending, task, id, question, now)
    return {
      facts: [
        fact('task.checkpoint.expired', [image(Checkpoint, over)], { ...more, detail: { reason: 'superseded' } }),
        fact('task.checkpoint.raised', [image(Checkpoint, next.checkpoint), image(Task, next.task)], more),
      ],
      ...next,
    }
  }
  // The task is idle or already with a person: there is nothing to decide now.
  if (task.state !== 'assigned' && task.state !== 'in_progress') return { facts: [], task, checkpoint: null }
  const started = task.state === 'assigned' ? moveTask(task, 'task.start', { via: 'handoff', reason: 'task.start', now }) : task
  const raised = raisedOn(started, id, question, now)
  const start = task.state === 'assigned' ? [fact('task.started', [image(Task, started)], more)] : []
  return {
    facts: [...start, fact('task.checkpoint.raised', [image(Checkpoint, raised.checkpoint), image(Task, raised.task)], more)],
    ...raised,
  }
}
