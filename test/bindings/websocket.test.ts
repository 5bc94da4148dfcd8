// Live streams over WebSocket, on real sockets: who may open one, what it carries, how it ends, and what no frame can do to it.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { connect, type Socket as Plain } from 'node:net'
import { test } from 'node:test'
import { limits } from '#kernel/limits.ts'
import { collaboration } from '#protocols/collaboration/index.ts'
import { send } from '../support/over-sockets/http-client.ts'
import { liveWorld, pause, until, type LiveWorld, type Socket } from '../support/over-sockets/live.ts'
import { SOON_MS } from '../support/over-sockets/soon.ts'

const scenes = collaboration.scenes as Record<string, any>
const FOLLOW = 'collaboration/audit.follow'
const idsOf = (events: readonly { id: string }[]): string[] => events.map(({ id }) => id)
const createTask = async (world: LiveWorld, goal = 'work'): Promise<any> =>
  (await world.call('alice', 'collaboration/task.create', { spec: { goal, acceptance_criteria: ['it is done'] } })).task
const follow = (input: object, id = '1', after: string | null = null): object => ({ subscribe: { stream: FOLLOW, input, id, after } })
const errorsOf = (socket: Socket): [string | undefined, string][] =>
  socket.said.filter(({ error }) => error).map(({ id, error }) => [id, error.code])

async function ticketOf(world: LiveWorld, key: string): Promise<string> {
  const answer = await send(world.port, '/v1/identity/ticket.issue', {
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: '{}',
  })
  assert.equal(answer.status, 200, answer.text)
  return answer.json.ticket
}
/** The status of a refused upgrade. */
const refusedWith = (opening: Promise<Socket>): Promise<number | undefined> =>
  opening.then(
    () => undefined,
    (error: { status?: number }) => error.status,
  )

test('a socket carries several subscriptions, each with what was and what comes, in order', async (t) => {
  const world = await liveWorld(t)
  const { task } = await world.play(scenes['created'])
  const { key } = await world.keyOf('owner')
  const socket = await world.socket(key)
  socket.send(follow({ task_id: task.id }))
  socket.send(follow({}, 'all', 'latest'))
  await until(() => socket.items().length === 1 && socket.cursor('all') !== undefined, 'the first event')
  await world.call('alice', 'collaboration/task.assign', { task_id: task.id, assignee: 'user_bob' })
  await world.call('bob', 'collaboration/task.start', { task_id: task.id })
  await until(() => socket.items().length === 3 && socket.items('all').length === 2, 'all events')
  const { items } = await world.call('alice', 'collaboration/audit.query', { task_id: task.id })
  const written = items.map(({ actor_name: _, behalf_name: __, ...event }: any) => event)
  assert.deepEqual(socket.items(), written)
  assert.deepEqual(idsOf(socket.items('all')), idsOf(items.slice(1)))
  socket.send({ unsubscribe: { id: '1' } })
  await until(() => socket.said.some(({ unsubscribed }) => unsubscribed), 'the answer')
  await createTask(world)
  await until(() => socket.items('all').length === 3, 'the other goes on')
  assert.equal(socket.items().length, 3)
  socket.send(follow({ task_id: task.id }, '2', socket.said.find(({ id, items: some }) => id === '1' && some?.length > 0).cursor))
  await until(() => socket.items('2').length === 2, 'it goes on from a cursor')
})

test('nothing is lost or repeated over sockets that break off while others write', async (t) => {
  const world = await liveWorld(t, { bounds: { portionEvents: 7, ringEvents: 16 } })
  const { key } = await world.keyOf('owner')
  let writing = true
  const writers = [1, 2].map(async () => {
    for (let i = 0; i < 60; i++) await createTask(world, `number ${i}`)
  })
  const followers = Array.from({ length: 3 }, async (_, n) => {
    const got: any[] = []
    let cursor: string | null = null
    for (let i = 0; writing || i < 3; i++) {
      const socket = await world.socket(key)
      socket.send(follow({}, '1', cursor))
      await pause((i * 7 + n * 3) % 17)
      socket.close()
      await socket.closed()
      got.push(...socket.items())
      cursor = socket.cursor() ?? cursor
    }
    const last = await world.socket(key)
    last.send(follow({}, '1', cursor))
    return { got, last }
  })
  await Promise.all(writers)
  writing = false
  const wanted = idsOf((await world.call('owner', 'collaboration/audit.query', { limit: 200 })).items)
  assert.equal(wanted.length, 120)
  for (const { got, last } of await Promise.all(followers)) {
    await until(() => got.length + last.items().length >= wanted.length, 'all events')
    assert.deepEqual(idsOf([...got, ...last.items()]), wanted)
  }
})

