// The store in memory, for tests and the simulator: the same group commit on maps. `disk` outlives the store like a file. Several stores
// can share one like servers share a database, and `onWrite` can fail a write like a disk.
import { randomFillSync } from 'node:crypto'
import type { Backend, Group, State } from '#kernel/log/backend.ts'
import { createGroupCommit, type GroupCommitOptions } from '#kernel/log/group-commit.ts'
import type { Head } from '#kernel/log/hash-chain.ts'
import type { ImageAtRest } from '#kernel/log/sealed-documents.ts'
import { SEALS_MAX, type Onward, type Seal } from '#kernel/log/seals/seals.ts'
import type { FactsOf, FactsPage, Hint, Store, StoredFact } from '#kernel/log/store.ts'

type FactRow = Group['facts'][number]
type ImageRow = Group['images'][number]

export type MemoryDisk = {
  readonly facts: FactRow[]
  readonly seals: Seal[]
  readonly images: ImageRow[]
  /** `text` serves examinations of the disk. A document that a fact describes is read from its image. */
  readonly docs: Map<string, { version: number; image: number | null; text: string; tag: string | null }>
  readonly entries: Set<string>
  readonly counts: Map<string, number>
  /** Every group ever written: its writer, and the hint for other stores. */
  readonly groups: { readonly by: object; readonly hint: Hint }[]
  /** Callbacks of the stores that share the disk, called after each group. */
  readonly watching: Set<() => void>
}
export const memoryDisk = (): MemoryDisk => ({
  facts: [],
  seals: [],
  images: [],
  docs: new Map(),
  entries: new Set(),
  counts: new Map(),
  groups: [],
  watching: new Set(),
})

/** Writes the group. Returns false if another store wrote first; then the group is staged again. */
export type Apply = () => boolean

export type MemoryOptions = Partial<GroupCommitOptions> & {
  readonly disk?: MemoryDisk
  readonly onWrite?: (group: Group, apply: Apply) => unknown
  /** Other stores write to this disk, too: reads need a barrier, and commits are decided from the disk alone. */
  readonly isShared?: boolean
}

export function memoryStore(options: MemoryOptions = {}): Store {
  const { disk = memoryDisk(), onWrite, isShared = false, ...groupCommit } = options
  const backend = memoryBackend(disk, onWrite ?? ((_, apply) => apply()), isShared)
  return createGroupCommit(backend, {
    defer: setImmediate,
    salt: () => Buffer.from(randomFillSync(new Uint8Array(16))).toString('base64url'),
    fatal: (error) => {
      throw error
    },
    ...groupCommit,
  })
}

/** The reads of a backend: each result is the state at the time of the call. */
export type MemoryReads = Omit<Backend, 'openedAt' | 'transact' | 'news' | 'watch' | 'heldUp' | 'close'>

