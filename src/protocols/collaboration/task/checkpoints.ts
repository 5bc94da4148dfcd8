// Raising and ending checkpoints, as the operations and the system share it.
import { definedFields } from '#kernel/codec/strict-json.ts'
import { timestampOf } from '#kernel/ports/clock.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { SYSTEM_ID } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import type { Read } from '#kernel/declare/operation.ts'
import { moveTask } from './ownership.ts'
import { isActiveIn, isOfSystem } from '../access.ts'
import type { CheckpointAnswer, Checkpoint, Task } from '../schema.ts'

/** Actions that can answer each kind of question. */
const actionsFor: Record<Checkpoint['kind'], readonly CheckpointAnswer['action'][]> = {
  approval: ['approve', 'reject', 'reassign'],
  choice: ['choose', 'reject', 'reassign'],
  input: ['provide', 'reject', 'reassign'],
  escalation: ['approve', 'reject', 'choose', 'provide', 'reassign'],
  interrupt: ['approve', 'reject', 'provide', 'reassign'],
}

/** The system asks how the task should continue; it never repeats the agent's question. */
const systemActions = ['approve', 'reject', 'reassign'] as const

type Question = Pick<Checkpoint, 'kind' | 'options' | 'proposed_actions' | 'raised_by' | 'escalates'>
function actionsOf(question: Question): readonly CheckpointAnswer['action'][] {
  return isOfSystem(question) ? systemActions : actionsFor[question.escalates ?? question.kind]
}
const wrong = (message: string, field: string): never => {
  throw new Refusal('INVALID_SPEC', message, { field })
}

/** The answer with the fields that its action uses, or INVALID_SPEC if it does not fit the question. */
export function fitAnswer(question: Question, answer: CheckpointAnswer): CheckpointAnswer {
  const { action, choice, input, reassign_to, comment, state_patch, edited_artifact_ref } = answer
  const allowed = actionsOf(question)
  if (!allowed.includes(action))
    wrong(`a checkpoint of kind ${question.escalates ?? question.kind} is answered with one of: ${allowed.join(', ')}`, 'action')
  if (action === 'reject' && (state_patch !== undefined || edited_artifact_ref !== undefined))
    wrong('a reject ends the task: there is nothing to continue from', 'state_patch')
  const fields = {
    ...definedFields({ comment, state_patch, edited_artifact_ref }),
    ...decidedActions(question, answer),
  }
  if (action === 'choose') {
    const ids = question.options.map((option) => option.id)
    return choice === undefined || !ids.includes(choice)
      ? wrong(`choice must be one of: ${ids.join(', ')}`, 'choice')
      : { action, choice, ...fields }
  }
  if (action === 'provide')
    return input === undefined ? wrong('input is required with the action provide', 'input') : { action, input, ...fields }
  if (action === 'reassign') {
    return reassign_to === undefined
      ? wrong('reassign_to is required with the action reassign', 'reassign_to')
      : { action, reassign_to, ...fields }
  }
  return { action, ...fields }
}

/** A checkpoint can ask about many actions. If the answer lists actions, unlisted ones are denied; a plain approve approves all. */
function decidedActions(
  question: Question,
  { action, approved_actions, denied_actions }: CheckpointAnswer,
): Pick<CheckpointAnswer, 'approved_actions' | 'denied_actions'> {
  // In records of earlier versions a question of the system can have the actions of the agent's earlier question.
  const proposed = isOfSystem(question) ? [] : question.proposed_actions.map(({ id }) => id)
  for (const [field, named] of Object.entries({ approved_actions, denied_actions })) {
    const unknown = named?.find((id) => !proposed.includes(id))
    if (unknown !== undefined) wrong(`${field} names ${unknown}, which was not proposed`, field)
  }
  if (action === 'reject' && approved_actions?.length) wrong('a reject approves nothing', 'approved_actions')
  const both = approved_actions?.find((id) => denied_actions?.includes(id))
  if (both !== undefined) wrong(`${both} is both approved and denied`, 'approved_actions')
  if (proposed.length === 0) return {}
  const isPlain = approved_actions === undefined && denied_actions === undefined
  const approved = isPlain ? (action === 'approve' ? proposed : []) : [...new Set(approved_actions ?? [])]
  return { approved_actions: approved, denied_actions: proposed.filter((id) => !approved.includes(id)) }
}

/** The stated default can choose or provide, never approve, and never take a risk (a timeout approves nothing). */
export function fittingDefault(question: Question, answer: CheckpointAnswer): CheckpointAnswer {
  const fitted = fitAnswer(question, answer)
  if (fitted.action !== 'choose' && fitted.action !== 'provide')
    throw new Refusal('INVALID_SPEC', 'a default may only choose or provide: nothing is approved by a timeout', { field: 'default' })
  const chosen = question.options.find((option) => option.id === fitted.choice)
  if (chosen && chosen.risk !== 'low')
    throw new Refusal('INVALID_SPEC', 'a default may only choose an option of low risk', { field: 'default' })
  return fitted
}

