// Roles on a task and preconditions. Both read as sentences.
import { Refusal } from '#kernel/declare/errors.ts'
import { type Actor, forAgentsToo, heldBy, role, speaksFor, type Subject, SYSTEM_ID, worksIn } from '#kernel/declare/access.ts'
import { rule, type Read, type Rule } from '#kernel/declare/operation.ts'
import { hasTime } from '#kernel/codec/timestamps.ts'
import { canMove } from '#kernel/declare/transitions.ts'
import { isTerminal, type ArtifactVersion, type Checkpoint, type Task } from './schema.ts'
import { taskMoves } from './states.ts'

type OfTask = { readonly task: Task }
type OfCheckpoint = OfTask & { readonly checkpoint: Checkpoint }

/** The human responsible for the task (HACP 0.1.0, Roles), or their substitute, unless that substitute is its executor. */
export const principal = heldBy(
  "the task's principal",
  role<OfTask>(
    'principal',
    (actor, { task }) =>
      actor.kind === 'human' && speaksFor(actor, task.ownership.principal, task.project_id) && !judgesOwnWork(actor, task),
    (actor, { task }) => inPlaceOf(actor, task.ownership.principal),
  ),
)
/** A human named as reviewer on the task, or their substitute, but never its executor. */
export const reviewer = heldBy(
  'a reviewer',
  role<OfTask>(
    'reviewer',
    (actor, { task }) =>
      actor.kind === 'human' && actor.id !== task.executor && task.reviewers.some((who) => speaksFor(actor, who, task.project_id)),
    (actor, { task }) => inPlaceOf(actor, task.reviewers.find((who) => speaksFor(actor, who, task.project_id)) ?? actor.id),
  ),
)
const judgesOwnWork = (actor: Actor, task: Task): boolean => actor.id === task.executor && actor.id !== task.ownership.principal
const inPlaceOf = (actor: Actor, whose: string): string | null => (actor.id === whose ? null : whose)
/** The task's executor, even while a person holds the task, so that a call in the wrong state is refused because of the state. */
export const executor = forAgentsToo(
  heldBy(
    "the task's executor",
    role<OfTask>('executor', (actor, { task }) => actor.id === task.executor),
  ),
)
export const executingAgent = forAgentsToo(
  heldBy(
    'the agent that executes the task',
    role<OfTask>('executing agent', (actor, { task }) => actor.kind === 'agent' && actor.id === task.executor),
  ),
)

/** A precondition by the state table: the draft's PRECONDITION_FAILED. */
export const allows = (event: string, name = event) =>
  rule<OfTask>(
    'PRECONDITION_FAILED',
    `the task's state allows ${name}`,
    ({ task }) => canMove(taskMoves, task.state, event),
    `the task's state does not allow ${name}`,
    ({ task }) => `the task is ${task.outcome === 'cancelled' ? 'cancelled' : task.state}, and that state does not allow ${name}`,
  )
/** HLP: refuses a caller that decided on an older state of the task. */
type Expected = { readonly expected_task_revision?: number }
export const isAtRevision: Rule<OfTask, Expected> = {
  ...rule<OfTask, Expected>(
    'CONFLICT',
    'the task has the revision that the caller expects',
    ({ task: { revision = 0 } }, { expected_task_revision = revision }) => expected_task_revision === revision,
    'the task has changed since the expected revision: read it with task.get, then decide again',
    ({ task: { revision = 0 } }, { expected_task_revision }) =>
      `the task has revision ${revision}, not ${expected_task_revision}: read it with task.get, then decide again`,
  ),
  detailsFor: ({ task: { id, revision = 0 } }, { expected_task_revision }) => ({
    task_id: id,
    expected_task_revision,
    actual_task_revision: revision,
  }),
}
/** A required reviewer who does the work could not review it, and the task would never end. */
export const leavesReviewersFree = rule<OfTask, { readonly assignee?: string; readonly to?: string }>(
  'PRECONDITION_FAILED',
  'the executor is none of the required reviewers',
  ({ task }, { assignee, to = assignee }) => !task.spec.review_policy?.required_reviewers.includes(to!),
  'the review policy of the task requires a verdict of this person, who cannot review their own work: give it to another one',
)
export const isActive = rule<OfTask>(
  'PRECONDITION_FAILED',
  'the task has not ended',
  ({ task }) => !isTerminal(task.state),
  'the task has ended',
)

const OUT_OF_TIME = 'the deadline of the task has passed, or its max_duration is spent'
/** A passed deadline or a spent max_duration stops the agent, never the people; an ended task has no deadline. */
export const isInTime = rule<OfTask>(
  'DEADLINE_EXCEEDED',
  'the task is within its deadline and max_duration',
  ({ task }, _, { actor, now }) => {
    return actor.kind !== 'agent' || isTerminal(task.state) || hasTime(task, now)
  },
  OUT_OF_TIME,
)
/** Time limits for calls that the system makes in an agent's place. */
export const isWithinTime = rule<OfTask>(
  'DEADLINE_EXCEEDED',
  'the task is within its deadline and max_duration',
  ({ task }, _, { now }) => hasTime(task, now),
  OUT_OF_TIME,
)

