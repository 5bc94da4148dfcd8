// Notices to people that something waits for them, with real receivers that do not always behave.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { realClock } from '#apps/server/clock.ts'
import { limits } from '#kernel/limits.ts'
import { END } from '#kernel/declare/schema.ts'
import { quietUntil } from '#protocols/execution/notices/quiet-hours.ts'
import { runNoticeChannel } from '#workers/notices/channel.ts'
import type { WebhookOptions } from '#workers/webhooks/agents.ts'
import { answering, isSigned, receiver, until, type Got } from '../../../support/over-sockets/receiver.ts'
import { deliveries, silent } from '../../../support/in-process/worker-world.ts'
import { createWorld, type World } from '../../../support/in-process/world.ts'

const usual: WebhookOptions = { allowsPrivate: true, attemptsMax: 3, random: () => 0, timeoutMs: 300 }

function watching(t: TestContext, world: World, options: Partial<WebhookOptions> = {}) {
  const worker = runNoticeChannel(world.kernel, { ...usual, ...options }, realClock, silent)
  t.after(worker.stop)
  return worker
}
const channelFor = (world: World, endpoint: string, more: object = {}, as = 'alice'): Promise<any> =>
  world.call(as, 'execution/channel.add', { endpoint, ...more })
const ask = async (world: World, more: object = {}, as = 'devin'): Promise<string> =>
  (
    await world.call(as, 'execution/request.create', {
      action: 'APPROVE',
      payload: { item: 'Wire $40,000 to Mallory', details: { account: 'DE89 3704' }, context: 'Private words.' },
      ...more,
    })
  ).request.id
const listed = async (world: World, as = 'alice'): Promise<any[]> => (await world.call(as, 'execution/notice.list')).items.toReversed()
const settled = (world: World): Promise<boolean> =>
  until(async () => !(await deliveries(world.store)).some(({ channel }) => channel === 'notice'))
const idsIn = (got: readonly Got[]): string[] => got.map(({ body }): string => body.data.request_id).toSorted()
/** A receiver that takes long to answer is posted the same message again, under the same id. */
const distinct = (got: readonly Got[]): Got[] => [...new Map(got.map((one) => [one.headers['webhook-id'], one])).values()]
/** The worker has looked at everything. */
const upToDate = async (world: World): Promise<void> => {
  await world.call('alice', 'execution/channel.list')
  await new Promise((done) => setTimeout(done, 50))
}

test('a signed notice names the agent that asks, and nothing of the question', async (t) => {
  const [world, { url, got }] = [await createWorld({ now: Date.now }), await receiver(t)]
  watching(t, world)
  const { channel, secret } = await channelFor(world, url, { label: 'phone' })
  assert.match(secret, /^whsec_/)
  assert.deepEqual([channel.person, channel.label, channel.min_priority, channel.disabled], ['user_alice', 'phone', 'low', false])
  const request_id = await ask(world, { priority: 'high' })
  const [first] = await until(() => got.length > 0 && got)
  assert.ok(await isSigned(secret, first!))
  assert.ok(!(await isSigned(secret, { ...first!, text: first!.text.replace('high', 'low') })))
  assert.equal(first!.body.type, 'inbox.item')
  assert.deepEqual(
    { ...first!.body.data, age_seconds: 0 },
    {
      event: 'created',
      asks: 'An agent asks',
      agent_id: 'agent_devin',
      requester: 'agent_devin',
      request_id,
      kind: 'request',
      action: 'APPROVE',
      priority: 'high',
      age_seconds: 0,
      path: `/hxp/v1/requests/${request_id}`,
      link: `/inbox/${request_id}`,
    },
  )
  for (const word of ['Wire', '40,000', 'DE89', 'Private']) assert.ok(!first!.text.includes(word), word)
  await settled(world)
  const [logged] = await listed(world)
  assert.deepEqual([logged.state, logged.attempts, logged.recent[0].status, logged.whose], ['accepted', 1, 204, 'user_alice'])
  assert.deepEqual(
    [logged.request_id, logged.title, logged.channel, logged.error],
    [request_id, 'Wire $40,000 to Mallory', { id: channel.id, label: 'phone', kind: 'webhook' }, null],
  )
  assert.deepEqual(
    (await world.call('admin', 'execution/notice.list', { whose: 'user_alice' })).items.map(({ id }: any) => id),
    [logged.id],
  )
  for (const who of ['bob', 'devin', 'project'])
    await assert.rejects(world.call(who, 'execution/notice.list', { whose: 'user_alice' }), { code: 'UNAUTHORIZED' }, who)
})

