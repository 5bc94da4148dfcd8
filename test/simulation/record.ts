// The reader of the disk that trusts nothing: each new fact is checked against the chain and the documents as it appears, and the
// documents, index entries and counts are rebuilt from the facts at the end.
import { differenceIn, digestOf, GENESIS, hashOf, type Head, type Line } from '#kernel/log/hash-chain.ts'
import { entriesOf, idOf, kindOf, talliesOf } from '#kernel/declare/schema.ts'
import type { MemoryDisk } from '#stores/memory.ts'

export type Fail = (message: string) => void
export type SeenImage = { readonly key: string; readonly before: any; readonly after: any }
export type SeenFact = { readonly line: Line; readonly images: readonly SeenImage[] }
type SeenDoc = { readonly version: number; readonly value: any; readonly text: string; readonly image: number }

export type Record = {
  /** The documents as the facts leave them. */
  readonly docs: ReadonlyMap<string, SeenDoc>
  /** The facts that are new on the disk, each handed over before the next is looked at. */
  observe(each: (fact: SeenFact) => void): void
  /** Whether this text ever stood on the disk as an image of the document. */
  held(key: string, text: string): boolean
  size(): number
  heads(): string
  /** Everything again, from the first fact. */
  checkAll(): void
}

export function createRecord(disk: MemoryDisk, fail: Fail): Record {
  const docs = new Map<string, SeenDoc>()
  const heads = new Map<string, Head>()
  const hashes: string[] = []
  const texts = new Map<string, Set<string>>()
  let images = 0

  function observe(each: (fact: SeenFact) => void): void {
    while (hashes.length < disk.facts.length) {
      const fact = follow()
      for (const { key } of fact.images) if (!isStored(key)) fail(`the stored ${key} is not what its last fact says`)
      each(fact)
    }
    if (images !== disk.images.length) fail(`${disk.images.length - images} images belong to no fact`)
  }

  // A later fact of the same transaction may have moved the document on already.
  function isStored(key: string): boolean {
    const seen = docs.get(key)
    const stored = disk.docs.get(key)
    if (seen === undefined || stored === undefined) return false
    const { version, text } = seen
    return stored.version > version || (stored.version === version && stored.text === text)
  }

  function follow(): SeenFact {
    const row = disk.facts[hashes.length]!
    const line = JSON.parse(row.line) as Line
    const head = heads.get(row.scope) ?? GENESIS
    const at = `fact ${row.position} (${line.action})`
    if (row.position !== hashes.length + 1) fail(`${at} is not at position ${hashes.length + 1}`)
    if (row.seq !== head.seq + 1 || line.seq !== row.seq) fail(`${at} is not number ${head.seq + 1} of ${row.scope}`)
    if (line.prev !== head.hash) fail(`${at} does not follow the fact before it in ${row.scope}`)
    if (hashOf(row.line) !== row.hash) fail(`${at} does not match its hash`)
    if (line.at < head.at) fail(`${at} is older than the fact before it in ${row.scope}`)
    heads.set(row.scope, { seq: row.seq, hash: row.hash, at: line.at })
    hashes.push(row.hash)
    return { line, images: line.images.map((sealed) => take(sealed, at)) }
  }

  function take(sealed: Line['images'][number], at: string): SeenImage {
    const row = disk.images[images++]
    const before = docs.get(sealed.key)
    if (row?.key !== sealed.key || row.id !== images) {
      fail(`${at}: the image of ${sealed.key} is not where it belongs`)
      return { key: sealed.key, before: before?.value ?? null, after: before?.value ?? null }
    }
    if (sealed.version !== (before?.version ?? 0) + 1) fail(`${at}: ${sealed.key} goes from ${before?.version ?? 0} to ${sealed.version}`)
    if (row.previous !== (before?.image ?? null)) fail(`${at}: the image before ${sealed.key} is another one`)
    if (digestOf(row.salt, row.text) !== sealed.digest) fail(`${at}: the image of ${sealed.key} does not match its digest`)
    const after: unknown = JSON.parse(row.text)
    docs.set(sealed.key, { version: sealed.version, value: after, text: row.text, image: row.id })
    const known = texts.get(sealed.key)
    if (known) known.add(row.text)
    else texts.set(sealed.key, new Set([row.text]))
    return { key: sealed.key, before: before?.value ?? null, after }
  }

  function checkAll(): void {
    checkChain()
    for (const [key, { version, text }] of docs) {
      const stored = disk.docs.get(key)
      if (stored?.version !== version || stored.text !== text) fail(`replaying the facts gives another ${key} than is stored`)
    }
    for (const [key, { image }] of disk.docs) if (image !== null && !docs.has(key)) fail(`no fact speaks of the stored ${key}`)
    checkIndexes(disk, fail)
  }

  function checkChain(): void {
    const tips = new Map<string, string>()
    let taken = 0
    for (const [i, row] of disk.facts.entries()) {
      const { position, scope, hash } = row
      if (hash !== hashes[i]) fail(`fact ${position} was exchanged after it had been seen`)
      const own: MemoryDisk['images'] = []
      while (disk.images[taken]?.position === position) own.push(disk.images[taken++]!)
      const before = (id: number | null): string | null => (id === null ? null : disk.images[id - 1]!.text)
      const images = own.map((image) => ({ ...image, before: before(image.previous), beforeSalt: null, beforeLine: null }))
      const stored = { ...row, images }
      const difference = differenceIn(stored, tips.get(scope) ?? GENESIS.hash)
      if (difference) fail(`number ${difference.seq} of ${difference.scope}: ${difference.what}`)
      tips.set(scope, hash)
    }
  }

  return {
    docs,
    observe,
    held: (key, text) => texts.get(key)?.has(text) ?? false,
    size: () => hashes.length,
    heads: () => JSON.stringify([...heads]),
    checkAll,
  }
}

/** Entries and counts rebuilt from the documents, whether a fact describes them or not. */
function checkIndexes(disk: MemoryDisk, fail: Fail): void {
  const entries = new Set<string>()
  const counts = new Map<string, number>()
  for (const [key, { text }] of disk.docs) {
    const value = JSON.parse(text) as object
    const rows = entriesOf(kindOf(key), idOf(key), value)
    for (const { entry } of rows) entries.add(entry)
    for (const prefix of [...rows.flatMap(({ counted }) => counted ?? []), ...talliesOf(kindOf(key), value)])
      counts.set(prefix, (counts.get(prefix) ?? 0) + 1)
  }
  const shown = (entry: string): string => entry.replaceAll('\0', ' ')
  for (const entry of entries) if (!disk.entries.has(entry)) fail(`the index lacks ${shown(entry)}`)
  for (const entry of disk.entries) if (!entries.has(entry)) fail(`the index holds ${shown(entry)}, which no document has`)
  for (const [prefix, count] of disk.counts)
    if (count !== (counts.get(prefix) ?? 0)) fail(`${shown(prefix)} counts ${count} entries instead of ${counts.get(prefix) ?? 0}`)
  for (const prefix of counts.keys()) if (!disk.counts.has(prefix)) fail(`${shown(prefix)} is not counted`)
}
