// Reviews: a person's verdict on one version. Reviews are immutable; comments are separate documents.
import { Refusal } from '#kernel/declare/errors.ts'
import { image } from '#kernel/declare/facts.ts'
import { anyone, type Actor } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, query, rule, type Read } from '#kernel/declare/operation.ts'
import { cursorOf, nextCursor, pageInput, pageSize, placeOf } from '#kernel/declare/paging.ts'
import { t } from '#kernel/declare/schema.ts'
import { AssertionField } from '#kernel/signing/input.ts'
import { fact } from '../events.ts'
import { familyOf, hasEndedAbove, isNotTakenUpAgain, withoutChildren } from '../task/cancellation.ts'
import { moveTask } from '../task/ownership.ts'
import { signableAnswer, signedIn } from '../task/signed-answers.ts'
import { outcomeOf, voiceOf, withVote, type Policy } from '../task/votes.ts'
import { principal, refuseBlank, reviewer, isAtRevision } from '../access.ts'
import {
  ArtifactHead,
  ArtifactVersion,
  Comment,
  Digest,
  Id,
  Review,
  ReviewComment,
  ReviewKind,
  Task,
  Verdict,
  versionId,
  ExpectedRevision,
} from '../schema.ts'

type Reviewing = { readonly task: Task; readonly artifact_version: string; readonly taken: boolean; readonly kind: Review['kind'] }

const isReviewable = rule<{ task: Task }>(
  'PRECONDITION_FAILED',
  "the task's state allows review.submit",
  ({ task }) => task.state === 'review_ready' || task.state === 'under_review',
  'the task has nothing to review now: it is neither review_ready nor under_review',
)

/** With a review policy, the verdicts of its members count, and no other. */
const isOneOfThose = rule<Reviewing>(
  'UNAUTHORIZED',
  'the review policy, if there is one, requires the verdict of this person',
  ({ task, kind }, _, { actor }) => policyFor(task, kind) === null || voiceFor(task, kind, actor) !== null,
  'the review policy of this task names the people whose verdicts count, and you are none of them, nor a substitute of one whose verdict is missing',
)
const policyFor = ({ spec }: Task, kind: Review['kind']): Policy | null => (kind === 'deliverable' && spec.review_policy) || null
/** The reviewer for whom an actor votes; null: the task needs no votes, or not this actor's. */
function voiceFor(task: Task, kind: Review['kind'], actor: Actor): string | null {
  const policy = policyFor(task, kind)
  return policy && voiceOf(policy, task.votes ?? [], actor, task.project_id)
}

/** A verdict on another version would complete the task or send it back without a review of the delivery. */
const isAboutDelivery = rule<Reviewing, { artifact_id: string }>(
  'CONFLICT',
  'the version is the one that was delivered for review',
  ({ task: { delivered }, artifact_version }, { artifact_id }) =>
    delivered === undefined || (delivered.artifact_id === artifact_id && delivered.version === artifact_version),
  'another version was delivered for review, and a verdict is about that one: task.get names it as delivered; review.comment takes remarks on any version',
)

