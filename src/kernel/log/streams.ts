// Streams follow the record: the facts are the source of truth, and the store's subscription only says when to look again. Nothing is
// skipped, nothing is sent before it is durable, and each subscriber is re-authorized before every batch.
import { timestampOf } from '../ports/clock.ts'
import { draftAt, type Draft } from '../call/unit-of-work.ts'
import { Refusal } from '../declare/errors.ts'
import type { Actor } from '../declare/access.ts'
import type { Stream } from '../declare/operation.ts'
import type { Presence } from '../ports/presence.ts'
import type { FactsOf, Key, Store, StoredFact } from './store.ts'
import type { Tail } from './tail.ts'

/** The actor, or a function that resolves it: called again for every attempt, so that a revoked credential cannot win a race. */
export type Caller = Actor | (() => Actor | Promise<Actor>)

/** The current right of an actor to follow a stream. */
export type Admission = {
  readonly actor: Actor
  readonly op: Stream
  readonly input: object
  readonly of: FactsOf
  /** The one document that the stream is about. */
  readonly about: Key | null
  /** The name of the group of subscribers that get the same items. */
  readonly audience: string
  /** Whether this subscriber can see the fact; null: every fact of the stream. */
  readonly sees: ((fact: StoredFact) => boolean | Promise<boolean>) | null
  /** Resolves the caller and loads its rights again. */
  again(): Promise<Admission>
}

export type FollowOptions = {
  /** The place of the last item seen; null begins at the first. */
  readonly after: number | null
  readonly signal: AbortSignal
}
export type Followed = { readonly place: number; readonly item: unknown }

export type Streams = {
  /** Checks that an actor is allowed to follow a stream. A denial is recorded as for a call. */
  admit(operation: string, input: unknown, caller: Caller): Promise<Admission>
  /** The items of a stream operation from a place on, until the signal aborts. Each names the place to resume from. */
  follow(operation: string, input: unknown, caller: Caller, options: FollowOptions): AsyncIterable<Followed>
}

type Wiring = {
  now(): number
  streamOf(name: string): Stream | undefined
  /** Checks the shape, loads and authorizes. */
  load(draft: Draft, op: Stream, raw: unknown, actor: Actor): Promise<{ readonly input: unknown; readonly state: unknown }>
  denied(draft: Draft, operation: string, actor: Actor, refusal: Refusal): void
  /** Charges the start of a stream. Refuses an actor whose read quota is used up. */
  begins(actor: Actor): void
  readonly presence: Presence | undefined
}

export function createStreams(store: Store, tail: Tail, { now, streamOf, load, denied, begins, presence }: Wiring): Streams {
  function opOf(name: string): Stream {
    const op = streamOf(name)
    if (!op) throw new Refusal('NOT_FOUND', `there is no stream ${name}`)
    return op
  }

  async function admit(name: string, raw: unknown, caller: Caller, isFirst: boolean): Promise<Admission> {
    const op = opOf(name)
    await store.fresh()
    const draft = draftAt(timestampOf(now()))
    const actor = typeof caller === 'function' ? await caller() : caller
    if (actor.kind === 'agent') presence?.heard(actor.id)
    try {
      if (isFirst) begins(actor)
      const { input, state } = await load(draft, op, raw, actor)
      const sees = op.sees?.(state) ?? null
      return {
        actor,
        op,
        input: input as object,
        of: op.of(state),
        about: op.about?.(state) ?? null,
        audience: op.audience?.(actor) ?? '',
        sees,
        again: () => admit(name, raw, caller, false),
      }
    } catch (error) {
      // The end of a right is not recorded as a denial: it is no attempt to reach foreign data.
      if (isFirst && error instanceof Refusal) denied(draft, name, actor, error)
      throw error
    }
  }

  return {
    admit: (name, raw, caller) => admit(name, raw, caller, true),
    follow(name, raw, caller, options) {
      opOf(name)
      const listens = ({ id, kind }: Actor): (() => void) | undefined => (kind === 'agent' ? presence?.listens(id) : undefined)
      return followStream(store, tail, options, (isFirst) => admit(name, raw, caller, isFirst), listens)
    },
  }
}

/** The place in a chain is its `seq`; in any other range it is the position. */
export const placeIn = (of: FactsOf, fact: { readonly seq: number; readonly position: number }): number =>
  of.by === 'scope' || of.by === 'actor' ? fact.seq : fact.position

/** The place of the last fact that there is. */
export const lastPlace = async (store: Store, of: FactsOf): Promise<number> =>
  of.by === 'scope' || of.by === 'actor' ? (await store.head(of.scope)).seq : await store.position()

const PORTION = 100

async function* followStream(
  store: Store,
  tail: Tail,
  { after, signal }: FollowOptions,
  admit: (isFirst: boolean) => Promise<Admission>,
  listens: (actor: Actor) => (() => void) | undefined,
): AsyncIterable<Followed> {
  const wake = createWake(tail, signal)
  let leave: (() => void) | undefined
  try {
    let place = after
    for (let isFirst = true; !signal.aborted; isFirst = false) {
      const seen = wake.generation()
      const { actor, op, of, input, audience, sees } = await admit(isFirst)
      leave ??= listens(actor)
      const portion = await store.facts(of, { after: place, limit: PORTION })
      for (const stored of portion) {
        if (signal.aborted) return
        place = placeIn(of, stored)
        if (op.wants && !op.wants(input, stored)) continue
        if (sees === null || (await sees(stored))) yield { place, item: op.view(stored, audience) }
      }
      if (portion.length < PORTION) await wake.since(seen)
    }
  } finally {
    leave?.()
    wake.close()
  }
}

/** Counts hints, so that a hint during a subscriber's work is not missed. */
function createWake(tail: Tail, signal: AbortSignal): { generation(): number; since(seen: number): Promise<void>; close(): void } {
  let generation = 0
  let waiting: (() => void) | null = null
  const ring = (): void => {
    generation++
    waiting?.()
    waiting = null
  }
  const unsubscribe = tail.hear(ring)
  signal.addEventListener('abort', ring)
  return {
    generation: () => generation,
    since: (seen) => (generation !== seen || signal.aborted ? Promise.resolve() : new Promise((done) => (waiting = done))),
    close() {
      unsubscribe()
      signal.removeEventListener('abort', ring)
    },
  }
}
