// Contracts from collaboration to the inbox: a pending checkpoint and a task that is ready for review each have one open item, created in
// the batch that begins the wait and closed in the batch that ends it.
import { recode } from '#kernel/declare/errors.ts'
import { SYSTEM_ID } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { cutTo } from '#kernel/codec/cut-text.ts'
import type { Contract, ContractFact, Read } from '#kernel/declare/operation.ts'
import { parse } from '#kernel/declare/schema.ts'
import { SignatureFields } from '#kernel/signing/input.ts'
import { isOfSystem } from '#protocols/collaboration/access.ts'
import { ArtifactVersion, Checkpoint, Task, versionId } from '#protocols/collaboration/schema.ts'
import { actionOf } from '#protocols/execution/actions/index.ts'
import { mirroredItemId } from '#protocols/execution/mirror/ids.ts'
import { reviewItemOf } from '#protocols/execution/mirror/review-item.ts'
import { judgesOf } from '#kernel/ports/tasks.ts'
import { isOpen, Request } from '#protocols/execution/schema.ts'
import { contractsBetween, onEach, textIn, type Terms } from './contract.ts'
import { askedAs, checkpointResult, labelOf, reasonOf, reviewAs } from './inbox-messages.ts'

const to = contractsBetween({ from: 'collaboration', to: 'execution' })

// --- It begins to wait ---------------------------------------------------------------------------------------------------------

const askedBy = (kind: string | undefined): Pick<Request, 'asked_by'> =>
  kind === 'agent' ? {} : { asked_by: kind === 'system' ? 'system' : 'person' }

/** The fields that every item of a task has. */
async function itemFor(read: Read, task: Task, requester: string) {
  const kind = requester === SYSTEM_ID ? 'system' : (await read.subject(requester))?.kind
  return {
    requester,
    ...askedBy(kind),
    project_id: task.project_id,
    task_id: task.id,
    root_task_id: task.root_task_id,
    owner: task.ownership.principal,
  }
}

const onRaised: Contract[] = [
  to('checkpoint-waits', 'task.checkpoint.raised', 'request.mirror', async ({ subject: checkpoint }, read) => {
    // A checkpoint with a request already has its item: the request.
    if (checkpoint.request_id !== undefined) return null
    const item = await itemFor(read, await read(Task, checkpoint.task_id), checkpoint.raised_by)
    return { request_id: mirroredItemId(checkpoint.id), checkpoint_id: checkpoint.id, ...item, ...askedAs(checkpoint) }
  }),
  to('successor-keeps-its-request', 'task.checkpoint.raised', 'request.bind', ({ subject }) => {
    const { id, request_id, succeeds, prompt } = subject
    return request_id === undefined || succeeds === null ? null : { request_id, checkpoint_id: id, notice: prompt }
  }),
]

const onDelivered = onEach(['artifact.committed', 'artifact.edited'], (on) =>
  to(`${on}-waits`, on, 'request.mirror', async ({ subject: version }, read) => {
    const task = await read(Task, version.provenance.produced_by)
    if (task.state !== 'review_ready') return null
    return { ...(await itemFor(read, task, version.provenance.actor)), ...reviewAs(version, task) }
  }),
)

// --- It changes hands ----------------------------------------------------------------------------------------------------------

const isInReview = ({ state }: Task): boolean => state === 'review_ready' || state === 'under_review'
/** The first person to be asked for a verdict. */
const turnIn = (task: Task): string => judgesOf(task)[0] ?? task.ownership.principal

async function itemsOf(read: Read, task: Task): Promise<{ item: Request | null; turn: string }> {
  const checkpoint = task.pending_checkpoint === null ? null : await read.raw(Checkpoint, task.pending_checkpoint)
  if (checkpoint === null) return { item: isInReview(task) ? await reviewItemOf(read, task.id) : null, turn: turnIn(task) }
  return { item: await read.raw(Request, checkpoint.request_id ?? mirroredItemId(checkpoint.id)), turn: checkpoint.routed_to }
}

async function follows({ subject: task }: ContractFact<Task>, read: Read) {
  const { item, turn } = await itemsOf(read, task)
  if (item === null || !isOpen(item)) return null
  const judges = [...new Set(judgesOf(task))]
  const isSame = item.gone === undefined && judges.join() === item.people.join()
  return isSame ? null : { request_id: item.id, assigned_to: turn }
}

const onPeople = onEach(['task.reviewer_added', 'task.reviewer_removed', 'ownership.transferred'], (on) =>
  to(`${on}-reroutes`, on, 'request.reroute', follows),
)

const onOverdue = to('overdue-is-shown', 'task.checkpoint.overdue', 'request.reroute', async ({ subject }, read) => {
  const item = await read.raw(Request, mirroredItemId(subject.id))
  return item === null || !isOpen(item) ? null : { request_id: item.id, overdue: true }
})

// --- It ends -------------------------------------------------------------------------------------------------------------------

/** The open item of a checkpoint; null if the answer was given at the item and the checkpoint follows from it. */
async function openItem(read: Read, { id, request_id }: Checkpoint): Promise<Request | null> {
  const item = await read.raw(Request, request_id ?? mirroredItemId(id))
  return item !== null && isOpen(item) ? item : null
}
/** Passes on the digest that the person saw, so that an answer at the checkpoint cannot close an item that has changed. */
function shownAs({ detail }: ContractFact): { digest?: string } {
  const digest = textIn(detail, 'digest')
  return digest === undefined ? {} : { digest }
}
const message = (text: string | null | undefined) => (text ? { reason: cutTo(text, limits.reasonCharsMax) } : {})

