// Two stores on one set of data: what one of them commits decides what the other one may commit, and a barrier lets it be read.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { createTail as createLiveTail } from '#bindings/live/tail.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import type { GroupCommitOptions } from '#kernel/log/group-commit.ts'
import type { Hint, Store } from '#kernel/log/store.ts'
import { createTail } from '#kernel/log/tail.ts'
import { memoryDisk, memoryStore } from '#stores/memory.ts'
import { sqliteStore } from '#stores/sqlite.ts'
import {
  assertChain,
  batchOf,
  codesOf,
  counting,
  creating,
  factOf,
  isConflict,
  putOf,
  updating,
  versionsOf,
} from '../support/in-process/batches.ts'

const folders: string[] = []
after(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
})

type Both = { readonly one: Store; readonly two: Store }
/** `hasBarrier`: reads see what others wrote once `fresh` is over; without it, once a commit of their own has been refused. */
type Maker = { readonly name: string; readonly hasBarrier: boolean; open(options?: Partial<GroupCommitOptions>): Both }

const makers: Maker[] = [
  {
    name: 'memory',
    hasBarrier: true,
    open(options) {
      const disk = memoryDisk()
      const open = (): Store => memoryStore({ disk, isShared: true, ...options })
      return { one: open(), two: open() }
    },
  },
  {
    name: 'sqlite',
    hasBarrier: false,
    open(options) {
      const folder = mkdtempSync(join(tmpdir(), 'countersign-writers-'))
      folders.push(folder)
      const open = (): Store => sqliteStore(join(folder, 'countersign.db'), options)
      return { one: open(), two: open() }
    },
  },
]

const close = ({ one, two }: Both): Promise<unknown> => Promise.all([one.close(), two.close()])
const turn = (): Promise<void> => new Promise((done) => setImmediate(done))