test('a ticket opens one socket, in its address or in its first frame, and only one', async (t) => {
  const world = await liveWorld(t)
  const { task } = await world.play(scenes['created'])
  const { key } = await world.keyOf('alice')
  const ticket = await ticketOf(world, key)
  const socket = await world.socket(null, {}, `?ticket=${ticket}`)
  socket.send(follow({ task_id: task.id }))
  await until(() => socket.items().length === 1, 'an event')
  assert.equal(await refusedWith(world.socket(null, {}, `?ticket=${ticket}`)), 401)

  const second = await ticketOf(world, key)
  const framed = await world.socket(null)
  framed.send({ ticket: second })
  framed.send(follow({ task_id: task.id }))
  await until(() => framed.items().length === 1, 'an event')
  assert.deepEqual(framed.said[0], { authenticated: 'user_alice' })
  const late = await world.socket(null)
  late.send({ ticket: second })
  assert.equal((await late.closed()).code, 4401)
  framed.send({ ticket: second })
  await until(() => errorsOf(framed).length === 1, 'it is said twice')
  assert.equal(framed.isOver(), false)
})

test('one of many concurrent sockets with one ticket is accepted', async (t) => {
  const world = await liveWorld(t)
  const { key } = await world.keyOf('alice')
  for (let round = 0; round < 5; round++) {
    const ticket = await ticketOf(world, key)
    const opened = await Promise.all(Array.from({ length: 8 }, () => refusedWith(world.socket(null, {}, `?ticket=${ticket}`))))
    assert.equal(opened.filter((status) => status === undefined).length, 1)
    assert.equal(opened.filter((status) => status === 401).length, 7)
  }
})

test('a ticket expires after half a minute, is no credential over HTTP, and is stored nowhere in the clear', async (t) => {
  const world = await liveWorld(t)
  const { key } = await world.keyOf('alice')
  const ticket = await ticketOf(world, key)
  const answer = await send(world.port, '/v1/identity/me.get', { headers: { authorization: `Bearer ${ticket}` } })
  assert.equal(answer.status, 401)
  const keys = await world.store.keys('identity.ticket/', 'identity.ticket0', 10)
  assert.equal(keys.length, 1)
  assert.doesNotMatch(JSON.stringify(await world.store.read(keys)), new RegExp(ticket.split('_').at(-1)!.slice(0, 20)))
  world.advance(limits.ticketMs)
  assert.equal(await refusedWith(world.socket(null, {}, `?ticket=${ticket}`)), 401)
  for (const bad of ['', 'x', 'cs_01KDVDNA0T7AM6ZFQHTZ0W73S0_', key, '%00'])
    assert.equal(await refusedWith(world.socket(null, {}, `?ticket=${bad}`)), 401, bad)
  await ticketOf(world, key)
  assert.equal((await world.store.keys('identity.ticket/', 'identity.ticket0', 10)).length, 1, 'the next one takes old ones away')
})

test('tickets that wait are bounded', async (t) => {
  const world = await liveWorld(t)
  for (let i = 0; i < limits.ticketsOpenMax; i++) await world.call('alice', 'identity/ticket.issue')
  await assert.rejects(world.call('alice', 'identity/ticket.issue'), { code: 'QUOTA_EXCEEDED' })
  world.advance(limits.ticketMs)
  await world.call('alice', 'identity/ticket.issue')
})

test('a page of another origin is refused before the upgrade, with a good key as well', async (t) => {
  const world = await liveWorld(t, { origins: ['https://desk.example.com'] })
  const { key } = await world.keyOf('alice')
  const own = `http://127.0.0.1:${world.port}`
  for (const origin of [
    'https://evil.example',
    'null',
    'https://desk.example.com.evil.example',
    'http://desk.example.com',
    'http://127.0.0.1',
    `${own}.evil.example`,
    '',
  ])
    assert.equal(await refusedWith(world.socket(key, { headers: { origin } })), 403, origin)
  for (const origin of [own, 'https://desk.example.com'])
    assert.equal(await refusedWith(world.socket(key, { headers: { origin } })), undefined, origin)
  assert.equal(await refusedWith(world.socket(key, { headers: { host: 'evil.example' } })), 421)
  assert.equal(await refusedWith(world.socket('cs_wrong')), 401)
})

