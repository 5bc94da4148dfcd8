// One suite for every store: what `Store` promises, and what the disk may do to it.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, afterEach, describe, test, type TestContext } from 'node:test'
import { isDeepStrictEqual } from 'node:util'
import type { Refusal } from '#kernel/declare/errors.ts'
import { END } from '#kernel/declare/schema.ts'
import { isSound } from '#kernel/log/sealed-documents.ts'
import type { GroupCommitOptions } from '#kernel/log/group-commit.ts'
import type { Batch, FactsOf, Sealed, Store, Value } from '#kernel/log/store.ts'
import { memoryDisk, memoryStore, type MemoryOptions } from '#stores/memory.ts'
import { postgresStore } from '#stores/postgres/index.ts'
import { sqliteStore, type SqliteOptions } from '#stores/sqlite.ts'
import { isPostgresOff, newDatabase } from '../support/as-processes/postgres.ts'
import {
  assertChain,
  AT,
  batchOf,
  codesOf,
  counting,
  creating,
  factOf,
  isConflict,
  putOf,
  SCOPE,
  updating,
  versionsOf,
} from '../support/in-process/batches.ts'
import { createWorld, type World } from '../support/in-process/world.ts'

let made = 0
const folders: string[] = []
after(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
})
function newFile(): string {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-stores-'))
  folders.push(folder)
  return join(folder, 'countersign.db')
}

async function allFacts(store: Store, of: FactsOf = { by: 'position' }): Promise<number[]> {
  return (await store.facts(of, { after: null, limit: 1_000 })).map((stored) => stored.position)
}
/** Everything that can be read, so that "nothing changed" is one comparison. */
async function everything(store: Store): Promise<unknown> {
  const keys = await store.keys('', END, 1_000)
  const facts = await store.facts({ by: 'position' }, { after: null, limit: 1_000 })
  const { position } = store.stats()
  const rows = (await store.read(keys)).map((found) => found && { version: found.version, value: found.value })
  return { docs: keys.map((key) => key), rows, entries: await store.scan('', END, 1_000), facts, position }
}

// --- The stores ------------------------------------------------------------------------------------------------------------

type Opened = { readonly store: Store; reopen(options?: Partial<GroupCommitOptions>): Store | Promise<Store> }
type Maker = {
  readonly name: string
  readonly skip?: string | false
  open(options?: Partial<GroupCommitOptions>): Opened | Promise<Opened>
}

/** The counterpart of `facts.actor NOT NULL` of SQLite: a batch with a fact without an actor is refused by the database. */
const refusePoison: MemoryOptions['onWrite'] = (group, apply) => {
  if (group.facts.some((row) => (row.actor as string | null) === null)) {
    throw Object.assign(new Error('NOT NULL constraint failed: facts.actor'), { failure: 'refused' })
  }
  apply()
}
const poisoned = (key: string): Batch =>
  batchOf({ create: new Set([key]), facts: [factOf({ [key]: { id: key } }, { actor: null as unknown as string })] })

const makers: Maker[] = [
  {
    name: 'memory',
    open(options) {
      const disk = memoryDisk()
      const open = (more?: Partial<GroupCommitOptions>): Store => memoryStore({ disk, onWrite: refusePoison, ...more })
      return { store: open(options), reopen: open }
    },
  },
  {
    name: 'sqlite',
    open(options) {
      const file = newFile()
      return { store: sqliteStore(file, options), reopen: (more) => sqliteStore(file, more) }
    },
  },
  {
    name: 'postgres',
    skip: isPostgresOff,
    async open(options) {
      const { url } = await newDatabase()
      const reopen = async (more?: Partial<GroupCommitOptions>): Promise<Store> => {
        const store = await postgresStore(url, more)
        opened.push(store)
        return store
      }
      return { store: await reopen(options), reopen }
    },
  },
]

/** Connections are few: those that a test leaves open are closed with it. */
const opened: Store[] = []
afterEach(async () => {
  for (const store of opened.splice(0)) await store.close()
})

function readingTests({ open }: Maker): void {
  test('a document is read with its version and value, and what is not there is undefined', async () => {
    const { store } = await open()
    await store.commit(creating('toy.note/a', 'toy.note/b'))
    await store.commit(updating('toy.note/a', 1, { id: 'toy.note/a', text: 'ü 🙂' }))
    assert.deepEqual(await versionsOf(store, ['toy.note/a', 'toy.note/none', 'toy.note/b']), [2, undefined, 1])
    const [found] = await store.read(['toy.note/a'])
    assert.deepEqual(found!.value, { id: 'toy.note/a', text: 'ü 🙂' })
    await store.close()
  })

  test('a cached document equals what a read would find, or the cache has none', async (t) => {
    const { store } = await open()
    if (!store.peek) return t.skip('nothing lies at hand in this store')
    const peeked = store.peek
    await store.commit(creating('toy.note/a'))
    assert.deepEqual(peeked('toy.note/a'), (await store.read(['toy.note/a']))[0])
    await store.commit(updating('toy.note/a', 1, { id: 'toy.note/a', text: 'two' }))
    assert.deepEqual([peeked('toy.note/a')?.version, peeked('toy.note/a')?.value['text']], [2, 'two'])
    await store.commit(batchOf({ expect: new Map([['toy.note/a', 2]]), puts: [putOf('toy.note/a', null)] }))
    assert.equal(peeked('toy.note/a'), undefined)
    assert.equal(peeked('toy.note/none'), undefined)
    await store.read(['toy.note/none'])
    assert.equal(peeked('toy.note/none'), null, 'it was looked for, and there is none')
    await store.commit(creating('toy.note/none'))
    assert.equal(peeked('toy.note/none')?.version, 1)
    await store.close()
  })

  test('keys are listed in byte order between two bounds that are not included, up to a limit', async () => {
    const { store } = await open()
    await store.commit(creating('k/c', 'k/a', 'k/b', 'k/é', 'k/Z', 'l/a'))
    assert.deepEqual(await store.keys('k/', `k/${END}`, 10), ['k/Z', 'k/a', 'k/b', 'k/c', 'k/é'])
    assert.deepEqual(await store.keys('k/a', 'k/c', 10), ['k/b'])
    assert.deepEqual(await store.keys('k/', END, 2), ['k/Z', 'k/a'])
    assert.deepEqual(await store.keys('k/c', 'k/a', 10), [])
    await store.close()
  })

  test('index entries are scanned in both directions, after the lower and before the upper bound', async () => {
    const { store } = await open()
    const entries = ['i\0a\x001', 'i\0a\x002', 'i\0b\x001', 'i\0b\x002', 'j\0a\x001']
    await store.commit(batchOf({ create: new Set(['k/a']), puts: [putOf('k/a', {})], add: entries.toReversed() }))
    assert.deepEqual(await store.scan('i\0', `i\0${END}`, 10), entries.slice(0, 4))
    assert.deepEqual(await store.scan('i\0', `i\0${END}`, 10, true), entries.slice(0, 4).toReversed())
    assert.deepEqual(await store.scan('i\0', `i\0${END}`, 3), entries.slice(0, 3))
    assert.deepEqual(await store.scan('i\0', `i\0${END}`, 3, true), entries.slice(1, 4).toReversed())
    assert.deepEqual(await store.scan(entries[1]!, entries[3]!, 10), [entries[2]], 'neither bound is included')
    assert.deepEqual(await store.scan(entries[1]!, entries[3]!, 10, true), [entries[2]])
    assert.deepEqual(await store.scan(entries[4]!, END, 10), [])
    await store.close()
  })

  test('an entry that one batch adds and the next one drops is gone, also within one group', async () => {
    const { store } = await open()
    await store.commit(batchOf({ create: new Set(['k/a']), puts: [putOf('k/a', {})], add: ['e1', 'e2'] }))
    await Promise.all([
      store.commit(batchOf({ expect: new Map([['k/a', 1]]), puts: [putOf('k/a', { n: 2 })], drop: ['e1'], add: ['e3'] })),
      store.commit(batchOf({ expect: new Map([['k/a', 2]]), puts: [putOf('k/a', { n: 3 })], drop: ['e3'], add: ['e1'] })),
    ])
    assert.deepEqual(await store.scan('', END, 10), ['e1', 'e2'])
    await store.close()
  })
}

