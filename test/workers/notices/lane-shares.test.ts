// Lanes of an outbox are shared between owners: silent receivers of one owner block no other owner.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { realClock } from '#apps/server/clock.ts'
import type { Actor } from '#kernel/declare/access.ts'
import type { Delivery } from '#kernel/log/outbox-document.ts'
import { limits } from '#kernel/limits.ts'
import { UNANSWERED, Unanswered } from '#workers/lane-shares.ts'
import { runNoticeChannel } from '#workers/notices/channel.ts'
import { runOutbox, type Channel } from '#workers/outbox.ts'
import { webhooks } from '#workers/webhooks/agents.ts'
import { post, type Posted } from '#workers/webhooks/post.ts'
import { settled } from '../../support/in-process/manual-clock.ts'
import { alice } from '../../support/in-process/toy.ts'
import { deliveries, silent, workerWorld } from '../../support/in-process/worker-world.ts'
import { cast, createWorld } from '../../support/in-process/world.ts'
import { receiver, until } from '../../support/over-sockets/receiver.ts'

const DEAD = 'http://127.0.0.1:9/dead'
const options = { allowsPrivate: true, attemptsMax: 3, random: () => 0 }

test('a person gets a notice while 30 agents of another owner have 10 callbacks each that never answer', async (t) => {
  const [world, { url, got }] = [await createWorld({ now: Date.now }), await receiver(t)]
  let dead = 0
  const never: typeof post = (endpoint, headers, body, more) => {
    if (endpoint !== DEAD) return post(endpoint, headers, body, more)
    dead++
    return new Promise<Posted>((done) =>
      more.signal!.addEventListener('abort', () => done({ status: null, error: 'the server was stopped', durationMs: 0 })),
    )
  }
  t.after(runNoticeChannel(world.kernel, { ...options, post: never }, realClock, silent).stop)
  await world.call('alice', 'execution/channel.add', { endpoint: url })
  for (let i = 0; i < 30; i++) {
    const agent: Actor = { ...cast['devin']!, id: `agent_dead${i}` }
    await world.call('system', 'identity/agent.add', { id: agent.id, name: `Dead ${i}`, owner: 'user_bob' })
    for (let k = 0; k < limits.hooksPerSubjectMax; k++) {
      const { channel } = await world.kernel.call('execution/channel.add', { endpoint: DEAD }, agent)
      const asked = { action: 'APPROVE', payload: { item: 'Anything', details: {} }, callback: channel.id }
      const { request } = await world.kernel.call('execution/request.create', asked, agent)
      await world.kernel.call('execution/request.cancel', { request_id: request.id }, agent)
    }
  }
  await until(async () => dead >= 96 && (await deliveries(world.store)).length === 300)
  const { request } = await world.call('devin', 'execution/request.create', { action: 'APPROVE', payload: { item: 'Deploy', details: {} } })
  await until(() => got.length > 0)
  assert.equal(got[0]!.body.data.request_id, request.id)
  assert.ok(dead <= 96, `${dead} lanes: the receipts of one owner's agents leave a quarter to people, and half of the rest to other owners`)
})

/** Lanes are called a1, a2, b1 ...: of owner a or b, each owner's at one address. */
function shared(over: Partial<Channel> = {}) {
  const begun: string[] = []
  const ends = new Map<string, (outcome?: unknown) => void>()
  const channel: Channel = {
    name: 'post',
    ordered: true,
    window: 1,
    lanesMax: 8,
    backoffMs: () => 1_000,
    sharesOf: (lanes) => Promise.resolve(lanes.map((lane) => ({ owner: lane[0]!, address: lane[0]!, yields: lane[0] === 'y' }))),
    async send({ lane }: Delivery) {
      begun.push(lane)
      const outcome = await new Promise((done) => ends.set(lane, done))
      if (outcome instanceof Error) throw outcome
      if (outcome === UNANSWERED) return UNANSWERED
      return undefined
    },
    ...over,
  }
  return { channel, begun, end: (lane: string, outcome?: unknown): void => ends.get(lane)!(outcome), ends }
}
const six = (owner: string): string[] => Array.from({ length: 6 }, (_, i) => `${owner}${i}`)

