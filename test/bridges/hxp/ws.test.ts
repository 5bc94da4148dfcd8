// HXP over WebSocket, on real sockets: what subscribers hear, who may listen, how it ends, and what no client can do to it.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { connect, type Socket } from 'node:net'
import { test } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { bytesOf, frameOf, framesOf } from '#bridges/hxp/sockets/frames.ts'
import type { Portion } from '#bindings/live/hub.ts'
import { createTickets } from '#bridges/hxp/sockets/tickets.ts'
import { limits } from '#kernel/limits.ts'
import { eventsOf } from '#protocols/execution/answering/request-events.ts'
import type { Store } from '#kernel/log/store.ts'
import type { Request } from '#protocols/execution/schema.ts'
import { memoryStore } from '#stores/memory.ts'
import { hxpWorld, QUESTION } from '../../support/over-sockets/hxp-world.ts'
import { until } from '../../support/over-sockets/live.ts'
import { SOON_MS } from '../../support/over-sockets/soon.ts'

const eventsIn = (heard: readonly any[]): string[] => heard.map(({ event }) => event)
const refusal = async (opening: Promise<unknown>): Promise<any> =>
  opening.then(
    () => assert.fail('it was let in'),
    (error: unknown) => error,
  )
const ASSIGNED = { event: 'assigned', assigned_to: 'user_alice' }

test('a subscriber gets the claim and the decision, word for word, and then the end', async (t) => {
  const world = await hxpWorld(t)
  const { request_id } = await world.ask()
  for (const path of [`/hxp/ws/${request_id}`, `/hxp/ws?request_id=${request_id}`]) {
    const listening = await world.listen(path, 'devin')
    await until(() => listening.heard.length === 1, path)
    assert.deepEqual(listening.heard, [ASSIGNED])
    listening.ws.terminate()
  }
  const listening = await world.listen(`/hxp/ws/${request_id}`, 'devin')
  const { receipt } = (await world.resolve(request_id, 'Approve')).json
  assert.deepEqual(await listening.closed(), { code: 1000, reason: '' })
  assert.deepEqual(listening.heard, [ASSIGNED, { event: 'completed', receipt }])
  assert.deepEqual((await world.http('devin', 'GET', `/requests/${request_id}`)).json.receipt, receipt)
})

test('cancelled, failed by its deadline, taken by default, overdue on pause: each has its event', async (t) => {
  const world = await hxpWorld(t)
  const heardOf = async (more: object, end: (id: string) => Promise<unknown>) => {
    const { request_id } = await world.ask('devin', { timeout_seconds: 60, ...more })
    const listening = await world.listen(`/hxp/ws/${request_id}`, 'devin')
    await until(() => listening.heard.length === 1, 'the first event')
    await end(request_id)
    await until(() => listening.heard.length === 2, 'the second event')
    return { request_id, listening, last: listening.heard[1] }
  }
  const cancelled = await heardOf({}, (id) => world.http('devin', 'POST', `/requests/${id}/cancel`))
  assert.deepEqual([cancelled.last.event, cancelled.last.receipt.status], ['cancelled', 'cancelled'])
  const failed = await heardOf({ fallback: 'fail' }, (id) => world.expire(id))
  assert.deepEqual([failed.last.event, failed.last.receipt.status, failed.last.receipt.reason], ['expired', 'failed', 'timeout'])
  const taken = await heardOf({ fallback: 'default', payload: { ...QUESTION.payload, default_option: 'Deny' } }, (id) => world.expire(id))
  assert.deepEqual([taken.last.event, taken.last.receipt.result], ['completed', 'Deny'])
  for (const { listening } of [cancelled, failed, taken]) assert.equal((await listening.closed()).code, 1000)
  const paused = await heardOf({ fallback: 'pause' }, (id) => world.expire(id))
  assert.deepEqual(paused.last, { event: 'expired' })
  assert.ok(!paused.listening.isOver(), 'it can still be answered')
  await world.resolve(paused.request_id, 'Deny')
  assert.equal((await paused.listening.closed()).code, 1000)
  assert.deepEqual(eventsIn(paused.listening.heard), ['assigned', 'expired', 'completed'])
})

