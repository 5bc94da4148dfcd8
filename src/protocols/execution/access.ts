// Roles on a request (asking, answering) and preconditions. Both read as sentences.
import { Refusal } from '#kernel/declare/errors.ts'
import { type Actor, forAgentsToo, heldBy, installationOwner, isIn, isViewer, role, speaksFor } from '#kernel/declare/access.ts'
import { freshProof, rule, type Context, type Read } from '#kernel/declare/operation.ts'
import { agoText } from '#kernel/codec/timestamps.ts'
import { keyOf } from '#kernel/declare/schema.ts'
import { judgesOf, type KnownTask } from '#kernel/ports/tasks.ts'
import { cardOf, shownDigest, type Surface } from './answering/shown-request.ts'
import { actions } from './actions/index.ts'
import { allowedFor, excludedIn } from './asking/approvals.ts'
import { isForPool, isInPool, isOpen, isTimedOut, Request } from './schema.ts'

/** The task behind an item. */
export type OfRequest = {
  readonly request: Request
  readonly task: KnownTask | null
  /** Those who answer by the rules for approvals; null: no rule applies. */
  readonly allowed: readonly string[] | null
}

export const taskBehind = async (read: Read, id: string | undefined): Promise<KnownTask | null> =>
  id === undefined ? null : read.ports.tasks.task(read, id)

export async function requestOf(read: Read, request_id: string): Promise<OfRequest> {
  const request = await read(Request, request_id)
  const task = await taskBehind(read, request.task_id)
  return { request, task, allowed: await allowedFor(read, request, task) }
}

/** Reads a request for a member of its pool. A member can learn that another member was faster, but not the result. */
export async function poolItemOf(read: Read, request_id: string, actor: Actor): Promise<OfRequest> {
  const there = await read.raw(Request, request_id)
  const isPools = actor.kind === 'human' && there !== null && isForPool(there) && isIn(actor, there.project_id)
  if (isPools && (await read.maybe(Request, request_id)) === null) {
    if (isOpen(there)) throw new Refusal('ALREADY_CLAIMED', 'another person has claimed the request')
    const { code, refusal } = isTimedOut(there) ? isNotLate : isUnresolved
    throw new Refusal(code, refusal)
  }
  return requestOf(read, request_id)
}

/** An agent with its own key, or a project's key for the agents of the project. */
export const asker = forAgentsToo(
  heldBy(
    'an agent',
    role<unknown>('an agent, or the key of its project', (actor) => actor.kind === 'agent' || isProjectKey(actor)),
  ),
)
export const isProjectKey = (actor: Actor): boolean => actor.kind === 'service' && actor.projects !== 'all'

/** The agent that asked, or the key of the project for it. */
export const itsAsker = forAgentsToo(
  role<OfRequest>(
    'the agent that asked, or the key of its project',
    (actor, { request }) => (actor.kind === 'agent' && actor.id === request.requester) || isProjectKey(actor),
  ),
)

/** The person for whom the actor answers, preferably the actor; null: the actor is not allowed to answer. */
export function answersAs(actor: Actor, { request, task, allowed }: OfRequest): string | null {
  if (actor.kind !== 'human') return null
  if (task !== null && actor.id === task.executor && actor.id !== task.ownership.principal) return null
  if (excludedIn(request).includes(actor.id)) return null
  const usual = task === null ? (request.quorum?.of ?? request.approvers ?? [request.owner, ...request.people]) : judgesOf(task)
  const named = allowed ?? usual
  const spoken = named.filter((who) => speaksFor(actor, who, request.project_id))
  const isFree = (who: string): boolean => !request.votes?.some(({ by, in_place_of = by }) => in_place_of === who)
  return spoken.find((who) => who === actor.id) ?? spoken.find(isFree) ?? spoken[0] ?? null
}
const inPlaceOf = (actor: Actor, whose: string | null): string | null => (whose === null || whose === actor.id ? null : whose)

/** The routed person, the agent's owner, or their substitute. For a request with a task: only its deciders. */
export const answerer = role<OfRequest>(
  'the person it is routed to',
  (actor, state) => answersAs(actor, state) !== null,
  (actor, state) => inPlaceOf(actor, answersAs(actor, state)),
)
/** Any person of the project, while the request is unclaimed. */
export const poolMember = role<OfRequest>(
  'a person of the pool',
  (actor, { request }) => actor.kind === 'human' && isInPool(request) && !isViewer(actor, request.project_id),
)
/** An owner of the installation answers for all of it, apart from what a task's own people decide. */
export const chief = heldBy(
  'an owner of the installation',
  role<OfRequest>(
    'owner',
    (actor, { request, task }) =>
      task === null &&
      request.quorum === undefined &&
      request.approvers === undefined &&
      request.approval === undefined &&
      installationOwner.is(actor, null),
  ),
)

/** Up to this risk a remembered device needs no fresh sign-in, and an editor's dialog is enough. */
const RISK_REMEMBERED = 'R3'
type Gravity = Pick<Request, 'risk' | 'quorum' | 'approvers' | 'approval'>
/** An editor asks with a title and two buttons: too little for a grave question, and for one that several or named people answer. */
export const isForEditor = ({ risk, quorum, approvers, approval }: Gravity): boolean =>
  (risk ?? 'R1') <= RISK_REMEMBERED && quorum === undefined && approvers === undefined && approval === undefined
export const fitsSurface = rule<OfRequest, { readonly surface?: Surface }>(
  'INBOX_ONLY',
  'from R4 on, with a quorum or with named approvers, it was not answered in an editor',
  ({ request }, { surface }) => surface !== 'editor' || isForEditor(request),
  'this question is answered in the inbox, not in an editor: its risk is R4 or above, or several or named people answer it',
)

