// A bounded map that forgets the least recently used entry.

type Entry<V> = { readonly value: V; readonly bytes: number }

export type Cache<V> = {
  get(key: string): V | undefined
  set(key: string, value: V, bytes: number): void
  delete(key: string): void
}

export function createCache<V>(bytesMax: number): Cache<V> {
  // Two generations: a hit in the old one moves up; when the young one holds half the bound, the old one goes. Cheaper than a list.
  let young = new Map<string, Entry<V>>()
  let old = new Map<string, Entry<V>>()
  let bytes = 0

  function put(key: string, entry: Entry<V>): void {
    bytes += entry.bytes - (young.get(key)?.bytes ?? 0)
    young.set(key, entry)
    if (bytes > bytesMax / 2) {
      old = young
      young = new Map()
      bytes = 0
    }
  }

  return {
    get(key) {
      const hit = young.get(key)
      if (hit) return hit.value
      const aged = old.get(key)
      if (!aged) return undefined
      put(key, aged)
      return aged.value
    },
    set(key, value, size) {
      old.delete(key)
      put(key, { value, bytes: size })
    },
    delete(key) {
      bytes -= young.get(key)?.bytes ?? 0
      young.delete(key)
      old.delete(key)
    },
  }
}