test('a late subscriber gets the stored outcome immediately', async (t) => {
  const world = await hxpWorld(t)
  const done = await world.ask()
  const { receipt } = (await world.resolve(done.request_id, 'Deny')).json
  const late = await world.listen(`/hxp/ws/${done.request_id}`, 'devin')
  assert.equal((await late.closed()).code, 1000)
  assert.deepEqual(late.heard, [{ event: 'completed', receipt }])
  const overdue = await world.ask('devin', { timeout_seconds: 60 })
  await world.expire(overdue.request_id)
  const waiting = await world.listen(`/hxp/ws/${overdue.request_id}`, 'devin')
  await until(() => waiting.heard.length === 2, 'both')
  assert.deepEqual(waiting.heard, [ASSIGNED, { event: 'expired' }])
  const lost = await world.ask('devin', { timeout_seconds: 60, fallback: 'fail' })
  await world.expire(lost.request_id)
  const after = await world.listen(`/hxp/ws/${lost.request_id}`, 'devin')
  assert.equal((await after.closed()).code, 1000)
  assert.deepEqual([after.heard.length, after.heard[0].event, after.heard[0].receipt.status], [1, 'expired', 'failed'])
})

test('every subscriber gets the outcome exactly once, however sockets and answers race', async (t) => {
  const world = await hxpWorld(t)
  const ids = await Promise.all(Array.from({ length: 40 }, async () => (await world.ask()).request_id as string))
  const opening = ids.flatMap((id) => [1, 2, 3].map(() => world.listen(`/hxp/ws/${id}`, 'devin')))
  const answers = ids.map((id) => world.resolve(id, 'Approve'))
  for (const listening of await Promise.all(opening)) {
    assert.equal((await listening.closed()).code, 1000)
    const events = eventsIn(listening.heard)
    assert.deepEqual(events.filter((event) => event === 'completed').length, 1, String(events))
    assert.equal(events.at(-1), 'completed')
    assert.ok(events.length <= 2)
  }
  await Promise.all(answers)
})

test('an attempt by a stranger reaches no subscriber, and every later event does', async (t) => {
  const bugs: unknown[] = []
  const world = await hxpWorld(t, { store: memoryStore({ bug: (error) => bugs.push(error) }) })
  const { request_id } = await world.ask()
  const listening = await world.listen(`/hxp/ws/${request_id}`, 'devin')
  await until(() => listening.heard.length === 1, 'the first event')
  assert.equal((await world.http('spy', 'GET', `/requests/${request_id}`)).status, 404)
  assert.equal(world.kernel.stats().denials, 1)
  for (const text of ['One?', 'Two?', 'Three?']) {
    await world.call('alice', 'execution/request.question', { request_id, text })
    await world.call('devin', 'execution/request.reply', { request_id, text: 'Yes.' })
  }
  await until(() => listening.heard.length === 7, 'all of it')
  assert.deepEqual(
    listening.heard.slice(1).map(({ event, text }) => `${event} ${text}`),
    ['question One?', 'reply Yes.', 'question Two?', 'reply Yes.', 'question Three?', 'reply Yes.'],
  )
  assert.deepEqual(bugs, [])
})

test('many subscribers of one request hear the same bytes', async (t) => {
  const world = await hxpWorld(t)
  const { request_id } = await world.ask()
  const listening = await Promise.all(
    Array.from({ length: 100 }, (_, i) => world.listen(`/hxp/ws/${request_id}`, i % 2 ? 'devin' : 'alice')),
  )
  await until(() => listening.every(({ heard }) => heard.length === 1), 'all are in')
  await world.resolve(request_id, 'Approve')
  await Promise.all(listening.map(({ closed }) => closed()))
  assert.equal(new Set(listening.map(({ heard }) => JSON.stringify(heard))).size, 1)
})

