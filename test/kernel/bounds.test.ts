// Bounds on memory and lists: cursors, the cache, the rate limit.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { createCache } from '#kernel/log/cache/document-cache.ts'
import type { Refusal } from '#kernel/declare/errors.ts'
import { limits } from '#kernel/limits.ts'
import { createRateLimit } from '#kernel/codec/rate-limit.ts'
import { cursorOf, pageSize, placeOf } from '#kernel/declare/paging.ts'
import { createWorld } from '../support/in-process/world.ts'

describe('a cursor', () => {
  test('leads back to its place, for any place, with any size of page', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), fc.integer({ min: 1, max: 200 }), (place, limit) => {
        const cursor = cursorOf('task.list', { state: 'created' }, place)
        assert.match(cursor, /^[A-Za-z0-9_-]+$/)
        assert.equal(placeOf('task.list', { limit, state: 'created', cursor }), place.toWellFormed())
      }),
    )
    assert.equal(placeOf('task.list', {}), undefined)
  })

  test('of another question, or of none, is refused', () => {
    const cursor = cursorOf('task.list', { state: 'created' }, 'here')
    const questions: [string, Record<string, unknown> & { cursor: string }][] = [
      ['task.list', { cursor }],
      ['task.list', { cursor, state: 'blocked' }],
      ['task.list', { cursor, state: 'created', more: 1 }],
      ['audit.query', { cursor, state: 'created' }],
      ['task.list', { cursor: '', state: 'created' }],
      ['task.list', { cursor: 'nonsense', state: 'created' }],
      ['task.list', { cursor: cursor.slice(0, 8), state: 'created' }],
    ]
    for (const [name, input] of questions) {
      assert.throws(
        () => placeOf(name, input),
        (error: Refusal) => error.code === 'INVALID_REQUEST' && error.details!['field'] === 'cursor',
      )
    }
  })

  test('walks a whole list without gaps or repetitions, also while it grows', async () => {
    const world = await createWorld()
    const made: string[] = []
    const make = async () => made.push((await world.call('alice', 'collaboration/task.create', { spec: { goal: 'x' } })).task.id)
    for (let i = 0; i < 23; i++) await make()
    for (const limit of [1, 7, 23, 200]) {
      const seen: string[] = []
      let cursor: string | undefined
      do {
        const page = await world.call('alice', 'collaboration/task.list', { limit, ...(cursor ? { cursor } : {}) })
        assert.ok(page.items.length <= limit)
        seen.push(...page.items.map((item: { id: string }) => item.id))
        cursor = page.next_cursor ?? undefined
        if (seen.length < 20) await make()
      } while (cursor)
      assert.equal(new Set(seen).size, seen.length, 'nothing comes twice')
      for (const id of made.slice(0, 23)) assert.ok(seen.includes(id), `${id} is on some page`)
    }
    await world.close()
  })

  test('and a page have their bounds', async () => {
    const world = await createWorld()
    assert.equal(pageSize({}), limits.pageDefault)
    for (const limit of [0, -1, limits.pageMax + 1, 1.5, '5', null]) {
      await assert.rejects(world.call('alice', 'collaboration/task.list', { limit }), { code: 'INVALID_REQUEST' })
    }
    for (const cursor of ['', 'x', 'x'.repeat(1_001), 5]) {
      await assert.rejects(world.call('alice', 'collaboration/task.list', { cursor }), { code: 'INVALID_REQUEST' })
    }
    await world.close()
  })
})

describe('the cache', () => {
  const heldIn = (cache: ReturnType<typeof createCache<number>>, names: readonly string[]): string[] =>
    names.filter((name) => cache.get(name) !== undefined)

  test('gives back what was put in, the newest of it, and nothing that was taken out', () => {
    const cache = createCache<number>(1_000)
    cache.set('a', 1, 10)
    cache.set('b', 2, 10)
    cache.set('a', 3, 10)
    cache.delete('b')
    assert.deepEqual([cache.get('a'), cache.get('b'), cache.get('c')], [3, undefined, undefined])
  })

  test('never holds more than its bound and one entry', () => {
    const names = Array.from({ length: 1_000 }, (_, i) => `k${i}`)
    const sizes = fc.array(fc.tuple(fc.integer({ min: 0, max: 999 }), fc.integer({ min: 1, max: 50 })), { minLength: 200, maxLength: 600 })
    fc.assert(
      fc.property(sizes, (writes) => {
        const cache = createCache<number>(1_000)
        const size = new Map<string, number>()
        for (const [i, bytes] of writes) {
          cache.set(names[i]!, i, bytes)
          size.set(names[i]!, bytes)
        }
        const held = heldWithoutTouching(cache, [...size.keys()]).reduce((sum, name) => sum + size.get(name)!, 0)
        assert.ok(held <= 1_000 + 50, `${held} bytes`)
      }),
    )
  })

  test('keeps what is used and forgets what is not', () => {
    const cache = createCache<number>(1_000)
    cache.set('hot', 0, 10)
    for (let i = 0; i < 500; i++) {
      cache.set(`cold${i}`, i, 10)
      assert.equal(cache.get('hot'), 0, `after ${i}`)
    }
    assert.deepEqual(heldIn(cache, ['cold0', 'cold100', 'cold300']), [])
  })

  test('forgets for good what was taken out of its older half', () => {
    const cache = createCache<number>(100)
    cache.set('a', 1, 40)
    cache.set('b', 1, 40)
    cache.set('c', 1, 40)
    cache.delete('a')
    cache.delete('b')
    assert.deepEqual(heldIn(cache, ['a', 'b', 'c']), ['c'])
  })
})

/** Looking moves an entry up, and moving up may push others out: each name is looked for only once, the newest last. */
function heldWithoutTouching(cache: { get(name: string): number | undefined }, names: readonly string[]): string[] {
  return names.filter((name) => cache.get(name) !== undefined)
}

describe('the meter', () => {
  test('lets through as many a minute as it says and refills evenly', () => {
    let now = 0
    const meter = createRateLimit(60, () => now)
    const taken = (tries: number): number => Array.from({ length: tries }, () => meter.take('devin')).filter(Boolean).length
    assert.equal(taken(100), 60)
    now += 1_000
    assert.equal(taken(10), 1)
    now += 10_000
    assert.equal(taken(100), 10)
    now += 3_600_000
    assert.equal(taken(100), 60, 'an hour of silence does not add up')
  })

  test('counts each name by itself', () => {
    const meter = createRateLimit(1, () => 0)
    assert.deepEqual([meter.take('a'), meter.take('a'), meter.take('b')], [true, false, true])
  })

  test('gives nothing and takes nothing when the clock steps back', () => {
    let now = 1_000_000_000
    const meter = createRateLimit(2, () => now)
    assert.equal(meter.take('a'), true)
    now -= 86_400_000
    assert.deepEqual([meter.take('a'), meter.take('a')], [true, false])
    now += 30_000
    assert.equal(meter.take('a'), true)
  })
})
