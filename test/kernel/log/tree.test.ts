// The tree of the log: the vectors of RFC 6962, every proof of small trees against the definition, forged proofs, sizes beyond 32 bits, tiles.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { hexOf } from '#kernel/log/tree/base64.ts'
import { sha256Bytes } from '#kernel/log/hash-chain.ts'
import { answerNow } from '#kernel/log/tree/asking.ts'
import {
  consistencyProof,
  inclusionProof,
  isConsistent,
  nodeInTile,
  rootAt,
  rootOfInclusion,
  tileOfNode,
  type NodeId,
  type Reading,
} from '#kernel/log/tree/proofs.ts'
import { TILE_HASHES, tileAt, tilePath, widthOf } from '#kernel/log/tree/tiles.ts'
import { createTree, edgesOf, emptyRoot, leafBytes, nodeOf, rootOfRow } from '#kernel/log/tree/tree.ts'

const isLong = process.env['COUNTERSIGN_TEST_CHOICE'] === 'all'
const bytes = (hex: string): Uint8Array => new Uint8Array(Buffer.from(hex, 'hex'))
const entryOf = (i: number): Uint8Array => sha256Bytes(new TextEncoder().encode(`entry ${i}`))
const leafOf = (entry: Uint8Array): Uint8Array => sha256Bytes(leafBytes(entry))
const nodes = (left: Uint8Array, right: Uint8Array): Uint8Array => nodeOf(sha256Bytes, left, right)

/** A small generator of numbers, so that a failure can be repeated. */
function numbersFrom(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31
    return Math.floor((state / 2 ** 31) * below)
  }
}