test('a claim, more time, a question and its reply arrive as they happen; a subscriber that loses access is disconnected', async (t) => {
  const world = await hxpWorld(t)
  const { request_id } = await world.ask('devin', { role: 'pool', timeout_seconds: 3_600 })
  const call = (as: string, name: string, input: object = {}) => world.call(as, `execution/request.${name}`, { request_id, ...input })
  const agent = await world.listen(`/hxp/ws/${request_id}`, 'devin')
  const alice = await world.listen(`/hxp/ws/${request_id}`, 'alice')
  const rita = await world.listen(`/hxp/ws/${request_id}`, 'rita')
  await until(() => world.kernel.stats().waiting === 0, 'a turn')
  await call('bob', 'claim')
  assert.equal((await rita.closed()).code, 4403, 'what somebody has claimed is nobody else’s')
  await call('bob', 'question', { text: 'Which account?' })
  await call('devin', 'reply', { text: 'The second.' })
  await call('bob', 'release')
  await until(() => agent.heard.length === 4, 'four events')
  const shown = agent.heard.map(({ at: _, ...event }) => event)
  assert.deepEqual(shown, [
    { event: 'assigned', assigned_to: null },
    { event: 'question', text: 'Which account?' },
    { event: 'reply', text: 'The second.' },
    { event: 'released' },
  ])
  await until(() => alice.heard.length === 4, 'the same for the owner')
  assert.deepEqual(alice.heard[0], { event: 'assigned', assigned_to: 'user_bob' })
  const { receipt } = (await world.resolve(request_id, 'Approve', {}, 'rita')).json
  assert.equal((await agent.closed()).code, 1000)
  assert.deepEqual(agent.heard.at(-1), { event: 'completed', receipt })
  assert.match(receipt.completed_by, /^person_/)
})

// --- Who may listen ---------------------------------------------------------------------------------------------------------

test('ws_url lets its bearer in, once, and only to this request', async (t) => {
  const world = await hxpWorld(t)
  const { ws_url, request_id } = await world.ask()
  const other = await world.ask()
  const listening = await world.listen(ws_url, null)
  await until(() => listening.heard.length === 1, 'the event')
  assert.equal((await refusal(world.listen(ws_url, null))).status, 401, 'a second time')
  const swapped = other.ws_url.replace(other.request_id, request_id)
  assert.equal((await refusal(world.listen(swapped, null))).status, 401, 'for another request')
  assert.equal((await refusal(world.listen(other.ws_url, null))).status, 401, 'what was tried is used up')
  const third = await world.ask()
  world.advance(limits.bridgeTicketMs + 1)
  assert.equal((await refusal(world.listen(third.ws_url, null))).status, 401, 'after its time')
  assert.equal((await world.listen(`/hxp/ws/${third.request_id}`, 'devin')).isOver(), false, 'a key is always good')
})

test('tickets are bounded: the oldest go first', () => {
  const tickets = createTickets(() => 0)
  const credential = { kind: 'bearer', token: 'x' } as const
  const first = tickets.issue('hxp_1', credential)
  for (let i = 0; i < limits.bridgeTicketsMax / 2; i++) tickets.issue('hxp_1', credential)
  const later = tickets.issue('hxp_1', credential)
  for (let i = 0; i < limits.bridgeTicketsMax / 2; i++) tickets.issue('hxp_1', credential)
  assert.equal(tickets.redeem(first, 'hxp_1'), null)
  assert.equal(tickets.redeem(later, 'hxp_1'), credential)
  assert.equal(tickets.redeem(later, 'hxp_1'), null, 'once')
})

test('a page comes with a ticket of its own', async (t) => {
  const world = await hxpWorld(t)
  const { request_id } = await world.ask()
  const { ticket } = await world.call('alice', 'identity/ticket.issue')
  const path = `/hxp/ws/${request_id}?ticket=${encodeURIComponent(ticket)}`
  const listening = await world.listen(path, null)
  await until(() => listening.heard.length === 1, 'the event')
  assert.equal((await refusal(world.listen(path, null))).status, 401)
})

