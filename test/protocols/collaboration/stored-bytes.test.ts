// Quotas of stored bytes: for a task, an actor and a project, exact under concurrent uploads, and freed when bytes are forgotten.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { describe, test } from 'node:test'
import { END, keyOf } from '#kernel/declare/schema.ts'
import type { Store } from '#kernel/log/store.ts'
import { StoredBytes, type ByteQuotas } from '#kernel/ports/stored-bytes.ts'
import { limits } from '#kernel/limits.ts'
import { collaboration } from '#protocols/collaboration/index.ts'
import { execution } from '#protocols/execution/index.ts'
import { correctByteSums } from '#workers/upkeep/byte-sums.ts'
import { batchOf, putOf } from '../../support/in-process/batches.ts'
import { createWorld, stateHash, type World } from '../../support/in-process/world.ts'

const OFF: ByteQuotas = { task: null, actor: null, project: null }
const scenes = { ...collaboration.scenes, ...execution.scenes }
const checksumOf = (text: string): string => `sha256:${createHash('sha256').update(text).digest('hex')}`

async function at(scene: string, byteQuotas: ByteQuotas) {
  const world = await createWorld({ terms: { byteQuotas } })
  const refs = await world.play(scenes[scene]!)
  const upload = (who: string, name: string, size: number) =>
    world.call(who, 'collaboration/artifact.upload', { task_id: refs['task'].id, checksum: checksumOf(name), size })
  return { world, refs, upload }
}
async function sums({ store }: World): Promise<Record<string, number>> {
  const first = keyOf(StoredBytes, '')
  const found = await store.read(await store.keys(first, first + END, 100))
  return Object.fromEntries(found.map((one) => [(one!.value as { id: string }).id.split('/')[0]!, (one!.value as { bytes: number }).bytes]))
}

/** As an earlier release left them: nothing was counted. */
async function forgetSums({ store }: World): Promise<void> {
  const first = keyOf(StoredBytes, '')
  const keys = await store.keys(first, first + END, 100)
  const versions = (await store.read(keys)).map((found) => found!.version)
  await store.commit(
    batchOf({
      scope: 'system',
      at: '2026-01-01T00:00:00.000Z',
      expect: new Map(keys.map((key, i) => [key, versions[i]!])),
      puts: keys.map((key) => putOf(key, null)),
    }),
  )
}