test('a cookie opens no socket', async (t) => {
  const world = await liveWorld(t, { bounds: { silentMs: 100 } })
  const { token } = await world.call('system', 'identity/login.issue', { user_id: 'user_alice' })
  const { session } = await world.call('system', 'identity/session.open', { token })
  const socket = await world.socket(null, { headers: { cookie: `countersign=${session}`, origin: `http://127.0.0.1:${world.port}` } })
  socket.send(follow({}))
  assert.equal((await socket.closed()).code, 4401)
})

test('an unauthenticated socket is closed, and only few can be open concurrently', async (t) => {
  const world = await liveWorld(t, { bounds: { silentMs: 150, silentPerAddress: 3 } })
  const began = performance.now()
  const silent = await Promise.all([1, 2, 3].map(() => world.socket(null)))
  assert.equal(await refusedWith(world.socket(null)), 429)
  const { key } = await world.keyOf('alice')
  assert.equal(await refusedWith(world.socket(key)), undefined, 'who says so is not counted')
  for (const socket of silent) assert.equal((await socket.closed()).code, 4401)
  assert.ok(performance.now() - began < SOON_MS)
  assert.equal(await refusedWith(world.socket(null)), undefined)
})

test('every refusal of a subscription names its id, and the socket stays', async (t) => {
  const world = await liveWorld(t, { bounds: { perSocket: 2 } })
  const { task } = await world.play(scenes['created'])
  const { key } = await world.keyOf('alice')
  const stranger = await world.socket((await world.keyOf('mallory')).key)
  stranger.send(follow({ task_id: task.id }, 'a'))
  stranger.send(follow({ project_id: 'project_default' }, 'b'))
  await until(() => errorsOf(stranger).length === 2, 'two refusals')
  assert.deepEqual(errorsOf(stranger), [
    ['a', 'NOT_FOUND'],
    ['b', 'NOT_FOUND'],
  ])
  const socket = await world.socket(key)
  const beside = await world.events(key, `task_id=${task.id}`)
  await until(() => beside.items.length === 1, 'an event')
  const cursor = beside.cursor()!
  const rows: [unknown, string | undefined, string][] = [
    [follow({}, 'c'), 'c', 'UNAUTHORIZED'],
    [follow({ task_id: 7 }, 'd'), 'd', 'INVALID_REQUEST'],
    [{ subscribe: { stream: 'collaboration/task.get', input: {}, id: 'e' } }, 'e', 'NOT_FOUND'],
    [{ subscribe: { stream: 'kernel/none', id: 'f' } }, 'f', 'NOT_FOUND'],
    [follow({ root_task_id: task.id }, 'g', cursor), 'g', 'INVALID_REQUEST'],
    [{ unsubscribe: { id: 'h' } }, 'h', 'NOT_FOUND'],
    [{ subscribe: { stream: FOLLOW, input: {} } }, undefined, 'INVALID_REQUEST'],
    [{ subscribe: {}, unsubscribe: {} }, undefined, 'INVALID_REQUEST'],
    [{ constructor: {} }, undefined, 'INVALID_REQUEST'],
    [{}, undefined, 'INVALID_REQUEST'],
    ['[]', undefined, 'INVALID_REQUEST'],
    ['null', undefined, 'INVALID_REQUEST'],
    ['{"a', undefined, 'INVALID_REQUEST'],
    ['{"subscribe":{"id":"1","id":"2"}}', undefined, 'INVALID_REQUEST'],
    ['{"__proto__":{"x":1}}', undefined, 'INVALID_REQUEST'],
    [{ subscribe: { stream: 7, id: 'i' } }, 'i', 'INVALID_REQUEST'],
    ['{"subscribe":{"id":"j","stream":"\\u0000"}}', 'j', 'INVALID_REQUEST'],
    ['{"subscribe":{"id":"k","input":{"id":1,"id":2}}}', 'k', 'INVALID_REQUEST'],
  ]
  for (const [frame] of rows) socket.send(frame)
  await until(() => errorsOf(socket).length === rows.length, 'an answer to each')
  assert.deepEqual(
    errorsOf(socket),
    rows.map(([, id, code]) => [id, code]),
  )
  for (const id of ['1', '1', '2', '3']) socket.send(follow({ task_id: task.id }, id))
  await until(() => errorsOf(socket).length === rows.length + 2, 'the bounds')
  assert.deepEqual(errorsOf(socket).slice(-2), [
    ['1', 'CONFLICT'],
    ['3', 'QUOTA_EXCEEDED'],
  ])
  assert.equal(socket.isOver(), false)
  assert.equal(world.logged.join(), '')
})