function countingTests({ open }: Maker): void {
  test('counts follow what batches say, and atMost refuses the batch that would exceed it', async () => {
    const { store, reopen } = await open()
    assert.equal(await store.count('open\0'), 0)
    // In one group: each batch is checked against what the ones before it in the group have staged.
    assert.deepEqual(await codesOf(['a', 'b', 'c', 'd'].map((entry) => store.commit(counting('open\0', entry, 2)))), [
      'ok',
      'ok',
      'QUOTA_EXCEEDED',
      'QUOTA_EXCEEDED',
    ])
    assert.equal(await store.count('open\0'), 2)
    assert.deepEqual(await store.keys('', END, 10), ['a', 'b'], 'the refused batches left nothing')
    await store.commit(
      batchOf({ expect: new Map([['a', 1]]), puts: [putOf('a', null)], drop: ['open\0a'], count: new Map([['open\0', -1]]) }),
    )
    assert.equal(await store.count('open\0'), 1)
    await store.close()
    const again = await reopen()
    assert.equal(await again.count('open\0'), 1, 'the count is stored, not only cached')
    assert.deepEqual(await codesOf(['e', 'f'].map((entry) => again.commit(counting('open\0', entry, 2)))), ['ok', 'QUOTA_EXCEEDED'])
    await again.close()
  })
}

