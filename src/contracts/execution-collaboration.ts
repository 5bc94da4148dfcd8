// Contracts from an answer in the inbox to its task, in the same batch; and from an agent's question to its task.
import { canonical } from '#kernel/log/canonical-json.ts'
import { recode, Refusal } from '#kernel/declare/errors.ts'
import { SYSTEM_ID } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { cutTo } from '#kernel/codec/cut-text.ts'
import type { Contract, ContractFact, Read } from '#kernel/declare/operation.ts'
import { runIn } from '#kernel/declare/run-fence.ts'
import { parse } from '#kernel/declare/schema.ts'
import { Checkpoint, Task, Verdict } from '#protocols/collaboration/schema.ts'
import { actionOf, actions } from '#protocols/execution/actions/index.ts'
import { isSecret } from '#protocols/execution/actions/provide.ts'
import { DECLINED } from '#protocols/execution/answering/receipt-format.ts'
import { optionId } from '#protocols/execution/mirror/ids.ts'
import { isOpen, type Request } from '#protocols/execution/schema.ts'
import { contractsBetween, onEach, type Terms } from './contract.ts'

/** Translates refusals, because a person in the inbox gets the codes of requests. */
const inCodesOfRequests = recode(
  {
    CHECKPOINT_EXPIRED: 'EXPIRED',
    PRECONDITION_FAILED: 'ALREADY_RESOLVED',
    CONFLICT: 'CHANGED',
    INVALID_SPEC: 'INVALID_RESULT',
    INVALID_REQUEST: 'INVALID_RESULT',
  },
  'hacp_code',
)

const to = contractsBetween({ from: 'execution', to: 'collaboration' })
/** Most requests have no task. */
const ofTask: Terms<Request> = { when: ({ subject }) => subject.task_id !== undefined }
const asCaller: Terms<Request> = { ...ofTask, as: 'actor' }
const answerTerms: Terms<Request> = { ...asCaller, refused: inCodesOfRequests }

// --- Asking within a task ------------------------------------------------------------------------------------------------------

/** The risk of an option: HXP gives one risk to the whole request (Z2). */
const risks: Record<NonNullable<Request['risk']>, Checkpoint['options'][number]['risk']> = {
  R1: 'low',
  R2: 'low',
  R3: 'medium',
  R4: 'high',
  R5: 'high',
}
const optionsIn = (labels: readonly string[], risk: Request['risk'] = 'R1'): Checkpoint['options'] =>
  labels.map((label) => ({ id: label, label, risk: risks[risk] }))

const asks = to(
  'request-raises',
  'request.created',
  'checkpoint.ask',
  ({ subject, detail }) => {
    const { id, kind, task_id, checkpoint_id, requester, action, payload, fallback, ...request } = subject
    // A question from a checkpoint is asked already; a question that a grant has answered is not asked.
    if (kind !== 'request' || task_id === undefined || checkpoint_id === undefined || !isOpen(request)) return null
    const found = actions[action]
    const labels = found.checkpoint === 'choice' ? found.options(payload) : null
    return {
      task_id,
      checkpoint_id,
      request_id: id,
      raised_by: requester,
      kind: found.checkpoint,
      prompt: found.question(payload),
      ...(labels === null ? {} : { options: optionsIn(labels.map(String), request.risk) }),
      takes_default: fallback === 'default',
      // Carries the run and attempt, so that a process that lost the run cannot ask.
      ...runIn(detail),
    }
  },
  ofTask,
)

// --- Answering -----------------------------------------------------------------------------------------------------------------

const comment = (reason: string | undefined): { comment?: string } => (reason === undefined ? {} : { comment: reason })

/** The checkpoint that waits for this answer; null if it was answered first, and the item follows from that. */
async function waitingFor(read: Read, { checkpoint_id }: Request, { actor }: ContractFact): Promise<Checkpoint | null> {
  const checkpoint = checkpoint_id === undefined ? null : await read.raw(Checkpoint, checkpoint_id)
  // A late answer from a person must be refused; a close by the system follows from the ended checkpoint.
  return checkpoint?.state === 'pending' || actor !== SYSTEM_ID ? checkpoint : null
}

const resolves = to(
  'answer-resolves',
  'request.completed',
  'checkpoint.resolve',
  async (fact, read) => {
    const request = fact.subject
    const checkpoint = request.kind === 'request' || request.kind === 'review' ? null : await waitingFor(read, request, fact)
    if (checkpoint === null) return null
    const { result, reason } = request.receipt!
    const resolution = { checkpoint_id: checkpoint.id, ...comment(reason) }
    if (actionOf(request).isVerdict === true) return { ...resolution, action: result === 'approved' ? 'approve' : 'reject' }
    if (checkpoint.options.length > 0) return { ...resolution, action: 'choose', choice: optionId(request, result) }
    return { ...resolution, action: 'provide', ...(typeof result === 'string' ? { input: result } : {}) }
  },
  answerTerms,
)

