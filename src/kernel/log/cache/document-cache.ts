// Bounded maps that forget the least recently used entry, and the document cache built from them.
import { createNewDocuments } from './new-documents.ts'
import type { StagedDoc } from '../sealing.ts'
import type { Place, Value, Versioned } from '../store.ts'

type Entry<V> = { readonly value: V; readonly bytes: number }

type Cache<V> = {
  get(key: string): V | undefined
  set(key: string, value: V, bytes: number): void
  delete(key: string): void
  clear(): void
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
    clear() {
      young = new Map()
      old = new Map()
      bytes = 0
    },
  }
}

export type DocumentCache = Cache<Cached> & {
  /** Adds a document that this group created: most are evicted before they are read. */
  add(key: string, value: Cached, bytes: number): void
  isAbsent(key: string): boolean
  /** Remembers that the disk has no document under this key. */
  setAbsent(key: string): void
}

/**
 * Documents that were read, new documents, and absent keys. A new document is kept apart until it is read: one that is never read evicts none
 * that is, and the collector has less to copy. One with a text is kept outside of the heap (new-documents.ts). Keys under which nothing was found are
 * remembered by name alone: asking looks for two policies that hardly anybody has (each look cost two queries, about 20 us).
 */
export function createDocumentCache(sizes: {
  bytesMax: number
  newBytesMax: number
  newTextBytesMax: number
  absentMax: number
}): DocumentCache {
  const known = createCache<Cached>(sizes.bytesMax)
  const fresh = createCache<{ readonly value: Cached; readonly bytes: number }>(sizes.newBytesMax)
  const texts = createNewDocuments(sizes.newTextBytesMax)
  const absent = new Set<string>()
  return {
    get(key) {
      const hit = known.get(key)
      if (hit !== undefined) return hit
      const text = texts.take(key)
      if (text !== undefined) {
        known.set(key, text, costOf(text.size))
        return text
      }
      const found = fresh.get(key)
      if (found === undefined) return undefined
      fresh.delete(key)
      known.set(key, found.value, found.bytes)
      return found.value
    },
    set(key, value, bytes) {
      absent.delete(key)
      texts.delete(key)
      fresh.delete(key)
      known.set(key, value, bytes)
    },
    add(key, value, bytes) {
      absent.delete(key)
      known.delete(key)
      if (value.text === null) fresh.set(key, { value, bytes }, bytes)
      else texts.add(key, value)
    },
    delete(key) {
      absent.delete(key)
      texts.delete(key)
      fresh.delete(key)
      known.delete(key)
    },
    clear() {
      absent.clear()
      texts.clear()
      fresh.clear()
      known.clear()
    },
    isAbsent: (key) => absent.has(key),
    setAbsent(key) {
      if (absent.size >= sizes.absentMax) absent.clear()
      absent.add(key)
    },
  }
}

/**
 * `text` until it is read: most of what is created is not read before it is forgotten here, and a text is one object to the
 * collector where a document is dozens.
 */
export type Cached = {
  readonly version: number
  value: Value | null
  text: string | null
  readonly image: number | null
  /** Null: the database knows. */
  readonly place: Place | null
  readonly size: number
}

/** From its text with the first that reads it. */
export function readable(found: Cached | undefined): Versioned | undefined {
  if (found?.text) {
    found.value = JSON.parse(found.text) as Value
    found.text = null
  }
  return found as Versioned | undefined
}

export function cachedOf({ version, value, text, image, fresh, place }: StagedDoc): Cached {
  const size = text!.length
  // The answer to a repeated call has no image: it is given again as it was, its fields in their order.
  return fresh && image !== null ? { version, value: null, text, image, place, size } : { version, value, text: null, image, place, size }
}

/** A parsed document takes about twice its text, its answer may be kept as text, and it takes something for being there at all. */
export const costOf = (chars: number): number => chars * 4 + 300
