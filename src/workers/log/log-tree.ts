// The tree of the log on disk: it grows by the seals of the store, and its full tiles are files. Tiles are derived: each one is checked against
// the hash that the tree has of it before a proof uses it, and a missing or changed one is made again from the seals.
import { answerLater } from '#kernel/log/tree/asking.ts'
import { isSameBytes } from '#kernel/log/tree/base64.ts'
import { consistencyProof, inclusionProof, nodeInTile, rootAt, tileOfNode, type NodeId, type Reading } from '#kernel/log/tree/proofs.ts'
import { TILE_HASHES, tilePath, widthOf, type Tile, type TileId } from '#kernel/log/tree/tiles.ts'
import { createTree, HASH_BYTES, leafBytes, rootOfRow, type Tree } from '#kernel/log/tree/tree.ts'
import { sha256Bytes } from '#kernel/log/hash-chain.ts'
import { setBounded } from '#kernel/codec/bounded-map.ts'
import type { Difference } from '#kernel/log/hash-chain.ts'
import type { Store } from '#kernel/log/store.ts'
import { limits } from '#kernel/limits.ts'

/** Files under the names of C2SP. Null: there is no such file. */
export type TileFiles = { read(path: string): Uint8Array | null; write(path: string, bytes: Uint8Array): void }

/** The record does not continue what the log knows of it. */
export class RecordDiffers extends Error {
  override name = 'RecordDiffers'
  readonly difference: Difference
  constructor(seq: number, what: string) {
    super(what)
    this.difference = { scope: 'all', seq, what }
  }
}

export type LogTree = {
  size(): number
  root(): Uint8Array
  /** Appends the facts up to this position. */
  growTo(position: number): Promise<void>
  rootAt(size: number): Promise<Uint8Array>
  inclusion(index: number, size: number): Promise<Uint8Array[]>
  consistency(old: number, size: number): Promise<Uint8Array[]>
  /** Null: the tree has no tile of this width. */
  tile(tile: Tile): Promise<Uint8Array | null>
  /** Compares a full tile of the lowest level with the seals of the store. Throws RecordDiffers if the record was changed. */
  compare(n: number): Promise<void>
}

type Options = {
  readonly store: Pick<Store, 'seals' | 'isSeal'>
  readonly files: TileFiles
  /** Called with the path of a tile that was missing or changed, once it is made again. */
  repaired(path: string): void
}

type State = Options & {
  tree: Tree
  /** Full tiles that were checked. */
  readonly known: Map<string, Uint8Array>
  /** Grows one after the other. */
  growing: Promise<void>
}

/** Of up to 512 facts each: some milliseconds of work. */
const SEALS_PER_READ = 8
const HASH_CHARS = 43
const FULL_BYTES = TILE_HASHES * HASH_BYTES

/** `size`: of the last checkpoint. Tiles up to it are taken from the files, the rest is made from the seals. 0: everything is made again. */
export async function openLogTree(options: Options, size: number): Promise<LogTree> {
  const state: State = { ...options, tree: emptyTree(options), known: new Map(), growing: Promise.resolve() }
  await startFrom(state, size - (size % TILE_HASHES))
  return {
    size: () => state.tree.size(),
    root: () => state.tree.root(),
    growTo: (position) => (state.growing = state.growing.catch(() => undefined).then(() => grow(state, position))),
    rootAt: (at) => answerReading(state, at, rootAt(sha256Bytes, at)),
    inclusion: (index, at) => answerReading(state, at, inclusionProof(sha256Bytes, index, at)),
    consistency: (old, at) => answerReading(state, at, consistencyProof(sha256Bytes, old, at)),
    tile: (tile) => tileIn(state, tile),
    compare: (n) => compareTile(state, n),
  }
}

const emptyTree = ({ files, repaired }: Options, from?: Parameters<typeof createTree>[2]): Tree =>
  createTree(
    sha256Bytes,
    (level, n, bytes) => {
      const path = pathOf({ level, n })
      const before = files.read(path)
      if (before !== null && isSameBytes(before, bytes)) return
      files.write(path, bytes)
      if (before !== null) repaired(path)
    },
    from,
  )
const pathOf = (id: TileId): string => tilePath({ ...id, width: TILE_HASHES })

/** Reads the open tiles of a tree whose lowest level has full tiles alone: each hash of a higher level is the root of a tile below. */
async function startFrom(state: State, size: number): Promise<void> {
  if (size === 0) return
  const edges = new Map<number, Uint8Array>()
  for (let level = 1, below = size / TILE_HASHES; below > 0; level++, below = Math.floor(below / TILE_HASHES)) {
    const width = below % TILE_HASHES
    const edge = new Uint8Array(width * HASH_BYTES)
    for (let i = 0; i < width; i++)
      edge.set(rootOfRow(sha256Bytes, await rawTile(state, { level: level - 1, n: below - width + i })), i * HASH_BYTES)
    edges.set(level, edge)
  }
  state.tree = emptyTree(state, { size, tile: (level) => edges.get(level) ?? new Uint8Array(0) })
}

async function grow(state: State, position: number): Promise<void> {
  const { tree } = state
  while (tree.size() < position) {
    for (const entry of await entriesFrom(state, tree.size(), position - tree.size())) tree.append(entry)
    // A long record that has no tiles yet must not keep calls waiting.
    if (tree.size() < position) await new Promise((done) => setImmediate(done))
  }
}