for (const { name, open, hasBarrier } of makers) {
  describe(`two ${name} stores on one set of data`, () => {
    test('their commits form one record without gaps, with every chain sound for every writer', async () => {
      const both = open()
      await Promise.all(
        Array.from({ length: 60 }, (_, i) =>
          (i % 2 === 0 ? both.one : both.two).commit(batchOf({ ...creating(`k/${i}`), scope: `p${i % 3}` })),
        ),
      )
      await both.two.fresh()
      const facts = await both.two.facts({ by: 'position' }, { after: null, limit: 100 })
      assert.deepEqual(
        facts.map(({ position }) => position),
        Array.from({ length: 60 }, (_, i) => i + 1),
      )
      // One more each, so that neither continues from what it remembers.
      await both.one.commit(creating('k/one'))
      await both.two.commit(creating('k/two'))
      await assertChain(both.two)
      await close(both)
    })

    test('a version that the other one made refuses what was decided on the one before, and the next attempt sees it', async () => {
      const { one, two } = open()
      await one.commit(creating('k/a'))
      await two.fresh()
      assert.deepEqual(await versionsOf(two, ['k/a']), [1])
      await one.commit(updating('k/a', 1))
      await assert.rejects(two.commit(updating('k/a', 1)), isConflict('k/a'))
      assert.deepEqual(await versionsOf(two, ['k/a']), [2])
      await two.commit(updating('k/a', 2))
      await assert.rejects(one.commit(updating('k/a', 2)), isConflict('k/a'))
      await assert.rejects(one.commit(creating('k/a')), isConflict('k/a'))
      await assertChain(two)
      await close({ one, two })
    })

    test('a document that one of them creates cannot be created by the other', async () => {
      const both = open()
      const outcomes = await codesOf([both.one, both.two, both.one, both.two].map((store) => store.commit(creating('k/same'))))
      assert.deepEqual(outcomes.toSorted(), ['CONFLICT', 'CONFLICT', 'CONFLICT', 'ok'])
      await close(both)
    })

    test('a bound holds over both', async () => {
      const both = open()
      const outcomes = await codesOf(
        Array.from({ length: 20 }, (_, i) => (i % 2 === 0 ? both.one : both.two).commit(counting('open\0', `p/${i}`, 7))),
      )
      assert.equal(outcomes.filter((code) => code === 'ok').length, 7)
      assert.equal(outcomes.filter((code) => code === 'QUOTA_EXCEEDED').length, 13)
      await close(both)
    })

    test('a document that one writer removed is gone for the other', async () => {
      const { one, two } = open()
      await one.commit(batchOf({ create: new Set(['p/a']), puts: [putOf('p/a', { n: 1 })] }))
      await two.commit(batchOf({ expect: new Map([['p/a', 1]]), puts: [putOf('p/a', null)] }))
      assert.deepEqual(await codesOf([one.commit(batchOf({ expect: new Map([['p/a', 1]]), puts: [putOf('p/a', { n: 2 })] }))]), [
        'CONFLICT',
      ])
      await one.commit(batchOf({ create: new Set(['p/a']), puts: [putOf('p/a', { n: 3 })] }))
      assert.deepEqual(await versionsOf(one, ['p/a']), [1])
      await close({ one, two })
    })

    if (!hasBarrier) return

    test('behind a barrier reads, heads, counts and the position are as new as anything acknowledged before it', async () => {
      const { one, two } = open()
      await one.commit(creating('k/a'))
      await two.fresh()
      await versionsOf(two, ['k/a'])
      for (let version = 1; version < 50; version++) {
        await one.commit(batchOf({ ...updating('k/a', version), add: [`open\0${version}`], count: new Map([['open\0', 1]]) }))
        await two.fresh()
        assert.deepEqual(await versionsOf(two, ['k/a']), [version + 1])
        assert.equal(two.peek?.('k/a')?.version, version + 1)
        assert.equal((await two.head('project_a')).seq, version + 1)
        assert.equal(await two.count('open\0'), version)
        assert.equal(await two.position(), version + 1)
      }
      await close({ one, two })
    })

    test('a barrier that was asked for before a call came does not serve it, and a later one that is over does', async () => {
      const { one, two } = open({ defer: queueMicrotask })
      await one.commit(creating('k/a'))
      await two.fresh()
      const first = two.barriers()
      const barrier = two.fresh(first)
      assert.ok(barrier instanceof Promise, 'none was asked for since')
      assert.equal(two.fresh(first), barrier, 'calls of one turn share one')
      while (two.barriers() === first) await Promise.resolve()
      const second = two.barriers()
      const own = two.fresh(second)
      assert.ok(own instanceof Promise, 'the one under way was asked for before')
      await barrier
      assert.equal(two.fresh(first), undefined)
      await own
      assert.equal(two.fresh(second), undefined)
      await close({ one, two })
    })

    test('hints of the other one come in order, say what changed and whom it wakes, and hold no data', async () => {
      const { one, two } = open()
      const heard: Hint[] = []
      two.subscribe((hint) => heard.push(hint))
      await one.commit(batchOf({ ...creating('k/a'), wakes: ['agent_devin'] }))
      await turn()
      await one.commit(batchOf({ create: new Set(['p/b']), puts: [putOf('p/b', {})] }))
      await turn()
      assert.deepEqual(heard, [
        { position: 1, keys: ['k/a'], wakes: ['agent_devin'] },
        { position: 1, keys: ['p/b'], wakes: [] },
      ])
      await close({ one, two })
    })

    test('a tail tells facts of both once and in order, whether or not they were read back', async () => {
      const { one, two } = open()
      const told: number[] = []
      const bugs: unknown[] = []
      const tail = createTail(two, (error) => bugs.push(error))
      tail.follow((facts) => {
        assert.ok(facts.length > 0, 'nobody is told of nothing')
        told.push(...facts.map(({ position }) => position))
      })
      for (let i = 0; i < 40; i++) await Promise.all([one.commit(creating(`one/${i}`)), two.commit(creating(`two/${i}`))])
      await two.fresh()
      await turn()
      assert.deepEqual(
        told,
        Array.from({ length: 80 }, (_, i) => i + 1),
      )
      // After a commit of its own: what the store has at hand is not what comes next.
      await two.commit(creating('own'))
      await one.commit(creating('foreign'))
      await two.fresh()
      await turn()
      assert.deepEqual([told.length, bugs], [82, []])
      tail.stop()
      await close({ one, two })
    })
  })
}

