// Following the record: the facts are the truth, the store's subscription only says when to look again. Nothing is skipped,
// nothing is sent before it is durable, and who may not read any more is asked again before each portion.
import type { Stream } from './operation.ts'
import type { Sealed, Store } from './store.ts'

export type FollowOptions = {
  /** The place of the last item seen; null begins at the first. */
  readonly after: number | null
  readonly signal: AbortSignal
}
export type Followed = { readonly place: number; readonly item: unknown }

const PORTION = 100

export async function* followStream(
  store: Store,
  op: Stream,
  { after, signal }: FollowOptions,
  admit: () => Promise<unknown>,
): AsyncIterable<Followed> {
  const wake = createWake(store, signal)
  try {
    let place = after
    while (!signal.aborted) {
      const seen = wake.generation()
      const state = await admit()
      const of = op.of(state)
      const portion = await store.facts(of, { after: place, limit: PORTION })
      for (const stored of portion) {
        if (signal.aborted) return
        place = of.by === 'scope' || of.by === 'actor' ? stored.seq : stored.position
        const item: unknown = op.view(state, stored)
        if (item !== null) yield { place, item }
      }
      if (portion.length < PORTION) await wake.since(seen)
    }
  } finally {
    wake.close()
  }
}

/** Counts hints, so that one that comes while the subscriber is busy is not missed. */
function createWake(store: Store, signal: AbortSignal): { generation(): number; since(seen: number): Promise<void>; close(): void } {
  let generation = 0
  let waiting: (() => void) | null = null
  const ring = (): void => {
    generation++
    waiting?.()
    waiting = null
  }
  const unsubscribe = store.subscribe((_: readonly Sealed[]) => ring())
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
