// Streams over one WebSocket: many concurrently, from a cursor on, through a server that goes away, and refused in the words of the server.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test, type TestContext } from 'node:test'
import { createClient } from '#sdk/index.ts'
import { liveWorld, until } from '../support/over-sockets/live.ts'

function countedSockets(t: TestContext): { opened: number } {
  const counted = { opened: 0 }
  const native = globalThis.WebSocket
  t.mock.property(
    globalThis,
    'WebSocket',
    class extends native {
      constructor(url: string | URL) {
        super(url)
        counted.opened++
      }
    },
  )
  return counted
}

test('all streams of a client share one socket and resume from their cursors', async (t) => {
  const world = await liveWorld(t)
  const { key } = await world.keyOf('owner')
  const client = createClient({ url: `http://127.0.0.1:${world.port}`, key })
  t.after(() => client.close())
  const sockets = countedSockets(t)
  const seen: Record<string, { cursor: string; id: string }[]> = { a: [], b: [] }
  const leaving = new AbortController()
  let isOpen = 0
  const reading = Object.keys(seen).map(async (name) => {
    const options = { after: 'latest', signal: leaving.signal, onOpen: () => void isOpen++ }
    for await (const { cursor, item } of client.follow('collaboration/audit.follow', {}, options))
      seen[name]!.push({ cursor, id: (item as { event?: { id: string }; id?: string }).event?.id ?? '' })
  })
  await until(() => isOpen === 2, 'both are open')
  for (let i = 0; i < 5; i++)
    await world.call('alice', 'collaboration/task.create', { spec: { goal: `work ${i}`, acceptance_criteria: ['done'] } })
  await until(() => seen['a']!.length === 5 && seen['b']!.length === 5, 'all five on both')
  assert.equal(sockets.opened, 1)
  assert.deepEqual(seen['a'], seen['b'])
  leaving.abort()
  await Promise.all(reading)
  const again: string[] = []
  for await (const { item } of client.follow('collaboration/audit.follow', {}, { after: seen['a']![2]!.cursor })) {
    again.push((item as { event: { id: string } }).event.id)
    if (again.at(-1) === seen['a']![4]!.id) break
  }
  assert.deepEqual(
    again.slice(-2),
    seen['a']!.slice(3).map(({ id }) => id),
  )
  await assert.rejects(
    async () => {
      for await (const _ of client.follow('collaboration/audit.follow', { task_id: 'task_none' })) break
    },
    { code: 'NOT_FOUND' },
  )
})

test('a stream that fails right after opening is retried with backoff, and asks nothing about what the server has ended', async (t) => {
  const world = await liveWorld(t, { bounds: { recheckMs: 60_000 } })
  const { key } = await world.keyOf('owner')
  const { admit } = world.kernel
  const tried: number[] = []
  Object.assign(world.kernel, {
    async admit(...asked: Parameters<typeof admit>) {
      if ((asked[1] as { task_id?: string }).task_id !== undefined) return admit(...asked)
      tried.push(performance.now())
      const sees = (): never => {
        throw new Error('it cannot be told')
      }
      return { ...(await admit(...asked)), sees }
    },
  })
  const { task } = await world.call('alice', 'collaboration/task.create', { spec: { goal: 'work', acceptance_criteria: ['done'] } })
  const sent: string[] = []
  const native = globalThis.WebSocket
  t.mock.property(
    globalThis,
    'WebSocket',
    class extends native {
      override send(data: string): void {
        sent.push(data)
        super.send(data)
      }
    },
  )
  const client = createClient({ url: `http://127.0.0.1:${world.port}`, key })
  t.after(() => client.close())
  const leaving = new AbortController()
  // The other one keeps the socket open.
  const reading = [{ task_id: task.id }, {}].map(async (input) => {
    for await (const _ of client.follow('collaboration/audit.follow', input, { signal: leaving.signal }));
  })
  await until(() => tried.length >= 6, 'it is tried again')
  const left = sent.filter((frame) => frame.includes('unsubscribe')).length
  leaving.abort()
  await Promise.all(reading)
  const message = `tried after ${tried.map((at) => Math.round(at - tried[0]!)).join(', ')} ms`
  assert.ok(tried[5]! - tried[3]! > 600, `the pauses after the fourth and the fifth failure are at least 400 and 800 ms: ${message}`)
  assert.equal(left, 0)
})

test('a key that is not good opens no socket', async (t) => {
  const world = await liveWorld(t)
  const client = createClient({ url: `http://127.0.0.1:${world.port}`, key: 'csk_wrong' })
  t.after(() => client.close())
  await assert.rejects(
    async () => {
      for await (const _ of client.follow('collaboration/audit.follow', {})) break
    },
    { code: 'UNAUTHENTICATED' },
  )
})

test('more streams than one socket carries take another one, and one that was left makes room', async (t) => {
  const world = await liveWorld(t)
  const { key } = await world.keyOf('owner')
  const client = createClient({ url: `http://127.0.0.1:${world.port}`, key })
  t.after(() => client.close())
  const sockets = countedSockets(t)
  const leaving = new AbortController()
  let isOpen = 0
  const follow = async (signal: AbortSignal): Promise<void> => {
    const options = { after: 'latest', signal, onOpen: () => void isOpen++ }
    for await (const _ of client.follow('collaboration/audit.follow', {}, options)) continue
  }
  const one = new AbortController()
  const reading = [follow(one.signal), ...Array.from({ length: 33 }, () => follow(leaving.signal))]
  await until(() => isOpen === 34, 'all are open')
  assert.equal(sockets.opened, 2)
  one.abort()
  await reading[0]
  reading.push(follow(leaving.signal))
  await until(() => isOpen === 35, 'the next one is open')
  assert.equal(sockets.opened, 2)
  leaving.abort()
  await Promise.all(reading)
})

test('through a proxy that carries no sockets a client follows by events', async (t) => {
  const world = await liveWorld(t)
  const { key } = await world.keyOf('owner')
  const proxy = createServer(({ url, method, headers }, answer) => {
    const { upgrade: _, connection: __, ...rest } = headers
    const passed = request({ port: world.port, host: '127.0.0.1', path: url, method, headers: rest }, (incoming) => {
      answer.writeHead(incoming.statusCode!, incoming.headers)
      incoming.pipe(answer)
    })
    passed.end(method === 'POST' ? '{}' : undefined)
    answer.on('close', () => passed.destroy())
  }).listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  const client = createClient({ url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`, key, backoffMs: 1 })
  t.after(async () => {
    await client.close()
    proxy.closeAllConnections()
    proxy.close()
  })
  await world.call('alice', 'collaboration/task.create', { spec: { goal: 'work', acceptance_criteria: ['done'] } })
  const seen: string[] = []
  for await (const { item } of client.follow('collaboration/audit.follow', {})) {
    seen.push((item as { event: { action: string } }).event.action)
    break
  }
  assert.equal(seen.length, 1)
})

test('with a fetch of their own a client follows through that', async (t) => {
  const world = await liveWorld(t)
  const { key } = await world.keyOf('owner')
  const sockets = countedSockets(t)
  const client = createClient({ url: `http://127.0.0.1:${world.port}`, key, fetch: (input, init) => fetch(input, init) })
  t.after(() => client.close())
  await world.call('alice', 'collaboration/task.create', { spec: { goal: 'work', acceptance_criteria: ['done'] } })
  for await (const _ of client.follow('collaboration/audit.follow', {})) break
  assert.equal(sockets.opened, 0)
})