const losses = [
  ['a revoked key', 4401, (world: LiveWorld, id: string) => world.call('system', 'identity/key.revoke', { key_id: id })],
  ['a disabled person', 4401, (world: LiveWorld) => world.call('system', 'identity/user.update', { user_id: 'user_rita', disabled: true })],
  [
    'a removed reviewer',
    4403,
    (world: LiveWorld, _: string, task: string) =>
      world.call('alice', 'collaboration/reviewer.remove', { task_id: task, user: 'user_rita' }),
  ],
] as const
for (const [name, code, lose] of losses) {
  for (const how of ['with its key', 'with a ticket'] as const) {
    test(`${name} that came ${how} loses the socket`, async (t) => {
      const world = await liveWorld(t, { bounds: { recheckMs: 500 } })
      const { task } = await world.play(scenes['created'])
      const { key, id } = await world.keyOf('rita')
      const socket =
        how === 'with its key' ? await world.socket(key) : await world.socket(null, {}, `?ticket=${await ticketOf(world, key)}`)
      socket.send(follow({ task_id: task.id }))
      await until(() => socket.items().length === 1, 'an event')
      const began = performance.now()
      await lose(world, id, task.id)
      assert.equal((await socket.closed()).code, code)
      const ms = performance.now() - began
      assert.ok(ms < SOON_MS, `it took ${ms} ms`)
      assert.ok(errorsOf(socket).some(([about]) => about === '1'))
    })
  }
}

test('a reviewer removed from one task keeps the subscription to another', async (t) => {
  const world = await liveWorld(t)
  const { task } = await world.play(scenes['created'])
  const other = (
    await world.call('alice', 'collaboration/task.create', { spec: { goal: 'two', acceptance_criteria: ['x'] }, reviewers: ['user_rita'] })
  ).task
  const socket = await world.socket((await world.keyOf('rita')).key)
  socket.send(follow({ task_id: task.id }, 'one'))
  socket.send(follow({ task_id: other.id }, 'two'))
  await until(() => socket.items('two').length === 1, 'an event')
  await world.call('alice', 'collaboration/reviewer.remove', { task_id: task.id, user: 'user_rita' })
  await until(() => errorsOf(socket).length === 1, 'the loss')
  assert.deepEqual(errorsOf(socket), [['one', 'NOT_FOUND']])
  await world.call('alice', 'collaboration/task.assign', { task_id: other.id, assignee: 'user_bob' })
  await until(() => socket.items('two').length === 2, 'the other goes on')
})

test('a stream that fails on a socket ends alone, and with the last one the socket', async (t) => {
  // A look at the right to follow would bring the real answer back.
  const world = await liveWorld(t, { bounds: { recheckMs: 60_000 } })
  const { task } = await world.play(scenes['created'])
  const other = await createTask(world, 'two')
  const { admit } = world.kernel
  const broken = new Set([task.id])
  Object.assign(world.kernel, {
    async admit(name: string, input: { task_id: string }, caller: never) {
      const sees = (): boolean => {
        if (broken.has(input.task_id)) throw new Error('it cannot be told')
        return true
      }
      return { ...(await admit(name, input, caller)), sees }
    },
  })
  const socket = await world.socket((await world.keyOf('alice')).key)
  socket.send(follow({ task_id: task.id }, 'one', 'latest'))
  socket.send(follow({ task_id: other.id }, 'two', 'latest'))
  await until(() => socket.cursor('two') !== undefined, 'both are open')
  const assign = (task_id: string): Promise<unknown> => world.call('alice', 'collaboration/task.assign', { task_id, assignee: 'user_bob' })
  await assign(task.id)
  await until(() => errorsOf(socket).length === 1, 'the failure')
  assert.deepEqual(errorsOf(socket), [['one', 'INTERNAL']])
  await assign(other.id)
  await until(() => socket.items('two').length === 1, 'the other goes on')
  broken.add(other.id)
  await world.call('bob', 'collaboration/task.start', { task_id: other.id })
  assert.equal((await socket.closed()).code, 1011)
})

const bulk = 'x'.repeat(9_000)

