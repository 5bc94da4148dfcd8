// A topic: one stream operation with its input, and the queue of events for its subscribers. Each matching fact is encoded once and kept
// until the last subscriber has taken it.
import { canonical } from '#kernel/log/canonical-json.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import type { Stream } from '#kernel/declare/operation.ts'
import { cursorOf, placeOf } from '#kernel/declare/paging.ts'
import { placeIn, type Admission } from '#kernel/log/streams.ts'
import type { FactsOf, Key, StoredFact } from '#kernel/log/store.ts'

/** An encoded item, the same bytes for all subscribers. */
export type Written = { readonly action: string; readonly json: Buffer }
export type Entry = { readonly place: number; readonly cursor: string; readonly written: Written; readonly fact: StoredFact }
/** The entries of one write. `memo`: the frames that transports built from it, for the next subscriber. */
export type Portion = {
  readonly place: number
  readonly cursor: string
  readonly entries: readonly Entry[]
  readonly memo: Map<string, Buffer>
  /** The visible entries, decided once for all subscribers with the same rights. */
  readonly chosen: Map<unknown, readonly Entry[] | Promise<readonly Entry[]>>
}

export type TopicBounds = {
  readonly portionBytes: number
  readonly portionEvents: number
  readonly ringEvents: number
  readonly ringBytes: number
}

export type Topic = {
  readonly key: string
  readonly of: FactsOf
  readonly about: Key | null
  cursorAt(place: number): string
  /** The place a cursor points to. Refuses a cursor of another topic. */
  placeAt(cursor: string): number
  /** The fact as an entry, or null when it is not part of this topic. */
  entryOf(fact: StoredFact): Entry | null
  offer(fact: StoredFact): void
  /** Every fact up to this place has been offered. */
  seen(): number
  /** The numbers of the first queued entry and of the next one to come. */
  first(): number
  end(): number
  entryAt(number: number): Entry
  waitingFrom(number: number): { readonly events: number; readonly bytes: number }
  /** The entries for one write, starting at an entry; null when there are none. */
  portionFrom(number: number): { readonly portion: Portion; readonly to: number } | null
  /** Drops the entries before this one: no subscriber needs them. */
  release(number: number): void
}

type Write = (name: string, op: Stream, fact: StoredFact, audience: string) => Written
type Waiting = Entry & { readonly upTo: number }

export const portionOf = (entries: readonly Entry[]): Portion => {
  const { place, cursor } = entries.at(-1)!
  return { place, cursor, entries, memo: new Map(), chosen: new Map() }
}

export function createTopic(name: string, { op, input, of, about, audience }: Admission, bounds: TopicBounds, write: Write): Topic {
  // Twelve bytes are exactly sixteen base64 characters, so the place can be encoded separately and appended.
  const question = cursorOf(name, { ...input }, '')
  const cursorAt = (place: number): string => question + Buffer.from(String(place)).toString('base64url')
  let ring: Waiting[] = []
  let first = 0
  let bytes = 0
  let seen = 0
  /** By their first entry. A later subscriber gets the same portions, and so the same bytes. */
  const portions = new Map<number, { to: number; portion: Portion }>()
  const end = (): number => first + ring.length

  function entryOf(fact: StoredFact): Entry | null {
    if (op.wants && !op.wants(input, fact)) return null
    const place = placeIn(of, fact)
    return { place, cursor: cursorAt(place), written: write(name, op, fact, audience), fact }
  }

  function release(number: number): void {
    const count = Math.min(ring.length, number - first)
    if (count <= 0) return
    ring = ring.slice(count)
    first += count
    for (const from of portions.keys()) if (from < first) portions.delete(from)
  }

  function bytesFrom(number: number): number {
    const before = ring[number - first - 1]
    const start = before ? before.upTo : (ring[0]?.upTo ?? 0) - (ring[0]?.written.json.length ?? 0)
    return bytes - start
  }

  return {
    key: `${name} ${audience} ${canonical([input, of])}`,
    of,
    about,
    cursorAt,
    placeAt(cursor) {
      const text = placeOf(name, { ...input, cursor })!
      if (!/^\d{1,15}$/.test(text))
        throw new Refusal('INVALID_REQUEST', 'after must be the cursor of an event: leave it out to begin with the next event', {
          field: 'after',
        })
      return Number(text)
    },
    entryOf,
    offer(fact) {
      const place = placeIn(of, fact)
      if (place <= seen) return
      seen = place
      const entry = entryOf(fact)
      if (entry === null) return
      bytes += entry.written.json.length
      ring.push({ ...entry, upTo: bytes })
      // A subscriber that far behind reads the store instead.
      while (ring.length > bounds.ringEvents || (ring.length > 1 && bytesFrom(first) > bounds.ringBytes))
        release(first + 1 + (ring.length >> 3))
    },
    seen: () => seen,
    first: () => first,
    end,
    entryAt: (number) => ring[number - first]!,
    waitingFrom: (number) => ({ events: end() - number, bytes: bytesFrom(Math.max(number, first)) }),
    portionFrom(from) {
      if (from >= end()) return null
      const found = portions.get(from)
      if (found) return found
      const entries: Entry[] = []
      let size = 0
      for (const entry of ring.slice(from - first, from - first + bounds.portionEvents)) {
        size += entry.written.json.length
        // End this portion where another one begins, so that subscribers at different places share portions from there on.
        if (entries.length > 0 && (size > bounds.portionBytes || portions.has(from + entries.length))) break
        entries.push(entry)
      }
      const portion = { to: from + entries.length, portion: portionOf(entries) }
      portions.set(from, portion)
      return portion
    },
    release,
  }
}