test('the address and its secret are in no fact and in no answer but the first', async (t) => {
  const [world, { url }] = [await createWorld({ now: Date.now }), await receiver(t)]
  const { secret } = await world.call('alice', 'execution/channel.add', { endpoint: `${url}?token=hidden` }, { key: 'k' })
  const again = await world.call('alice', 'execution/channel.add', { endpoint: `${url}?token=hidden` }, { key: 'k' })
  assert.equal(again.secret, null)
  const told = JSON.stringify([
    await world.store.facts({ by: 'position' }, { after: null, limit: 1_000 }),
    await world.call('alice', 'execution/channel.list'),
    await world.store.read(await world.store.keys('kernel.reply/', `kernel.reply/${END}`, 10)),
  ])
  for (const word of ['token=hidden', secret.slice(6)]) assert.ok(!told.includes(word), word)
})

test('notices go to everyone with the item in their inbox: its people, its pool, its assignee', async (t) => {
  const [world, alice, rita] = [await createWorld({ now: Date.now }), await receiver(t), await receiver(t)]
  watching(t, world)
  await channelFor(world, alice.url)
  await channelFor(world, rita.url, {}, 'rita')
  await channelFor(world, rita.url, {}, 'mallory')
  const own = await ask(world)
  await until(() => alice.got.length === 1)
  const pooled = await ask(world, { role: 'pool' })
  await until(() => alice.got.length === 2 && rita.got.length === 1)
  const both = await ask(world, { quorum: { n: 1, of: ['user_alice', 'user_rita'] } })
  await until(() => alice.got.length === 3 && rita.got.length === 2)
  await settled(world)
  assert.deepEqual(idsIn(alice.got), [own, pooled, both].toSorted())
  assert.deepEqual(idsIn(rita.got), [pooled, both].toSorted(), 'and nobody of another project')
})

const inHours = (hours: number): string => new Date(Date.now() + hours * 3_600_000).toISOString()
const standsIn = (world: World, substitute: string, person = 'user_alice', from = -2, until = 2): Promise<any> =>
  world.call('admin', 'identity/substitute.add', { person, substitute, from: inHours(from), until: inHours(until) })

for (const order of ['everything was there before', 'the channel was there before', 'the substitution was there before', 'both are new'])
  test(`a substitute gets the notices of the absent person: ${order}`, async (t) => {
    const [world, { url, got }] = [await createWorld({ now: Date.now }), await receiver(t)]
    const isBefore = (what: string): boolean => order.startsWith('everything') || order.startsWith(`the ${what}`)
    const steps = { substitution: () => standsIn(world, 'user_bob'), channel: () => channelFor(world, url, {}, 'bob') }
    for (const [what, step] of Object.entries(steps)) if (isBefore(what)) await step()
    watching(t, world)
    await upToDate(world)
    for (const [what, step] of Object.entries(steps)) if (!isBefore(what)) await step()
    const request_id = await ask(world)
    await until(() => got.length === 1)
    await settled(world)
    assert.deepEqual(idsIn(got), [request_id])
    assert.equal((await listed(world, 'bob'))[0].whose, 'user_bob')
  })

