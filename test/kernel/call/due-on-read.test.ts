// Due documents on read: by one clock, and only after the caller was authorized.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { timekeeperAlone } from '#kernel/call/due-on-read.ts'
import { createWorld, type World } from '#test/support/in-process/world.ts'

const MINUTES_10 = 600
const asked = async (world: World, more: object = {}): Promise<string> => {
  const { request } = (await world.call('devin', 'execution/request.create', {
    action: 'DECIDE',
    payload: { question: 'Which?', options: ['yes', 'no'], ...('fallback' in more ? { default_option: 'yes' } : {}) },
    timeout_seconds: MINUTES_10,
    fallback: 'fail',
    ...more,
  })) as { request: { id: string } }
  return request.id
}
const statusFor = async (world: World, request_id: string): Promise<string> =>
  ((await world.call('alice', 'execution/request.get', { request_id })) as { request: { status: string } }).request.status
const versionOf = async (world: World, id: string): Promise<number> => (await world.store.read([`execution.request/${id}`]))[0]!.version
const later = (world: World): void => world.advance((MINUTES_10 + 60) * 1_000)
/** One server of several, without the timers: it goes by the clock of the server that has them. */
const byClockOf = (time: () => number | null) => ({ ...timekeeperAlone, holds: () => false, time })

test('the server that holds the timers acts on a due request before it shows it', async () => {
  const world = await createWorld()
  const request_id = await asked(world)
  later(world)
  assert.equal(await statusFor(world, request_id), 'failed')
  const awaited = (await world.call('devin', 'execution/request.await', { request_id })) as { request: { status: string } }
  assert.equal(awaited.request.status, 'failed')
})

test('a long poll ends with a request that became due', async () => {
  const world = await createWorld()
  const request_id = await asked(world)
  later(world)
  const { request } = (await world.call('devin', 'execution/request.await', { request_id, wait: 5 })) as { request: { status: string } }
  assert.equal(request.status, 'failed')
})

for (const fallback of ['fail', 'default'])
  test(`a server without the timers ends no request by its own clock (${fallback}), and takes an answer`, async () => {
    const world = await createWorld({ timekeeper: byClockOf(() => 0) })
    const request_id = await asked(world, { fallback })
    later(world)
    const before = await versionOf(world, request_id)
    for (const [who, operation] of [
      ['devin', 'execution/request.get'],
      ['devin', 'execution/request.await'],
      ['alice', 'execution/inbox.get'],
    ] as const)
      await world.call(who, operation, { request_id })
    assert.equal(await versionOf(world, request_id), before)
    await world.call('alice', 'execution/request.resolve', { request_id, result: 'no' })
    assert.equal(await statusFor(world, request_id), 'completed')
  })

for (const [whose, time] of [
  ['the clock of the timekeeper', () => Date.parse('2999-01-01T00:00:00.000Z')],
  ['its own clock where no timekeeper was seen', () => null],
] as const)
  for (const fallback of ['fail', 'default'])
    test(`a server without the timers refuses a late answer by ${whose} (${fallback}), and leaves the end to the timers`, async () => {
      const world = await createWorld({ timekeeper: byClockOf(time) })
      const request_id = await asked(world, { fallback })
      later(world)
      const before = await versionOf(world, request_id)
      const code = fallback === 'fail' ? 'EXPIRED' : 'ALREADY_RESOLVED'
      await assert.rejects(world.call('alice', 'execution/request.resolve', { request_id, result: 'no' }), { code })
      assert.equal(await versionOf(world, request_id), before)
    })

test('a refused look at a due request changes nothing', async () => {
  const world = await createWorld()
  const request_id = await asked(world)
  later(world)
  const before = await versionOf(world, request_id)
  for (const [who, operation, input] of [
    ['mallory', 'execution/request.get', { request_id }],
    ['spy', 'execution/request.get', { request_id }],
    ['spy', 'execution/request.await', { request_id }],
    ['mallory', 'execution/inbox.get', { request_id }],
    ['devin', 'execution/inbox.get', { request_id }],
    ['devin', 'execution/request.get', { request_id, odd: 1 }],
    ['devin', 'execution/request.await', { request_id, wait: -1 }],
  ] as const)
    await assert.rejects(world.call(who, operation, input))
  assert.equal(await versionOf(world, request_id), before)
})