const submit = command({
  name: 'review.submit',
  summary: 'Approve, reject, or ask for changes to an artifact that was delivered.',
  draft: 'HACP 0.1.0, Review; Operation Preconditions',
  input: t.Object({
    task_id: Id,
    ...ExpectedRevision,
    artifact_id: Id,
    artifact_version: t.Optional(t.String({ minLength: 1, maxLength: 40 })),
    review_id: t.Optional(Id),
    kind: t.Optional(ReviewKind),
    verdict: Verdict,
    comments: t.Optional(t.Array(ReviewComment, { maxItems: limits.commentsMax })),
    requested_changes: t.Optional(t.Array(t.String({ minLength: 1, maxLength: limits.textCharsMax }), { maxItems: limits.changesMax })),
    digest: Digest,
    ...AssertionField,
  }),
  output: t.Object({ review: Review.schema, task: Task.schema }),
  callers: [principal, reviewer],
  requires: [
    isOneOfThose,
    isAtRevision,
    rule<Reviewing>(
      'IMMUTABLE_VIOLATION',
      'a review never changes: submit a new one',
      ({ taken }) => !taken,
      'this review exists already and never changes: submit a new one',
    ),
    isReviewable,
    rule<unknown, { verdict: string; requested_changes?: string[] }>(
      'INVALID_SPEC',
      'requested_changes says what to change when the verdict is changes_requested',
      (_, { verdict, requested_changes = [] }) => verdict !== 'changes_requested' || requested_changes.length > 0,
      'requested_changes is missing: say what to change when the verdict is changes_requested',
    ),
    isNotTakenUpAgain,
    isAboutDelivery,
  ],
  audit: 'review.submitted',
  besides: ['expected_task_revision'],
  async load(read, { task_id, artifact_id, artifact_version, review_id, verdict }) {
    const task = await read(Task, task_id)
    const version = await reviewedVersion(read, task, artifact_id, artifact_version)
    const taken = review_id !== undefined && (await read.maybe(Review, review_id)) !== null
    const isUnderEnded = await hasEndedAbove(read, task)
    // A rejection also ends the descendants of the task.
    const item = await read.ports.requests.itemOfReview(read, task_id)
    return { task, ...version, taken, isUnderEnded, item, family: verdict === 'rejected' ? await familyOf(read, task) : null }
  },
  signs({ task, item }, { assertion: _, digest: __, expected_task_revision: ___, ...answer }) {
    const { artifact_id, verdict: word } = answer
    return signableAnswer({ ...task, about: { task_id: task.id, artifact_id }, item, risk: 'R5', word, answer })
  },
  decide(
    { task, artifact_version, head, kind, isUnderEnded, family },
    { artifact_id, verdict, comments = [], requested_changes = [], ...input },
    { actor, now, newId, signature },
  ) {
    if (input.kind !== undefined && input.kind !== kind)
      throw new Refusal('INVALID_SPEC', `${artifact_id} ${artifact_version} is a ${kind}`, { field: 'kind' })
    // Below an ended task, a plan can only be rejected.
    if (kind === 'plan' && verdict === 'rejected' && !isUnderEnded)
      throw new Refusal('INVALID_SPEC', 'a plan is approved or sent back, not rejected', { field: 'verdict' })
    for (const [i, change] of requested_changes.entries()) refuseBlank(change, `requested_changes.${i}`)
    if (artifact_version !== head)
      throw new Refusal('CONFLICT', `${artifact_version} is not the newest version of ${artifact_id}: that is ${head}`, { head })
    const { id: task_id, project_id, root_task_id } = task
    const voice = voiceFor(task, kind, actor)
    const review: Review = {
      id: newId('rev'),
      task_id,
      project_id,
      root_task_id,
      artifact_id,
      artifact_version,
      reviewer: voice ?? actor.id,
      kind,
      verdict,
      comments,
      requested_changes,
      at: now,
    }
    const { next, path, outcome } = afterVerdict(task, review, actor.id, now)
    const facts = [
      fact('review.submitted', [image(Review, review), image(Task, next)], {
        ...(review.reviewer === actor.id ? {} : { behalf: review.reviewer }),
        detail: {
          path,
          verdict,
          kind,
          ...(outcome === null ? {} : { outcome }),
          ...(input.digest === undefined ? {} : { digest: input.digest }),
          ...signedIn(signature),
        },
      }),
    ]
    return { facts: family ? withoutChildren(family, facts, now) : facts, output: { review, task: next } }
  },
  example: {
    given: 'review_ready',
    as: 'alice',
    input: ({ task, artifact }) => ({ task_id: task.id, artifact_id: artifact.id, verdict: 'approved' }),
  },
})

/**
 * The task after a verdict. Without a review policy one call begins and ends the review, so one batch takes both transitions; with one, the
 * task stays under review until the votes decide.
 */
function afterVerdict(task: Task, { id, kind, verdict, comments, reviewer: who }: Review, by: string, now: string) {
  const policy = policyFor(task, kind)
  const votes = policy && withVote(task.votes ?? [], { reviewer: who, by, verdict, review_id: id })
  const outcome = policy && votes && outcomeOf(policy, votes)
  const decided = outcome ?? verdict
  const hand = { via: decided === 'approved' ? 'approve' : 'reject', reason: 'review.submit', now } as const
  const begun = task.state === 'review_ready' ? moveTask(task, 'review.submit', hand) : task
  if (decided === 'pending') return { next: { ...begun, votes: votes! }, path: [...new Set([task.state, begun.state])], outcome }
  const { votes: _, ...moved } = moveTask(begun, `review.submit/${kind === 'plan' && verdict !== 'rejected' ? 'plan' : decided}`, hand)
  // A round that requested changes leaves no votes: the next version starts without any.
  const counted = votes === null || decided === 'changes_requested' ? moved : { ...moved, votes }
  const ended: Task = { ...counted, plan_approved: task.plan_approved || (kind === 'plan' && verdict === 'approved') }
  const next: Task = decided === 'rejected' ? { ...ended, outcome: 'rejected_in_review', outcome_reason: comments[0]?.body ?? null } : ended
  return { next, path: [...new Set([task.state, begun.state, next.state])], outcome }
}