test('refused before there is a socket, in JSON: no credential, a wrong one, another’s request, a foreign page', async (t) => {
  const world = await hxpWorld(t, { http: { live: { origins: ['https://desk.example.com'] } } })
  const { request_id } = await world.ask()
  const path = `/hxp/ws/${request_id}`
  const refused: [string, Promise<unknown>, number][] = [
    ['no credential', world.listen(path, null), 401],
    ['a wrong key', world.listen(path, 'dev-agent-key'), 401],
    ['a wrong ticket', world.listen(`${path}?ticket=nonsense`, null), 401],
    ['another agent', world.listen(path, 'robin'), 404],
    ['another project', world.listen(path, 'spy'), 404],
    ['a person whom it does not concern', world.listen(path, 'bob'), 404],
    ['nothing there', world.listen('/hxp/ws/hxp_01M7GMWX16CYD5TMA0423FKEE4', 'devin'), 404],
    ['no id', world.listen('/hxp/ws', 'devin'), 400],
    ['a foreign page', world.listen(path, 'devin', { headers: { origin: 'https://evil.example.com' } }), 403],
    ['a foreign host', world.listen(path, 'devin', { headers: { host: 'evil.example.com' } }), 421],
  ]
  for (const [name, opening, status] of refused) {
    const error = await refusal(opening)
    assert.equal(error.status, status, `${name}: ${error.message}`)
    assert.match(error.type, /^application\/json/)
    assert.deepEqual(Object.keys(JSON.parse(error.text)), ['error', 'message', 'details'], name)
  }
  await world.listen(path, 'devin', { headers: { origin: 'https://desk.example.com' } })
  await world.listen(path, 'devin', { headers: { origin: `http://127.0.0.1:${world.port}` } })
  const plain = await world.http('devin', 'GET', path)
  assert.deepEqual([plain.status, plain.json.error, plain.headers['upgrade']], [426, 'upgrade_required', 'websocket'])
})

test('a listener whose key was revoked is closed and hears nothing any more', async (t) => {
  const world = await hxpWorld(t)
  const { request_id, ws_url } = await world.ask()
  const byKey = await world.listen(`/hxp/ws/${request_id}`, 'devin')
  const byTicket = await world.listen(ws_url, null)
  const alice = await world.listen(`/hxp/ws/${request_id}`, 'alice')
  await until(() => [byKey, byTicket, alice].every(({ heard }) => heard.length === 1), 'all are in')
  await world.call('system', 'identity/key.revoke', { key_id: world.keyIds['devin']! })
  const began = performance.now()
  for (const listening of [byKey, byTicket]) assert.equal((await listening.closed()).code, 4401)
  assert.ok(performance.now() - began < SOON_MS)
  await world.resolve(request_id, 'Approve')
  assert.equal((await alice.closed()).code, 1000)
  assert.deepEqual([byKey.heard.length, byTicket.heard.length, alice.heard.length], [1, 1, 2])
})

test('a revoked credential gets nothing, even if its socket was slow to open', async (t) => {
  const store = memoryStore()
  let slowMs = 0
  const slow: Store = {
    ...store,
    peek: () => undefined,
    async read(keys) {
      if (slowMs > 0) await setTimeout(slowMs)
      return store.read(keys)
    },
  }
  // Credentials are looked at again and again while the socket opens.
  const world = await hxpWorld(t, { store: slow, http: { live: { bounds: { recheckMs: 1 } } } })
  const { request_id } = await world.ask()
  slowMs = 20
  const listening = await world.listen(`/hxp/ws/${request_id}`, 'devin')
  slowMs = 0
  await world.call('system', 'identity/key.revoke', { key_id: world.keyIds['devin']! })
  const isLeft = await Promise.race([listening.closed().then(({ code }) => code), setTimeout(1_000, 'it still listens')])
  assert.equal(isLeft, 4401)
})

// --- Clients that misbehave ---------------------------------------------------------------------------------------------------

async function rawSocket(port: number, path: string, key: string): Promise<{ socket: Socket; first: string }> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => undefined)
  socket.write(
    `GET ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer ${key}\r\nupgrade: websocket\r\nconnection: Upgrade\r\n` +
      `sec-websocket-version: 13\r\nsec-websocket-key: ${randomBytes(16).toString('base64')}\r\n\r\n`,
  )
  const first = await new Promise<string>((done) => socket.once('data', (data) => done(data.toString('latin1'))))
  return { socket, first }
}

