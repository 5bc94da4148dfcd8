// The tail of the record: the only subscription of this process to the store. It notifies all other listeners, in order. Hints say that
// this process or another one has committed. The tail then reads the facts once for all followers, and only while there are any.
import type { Line } from './hash-chain.ts'
import type { Hint, Listener, Sealed, Store, StoredFact, Value } from './store.ts'

export type Follower = (facts: readonly Sealed[]) => void

export type Tail = {
  /** Notifies the listener of every commit: the ids to wake and the changed documents, without their content. */
  hear(listener: Listener): () => void
  /**
   * Passes every fact committed from now on to the follower, in the order of the record and each once. `wants`: called with each hint to
   * save reads; unwanted facts are skipped.
   */
  follow(follower: Follower, wants?: (hint: Hint) => boolean): () => void
  /** Checks for new facts itself, in case a hint was lost. */
  look(): void
  stop(): void
}

const PAGE = 128

export function createTail(store: Store, bug: (error: unknown) => void = () => undefined): Tail {
  const listeners = new Set<Listener>()
  const followers = new Map<Follower, (hint: Hint) => boolean>()
  /** Facts up to here were delivered or skipped. */
  let known = store.stats().position
  /** Facts up to here are to be delivered. */
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
        // A hint during this read can announce facts that the read does not include.
        const until = target
        const page = await store.facts({ by: 'position' }, { after: known, limit: PAGE })
        // The last facts of a page can be left out because they differ from the record.
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