test('a former or future substitute, and one outside of the project, gets no notice', async (t) => {
  const [world, alice, others] = [await createWorld({ now: Date.now }), await receiver(t), await receiver(t)]
  for (const who of ['bob', 'rita', 'mallory']) await channelFor(world, others.url, {}, who)
  await channelFor(world, alice.url)
  await standsIn(world, 'user_bob', 'user_alice', -2, 0.5 / 3_600)
  await standsIn(world, 'user_rita', 'user_alice', 48, 72)
  await standsIn(world, 'user_mallory')
  watching(t, world)
  await new Promise((done) => setTimeout(done, 600))
  await ask(world)
  await until(() => alice.got.length === 1)
  await standsIn(world, 'user_bob')
  await world.call('alice', 'identity/substitute.remove', { person: 'user_alice', substitute: 'user_bob' })
  await ask(world)
  await until(() => alice.got.length === 2)
  await settled(world)
  assert.deepEqual(others.got, [])
})

test('an assigned item notifies its assignee, also if a substitute takes over later', async (t) => {
  const [world, bob, rita] = [await createWorld({ now: Date.now }), await receiver(t), await receiver(t)]
  await channelFor(world, bob.url, {}, 'bob')
  await channelFor(world, rita.url, {}, 'rita')
  await standsIn(world, 'user_bob', 'user_rita', 48, 72)
  watching(t, world)
  const request_id = await ask(world)
  await world.call('alice', 'execution/request.escalate', { request_id, to: ['user_bob'] })
  await until(() => bob.got.length === 1)
  await world.call('alice', 'execution/request.assign', { request_id, to: 'user_rita' })
  await until(() => rita.got.length === 1)
  await settled(world)
  const eventsIn = (got: readonly Got[]): string[] => got.map(({ body }): string => body.data.event)
  assert.deepEqual([eventsIn(bob.got), eventsIn(rita.got)], [['escalated'], ['assigned']])
})

test('a delayed notice says nothing about an item that was reassigned in between', async () => {
  const world = await createWorld({ now: Date.now })
  const hour = (hours: number): string => inHours(hours).slice(11, 16)
  const quiet_hours = { from: hour(-1), to: hour(1), offset_minutes: 0 }
  const { channel } = await channelFor(world, 'http://127.0.0.1:9/', { quiet_hours }, 'rita')
  const request_id = await ask(world)
  const composed = (event: string): Promise<any> =>
    world.call('system', 'execution/notice.compose', { target: channel.id, event, request_id })
  await world.call('alice', 'execution/request.assign', { request_id, to: 'user_rita' })
  assert.ok((await composed('assigned')).until, 'it waits for the end of the quiet hours')
  await world.call('alice', 'execution/request.assign', { request_id, to: 'user_bob' })
  await world.call('alice', 'execution/request.escalate', { request_id, to: ['user_rita'] })
  assert.equal((await composed('assigned')).why, 'the item was given to another person')
  assert.ok((await composed('escalated')).until)
})

test('only urgent enough items are notified', async (t) => {
  const [world, { url, got }] = [await createWorld({ now: Date.now }), await receiver(t)]
  watching(t, world)
  await channelFor(world, url, { min_priority: 'high' })
  for (const priority of ['low', 'normal']) await ask(world, { priority })
  const [high, critical] = [await ask(world, { priority: 'high' }), await ask(world, { priority: 'critical' })]
  await until(() => got.length === 2)
  await settled(world)
  assert.deepEqual(idsIn(got), [high, critical].toSorted())
})

test('quiet hours let only critical items through (X24), and the rest follows when they are over', async (t) => {
  const [world, { url, got }] = [await createWorld({ now: Date.now }), await receiver(t)]
  watching(t, world)
  const minutes = (ms: number): string => new Date(Date.now() + ms).toISOString().slice(11, 16)
  const quiet_hours = { from: minutes(-3_600_000), to: minutes(3_600_000), offset_minutes: 0 }
  await channelFor(world, url, { quiet_hours })
  await ask(world, { priority: 'high' })
  const critical = await ask(world, { priority: 'critical' })
  await until(() => got.length === 1)
  assert.equal(got[0]!.body.data.request_id, critical)
  const [waiting] = await until(async () => {
    const all = (await deliveries(world.store)).filter(({ channel }) => channel === 'notice')
    return all.length === 1 && all[0]!.due > new Date(Date.now() + 60_000).toISOString() && all
  })
  assert.equal(waiting!.due, quietUntil(quiet_hours, new Date().toISOString()))
  assert.equal(waiting!.attempt, 0, 'to wait is no failure')
})