test('facts of other writers are not read without a subscriber, and a new subscriber gets those that follow', async () => {
  const disk = memoryDisk()
  const one = memoryStore({ disk, isShared: true })
  const own = memoryStore({ disk, isShared: true })
  let reads = 0
  const two: Store = {
    ...own,
    facts(of, page) {
      reads++
      return own.facts(of, page)
    },
  }
  const record = createTail(two)
  const taken: number[] = []
  let isWatched = false
  const live = createLiveTail(two, record, {
    isAnyWatched: () => isWatched,
    isWatched: () => isWatched,
    take: ({ position }) => void taken.push(position),
    flush: () => undefined,
    failed: assert.ifError,
  })
  for (let i = 0; i < 3; i++) {
    await one.commit(creating(`k/${i}`))
    await two.fresh()
    await turn()
  }
  assert.equal(reads, 0)
  isWatched = true
  await one.commit(creating('k/watched'))
  await two.fresh()
  for (let i = 0; i < 10; i++) await turn()
  assert.deepEqual(taken, [4])
  live.stop()
  record.stop()
  await close({ one, two })
})

describe('a stale read does not enter the cache', () => {
  test('a row that was read before the other one changed it', async () => {
    const disk = memoryDisk()
    const one = memoryStore({ disk, isShared: true })
    const two = memoryStore({ disk, isShared: true })
    await one.commit(creating('k/a'))
    await two.fresh()
    const reading = two.read(['k/a'])
    const writing = one.commit(updating('k/a', 1))
    await Promise.all([reading, writing])
    await two.fresh()
    assert.deepEqual(await versionsOf(two, ['k/a']), [2])
  })

  test('a commit of its own, if the other one has committed again before it is settled', async () => {
    const disk = memoryDisk()
    let isHeld = true
    const gate = Promise.withResolvers<void>()
    const one = memoryStore({ disk, isShared: true })
    const two = memoryStore({
      disk,
      isShared: true,
      async onWrite(_, apply) {
        apply()
        // Durable, but its answer is on its way.
        if (isHeld) await gate.promise
      },
    })
    await one.commit(creating('k/a'))
    const own = two.commit(updating('k/a', 1))
    while (disk.facts.length < 2) await turn()
    await one.fresh()
    await one.commit(updating('k/a', 2))
    await two.fresh()
    isHeld = false
    gate.resolve()
    await own
    assert.deepEqual(await versionsOf(two, ['k/a']), [3])
  })
})

test('an unknown outcome is refused as such, and the store continues from the stored state', async () => {
  for (const isThere of [true, false]) {
    const disk = memoryDisk()
    let isLost = true
    const store = memoryStore({
      disk,
      onWrite(_, apply) {
        if (!isLost) return apply()
        if (isThere) apply()
        throw Object.assign(new Error('the connection was lost'), { failure: 'unknown' })
      },
    })
    const refused = await store
      .commit(batchOf({ ...creating('k/a'), facts: [factOf({ 'k/a': { n: 1 } })] }))
      .catch((error: unknown) => error)
    assert.ok(refused instanceof Refusal)
    assert.deepEqual([refused.code, refused.details?.['outcome']], ['UNAVAILABLE', 'unknown'])
    isLost = false
    assert.deepEqual(await versionsOf(store, ['k/a']), [isThere ? 1 : undefined])
    assert.deepEqual(await codesOf([store.commit(creating('k/a'))]), [isThere ? 'CONFLICT' : 'ok'])
    await store.commit(updating('k/a', 1))
    await assertChain(store)
  }
})