/** Whether the system raised the question itself. A question that it only escalates to the next person is still the agent's. */
export const isOfSystem = ({ raised_by, escalates }: Pick<Checkpoint, 'raised_by' | 'escalates'>): boolean =>
  raised_by === SYSTEM_ID && escalates === undefined

/** A retry without time left would only raise the same question again. */
export const hasTimeToTryAgain = rule<OfCheckpoint, { readonly action: string }>(
  'DEADLINE_EXCEEDED',
  'the task has time left for another try',
  ({ task, checkpoint }, { action }, { now }) => action !== 'approve' || !isOfSystem(checkpoint) || hasTime(task, now),
  `${OUT_OF_TIME}: give it more time with task.extend before you approve another try, or reject to end it`,
)

export const isNotExpired = rule<OfCheckpoint>(
  'CHECKPOINT_EXPIRED',
  'the checkpoint has not expired',
  ({ checkpoint }, _, { hasPassed }) => {
    // A checkpoint on hold stays answerable; with every other policy it expires at its deadline, even before the timer has run.
    const isOver =
      checkpoint.state === 'pending' &&
      checkpoint.on_expiry !== 'hold' &&
      checkpoint.expires_at !== null &&
      hasPassed(checkpoint.expires_at)
    return checkpoint.state !== 'expired' && !isOver
  },
  'the checkpoint has expired',
)
export const isPending = rule<OfCheckpoint>(
  'PRECONDITION_FAILED',
  'the checkpoint is pending',
  ({ checkpoint }) => checkpoint.state === 'pending',
  'the checkpoint is no longer pending',
)

/** A read-only task refuses changes from every agent. */
export const isNotReadOnly = rule<OfTask>(
  'PRECONDITION_FAILED',
  'the task may be written to (its autonomy is read_only)',
  ({ task }) => task.spec.constraints.autonomy !== 'read_only',
  'the task may not be written to: its autonomy is read_only',
)
/** The default kind of a version: the successor of a plan is a plan until a plan is approved. */
export const kindAfter = (task: Task, parent: { readonly kind: 'plan' | 'deliverable' } | null): 'plan' | 'deliverable' =>
  task.plan_approved ? 'deliverable' : (parent?.kind ?? 'deliverable')

/** A waiting or read-only agent must not change anything; people can. */
export const isFreeToChange = rule<OfTask>(
  'PRECONDITION_FAILED',
  'an agent changes something only while its task is not blocked and its autonomy is not read_only',
  ({ task }, _, { actor }) => actor.kind !== 'agent' || (task.state !== 'blocked' && task.spec.constraints.autonomy !== 'read_only'),
  'the task is blocked, or its autonomy is read_only: an agent changes nothing then',
)
export const hasPlanFirst = rule<OfTask & { readonly parent: ArtifactVersion | null }, { readonly kind?: string }>(
  'PRECONDITION_FAILED',
  'a plan was approved before anything is delivered (autonomy plan_then_implement)',
  ({ task, parent }, { kind = kindAfter(task, parent) }) =>
    task.spec.constraints.autonomy !== 'plan_then_implement' || task.plan_approved || kind === 'plan',
  'no plan was approved yet, and nothing else may be delivered before (autonomy plan_then_implement)',
)

/** Specs, versions, reviews and entries are immutable; a request that tries to change the spec is refused. */
export const leavesSpecAlone = rule<unknown, { readonly spec?: unknown }>(
  'IMMUTABLE_VIOLATION',
  'a spec never changes after task.create: make a new task',
  (_, { spec }) => spec === undefined,
  'the spec never changes after task.create: make a new task',
)

/** Refuses a blank text that a person or an agent would have to act on. */
export function refuseBlank(message: string, field: string): void {
  if (message.trim() === '') throw new Refusal('INVALID_SPEC', `${field} is blank: write something`, { field })
}

/** Whether a subject can be asked: enabled, and still at work in the project. */
export const isActiveIn = worksIn

/** The person or agent, if it can get work in this project. */
export async function workerFor(read: Read, id: string, project_id: string): Promise<Subject> {
  const found = await read.subject(id)
  if (!isActiveIn(found, project_id))
    throw new Refusal('NOT_FOUND', `there is no active person or agent ${id} in this project`, { aap_code: 'AGENT_NOT_FOUND' })
  return found
}

export async function agentFor(read: Read, id: string, project_id: string): Promise<Subject> {
  const found = await workerFor(read, id, project_id)
  if (found.kind !== 'agent') throw new Refusal('INVALID_SPEC', `${id} is not an agent`)
  return found
}

/** A reviewer must be human (HACP 0.1.0, Roles). */
export async function reviewerFor(read: Read, id: string, project_id: string): Promise<Subject> {
  const found = await workerFor(read, id, project_id)
  if (found.kind !== 'human') throw new Refusal('INVALID_SPEC', `${id} is not a person: reviewers must be human`)
  return found
}
