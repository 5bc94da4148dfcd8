// Proofs of RFC 6962: that a fact is in a tree, and that a tree grew out of an earlier one. They are made from tiles and verified without them.
import type { Asking, Hashing } from './asking.ts'
import { isSameBytes } from './base64.ts'
import { leafBytes, nodeBytes, nodeOf, rootOfRow, emptyRoot, HASH_BYTES, type Sha256 } from './tree.ts'
import { TILE_HASHES, type TileId } from './tiles.ts'

/** The root of a full subtree of 2^height leaves. `n`: how many of this height are before it. */
export type NodeId = { readonly height: number; readonly n: number }
/** A computation that reads nodes of the tree. */
export type Reading<R> = Asking<NodeId, Uint8Array, R>

const TILE_HEIGHT = 8
/** The tile that a node is computed from; it has at least the hashes that the tree has at its size. */
export const tileOfNode = ({ height, n }: NodeId): TileId => ({
  level: Math.floor(height / TILE_HEIGHT),
  n: Math.floor((n * 2 ** (height % TILE_HEIGHT)) / TILE_HASHES),
})
export function nodeInTile(sha256: Sha256, { height, n }: NodeId, tile: Uint8Array): Uint8Array {
  const count = 2 ** (height % TILE_HEIGHT)
  const from = ((n * count) % TILE_HASHES) * HASH_BYTES
  return rootOfRow(sha256, tile.subarray(from, from + count * HASH_BYTES))
}

/** The largest power of two below `size`. */
function splitOf(size: number): number {
  let part = 1
  while (part * 2 < size) part *= 2
  return part
}
const heightOf = (size: number): number | null => {
  let height = 0
  let part = 1
  for (; part < size; part *= 2) height++
  return part === size ? height : null
}

/** The root over the leaves from `from` to before `to`. */
function* rootOfRange(sha256: Sha256, from: number, to: number): Reading<Uint8Array> {
  const size = to - from
  const height = heightOf(size)
  if (height !== null) return yield { height, n: from / size }
  const split = splitOf(size)
  const left = yield* rootOfRange(sha256, from, from + split)
  return nodeOf(sha256, left, yield* rootOfRange(sha256, from + split, to))
}

export function* rootAt(sha256: Sha256, size: number): Reading<Uint8Array> {
  return size === 0 ? emptyRoot(sha256) : yield* rootOfRange(sha256, 0, size)
}

/** The proof that the leaf at `index` is in the tree of this size, from the leaf up. */
export function* inclusionProof(sha256: Sha256, index: number, size: number): Reading<Uint8Array[]> {
  const proof: Uint8Array[] = []
  let from = 0
  let to = size
  while (to - from > 1) {
    const split = from + splitOf(to - from)
    if (index < split) {
      proof.push(yield* rootOfRange(sha256, split, to))
      to = split
    } else {
      proof.push(yield* rootOfRange(sha256, from, split))
      from = split
    }
  }
  return proof.toReversed()
}

/** The proof that the tree of `size` begins with that of `old`. Empty: there is nothing to prove. */
export function* consistencyProof(sha256: Sha256, old: number, size: number): Reading<Uint8Array[]> {
  const proof: Uint8Array[] = []
  if (old === 0 || old === size) return proof
  let from = 0
  let to = size
  let isWhole = true
  while (old < to) {
    const split = from + splitOf(to - from)
    if (old <= split) {
      proof.push(yield* rootOfRange(sha256, split, to))
      to = split
    } else {
      proof.push(yield* rootOfRange(sha256, from, split))
      from = split
      isWhole = false
    }
  }
  if (!isWhole) proof.push(yield* rootOfRange(sha256, from, to))
  return proof.toReversed()
}

/** The root that a proof leads to; null: the proof does not fit this place. `entry`: the hash of the fact. */
export function* rootOfInclusion(entry: Uint8Array, index: number, size: number, proof: readonly Uint8Array[]): Hashing<Uint8Array | null> {
  if (!Number.isSafeInteger(index) || !Number.isSafeInteger(size) || index < 0 || index >= size) return null
  let hash = yield leafBytes(entry)
  let at = index
  let last = size - 1
  for (const other of proof) {
    if (last === 0 || other.length !== HASH_BYTES) return null
    if (at % 2 === 1 || at === last) {
      hash = yield nodeBytes(other, hash)
      while (at % 2 === 0 && at !== 0) [at, last] = [at / 2, Math.floor(last / 2)]
    } else hash = yield nodeBytes(hash, other)
    at = Math.floor(at / 2)
    last = Math.floor(last / 2)
  }
  return last === 0 ? hash : null
}

export type TreeHead = { readonly size: number; readonly root: Uint8Array }

/** Whether the newer tree begins with the older one. Every tree grows out of the empty one. */
export function* isConsistent(older: TreeHead, newer: TreeHead, proof: readonly Uint8Array[]): Hashing<boolean> {
  if (!Number.isSafeInteger(newer.size) || older.size > newer.size || proof.some(({ length }) => length !== HASH_BYTES)) return false
  if (older.size === newer.size) return proof.length === 0 && isSameBytes(older.root, newer.root)
  if (older.size === 0) return proof.length === 0
  const [first, ...rest] = heightOf(older.size) === null ? proof : [older.root, ...proof]
  if (first === undefined) return false
  let at = older.size - 1
  let last = newer.size - 1
  while (at % 2 === 1) [at, last] = [(at - 1) / 2, Math.floor(last / 2)]
  let before = first
  let after = first
  for (const other of rest) {
    if (last === 0) return false
    if (at % 2 === 1 || at === last) {
      before = yield nodeBytes(other, before)
      after = yield nodeBytes(other, after)
      while (at % 2 === 0 && at !== 0) [at, last] = [at / 2, Math.floor(last / 2)]
    } else after = yield nodeBytes(after, other)
    at = Math.floor(at / 2)
    last = Math.floor(last / 2)
  }
  return last === 0 && isSameBytes(before, older.root) && isSameBytes(after, newer.root)
}