test('quiet hours end at their end, over midnight, in every zone, and may be none', () => {
  const at = (time: string): string => `2026-03-01T${time}:30.500Z`
  const night = { from: '22:00', to: '07:00', offset_minutes: 0 }
  assert.equal(quietUntil(night, at('23:10')), '2026-03-02T07:00:00.000Z')
  assert.equal(quietUntil(night, at('06:59')), '2026-03-01T07:00:00.000Z')
  for (const time of ['07:00', '12:00', '21:59']) assert.equal(quietUntil(night, at(time)), null, time)
  assert.equal(quietUntil({ ...night, offset_minutes: 120 }, at('20:10')), '2026-03-02T05:00:00.000Z')
  assert.equal(quietUntil({ ...night, offset_minutes: -300 }, at('02:59')), null)
  assert.equal(quietUntil({ ...night, offset_minutes: -300 }, at('03:01')), '2026-03-01T12:00:00.000Z')
  assert.equal(quietUntil({ from: '09:00', to: '09:00', offset_minutes: 0 }, at('09:00')), null)
  assert.equal(quietUntil(undefined, at('09:00')), null)
})

test('a failed notice is retried under the same id and finally given up, and the log has the reason without the address', async (t) => {
  const [world, { url, got, answerWith }] = [await createWorld({ now: Date.now }), await receiver(t, answering(503))]
  watching(t, world)
  await channelFor(world, url)
  await ask(world)
  await until(() => got.length === 1)
  answerWith(answering(204))
  await until(() => got.length === 2)
  assert.equal(got[0]!.headers['webhook-id'], got[1]!.headers['webhook-id'])
  await settled(world)
  answerWith(answering(500))
  await ask(world)
  await until(() => got.length === 5)
  await settled(world)
  const log = await listed(world)
  assert.deepEqual(
    log.map(({ state, attempts, recent }) => [state, attempts, recent.map(({ status }: any) => status)]),
    [
      ['accepted', 2, [503, 204]],
      ['given_up', 3, [500, 500, 500]],
    ],
  )
  assert.ok(!JSON.stringify(log).includes('127.0.0.1'))
})

test('an address that is gone for good (410) is called no more, until its person tries it again', async (t) => {
  const [world, { url, got, answerWith }] = [await createWorld({ now: Date.now }), await receiver(t, answering(410))]
  watching(t, world)
  const { channel } = await channelFor(world, url)
  await ask(world)
  await until(() => got.length === 1)
  await settled(world)
  const { items } = await world.call('alice', 'execution/channel.list')
  assert.equal(items[0].disabled, true)
  await ask(world)
  await upToDate(world)
  assert.equal(got.length, 1)
  answerWith(answering(204))
  const { notice } = await world.call('alice', 'execution/channel.test', { channel_id: channel.id })
  await until(() => got.length === 2)
  assert.deepEqual(got[1]!.body.data, { event: 'test' })
  await settled(world)
  assert.equal((await listed(world)).find(({ id }) => id === notice.id).state, 'accepted')
})

test('private addresses are not called unless the operator says so, and plain http is not used beyond', async (t) => {
  const [world, { url, got }] = [await createWorld({ now: Date.now }), await receiver(t)]
  watching(t, world, { allowsPrivate: false, attemptsMax: 1 })
  await channelFor(world, url)
  await channelFor(world, url.replace('http:', 'https:'))
  await channelFor(world, 'https://169.254.169.254/latest/meta-data')
  await channelFor(world, 'https://[::ffff:127.0.0.1]/')
  await ask(world)
  await until(async () => (await listed(world)).length === 4)
  await settled(world)
  assert.equal(got.length, 0)
  for (const { state, recent } of await listed(world)) {
    assert.equal(state, 'given_up')
    assert.match(recent[0].error, /not a public one|only https/)
  }
})

