// Answering, and the other ways in which a request ends. The first answer wins; the other people see it decided.
import { Refusal } from '#kernel/declare/errors.ts'
import { image } from '#kernel/declare/facts.ts'
import { system } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, rule, type Read } from '#kernel/declare/operation.ts'
import { either, nullable, t } from '#kernel/declare/schema.ts'
import type { Covered } from '#kernel/ports/passkeys.ts'
import { AssertionField } from '#kernel/signing/input.ts'
import { fact } from '../events.ts'
import { editedFor } from '../answering/edited.ts'
import { givenFor, heldAs, refuseOddSeal, sealedAnswer } from '../answering/sealed-answers.ts'
import { endedWith, SignedReceipt, receiptOf, withReceipt } from '../answering/receipt.ts'
import { castVote } from '../answering/quorum.ts'
import { excludedIn } from '../asking/approvals.ts'
import { reachOf, reachOfTask, type Reach } from '../asking/recipients.ts'
import { namedOption } from '../mirror/ids.ts'
import { resultOf } from '../answering/result.ts'
import { coveredIn } from '../answering/signed-answer.ts'
import { isBlank } from '../asking/hostile-text.ts'
import { takenBy } from '../asking/routing.ts'
import {
  answerer,
  changedSince,
  chief,
  hasProof,
  isQuestion,
  fitsSurface,
  hasEnoughPeople,
  isNotLate,
  isStillOpen,
  isUnresolved,
  itsAsker,
  poolItemOf,
  poolMember,
  refuseChanged,
  requestOf,
  type OfRequest,
} from '../access.ts'
import { Id, isOpen, Request, TIMEOUT } from '../schema.ts'
import { RequestView, viewOf } from '../view.ts'

/** Who can vote at present. */
const votingReach = (read: Read, { request, task, allowed }: OfRequest, now: string): Promise<Reach> =>
  task === null
    ? reachOf(read, allowed ?? request.quorum!.of, request.project_id, now, excludedIn(request))
    : reachOfTask(read, task, now, request)

export const Reason = t.Optional(nullable(t.String({ maxLength: limits.reasonCharsMax })))

