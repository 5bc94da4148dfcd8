// Trends: counters by day that agree with a count by hand, visible only to the people that they are about.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { ask, item } from '../../../support/over-sockets/asking.ts'
import { createWorld, storeMakers } from '../../../support/in-process/world.ts'

const TRENDS = 'execution/request.trends'
const DAY_MS = 86_400_000

for (const maker of storeMakers()) {
  describe(`trends on ${maker.name}`, () => {
    after(() => maker.dispose())

    test('each day has what was asked then and what became of it', async () => {
      const world = await createWorld({ store: maker.open() })
      await world.call('alice', 'execution/policy.set', { floors: [{ tag: 'pay', risk: 'R3' }] })
      const answer = async (result: string, seconds: number, more: object = {}): Promise<void> => {
        const { id } = await ask(world, 'devin', { ...item(`q ${result} ${seconds}`), ...more })
        world.advance(seconds * 1_000)
        await world.call('alice', 'execution/request.resolve', { request_id: id, result })
      }
      for (let i = 0; i < 9; i++) await answer('approved', 4)
      await answer('rejected', 400, { tags: ['pay'] })
      world.advance(2 * DAY_MS)
      await ask(world, 'devin', item('open'))
      const { id } = await ask(world, 'devin', { ...item('late'), timeout_seconds: 60, fallback: 'fail' })
      world.advance(61_000)
      await world.call('system', 'execution/request.expire', { request_id: id })
      const { items } = await world.call('alice', TRENDS, { days: 7 })
      assert.equal(items.length, 1)
      assert.deepEqual([items[0].key, items[0].name], ['agent_devin', 'Devin'])
      const [first, second] = items[0].days
      const { day, ...figures } = first
      assert.deepEqual(figures, {
        asked: 10,
        approved: 9,
        rejected: 1,
        expired: 0,
        declined: 0,
        answered: 10,
        p50_seconds: 5,
        p90_seconds: 5,
      })
      assert.equal(day, '2026-01-01')
      assert.deepEqual([second.asked, second.expired, second.answered, second.p50_seconds], [2, 1, 0, null])
      const people = (await world.call('alice', TRENDS, { by: 'person' })).items
      assert.deepEqual(
        people.map(({ key }: any) => key),
        ['user_alice'],
      )
      const rules = (await world.call('alice', TRENDS, { by: 'rule' })).items
      assert.deepEqual(
        rules.map(({ key }: any) => key),
        ['at least R3 for tag pay, set by user_alice'],
      )
      assert.deepEqual((await world.call('alice', TRENDS, { days: 1 })).items[0].days.length, 1)
      assert.deepEqual((await world.call('bob', TRENDS)).items, [], 'not theirs')
      assert.equal((await world.call('owner', TRENDS)).items.length, 1)
      await assert.rejects(world.call('mallory', TRENDS), { code: 'NOT_FOUND' })
      await assert.rejects(world.call('alice', TRENDS, { days: 1_000 }), { code: 'INVALID_REQUEST' })
      await world.close()
    })
  })
}

test('a person who looks at their own figures reads none of those of others', async () => {
  const world = await createWorld()
  const people = Array.from({ length: 30 }, (_, i) => `user_p${String(i).padStart(2, '0')}`)
  for (const id of people) await world.call('system', 'identity/user.add', { id, name: id })
  for (const delegate of people) {
    const { id } = await ask(world, 'devin', item(`for ${delegate}`))
    await world.call('alice', 'execution/request.assign', { request_id: id, to: delegate })
  }
  const { scan } = world.store
  let scans = 0
  world.store.scan = (...range) => {
    scans++
    return scan.apply(world.store, range)
  }
  const me = { ...world.cast['alice']!, id: 'user_p29' }
  const { items } = await world.kernel.call(TRENDS, { by: 'person' }, me)
  assert.deepEqual(
    items.map(({ key }: any) => key),
    ['user_p29'],
  )
  assert.ok(scans < 10, `${scans} looks into the index`)
  await world.close()
})
