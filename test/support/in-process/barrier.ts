// A store at which calls meet: each has read and decided before any of them is written.
import type { Store } from '#kernel/log/store.ts'

/** Holds commits back until so many wait, then lets them go in the order that the round wants. */
export type Barrier = { readonly store: Store; arm(parties: number, firstIsLast: boolean): void; arrived(count: number): Promise<void> }

export function barrier(store: Store): Barrier {
  let parties = 0
  let isReversed = false
  let waiting: (() => void)[] = []
  let watchers: { count: number; done: () => void }[] = []
  const gated: Store = {
    ...store,
    async commit(batch) {
      if (parties > 0) {
        await new Promise<void>((go) => {
          waiting.push(go)
          watchers = watchers.filter(({ count, done }) => (count === waiting.length ? done() : true))
          if (waiting.length < parties) return
          parties = 0
          const all = isReversed ? waiting.reverse() : waiting
          waiting = []
          // Only when the last one waits as well.
          setImmediate(() => all.forEach((one) => one()))
        })
      }
      return store.commit(batch)
    },
  }
  return {
    store: gated,
    arm(count, firstIsLast) {
      parties = count
      isReversed = firstIsLast
    },
    arrived: (count) => new Promise((done) => watchers.push({ count, done })),
  }
}
