// A pool is a queue that the people of a project take from: claim, give back, and the end of a forgotten claim.
import { image } from '#kernel/declare/facts.ts'
import { human, system } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, rule } from '#kernel/declare/operation.ts'
import { t } from '#kernel/declare/schema.ts'
import { fact } from '../events.ts'
import { backInPool } from '../asking/recipients.ts'
import { claimedBy } from '../asking/routing.ts'
import { answerer, chief, isNotLate, isStillOpen, isUnresolved, poolItemOf, requestOf, type OfRequest } from '../access.ts'
import { Id, isForPool, Request } from '../schema.ts'
import { secondsAfter } from '../deadlines.ts'
import { RequestView, viewOf } from '../view.ts'

const isPools = rule<OfRequest>(
  'PRECONDITION_FAILED',
  'the request was put to a pool',
  ({ request }) => isForPool(request),
  'the request was not put to a pool: there is nothing to claim',
)
const isClaimed = rule<OfRequest>(
  'PRECONDITION_FAILED',
  'the request is claimed',
  ({ request }) => request.status === 'assigned',
  'the request is unclaimed',
)

const claim = command({
  name: 'request.claim',
  summary: 'Take a request out of the pool for a time, so that nobody else works on it. Its holder may claim it again for longer.',
  draft: 'HXP 0.1, 6.1: pool',
  input: t.Object({
    request_id: Id,
    lease_seconds: t.Optional(
      t.Integer({ minimum: 1, maximum: limits.claimSecondsMax, description: `how long, ${limits.claimSecondsDefault} by default` }),
    ),
  }),
  output: t.Object({ request: RequestView }),
  callers: [human],
  requires: [
    isNotLate,
    isUnresolved,
    isPools,
    rule<OfRequest>(
      'ALREADY_CLAIMED',
      'no other person has claimed the request',
      ({ request }, _, { actor }) => request.assigned_to === null || request.assigned_to === actor.id,
      'another person has claimed the request',
    ),
  ],
  audit: 'request.claimed',
  load: (read, { request_id }, { actor }) => poolItemOf(read, request_id, actor),
  decide({ request }, { lease_seconds = limits.claimSecondsDefault }, { actor, now }) {
    const next = claimedBy(request, actor.id, now, secondsAfter(now, lease_seconds))
    return {
      facts: [fact('request.claimed', [image(Request, next)])],
      output: { request: viewOf(next, actor) },
    }
  },
  example: { given: 'pooled', as: 'bob', input: ({ request }) => ({ request_id: request.id, lease_seconds: 600 }) },
})

const release = command({
  name: 'request.release',
  summary: 'Give a claimed request back to the pool.',
  draft: 'HXP 0.1, 6.1: pool',
  input: t.Object({ request_id: Id }),
  output: t.Object({ request: RequestView }),
  callers: [answerer, chief],
  requires: [isNotLate, isUnresolved, isPools, isClaimed],
  audit: 'request.released',
  load: (read, { request_id }) => requestOf(read, request_id),
  decide({ request }, _, { actor }) {
    const next = backInPool(request)
    return {
      facts: [fact('request.released', [image(Request, next)], { detail: { from: request.assigned_to } })],
      output: { request: viewOf(next, actor) },
    }
  },
  example: { given: 'claimed', as: 'bob', input: ({ request }) => ({ request_id: request.id }) },
})

const unclaim = command({
  name: 'request.unclaim',
  summary: 'Put a request back into the pool when its claim expires. The system calls it.',
  draft: 'ours: a forgotten claim ends',
  input: t.Object({ request_id: Id }),
  output: t.Object({ request: RequestView }),
  callers: [system],
  requires: [
    isStillOpen,
    isClaimed,
    rule<OfRequest>(
      'PRECONDITION_FAILED',
      'the claim has expired',
      ({ request: { claimed_until } }, _, { now }) => claimed_until !== undefined && claimed_until <= now,
      'the claim is not over yet, or the request is not claimed',
    ),
  ],
  audit: 'request.released',
  load: (read, { request_id }) => requestOf(read, request_id),
  decide({ request }, _, { actor }) {
    const next = backInPool(request)
    return {
      facts: [fact('request.released', [image(Request, next)], { detail: { from: request.assigned_to, why: 'lease_over' } })],
      output: { request: viewOf(next, actor) },
    }
  },
  example: { given: 'forgotten_claim', as: 'system', input: ({ request }) => ({ request_id: request.id }) },
})

export const poolOperations = [claim, release, unclaim]