test('an item answered before its notice is sent gets no notice', async (t) => {
  const [world, { url, got }] = [await createWorld({ now: Date.now }), await receiver(t)]
  await channelFor(world, url)
  const first = watching(t, world)
  await upToDate(world)
  await first.stop()
  const request_id = await ask(world)
  await world.call('alice', 'execution/request.resolve', { request_id, result: 'rejected' })
  const open = await ask(world)
  watching(t, world)
  await until(() => got.length === 1)
  await settled(world)
  assert.equal(got[0]!.body.data.request_id, open)
})

test('events during a downtime are notified once after the next start, and those before the first start are not', async (t) => {
  const [world, { url, got }] = [await createWorld({ now: Date.now }), await receiver(t)]
  await channelFor(world, url)
  await ask(world)
  const first = watching(t, world)
  await upToDate(world)
  await first.stop()
  assert.equal(got.length, 0, 'it began to look after that')
  const missed = await Promise.all(Array.from({ length: 150 }, () => ask(world)))
  const second = watching(t, world)
  await until(() => distinct(got).length === 150)
  await settled(world)
  await second.stop()
  const third = watching(t, world)
  await upToDate(world)
  await third.stop()
  assert.deepEqual(idsIn(distinct(got)), missed.toSorted())
})

test('a fact that is looked at again after a crash is not said again', async (t) => {
  const [world, { url, got }] = [await createWorld({ now: Date.now }), await receiver(t)]
  watching(t, world)
  const { channel } = await channelFor(world, url)
  const request_id = await ask(world)
  await until(() => got.length === 1)
  await settled(world)
  const position = Number((await listed(world))[0].id.split('/')[1])
  const item = { position, event: 'created', request_id, person: 'user_alice' }
  assert.deepEqual(await world.call('system', 'execution/notice.plan', { cursor: 1, items: [item] }), { planned: 0 })
  assert.equal(channel.disabled, false)
  assert.equal((await deliveries(world.store)).filter(({ channel: of }) => of === 'notice').length, 0)
})

test('an event without recipients plans no notice', async () => {
  const world = await createWorld({ now: Date.now })
  const items = [{ position: 1, event: 'created', request_id: await ask(world) }]
  assert.deepEqual(await world.call('system', 'execution/notice.plan', { cursor: 1, items }), { planned: 0 })
  await world.close()
})

test('reminders and passed deadlines are said, too', async (t) => {
  const [world, { url, got }] = [await createWorld(), await receiver(t)]
  watching(t, world)
  await channelFor(world, url)
  const request_id = await ask(world, { timeout_seconds: 60 })
  await until(() => got.length === 1)
  world.advance(120_000)
  await world.call('system', 'execution/request.expire', { request_id })
  await until(() => got.length === 2)
  assert.deepEqual(
    got.map(({ body }) => body.data.event),
    ['created', 'overdue'],
  )
  assert.ok(got[1]!.body.data.age_seconds >= 120)
})