test('malformed frames, unmasked ones, binary ones and floods are cut; the others hear on', async (t) => {
  const world = await hxpWorld(t, { http: { live: { bounds: { commandsPerMinute: 20, recheckMs: 50, lingerMs: 100 } } } })
  const { request_id } = await world.ask()
  const path = `/hxp/ws/${request_id}`
  const good = await world.listen(path, 'devin')
  const bad: [string, Buffer][] = [
    ['an opcode that there is not', Buffer.from([0x83, 0x80, 0, 0, 0, 0])],
    ['a frame without a mask', Buffer.from([0x81, 0x02, 0x68, 0x69])],
    ['a reserved bit', Buffer.from([0xc1, 0x80, 0, 0, 0, 0])],
    ['one that is too long', Buffer.from([0x81, 0xff, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0])],
    ['bytes that are no text', Buffer.from([0x81, 0x81, 0, 0, 0, 0, 0xff])],
    ['a binary one', Buffer.from([0x82, 0x81, 0, 0, 0, 0, 0x01])],
    ['a flood', Buffer.concat(Array.from({ length: 30 }, () => Buffer.from([0x81, 0x81, 0, 0, 0, 0, 0x61])))],
  ]
  for (const [name, bytes] of bad) {
    const { socket, first } = await rawSocket(world.port, path, world.keys.devin)
    assert.match(first, /^HTTP\/1\.1 101 /, name)
    const closed = new Promise((done) => socket.once('close', done))
    socket.on('data', () => undefined)
    socket.on('end', () => socket.end())
    socket.write(bytes)
    await closed
  }
  const handshake = await rawSocket(world.port, path, world.keys.devin)
  handshake.socket.destroy()
  good.ws.send('ping')
  await world.resolve(request_id, 'Approve')
  assert.equal((await good.closed()).code, 1000, 'a word is not held against anybody')
  assert.deepEqual(world.logged, [])
})

test('a handshake that is none is refused in JSON', async (t) => {
  const world = await hxpWorld(t)
  const { request_id } = await world.ask()
  const socket = connect(world.port, '127.0.0.1')
  socket.write(
    `GET /hxp/ws/${request_id} HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer ${world.keys.devin}\r\nupgrade: websocket\r\nconnection: Upgrade\r\nsec-websocket-version: 13\r\n\r\n`,
  )
  const said = await new Promise<string>((done) => socket.once('data', (data) => done(data.toString())))
  assert.match(said, /^HTTP\/1\.1 400 [^]*application\/json[^]*"invalid_request"/)
  socket.destroy()
})

test('a socket that does not answer pings is dead', async (t) => {
  const world = await hxpWorld(t, { http: { live: { bounds: { beatMs: 60, recheckMs: 50 } } } })
  const { request_id } = await world.ask()
  const alive = await world.listen(`/hxp/ws/${request_id}`, 'devin')
  const { socket } = await rawSocket(world.port, `/hxp/ws/${request_id}`, world.keys.devin)
  socket.on('data', () => undefined)
  await new Promise((done) => socket.once('close', done))
  assert.ok(!alive.isOver())
})

test('a client that does not read is disconnected, and no other client waits for it', async (t) => {
  const world = await hxpWorld(t, { http: { live: { bounds: { unsentBytes: 64, recheckMs: 50, lingerMs: 50 } } } })
  const { request_id } = await world.ask()
  const { socket } = await rawSocket(world.port, `/hxp/ws/${request_id}`, world.keys.devin)
  // The receipt alone is more than may wait for anybody here.
  const said: Buffer[] = []
  socket.on('data', (part: Buffer) => said.push(part))
  const closed = new Promise((done) => socket.once('close', done))
  await world.resolve(request_id, 'Approve')
  await closed
  assert.ok(!Buffer.concat(said).toString().includes('completed'))
})

test('sockets are bounded, and a stop ends them all', async (t) => {
  const world = await hxpWorld(t, { http: { live: { bounds: { sockets: 2, recheckMs: 50 } } } })
  const { request_id } = await world.ask()
  const both = await Promise.all([1, 2].map(() => world.listen(`/hxp/ws/${request_id}`, 'devin')))
  const third = await refusal(world.listen(`/hxp/ws/${request_id}`, 'devin'))
  assert.equal(third.status, 503)
  await world.stop()
  for (const listening of both) assert.equal((await listening.closed()).code, 1001)
})

// --- What there is to hear ------------------------------------------------------------------------------------------------------

const request = {
  id: 'hxp_1',
  role: 'pool',
  status: 'pending',
  assigned_to: null,
  overdue: false,
  expires_at: null,
} as unknown as Request