describe('bytes that are stored', () => {
  test('bytes of an earlier release are counted once at a start, so forgetting them takes nothing from others', async () => {
    const { world, upload, refs } = await at('in_progress', OFF)
    await upload('devin', 'expired', 30)
    world.advance(limits.uploadMs)
    await world.call('system', 'collaboration/upload.expire', { task_id: refs['task'].id, checksum: checksumOf('expired') })
    await upload('devin', 'old', 100)
    await forgetSums(world)
    await upload('devin', 'new', 50)
    assert.deepEqual(await sums(world), { task: 50, actor: 50, project: 50 })
    await Promise.all([correctByteSums(world.store, world.kernel.now), correctByteSums(world.store, world.kernel.now)])
    const { corrected, ...counted } = await sums(world)
    assert.deepEqual([corrected, counted], [0, { task: 150, actor: 150, project: 150 }])
    const before = await stateHash(world.store)
    await correctByteSums(world.store, world.kernel.now)
    assert.equal(await stateHash(world.store), before)
    world.advance(limits.uploadMs / 2)
    await upload('devin', 'new', 50)
    world.advance(limits.uploadMs / 2)
    await world.call('system', 'collaboration/upload.expire', { task_id: refs['task'].id, checksum: checksumOf('old') })
    assert.equal((await sums(world))['actor'], 50)
  })

  test('bytes that arrive while older ones are counted are counted, too', async () => {
    const { world, upload } = await at('in_progress', OFF)
    await upload('devin', 'old', 100)
    await forgetSums(world)
    await upload('devin', 'new', 50)
    let isFirst = true
    const busy: Store = {
      ...world.store,
      async commit(batch) {
        if (isFirst) await upload('devin', 'newest', 7)
        isFirst = false
        return world.store.commit(batch)
      },
    }
    await correctByteSums(busy, world.kernel.now)
    assert.equal((await sums(world))['task'], 157)
  })

  test('files of an earlier release are counted as well', async () => {
    const { world, refs } = await at('asked_for_file', OFF)
    const file = { name: 'a.txt', media_type: 'text/plain', checksum: checksumOf('old'), size: 5 }
    await world.call('alice', 'execution/file.add', { request_id: refs['request'].id, ...file })
    await forgetSums(world)
    await correctByteSums(world.store, world.kernel.now)
    assert.deepEqual(await sums(world), { actor: 5, corrected: 0, project: 5 })
  })

  for (const kind of ['task', 'actor', 'project'] as const)
    test(`beyond the quota of the ${kind} they are refused with the quota and the next step, and nothing changes`, async () => {
      const { world, upload } = await at('in_progress', { ...OFF, [kind]: 100 })
      await upload('devin', 'one', 60)
      const before = await stateHash(world.store)
      await assert.rejects(upload('devin', 'two', 41), (error: any) => {
        assert.equal(error.code, 'QUOTA_EXCEEDED')
        assert.match(error.message, new RegExp(`^41 more bytes do not fit: 60 bytes are stored .* at most 100 .*--bytes-per-${kind}$`))
        return true
      })
      assert.equal(await stateHash(world.store), before)
      // The same bytes again are stored once, and a quota that is reached can be used up to its last byte.
      await upload('devin', 'one', 60)
      await upload('devin', 'two', 40)
    })

  test('uploads at the same time do not overrun a quota together', async () => {
    const { world, upload } = await at('in_progress', { ...OFF, project: 100 })
    const done = await Promise.allSettled(Array.from({ length: 8 }, (_, i) => upload(i % 2 === 0 ? 'devin' : 'alice', `file ${i}`, 30)))
    assert.equal(done.filter(({ status }) => status === 'fulfilled').length, 3)
    assert.equal((await sums(world))['project'], 90)
  })

  test('the bytes of one actor do not count for another, and the same bytes count for the last who sent them', async () => {
    const { world, upload } = await at('in_progress', { ...OFF, actor: 100 })
    await upload('devin', 'one', 100)
    await assert.rejects(upload('devin', 'two', 1), { code: 'QUOTA_EXCEEDED' })
    await upload('alice', 'two', 100)
    await assert.rejects(upload('alice', 'one', 100), { code: 'QUOTA_EXCEEDED' })
    const { task, project } = await sums(world)
    assert.deepEqual([task, project], [200, 200])
  })

  test('an upload that is forgotten makes room, and comes back at its price', async () => {
    const { world, refs, upload } = await at('in_progress', { task: 100, actor: 100, project: 100 })
    await upload('devin', 'one', 100)
    world.advance(limits.uploadMs + 1_000)
    await world.call('system', 'collaboration/upload.expire', { task_id: refs['task'].id, checksum: checksumOf('one') })
    assert.deepEqual(await sums(world), {})
    await upload('devin', 'one', 100)
    assert.deepEqual(await sums(world), { task: 100, actor: 100, project: 100 })
  })

  test('files that people send for a request count for them and their project', async () => {
    const { world, refs } = await at('asked_for_file', { ...OFF, actor: 100 })
    const input = { request_id: refs['request'].id, name: 'a.txt', media_type: 'text/plain' }
    const add = (name: string, size: number) => world.call('alice', 'execution/file.add', { ...input, checksum: checksumOf(name), size })
    const { artifact_id } = await add('one', 5)
    assert.deepEqual(await sums(world), { actor: 5, project: 5 })
    await assert.rejects(add('two', 96), { code: 'QUOTA_EXCEEDED' })
    world.advance(limits.uploadMs + 1_000)
    await world.call('system', 'execution/file.expire', { artifact_id })
    assert.deepEqual(await sums(world), {})
  })
})
