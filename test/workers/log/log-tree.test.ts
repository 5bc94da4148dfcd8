// The tree of the log over a real store: its proofs, its tiles, and a record that no longer has what the log signed.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { answerNow } from '#kernel/log/tree/asking.ts'
import { rootOfInclusion } from '#kernel/log/tree/proofs.ts'
import { sha256Bytes } from '#kernel/log/hash-chain.ts'
import { openLogTree, type LogTree } from '#workers/log/log-tree.ts'
import { createWorld } from '../../support/in-process/world.ts'

const leaf = (entry: Uint8Array): Buffer => createHash('sha256').update(Buffer.of(0)).update(entry).digest()
function rootByHand(leaves: readonly Uint8Array[]): Uint8Array {
  if (leaves.length === 1) return leaves[0]!
  let split = 1
  while (split * 2 < leaves.length) split *= 2
  const parts = [Buffer.of(1), rootByHand(leaves.slice(0, split)), rootByHand(leaves.slice(split))]
  return createHash('sha256').update(Buffer.concat(parts)).digest()
}

async function worldWith(count: number) {
  const world = await createWorld()
  while ((await world.store.position()) < count) await world.call('system', 'identity/project.add', { name: 'P' })
  const facts = await world.store.facts({ by: 'position' }, { after: null, limit: 10_000, asStored: true })
  return { world, entries: facts.slice(0, count).map(({ hash }) => Buffer.from(hash, 'base64url')) }
}

function filesOf() {
  const tiles = new Map<string, Uint8Array>()
  const repaired: string[] = []
  const files = {
    read: (path: string) => tiles.get(path) ?? null,
    write: (path: string, bytes: Uint8Array) => void tiles.set(path, bytes.slice()),
  }
  return { tiles, repaired, options: { files, repaired: (path: string) => void repaired.push(path) } }
}
const sizeOf = 600

test('the root and all proofs of a grown tree, and of one that goes on from its tiles, are those of the definition', async (t) => {
  const { world, entries } = await worldWith(sizeOf)
  t.after(world.close)
  const { options, tiles } = filesOf()
  const grown = await openLogTree({ store: world.store, ...options }, 0)
  await grown.growTo(sizeOf)
  const again = await openLogTree({ store: world.store, ...options }, sizeOf)
  await again.growTo(sizeOf)
  const root = rootByHand(entries.map(leaf))
  assert.deepEqual([...tiles.keys()], ['tile/0/000', 'tile/0/001'])
  for (const tree of [grown, again]) {
    assert.deepEqual(Buffer.from(tree.root()), root)
    for (const index of [0, 255, 256, 511, 512, 599]) {
      const proof = await tree.inclusion(index, sizeOf)
      assert.deepEqual(Buffer.from(answerNow(rootOfInclusion(entries[index]!, index, sizeOf, proof), sha256Bytes)!), root, String(index))
    }
    assert.deepEqual(Buffer.from(await tree.rootAt(300)), rootByHand(entries.slice(0, 300).map(leaf)))
  }
  await assert.rejects(grown.inclusion(0, sizeOf + 1), RangeError)
})

test('a changed, cut or missing tile is made again before a proof uses it, and named', async (t) => {
  const { world, entries } = await worldWith(sizeOf)
  t.after(world.close)
  const { options, tiles, repaired } = filesOf()
  const first = await openLogTree({ store: world.store, ...options }, 0)
  await first.growTo(sizeOf)
  const whole = tiles.get('tile/0/000')!
  const opened = async (): Promise<LogTree> => {
    const tree = await openLogTree({ store: world.store, ...options }, sizeOf)
    await tree.growTo(sizeOf)
    return tree
  }
  const changes = [
    () => tiles.delete('tile/0/000'),
    () => tiles.set('tile/0/000', whole.slice(0, 100)),
    () =>
      tiles.set(
        'tile/0/000',
        whole.map((byte, i) => (i === 5 ? byte ^ 1 : byte)),
      ),
  ]
  for (const change of changes) {
    const tree = await opened()
    change()
    const proof = await tree.inclusion(3, sizeOf)
    assert.deepEqual(Buffer.from(answerNow(rootOfInclusion(entries[3]!, 3, sizeOf, proof), sha256Bytes)!), Buffer.from(tree.root()))
    assert.deepEqual(tiles.get('tile/0/000'), whole)
  }
  assert.deepEqual(repaired, ['tile/0/000', 'tile/0/000', 'tile/0/000'])
})

test('a fact that was exchanged in the record, under a seal that fits, differs from the tiles, whatever its chain says', async (t) => {
  const { world } = await worldWith(sizeOf)
  t.after(world.close)
  const { options } = filesOf()
  const other = createHash('sha256').update('another fact').digest('base64url')
  let exchanged = 0
  const store = {
    isSeal: () => true,
    seals: async (after: number, limit: number) =>
      (await world.store.seals(after, limit)).map((seal) => {
        if (exchanged < seal.first || exchanged > seal.last) return seal
        const at = (exchanged - seal.first) * 43
        return { ...seal, hashes: seal.hashes.slice(0, at) + other + seal.hashes.slice(at + 43) }
      }),
  }
  const tree = await openLogTree({ store, ...options }, 0)
  await tree.growTo(sizeOf)
  for (const n of [0, 1]) await tree.compare(n)
  exchanged = 200
  await assert.rejects(tree.compare(0), {
    name: 'RecordDiffers',
    message: 'the fact at position 200 is not the one that the log has signed',
  })
  await tree.compare(1)
  exchanged = 600
  const again = await openLogTree({ store, ...options }, sizeOf)
  await again.growTo(sizeOf)
  assert.notDeepEqual(again.root(), tree.root())
})