export function memoryReads(disk: MemoryDisk): MemoryReads {
  const { facts, images, docs, entries, counts, groups } = disk
  // Sorted on demand: writes are many, scans few.
  let sorted: { readonly of: number; readonly entries: string[] } | undefined
  const newest = new Map<string, number>()
  let numbered = 0
  /** Images are append-only, so each is visited one time. */
  function newestOf(key: string): ImageRow | undefined {
    for (; numbered < images.length; numbered++) newest.set(images[numbered]!.key, numbered)
    const i = newest.get(key)
    return i === undefined ? undefined : images[i]
  }
  function sortedEntries(): string[] {
    if (sorted?.of !== groups.length) sorted = { of: groups.length, entries: [...entries].sort() }
    return sorted.entries
  }
  function get(key: string) {
    const doc = docs.get(key)
    const newest = newestOf(key)
    if (!doc && !newest) return undefined
    return { doc: doc ? { ...doc, text: doc.image === null ? doc.text : null } : null, newest: newest ? atRest(facts, newest) : null }
  }
  return {
    read: (keys) => Promise.resolve(keys.map(get)),
    inspect: (key, some, counted) =>
      Promise.resolve({
        row: get(key),
        images: images.filter((image) => image.key === key).length,
        entries: some.map((entry) => entries.has(entry)),
        counts: counted.map((prefix) => counts.get(prefix) ?? 0),
      }),
    tally: (prefix) =>
      Promise.resolve({ counted: counts.get(prefix) ?? 0, there: [...entries].filter((entry) => entry.startsWith(prefix)).length }),
    counts: (after, end, limit) =>
      Promise.resolve({
        position: facts.length,
        counts: [...counts]
          .filter(([prefix, count]) => prefix > after && prefix < end && count !== 0)
          .sort(([one], [other]) => (one < other ? -1 : 1))
          .slice(0, limit),
      }),
    imagesAt(after, end, position, limit) {
      const latest = new Map<string, ImageRow>()
      for (const image of images) if (image.key > after && image.key < end && image.position <= position) latest.set(image.key, image)
      const inOrder = [...latest.values()].sort((one, other) => (one.key < other.key ? -1 : 1)).slice(0, limit)
      return Promise.resolve(inOrder.map((image) => ({ ...image, line: facts[image.position - 1]?.line ?? null })))
    },
    allKeys: (after, limit) =>
      Promise.resolve(
        [...new Set([...docs.keys(), ...images.map(({ key }) => key)])]
          .filter((key) => key > after)
          .sort()
          .slice(0, limit),
      ),
    prefixes: (after, limit) =>
      Promise.resolve(
        [...counts.keys()]
          .filter((prefix) => prefix > after)
          .sort()
          .slice(0, limit),
      ),
    head: (scope) => Promise.resolve(headIn(disk, scope)),
    count: (prefix) => Promise.resolve(counts.get(prefix) ?? 0),
    position: () => Promise.resolve(facts.length),
    scan(after, end, limit, reverse = false) {
      const all = sortedEntries()
      const from = lowerBound(all, after, true)
      const to = lowerBound(all, end, false)
      return Promise.resolve(reverse ? all.slice(Math.max(from, to - limit), to).reverse() : all.slice(from, Math.min(to, from + limit)))
    },
    keys: (after, end, limit) =>
      Promise.resolve(
        [...docs.keys()]
          .filter((key) => key > after && key < end)
          .sort()
          .slice(0, limit),
      ),
    onward: (sealed) => Promise.resolve(onwardIn(disk, sealed)),
    seals: (after, limit) => Promise.resolve(disk.seals.filter(({ last }) => last > after).slice(0, limit)),
    sealsAt: (positions) => Promise.resolve([...new Set(positions.flatMap((at) => disk.seals.find(({ last }) => last >= at) ?? []))]),
    facts: (of, page) => Promise.resolve(pageOf(facts, of, page).map((row) => storedOf(row, disk))),
    place(key) {
      const image = images[(docs.get(key)?.image ?? 0) - 1]
      const row = image && facts[image.position - 1]
      return Promise.resolve(row ? { scope: row.scope, seq: row.seq, position: row.position, hash: row.hash } : null)
    },
    seek(scope, at) {
      const chain = facts.filter((fact) => fact.scope === scope)
      return Promise.resolve(chain.find((fact) => fact.at >= at)?.seq ?? chain.length + 1)
    },
  }
}

export function onwardIn({ facts, seals }: MemoryDisk, sealed: number): Onward {
  const from = seals.findLastIndex(({ last }) => last <= sealed)
  const at = sealed === 0 ? '' : seals[from]?.last === sealed ? seals[from].tag : null
  return { position: facts.length, at, since: seals.slice(from + 1).slice(-SEALS_MAX) }
}

export function headIn({ facts }: MemoryDisk, scope: string): Head | undefined {
  const row = facts.findLast((fact) => fact.scope === scope)
  return row && { seq: row.seq, hash: row.hash, at: row.at }
}

