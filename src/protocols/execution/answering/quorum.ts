// N of M: several people answer one request, each with one vote, until it is decided or can no longer be.
import { Refusal } from '#kernel/declare/errors.ts'
import { image } from '#kernel/declare/facts.ts'
import { limits } from '#kernel/limits.ts'
import { cutTo } from '#kernel/codec/cut-text.ts'
import type { Context, Decision } from '#kernel/declare/operation.ts'
import { endFact, fact } from '../events.ts'
import { shownDigest, type Surface } from './shown-request.ts'
import { endedWith, receiptOf, type Ending, type SignedReceipt } from './receipt.ts'
import type { Reach } from '../asking/recipients.ts'
import { answersAs, type OfRequest } from '../access.ts'
import { actions } from '../actions/index.ts'
import { Request, type Vote } from '../schema.ts'
import { viewOf, type RequestView } from '../view.ts'

export const NO_QUORUM = 'no_quorum'

type Ballot = { readonly result: unknown; readonly declined?: true; readonly reason?: string; readonly surface?: Surface | undefined }

/** Adds a vote. The deciding vote ends the request. */
export function castVote(
  state: OfRequest,
  reach: Reach,
  answer: Ballot,
  context: Context,
): Decision<{ request: RequestView; receipt?: SignedReceipt }> {
  const { request } = state
  const { actor } = context
  const votes = [...(request.votes ?? []), voteOf(state, answer, context)]
  const next: Request = { ...request, votes }
  // The people of a task can still change: its question waits for them.
  const outcome = outcomeOf(next) ?? (request.task_id === undefined ? outOfReach(next, reach) : null)
  if (outcome === null) return { facts: [fact('request.voted', [image(Request, next)])], output: { request: viewOf(next, actor) } }
  const done = endedWith(
    next,
    outcome.as !== undefined ? outcome : { ...outcome, by: actor.id, via: actor.via ?? null, surface: answer.surface },
    context,
  )
  return {
    facts: [endFact(done)],
    output: { request: viewOf(done, actor), receipt: receiptOf(done) },
  }
}

/** Neither does one person vote twice, nor is one vote given by two. */
function voteOf(state: OfRequest, { result, declined, reason, surface }: Ballot, { actor, now, signature }: Context): Vote {
  const { request } = state
  const whose = answersAs(actor, state)!
  if (request.votes?.some(({ by, in_place_of = by }) => by === actor.id || in_place_of === whose))
    throw new Refusal('ALREADY_VOTED', whose === actor.id ? 'you have voted already' : `you have voted already, or ${whose} has`)
  return {
    by: actor.id,
    ...(whose === actor.id ? {} : { in_place_of: whose }),
    result,
    ...(declined ? { declined } : {}),
    ...(reason === undefined ? {} : { reason }),
    via: actor.via ?? null,
    shown_digest: shownDigest(request, surface),
    at: now,
    ...(signature === null ? {} : { assertion: signature }),
  }
}

const basis = { kind: 'role', id: 'answered by a quorum' } as const

/** null: it is still open. */
function outcomeOf({ action, quorum, votes = [] }: Request): Ending | null {
  const { n, of } = quorum!
  const left = of.length - votes.length
  const counts = answersIn(votes)
  const declines = votes.filter(({ declined }) => declined === true)
  const isWon = ([, those]: [unknown, Vote[]]): boolean => those.length >= n
  const ended = { by: null, basis }
  if (actions[action].isVerdict === true) {
    const approvals = counts.get('approved')?.length ?? 0
    if (approvals >= n) return { ...ended, status: 'completed', result: 'approved' }
    if (approvals + left >= n) return null
    // A vote to decline is a no. One rejection among the votes makes it a rejection.
    if (approvals + declines.length === votes.length) return declinedBy(declines)
    const reason = joinReasons(votes.filter(({ result }) => result !== 'approved'))
    return { ...ended, status: 'completed', result: 'rejected', ...(reason === '' ? {} : { reason }) }
  }
  const won = [...counts].find(isWon)
  if (won) return { ...ended, status: 'completed', result: won[0] }
  const most = Math.max(0, ...[...counts.values()].map((those) => those.length))
  if (most + left >= n) return null
  return declines.length === votes.length
    ? declinedBy(declines)
    : { ...ended, status: 'failed', result: null, reason: NO_QUORUM, as: 'system:quorum' }
}

/** Votes by their answer. A vote to decline counts for none. */
const answersIn = (votes: readonly Vote[]) =>
  Map.groupBy(
    votes.filter(({ declined }) => declined !== true),
    ({ result }) => result,
  )
const declinedBy = (declines: readonly Vote[]): Ending => ({
  by: null,
  basis,
  status: 'failed',
  result: null,
  reason: joinReasons(declines),
  declined: true,
})

/** X28: the ending if too few voters are left to reach a decision; null: still possible. A missing vote is never recorded as a no. */
export function outOfReach({ action, quorum, votes = [] }: Pick<Request, 'action' | 'quorum' | 'votes'>, reach: Reach): Ending | null {
  const counts = answersIn(votes)
  const most =
    actions[action].isVerdict === true
      ? (counts.get('approved')?.length ?? 0)
      : Math.max(0, ...[...counts.values()].map((those) => those.length))
  if (most + votesLeft(votes, reach) >= quorum!.n) return null
  return {
    by: null,
    basis: { kind: 'policy', id: 'quorum/out_of_reach' },
    status: 'failed',
    result: null,
    reason: NO_QUORUM,
    as: 'system:quorum',
  }
}

/** How many votes are still possible: each person votes once, and each vote is by one person. */
function votesLeft(votes: readonly Vote[], reach: Reach): number {
  const votedFor = new Set(votes.map(({ by, in_place_of = by }) => in_place_of))
  const voters = new Set(votes.map(({ by }) => by))
  const open = [...reach].filter(([who]) => !votedFor.has(who))
  // A named person votes for themself.
  const inPerson = open.filter(([who, by]) => by.includes(who) && !voters.has(who)).length
  const absent = open.filter(([who, by]) => !by.includes(who))
  const takenBy = new Map<string, string>()
  const isServed = (who: string, seen: Set<string>): boolean =>
    (reach.get(who) ?? []).some((by) => {
      if (voters.has(by) || reach.has(by) || seen.has(by)) return false
      seen.add(by)
      const before = takenBy.get(by)
      if (before !== undefined && !isServed(before, seen)) return false
      takenBy.set(by, who)
      return true
    })
  return inPerson + absent.filter(([who]) => isServed(who, new Set())).length
}

/** All reasons against it, as far as there is room. */
function joinReasons(votes: readonly Vote[]): string {
  const text = votes.flatMap(({ reason }) => (reason === undefined ? [] : [reason])).join('\n')
  if (text.length <= limits.reasonCharsMax) return text
  return `${cutTo(text, limits.reasonCharsMax - 1)}…`
}