const resolve = command({
  name: 'request.resolve',
  summary: 'Answer a request: a choice, an approval or a rejection, or what was asked for.',
  draft: 'HXP 0.1, 5.1: Resolve Request; 2: results',
  input: t.Object({
    request_id: Id,
    result: t.Optional(t.Unknown({ description: 'an option, approved or rejected, or the value that was asked for' })),
    edited: t.Optional(
      t.Object(
        {},
        { additionalProperties: true, description: 'with approved: the whole details as you approve them, within details_schema' },
      ),
    ),
    sealed: t.Optional(
      t.String({
        minLength: 1,
        maxLength: limits.sealedCharsMax,
        description: 'in place of result, for a secret: a compact JWE of {value, salt} for the seal_key that inbox.get shows',
      }),
    ),
    reason: Reason,
    digest: t.Optional(t.String({ maxLength: 100, description: 'answer only if the request still has this digest' })),
    surface: t.Optional({
      ...either('page', 'editor'),
      description: "where the request was shown to you: on a page of another origin, or in an agent's editor",
    }),
    ...AssertionField,
  }),
  output: t.Object({ request: RequestView, receipt: t.Optional(SignedReceipt) }),
  callers: [answerer, poolMember, chief],
  requires: [isNotLate, isUnresolved, hasProof, fitsSurface, hasEnoughPeople],
  audit: 'request.completed',
  hides: true,
  async load(read, { request_id, ...answer }, context) {
    const state = await poolItemOf(read, request_id, context.actor)
    const { quorum } = state.request
    const reach = quorum === undefined ? null : await votingReach(read, state, context.now)
    const changed = await changedSince(read, state.request, answer.digest, answer.surface)
    return { ...state, reach, changed, given: await givenFor(read, state.request, answer, context) }
  },
  signs({ request, given, changed }, answer, context) {
    const { project_id, kind, risk = kind === 'review' ? 'R5' : 'R1' } = request
    const toSign = (): Covered => {
      refuseChanged(answer.digest, request, answer.surface, changed)
      return coveredIn(request, given, answer, context)
    }
    return { project_id, risk, toSign }
  },
  decide(state, { result, edited, sealed, reason, digest, surface }, context) {
    const { request, given } = state
    refuseChanged(digest, request, surface, state.changed)
    if (result === undefined && sealed === undefined) throw new Refusal('INVALID_REQUEST', 'result is required', { field: 'result' })
    refuseOddSeal(request, { result, sealed }, given)
    const { actor, now } = context
    const checked =
      sealed === undefined
        ? resultOf(request.action, request.payload, { result: namedOption(request, result), reason: reason ?? null })
        : sealedAnswer(reason ?? null)
    const approved = editedFor(request, checked.result, edited as Record<string, unknown> | undefined)
    if (state.reach !== null) return castVote(state, state.reach, { ...checked, surface }, context)
    const answer = heldAs(request, given, checked)
    const basis = { kind: 'role', id: 'answered by a person' } as const
    const done = endedWith(
      takenBy(request, actor.id, now),
      {
        status: 'completed',
        ...answer,
        by: actor.id,
        via: actor.via ?? null,
        basis,
        surface,
        edited: approved,
        signature: context.signature,
      },
      context,
    )
    return {
      facts: [fact('request.completed', [image(Request, done), ...(given?.images ?? [])])],
      ...(given === null ? {} : { puts: given.puts }),
      output: { request: viewOf(done, actor), receipt: receiptOf(done) },
    }
  },
  // A vote that decided nothing yet: a repeated call gets the same answer, and request.get returns the outcome.
  finish: (output, after) => (isOpen(output.request) ? output : withReceipt(output, after())),
  example: { given: 'asked', as: 'alice', input: ({ request }) => ({ request_id: request.id, result: 'Approve' }) },
})

const decline = command({
  name: 'request.decline',
  summary:
    'Decline to answer a request, with a reason that its agent reads. It ends without an answer; a question of a task goes to the next of its people.',
  draft: 'ours: HXP 0.1 has no word for a person who will not answer; on its own wire the request has failed',
  input: t.Object({
    request_id: Id,
    reason: t.String({ minLength: 1, maxLength: limits.reasonCharsMax, description: 'why you will not answer: the agent reads it' }),
    digest: t.Optional(t.String({ maxLength: 100, description: 'decline only if the request still has this digest' })),
  }),
  output: t.Object({ request: RequestView, receipt: t.Optional(SignedReceipt) }),
  callers: [answerer, poolMember, chief],
  requires: [isNotLate, isUnresolved, isQuestion, hasProof],
  audit: 'request.declined',
  async load(read, { request_id, digest }, { actor, now }) {
    const state = await poolItemOf(read, request_id, actor)
    const { quorum } = state.request
    const reach = quorum === undefined ? null : await votingReach(read, state, now)
    return { ...state, reach, changed: await changedSince(read, state.request, digest) }
  },
  decide(state, { reason, digest }, context) {
    const { request } = state
    refuseChanged(digest, request, undefined, state.changed)
    if (isBlank(reason)) throw new Refusal('INVALID_REQUEST', 'reason is blank: say why you will not answer', { field: 'reason' })
    if (state.reach !== null) return castVote(state, state.reach, { result: null, declined: true, reason }, context)
    const { actor, now } = context
    const basis = { kind: 'role', id: 'declined by a person' } as const
    const done = endedWith(
      takenBy(request, actor.id, now),
      { status: 'failed', result: null, reason, declined: true, by: actor.id, via: actor.via ?? null, basis },
      context,
    )
    return { facts: [fact('request.declined', [image(Request, done)])], output: { request: viewOf(done, actor), receipt: receiptOf(done) } }
  },
  // A vote that decided nothing yet has no receipt.
  finish: (output, after) => (isOpen(output.request) ? output : withReceipt(output, after())),
  example: {
    given: 'asked',
    as: 'alice',
    input: ({ request }) => ({ request_id: request.id, reason: 'This is for the finance team to decide.' }),
  },
})

