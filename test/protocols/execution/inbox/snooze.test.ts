// Snoozing: hides an item from one person until a time, also across restarts, and never an urgent item.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { allOf, ask, item, titlesOf, type Call } from '../../../support/over-sockets/asking.ts'
import { again, stage, type Stage } from '../../../support/in-process/stage.ts'

const SNOOZE = 'execution/request.snooze'
const HOUR_MS = 3_600_000
const inMs = ({ world }: Stage, ms: number): string => new Date(world.kernel.now() + ms).toISOString()
const asking = ({ call }: Stage): { call: Call } => ({ call: (as, operation, input) => call(as, operation, input) })
const open = async (on: Stage, who: string, input: object = {}): Promise<string[]> => titlesOf(await allOf(asking(on), who, input))

describe('snoozing', () => {
  test('an item is out of sight and out of the count until its time, over a restart, and comes back in its place', async () => {
    const first = await stage()
    const { id } = await ask(asking(first), 'devin', item('later'))
    await ask(asking(first), 'devin', item('now'))
    const until = inMs(first, 2 * HOUR_MS)
    await first.call('alice', SNOOZE, { request_id: id, until })
    assert.deepEqual(await open(first, 'alice'), ['now'])
    assert.deepEqual(await open(first, 'alice', { limit: 1 }), ['now'])
    assert.deepEqual(await open(first, 'alice', { snoozed: true }), ['later'])
    const [asleep] = await allOf(asking(first), 'alice', { snoozed: true })
    assert.equal(asleep.snoozed_until, until)

    const on = await again(first)
    const { open: count, snoozed } = await on.call('alice', 'execution/inbox.count')
    assert.deepEqual([count, snoozed], [1, 1])
    on.world.advance(HOUR_MS)
    assert.deepEqual(await on.ring(), [])
    on.world.advance(HOUR_MS)
    assert.deepEqual(await on.ring(), ['execution/request.wake'])
    assert.deepEqual(await open(on, 'alice'), ['later', 'now'])
    assert.deepEqual(await open(on, 'alice', { snoozed: true }), [])
    assert.equal((await on.call('alice', 'execution/inbox.count')).open, 2)
    assert.deepEqual(await on.ring(), [])
  })

  test('it is for oneself: others see the item as before, and each wakes at their own time', async () => {
    const on = await stage()
    const quorum = { n: 2, of: ['user_alice', 'user_bob'] }
    const { id } = await ask(asking(on), 'devin', { quorum, ...item('both') })
    await on.call('alice', SNOOZE, { request_id: id, until: inMs(on, 3 * HOUR_MS) })
    assert.deepEqual([await open(on, 'alice'), await open(on, 'bob')], [[], ['both']])
    await on.call('bob', SNOOZE, { request_id: id, until: inMs(on, HOUR_MS) })
    on.world.advance(2 * HOUR_MS)
    assert.deepEqual(await on.ring(), ['execution/request.wake'])
    assert.deepEqual([await open(on, 'alice'), await open(on, 'bob')], [[], ['both']])
    on.world.advance(2 * HOUR_MS)
    assert.deepEqual(await on.ring(), ['execution/request.wake'])
    assert.deepEqual(await open(on, 'alice'), ['both'])
  })

  test('it can be taken back, once', async () => {
    const on = await stage()
    const { id: request_id } = await ask(asking(on), 'devin', item('it'))
    await on.refused('PRECONDITION_FAILED', 'alice', 'execution/request.unsnooze', { request_id })
    await on.call('alice', SNOOZE, { request_id, until: inMs(on, HOUR_MS) })
    await on.call('alice', 'execution/request.unsnooze', { request_id })
    assert.deepEqual(await open(on, 'alice'), ['it'])
    on.world.advance(2 * HOUR_MS)
    assert.deepEqual(await on.ring(), [], 'nobody is woken for it any more')
  })

  test('a time must lie ahead, within a year, before the deadline, and within the hour for what is critical', async () => {
    const on = await stage()
    const { id } = await ask(asking(on), 'devin')
    const bounded = await ask(asking(on), 'devin', { timeout_seconds: 7_200 })
    const critical = await ask(asking(on), 'devin', { priority: 'critical' })
    for (const [request_id, until, message] of [
      [id, 'tomorrow', /RFC 3339/],
      [id, inMs(on, -1_000), /past/],
      [id, inMs(on, 367 * 24 * HOUR_MS), /within a year/],
      [bounded.id, bounded.expires_at, /before its deadline/],
      [critical.id, inMs(on, HOUR_MS + 60_000), /within an hour/],
    ] as const) {
      const refusal = await on.refused('INVALID_REQUEST', 'alice', SNOOZE, { request_id, until })
      assert.match(refusal.message, message)
    }
    await on.call('alice', SNOOZE, { request_id: critical.id, until: inMs(on, HOUR_MS - 60_000) })
    assert.deepEqual(await open(on, 'alice', { priority: 'critical' }), [])
  })

  test('a late item comes back by itself and cannot be snoozed again', async () => {
    const on = await stage()
    const { id: request_id } = await ask(asking(on), 'devin', { timeout_seconds: 7_200, ...item('late') })
    await on.call('alice', SNOOZE, { request_id, until: inMs(on, HOUR_MS) })
    on.world.advance(3 * HOUR_MS)
    // The deadline is found first; nobody has woken anybody yet.
    await on.call('system', 'execution/request.expire', { request_id })
    assert.deepEqual(await open(on, 'alice'), ['late'])
    await on.refused('PRECONDITION_FAILED', 'alice', SNOOZE, { request_id, until: inMs(on, HOUR_MS) })
  })

  test('a person cannot snooze an ended item or one of another inbox', async () => {
    const on = await stage()
    const { id: request_id } = await ask(asking(on), 'devin')
    const pool = await ask(asking(on), 'devin', { role: 'pool' })
    const until = inMs(on, HOUR_MS)
    await on.refused('UNAUTHORIZED', 'deputy', SNOOZE, { request_id, until })
    await on.refused('UNAUTHORIZED', 'owner', SNOOZE, { request_id, until })
    await on.refused('NOT_FOUND', 'bob', SNOOZE, { request_id, until })
    await on.refused('UNAUTHORIZED', 'alice', SNOOZE, { request_id: pool.id, until })
    await on.call('alice', 'execution/request.resolve', { request_id, result: 'approved' })
    await on.refused('ALREADY_RESOLVED', 'alice', SNOOZE, { request_id, until })
  })

  test('an answer ends every snooze of the item', async () => {
    const on = await stage()
    const { id: request_id } = await ask(asking(on), 'devin')
    await on.call('alice', SNOOZE, { request_id, until: inMs(on, HOUR_MS) })
    await on.call('alice', 'execution/request.resolve', { request_id, result: 'approved' })
    on.world.advance(2 * HOUR_MS)
    assert.deepEqual(await on.ring(), [])
    assert.equal((await on.call('alice', 'execution/inbox.count')).snoozed, 0)
  })
})