function committingTests({ open }: Maker): void {
  test('a batch is committed as a whole: facts, documents, puts, entries and counts', async () => {
    const { store } = await open()
    const sealed = await store.commit(
      batchOf({
        create: new Set(['k/a', 'k/b', 'p/a']),
        facts: [factOf({ 'k/a': { n: 1 }, 'k/b': { n: 1 } }), factOf({ 'k/a': { n: 2 } }, { cause: 0 })],
        puts: [putOf('p/a', { due: AT })],
        add: ['e1'],
        count: new Map([['e', 1]]),
      }),
    )
    assert.deepEqual(
      sealed.map(({ position, seq, scope }) => ({ position, seq, scope })),
      [
        { position: 1, seq: 1, scope: SCOPE },
        { position: 2, seq: 2, scope: SCOPE },
      ],
    )
    assert.equal((JSON.parse(sealed[1]!.line) as { cause: number }).cause, 1, 'a cause is the seq of the fact that led to it')
    assert.deepEqual(await versionsOf(store, ['k/a', 'k/b', 'p/a']), [2, 1, 1])
    assert.deepEqual(await store.scan('', END, 10), ['e1'])
    assert.equal(await store.count('e'), 1)
    await store.close()
  })

  const refusals: [title: string, batch: Batch, key: string][] = [
    [
      'a document has moved since it was read',
      batchOf({ ...updating('k/a', 1), puts: [putOf('p/x', {})], create: new Set(['p/x']) }),
      'k/a',
    ],
    ['a document that was not there when it was read exists now', batchOf({ ...creating('k/x'), expect: new Map([['k/b', 0]]) }), 'k/b'],
    ['a document that was read is gone', batchOf({ ...creating('k/x'), expect: new Map([['k/gone', 1]]) }), 'k/gone'],
    ['a document that must be new exists', batchOf({ ...creating('k/x', 'k/b') }), 'k/b'],
  ]
  for (const isReopened of [false, true]) {
    for (const [title, batch, key] of refusals) {
      test(`${title}: Conflict, and nothing of the batch is there${isReopened ? ' (after a restart)' : ''}`, async () => {
        const opened = await open()
        await opened.store.commit(creating('k/a', 'k/b'))
        await opened.store.commit(updating('k/a', 1))
        if (isReopened) await opened.store.close()
        const store = isReopened ? await opened.reopen() : opened.store
        const before = await everything(store)
        // A restarted store has nothing in its cache: the database itself must refuse the second one.
        await assert.rejects(store.commit(batch), isConflict(key))
        assert.deepEqual(await everything(store), before)
        await store.commit(updating('k/a', 2))
        assert.deepEqual(await versionsOf(store, ['k/a', 'k/x']), [3, undefined])
        await store.close()
      })
    }
  }

  test('batches that wait go into one group, and a conflict inside it refuses only the loser', async () => {
    const { store } = await open()
    await store.commit(creating('k/a'))
    const { groups } = store.stats()
    const codes = await codesOf([
      store.commit(updating('k/a', 1)),
      store.commit(updating('k/a', 1)),
      store.commit(creating('k/b')),
      store.commit(creating('k/b')),
      store.commit(updating('k/a', 2)),
    ])
    assert.deepEqual(codes, ['ok', 'CONFLICT', 'ok', 'CONFLICT', 'ok'])
    assert.equal(store.stats().groups, groups + 1)
    assert.deepEqual(await versionsOf(store, ['k/a', 'k/b']), [3, 1])
    assert.deepEqual(await allFacts(store), [1, 2, 3, 4], 'positions have no gaps for what was refused')
    await store.close()
  })

  test('groupMax bounds a group and queueMax refuses what would wait beyond it', async () => {
    const { store } = await open({ groupMax: 2, queueMax: 5 })
    const codes = await codesOf(['a', 'b', 'c', 'd', 'e', 'f', 'g'].map((name) => store.commit(creating(`k/${name}`))))
    assert.deepEqual(codes, ['ok', 'ok', 'ok', 'ok', 'ok', 'BUSY', 'BUSY'])
    assert.deepEqual(store.stats(), { groups: 3, batches: 5, waiting: 0, position: 5 })
    await store.close()
  })

  test('a batch that the database refuses fails alone, and the chain continues without it', async () => {
    const { store, reopen } = await open()
    const codes = await codesOf([
      store.commit(creating('k/a')),
      store.commit(poisoned('k/bad')),
      store.commit(creating('k/b')),
      store.commit(updating('k/a', 1)),
    ])
    assert.deepEqual(codes, ['ok', 'error', 'ok', 'ok'])
    assert.deepEqual(await versionsOf(store, ['k/a', 'k/bad', 'k/b']), [2, undefined, 1])
    assert.deepEqual(await allFacts(store), [1, 2, 3])
    await store.close()
    const again = await reopen()
    assert.deepEqual(await versionsOf(again, ['k/a', 'k/bad', 'k/b']), [2, undefined, 1])
    await assertChain(again)
    await again.close()
  })

  test('a batch that cannot be sealed fails alone and leaves no gap in the record', async () => {
    const { store, reopen } = await open()
    const broken = batchOf({
      create: new Set(['k/bad']),
      facts: [factOf({ 'k/bad': {} }), factOf({ 'k/bad': {} }, { detail: { x: undefined } })],
    })
    assert.deepEqual(await codesOf([creating('k/a'), broken, creating('k/b')].map((batch) => store.commit(batch))), ['ok', 'error', 'ok'])
    await store.commit(updating('k/b', 1))
    assert.deepEqual(await allFacts(store), [1, 2, 3])
    await store.close()
    const again = await reopen()
    assert.deepEqual(
      (await again.read(['k/a', 'k/bad', 'k/b'])).map((found) => found?.value),
      [{ id: 'k/a', n: 1 }, undefined, { id: 'k/b', n: 2 }],
    )
    await again.close()
  })

  test('a document is removed and created again in one group, starting at version 1', async () => {
    const { store, reopen } = await open()
    await store.commit(batchOf({ create: new Set(['p/a']), puts: [putOf('p/a', { n: 1 })] }))
    const codes = await codesOf([
      store.commit(batchOf({ expect: new Map([['p/a', 1]]), puts: [putOf('p/a', null)] })),
      store.commit(batchOf({ create: new Set(['p/a']), puts: [putOf('p/a', { n: 2 })] })),
      store.commit(batchOf({ create: new Set(['p/b']), puts: [putOf('p/b', { n: 1 })] })),
      store.commit(batchOf({ expect: new Map([['p/b', 1]]), puts: [putOf('p/b', null)] })),
    ])
    assert.deepEqual(codes, ['ok', 'ok', 'ok', 'ok'])
    const seen = [{ version: 1, value: { n: 2 } }, undefined]
    const shown = async (from: Store) =>
      (await from.read(['p/a', 'p/b'])).map((found) => found && { version: found.version, value: found.value })
    assert.deepEqual(await shown(store), seen)
    await store.close()
    const again = await reopen()
    assert.deepEqual(await shown(again), seen)
    assert.deepEqual(await again.keys('', END, 10), ['p/a'])
    await again.close()
  })
}