const cancel = command({
  name: 'request.cancel',
  summary: 'Withdraw a request that nobody has answered yet.',
  draft: 'HXP 0.1, published OpenAPI: cancel',
  input: t.Object({ request_id: Id, reason: Reason }),
  output: t.Object({ request: RequestView, receipt: SignedReceipt }),
  callers: [itsAsker],
  requires: [
    isNotLate,
    isUnresolved,
    // The people of the task have the request in their inbox; withdrawing it would decide for them.
    rule<OfRequest>(
      'TASK_BOUND',
      'the request has no task',
      ({ task, request }) => task === null && request.session_id === undefined,
      'the request belongs to a task or a session: end that instead, for example with task.cancel',
    ),
  ],
  audit: 'request.cancelled',
  load: async (read, { request_id }) => requestOf(read, request_id),
  decide({ request }, { reason }, context) {
    const basis = { kind: 'role', id: 'withdrawn by the agent' } as const
    const done = endedWith(
      request,
      { status: 'cancelled', result: null, reason: reason ?? 'withdrawn', by: null, as: request.agent_id, basis },
      context,
    )
    return {
      facts: [fact('request.cancelled', [image(Request, done)])],
      output: { request: viewOf(done, context.actor), receipt: receiptOf(done) },
    }
  },
  finish: (output, after) => withReceipt(output, after()),
  example: { given: 'asked', as: 'devin', input: ({ request }) => ({ request_id: request.id, reason: 'No longer needed.' }) },
})

const expire = command({
  name: 'request.expire',
  summary:
    'Apply the fallback of a request that nobody has answered in time: it waits on, fails, or takes its default. The system calls it.',
  draft: 'HXP 0.1, 3.3: Fallback Behaviors',
  input: t.Object({ request_id: Id }),
  output: t.Object({ request: RequestView }),
  callers: [system],
  requires: [
    isStillOpen,
    rule<OfRequest>(
      'PRECONDITION_FAILED',
      'its time is up, and nothing was done about it yet',
      ({ request }, _, { now }) => request.expires_at !== null && request.expires_at <= now && !request.overdue,
      'the deadline of the request has not passed yet, it has none, or it was dealt with already',
    ),
  ],
  audit: 'request.expired',
  load: async (read, { request_id }) => requestOf(read, request_id),
  decide({ request }, _, context) {
    const next = overdueOf(request, context)
    const action = next.status === 'failed' ? 'request.failed' : next.receipt ? 'request.completed' : 'request.expired'
    const basis = next.receipt ? { basis: next.receipt.basis as { kind: 'default' | 'timer'; id: string } } : {}
    return {
      facts: [fact(action, [image(Request, next)], { detail: { fallback: request.fallback }, ...basis })],
      output: { request: viewOf(next, context.actor) },
    }
  },
  example: { given: 'forgotten', as: 'system', input: ({ request }) => ({ request_id: request.id }) },
})

/** X3: on `pause` it stays open and is only marked. A timeout never approves: APPROVE has no default. */
function overdueOf(request: Request, context: Parameters<typeof endedWith>[2]): Request {
  if (request.fallback === 'pause') return { ...request, overdue: true }
  if (request.fallback === 'default') {
    const result = (request.payload as { default_option?: string }).default_option
    return endedWith(
      request,
      { status: 'completed', result, by: null, as: 'system:fallback', basis: { kind: 'default', id: 'fallback/default' } },
      context,
    )
  }
  return endedWith(
    request,
    { status: 'failed', result: null, reason: TIMEOUT, by: null, as: 'system:timeout', basis: { kind: 'timer', id: 'fallback/fail' } },
    context,
  )
}

export const resolveOperations = [resolve, decline, cancel, expire]