test('roots are those of the test vectors of Certificate Transparency', () => {
  const entries = ['', '00', '10', '2021', '3031', '40414243', '5051525354555657', '606162636465666768696a6b6c6d6e6f']
  const roots = [
    '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d',
    'fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125',
    'aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77',
    'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
    '4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4',
    '76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef',
    'ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c',
    '5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328',
  ]
  const tree = createTree(sha256Bytes)
  assert.equal(hexOf(tree.root()), 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855')
  for (const [i, entry] of entries.entries()) {
    tree.append(bytes(entry))
    assert.equal(hexOf(tree.root()), roots[i])
  }
  const read = <R>(reading: Reading<R>): R => answerNow(reading, (node) => nodeInTile(sha256Bytes, node, tree.edge(tileOfNode(node).level)))
  const hexes = (proof: readonly Uint8Array[]): string[] => proof.map(hexOf)
  assert.deepEqual(hexes(read(inclusionProof(sha256Bytes, 5, 8))), [
    'bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b',
    'ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0',
    'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
  ])
  assert.deepEqual(hexes(read(consistencyProof(sha256Bytes, 6, 8))), [
    '0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a',
    'ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0',
    'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
  ])
})

/** The definition in section 2.1 of RFC 6962, over the leaves from `from` to before `to`, with full subtrees remembered. */
function definition(leaves: readonly Uint8Array[]) {
  const known = new Map<number, Uint8Array>()
  function rootOf(from: number, to: number): Uint8Array {
    if (to - from === 0) return emptyRoot(sha256Bytes)
    if (to - from === 1) return leaves[from]!
    const found = known.get(from * 1_024 + to)
    if (found) return found
    let split = 1
    while (split * 2 < to - from) split *= 2
    const root = nodes(rootOf(from, from + split), rootOf(from + split, to))
    known.set(from * 1_024 + to, root)
    return root
  }
  return rootOf
}

test('every size to 1,000 has the root of the definition, and its proofs verify while forged ones do not', () => {
  const sizes = 1_000
  const leaves = Array.from({ length: sizes }, (_, i) => leafOf(entryOf(i)))
  const rootOf = definition(leaves)
  const node = ({ height, n }: NodeId): Uint8Array => rootOf(n * 2 ** height, (n + 1) * 2 ** height)
  const read = <R>(reading: Reading<R>): R => answerNow(reading, node)
  const now = <R>(hashing: Generator<Uint8Array, R, Uint8Array>): R => answerNow(hashing, sha256Bytes)
  const isSame = (a: Uint8Array | null, b: Uint8Array): boolean => a !== null && Buffer.compare(a, b) === 0
  const entries = leaves.map((_, i) => entryOf(i))
  const tree = createTree(sha256Bytes)
  const random = numbersFrom(30)
  let forged = 0
  let checked = 0
  /** Each proof is forged in one of the ways. */
  function forge(proof: readonly Uint8Array[]): Uint8Array[] {
    const way = random(5)
    const at = random(proof.length)
    if (way === 0) return proof.slice(1)
    if (way === 1) return [...proof, leaves[at]!]
    if (way === 2) return proof.toSpliced(at, 1)
    const other = new Uint8Array(proof[at]!)
    other[random(32)]! ^= 1 + random(255)
    return way === 3 ? proof.with(at, other) : proof.toSpliced(at, 0, other)
  }
  for (let size = 1; size <= sizes; size++) {
    tree.append(entries[size - 1]!)
    const root = rootOf(0, size)
    assert.ok(isSame(tree.root(), root), `root of ${size}`)
    for (let index = isLong ? 0 : random(25); index < size; index += isLong ? 1 : 1 + random(49)) {
      const proof = read(inclusionProof(sha256Bytes, index, size))
      const entry = entries[index]!
      assert.ok(isSame(now(rootOfInclusion(entry, index, size, proof)), root), `${index} in ${size}`)
      checked++
      if (size === 1) continue
      const wrong = [
        now(rootOfInclusion(entry, index, size, forge(proof))),
        now(rootOfInclusion(entry, index === 0 ? size - 1 : index - 1, size, proof)),
      ]
      for (const found of wrong) assert.ok(!isSame(found, root), `forged: ${index} in ${size}`)
      forged += wrong.length
    }
    for (let old = isLong ? 1 : 1 + random(25); old <= size; old += isLong ? 1 : 1 + random(49)) {
      const older = { size: old, root: rootOf(0, old) }
      const newer = { size, root }
      const proof = read(consistencyProof(sha256Bytes, old, size))
      assert.ok(now(isConsistent(older, newer, proof)), `${old} to ${size}`)
      checked++
      if (old === size) continue
      assert.ok(!now(isConsistent(older, newer, forge(proof))), `forged: ${old} to ${size}`)
      assert.ok(!now(isConsistent({ size: old, root: leaves[0]! }, newer, proof)) || old === 1, `another old root: ${old} to ${size}`)
      assert.ok(!now(isConsistent(older, { size, root: older.root }, proof)), `another root: ${old} to ${size}`)
      forged += 3
    }
  }
  assert.ok(checked > 35_000 && forged > 90_000, `${checked} proofs, ${forged} forged`)
})

test('nothing is proven for a place outside of the tree, nor a tree that shrank', () => {
  const now = <R>(hashing: Generator<Uint8Array, R, Uint8Array>): R => answerNow(hashing, sha256Bytes)
  const entry = entryOf(0)
  for (const [index, size] of [
    [-1, 1],
    [1, 1],
    [0, 0],
    [0.5, 1],
    [0, Number.NaN],
    [0, 2 ** 53],
  ] as const)
    assert.equal(now(rootOfInclusion(entry, index, size, [])), null)
  const head = (size: number) => ({ size, root: leafOf(entry) })
  assert.ok(!now(isConsistent(head(2), head(1), [])))
  assert.ok(!now(isConsistent(head(0), head(1), [entry])), 'out of nothing there is nothing to prove')
  assert.ok(now(isConsistent(head(0), head(1), [])))
  assert.ok(!now(isConsistent(head(1), { size: 1, root: entry }, [])), 'another root for one size')
  assert.ok(!now(isConsistent(head(3), head(5), [])))
})

/** A tree in which all entries are equal: its full subtrees have one root for each height, so it can be of any size. */
function sparse() {
  const heights = [leafOf(entryOf(0))]
  while (heights.length < 56) heights.push(nodes(heights.at(-1)!, heights.at(-1)!))
  return {
    heights,
    tileAtSize: (size: number) => (level: number, n: number) => {
      const row = new Uint8Array(widthOf({ level, n }, size) * 32)
      for (let at = 0; at < row.length; at += 32) row.set(heights[level * 8]!, at)
      return row
    },
  }
}

test('sizes around 256, 65,536, 2^31 and 2^40 grow, prove and verify', () => {
  const { heights, tileAtSize } = sparse()
  const now = <R>(hashing: Generator<Uint8Array, R, Uint8Array>): R => answerNow(hashing, sha256Bytes)
  for (const around of [256, 65_536, 2 ** 31, 2 ** 32, 2 ** 40]) {
    const first = around - 3
    const full: string[] = []
    const tree = createTree(sha256Bytes, (level, n) => full.push(`${level}/${n}`), { size: first, tile: tileAtSize(first) })
    const heads = [{ size: first, root: tree.root() }]
    for (let i = 0; i < 6; i++) {
      tree.append(entryOf(0))
      heads.push({ size: tree.size(), root: tree.root() })
    }
    const levels = Math.log2(around) / 8
    const expected = Array.from({ length: Math.floor(levels) }, (_, level) => `${level}/${around / 256 ** (level + 1) - 1}`)
    assert.deepEqual(full, expected, `tiles that became full at ${around}`)
    assert.equal(hexOf(heads[3]!.root), hexOf(heights[Math.log2(around)]!), `root of ${around}`)
    for (const { level, n, bytes: edge } of edgesOf(tree)) assert.equal(hexOf(edge), hexOf(tileAtSize(tree.size())(level, n)))
    for (const { size, root } of heads) {
      const read = <R>(reading: Reading<R>): R =>
        answerNow(reading, (node) => {
          const { level, n } = tileOfNode(node)
          return nodeInTile(sha256Bytes, node, tileAtSize(size)(level, n))
        })
      assert.equal(hexOf(read(rootAt(sha256Bytes, size))), hexOf(root), `root of ${size} from tiles`)
      for (const index of [0, 255, Math.floor(size / 3), size - 1].filter((one) => one < size)) {
        const proof = read(inclusionProof(sha256Bytes, index, size))
        assert.equal(hexOf(now(rootOfInclusion(entryOf(0), index, size, proof))!), hexOf(root), `${index} in ${size}`)
        assert.equal(now(rootOfInclusion(entryOf(0), index, size, proof.slice(1))), null)
      }
      for (const older of heads.filter((head) => head.size < size)) {
        const proof = read(consistencyProof(sha256Bytes, older.size, size))
        assert.ok(proof.length <= 63)
        assert.ok(now(isConsistent(older, { size, root }, proof)), `${older.size} to ${size}`)
        assert.ok(!now(isConsistent(older, { size, root: older.root }, proof)))
      }
    }
  }
})

test('a tree goes on from its tiles as if it had never stopped', () => {
  const tiles = new Map<string, Uint8Array>()
  const keep = (level: number, n: number, tile: Uint8Array): unknown => tiles.set(`${level}/${n}`, tile)
  const whole = createTree(sha256Bytes, keep)
  const roots = new Map<number, string>()
  const stops = [1, 255, 256, 257, 511, 512, 1_000, 65_535, 65_536, 65_537, 66_000]
  for (let i = 0; i < 66_000; i++) {
    whole.append(entryOf(i))
    if (!stops.includes(i + 1)) continue
    roots.set(i + 1, hexOf(whole.root()))
    for (const { level, n, bytes: edge } of edgesOf(whole)) tiles.set(`${level}/${n}@${i + 1}`, edge.slice())
  }
  for (const [i, size] of stops.entries()) {
    const tile = (level: number, n: number): Uint8Array => tiles.get(`${level}/${n}@${size}`) ?? tiles.get(`${level}/${n}`)!
    const later: string[] = []
    const tree = createTree(sha256Bytes, (level, n, full) => later.push(`${level}/${n}:${rootHexOf(full)}`), { size, tile })
    assert.equal(hexOf(tree.root()), roots.get(size), `from ${size}`)
    const next = stops[i + 1]
    if (next === undefined || next - size > 1_000) continue
    for (let at = size; at < next; at++) tree.append(entryOf(at))
    assert.equal(hexOf(tree.root()), roots.get(next), `from ${size} to ${next}`)
    for (const made of later) {
      const [id, root] = made.split(':')
      assert.equal(root, rootHexOf(tiles.get(id!)!), `tile ${id}`)
    }
  }
})
const rootHexOf = (tile: Uint8Array): string => hexOf(rootOfRow(sha256Bytes, tile))

test('tiles have the widths and paths of the specification', () => {
  const widths = (level: number, size: number): number[] => {
    const found: number[] = []
    for (let n = 0; widthOf({ level, n }, size) > 0; n++) found.push(widthOf({ level, n }, size))
    return found
  }
  const size = 70_000
  assert.deepEqual(
    [0, 1, 2, 3].map((level) => [widths(level, size).filter((width) => width === TILE_HASHES).length, widths(level, size).at(-1)]),
    [
      [273, 112],
      [1, 17],
      [0, 1],
      [0, undefined],
    ],
  )
  assert.equal(tilePath({ level: 0, n: 1_234_067, width: 256 }), 'tile/0/x001/x234/067')
  assert.equal(tilePath({ level: 1, n: 0, width: 17 }), 'tile/1/000.p/17')
  for (const path of ['tile/0/000', 'tile/0/x001/x234/067', 'tile/63/999.p/255', 'tile/2/x001/000.p/1']) {
    const tile = tileAt(path)
    assert.ok(tile, path)
    assert.equal(tilePath(tile), path)
  }
  for (const path of [
    'tile/00/000',
    'tile/64/000',
    'tile/0/0',
    'tile/0/1000',
    'tile/0/x000/001',
    'tile/0/000.p/0',
    'tile/0/000.p/256',
    'tile/0/000.p/07',
    'tile/0/../000',
    'tile/entries/000',
    'tile/0/000/',
    '/tile/0/000',
  ])
    assert.equal(tileAt(path), null, path)
})