for (const ordered of [true, false])
  test(`an owner takes fewer lanes than it leaves free; owners that yield leave a quarter more (ordered: ${ordered})`, async () => {
    const w = workerWorld()
    const { channel, begun, ends } = shared({ ordered })
    const worker = runOutbox(w.kernel, channel, w.clock, silent)
    const counts = (): string => ['y', 'a', 'b', 'c'].map((owner) => begun.filter((lane) => lane[0] === owner).length).join(' ')
    for (const [owner, expected] of [
      ['y', '3 0 0 0'],
      ['a', '3 3 0 0'],
      ['b', '3 3 1 0'],
      ['c', '3 3 1 1'],
    ] as const) {
      for (const lane of six(owner)) await w.kernel.call('toy/note.post', { lane, orders: ['1'] }, alice)
      await w.clock.advance(100)
      assert.equal(counts(), expected)
    }
    while ((await deliveries(w.store)).length > 0) {
      for (const done of ends.values()) done()
      await w.clock.advance(100)
    }
    assert.deepEqual(new Set(begun).size, 24, 'and all get their turn')
    await worker.stop()
  })

test('an address that did not answer in time gets one lane until it answers again', async () => {
  const w = workerWorld()
  const { channel, begun, end } = shared({ ordered: false, lanesMax: 64 })
  const worker = runOutbox(w.kernel, channel, w.clock, silent)
  const posted = async (lane: string): Promise<void> => {
    await w.kernel.call('toy/note.post', { lane, orders: ['1'] }, alice)
    await w.clock.advance(100)
  }
  await posted('a0')
  end('a0', new Unanswered('late'))
  await settled()
  for (const lane of ['a1', 'a2', 'b1']) await posted(lane)
  assert.deepEqual(begun, ['a0', 'a1', 'b1'])
  end('a1', UNANSWERED)
  await w.clock.advance(100)
  assert.deepEqual(begun, ['a0', 'a1', 'b1', 'a2'])
  await posted('a3')
  assert.equal(begun.includes('a3'), false)
  end('a2')
  await w.clock.advance(100)
  await posted('a4')
  assert.deepEqual(begun.slice(4), ['a3', 'a4'])
  for (const lane of ['a3', 'a4', 'b1']) end(lane)
  await w.clock.advance(2_000)
  end('a0')
  await w.clock.advance(100)
  assert.deepEqual(await deliveries(w.store), [])
  await worker.stop()
})

test('the lane of a run belongs to the person who answers for its agent', async () => {
  const world = await createWorld()
  await world.call('devin', 'delegation/agent.publish', { name: 'Devin', reach: 'webhook', endpoint: 'https://example.com/agents/devin' })
  const { task } = await world.call('alice', 'collaboration/task.create', { spec: { goal: 'Mend it' } })
  await world.call('alice', 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_devin' })
  const [delivery] = (await deliveries(world.store)).filter(({ channel }) => channel === 'webhook')
  assert.deepEqual(await webhooks(world.kernel, options, silent).sharesOf!([delivery!.lane]), [
    { owner: 'user_alice', address: 'user_alice https://example.com', yields: false },
  ])
})

test('the agents of one person have a bounded number of channels together', async () => {
  const world = await createWorld()
  let added = 0
  const max = limits.hooksPerOwnerMax
  await assert.rejects(
    async () => {
      for (let i = 0; i < 102; i++) {
        const agent: Actor = { ...cast['devin']!, id: `agent_many${i}` }
        await world.call('system', 'identity/agent.add', { id: agent.id, name: `Many ${i}`, owner: 'user_bob' })
        for (let k = 0; k < limits.hooksPerSubjectMax; k++, added++)
          await world.kernel.call('execution/channel.add', { endpoint: 'https://example.com/hook' }, agent)
      }
    },
    { code: 'QUOTA_EXCEEDED', message: new RegExp(`at most ${max} channels together`) },
  )
  assert.equal(added, max)
  await world.call('devin', 'execution/channel.add', { endpoint: 'https://example.com/hook' })
})