test('assignments, escalations and reminders notify their person, for questions of tasks too', async (t) => {
  const [world, alice, rita] = [await createWorld(), await receiver(t), await receiver(t)]
  watching(t, world)
  await channelFor(world, alice.url)
  await channelFor(world, rita.url, {}, 'rita')
  const said = ({ got }: typeof alice): string[] => got.map(({ body }) => `${body.data.kind} ${body.data.event}`)
  const given = await ask(world)
  await until(() => alice.got.length === 1)
  await world.call('alice', 'execution/request.assign', { request_id: given, to: 'user_rita' })
  await until(() => rita.got.length === 1)
  const pushed = await ask(world, { escalate: { after_seconds: 60, to: ['user_rita'] }, remind_seconds: 600 })
  await until(() => alice.got.length === 2)
  world.advance(61_000)
  await world.call('system', 'execution/request.escalate', { request_id: pushed })
  await until(() => alice.got.length === 3 && rita.got.length === 2)
  world.advance(600_000)
  await world.call('system', 'execution/request.remind', { request_id: pushed })
  await until(() => alice.got.length === 4 && rita.got.length === 3)
  const { task } = await world.call('alice', 'collaboration/task.create', { spec: { goal: 'Fix it' } })
  await world.call('alice', 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_devin' })
  await world.call('devin', 'collaboration/task.start', { task_id: task.id })
  await world.call('devin', 'collaboration/checkpoint.raise', { task_id: task.id, kind: 'approval', prompt: 'Deploy?' })
  await until(() => alice.got.length === 5)
  await settled(world)
  assert.deepEqual(said(rita), ['request assigned', 'request escalated', 'request reminded'])
  assert.deepEqual(said(alice), ['request created', 'request created', 'request escalated', 'request reminded', 'approval created'])
})

test('a person has a bounded number of channels, of their own, and removes them', async (t) => {
  const [world, { url, got }] = [await createWorld({ now: Date.now }), await receiver(t)]
  watching(t, world)
  for (const who of ['admin', 'project', 'system']) await assert.rejects(channelFor(world, url, {}, who), { code: 'UNAUTHORIZED' }, who)
  for (const endpoint of ['ftp://example.com', 'https://me:secret@example.com', 'https://example.com/#x', 'nonsense', ''])
    await assert.rejects(channelFor(world, endpoint), { code: 'INVALID_REQUEST' }, endpoint)
  for (const quiet_hours of [
    { from: '24:00', to: '07:00', offset_minutes: 0 },
    { from: '22:00', to: '07:00', offset_minutes: 900 },
  ])
    await assert.rejects(channelFor(world, url, { quiet_hours }), { code: 'INVALID_REQUEST' })
  const made = []
  for (let i = 0; i < limits.hooksPerSubjectMax; i++) made.push((await channelFor(world, url)).channel.id)
  await assert.rejects(channelFor(world, url), { code: 'QUOTA_EXCEEDED' })
  await assert.rejects(world.call('bob', 'execution/channel.remove', { channel_id: made[0] }), { code: 'NOT_FOUND' })
  await assert.rejects(world.call('bob', 'execution/channel.list', { person: 'user_alice' }), { code: 'UNAUTHORIZED' })
  for (const channel_id of made.slice(1)) await world.call('alice', 'execution/channel.remove', { channel_id })
  await assert.rejects(world.call('alice', 'execution/channel.remove', { channel_id: made[1] }), { code: 'NOT_FOUND' })
  assert.equal((await world.call('alice', 'execution/channel.list')).items.length, 1)
  await ask(world)
  await until(() => got.length === 1)
  await settled(world)
  assert.equal(got.length, 1)
})

test('a disabled person gets no notice', async (t) => {
  const [world, { url, got }] = [await createWorld({ now: Date.now }), await receiver(t)]
  watching(t, world)
  const { channel } = await channelFor(world, url)
  const request_id = await ask(world)
  await until(() => got.length === 1)
  await world.call('system', 'identity/user.update', { user_id: 'user_alice', disabled: true })
  // A notice that was planned before is dropped, and what is asked from now on is for others.
  const composed = await world.call('system', 'execution/notice.compose', { target: channel.id, event: 'created', request_id })
  assert.deepEqual([composed.data, composed.why], [null, 'the person is switched off'])
  const { items } = await world.call('admin', 'execution/notice.list', { whose: 'user_alice' })
  await ask(world)
  await new Promise((done) => setTimeout(done, 200))
  assert.equal((await world.call('admin', 'execution/notice.list', { whose: 'user_alice' })).items.length, items.length)
  assert.equal(got.length, 1)
})

test('for people without a channel nothing is put down', async (t) => {
  const world = await createWorld({ now: Date.now })
  watching(t, world)
  for (let i = 0; i < 50; i++) await ask(world)
  await upToDate(world)
  assert.equal((await deliveries(world.store)).filter(({ channel }) => channel === 'notice').length, 0)
})