/** H7: a checkpoint that a person declines goes to the next person. */
const declines = to(
  'decline-escalates',
  'request.declined',
  'checkpoint.decline',
  async (fact, read) => {
    const request = fact.subject
    const checkpoint = request.kind === 'request' || request.kind === 'review' ? null : await waitingFor(read, request, fact)
    return checkpoint && { checkpoint_id: checkpoint.id, reason: declineReason(request) }
  },
  { ...asCaller, refused: recode({ CHECKPOINT_EXPIRED: 'EXPIRED', INVALID_SPEC: 'INVALID_REQUEST' }, 'hacp_code') },
)
/** The person's own reason, without the prefix that marks a decline. */
const declineReason = ({ receipt }: Request): string => receipt!.reason!.slice(DECLINED.length)

const reviews = to(
  'answer-reviews',
  'request.completed',
  'review.submit',
  async ({ subject, actor }, read) => {
    const { kind, task_id, artifact, receipt } = subject
    if (kind !== 'review' || task_id === undefined || artifact === undefined) return null
    const task = await read.raw(Task, task_id)
    if (actor === SYSTEM_ID && task?.state !== 'review_ready') return null
    const { reason } = receipt!
    const verdict = parse(Verdict, receipt!.result)
    const reviewed = { task_id, artifact_id: artifact.artifact_id, artifact_version: artifact.version, verdict }
    if (verdict === 'changes_requested') {
      // In the words of the inbox, which knows no list of changes.
      if (reason === undefined) throw new Refusal('INVALID_RESULT', 'reason is required: it says what to change', { field: 'reason' })
      return { ...reviewed, requested_changes: [reason] }
    }
    return reason === undefined
      ? reviewed
      : { ...reviewed, comments: [{ severity: verdict === 'rejected' ? 'blocker' : 'minor', body: reason }] }
  },
  answerTerms,
)

type Settlement = {
  readonly action: 'approve' | 'choose' | 'provide'
  readonly choice?: string
  readonly input?: string
  readonly comment?: string
}
/** A rejection is an answer, and the task continues with it (H6). So does a request without an answer. Neither approves anything. */
function answerOf({ id, action, payload, receipt, status: stands }: Request, { options }: Checkpoint): Settlement {
  const { status, result, reason } = receipt!
  const unanswered = stands === 'declined' ? reason! : `${status}: ${reason ?? 'nobody answered'}`
  if (status !== 'completed') return { action: 'provide', input: cutTo(unanswered, limits.textCharsMax) }
  const remark = comment(reason)
  const { checkpoint } = actions[action]
  if (checkpoint === 'approval')
    return result === 'approved' ? { action: 'approve', ...remark } : { action: 'provide', input: 'rejected', ...remark }
  if (checkpoint === 'choice') {
    const chosen = options.find(({ label }) => label === result)
    return { action: 'choose', ...(chosen === undefined ? {} : { choice: chosen.id }), ...remark }
  }
  const text = typeof result === 'string' ? result : canonical(result)
  // A secret, or a text that is too long, reaches the agent only with the receipt.
  return {
    action: 'provide',
    input: isSecret(payload) || text.length > limits.textCharsMax ? canonical({ request_id: id }) : text,
    ...remark,
  }
}

const answers = onEach(['request.completed', 'request.failed', 'request.cancelled', 'request.declined'], (on) =>
  to(
    `${on}-answers`,
    on,
    'checkpoint.settle',
    async (fact, read) => {
      const request = fact.subject
      const checkpoint = request.kind === 'request' ? await waitingFor(read, request, fact) : null
      return checkpoint && { checkpoint_id: checkpoint.id, ...answerOf(request, checkpoint) }
    },
    answerTerms,
  ),
)

/** An answer by a grant uses it, in the same batch. */
const uses = to(
  'answer-uses-grant',
  'request.completed',
  'grant.use',
  ({ subject: { task_id, receipt, payload } }) => {
    const scope = 'scope' in payload ? payload.scope : undefined
    return receipt!.basis.kind === 'grant' && task_id !== undefined && scope !== undefined ? { task_id, scope } : null
  },
  asCaller,
)

export const executionToCollaboration: readonly Contract[] = [asks, resolves, declines, reviews, ...answers, uses]