function factTests({ open }: Maker): void {
  /** Two chains, three actors, a task with a child. */
  const rows: [scope: string, actor: string, task: string | null, root: string | null][] = [
    ['project_a', 'user_alice', 'task_1', 'task_1'],
    ['project_b', 'user_alice', 'task_9', 'task_9'],
    ['project_a', 'agent_devin', 'task_1', 'task_1'],
    ['project_a', 'agent_devin', 'task_2', 'task_1'],
    ['project_a', 'user_alice', null, null],
    ['project_a', 'user_alice', 'task_2', 'task_1'],
    ['project_a', 'user_rita', 'task_3', 'task_3'],
  ]
  const questions: [title: string, of: FactsOf, positions: number[]][] = [
    ['all by position', { by: 'position' }, [1, 2, 3, 4, 5, 6, 7]],
    ['a chain', { by: 'scope', scope: 'project_a' }, [1, 3, 4, 5, 6, 7]],
    ['one actor of a chain', { by: 'actor', scope: 'project_a', actor: 'user_alice' }, [1, 5, 6]],
    ['one task', { by: 'task', task: 'task_1' }, [1, 3]],
    ['a task with its descendants', { by: 'root', root: 'task_1' }, [1, 3, 4, 6]],
    ['nobody', { by: 'actor', scope: 'project_b', actor: 'user_rita' }, []],
  ]
  for (const [title, of, positions] of questions) {
    test(`facts of ${title} come in order, in reverse, and page by page in both directions`, async () => {
      const { store } = await open()
      for (const [i, [scope, actor, task, root]] of rows.entries()) {
        await store.commit(batchOf({ scope, create: new Set([`k/${i}`]), facts: [factOf({ [`k/${i}`]: { i } }, { actor, task, root })] }))
      }
      const place = (fact: { seq: number; position: number }): number => (of.by === 'scope' || of.by === 'actor' ? fact.seq : fact.position)
      for (const reverse of [false, true]) {
        const wanted = reverse ? positions.toReversed() : positions
        for (const limit of [1, 2, 100]) {
          const seen: number[] = []
          for (let cursor: number | null = null; ;) {
            const page = await store.facts(of, { after: cursor, limit, reverse })
            assert.ok(page.length <= limit)
            seen.push(...page.map((stored) => stored.position))
            if (page.length < limit) break
            cursor = place(page.at(-1)!)
          }
          assert.deepEqual(seen, wanted, `reverse ${reverse}, ${limit} a page`)
        }
      }
      await store.close()
    })
  }

  test('a time is a place in a chain: seek finds the first seq that is not before it', async () => {
    const { store } = await open()
    assert.equal(await store.seek(SCOPE, AT), 1, 'one past the last of an empty chain')
    for (const second of [10, 20, 20, 30]) {
      await store.commit(batchOf({ ...creating(`k/${++made}`), at: `2026-01-01T00:00:${second}.000Z` }))
    }
    const seeks = await Promise.all(
      ['00:00:00', '00:00:10', '00:00:11', '00:00:20', '00:00:30', '00:00:31'].map((at) => store.seek(SCOPE, `2026-01-01T${at}.000Z`)),
    )
    assert.deepEqual(seeks, [1, 1, 2, 2, 4, 5])
    await store.close()
  })

  test('a clock that steps back never turns the record around, also after a restart', async () => {
    const { store, reopen } = await open()
    const times = ['2026-01-02T00:00:00.000Z', '2026-01-01T00:00:00.000Z', '2026-01-03T00:00:00.000Z', '2016-01-01T00:00:00.000Z']
    for (const at of times.slice(0, 3)) await store.commit(batchOf({ ...creating(`k/${++made}`), at }))
    await store.close()
    const again = await reopen()
    await again.commit(batchOf({ ...creating(`k/${++made}`), at: times[3]! }))
    const seen = (await again.facts({ by: 'scope', scope: SCOPE }, { after: null, limit: 10 })).map(
      (stored) => (JSON.parse(stored.line) as { at: string }).at,
    )
    assert.deepEqual(seen, [times[0], times[0], times[2], times[2]])
    await again.close()
  })

  test('a document has its place where it was described last: right away, in one group, and after a restart', async () => {
    const { store, reopen } = await open()
    const [a, b] = ['toy.note/a', 'toy.note/b']
    const [made] = await Promise.all([store.commit(creating(a, b)), store.commit(updating(a, 1))])
    await store.commit(batchOf({ scope: 'project_b', create: new Set(['toy.note/c']), facts: [factOf({ 'toy.note/c': { id: 'c' } })] }))
    await store.commit(batchOf({ create: new Set(['toy.note/d']), puts: [putOf('toy.note/d', { id: 'd' })] }))
    const placesIn = async (from: Store) => {
      const found = await Promise.all([a, b, 'toy.note/c', 'toy.note/d', 'toy.note/e'].map((key) => from.place(key)))
      return found.map((place) => place && { ...place })
    }
    const places = await placesIn(store)
    assert.deepEqual(
      places.map((place) => place && `${place.scope} ${place.seq} at ${place.position}`),
      ['project_a 3 at 3', 'project_a 2 at 2', 'project_b 1 at 4', null, null],
    )
    assert.equal(places[1]!.hash, made[1]!.hash)
    // No fact describes it: the record does not have it.
    await store.commit(batchOf({ expect: new Map([[b, 1]]), puts: [putOf(b, { id: b, n: 9 })] }))
    assert.equal(await store.place(b), null)
    const again = await reopen()
    assert.deepEqual(await placesIn(again), [places[0], null, ...places.slice(2)])
  })

  test('each chain has its own contiguous seq and its own head', async () => {
    const { store, reopen } = await open()
    assert.deepEqual({ ...(await store.head('project_b')) }, { seq: 0, hash: '', at: '' })
    await Promise.all(
      ['project_a', 'project_b', 'project_a', 'project_b', 'project_a'].map((scope) =>
        store.commit(batchOf({ ...creating(`k/${++made}`), scope })),
      ),
    )
    assert.equal((await store.head('project_a')).seq, 3)
    assert.equal((await store.head('project_b')).seq, 2)
    await assertChain(store)
    await store.close()
    const again = await reopen()
    await again.commit(batchOf({ ...creating(`k/${++made}`), scope: 'project_b' }))
    assert.equal((await again.head('project_b')).seq, 3)
    await assertChain(again)
    await again.close()
  })

  test('each image carries the one before it, within a group, a batch and after a restart', async () => {
    const { store, reopen } = await open()
    await Promise.all([
      store.commit(batchOf({ create: new Set(['k/a']), facts: [factOf({ 'k/a': { n: 1 } }), factOf({ 'k/a': { n: 2 } })] })),
      store.commit(updating('k/a', 2, { n: 3 })),
    ])
    await store.commit(updating('k/a', 3, { n: 4 }))
    await store.close()
    const again = await reopen()
    await again.commit(updating('k/a', 4, { n: 5 }))
    const images = (await again.facts({ by: 'position' }, { after: null, limit: 10 })).flatMap((stored) => stored.images)
    assert.deepEqual(
      images.map(({ key, version, before, text }) => ({ key, version, before, text })),
      [1, 2, 3, 4, 5].map((n) => ({ key: 'k/a', version: n, before: n === 1 ? null : `{"n":${n - 1}}`, text: `{"n":${n}}` })),
    )
    assert.equal(new Set(images.map(({ salt }) => salt)).size, 5, 'no two images share a salt')
    await again.close()
  })
}

function publishingTests({ open }: Maker): void {
  test('listeners are notified after durability, in the order of the record, until they unsubscribe', async () => {
    const { store } = await open()
    const seen: number[] = []
    const leave = store.subscribe(
      ({ position, keys }) => keys !== 'all' && seen.push(...keys.map((_, i) => position - keys.length + 1 + i)),
    )
    const answered: number[] = []
    const note = (sealed: readonly Sealed[]) => answered.push(sealed[0]!.position)
    await Promise.all(['a', 'b', 'c'].map((name) => store.commit(creating(`k/${name}`)).then(note)))
    await store.commit(creating('k/d')).then(note)
    assert.deepEqual(seen, [1, 2, 3, 4])
    assert.deepEqual(answered, [1, 2, 3, 4])
    leave()
    await store.commit(creating('k/e'))
    assert.deepEqual(seen, [1, 2, 3, 4])
    await store.close()
  })

  test('a listener that throws is reported and heard again, the others hear it too, and what is durable is answered all the same', async () => {
    const bugs: unknown[] = []
    const { store } = await open({
      bug(error) {
        bugs.push(error)
        throw new Error('nor can it be reported')
      },
    })
    const heard: number[] = []
    const bug = new Error('a listener with a bug')
    store.subscribe(() => {
      throw bug
    })
    store.subscribe(({ position }) => heard.push(position))
    await store.commit(creating('k/a'))
    await store.commit(creating('k/b'))
    // A store that others share may tell of a commit twice.
    assert.deepEqual([[...new Set(bugs)], bugs.length, [...new Set(heard)], store.stats().position], [[bug], heard.length, [1, 2], 2])
    assert.deepEqual(await versionsOf(store, ['k/a', 'k/b']), [1, 1])
    await store.close()
  })

  test('before the group is written nothing is answered, visible or published', async () => {
    const due: (() => void)[] = []
    const { store } = await open({ defer: (run) => void due.push(run) })
    const told: string[] = []
    store.subscribe(() => told.push('published'))
    const commits = [store.commit(creating('k/a')), store.commit(creating('k/a'))].map((commit) =>
      commit.then(
        () => told.push('ok'),
        () => told.push('refused'),
      ),
    )
    await new Promise((done) => setImmediate(done))
    assert.deepEqual(told, [])
    assert.deepEqual(await everything(store), { docs: [], rows: [], entries: [], facts: [], position: 0 })
    for (const run of due.splice(0)) run()
    await Promise.all(commits)
    assert.deepEqual(told, ['published', 'ok', 'refused'])
  })

  test('closing waits for what was committed', async () => {
    const { store, reopen } = await open({ groupMax: 1 })
    const commits = ['a', 'b', 'c', 'd'].map((name) => store.commit(creating(`k/${name}`)))
    await store.close()
    assert.deepEqual(await codesOf(commits), ['ok', 'ok', 'ok', 'ok'])
    const again = await reopen()
    assert.deepEqual(await versionsOf(again, ['k/a', 'k/b', 'k/c', 'k/d']), [1, 1, 1, 1])
    await again.close()
  })

  test('a restarted store has everything and continues', async () => {
    const { store, reopen } = await open()
    await store.commit(batchOf({ ...creating('k/a', 'k/b'), add: ['e1', 'e2'], count: new Map([['e', 2]]) }))
    await store.commit(batchOf({ create: new Set(['p/a']), puts: [putOf('p/a', { due: AT })] }))
    await store.commit(updating('k/a', 1))
    const before = await everything(store)
    await store.close()
    const again = await reopen()
    assert.deepEqual(await everything(again), before)
    await again.commit(updating('k/a', 2))
    assert.deepEqual(await allFacts(again), [1, 2, 3, 4])
    await assertChain(again)
    await again.close()
  })
}