function memoryBackend(disk: MemoryDisk, onWrite: NonNullable<MemoryOptions['onWrite']>, isShared: boolean): Backend {
  const { facts, images, docs, counts, groups, watching } = disk
  const me = {}
  let seen = groups.length
  function newsNow(): Hint | null {
    const others = groups.slice(seen).filter(({ by }) => by !== me)
    seen = groups.length
    if (others.length === 0) return null
    const allOf = (what: 'keys' | 'wakes') => [...new Set(others.flatMap(({ hint }) => hint[what] as readonly string[]))]
    return { position: facts.length, keys: allOf('keys'), wakes: allOf('wakes') }
  }
  const stateNow = (sealed: number): State => ({
    news: newsNow(),
    onward: onwardIn(disk, sealed),
    position: facts.length,
    image: images.length,
    docOf: (key) => docs.get(key),
    headOf: (scope) => headIn(disk, scope),
    countOf: (prefix) => counts.get(prefix) ?? 0,
    isCacheTrue: !isShared,
  })
  const transact: Backend['transact'] = async (wanted, stage) => {
    for (let isDone = false; !isDone;) {
      const group = stage(stateNow(wanted().sealed))
      if (group === null) return
      for (const { key } of group.create) if (docs.has(key)) throw Object.assign(new Error(`${key} exists`), { failure: 'refused' })
      const at = groups.length
      isDone = true
      await onWrite(group, () => {
        isDone = groups.length === at
        if (!isDone) return false
        applyGroup(disk, group)
        groups.push({ by: me, hint: group.hint })
        for (const ring of watching) ring()
        return true
      })
    }
  }
  return {
    openedAt: facts.length,
    transact,
    ...(isShared
      ? {
          news: (sealed: number) => Promise.resolve({ hint: newsNow(), onward: onwardIn(disk, sealed) }),
          watch(ring: () => void) {
            watching.add(ring)
          },
        }
      : {}),
    ...memoryReads(disk),
    close: () => Promise.resolve(),
  }
}

export function applyGroup({ facts, seals, images, docs, entries, counts }: MemoryDisk, group: Group): void {
  facts.push(...group.facts)
  if (group.seal) seals.push(group.seal)
  images.push(...group.images)
  for (const { key, version, image, text, tag } of [...group.create, ...group.update]) {
    docs.set(key, { version, image, text: text ?? images[image! - 1]!.text, tag })
  }
  for (const key of group.remove) docs.delete(key)
  for (const [i, entry] of group.entries.entries()) {
    if (group.present[i]!) entries.add(entry)
    else entries.delete(entry)
  }
  for (const [prefix, count] of group.counts) counts.set(prefix, count)
}

/** The index of the first element that is not before the bound (or, strictly, after it). */
function lowerBound(sorted: readonly string[], bound: string, strictly: boolean): number {
  let low = 0
  let high = sorted.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (sorted[middle]! < bound || (strictly && sorted[middle] === bound)) low = middle + 1
    else high = middle
  }
  return low
}

function pageOf(facts: readonly FactRow[], of: FactsOf, { after, limit, reverse }: FactsPage): FactRow[] {
  const placeOf = (row: FactRow): number => (of.by === 'scope' || of.by === 'actor' ? row.seq : row.position)
  const all = facts.filter((row) => {
    if (of.by === 'position') return true
    if (of.by === 'scope') return row.scope === of.scope
    if (of.by === 'actor') return row.scope === of.scope && row.actor === of.actor
    return of.by === 'task' ? row.task === of.task : row.task === of.root || row.root === of.root
  })
  if (reverse)
    return all
      .filter((row) => after === null || placeOf(row) < after)
      .reverse()
      .slice(0, limit)
  return all.filter((row) => placeOf(row) > (after ?? 0)).slice(0, limit)
}

function atRest(facts: readonly FactRow[], { id, version, salt, text, position }: ImageRow): ImageAtRest {
  const row = facts[position - 1]
  if (!row) return { id, version, salt, text, position: null, scope: null, seq: null, line: null, hash: null, after: null }
  const { scope, seq, line, hash } = row
  return { id, version, salt, text, position, scope, seq, line, hash, after: null }
}

function storedOf(row: FactRow, { facts, images }: MemoryDisk): StoredFact {
  const imagesOfRow = images.filter((image) => image.position === row.position)
  return {
    ...row,
    images: imagesOfRow.map(({ key, version, salt, text, previous }) => {
      const before = previous === null ? undefined : images[previous - 1]
      return {
        key,
        version,
        salt,
        text,
        previous,
        before: before?.text ?? null,
        beforeSalt: before?.salt ?? null,
        beforeLine: before ? facts[before.position - 1]!.line : null,
      }
    }),
  }
}
