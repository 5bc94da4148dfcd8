// The tree of RFC 6962 over the hashes of all facts, in the order of their positions, kept as C2SP tiles. The entry of a fact is the 32 bytes
// of its hash; the caller stores the tiles that become full. Sizes reach beyond 2^31, so there are no bit operators.
import { widthOf, TILE_HASHES } from './tiles.ts'

export type Sha256 = (bytes: Uint8Array) => Uint8Array
export const HASH_BYTES = 32

const LEAF = 0
const NODE = 1

/** The bytes that are hashed for a leaf and for a node. */
export function leafBytes(entry: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(1 + entry.length)
  bytes[0] = LEAF
  bytes.set(entry, 1)
  return bytes
}
export function nodeBytes(left: Uint8Array, right: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(1 + 2 * HASH_BYTES)
  bytes[0] = NODE
  bytes.set(left, 1)
  bytes.set(right, 1 + HASH_BYTES)
  return bytes
}
export const nodeOf = (sha256: Sha256, left: Uint8Array, right: Uint8Array): Uint8Array => sha256(nodeBytes(left, right))

/** The root of a tree without entries. */
export const emptyRoot = (sha256: Sha256): Uint8Array => sha256(new Uint8Array(0))

/** The root over the hashes of one full subtree, one behind the other. */
export function rootOfRow(sha256: Sha256, row: Uint8Array): Uint8Array {
  let hashes: Uint8Array[] = []
  for (let at = 0; at < row.length; at += HASH_BYTES) hashes.push(row.subarray(at, at + HASH_BYTES))
  while (hashes.length > 1) {
    const above: Uint8Array[] = []
    for (let i = 0; i < hashes.length; i += 2) above.push(nodeOf(sha256, hashes[i]!, hashes[i + 1]!))
    hashes = above
  }
  return hashes[0]!
}

export type Tree = {
  size(): number
  append(entry: Uint8Array): void
  root(): Uint8Array
  /** The hashes of the tile of this level that is not full; empty: there is none. */
  edge(level: number): Uint8Array
}

/** `tile`: reads the tiles of a tree of this size, partial tiles included. */
export type TreeSource = { readonly size: number; tile(level: number, n: number): Uint8Array }

const NOTHING: TreeSource = { size: 0, tile: () => new Uint8Array(0) }

/** `full`: called with each tile that becomes full. `from`: a stored tree to continue from. */
export function createTree(
  sha256: Sha256,
  full: (level: number, n: number, bytes: Uint8Array) => void = () => {},
  from: TreeSource = NOTHING,
): Tree {
  let size = from.size
  /** One for each level. */
  const edges: Uint8Array[] = []
  const widths: number[] = []
  for (let level = 0, count = size; count > 0; level++, count = Math.floor(count / TILE_HASHES)) {
    const width = count % TILE_HASHES
    open(level)
    if (width === 0) continue
    edges[level]!.set(from.tile(level, Math.floor(count / TILE_HASHES)).subarray(0, width * HASH_BYTES))
    widths[level] = width
  }
  /** The roots of the full subtrees, the largest first. */
  const stack = subtreesIn(sha256, { edges, widths })

  function open(level: number): void {
    edges[level] = new Uint8Array(TILE_HASHES * HASH_BYTES)
    widths[level] = 0
  }

  function put(level: number, hash: Uint8Array): void {
    if (edges[level] === undefined) open(level)
    const edge = edges[level]!
    edge.set(hash, widths[level]! * HASH_BYTES)
    if (++widths[level]! < TILE_HASHES) return
    full(level, Math.floor((size - 1) / TILE_HASHES ** (level + 1)), edge)
    open(level)
  }

  return {
    size: () => size,
    append(entry) {
      let hash = sha256(leafBytes(entry))
      let at = size++
      put(0, hash)
      for (let height = 1; at % 2 === 1; height++, at = (at - 1) / 2) {
        hash = nodeOf(sha256, stack.pop()!, hash)
        if (height % 8 === 0) put(height / 8, hash)
      }
      stack.push(hash)
    },
    root() {
      if (size === 0) return emptyRoot(sha256)
      return stack.reduceRight((right, left) => nodeOf(sha256, left, right))
    },
    edge: (level) => edges[level]?.subarray(0, widths[level]! * HASH_BYTES) ?? new Uint8Array(0),
  }
}

/** The binary digits of the width of each edge are the full subtrees in it. */
function subtreesIn(sha256: Sha256, { edges, widths }: { readonly edges: Uint8Array[]; readonly widths: number[] }): Uint8Array[] {
  const stack: Uint8Array[] = []
  for (let level = edges.length - 1; level >= 0; level--) {
    let at = 0
    for (let part = TILE_HASHES / 2; part >= 1; part /= 2) {
      if (widths[level]! - at < part) continue
      stack.push(rootOfRow(sha256, edges[level]!.slice(at * HASH_BYTES, (at + part) * HASH_BYTES)))
      at += part
    }
  }
  return stack
}

/** Every tile of a tree that is not full, by level. */
export const edgesOf = (tree: Tree): { readonly level: number; readonly n: number; readonly bytes: Uint8Array }[] => {
  const found: { level: number; n: number; bytes: Uint8Array }[] = []
  for (let level = 0, count = tree.size(); count > 0; level++, count = Math.floor(count / TILE_HASHES)) {
    const n = Math.floor(count / TILE_HASHES)
    if (widthOf({ level, n }, tree.size()) > 0) found.push({ level, n, bytes: tree.edge(level) })
  }
  return found
}