for (const maker of makers) {
  describe(`the ${maker.name} store`, { skip: maker.skip ?? false }, () => {
    readingTests(maker)
    countingTests(maker)
    committingTests(maker)
    factTests(maker)
    publishingTests(maker)
  })
}

// --- While the disk writes -------------------------------------------------------------------------------------------------

/** A disk that takes its time and may fail: the write ends when the test says so. */
function slowDisk() {
  const disk = memoryDisk()
  const writes: { finish(): void; fail(failure: string): void }[] = []
  const onWrite: MemoryOptions['onWrite'] = (_, apply) =>
    new Promise<void>((done, no) => {
      writes.push({
        finish() {
          apply()
          done()
        },
        fail: (failure) => no(Object.assign(new Error(failure), { failure })),
      })
    })
  const nextWrite = async () => {
    while (writes.length === 0) await new Promise((done) => setImmediate(done))
    return writes.shift()!
  }
  return { disk, onWrite, nextWrite }
}

describe('a store whose disk is slow or fails', () => {
  test('while a write is under way, neither winner nor loser is answered and readers see the state before it', async () => {
    const { onWrite, nextWrite } = slowDisk()
    const store = memoryStore({ onWrite })
    const first = store.commit(creating('k/a'))
    ;(await nextWrite()).finish()
    await first
    const told: string[] = []
    store.subscribe(() => told.push('published'))
    const commits = [1, 1].map((version) =>
      store.commit(updating('k/a', version)).then(
        () => told.push('ok'),
        () => told.push('conflict'),
      ),
    )
    const write = await nextWrite()
    await new Promise((done) => setImmediate(done))
    assert.deepEqual(told, [])
    assert.deepEqual(await versionsOf(store, ['k/a']), [1])
    assert.equal(store.peek?.('k/a')?.version, 1)
    assert.equal((await store.head(SCOPE)).seq, 1)
    write.finish()
    await Promise.all(commits)
    assert.deepEqual(told, ['published', 'ok', 'conflict'])
    assert.deepEqual(await versionsOf(store, ['k/a']), [2])
  })

  test('a full disk refuses every batch of the group as UNAVAILABLE, and the next group is written', async () => {
    const { onWrite, nextWrite } = slowDisk()
    const store = memoryStore({ onWrite })
    const codes = codesOf([store.commit(creating('k/a')), store.commit(creating('k/b'))])
    ;(await nextWrite()).fail('full')
    assert.deepEqual(await codes, ['UNAVAILABLE', 'UNAVAILABLE'])
    assert.deepEqual(await everything(store), { docs: [], rows: [], entries: [], facts: [], position: 0 })
    const next = store.commit(creating('k/a'))
    ;(await nextWrite()).finish()
    assert.equal((await next)[0]!.position, 1)
    await assertChain(store)
  })

  test('after a failed fsync the process must end and no call is answered, regardless of earlier writes', async () => {
    for (const failures of [['fatal'], ['refused', 'fatal']]) {
      const { onWrite, nextWrite } = slowDisk()
      const fatal: unknown[] = []
      const store = memoryStore({ onWrite, fatal: (error) => void fatal.push(error) })
      const answered: string[] = []
      for (const name of ['a', 'b', 'c']) {
        store.commit(creating(`k/${name}`)).then(
          () => answered.push('ok'),
          () => answered.push('refused'),
        )
      }
      for (const failure of failures) (await nextWrite()).fail(failure)
      for (let i = 0; i < 10; i++) await new Promise((done) => setImmediate(done))
      assert.equal(fatal.length, 1)
      assert.deepEqual(answered, [], `${failures.join(', then ')}: what is on the disk is unknown`)
    }
  })
})

// --- SQLite on a real file -------------------------------------------------------------------------------------------------

const inFile = <T>(file: string, look: (db: DatabaseSync) => T): T => {
  const db = new DatabaseSync(file, { timeout: 5_000 })
  try {
    return look(db)
  } finally {
    db.close()
  }
}
const numberIn = (file: string, sql: string): number => inFile(file, (db) => Number(Object.values(db.prepare(sql).get()!)[0]))

