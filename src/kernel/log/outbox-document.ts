// The outbox document: everything that leaves the process is one kind of document with one index and one loop behind it.
import type { Draft } from '../call/unit-of-work.ts'
import { Refusal } from '../declare/errors.ts'
import { put } from '../declare/facts.ts'
import { system, SYSTEM_SCOPE } from '../declare/access.ts'
import { limits } from '../limits.ts'
import { leaseOperations } from './leases.ts'
import { command, type Protocol, type Read } from '../declare/operation.ts'
import { doc, idOf, index, kindOf, nullable, t, type Static } from '../declare/schema.ts'

export const Delivery = doc(
  'kernel.delivery',
  t.Object({
    id: t.String(), // `${channel}/${lane}/${order}`: the key itself keeps the lane in order
    channel: t.String(),
    lane: t.String(), // order is kept inside a lane, and only there
    due: t.String(), // not before
    attempt: t.Integer(),
    body: t.Unknown(),
    error: nullable(t.String()), // why the last attempt failed
  }),
  { scopeOf: () => SYSTEM_SCOPE, indexes: { due: index((d) => [[d.channel, d.due]]) } },
)
export type Delivery = Static<typeof Delivery.schema>

export const deliveryId = (channel: string, lane: string, order: string): string => `${channel}/${lane}/${order}`

/** A stored answer, so that a repeated call has one effect and one answer. */
export const Reply = doc(
  'kernel.reply',
  t.Object({
    id: t.String(),
    digest: t.String(),
    output: t.Unknown(),
    at: t.String(),
    about: t.Optional(t.Array(t.String())), // keys of the documents that the call changed: an actor that may not read them is not told again
    pending: t.Optional(t.String()), // the effect whose outcome it will be
  }),
  { scopeOf: () => SYSTEM_SCOPE, indexes: { age: index((r) => [[r.at]]) } },
)

/** Refuses to repeat an answer to an actor that can no longer read its documents. Deleted documents are ignored. */
export async function refuseHidden(read: Read, draft: Draft, about: readonly string[]): Promise<void> {
  for (const key of about) {
    const kind = kindOf(key)
    await read.maybe(kind, idOf(key))
    if (draft.hidden !== null) throw new Refusal('NOT_FOUND', `there is no ${kind.noun} ${idOf(key)}`)
  }
}

const Outcome = t.Object({
  id: t.String(),
  /** The due time when it was taken: a delivery that was deferred meanwhile stays. */
  taken: t.Optional(t.String()),
  ok: t.Boolean(),
  due: t.Optional(t.String()),
  error: t.Optional(t.String()),
})

const settle = command({
  name: 'delivery.settle',
  summary: 'Record the outcome of deliveries: done ones are removed, failed ones are tried again later.',
  draft: 'ours: the outbox',
  input: t.Object({ outcomes: t.Array(Outcome, { maxItems: 256 }) }),
  output: t.Object({ settled: t.Integer() }),
  callers: [system],
  requires: [],
  audit: null,
  async load(read, { outcomes }) {
    return { all: await Promise.all(outcomes.map(async (outcome) => ({ outcome, delivery: await read.maybe(Delivery, outcome.id) }))) }
  },
  decide({ all }, _, { now }) {
    const puts = all.flatMap(({ outcome, delivery }) => {
      if (delivery === null || (outcome.taken ?? delivery.due) !== delivery.due) return []
      if (outcome.ok) return [put(Delivery, delivery.id, null)]
      const again = { ...delivery, attempt: delivery.attempt + 1, due: outcome.due ?? now, error: outcome.error ?? null }
      return [put(Delivery, delivery.id, again)]
    })
    return { facts: [], puts, output: { settled: puts.length } }
  },
  example: { given: 'empty', as: 'system', input: { outcomes: [] } },
})

const forget = command({
  name: 'reply.forget',
  summary: 'Forget answers that are older than the time for which idempotency keys are kept.',
  draft: 'ours: idempotency keys',
  input: t.Object({}),
  output: t.Object({ forgotten: t.Integer(), more: t.Boolean() }),
  callers: [system],
  requires: [],
  audit: null,
  async load(read, _, { now }) {
    const oldest = await read.list(Reply, 'age', [[]], { limit: 200 })
    const replies = await Promise.all(oldest.map(({ id }) => read.maybe(Reply, id)))
    const before = new Date(Date.parse(now) - limits.replyMs).toISOString()
    return { old: replies.filter((reply) => reply !== null && reply.at < before).map((reply) => reply!.id), full: oldest.length === 200 }
  },
  decide({ old, full }) {
    return { facts: [], puts: old.map((id) => put(Reply, id, null)), output: { forgotten: old.length, more: full && old.length === 200 } }
  },
  example: { given: 'empty', as: 'system', input: {} },
})

const begin = command({
  name: 'fan.begin',
  summary: 'Remember the body of a call that makes several others, so that its idempotency key is valid for that body only.',
  draft: 'ours: idempotency keys',
  input: t.Object({ asked: t.String() }),
  output: t.Object({}),
  callers: [system],
  requires: [],
  audit: null,
  load: () => Promise.resolve(null),
  // With a key the kernel keeps the answer, and refuses the key with another input.
  decide: () => ({ facts: [], output: {} }),
  example: { given: 'empty', as: 'system', input: { asked: 'something' } },
})

/** The kernel's own bookkeeping. No binding serves it: it is for the kernel and the workers of this process. */
export const bookkeeping: Protocol = {
  name: 'kernel',
  title: 'Bookkeeping of the kernel',
  version: '1',
  operations: [settle, forget, begin, ...leaseOperations],
  events: {},
  codes: {},
  scenes: { empty: [] },
}
