// Effects outside this process, between two facts: a first batch records the intent, a second one the outcome. Nothing is done before the
// intent is durable, and an effect that a crash left open is recorded as unknown, never done again.
import { Reply } from '../log/outbox-document.ts'
import type { DueErrand } from './errands-at-once.ts'
import type { Draft } from './unit-of-work.ts'
import { Refusal } from '../declare/errors.ts'
import { SYSTEM, SYSTEM_SCOPE, type Actor } from '../declare/access.ts'
import type { Read } from '../declare/operation.ts'
import { doc, keyOf, nullable, t, type Static } from '../declare/schema.ts'
import type { Clock } from '../ports/clock.ts'
import { limits } from '../limits.ts'
import type { Store, Value } from '../log/store.ts'
import type { Tail } from '../log/tail.ts'

/** A process among several: its server's name, and the epoch of its lease. */
export type NodeEpoch = { readonly node: string; readonly epoch: number }

/**
 * `outcome`: performs the effect that the answer depends on; `isReplayed`: this is the stored answer of an earlier call with the same key.
 */
export type CallAnswer = {
  readonly output: unknown
  readonly outcome?: () => Promise<unknown>
  readonly errands?: readonly DueErrand[]
  readonly isReplayed?: true
}

/**
 * The port that performs the effect, and the operation (`${protocol}/${operation}`) that records its outcome from `id` and `outcome`, or
 * `id` alone.
 */
export type EffectOf = { readonly port: string; readonly conclude: string }
/** An effect that a decision wants; `id` names the intent. The request is held in memory only and never written down. */
export type Wanted = { readonly id: string; readonly request: unknown }

/** Performs a request at a port and reports its outcome. Resolves with the answer of `conclude`. A `null` outcome means unknown. */
export type Perform = (port: string, request: unknown, conclude: (outcome: Value | null) => Promise<unknown>) => Promise<unknown>

/** An intent without an outcome. No fact describes this document: the intent and the outcome each have a fact. */
export const Pending = doc(
  'kernel.pending',
  t.Object({
    id: t.String(),
    conclude: t.String(),
    behalf: t.String(),
    reply: nullable(t.Object({ id: t.String(), digest: t.String() })), // the remembered answer that the outcome replaces
    at: t.String(),
    node: t.Optional(t.String()), // the server that does it, and the epoch of its lease
    epoch: t.Optional(t.Integer()),
  }),
  { scopeOf: () => SYSTEM_SCOPE },
)
export type Pending = Static<typeof Pending.schema>

export type Effects = {
  refuseWithoutPort(effect: EffectOf): void
  /** Called before the intent is durable: from then on a retry finds the call in flight. */
  begin(id: string): void
  /** The intent did not become durable. */
  drop(id: string): void
  /** The answer of the call in flight, for a retry of it. */
  joined(id: string): Promise<unknown> | undefined
  perform(pending: Pending, port: string, request: unknown): Promise<unknown>
}

export function createEffects(perform: Perform | undefined, call: (name: string, input: object, as: Actor) => Promise<unknown>): Effects {
  const underWay = new Map<string, PromiseWithResolvers<unknown>>()
  return {
    refuseWithoutPort({ port }) {
      if (!perform) throw new Refusal('UNAVAILABLE', `this server cannot do it: there is no ${port} port`)
    },
    begin(id) {
      const waiting = Promise.withResolvers<unknown>()
      // The caller gets the rejection. Without this handler, a call that is never retried would leave an unhandled rejection.
      waiting.promise.catch(() => undefined)
      underWay.set(id, waiting)
    },
    drop: (id) => void underWay.delete(id),
    joined: (id) => underWay.get(id)?.promise,
    async perform({ id, conclude, behalf }, port, request) {
      const waiting = underWay.get(id)
      try {
        const answer = await perform!(port, request, (outcome) =>
          call(conclude, outcome === null ? { id } : { id, outcome }, { ...SYSTEM, behalf }),
        )
        waiting?.resolve(answer)
        return answer
      } catch (error) {
        waiting?.reject(error)
        throw error
      } finally {
        underWay.delete(id)
      }
    },
  }
}

/** A stored answer: its id, and the digest of the request. */
export type Remembered = { readonly id: string; readonly digest: string }

/** Adds the pending document to the batch of the call, which also records the intent. */
export function beginIn(
  draft: Draft,
  { id }: Wanted,
  { conclude }: EffectOf,
  actor: Actor,
  reply: Remembered | null,
  node: NodeEpoch | undefined,
): Pending {
  const pending: Pending = { id, conclude, behalf: actor.id, reply, at: draft.at, ...node }
  draft.after.set(keyOf(Pending, id), pending)
  draft.puts.add(keyOf(Pending, id))
  return pending
}

/** Records the outcome once and makes it the answer to retries. */
export async function concludeIn(draft: Draft, read: Read, id: string, output: Value): Promise<void> {
  const pending = await read.raw(Pending, id)
  if (pending === null) throw new Refusal('PRECONDITION_FAILED', `the outcome of ${id} is recorded already`)
  draft.after.set(keyOf(Pending, id), null)
  draft.puts.add(keyOf(Pending, id))
  if (pending.reply === null) return
  const { reply } = pending
  const about = (await read.raw(Reply, reply.id))?.about
  draft.after.set(keyOf(Reply, reply.id), { ...reply, output, at: draft.at, ...(about ? { about } : {}) })
  draft.puts.add(keyOf(Reply, reply.id))
}

type Around = { readonly store: Store; readonly tail: Tail; readonly sleep: Clock['sleep'] | undefined }
type Call = (name: string, input: object, as: Actor) => Promise<unknown>
const LOST_MS = 2_000
const LOST_LOOKS_MAX = 60

/**
 * Concludes an intent whose commit is in doubt. Its effect is never performed. If the intent turns out to be durable, no other process
 * would conclude it while this one lives, so this process does.
 */
export async function concludeLost({ store, sleep }: Omit<Around, 'tail'>, id: string, call: Call): Promise<void> {
  for (let look = 1; sleep !== undefined && look <= LOST_LOOKS_MAX; look++) {
    await sleep(LOST_MS, new AbortController().signal)
    try {
      await store.fresh()
      const [found] = await store.read([keyOf(Pending, id)])
      if (found === undefined) continue
      const { conclude, behalf } = found.value as Pending
      await call(conclude, { id }, { ...SYSTEM, behalf })
      return
    } catch {
      // The database is still unreachable, or another call concluded it first.
    }
  }
}
const LOOKS_MAX = 20

/** The answer to a call in flight in another process. It waits at most as long as a long poll, then returns the answer stored so far. */
export async function outcomeElsewhere({ store, tail, sleep }: Around, id: string, replyId: string): Promise<unknown> {
  const key = keyOf(Pending, id)
  let woken = new AbortController()
  const leave = tail.hear(({ keys }) => void ((keys === 'all' || keys.includes(key)) && woken.abort('woken')))
  try {
    for (let look = 1; sleep !== undefined && look <= LOOKS_MAX; look++) {
      woken = new AbortController()
      await store.fresh()
      const [open] = await store.read([key])
      if (open === undefined) break
      await sleep(limits.waitMsMax / LOOKS_MAX, woken.signal)
    }
    await store.fresh()
    const [reply] = await store.read([keyOf(Reply, replyId)])
    return reply?.value['output'] ?? null
  } finally {
    leave()
  }
}
