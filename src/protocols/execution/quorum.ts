// N of M: several people answer one request, each with one vote, until it is decided or cannot be any more.
import { Refusal } from '#kernel/errors.ts'
import { fact, image } from '#kernel/facts.ts'
import { limits } from '#kernel/limits.ts'
import type { Context, Decision } from '#kernel/operation.ts'
import { shownDigest } from './card.ts'
import { endedWith, unsigned, type Ending, type SignedReceipt } from './receipts.ts'
import { answersAs, type OfRequest } from './rules.ts'
import { Request, type Vote } from './schema.ts'
import { viewOf, type RequestView } from './view.ts'

export const NO_QUORUM = 'no_quorum'

type Answer = { readonly result: unknown; readonly reason?: string }

/** One more vote; the one that decides ends the request. */
export function voted(state: OfRequest, answer: Answer, context: Context): Decision<{ request: RequestView; receipt?: SignedReceipt }> {
  const { request } = state
  const { actor } = context
  const votes = [...(request.votes ?? []), voteOf(state, answer, context)]
  const next: Request = { ...request, votes }
  const outcome = outcomeOf(next)
  if (outcome === null) return { facts: [fact('request.voted', [image(Request, next)])], output: { request: viewOf(next, actor) } }
  const done = endedWith(next, outcome.status === 'failed' ? outcome : { ...outcome, by: actor.id, via: actor.via ?? null }, context)
  return {
    facts: [fact(done.status === 'failed' ? 'request.failed' : 'request.completed', [image(Request, done)])],
    output: { request: viewOf(done, actor), receipt: unsigned(done) },
  }
}

/** Neither does one person vote twice, nor is one vote given by two. */
function voteOf(state: OfRequest, { result, reason }: Answer, { actor, now }: Context): Vote {
  const { request } = state
  const whose = answersAs(actor, state)!
  if (request.votes?.some(({ by, in_place_of = by }) => by === actor.id || in_place_of === whose))
    throw new Refusal('ALREADY_VOTED', whose === actor.id ? 'you have voted already' : `you have voted already, or ${whose} has`)
  return {
    by: actor.id,
    ...(whose === actor.id ? {} : { in_place_of: whose }),
    result,
    ...(reason === undefined ? {} : { reason }),
    via: actor.via ?? null,
    shown_digest: shownDigest(request),
    at: now,
  }
}

const basis = { kind: 'role', id: 'answered by a quorum' } as const

/** null: it is still open. */
function outcomeOf({ action, quorum, votes = [] }: Request): Ending | null {
  const { n, of } = quorum!
  const left = of.length - votes.length
  const counts = Map.groupBy(votes, ({ result }) => result)
  const isWon = ([, those]: [unknown, Vote[]]): boolean => those.length >= n
  const ended = { by: null, basis }
  if (action === 'APPROVE') {
    const approvals = counts.get('approved')?.length ?? 0
    if (approvals >= n) return { ...ended, status: 'completed', result: 'approved' }
    const reason = joined(counts.get('rejected') ?? [])
    return approvals + left < n ? { ...ended, status: 'completed', result: 'rejected', ...(reason === '' ? {} : { reason }) } : null
  }
  const won = [...counts].find(isWon)
  if (won) return { ...ended, status: 'completed', result: won[0] }
  const most = Math.max(...[...counts.values()].map((those) => those.length))
  return most + left < n ? { ...ended, status: 'failed', result: null, reason: NO_QUORUM, as: 'system:quorum' } : null
}

/** What all of them said against it, as far as there is room. */
function joined(votes: readonly Vote[]): string {
  const text = votes.flatMap(({ reason }) => (reason === undefined ? [] : [reason])).join('\n')
  if (text.length <= limits.reasonCharsMax) return text
  return `${text.slice(0, limits.reasonCharsMax - 1).replace(/[\uD800-\uDBFF]$/, '')}…`
}