/** The version under review: the newest unless named; it must be an artifact of this task. */
async function reviewedVersion(read: Read, task: Task, artifact_id: string, wanted: string | undefined) {
  const head = await read.maybe(ArtifactHead, artifact_id)
  if (!head || head.task_id !== task.id) throw new Refusal('NOT_FOUND', `there is no artifact ${artifact_id} of this task`)
  const artifact_version = wanted ?? head.version
  const found = await read.maybe(ArtifactVersion, versionId(artifact_id, artifact_version))
  if (!found) throw new Refusal('NOT_FOUND', `there is no version ${artifact_version} of ${artifact_id}`)
  return { artifact_version, head: head.version, kind: found.kind }
}

const comment = command({
  name: 'review.comment',
  summary: 'Remark on an artifact version or a review, without a verdict.',
  draft: 'HACP 0.1.0, Operations; Review (immutable: a remark is a record of its own)',
  input: t.Object({
    task_id: Id,
    artifact_id: Id,
    artifact_version: t.Optional(t.String({ minLength: 1, maxLength: 40 })),
    review_id: t.Optional(Id),
    ...ReviewComment.properties,
    verdict: t.Optional(t.Unknown({ description: 'refused: a remark carries no verdict' })),
  }),
  output: t.Object({ comment: Comment.schema }),
  callers: [principal, reviewer],
  requires: [
    rule<unknown, { verdict?: unknown }>(
      'IMMUTABLE_VIOLATION',
      'a remark carries no verdict and changes no review',
      (_, { verdict }) => verdict === undefined,
      'a comment carries no verdict and changes no review: leave verdict out, or use review.submit',
    ),
  ],
  audit: 'review.commented',
  async load(read, { task_id, artifact_id, artifact_version, review_id }) {
    const task = await read(Task, task_id)
    const review = review_id === undefined ? null : await read(Review, review_id)
    if (review && review.task_id !== task_id) throw new Refusal('NOT_FOUND', `there is no review ${review_id}`)
    return { task, ...(await reviewedVersion(read, task, artifact_id, artifact_version ?? review?.artifact_version)) }
  },
  decide({ task, artifact_version }, { artifact_id, review_id = null, anchor, severity, body }, { actor, now, newId }) {
    const { id: task_id, project_id, root_task_id } = task
    const where = anchor === undefined ? {} : { anchor }
    const comment = {
      id: newId('rcm'),
      task_id,
      project_id,
      root_task_id,
      artifact_id,
      artifact_version,
      review_id,
      by: actor.id,
      ...where,
      severity,
      body,
      at: now,
    }
    return { facts: [fact('review.commented', [image(Comment, comment)])], output: { comment } }
  },
  example: {
    given: 'review_ready',
    as: 'alice',
    input: ({ task, artifact }) => ({
      task_id: task.id,
      artifact_id: artifact.id,
      anchor: 'line 1',
      severity: 'nit',
      body: 'Greet by name?',
    }),
  },
})

const list = query({
  name: 'review.list',
  summary: 'List the reviews of a task, and the remarks beside them, oldest first.',
  draft: 'ours: reading',
  input: t.Object({ task_id: Id, ...pageInput }),
  output: t.Object({ items: t.Array(Review.schema), comments: t.Array(Comment.schema), next_cursor: nextCursor }),
  callers: [anyone],
  async load(read, input) {
    await read(Task, input.task_id)
    // A page continues in both lists, so its cursor holds a position in each.
    const [review = '', remark = ''] = placeOf('review.list', input)?.split('\n') ?? []
    const pageOf = (doc: typeof Review | typeof Comment, after: string) =>
      read.list(doc, 'task', [[input.task_id]], { after, limit: pageSize(input) })
    const [reviews, remarks] = await Promise.all([pageOf(Review, review), pageOf(Comment, remark)])
    const hasMore = Math.max(reviews.length, remarks.length) === pageSize(input)
    const place = [reviews.at(-1)?.at ?? review, remarks.at(-1)?.at ?? remark].join('\n')
    return {
      items: await Promise.all(reviews.map(({ id }) => read(Review, id))),
      comments: await Promise.all(remarks.map(({ id }) => read(Comment, id))),
      place: hasMore ? place : null,
    }
  },
  view: ({ items, comments, place }, input) => ({
    items,
    comments,
    next_cursor: place === null ? null : cursorOf('review.list', input, place),
  }),
  example: { given: 'completed', as: 'alice', input: ({ task }) => ({ task_id: task.id }) },
})

const get = query({
  name: 'review.read',
  summary: 'Fetch one review by its id.',
  draft: 'ours: reading',
  input: t.Object({ review_id: Id }),
  output: t.Object({ review: Review.schema }),
  callers: [anyone],
  load: async (read, { review_id }) => ({ review: await read(Review, review_id) }),
  view: ({ review }) => ({ review }),
  example: { given: 'completed', as: 'alice', input: ({ review }) => ({ review_id: review.id }) },
})

export const reviewOperations = [submit, comment, list, get]