/** A rule wants several people to agree, and too few are left: one of them alone does not decide. */
export const hasEnoughPeople = rule<OfRequest>(
  'UNAUTHORIZED',
  'as many people as the rules for approvals want can still answer',
  ({ request }) => request.approval === undefined || request.approval.n === 1 || request.quorum !== undefined,
  'the rules for approvals want several people to agree, and too few of those whom they name are left: an owner changes the rules or the people',
)

/** A request that ended by its deadline is late, not resolved (HXP 0.1, 5.3: 408); asking again changes nothing. */
export const isNotLate = rule<OfRequest>(
  'EXPIRED',
  'the request has not ended by its deadline',
  ({ request }, _, context) => !(isOpen(request) && endsLate(request) && isOver(request, context)) && !isTimedOut(request),
  'the request timed out: it ended by its deadline',
)
/** Whether the sign-in is fresh enough for the risk: a remembered device decides only low risks. */
export const isProvenFor = ({ risk }: Request, via: string | null | undefined): boolean =>
  via !== 'remembered' || (risk ?? 'R1') <= RISK_REMEMBERED
export const hasProof = freshProof<OfRequest>(({ request }) => isProvenFor(request, 'remembered'))

/** A request whose default another protocol takes is late there too. */
const endsLate = ({ kind, fallback }: Request): boolean => fallback === 'fail' || (fallback === 'default' && kind !== 'request')
/** The timer might fire a moment late, so a passed deadline always wins over an answer. */
export const isOver = ({ expires_at }: Request, { hasPassed }: Pick<Context, 'hasPassed'>): boolean =>
  expires_at !== null && hasPassed(expires_at)
const takesDefault = ({ kind, fallback }: Request): boolean => fallback === 'default' && kind === 'request'
export const isUnresolved = rule<OfRequest>(
  'ALREADY_RESOLVED',
  'the request is not resolved yet',
  // A request that takes its default at the deadline has been answered by it then (X2: 409).
  ({ request }, _, context) => isOpen(request) && (context.actor.kind === 'system' || !takesDefault(request) || !isOver(request, context)),
  'the request has ended before: it was resolved or cancelled, or took its default',
  ({ request }, _, { now }) => endOf(request, now),
)
/** Refuses reviews: a review has its own no, and its task would be left without a decider. */
export const isQuestion = rule<OfRequest>(
  'PRECONDITION_FAILED',
  'it is a question: a review is answered',
  ({ request }) => request.kind !== 'review',
  'a review cannot be declined: approve it, request changes or reject it',
)
/** How the request ended, for its readers: a pool's people are named as in the receipt, and provided values are left out. */
function endOf({ action, receipt, status: stands }: Request, now: string): string {
  if (receipt === undefined) return 'the time of the request is up, and it takes its default'
  const { status, result, reason, completed_by, completed_at } = receipt
  const isReplaced = completed_by === 'system' && reason === 'superseded'
  const ends = {
    completed: actions[action].isPrivate === true ? 'answered' : textOf(result),
    failed:
      stands === 'declined' ? 'declined' : completed_by === 'system:quorum' ? 'enough votes can no longer be reached' : 'no answer in time',
    cancelled: isReplaced ? 'another question took its place' : 'withdrawn',
  }
  return `already closed: ${ends[status]}, by ${completed_by}, ${agoText(completed_at, now)}`
}
const RESULT_CHARS_MAX = 100
const textOf = (result: unknown): string => (typeof result === 'string' ? result : JSON.stringify(result)).slice(0, RESULT_CHARS_MAX)
/** For operations that the system calls by timer: a faster person is no failure. */
export const isStillOpen = rule<OfRequest>(
  'PRECONDITION_FAILED',
  'the request is open',
  ({ request }) => isOpen(request),
  'the request is not open',
)

/** Refuses an answer to a version of the request that the person was not shown. */
export function refuseChanged(digest: string | undefined, request: Request, surface?: Surface, changed: readonly string[] = []): void {
  if (digest === undefined) return
  const present = shownDigest(request, surface)
  if (digest === present) return
  const what = changed.length === 0 ? '' : ` (${changed.join(', ')})`
  throw new Refusal('CHANGED', `the request has changed since you were shown it${what}: fetch it again`, { digest: present, changed })
}

/** The request with fewer remarks. Remarks are only ever added, so a person might have been shown any of these versions. */
function* withFewerRemarks(request: Request): Iterable<Request> {
  const { thread = [], ...rest } = request
  for (let count = thread.length - 1; count > 0; count--) yield { ...request, thread: thread.slice(0, count) }
  if (thread.length > 0) yield rest
}

/** The fields that changed since the request was shown with this digest; empty: no change, or the digest is of an older version. */
export async function changedSince(read: Read, request: Request, digest: string | undefined, surface?: Surface): Promise<string[]> {
  if (digest === undefined || digest === shownDigest(request, surface)) return []
  const place = await read.place(Request, request.id)
  const [last] = place === null ? [] : await read.facts({ by: 'scope', scope: place.scope }, { after: place.seq - 1, limit: 1 })
  const text = last?.images.find(({ key }) => key === keyOf(Request, request.id))?.before ?? null
  if (text === null) return []
  const previous = JSON.parse(text) as Request
  const before = [previous, ...withFewerRemarks(previous)].find((version) => shownDigest(version, surface) === digest)
  if (before === undefined) return []
  const [was, is]: Record<string, unknown>[] = [cardOf(before, surface), cardOf(request, surface)]
  const names = [...new Set([...Object.keys(was!), ...Object.keys(is!)])]
  return names.filter((name) => JSON.stringify(was![name]) !== JSON.stringify(is![name]))
}
