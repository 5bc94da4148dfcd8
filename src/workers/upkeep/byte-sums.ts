// Byte sums, corrected once for each installation: bytes that an earlier release stored were never added to them, and would be subtracted.
import { Conflict } from '#kernel/declare/errors.ts'
import { SYSTEM_SCOPE } from '#kernel/declare/access.ts'
import { END, keyOf, type AnyDoc } from '#kernel/declare/schema.ts'
import { canonical } from '#kernel/log/canonical-json.ts'
import type { Batch, Key, Store, Versioned } from '#kernel/log/store.ts'
import { timestampOf } from '#kernel/ports/clock.ts'
import { StoredBytes, sumIds, type Holding } from '#kernel/ports/stored-bytes.ts'
import { Upload } from '#protocols/collaboration/artifact/uploads.ts'
import { File } from '#protocols/execution/answering/file.ts'

/** The id of the document that says that the sums were corrected. */
const CORRECTED = 'corrected'
const PAGE = 500
const ATTEMPTS_MAX = 8

/** Each upload changes its sums in the same commit, so a sum whose version stayed the same during the count is counted exactly. */
export async function correctByteSums(store: Store, now: () => number): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    await store.fresh()
    if ((await store.read([keyOf(StoredBytes, CORRECTED)]))[0]) return
    try {
      return await correct(store, timestampOf(now()))
    } catch (error) {
      if (!(error instanceof Conflict) || attempt === ATTEMPTS_MAX) throw error
    }
  }
}

async function correct(store: Store, at: string): Promise<void> {
  const stored = new Map<Key, Versioned>()
  for await (const [key, found] of documentsOf(store, StoredBytes)) stored.set(key, found)
  const totals = new Map<Key, number>([...stored.keys()].map((key) => [key, 0]))
  for (const doc of [Upload, File])
    for await (const [, { value }] of documentsOf(store, doc)) {
      if (value['state'] === 'expired') continue
      for (const [, id] of sumIds(value as Holding)) {
        const key = keyOf(StoredBytes, id)
        totals.set(key, (totals.get(key) ?? 0) + (value as Holding).size)
      }
    }
  const changes = [...totals].filter(([key, bytes]) => bytes !== (stored.get(key)?.value['bytes'] ?? 0))
  for (let i = 0; i < changes.length; i += PAGE) await store.commit(batchOf(changes.slice(i, i + PAGE), stored, at))
  await store.commit(batchOf([[keyOf(StoredBytes, CORRECTED), 0]], stored, at))
}

async function* documentsOf(store: Store, doc: AnyDoc): AsyncGenerator<readonly [Key, Versioned]> {
  const first = keyOf(doc, '')
  for (let place = first; ;) {
    const keys = await store.keys(place, first + END, PAGE)
    const found = await store.read(keys)
    for (const [i, key] of keys.entries()) if (found[i]) yield [key, found[i]]
    if (keys.length < PAGE) return
    place = keys.at(-1)!
  }
}

function batchOf(sums: readonly (readonly [Key, number])[], stored: ReadonlyMap<Key, Versioned>, at: string): Batch {
  const values = sums.map(([key, bytes]) => ({ key, value: { id: key.slice(keyOf(StoredBytes, '').length), bytes } }))
  return {
    scope: SYSTEM_SCOPE,
    at,
    expect: new Map(sums.map(([key]) => [key, stored.get(key)?.version ?? 0])),
    create: new Set(sums.flatMap(([key]) => (stored.has(key) ? [] : [key]))),
    facts: [],
    puts: values.map(({ key, value }) => ({ key, value, text: canonical(value) })),
    add: [],
    drop: [],
    count: new Map(),
    wakes: [],
    atMost: [],
  }
}