describe('the sqlite store on its file', () => {
  const broken: [setting: string, ineffective: string, message: RegExp][] = [
    ['journal_mode = WAL', 'journal_mode = DELETE', /SQLite refused journal_mode=wal \(it is delete\)/],
    ['synchronous = FULL', 'synchronous = NORMAL', /SQLite refused synchronous=2 \(it is 1\)/],
    ['secure_delete = ON', 'secure_delete = OFF', /SQLite refused secure_delete=1 \(it is 0\)/],
  ]
  for (const [setting, ineffective, message] of broken) {
    test(`it does not start where ${setting} does not take`, (context: TestContext) => {
      const exec = DatabaseSync.prototype.exec
      context.mock.method(DatabaseSync.prototype, 'exec', function (this: DatabaseSync, sql: string) {
        exec.call(this, sql.replace(setting, ineffective))
      })
      assert.throws(() => sqliteStore(newFile()), message)
    })
  }

  test('removed bytes, and those replaced by a shorter value, are overwritten in place', async () => {
    const file = newFile()
    const store = sqliteStore(file)
    const secret = (n: number): Value => ({ text: `canary ${n} ${'x'.repeat(n * 3_000)}` })
    for (let n = 0; n < 8; n++) await store.commit(batchOf({ create: new Set([`p/${n}`]), puts: [putOf(`p/${n}`, secret(n))] }))
    const isSeen = (): boolean => [file, `${file}-wal`].some((name) => existsSync(name) && readFileSync(name).includes('canary'))
    assert.ok(isSeen())
    for (let n = 0; n < 8; n++)
      await store.commit(batchOf({ expect: new Map([[`p/${n}`, 1]]), puts: [putOf(`p/${n}`, n % 2 === 0 ? null : { text: 'less' })] }))
    await store.close()
    assert.ok(!isSeen())
  })

  test('a file of another version is refused and left alone', async () => {
    const file = newFile()
    const store = sqliteStore(file)
    await store.commit(creating('k/a'))
    await store.close()
    inFile(file, (db) => db.exec('PRAGMA user_version = 99'))
    assert.throws(() => sqliteStore(file), /was written by another version of Countersign \(format 99\)/)
    assert.equal(numberIn(file, 'PRAGMA user_version'), 99)
    assert.equal(numberIn(file, 'SELECT count(*) FROM docs'), 1)
  })

  test('published and answered commits are in the file already, for every other connection', async () => {
    const file = newFile()
    const store = sqliteStore(file)
    const rows = (): number => numberIn(file, 'SELECT count(*) FROM facts')
    const atPublication: number[] = []
    store.subscribe(() => atPublication.push(rows()))
    await store.commit(creating('k/a'))
    await Promise.all([store.commit(creating('k/b')), store.commit(creating('k/c'))])
    assert.deepEqual(atPublication, [1, 3])
    await store.close()
  })

  test('a store opened for reading reads beside the writer and refuses to write', async () => {
    const file = newFile()
    const store = sqliteStore(file)
    await store.commit(creating('k/a'))
    const reader = sqliteStore(file, { readOnly: true })
    assert.deepEqual(await versionsOf(reader, ['k/a']), [1])
    await assert.rejects(reader.commit(creating('k/b')), /opened for reading/)
    assert.deepEqual(await versionsOf(store, ['k/a', 'k/b']), [1, undefined])
    await reader.close()
    await store.close()
  })
})

describe('the sqlite store on a full disk', () => {
  const big = 'x'.repeat(2_000)
  const filling = (key: string): Batch =>
    batchOf({ create: new Set([key]), facts: [factOf({ [key]: { id: key, big } })], add: [`e/${key}`] })
  const pages: SqliteOptions = { pagesMax: 60 }

  /** Commits until the disk is full; returns how many were acknowledged. */
  async function fill(store: Store): Promise<number> {
    for (let n = 0; ; n++) {
      try {
        await store.commit(filling(`k/${n}`))
      } catch (error) {
        assert.equal((error as Refusal).code, 'UNAVAILABLE')
        assert.match((error as Refusal).message, /the disk is full, or another program holds the database: nothing was changed/)
        return n
      }
    }
  }

  test('writes are refused as UNAVAILABLE and change nothing, while reads go on', async () => {
    const file = newFile()
    const store = sqliteStore(file, pages)
    const acknowledged = await fill(store)
    assert.ok(acknowledged > 10, `${acknowledged} fit before the disk was full`)
    const before = await everything(store)
    assert.deepEqual(await codesOf([store.commit(filling('k/x')), store.commit(filling('k/y'))]), ['UNAVAILABLE', 'UNAVAILABLE'])
    assert.deepEqual(await everything(store), before)
    assert.equal((await store.keys('k/', END, 1_000)).length, acknowledged)
    await assertChain(store)
    await store.close()
    assert.equal(numberIn(file, 'SELECT count(*) FROM docs'), acknowledged, 'rows = acknowledged')
    assert.equal(numberIn(file, 'SELECT count(*) FROM facts'), acknowledged)
    assert.equal(numberIn(file, 'SELECT count(*) FROM entries'), acknowledged)
    assert.equal(
      inFile(file, (db) => db.prepare('PRAGMA integrity_check').get()!['integrity_check']),
      'ok',
    )
  })

  test('when there is room again, writing resumes without a restart', async () => {
    const file = newFile()
    const store = sqliteStore(file, pages)
    const keys = ['p/0', 'p/1', 'p/2', 'p/3', 'p/4']
    await store.commit(batchOf({ create: new Set(keys), puts: keys.map((key) => putOf(key, { big })) }))
    const acknowledged = await fill(store)
    await store.commit(batchOf({ expect: new Map(keys.map((key) => [key, 1])), puts: keys.map((key) => putOf(key, null)) }))
    const later = await store.commit(filling('k/later'))
    assert.equal(later[0]!.position, acknowledged + 1, 'the refused ones left no gap')
    await assertChain(store)
    await store.close()
    assert.equal(numberIn(file, 'SELECT count(*) FROM facts'), acknowledged + 1)
    assert.equal(
      inFile(file, (db) => db.prepare('PRAGMA integrity_check').get()!['integrity_check']),
      'ok',
    )
  })
})

describe('the sqlite store on a failing disk', () => {
  test('a sync that fails while the log is moved into the database ends the process too', () => {
    const file = newFile()
    const child = spawnSync(process.execPath, ['--input-type=module', '-e', failingCheckpoint(file)], {
      cwd: join(import.meta.dirname, '../..'),
      encoding: 'utf8',
      timeout: 30_000,
    })
    assert.match(child.stderr, /the disk broke/)
    assert.equal(child.status, 1)
    assert.ok(Number(child.stdout) > 100 && Number(child.stdout) < 2_000, `${child.stdout} were acknowledged before`)
  })

  /** SQLITE_IOERR_FSYNC, SQLITE_IOERR_WRITE, SQLITE_CORRUPT. */
  for (const errcode of [1034, 778, 11]) {
    test(`after error ${errcode} at COMMIT a real process ends non-zero and acknowledges nothing more`, async () => {
      const file = newFile()
      const child = spawnSync(process.execPath, ['--input-type=module', '-e', failingProcess(file, errcode)], {
        cwd: join(import.meta.dirname, '../..'),
        encoding: 'utf8',
        timeout: 20_000,
      })
      assert.equal(child.stdout, 'acknowledged 1\n')
      assert.match(child.stderr, /the disk broke/)
      assert.equal(child.status, 1)
      const store = sqliteStore(file)
      assert.deepEqual(await versionsOf(store, ['k/1', 'k/2', 'k/3']), [1, undefined, undefined])
      await assertChain(store)
      await store.close()
    })
  }
})

