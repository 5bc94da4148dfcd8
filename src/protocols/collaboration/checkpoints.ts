// Raising and ending checkpoints, as the operations and the system share it.
import { timestampOf } from '#kernel/clock.ts'
import { Refusal } from '#kernel/errors.ts'
import { SYSTEM_ID } from '#kernel/identity.ts'
import { limits } from '#kernel/limits.ts'
import { moved } from './ownership.ts'
import type { Answer, Checkpoint, Task } from './schema.ts'

/** Which action answers which kind of question. */
const actionsFor: Record<Checkpoint['kind'], readonly Answer['action'][]> = {
  approval: ['approve', 'reject', 'reassign'],
  choice: ['choose', 'reject', 'reassign'],
  input: ['provide', 'reject', 'reassign'],
  escalation: ['approve', 'reject', 'choose', 'provide', 'reassign'],
}

/** The answer with the fields that its action uses, or INVALID_SPEC where it does not fit the question. */
export function fitting(checkpoint: Pick<Checkpoint, 'kind' | 'options'>, answer: Answer): Answer {
  const wrong = (words: string, field: string): never => {
    throw new Refusal('INVALID_SPEC', words, { field })
  }
  const { action, choice, input, reassign_to, comment } = answer
  const allowed = actionsFor[checkpoint.kind]
  if (!allowed.includes(action)) wrong(`a checkpoint of kind ${checkpoint.kind} is answered with one of: ${allowed.join(', ')}`, 'action')
  const said = comment === undefined ? {} : { comment }
  if (action === 'choose') {
    if (!checkpoint.options.some((option) => option.id === choice))
      wrong(`choice must be one of: ${checkpoint.options.map((option) => option.id).join(', ')}`, 'choice')
    return { action, choice: choice!, ...said }
  }
  if (action === 'provide')
    return input === undefined ? wrong('input is required with the action provide', 'input') : { action, input, ...said }
  if (action === 'reassign')
    return reassign_to === undefined
      ? wrong('reassign_to is required with the action reassign', 'reassign_to')
      : { action, reassign_to, ...said }
  return { action, ...said }
}

/** The stated default may choose or provide, never approve, and never take a risk (a timeout approves nothing). */
export function fittingDefault(checkpoint: Pick<Checkpoint, 'kind' | 'options'>, answer: Answer): Answer {
  const fitted = fitting(checkpoint, answer)
  if (fitted.action !== 'choose' && fitted.action !== 'provide')
    throw new Refusal('INVALID_SPEC', 'a default may only choose or provide: nothing is approved by a timeout', { field: 'default' })
  const chosen = checkpoint.options.find((option) => option.id === fitted.choice)
  if (chosen && chosen.risk !== 'low')
    throw new Refusal('INVALID_SPEC', 'a default may only choose an option of low risk', { field: 'default' })
  return fitted
}

export type Asked = Pick<Checkpoint, 'kind' | 'prompt' | 'options' | 'context' | 'expires_at' | 'on_expiry' | 'default' | 'raised_by'>

/** A pending checkpoint and the task that waits for it. checkpoint.raise MUST move the task to blocked. */
export function raisedOn(task: Task, id: string, asked: Asked, now: string): { checkpoint: Checkpoint; task: Task } {
  if (asked.raised_by !== SYSTEM_ID && task.checkpoints.length >= limits.checkpointsPerTaskMax) {
    throw new Refusal('QUOTA_EXCEEDED', `a task has at most ${limits.checkpointsPerTaskMax} checkpoints: go on in a new task`, {
      max: limits.checkpointsPerTaskMax,
    })
  }
  const checkpoint = newCheckpoint(task, id, asked, now)
  const blocked = moved(task, 'checkpoint.raise', { via: 'checkpoint', reason: 'checkpoint.raise', now })
  return { checkpoint, task: { ...blocked, checkpoints: [...task.checkpoints, id], pending_checkpoint: id } }
}

function newCheckpoint(task: Task, id: string, asked: Asked, now: string): Checkpoint {
  const { id: task_id, project_id, root_task_id } = task
  return {
    id,
    task_id,
    project_id,
    root_task_id,
    ...asked,
    state: 'pending',
    raised_at: now,
    resolution: null,
    routed_to: task.ownership.principal,
    succeeds: null,
    overdue: false,
  }
}

/** The same question, put to the next person as an escalation; the last one in the row may take all the time they need. */
export function successorOf(
  checkpoint: Checkpoint,
  task: Task,
  id: string,
  now: string,
  words?: string,
): { checkpoint: Checkpoint; task: Task } {
  // Each of those who may answer, once: somebody named twice would be asked for ever and the others never.
  const people = [...new Set([task.ownership.principal, ...task.reviewers.filter((id) => id !== task.executor)])]
  const next = people.indexOf(checkpoint.routed_to) + 1
  const isLast = words !== undefined || next >= people.length - 1
  const patience = checkpoint.expires_at === null ? null : Date.parse(checkpoint.expires_at) - Date.parse(checkpoint.raised_at)
  const successor: Checkpoint = {
    ...checkpoint,
    id,
    kind: 'escalation',
    prompt: words ?? checkpoint.prompt,
    raised_at: now,
    expires_at: isLast || patience === null ? null : timestampOf(Date.parse(now) + patience),
    on_expiry: isLast ? 'hold' : 'escalate',
    default: null,
    raised_by: SYSTEM_ID,
    routed_to: words === undefined ? (people[next] ?? task.ownership.principal) : task.ownership.principal,
    succeeds: checkpoint.id,
    overdue: false,
  }
  return { checkpoint: successor, task: { ...task, checkpoints: [...task.checkpoints, id], pending_checkpoint: id } }
}