test('people hear what an agent replies as every surface shows it, the agent as it is', () => {
  const remarks = [
    { by: 'user_bob', kind: 'question', text: 'Which?', at: 'now' },
    { by: 'agent_devin', kind: 'reply', text: 'kcab\u202E', at: 'now' },
  ] as const
  const asked = { role: 'owner', assigned_to: 'user_bob', expires_at: null, thread: [remarks[0]] } as unknown as Request
  const heardBy = (listening: 'agent' | 'person'): string => framesOf(asked, { ...asked, thread: [...remarks] }, null, listening).toString()
  assert.match(heardBy('agent'), /kcab\u202E/)
  assert.match(heardBy('person'), /kcab\\\\u\{202E\}/)
})

test('a claim, a release, a question, a reply and more time are heard; in a pool an agent hears no name', () => {
  const claimed: Request = { ...request, status: 'assigned', assigned_to: 'user_bob' }
  assert.deepEqual(eventsOf(request, claimed, 'person'), [{ event: 'assigned', assigned_to: 'user_bob' }])
  assert.deepEqual(eventsOf(request, claimed, 'agent'), [{ event: 'assigned', assigned_to: null }])
  assert.deepEqual(eventsOf(claimed, request, 'agent'), [{ event: 'released' }])
  const question = { by: 'user_bob', kind: 'question', text: 'Which account?', at: 'now' } as const
  const reply = { by: 'agent_devin', kind: 'reply', text: 'The second.', at: 'later' } as const
  const asked: Request = { ...claimed, thread: [question] }
  const replied: Request = { ...claimed, thread: [question, reply] }
  assert.deepEqual(eventsOf(claimed, asked, 'agent'), [{ event: 'question', text: 'Which account?', at: 'now' }])
  assert.deepEqual(eventsOf(asked, replied, 'agent'), [{ event: 'reply', text: 'The second.', at: 'later' }])
  assert.deepEqual(eventsIn(eventsOf(null, asked, 'agent')), ['assigned', 'question'], 'an open question is told to who comes late')
  assert.deepEqual(eventsIn(eventsOf(null, replied, 'agent')), ['assigned'])
  assert.deepEqual(eventsOf(request, { ...request, expires_at: '2026-01-02T00:00:00.000Z' }, 'agent'), [
    { event: 'extended', expires_at: '2026-01-02T00:00:00.000Z' },
  ])
  assert.deepEqual(eventsOf(request, request, 'agent'), [])
})

test('many events of one turn are one piece of bytes, each a frame of its own, made once for all who hear it alike', () => {
  const claimed: Request = { ...request, status: 'assigned', assigned_to: 'user_bob' }
  const states = [request, claimed, request, claimed]
  const entries = states.slice(1).map((after, i) => {
    const key = 'execution.request/hxp_1'
    const image = { key, version: i + 2, text: JSON.stringify(after), before: JSON.stringify(states[i]) }
    return { fact: { line: JSON.stringify({ action: 'execution/request.changed', subject: key }), images: [image] } }
  })
  const portion = { entries, memo: new Map() } as unknown as Portion
  const text = (assigned_to: string | null): Buffer => {
    const assigned = frameOf({ event: 'assigned', assigned_to })
    return Buffer.concat([assigned, frameOf({ event: 'released' }), assigned])
  }
  assert.deepEqual(bytesOf(portion, 'agent'), text(null))
  assert.deepEqual(bytesOf(portion, 'person'), text('user_bob'))
  assert.equal(bytesOf(portion, 'agent'), bytesOf(portion, 'agent'))
})

test('frames have the three lengths of the standard', () => {
  const lengthOf = (chars: number): [number, Buffer] => {
    const frame = frameOf({ event: 'x'.repeat(chars) })
    return [frame.length, frame.subarray(0, 10)]
  }
  const around = '{"event":""}'.length
  assert.deepEqual(lengthOf(0), [2 + around, Buffer.from('\x81\x0c{"event"', 'latin1')])
  assert.equal(frameOf({ event: 'x'.repeat(125 - around) })[1], 125)
  const [middle, head] = lengthOf(126 - around)
  assert.deepEqual([middle, [...head.subarray(0, 4)]], [4 + 126, [0x81, 126, 0, 126]])
  const [long, longHead] = lengthOf(65_536 - around)
  assert.deepEqual([long, [...longHead]], [10 + 65_536, [0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]])
})
