// The text index: documents whose kind declares a text are found by parts of the words in it. It is kept in memory and made of what is stored, when
// somebody searches first; commits only note what has changed, and the next search looks at that. So it costs nothing to those who write, needs no
// place in the database, and there is nothing to migrate or to repair. Rows in the database for each word or part of one would be a hundred for each
// document, in the batch that makes it (decision 0041).
import { Damaged } from '../declare/errors.ts'
import { END, idIn, idOf, keyOf, prefixOf, type AnyDoc } from '../declare/schema.ts'
import { limits } from '../limits.ts'
import type { Hint, Key, Store } from '../log/store.ts'
import type { Clock } from '../ports/clock.ts'
import { createGramTable, type GramTable } from './gram-table.ts'

/** The words that belong to a group of documents besides their own text, such as the name of the agent that wrote them. */
export type GroupText = (group: string) => Promise<string>

export type TextIndex = {
  heard(hint: Hint): void
  /**
   * Ids of documents that may hold all words, fewer than a page of so many rows would look at otherwise; null: it cannot tell, look one by one.
   * The caller looks into each.
   */
  holding(kind: AnyDoc, words: readonly string[], textOf: GroupText, rows: number): Promise<readonly string[] | null>
  stop(): void
}

type Kept = {
  readonly table: GramTable
  /** How far the first look over all entries has come; null: it is over. */
  place: string | null
  /** Changed since they were looked at. */
  readonly changed: Set<string>
  /** One after the other: who asks sees what was noted before, also what another is about to read. */
  turn: Promise<unknown>
  /** It is brought up to date beside the calls. */
  isBusy: boolean
}

/** Documents that are read at a time, portions that a search reads itself, and the pause between the others. */
const [PORTION, PORTIONS_MAX, PAUSE_MS] = [200, 5, 1]

export function createTextIndex(store: Store, sleep: Clock['sleep'] | undefined): TextIndex {
  const indexes = new Map<string, Kept>()
  const stopping = new AbortController()

  async function take(kind: AnyDoc, { table }: Kept, ids: readonly string[]): Promise<void> {
    for (const [i, value] of (await valuesOf(store, kind, ids)).entries()) {
      const text = value === null ? null : kind.text!.of(value)
      if (text === null) table.delete(ids[i]!)
      else table.set(ids[i]!, kind.text!.group(value!), text)
    }
  }
  /** The next portion, of all entries first and then of what has changed meanwhile. */
  async function goOn(kind: AnyDoc, one: Kept): Promise<void> {
    if (one.place === null) {
      const ids = [...one.changed.keys().take(PORTION)]
      for (const id of ids) one.changed.delete(id)
      return take(kind, one, ids)
    }
    const entries = await store.scan(one.place, prefixOf(kind, kind.text!.index, []) + END, PORTION)
    // A document may have several entries.
    const ids = [...new Set(entries.map(idIn))].filter((id) => !one.table.has(id))
    await take(kind, one, ids)
    one.place = entries.length < PORTION ? null : entries.at(-1)!
  }
  async function catchUp(kind: AnyDoc, one: Kept): Promise<void> {
    one.isBusy = true
    while (!stopping.signal.aborted && indexes.get(kind.kind) === one && (one.place !== null || one.changed.size > PORTION)) {
      // Calls come between two portions.
      await sleep!(PAUSE_MS, stopping.signal)
      await goOn(kind, one)
    }
    one.isBusy = false
  }
  /** Whether it knows everything that was there when it was asked. */
  async function isCurrent(kind: AnyDoc, one: Kept): Promise<boolean> {
    if (one.isBusy) return false
    for (let i = 0; i < PORTIONS_MAX && one.place !== null; i++) await goOn(kind, one)
    const portions = Math.ceil(one.changed.size / PORTION)
    if (one.place === null && portions <= PORTIONS_MAX) {
      for (let i = 0; i < portions; i++) await goOn(kind, one)
      return indexes.get(kind.kind) === one
    }
    if (sleep) void catchUp(kind, one).catch(() => indexes.delete(kind.kind))
    return false
  }
  function beginIndex(kind: AnyDoc): Kept {
    const found = indexes.get(kind.kind)
    if (found !== undefined) return found
    const place = prefixOf(kind, kind.text!.index, [])
    const index: Kept = { table: createGramTable(), place, changed: new Set(), turn: Promise.resolve(), isBusy: false }
    indexes.set(kind.kind, index)
    return index
  }

  return {
    heard({ keys }) {
      if (indexes.size === 0) return
      if (keys === 'all') return indexes.clear()
      for (const key of keys) {
        const name = key.slice(0, key.indexOf('/'))
        const found = indexes.get(name)
        if (found === undefined) continue
        found.changed.add(idOf(key))
        // It was not searched for long: the next search makes it anew.
        if (found.changed.size > limits.textsChangedMax) indexes.delete(name)
      }
    },
    async holding(kind, words, textOf, rows) {
      const index = beginIndex(kind)
      const turn = index.turn.then(() => isCurrent(kind, index))
      index.turn = turn.catch(() => indexes.delete(kind.kind))
      if (!(await turn)) return null
      const groups = [...index.table.groups()]
      if (groups.length > limits.textGroupsMax) return null
      const texts = await Promise.all(groups.map(textOf))
      const inGroup = words.map((word) => new Set(groups.filter((_, i) => texts[i]!.includes(word))))
      // Where more fit, a page is full sooner when one item after the other is looked at.
      return index.table.holding(words, inGroup, Math.ceil(Math.sqrt(rows * index.table.size)))
    },
    stop: () => stopping.abort(),
  }
}

/** One that cannot be trusted is in no answer either. */
async function valuesOf(store: Store, kind: AnyDoc, ids: readonly string[]): Promise<(object | null)[]> {
  const keys = ids.map((id) => keyOf(kind, id))
  try {
    return (await store.read(keys)).map((found) => found?.value ?? null)
  } catch (error) {
    if (!(error instanceof Damaged)) throw error
    return Promise.all(keys.map((key) => soundIn(store, key)))
  }
}
async function soundIn(store: Store, key: Key): Promise<object | null> {
  try {
    return (await store.read([key]))[0]?.value ?? null
  } catch (error) {
    if (error instanceof Damaged) return null
    throw error
  }
}
