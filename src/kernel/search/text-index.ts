// The text index finds documents whose kind declares a text by parts of the words in it. It is kept in memory, and the first search builds
// it from the store. Commits only queue the ids of changed documents, and the next search reads those. So it costs writers nothing, needs
// no space in the database, and has nothing to migrate or repair. An index in the database would add about a hundred rows to the batch of
// each new document (decision 0041).
import { Damaged } from '../declare/errors.ts'
import { END, idIn, idOf, keyOf, prefixOf, type AnyDoc } from '../declare/schema.ts'
import { limits } from '../limits.ts'
import type { Hint, Key, Store } from '../log/store.ts'
import type { Clock } from '../ports/clock.ts'
import { createGramTable, type GramTable } from './gram-table.ts'

/** Words of a whole group of documents, in addition to the text of each, such as the name of the agent that wrote them. */
export type GroupText = (group: string) => Promise<string>

export type TextIndex = {
  heard(hint: Hint): void
  /**
   * Ids of documents that might hold all words, if they are fewer than a scan for a page of `rows` would read; null: the caller must scan.
   * The caller checks each document.
   */
  holding(kind: AnyDoc, words: readonly string[], textOf: GroupText, rows: number): Promise<readonly string[] | null>
  stop(): void
}

type Kept = {
  readonly table: GramTable
  /** The place of the initial scan over all entries; null: it is complete. */
  place: string | null
  /** Ids of documents that changed since they were indexed. */
  readonly changed: Set<string>
  /** Serializes searches: each sees all changes queued before it, including those that another search is reading. */
  turn: Promise<unknown>
  /** The index is catching up in the background. */
  isBusy: boolean
}

/** Documents read in one portion, portions that a search reads itself, and the pause between portions in the background. */
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
  /** Reads the next portion: first of all entries, then of the documents that changed since. */
  async function goOn(kind: AnyDoc, index: Kept): Promise<void> {
    if (index.place === null) {
      const ids = [...index.changed.keys().take(PORTION)]
      for (const id of ids) index.changed.delete(id)
      return take(kind, index, ids)
    }
    const entries = await store.scan(index.place, prefixOf(kind, kind.text!.index, []) + END, PORTION)
    // A document can have several entries.
    const ids = [...new Set(entries.map(idIn))].filter((id) => !index.table.has(id))
    await take(kind, index, ids)
    index.place = entries.length < PORTION ? null : entries.at(-1)!
  }
  async function catchUp(kind: AnyDoc, index: Kept): Promise<void> {
    index.isBusy = true
    while (!stopping.signal.aborted && indexes.get(kind.kind) === index && (index.place !== null || index.changed.size > PORTION)) {
      // Let calls run between two portions.
      await sleep!(PAUSE_MS, stopping.signal)
      await goOn(kind, index)
    }
    index.isBusy = false
  }
  /** Whether the index holds everything that was stored when the search began. */
  async function isCurrent(kind: AnyDoc, index: Kept): Promise<boolean> {
    if (index.isBusy) return false
    for (let i = 0; i < PORTIONS_MAX && index.place !== null; i++) await goOn(kind, index)
    const portions = Math.ceil(index.changed.size / PORTION)
    if (index.place === null && portions <= PORTIONS_MAX) {
      for (let i = 0; i < portions; i++) await goOn(kind, index)
      return indexes.get(kind.kind) === index
    }
    if (sleep) void catchUp(kind, index).catch(() => indexes.delete(kind.kind))
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
        // The index was not searched for a long time: drop it, and the next search rebuilds it.
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
      // With more matches than this, a scan fills the page sooner.
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