/** Hashes of facts behind a position; at least one. */
async function entriesFrom({ store }: Options, after: number, count: number): Promise<Uint8Array[]> {
  const entries: Uint8Array[] = []
  for (const seal of await store.seals(after, SEALS_PER_READ)) {
    const last = after + entries.length
    if (seal.first > last + 1 || !store.isSeal(seal))
      throw new RecordDiffers(last + 1, `position ${last + 1} has no valid seal, so the log cannot take it in`)
    for (let position = last + 1; position <= seal.last && entries.length < count; position++) {
      const at = (position - seal.first) * HASH_CHARS
      entries.push(Buffer.from(seal.hashes.slice(at, at + HASH_CHARS), 'base64url'))
    }
    if (entries.length === count) break
  }
  if (entries.length === 0) throw new RecordDiffers(after + 1, `the record has no seal of position ${after + 1}, which the log covers`)
  return entries
}

async function allEntries(state: State, after: number, count: number): Promise<Uint8Array[]> {
  const entries: Uint8Array[] = []
  while (entries.length < count) entries.push(...(await entriesFrom(state, after + entries.length, count - entries.length)))
  return entries
}

/** A tile as its file has it, made again if the file is missing or cut. */
async function rawTile(state: State, id: TileId): Promise<Uint8Array> {
  const bytes = state.files.read(pathOf(id))
  return bytes?.length === FULL_BYTES ? bytes : repair(state, id)
}

async function repair(state: State, id: TileId): Promise<Uint8Array> {
  const bytes = await freshTile(state, id)
  state.files.write(pathOf(id), bytes)
  state.repaired(pathOf(id))
  return bytes
}

async function freshTile(state: State, { level, n }: TileId): Promise<Uint8Array> {
  const bytes = new Uint8Array(FULL_BYTES)
  if (level === 0) {
    const entries = await allEntries(state, n * TILE_HASHES, TILE_HASHES)
    for (const [i, entry] of entries.entries()) bytes.set(sha256Bytes(leafBytes(entry)), i * HASH_BYTES)
  } else {
    for (let i = 0; i < TILE_HASHES; i++)
      bytes.set(rootOfRow(sha256Bytes, await rawTile(state, { level: level - 1, n: n * TILE_HASHES + i })), i * HASH_BYTES)
  }
  return bytes
}

/** The hash that the tree has of a full tile. */
async function hashOfTile(state: State, { level, n }: TileId): Promise<Uint8Array> {
  const above = { level: level + 1, n: Math.floor(n / TILE_HASHES) }
  const isFull = widthOf(above, state.tree.size()) === TILE_HASHES
  const row = isFull ? await fullTile(state, above) : state.tree.edge(level + 1)
  return row.subarray((n % TILE_HASHES) * HASH_BYTES, ((n % TILE_HASHES) + 1) * HASH_BYTES)
}

const isTile = (bytes: Uint8Array | null, hash: Uint8Array): bytes is Uint8Array =>
  bytes?.length === FULL_BYTES && isSameBytes(rootOfRow(sha256Bytes, bytes), hash)

/** A tile that has the hash that the tree has of it. */
async function fullTile(state: State, id: TileId): Promise<Uint8Array> {
  const path = pathOf(id)
  const known = state.known.get(path)
  if (known) return known
  const hash = await hashOfTile(state, id)
  let bytes = state.files.read(path)
  if (!isTile(bytes, hash)) bytes = await repair(state, id)
  if (!isTile(bytes, hash))
    throw new RecordDiffers(id.n * TILE_HASHES ** (id.level + 1) + 1, `the facts of ${path} are not those that the log has signed`)
  setBounded(state.known, path, bytes, limits.logTilesCachedMax)
  return bytes
}

async function tileIn(state: State, { level, n, width }: Tile): Promise<Uint8Array | null> {
  const has = widthOf({ level, n }, state.tree.size())
  if (width > has) return null
  const bytes = has === TILE_HASHES ? await fullTile(state, { level, n }) : state.tree.edge(level)
  return bytes.subarray(0, width * HASH_BYTES)
}

async function nodeIn(state: State, node: NodeId): Promise<Uint8Array> {
  const id = tileOfNode(node)
  const width = widthOf(id, state.tree.size())
  const bytes = await tileIn(state, { ...id, width })
  return nodeInTile(sha256Bytes, node, bytes!)
}

async function answerReading<R>(state: State, size: number, reading: Reading<R>): Promise<R> {
  if (size > state.tree.size()) throw new RangeError(`the log has ${state.tree.size()} facts, not ${size}`)
  return answerLater(reading, (node) => nodeIn(state, node))
}

async function compareTile(state: State, n: number): Promise<void> {
  const id = { level: 0, n }
  // The file is read again: a proof might have remembered it before it was changed.
  state.known.delete(pathOf(id))
  const [stored, sealed] = [await fullTile(state, id), await freshTile(state, id)]
  if (isSameBytes(stored, sealed)) return
  const at = Array.from({ length: TILE_HASHES }, (_, i) => i * HASH_BYTES).findIndex(
    (from) => !isSameBytes(stored.subarray(from, from + HASH_BYTES), sealed.subarray(from, from + HASH_BYTES)),
  )
  const position = n * TILE_HASHES + at + 1
  throw new RecordDiffers(position, `the fact at position ${position} is not the one that the log has signed`)
}
