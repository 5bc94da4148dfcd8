// Receipts that are posted to the agent that asked, signed twice: the post by the secret of the callback, the receipt by this server.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { realClock } from '#apps/server/clock.ts'
import { limits } from '#kernel/limits.ts'
import { runNoticeChannel } from '#workers/notices/channel.ts'
import { answering, isSigned, receiver, until } from '../../../support/over-sockets/receiver.ts'
import { testNotary } from '../../../support/in-process/notary.ts'
import { deliveries, silent } from '../../../support/in-process/worker-world.ts'
import { createWorld, stateHash, type World } from '../../../support/in-process/world.ts'

async function worldOf(t: TestContext): Promise<World> {
  const world = await createWorld({ now: Date.now })
  const options = { allowsPrivate: true, attemptsMax: 3, random: () => 0, timeoutMs: 300 }
  t.after(runNoticeChannel(world.kernel, options, realClock, silent).stop)
  return world
}
const registered = (world: World, endpoint: string, as = 'devin'): Promise<any> => world.call(as, 'execution/channel.add', { endpoint })
const ask = async (world: World, callback: string | undefined, more: object = {}, as = 'devin'): Promise<string> =>
  (
    await world.call(as, 'execution/request.create', {
      action: 'DECIDE',
      payload: { question: 'Which plan?', options: ['Basic', 'Pro'] },
      ...(callback === undefined ? {} : { callback }),
      ...more,
    })
  ).request.id
const answer = (world: World, request_id: string, result: unknown = 'Pro'): Promise<any> =>
  world.call('alice', 'execution/request.resolve', { request_id, result })
const settled = (world: World): Promise<boolean> =>
  until(async () => !(await deliveries(world.store)).some(({ channel }) => channel === 'notice'))
const log = async (world: World, as = 'devin'): Promise<any[]> => (await world.call(as, 'execution/notice.list')).items.toReversed()

test('the signed receipt is posted when the request ends, however it ends', async (t) => {
  const [world, { url, got }] = [await worldOf(t), await receiver(t)]
  const { channel: callback, secret } = await registered(world, url)
  assert.match(callback.id, /^cb_/)
  const done = await ask(world, callback.id)
  const { receipt } = await answer(world, done)
  await until(() => got.length === 1)
  assert.ok(await isSigned(secret, got[0]!))
  assert.equal(got[0]!.body.type, 'receipt')
  assert.deepEqual(got[0]!.body.data, { request_id: done, receipt })
  assert.equal((await testNotary.verify(got[0]!.body.data.receipt.signature))!['request_id'], done)
  const withdrawn = await ask(world, callback.id)
  await world.call('devin', 'execution/request.cancel', { request_id: withdrawn })
  await until(() => got.length === 2)
  assert.deepEqual([got[1]!.body.data.request_id, got[1]!.body.data.receipt.status], [withdrawn, 'cancelled'])
  await answer(world, await ask(world, undefined))
  await settled(world)
  assert.equal(got.length, 2, 'who names no callback is not called')
  assert.deepEqual(
    (await log(world)).map(({ event, state, request_id }) => [event, state, request_id]),
    [
      ['receipt', 'accepted', done],
      ['receipt', 'accepted', withdrawn],
    ],
  )
  await assert.rejects(world.call('robin', 'execution/notice.list', { whose: 'agent_devin' }), { code: 'UNAUTHORIZED' })
})

test('of a secret only its commitment is posted', async (t) => {
  const [world, { url, got }] = [await worldOf(t), await receiver(t)]
  const { channel: callback } = await registered(world, url)
  const payload = { prompt: 'The token, please', input_type: 'text', sensitive: true }
  const request_id = await ask(world, callback.id, { action: 'PROVIDE', payload })
  await answer(world, request_id, 'hunter2-and-more')
  await until(() => got.length === 1)
  assert.ok(!got[0]!.text.includes('hunter2'))
  assert.deepEqual(Object.keys(got[0]!.body.data.receipt.result).toSorted(), ['commitment', 'sealed_to', 'secret_id'])
})

test('a request names a callback of the agent that asks, or it is refused', async (t) => {
  const [world, { url }] = [await worldOf(t), await receiver(t)]
  const { channel: callback } = await registered(world, url)
  const { channel: foreign } = await registered(world, url, 'robin')
  const before = await stateHash(world.store)
  for (const id of [foreign.id, 'cb_nothing', 'hxp_1'])
    await assert.rejects(ask(world, id), (error: { code: string; details: unknown }) => {
      assert.equal(error.code, 'INVALID_REQUEST')
      assert.deepEqual(error.details, { field: 'callback' })
      return true
    })
  assert.equal(await stateHash(world.store), before)
  await ask(world, callback.id, { agent_id: 'agent_devin' }, 'project')
  await assert.rejects(ask(world, foreign.id, { agent_id: 'agent_devin' }, 'project'), { code: 'INVALID_REQUEST' })
  await world.call('devin', 'execution/channel.remove', { channel_id: callback.id })
  await assert.rejects(ask(world, callback.id), { code: 'INVALID_REQUEST' })
})

