// A mutex per key: calls that lost a race over one document continue one after the other.
import type { Key } from '../log/store.ts'

export function createKeyMutex(): { enter(key: Key): Promise<() => void> } {
  const lanes = new Map<Key, Promise<unknown>>()
  return {
    async enter(key) {
      const before = lanes.get(key) ?? Promise.resolve()
      const { promise: mine, resolve: leave } = Promise.withResolvers<void>()
      const tail = before.then(() => mine)
      lanes.set(key, tail)
      await before
      return () => {
        leave()
        if (lanes.get(key) === tail) lanes.delete(key)
      }
    },
  }
}