/** One commit on a good disk, then two on one whose COMMIT fails. */
const failingProcess = (file: string, errcode: number): string => `
import { StatementSync } from 'node:sqlite'
import { sqliteStore } from '#stores/sqlite.ts'
const { run } = StatementSync.prototype
let isBroken = false
StatementSync.prototype.run = function (...args) {
  if (isBroken && this.sourceSQL === 'COMMIT') throw Object.assign(new Error('the disk broke'), { errcode: ${errcode} })
  return run.apply(this, args)
}
const store = sqliteStore(${JSON.stringify(file)})
const commit = (n) => store.commit({ scope: 's', at: '', expect: new Map(), create: new Set(['k/' + n]), facts: [],
  puts: [{ key: 'k/' + n, value: {}, text: '{}' }], add: [], drop: [], count: new Map(), wakes: [], atMost: [] })
await commit(1)
process.stdout.write('acknowledged 1\\n')
isBroken = true
for (const n of [2, 3]) commit(n).then(() => process.stdout.write('acknowledged ' + n + '\\n'), () => process.stdout.write('refused ' + n + '\\n'))
await new Promise((done) => setTimeout(done, 5_000))
`

/** Commits until it must move the log, which fails. */
const failingCheckpoint = (file: string): string => `
import { StatementSync } from 'node:sqlite'
import { sqliteStore } from '#stores/sqlite.ts'
const { all } = StatementSync.prototype
StatementSync.prototype.all = function (...args) {
  if (this.sourceSQL.includes('wal_checkpoint')) throw Object.assign(new Error('the disk broke'), { errcode: 1034 })
  return all.apply(this, args)
}
const store = sqliteStore(${JSON.stringify(file)})
let acknowledged = 0
process.on('exit', () => process.stdout.write(String(acknowledged)))
for (let n = 0; n < 2_000; n++) {
  await store.commit({ scope: 's', at: '', expect: new Map(), create: new Set(['k/' + n]), facts: [],
    puts: [{ key: 'k/' + n, value: {}, text: '{}' }], add: [], drop: [], count: new Map(), wakes: [], atMost: [] })
  acknowledged++
}
`

// --- Tampering -------------------------------------------------------------------------------------------------------------

type Tampered = { readonly world: World; readonly file: string; readonly task: string; reopen(): Promise<void> }

/** Three tasks of which the second one went through a whole flow. */
async function tampering(): Promise<Tampered> {
  const file = newFile()
  const open = (populated: boolean): Promise<World> => createWorld({ store: sqliteStore(file), populated })
  let world = await open(true)
  const create = () => world.call('alice', 'collaboration/task.create', { spec: { goal: 'Fix it' }, reviewers: ['user_rita'] })
  await create()
  const { task } = await create()
  await world.call('alice', 'collaboration/task.assign', { task_id: task.id, assignee: 'user_bob' })
  await world.call('bob', 'collaboration/task.start', { task_id: task.id })
  await create()
  await world.call('bob', 'collaboration/checkpoint.raise', { task_id: task.id, kind: 'approval', prompt: 'Deploy?' })
  return {
    get world() {
      return world
    },
    file,
    task: task.id,
    async reopen() {
      await world.close()
      world = await open(false)
    },
  }
}

const rowsOf = (db: DatabaseSync, sql: string, ...args: (string | number)[]): any[] => db.prepare(sql).all(...args)
/** The facts of project_default in order; the fourth is task.started. */
const chainIn = (db: DatabaseSync): any[] => rowsOf(db, "SELECT * FROM facts WHERE scope = 'project_default' ORDER BY seq")
const rewrite = (db: DatabaseSync, position: number, change: (line: string) => string): unknown =>
  db
    .prepare('UPDATE facts SET line = ? WHERE position = ?')
    .run(change((db.prepare('SELECT line FROM facts WHERE position = ?').get(position) as { line: string }).line), position)

type Mutation = { readonly name: string; apply(db: DatabaseSync): unknown; readonly verify: RegExp | null; readonly replay: RegExp | null }
const mutations: Mutation[] = [
  {
    name: 'a byte of a sealed line is flipped',
    apply: (db) => rewrite(db, chainIn(db)[3].position, (line) => line.replace('task.started', 'task.startef')),
    verify: /does not match its hash/,
    replay: /does not match its hash/,
  },
  {
    name: 'the actor is changed in the line',
    apply: (db) => rewrite(db, chainIn(db)[3].position, (line) => line.replace('user_bob', 'user_rob')),
    verify: /does not match its hash/,
    replay: /does not match its hash/,
  },
  {
    name: 'the actor is changed in the column that queries look at',
    apply: (db) => db.prepare("UPDATE facts SET actor = 'agent_robin' WHERE position = ?").run(chainIn(db)[3].position),
    verify: /filed under another time, actor or task/,
    replay: /filed under another time, actor or task/,
  },
  {
    name: 'one fact is deleted',
    apply: (db) => db.prepare('DELETE FROM facts WHERE position = ?').run(chainIn(db)[3].position),
    verify: /an event is missing/,
    replay: /version 3 of collaboration.task\/\S+ is missing from the record/,
  },
  {
    name: 'one fact is inserted, with a good hash of its own',
    apply(db) {
      const [, , , victim] = chainIn(db)
      db.exec("UPDATE facts SET seq = -(seq + 1), position = position + 1000 WHERE scope = 'project_default' AND seq >= 4")
      db.exec('UPDATE facts SET seq = -seq WHERE seq < 0')
      db.prepare('INSERT INTO facts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)').run(...Object.values<string>(victim))
    },
    verify: /an image is missing|another place in the record|does not follow/,
    replay: /another place in the record|an image is missing/,
  },
  {
    name: 'two facts are swapped',
    apply(db) {
      const [, , , a, b] = chainIn(db)
      const set = db.prepare('UPDATE facts SET hash = ?, line = ? WHERE position = ?')
      set.run(a.hash, a.line, b.position)
      set.run(b.hash, b.line, a.position)
    },
    verify: /another place in the record/,
    replay: /another place in the record/,
  },
  {
    name: 'the image of a document is replaced',
    apply(db) {
      const { position } = chainIn(db)[3]
      db.prepare("UPDATE images SET text = replace(text, 'Fix it', 'Break it') WHERE position = ?").run(position)
    },
    verify: /the image of collaboration.task\/\S+ was changed/,
    replay: /the image of collaboration.task\/\S+ was changed/,
  },
  {
    name: 'a stored document is set back to an earlier image',
    apply: (db) => db.prepare("UPDATE docs SET image = image - 4 WHERE key LIKE 'collaboration.task/%' AND version = 4").run(),
    verify: null,
    replay: /the stored collaboration.task\/\S+ differs from what its last event says/,
  },
  {
    name: 'a stored document gets a text of its own',
    apply(db) {
      const [{ key, text }] = rowsOf(
        db,
        "SELECT d.key, i.text FROM docs d JOIN images i ON i.id = d.image WHERE d.version = 4 AND d.key LIKE 'collaboration.task/%'",
      )
      db.prepare('UPDATE docs SET text = ? WHERE key = ?').run(text.replace('Fix it', 'Break it'), key)
    },
    verify: null,
    replay: /the stored collaboration.task\/\S+ differs from what its last event says/,
  },
]