test('a slow socket is closed with 4008 and a cursor, and from there nothing is missing', async (t) => {
  const world = await liveWorld(t, { bounds: { unsentBytes: 64 * 1024, unsentEvents: 8, slowMs: 50, lingerMs: 20_000 } })
  const { key } = await world.keyOf('owner')
  const quick = await world.socket(key)
  const slow = await world.socket(key)
  for (const socket of [quick, slow]) socket.send(follow({}, '1', 'latest'))
  await until(() => quick.cursor() !== undefined && slow.cursor() !== undefined, 'both follow')
  slow.ws.pause()
  for (let i = 0; i < 60; i++) {
    await Promise.all(Array.from({ length: 20 }, (_, j) => createTask(world, `${i}.${j} ${bulk}`)))
    if (i % 10 === 9) await pause(30)
  }
  await pause(300)
  slow.ws.resume()
  const { code, reason } = await slow.closed()
  assert.equal(code, 4008)
  assert.equal(reason, slow.cursor())
  const rest = await world.socket(key)
  rest.send(follow({}, '1', reason))
  await until(() => slow.items().length + rest.items().length >= 1_200 && quick.items().length === 1_200, 'the rest')
  assert.ok(slow.items().length < 1_200)
  assert.deepEqual(idsOf([...slow.items(), ...rest.items()]), idsOf(quick.items()))
})

test('a client that never reads its answers is disconnected', async (t) => {
  const world = await liveWorld(t, { bounds: { commandsPerMinute: 1_000_000, lingerMs: 100 } })
  const { key } = await world.keyOf('alice')
  const socket = await world.socket(key)
  socket.ws.pause()
  const frame = JSON.stringify({ unsubscribe: { id: 'x'.repeat(60) } })
  for (let i = 0; i < 200 && socket.ws.readyState === socket.ws.OPEN; i++) {
    for (let j = 0; j < 500; j++) socket.ws.send(frame, () => undefined)
    await pause(1)
  }
  await until(socket.isOver, 'the server has ended it')
})

test('frames that are too long, binary, or too many close the socket', async (t) => {
  const world = await liveWorld(t, { bounds: { commandsPerMinute: 10 } })
  const { key } = await world.keyOf('alice')
  const long = await world.socket(key)
  long.send(`{"unsubscribe":{"id":"${'x'.repeat(limits.socketFrameBytesMax - 27)}"}}`)
  await until(() => errorsOf(long).length === 1, 'as long as may be')
  long.send('x'.repeat(limits.socketFrameBytesMax + 1))
  assert.equal((await long.closed()).code, 1009)
  const binary = await world.socket(key)
  binary.ws.send(Buffer.from('{}'))
  assert.equal((await binary.closed()).code, 1003)
  const many = await world.socket(key)
  for (let i = 0; i < 12; i++) many.send({})
  assert.equal((await many.closed()).code, 1008)
})

test('a socket is pinged, and one that does not answer is ended', async (t) => {
  const world = await liveWorld(t, { bounds: { beatMs: 60 } })
  const { key } = await world.keyOf('alice')
  const socket = await world.socket(key)
  let pings = 0
  socket.ws.on('ping', () => pings++)
  await until(() => pings >= 3, 'three pings')
  assert.equal(socket.isOver(), false)
  const mute = await world.socket(key, { autoPong: false })
  assert.equal((await mute.closed()).code, 1006)
})

test('only a WebSocket for this path is upgraded; any other wish for another protocol is a plain request', async (t) => {
  const world = await liveWorld(t)
  const h2c = await send(world.port, '/health', {
    method: 'GET',
    headers: { connection: 'Upgrade, HTTP2-Settings', upgrade: 'h2c', 'http2-settings': 'AAMAAABk' },
  })
  assert.equal(h2c.status, 200)
  assert.equal((await send(world.port, '/v1/ws', { method: 'GET' })).status, 404)
})

test('a stop closes sockets with a cursor', async (t) => {
  const world = await liveWorld(t)
  const { key } = await world.keyOf('owner')
  await createTask(world)
  const socket = await world.socket(key)
  socket.send(follow({}))
  await until(() => socket.items().length > 0, 'events')
  await world.stop()
  assert.deepEqual(await socket.closed(), { code: 1001, reason: socket.cursor()! })
})

// --- Raw bytes ------------------------------------------------------------------------------------------------------------

