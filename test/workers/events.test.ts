// Event channels with a real receiver that is killed and comes back, answers wrongly, and has others beside it; and the operations on them.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, describe, test } from 'node:test'
import { realClock } from '#apps/server/clock.ts'
import { limits } from '#kernel/limits.ts'
import { keyOf } from '#kernel/declare/schema.ts'
import { EventCursor, wantsType } from '#protocols/execution/notices/event-channel.ts'
import { runEventChannels, type EventOptions } from '#workers/events/channel.ts'
import { answering, isSigned, receiver as openReceiver, until, type Answer, type Got } from '../support/over-sockets/receiver.ts'
import { manualClock } from '../support/in-process/manual-clock.ts'
import { silent } from '../support/in-process/worker-world.ts'
import { createWorld, type World } from '../support/in-process/world.ts'

const closing: (() => void)[] = []
after(() => closing.forEach((close) => close()))
const receiver = (answer?: Answer) => openReceiver({ after: (close) => void closing.push(close as () => void) }, answer)
const usual: EventOptions = {
  allowsPrivate: true,
  attemptsMax: 3,
  random: () => 0,
  timeoutMs: 300,
  origin: () => 'https://tasks.example.com',
}

const events = { project_id: 'project_default', kind: 'events' }
async function streaming(url: string, more: object = {}, options: Partial<EventOptions> = {}) {
  const world = await createWorld({ now: Date.now })
  const worker = runEventChannels(world.kernel, { ...usual, ...options }, realClock, silent)
  closing.push(() => void worker.stop())
  const { channel, secret } = await world.call('owner', 'execution/channel.add', { ...events, endpoint: url, ...more })
  return { world, worker, id: channel.id as string, secret: secret as string }
}
const work = (world: World, goal = 'Fix it'): Promise<any> => world.call('alice', 'collaboration/task.create', { spec: { goal } })
const shown = async (world: World): Promise<any> =>
  (await world.call('owner', 'execution/channel.list', { project_id: 'project_default' })).items[0]
const caughtUp = (world: World): Promise<any> =>
  until(async () => {
    const { progress } = await shown(world)
    return progress.position === progress.head && progress
  })
const sequencesIn = (got: readonly Got[]): number[] => got.flatMap(({ body }) => body.map((event: any) => Number(event.sequence)))
const inOrder = (first: number, last: number): number[] => Array.from({ length: last - first + 1 }, (_, i) => first + i)