describe('a record changed in the file', () => {
  test('is found in order as long as nobody did', async () => {
    const tampered = await tampering()
    await tampered.reopen()
    assert.equal((await tampered.world.call('admin', 'collaboration/audit.verify')).valid, true)
    assert.equal((await tampered.world.call('admin', 'collaboration/audit.replay', { task_id: tampered.task })).matches, true)
    await tampered.world.close()
  })

  for (const { name, apply, verify, replay } of mutations) {
    test(`${name}: ${verify ? 'audit.verify' : 'audit.replay'} says where`, async () => {
      const tampered = await tampering()
      inFile(tampered.file, apply)
      await tampered.reopen()
      const verified = await tampered.world.call('admin', 'collaboration/audit.verify')
      assert.equal(verified.valid, verify === null)
      if (verify) assert.match(verified.difference.what, verify)
      const replayed = await tampered.world.call('admin', 'collaboration/audit.replay', { task_id: tampered.task })
      assert.equal(replayed.matches, replay === null)
      if (replay) assert.match(replayed.difference.what, replay)
      await tampered.world.close()
    })
  }

  // The chain alone cannot show that it was longer. A noted earlier head can.
  test('a cleanly cut tail is noticed only by a reader that remembers the head', async () => {
    const tampered = await tampering()
    const { head } = await tampered.world.call('admin', 'collaboration/audit.verify')
    inFile(tampered.file, (db) => {
      const { position } = chainIn(db).at(-1)
      for (const { key, previous, version } of rowsOf(db, 'SELECT * FROM images WHERE position = ?', position)) {
        if (previous === null) db.prepare('DELETE FROM docs WHERE key = ?').run(key)
        else db.prepare('UPDATE docs SET image = ?, version = ? WHERE key = ?').run(previous, version - 1, key)
      }
      db.prepare('DELETE FROM images WHERE position = ?').run(position)
      db.prepare('DELETE FROM facts WHERE position = ?').run(position)
    })
    await tampered.reopen()
    const verified = await tampered.world.call('admin', 'collaboration/audit.verify')
    assert.equal(verified.valid, true)
    assert.equal((await tampered.world.call('admin', 'collaboration/audit.replay', { task_id: tampered.task })).matches, true)
    assert.equal(verified.head.seq, head.seq - 1)
    assert.notEqual(verified.head.hash, head.hash)
    await tampered.world.close()
  })

  test('every single changed byte of facts and images is detected, or changes nothing that is shown', async () => {
    const { world, file } = await tampering()
    const verify = async (): Promise<boolean> => {
      const scopes = ['project_default', 'system']
      const answers = await Promise.all(scopes.map((project_id) => world.call('admin', 'collaboration/audit.verify', { project_id })))
      return answers.every((answer) => answer.valid)
    }
    const shown = async (): Promise<any[]> => {
      const pages = ['project_default', 'system'].map((project_id) => world.call('admin', 'collaboration/audit.query', { project_id }))
      return (await Promise.all(pages)).flatMap(({ items }) => items.flatMap((item: any) => item.changes))
    }
    // A pointer to another image may lead nowhere, but never to something that was not so.
    const isHarmless = async (): Promise<boolean> =>
      (await shown()).every(({ before }, i) => before === null || isDeepStrictEqual(before, asItWas[i].before))
    const asItWas = await shown()
    const db = new DatabaseSync(file, { timeout: 5_000 })
    const columns = {
      facts: ['scope', 'seq', 'at', 'actor', 'task', 'root', 'hash', 'line'],
      images: ['position', 'key', 'version', 'previous', 'salt', 'text'],
    }
    const missed: string[] = []
    for (const [table, names] of Object.entries(columns)) {
      const id = table === 'facts' ? 'position' : 'id'
      for (const name of names) {
        for (const row of rowsOf(
          db,
          `SELECT ${id} AS id, ${name} AS value FROM ${table} WHERE ${name} IS NOT NULL ORDER BY ${id} DESC LIMIT 12`,
        )) {
          const set = db.prepare(`UPDATE ${table} SET ${name} = ? WHERE ${id} = ?`)
          set.run(name === 'previous' ? row.value - 1 : flipped(row.value, row.id), row.id)
          const isFound = !(await verify())
          if (!isFound && !(name === 'previous' && (await isHarmless()))) missed.push(`${table}.${name} of ${row.id}`)
          set.run(row.value, row.id)
        }
      }
    }
    db.close()
    assert.deepEqual(missed, [])
    assert.deepEqual(await shown(), asItWas)
    assert.equal(await verify(), true)
    await world.close()
  })
})

test('a fact whose earlier image has lost its own fact is not sound, and nothing is thrown', async () => {
  const world = await createWorld()
  await world.call('admin', 'identity/user.update', { user_id: 'user_alice', name: 'Alice B.' })
  const facts = await world.store.facts({ by: 'scope', scope: 'system' }, { after: null, limit: 200, asStored: true })
  const fact = facts.find(({ images }) => images.some(({ version }) => version > 1))!
  assert.equal(isSound(fact), true)
  assert.equal(isSound({ ...fact, images: fact.images.map((image) => ({ ...image, beforeLine: null })) }), false)
  await world.close()
})

/** Another value that differs in one bit, at a place that depends on the row. */
function flipped(value: string | number, place: number): string | number {
  if (typeof value === 'number') return value + 1_000
  const at = (place * 7) % value.length
  return value.slice(0, at) + String.fromCharCode(value.charCodeAt(at) ^ 1) + value.slice(at + 1)
}
