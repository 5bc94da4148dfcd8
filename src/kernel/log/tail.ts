// The tail of the record: one subscription to the store for this process, and everybody else is told by it, in order. Hints say that
// something was committed here or elsewhere; facts are read behind them, once for all, and only while they are followed.
import type { Line } from './hash-chain.ts'
import type { Hint, Listener, Sealed, Store, StoredFact, Value } from './store.ts'

export type Follower = (facts: readonly Sealed[]) => void

export type Tail = {
  /** Told of every commit: whom it wakes and what it changed, without what is in it. */
  hear(listener: Listener): () => void
  /**
   * Told of every fact that is committed from now on, in the order of the record and each once. `wants`: asked with each hint, where
   * reading can be spared; what is not wanted is passed over.
   */
  follow(follower: Follower, wants?: (hint: Hint) => boolean): () => void
  /** Looks for itself, in case that a hint was lost. */
  look(): void
  stop(): void
}

const PAGE = 128

export function createTail(store: Store, bug: (error: unknown) => void = () => undefined): Tail {
  const listeners = new Set<Listener>()
  const followers = new Map<Follower, (hint: Hint) => boolean>()
  /** Facts up to here were told, or passed over. */
  let known = store.stats().position
  /** Facts up to here are to be told. */
  let target = known
  let running = false
  let stopped = false

  function notifyFollowers(facts: readonly Sealed[]): void {
    for (const follower of followers.keys()) {
      try {
        follower(facts)
      } catch (error) {
        bug(error)
      }
    }
  }

  function hint(some: Hint): void {
    for (const listener of listeners) {
      try {
        listener(some)
      } catch (error) {
        bug(error)
      }
    }
    if (some.position <= known) return
    if (!running && ![...followers.values()].some((wants) => wants(some))) {
      known = some.position
      return
    }
    target = Math.max(target, some.position)
    const cached = running ? null : store.lately(known)
    if (cached) {
      known = Math.max(known, cached.at(-1)?.position ?? 0)
      notifyFollowers(cached)
    }
    if (known < target && !running) void run()
  }

  async function run(): Promise<void> {
    running = true
    try {
      while (known < target && !stopped) {
        // Facts that are hinted at while these are read may not be among them.
        const until = target
        const page = await store.facts({ by: 'position' }, { after: known, limit: PAGE })
        // The last ones may be left out, because they differ from the record.
        known = page.length < PAGE ? Math.max(until, page.at(-1)?.position ?? 0) : page.at(-1)!.position
        if (page.length > 0) notifyFollowers(page.map(sealedOf))
      }
    } catch (error) {
      // It is still wanted: the next hint or look tries again.
      if (!stopped) bug(error)
    }
    running = false
  }

  const unsubscribe = store.subscribe(hint)
  return {
    hear(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    follow(follower, wants = () => true) {
      followers.set(follower, wants)
      return () => followers.delete(follower)
    },
    look() {
      store.position().then((position) => position > known && hint({ position, keys: 'all', wakes: 'all' }), bug)
    },
    stop() {
      stopped = true
      unsubscribe()
    },
  }
}

/** As the process that committed it has it. */
function sealedOf({ position, scope, seq, at, hash, line, images }: StoredFact): Sealed {
  const { id, action, actor, behalf, basis, cause, subject, task, root, detail } = JSON.parse(line) as Line
  const values = images.map(({ key, text }) => ({ key, text: text!, value: JSON.parse(text!) as Value }))
  return {
    position,
    scope,
    seq,
    at,
    hash,
    line,
    fact: { id, action, actor, behalf, basis, cause, subject, task, root, detail, images: values },
  }
}