/** The decider, with their own signature if they gave one: a person, or a policy that was set in advance. */
function decidedBy({ actor, basis, via, detail }: ContractFact, by: string, where: string) {
  if (basis.kind === 'policy') return { as: 'system:fallback', basis }
  const assertion = detail?.['assertion']
  // A substitute signs in their own name: the receipt names the person whom they stand in for.
  const signed = assertion === undefined || actor !== by ? {} : { assertion: parse(SignatureFields, assertion) }
  return { by, via: actor === by ? via : null, basis: { kind: 'role', id: where }, ...signed }
}

/** Translates refusals for a person who answers at the checkpoint. */
const inCodesOfTasks = recode({ EXPIRED: 'CHECKPOINT_EXPIRED', INVALID_RESULT: 'INVALID_SPEC' }, 'hxp_code')

/** Skips facts that an answer at the item caused: the item has ended already. */
const atTheCheckpoint: Terms<Checkpoint> = { when: ({ cause }) => !cause?.startsWith('execution/'), refused: inCodesOfTasks }

const onResolved = to(
  'answer-closes',
  'task.checkpoint.resolved',
  'request.close',
  async (fact, read) => {
    const checkpoint = fact.subject
    const item = await openItem(read, checkpoint)
    if (item === null) return null
    // In records of earlier versions a system question can have the agent's request, which it does not answer.
    if (isOfSystem(checkpoint) && checkpoint.request_id !== undefined)
      return { request_id: item.id, status: 'cancelled', reason: 'superseded', basis: fact.basis }
    const { by, comment, action } = checkpoint.resolution!
    const decided = { request_id: item.id, ...decidedBy(fact, by, 'answered at the checkpoint'), ...shownAs(fact) }
    if (action === 'reassign') return { ...decided, status: 'cancelled', reason: 'reassigned' }
    // A person delivered instead of answering: nothing was approved.
    if ((await read(Task, checkpoint.task_id)).state === 'review_ready') return { ...decided, status: 'cancelled', reason: 'delivered' }
    // A reject ends the task. It answers only an approval; for a choice or an input there is no result, so the item is cancelled.
    if (action === 'reject' && actionOf(item).isVerdict !== true)
      return { ...decided, status: 'cancelled', reason: 'rejected', ...message(comment) }
    return { ...decided, status: 'completed', result: checkpointResult(checkpoint, item), ...message(reasonOf(checkpoint.resolution!)) }
  },
  atTheCheckpoint,
)

const onDeclined = to(
  'decline-closes',
  'task.checkpoint.declined',
  'request.close',
  async (fact, read) => {
    const item = await openItem(read, fact.subject)
    const { by, reason } = fact.subject.declined!.at(-1)!
    const decided = { reason, ...decidedBy(fact, by, 'declined at the checkpoint'), ...shownAs(fact) }
    return item && { request_id: item.id, status: 'declined', ...decided }
  },
  atTheCheckpoint,
)

const onExpired = to('expiry-closes', 'task.checkpoint.expired', 'request.close', async ({ subject: checkpoint, basis, detail }, read) => {
  const item = await openItem(read, checkpoint)
  if (item === null) return null
  const task = await read(Task, checkpoint.task_id)
  const next = task.pending_checkpoint === null ? null : await read.raw(Checkpoint, task.pending_checkpoint)
  const isSucceeded = next?.succeeds === checkpoint.id
  // The next person gets the same question: the request continues with the checkpoint that replaces this one.
  if (isSucceeded && next.request_id === item.id) return null
  if (detail?.['on_expiry'] === 'fail') return { request_id: item.id, status: 'failed', reason: 'timeout', as: 'system:timeout', basis }
  return { request_id: item.id, status: 'cancelled', reason: isSucceeded ? 'superseded' : 'task_cancelled', basis }
})

const onReviewed = to('verdict-closes', 'review.submitted', 'request.close', async (fact, read) => {
  const { task_id, reviewer, verdict, requested_changes, comments } = fact.subject
  const item = await reviewItemOf(read, task_id)
  if (item === null) return null
  const remarks = [...requested_changes, ...comments.map(({ body }) => body)].join('\n')
  const decided = decidedBy(fact, reviewer, 'reviewed')
  return { request_id: item.id, status: 'completed', result: labelOf(item, verdict), ...message(remarks), ...decided, ...shownAs(fact) }
})

/** A vote that does not decide yet closes the item. The remaining reviewers get a new item. */
const onVoted = to('vote-leaves-the-others', 'review.submitted', 'request.mirror', async ({ subject, detail }, read) => {
  if (detail?.['outcome'] !== 'pending') return null
  const task = await read(Task, subject.task_id)
  const version = await read.raw(ArtifactVersion, versionId(subject.artifact_id, subject.artifact_version))
  return version && { ...(await itemFor(read, task, version.provenance.actor)), ...reviewAs(version, task) }
})

export const collaborationToExecution: readonly Contract[] = [
  ...onRaised,
  ...onDelivered,
  ...onPeople,
  onOverdue,
  onResolved,
  onDeclined,
  onExpired,
  onReviewed,
  onVoted,
]