test('a failed notice is retried and finally given up', async (t) => {
  const [world, { url, got }] = [await worldOf(t), await receiver(t, answering(500))]
  const { channel: callback } = await registered(world, url)
  await answer(world, await ask(world, callback.id))
  await until(() => got.length === 3)
  await settled(world)
  assert.equal(new Set(got.map(({ headers }) => headers['webhook-id'])).size, 1)
  assert.deepEqual(
    (await log(world)).map(({ state, attempts }) => [state, attempts]),
    [['given_up', 3]],
  )
})

test('an agent that is switched off, and one that removed its callback, get nothing', async (t) => {
  const [world, { url, got }] = [await worldOf(t), await receiver(t)]
  const { channel: callback } = await registered(world, url)
  const { channel: other } = await registered(world, url)
  const [one, two] = [await ask(world, callback.id), await ask(world, other.id)]
  await world.call('devin', 'execution/channel.remove', { channel_id: other.id })
  await answer(world, two)
  await world.call('system', 'identity/agent.update', { agent_id: 'agent_devin', disabled: true })
  await answer(world, one)
  await until(async () => {
    const { items } = await world.call('admin', 'execution/notice.list', { whose: 'agent_devin' })
    return items.length === 2 && items.every(({ state }: any) => state === 'dropped')
  })
  await settled(world)
  assert.equal(got.length, 0)
})

test('for a day after a rotation a post carries both signatures', async (t) => {
  const [world, { url, got }] = [await worldOf(t), await receiver(t)]
  const { channel: callback, secret: old } = await registered(world, url)
  const { secret } = await world.call('devin', 'execution/channel.rotate', { channel_id: callback.id })
  assert.notEqual(secret, old)
  await answer(world, await ask(world, callback.id))
  await until(() => got.length === 1)
  for (const one of [old, secret]) assert.ok(await isSigned(one, got[0]!))
})

test('channels are the own ones of an agent, bounded in number', async (t) => {
  const [world, { url }] = [await worldOf(t), await receiver(t)]
  for (const who of ['admin', 'project']) await assert.rejects(registered(world, url, who), { code: 'UNAUTHORIZED' }, who)
  await assert.rejects(registered(world, 'file:///etc/passwd'), { code: 'INVALID_REQUEST' })
  const made = []
  for (let i = 0; i < limits.hooksPerSubjectMax; i++) made.push((await registered(world, url)).channel.id)
  await assert.rejects(registered(world, url), { code: 'QUOTA_EXCEEDED' })
  assert.equal((await world.call('devin', 'execution/channel.list')).items.length, limits.hooksPerSubjectMax)
  assert.deepEqual((await world.call('robin', 'execution/channel.list')).items, [])
  await assert.rejects(world.call('robin', 'execution/channel.list', { agent_id: 'agent_devin' }), { code: 'UNAUTHORIZED' })
  for (const operation of ['channel.rotate', 'channel.remove', 'channel.test'])
    await assert.rejects(world.call('robin', `execution/${operation}`, { channel_id: made[0] }), { code: 'NOT_FOUND' })
})

test('one noun for both sides: an agent and a person add, test and rotate, and only people have quiet hours', async (t) => {
  const [world, { url, got }] = [await worldOf(t), await receiver(t)]
  for (const more of [{ min_priority: 'high' }, { quiet_hours: { from: '22:00', to: '07:00', offset_minutes: 0 } }]) {
    const before = await stateHash(world.store)
    await assert.rejects(world.call('devin', 'execution/channel.add', { endpoint: url, ...more }), {
      code: 'INVALID_REQUEST',
      message: /^min_priority and quiet_hours are for people/,
    })
    assert.equal(await stateHash(world.store), before)
  }
  await assert.rejects(world.call('devin', 'execution/channel.add', { endpoint: url, kind: 'pigeon' }), { code: 'INVALID_REQUEST' })
  for (const [i, as] of ['devin', 'alice'].entries()) {
    const { channel, secret } = await world.call(as, 'execution/channel.add', { endpoint: url, label: 'mine', kind: 'webhook' })
    assert.deepEqual(
      [channel.kind, channel.label, channel.agent_id ?? channel.person],
      ['webhook', 'mine', `${as === 'devin' ? 'agent' : 'user'}_${as}`],
    )
    const { secret: next } = await world.call(as, 'execution/channel.rotate', { channel_id: channel.id })
    await world.call(as, 'execution/channel.test', { channel_id: channel.id })
    await until(() => got.length === i + 1)
    assert.deepEqual(got[i]!.body.data, { event: 'test' })
    for (const one of [secret, next]) assert.ok(await isSigned(one, got[i]!))
    assert.deepEqual((await world.call(as, 'execution/channel.list')).items, [channel])
    const removed = await world.call(as, 'execution/channel.remove', { channel_id: channel.id })
    assert.notEqual(removed.channel.removed_at, null)
    await assert.rejects(world.call(as, 'execution/channel.test', { channel_id: channel.id }), { code: 'NOT_FOUND' })
  }
})