function frame(opcode: number, payload: Uint8Array, { fin = true, masked = true, rsv = 0, claim = payload.length } = {}): Buffer {
  const length =
    claim < 126
      ? [claim]
      : claim < 65_536
        ? [126, claim >> 8, claim & 255]
        : [127, 0, 0, 0, 0, (claim >>> 24) & 255, (claim >> 16) & 255, (claim >> 8) & 255, claim & 255]
  const head = Buffer.from([(fin ? 128 : 0) | (rsv << 4) | opcode, (masked ? 128 : 0) | length[0]!, ...length.slice(1)])
  if (!masked) return Buffer.concat([head, payload])
  const mask = randomBytes(4)
  return Buffer.concat([head, mask, payload.map((byte, i) => byte ^ mask[i % 4]!)])
}

async function rawSocket(port: number, key: string): Promise<Plain> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => undefined)
  socket.write(
    `GET /v1/ws HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${key}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${randomBytes(16).toString('base64')}\r\n\r\n`,
  )
  await new Promise((done) => socket.once('data', done))
  socket.resume()
  return socket
}

test('a frame that comes a byte at a time is not waited for: who cannot answer a ping is ended', async (t) => {
  const world = await liveWorld(t, { bounds: { beatMs: 60 } })
  const { key } = await world.keyOf('alice')
  const socket = await rawSocket(world.port, key)
  const bytes = frame(1, Buffer.alloc(10_000, 32))
  let at = 0
  const drip = setInterval(() => void (socket.writable && socket.write(bytes.subarray(at, ++at))), 10)
  const began = performance.now()
  // However it is ended: what was still on its way may come back as a reset.
  await new Promise((done) => socket.once('close', done))
  clearInterval(drip)
  assert.ok(at > 3 && at < 1_000, `${at} bytes were sent`)
  assert.ok(performance.now() - began < SOON_MS)
})

test('twenty thousand malformed frames crash nothing, leave nothing in the log, hold no memory, and others go on', async (t) => {
  const world = await liveWorld(t, { bounds: { commandsPerMinute: 1_000_000, lingerMs: 50 } })
  const { task } = await world.play(scenes['created'])
  const { key } = await world.keyOf('alice')
  const witness = await world.socket(key)
  witness.send(follow({ task_id: task.id }))
  let seed = 42
  const random = (below: number): number => (seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0) % below
  const frames = [
    JSON.stringify(follow({ task_id: task.id })),
    JSON.stringify({ unsubscribe: { id: '1' } }),
    '{"ticket":"cs_x"}',
    '{"subscribe":{"stream":',
    '[[[[',
    '"\\ud800"',
    '{"a":1e999}',
    '',
  ]
  const mutated = (): Uint8Array => {
    const bytes = Buffer.from(frames[random(frames.length)]!)
    for (let i = random(4); i > 0 && bytes.length > 0; i--) bytes[random(bytes.length)] = random(256)
    return random(20) === 0 ? randomBytes(random(300)) : bytes.subarray(0, random(10) === 0 ? random(bytes.length + 1) : bytes.length)
  }
  let socket: Plain | null = null
  let opened = 0
  const before = process.memoryUsage().heapUsed
  for (let sent = 0; sent < 20_000;) {
    if (socket === null || socket.destroyed || socket.readyState !== 'open') {
      socket?.destroy()
      socket = await rawSocket(world.port, key)
      opened++
    }
    const batch: Buffer[] = []
    for (const count = 1 + random(60); batch.length < count;) {
      const isOdd = random(12) === 0
      const opcode = isOdd ? random(16) : random(15) === 0 ? 9 : 1
      const odd = isOdd
        ? { fin: random(2) === 0, masked: random(8) !== 0, rsv: random(8), ...(random(6) === 0 ? { claim: random(200_000) } : {}) }
        : {}
      batch.push(frame(opcode, mutated(), odd))
    }
    socket.write(Buffer.concat(batch))
    sent += batch.length
    await new Promise(setImmediate)
  }
  socket?.destroy()
  assert.ok(opened > 100, `${opened} sockets`)
  assert.ok(process.memoryUsage().heapUsed - before < 150_000_000)
  await world.call('alice', 'collaboration/task.assign', { task_id: task.id, assignee: 'user_bob' })
  await until(() => witness.items().length === 2, 'the witness goes on')
  assert.deepEqual(world.logged, [])
  assert.equal((Object.prototype as { x?: unknown }).x, undefined)
  const metrics = async (): Promise<string> => (await fetch(`http://127.0.0.1:${world.port}/metrics`)).text()
  for (let i = 0; i < 100 && !/^countersign_streams 1$/m.test(await metrics()); i++) await pause(20)
  assert.match(await metrics(), /^countersign_streams 1$/m, 'every other stream is gone')
})