type AskedFields =
  | 'kind'
  | 'prompt'
  | 'options'
  | 'context'
  | 'proposed_actions'
  | 'state_shown'
  | 'state_schema'
  | 'expires_at'
  | 'on_expiry'
  | 'default'
  | 'raised_by'
  | 'takeover'
  | 'brings'
  | 'supersedes'
  | 'request_id'
export type Asked = Pick<Checkpoint, AskedFields>

/** A question without options, context or deadline. */
export const plainQuestion = (kind: Checkpoint['kind'], prompt: string, raised_by: string): Asked => ({
  kind,
  prompt,
  options: [],
  context: [],
  proposed_actions: [],
  state_shown: null,
  state_schema: null,
  expires_at: null,
  on_expiry: 'hold',
  default: null,
  raised_by,
  takeover: false,
})

/** A pending checkpoint and the task that waits for it. checkpoint.raise MUST move the task to blocked. */
export function raisedOn(
  task: Task,
  id: string,
  asked: Asked,
  now: string,
  event = 'checkpoint.raise',
  isBounded = asked.raised_by !== SYSTEM_ID,
): { checkpoint: Checkpoint; task: Task } {
  if (isBounded && task.checkpoints.length >= limits.checkpointsPerTaskMax) {
    throw new Refusal('QUOTA_EXCEEDED', `a task has at most ${limits.checkpointsPerTaskMax} checkpoints: continue in a new task`, {
      max: limits.checkpointsPerTaskMax,
    })
  }
  const checkpoint = newCheckpoint(task, id, asked, now)
  const blocked = moveTask(task, event, { via: 'checkpoint', reason: event, now })
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

/**
 * Replaces a pending question, which ends without an answer. The new question inherits only the takeover and the interrupts of tasks
 * below: an answer counts only for the question that the person saw.
 */
export function supersededBy(
  { id: checkpoint_id, prompt, takeover, brings }: Checkpoint,
  task: Task,
  id: string,
  question: Asked,
  now: string,
): { checkpoint: Checkpoint; task: Task } {
  const asked = newCheckpoint(
    task,
    id,
    { ...question, takeover, supersedes: { checkpoint_id, prompt }, ...(brings ? { brings } : {}) },
    now,
  )
  return {
    checkpoint: { ...asked, succeeds: checkpoint_id },
    task: { ...task, checkpoints: [...task.checkpoints, id], pending_checkpoint: id },
  }
}

/** The people after the current recipient who are active, can answer and have not declined, in the order in which they were named. */
export async function peopleAfter(read: Read, { routed_to, declined }: Checkpoint, task: Task): Promise<string[]> {
  // Without duplicates: a person named twice would be asked forever, and the people after them never.
  const people = [...new Set([task.ownership.principal, ...task.reviewers])]
  const later = people.slice(people.indexOf(routed_to) + 1).filter((id) => id !== task.executor && !hasDeclined(declined, id))
  const found = await Promise.all(later.map((id) => read.subject(id)))
  return later.filter((_, i) => isActiveIn(found[i]!, task.project_id))
}

const hasDeclined = (declined: Checkpoint['declined'] = [], id: string): boolean => declined.some(({ by }) => by === id)

/** The people who can answer and have not declined, in the order in which they were named. */
export async function peopleLeft(read: Read, { declined }: Checkpoint, task: Task, decliner: string): Promise<string[]> {
  const people = [...new Set([task.ownership.principal, ...task.reviewers])]
  const left = people.filter((id) => id !== task.executor && id !== decliner && !hasDeclined(declined, id))
  const found = await Promise.all(left.map((id) => read.subject(id)))
  return left.filter((_, i) => isActiveIn(found[i]!, task.project_id))
}

/**
 * The same question, put to the next person as an escalation. Without one it goes to the principal, or keeps its person if the principal
 * declined it. The last person has no deadline.
 */
export function successorOf(
  checkpoint: Checkpoint,
  task: Task,
  people: readonly string[],
  id: string,
  now: string,
): { checkpoint: Checkpoint; task: Task } {
  const isLast = people.length <= 1
  const { principal } = task.ownership
  const patience = checkpoint.expires_at === null ? null : Date.parse(checkpoint.expires_at) - Date.parse(checkpoint.raised_at)
  const successor: Checkpoint = {
    ...checkpoint,
    id,
    kind: 'escalation',
    ...(isOfSystem(checkpoint) ? {} : { escalates: checkpoint.escalates ?? checkpoint.kind }),
    raised_at: now,
    expires_at: isLast || patience === null ? null : timestampOf(Date.parse(now) + patience),
    on_expiry: isLast ? 'hold' : 'escalate',
    default: null,
    raised_by: SYSTEM_ID,
    routed_to: people[0] ?? (hasDeclined(checkpoint.declined, principal) ? checkpoint.routed_to : principal),
    succeeds: checkpoint.id,
    overdue: false,
  }
  return { checkpoint: successor, task: { ...task, checkpoints: [...task.checkpoints, id], pending_checkpoint: id } }
}