describe('an event channel', () => {
  test('sends signed batches of CloudEvents, in order and once each, from its own addition on', async () => {
    const { url, got } = await receiver()
    const { world, worker, secret, id } = await streaming(url)
    const { task } = await work(world)
    await world.call('alice', 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_devin' })
    const { head } = await caughtUp(world)
    assert.ok((await Promise.all(got.map((one) => isSigned(secret, one)))).every(Boolean))
    assert.equal(got[0]!.headers['content-type'], 'application/cloudevents-batch+json; charset=utf-8')
    assert.match(String(got[0]!.headers['webhook-id']), new RegExp(`^msg_${id}_1_\\d+$`))
    assert.deepEqual(sequencesIn(got), inOrder(1, head))
    const [added, created] = got.flatMap(({ body }) => body)
    assert.deepEqual([added.type, added.subject], ['countersign.execution.channel.added', `event_channel/${id}`])
    assert.ok(!JSON.stringify(added).includes(url), 'the record does not hold the address')
    assert.deepEqual(
      { ...created, data: created.data.after.goal ?? created.data.after.spec.goal, id: typeof created.id, time: typeof created.time },
      {
        specversion: '1.0',
        id: 'string',
        source: 'https://tasks.example.com/projects/project_default',
        type: 'countersign.collaboration.task.created',
        subject: `task/${task.id}`,
        time: 'string',
        datacontenttype: 'application/json',
        sequence: '0000000000000002',
        data: 'Fix it',
      },
    )
    await worker.stop()
  })

  test('sends the types that it was told to, and begins after the number that it was given', async () => {
    const { url, got } = await receiver()
    const world = await createWorld({ now: Date.now })
    await work(world, 'Before it')
    const worker = runEventChannels(world.kernel, usual, realClock, silent)
    await world.call('owner', 'execution/channel.add', { ...events, endpoint: url, types: ['countersign.collaboration.task.*'], after: 0 })
    await work(world, 'After it')
    await until(() => got.flatMap(({ body }) => body).length === 2)
    assert.deepEqual(
      got.flatMap(({ body }) => body.map((event: any) => event.type)),
      ['countersign.collaboration.task.created', 'countersign.collaboration.task.created'],
    )
    await worker.stop()
  })

  test('misses nothing and changes no order where its receiver is killed and comes back', async () => {
    const got: Got[] = []
    let port = 0
    const open = async (): Promise<Server> => {
      const server = createServer((request, response) => {
        const parts: Buffer[] = []
        request.on('data', (part: Buffer) => parts.push(part))
        request.on('end', () => {
          const text = Buffer.concat(parts).toString()
          got.push({ headers: request.headers, text, body: JSON.parse(text) })
          response.writeHead(204).end()
        })
      }).listen(port, '127.0.0.1')
      await once(server, 'listening')
      port = (server.address() as AddressInfo).port
      return server
    }
    const kill = (server: Server): void => {
      server.closeAllConnections()
      server.close()
    }
    const first = await open()
    const { world, worker } = await streaming(`http://127.0.0.1:${port}/events`)
    await work(world)
    await caughtUp(world)
    kill(first)
    for (let i = 0; i < 150; i++) await work(world, `Task ${i}`)
    await until(async () => (await shown(world)).progress.attempts >= 2)
    assert.equal((await shown(world)).progress.last.error, 'the connection was refused')
    const second = await open()
    const { head } = await caughtUp(world)
    assert.deepEqual(sequencesIn(got), inOrder(1, head))
    assert.ok(got.every(({ body }) => body.length <= limits.eventsPerBatchMax))
    await worker.stop()
    kill(second)
  })

  test('begins again after a restart of the server, with what was not confirmed', async () => {
    const { url, got, answerWith } = await receiver(answering(503))
    const { world, worker } = await streaming(url)
    await work(world)
    await until(async () => (await shown(world)).progress.attempts >= 1)
    await worker.stop()
    got.length = 0
    answerWith(answering(204))
    const next = runEventChannels(world.kernel, usual, realClock, silent)
    const { head } = await caughtUp(world)
    assert.deepEqual(sequencesIn(got), inOrder(1, head))
    await next.stop()
  })

  test('whose receiver is down for days tries at least every five minutes, and costs no document more', async () => {
    const clock = manualClock()
    const world = await createWorld({ now: clock.now, startMs: clock.now() })
    let [posts, isDown] = [0, true]
    const post = (): Promise<any> => {
      posts++
      return Promise.resolve(
        isDown ? { status: null, error: 'the connection was refused', durationMs: 1 } : { status: 204, error: null, durationMs: 1 },
      )
    }
    const worker = runEventChannels(world.kernel, { ...usual, post: post as never }, clock, silent)
    await world.call('owner', 'execution/channel.add', { ...events, endpoint: 'https://example.com/events' })
    const before = (await world.store.keys('', '\u{10FFFF}', 10_000)).length
    for (let minutes = 0; minutes < 2 * 24 * 60; minutes += 5) await clock.advance(5 * 60_000)
    const after = (await world.store.keys('', '\u{10FFFF}', 10_000)).length
    assert.ok(posts >= 2 * 24 * 12, `${posts} posts`)
    assert.equal(after, before)
    await work(world)
    isDown = false
    await clock.advance(5 * 60_000)
    assert.equal((await shown(world)).progress.attempts, 0)
    assert.equal((await shown(world)).progress.position, (await shown(world)).progress.head)
    await worker.stop()
  })

  const html = (response: ServerResponse): ServerResponse => response.writeHead(200, { 'content-type': 'text/html; charset=utf-8' })
  const wrong: readonly (readonly [string, Answer, RegExp])[] = [
    ['200 with a web page', (_, response) => void html(response).end('<html>Sign in</html>'), /web page/],
    [
      '200 with HTML forever',
      (_, response) => {
        html(response)
        const timer = setInterval(() => response.write('<p>'.repeat(2_000)), 1)
        response.on('close', () => clearInterval(timer))
      },
      /web page/,
    ],
    [
      '200 and then nothing',
      (_, response) => {
        response.writeHead(200, { 'content-type': 'text/plain' }).write('wait')
      },
      /no complete answer within 0.3 s/,
    ],
    ['500', answering(500), /it answered 500/],
    ['a redirect', (_, response) => void response.writeHead(307, { location: 'http://127.0.0.1:1/' }).end(), /redirects are not followed/],
    ['a cut connection', (_, response) => void response.destroy(), /the connection was cut/],
  ]
  for (const [what, answer, error] of wrong)
    test(`whose receiver answers with ${what} sends the same events again and says why`, async () => {
      const { url, got, answerWith } = await receiver(answer)
      const { world, worker } = await streaming(url)
      await until(async () => (await shown(world)).progress.attempts >= 1)
      const { progress } = await shown(world)
      assert.match(progress.last.error, error)
      assert.equal(progress.position, 0)
      assert.ok(progress.next_at > progress.last.at)
      const before = got.length
      answerWith(answering(204))
      const { head } = await caughtUp(world)
      assert.deepEqual(sequencesIn(got.slice(before)), inOrder(1, head))
      await worker.stop()
    })

  test('whose receiver takes no large batch sends the events one by one', async () => {
    const { url, got } = await receiver(({ body }, response) => void response.writeHead(body.length > 1 ? 413 : 204).end())
    const world = await createWorld({ now: Date.now })
    await work(world, 'One')
    await work(world, 'Two')
    const worker = runEventChannels(world.kernel, usual, realClock, silent)
    await world.call('owner', 'execution/channel.add', { ...events, endpoint: url, after: 0 })
    const { head } = await caughtUp(world)
    assert.deepEqual(sequencesIn(got.filter(({ body }) => body.length === 1)), inOrder(1, head))
    await worker.stop()
  })

  test('that is told that its address is gone stops, and continues after an update', async () => {
    const { url, got, answerWith } = await receiver(answering(410))
    const { world, worker, id } = await streaming(url)
    await until(async () => (await shown(world)).disabled)
    await work(world)
    answerWith(answering(204))
    assert.equal(got.length, 1)
    await world.call('owner', 'execution/channel.update', { channel_id: id })
    const { head } = await caughtUp(world)
    assert.deepEqual(sequencesIn(got.slice(1)), inOrder(1, head))
    await worker.stop()
  })

  test('that is put back sends the events after that number again', async () => {
    const { url, got } = await receiver()
    const { world, worker, id } = await streaming(url)
    await work(world)
    await caughtUp(world)
    const { head } = (await shown(world)).progress
    got.length = 0
    await world.call('owner', 'execution/channel.update', { channel_id: id, after: 1 })
    await caughtUp(world)
    assert.deepEqual(sequencesIn(got), inOrder(2, head + 1))
    await assert.rejects(world.call('owner', 'execution/channel.update', { channel_id: id, after: 1_000 }), { code: 'INVALID_REQUEST' })
    await worker.stop()
  })

  test('that is put back while a batch is under way sends those events again too', async () => {
    const { url, got, answerWith } = await receiver()
    const { world, worker, id } = await streaming(url, {}, { timeoutMs: 60_000 })
    await caughtUp(world)
    const held: ServerResponse[] = []
    answerWith((_, response) => void held.push(response))
    await work(world)
    await until(() => held.length === 1)
    await world.call('owner', 'execution/channel.update', { channel_id: id, after: 0 })
    const before = got.length
    answerWith(answering(204))
    held[0]!.writeHead(204).end()
    const { head } = await caughtUp(world)
    assert.deepEqual(sequencesIn(got.slice(before)), inOrder(1, head))
    await worker.stop()
  })

  test('is not held up by another one that does not answer, and neither are the calls', async () => {
    const slow = await receiver(() => undefined)
    const { world, worker } = await streaming(slow.url, {}, { timeoutMs: 60_000 })
    const fast = await receiver()
    await world.call('owner', 'execution/channel.add', { ...events, endpoint: fast.url })
    await until(() => slow.got.length === 1)
    for (let i = 0; i < 20; i++) await work(world, `Task ${i}`)
    await until(() => fast.got.flatMap(({ body }) => body).length >= 21)
    assert.equal(slow.got.length, 1)
    await worker.stop()
  })

  test('calls no private address unless the operator allows it', async () => {
    const { url, got } = await receiver()
    const { world, worker } = await streaming(url, {}, { allowsPrivate: false })
    await until(async () => (await shown(world)).progress.attempts >= 1)
    assert.match((await shown(world)).progress.last.error, /plain http: only https/)
    assert.equal(got.length, 0)
    await worker.stop()
  })

  test('gets nothing once it is removed, and leaves nothing behind', async () => {
    const { url, got } = await receiver()
    const { world, worker, id } = await streaming(url)
    await caughtUp(world)
    await world.call('owner', 'execution/channel.remove', { channel_id: id })
    const before = got.length
    await work(world)
    const other = await receiver()
    await world.call('owner', 'execution/channel.add', { ...events, endpoint: other.url })
    await until(() => other.got.length > 0)
    assert.equal(got.length, before)
    assert.equal((await world.store.read([keyOf(EventCursor, id)]))[0], undefined)
    await worker.stop()
  })
})

describe('the operations on event channels', () => {
  test('refuse what does not fit, and add nothing', async () => {
    const world = await createWorld({ terms: { publicHooksOnly: true } })
    const refusals: readonly (readonly [string, object, string])[] = [
      ['owner', { ...events }, 'INVALID_REQUEST'],
      ['owner', { kind: 'events', endpoint: 'https://example.com/e' }, 'INVALID_REQUEST'],
      ['owner', { project_id: 'project_default', endpoint: 'https://example.com/e' }, 'INVALID_REQUEST'],
      ['owner', { kind: 'webhook', endpoint: 'https://example.com/e', types: ['countersign.execution.*'] }, 'INVALID_REQUEST'],
      ['owner', { ...events, endpoint: 'https://example.com/e', types: ['task.created'] }, 'INVALID_REQUEST'],
      ['owner', { ...events, endpoint: 'https://example.com/e', min_priority: 'low' }, 'INVALID_REQUEST'],
      ['owner', { ...events, endpoint: 'http://10.0.0.1/e' }, 'INVALID_REQUEST'],
      ['owner', { ...events, endpoint: 'https://10.0.0.1/e' }, 'INVALID_REQUEST'],
      ['owner', { ...events, endpoint: 'https://example.com/e', after: 1_000 }, 'INVALID_REQUEST'],
      ['alice', { ...events, endpoint: 'https://example.com/e' }, 'UNAUTHORIZED'],
      ['devin', { ...events, endpoint: 'https://example.com/e' }, 'UNAUTHORIZED'],
      ['admin', { ...events, endpoint: 'https://example.com/e' }, 'UNAUTHORIZED'],
      ['mallory', { ...events, endpoint: 'https://example.com/e' }, 'NOT_FOUND'],
    ]
    for (const [as, input, code] of refusals)
      await assert.rejects(world.call(as, 'execution/channel.add', input), { code }, `${as} ${JSON.stringify(input)}`)
    assert.equal(await shown(world), undefined)
  })

  test('show a channel to the owners of its project alone', async () => {
    const world = await createWorld()
    const { channel } = await world.call('owner', 'execution/channel.add', { ...events, endpoint: 'https://example.com/e', label: 'siem' })
    assert.equal((await shown(world)).endpoint, 'https://example.com/e')
    for (const [as, code] of [
      ['alice', 'UNAUTHORIZED'],
      ['mallory', 'NOT_FOUND'],
      ['devin', 'UNAUTHORIZED'],
    ] as const)
      await assert.rejects(world.call(as, 'execution/channel.list', { project_id: 'project_default' }), { code }, as)
    for (const operation of ['update', 'remove', 'rotate', 'test'])
      await assert.rejects(world.call('alice', `execution/channel.${operation}`, { channel_id: channel.id }), { code: 'NOT_FOUND' })
    await assert.rejects(world.call('owner', 'execution/channel.test', { channel_id: channel.id }), /tested by the next event/)
  })

  test('take a label once in a project, and a bounded number of channels', async () => {
    const world = await createWorld()
    const add = (label: string): Promise<any> =>
      world.call('owner', 'execution/channel.add', { ...events, endpoint: 'https://example.com/e', label })
    await add('siem')
    await assert.rejects(add('siem'), /has an event channel siem already/)
    for (let i = 1; i < limits.eventChannelsPerProjectMax; i++) await add(`number ${i}`)
    await assert.rejects(add('one more'), { code: 'QUOTA_EXCEEDED' })
  })

  test('make a new secret, with which later batches are signed', async () => {
    const { url, got } = await receiver()
    const { world, worker, id } = await streaming(url)
    await caughtUp(world)
    const { secret } = await world.call('owner', 'execution/channel.rotate', { channel_id: id })
    await work(world)
    await caughtUp(world)
    assert.ok(await isSigned(secret, got.at(-1)!))
    await worker.stop()
  })
})

test('a filter takes a whole type, and with .* those that begin so', () => {
  const task = 'countersign.collaboration.task.created'
  assert.deepEqual(
    [[], [task], ['countersign.collaboration.*'], ['countersign.collaboration.task'], ['countersign.execution.*']].map((types) =>
      wantsType(types, task),
    ),
    [true, true, true, false, false],
  )
})
