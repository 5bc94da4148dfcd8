// HXP with everything that no honest client sends: bodies, paths, queries and headers at random, and sockets that talk nonsense, too
// slowly, or not at all. An answer in the draft's form to each, never a failure of the server's, and it continues.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { Agent } from 'node:http'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { limits } from '#kernel/limits.ts'
import { openBlobs } from '#stores/blobs/index.ts'
import { send } from '../../support/over-sockets/http-client.ts'
import { hxpWorld, QUESTION, type HxpWorld } from '../../support/over-sockets/hxp-world.ts'
import { until } from '../../support/over-sockets/live.ts'
import { mutated, numbers, type Pick } from '../../support/laws/mutations.ts'
import { SOON_MS } from '../../support/over-sockets/soon.ts'

const CASES = 20_000
const AT_ONCE = 16
const SEED = Number(process.env['FUZZ_SEED'] ?? Math.floor(Math.random() * 2 ** 31))
const STATUSES = [200, 201, 400, 401, 404, 405, 408, 409, 410, 413, 415, 422, 426, 429]

const approve = { action: 'APPROVE', payload: { item: 'Deploy', details: { to: 'production', size: 3 }, reject_requires_reason: true } }
const pattern = { pattern: '^[a-z]{1,8}$', min: 1, max: 8 }
const provide = { action: 'PROVIDE', payload: { prompt: 'A name', input_type: 'text', validation: pattern } }
const more = {
  role: 'pool',
  priority: 'high',
  timeout_seconds: 60,
  fallback: 'fail',
  agent_id: 'agent_devin',
  project_id: 'x',
  metadata: { a: [1, { b: null }] },
  tags: ['t'],
  remind_seconds: 60,
  escalate: { after_seconds: 1, to: ['user_rita'] },
}
const few = { ...QUESTION, quorum: { n: 1, of: ['user_alice', 'user_rita'] }, risk: 'R1' }

type Kind = 'agent' | 'human'
type Shape = { readonly method: string; readonly path: string; readonly who: Kind; readonly body?: unknown }

/** Every route, with what an honest client would send. */
const shapes = (id: string, rule: string, receipt: unknown): readonly Shape[] => [
  ...[QUESTION, approve, provide, few, { ...approve, ...more }].map((body) => ({
    method: 'POST',
    path: '/hxp/v1/requests',
    who: 'agent' as const,
    body,
  })),
  { method: 'GET', path: '/hxp/v1/requests?status=pending&limit=5&offset=2', who: 'agent' },
  { method: 'GET', path: `/hxp/v1/requests/${id}?wait=0`, who: 'agent' },
  { method: 'POST', path: `/hxp/v1/requests/${id}/cancel`, who: 'agent', body: { reason: 'enough' } },
  { method: 'DELETE', path: `/hxp/v1/requests/${id}`, who: 'agent' },
  { method: 'POST', path: `/hxp/v1/requests/${id}/secret`, who: 'agent' },
  ...['Approve', 'approved', 'abc', 7].map((result) => ({
    method: 'POST',
    path: `/hxp/v1/requests/${id}/resolve`,
    who: 'human' as const,
    body: { result, reason: 'so', digest: 'sha256-x' },
  })),
  { method: 'POST', path: `/hxp/v1/requests/${id}/resolve`, who: 'human', body: { result: 'Deny' } },
  { method: 'POST', path: `/hxp/v1/requests/${id}/files?name=a.txt`, who: 'human', body: { not: 'a file' } },
  { method: 'GET', path: '/hxp/v1/inbox?status=pending&priority=high&limit=3', who: 'human' },
  { method: 'GET', path: '/hxp/v1/delegation/rules', who: 'human' },
  { method: 'POST', path: '/hxp/v1/delegation/rules', who: 'human', body: { action: 'APPROVE', tag: 'x', delegate_to: 'user_bob' } },
  { method: 'PUT', path: '/hxp/v1/delegation/rules', who: 'human', body: { order: [rule] } },
  { method: 'DELETE', path: `/hxp/v1/delegation/rules/${rule}`, who: 'human' },
  { method: 'GET', path: '/hxp/v1/stats?agent_id=agent_devin', who: 'agent' },
  { method: 'POST', path: '/hxp/v1/receipts/verify', who: 'human', body: { receipt } },
  { method: 'GET', path: '/hxp', who: 'agent' },
  { method: 'GET', path: `/hxp/ws/${id}`, who: 'agent' },
]

const printable = (bytes: Buffer): string => bytes.toString('latin1').replaceAll(/[^!-~]/g, '%')

function bodyFrom(honest: unknown, pick: Pick): Buffer {
  const text = JSON.stringify(honest)
  const kind = pick(40)
  if (kind < 14) return Buffer.from(text)
  if (kind === 14) return Buffer.from(Array.from({ length: pick(300) }, () => pick(256)))
  if (kind === 15) return Buffer.from(['[', '{"a":', '"\\ud800', '[[],'][pick(4)]!.repeat(pick(2_000)))
  if (kind === 16 && pick(4) === 0) return Buffer.alloc(limits.bodyBytesMax + 1 + pick(1_000), 32)
  if (kind === 17)
    return Buffer.from(text.replaceAll(/"[^"]{3,}"/g, () => ['null', '1e300', '-1', '[]', '{}', '"\\u202e"', '""'][pick(7)]!))
  return mutated(text, pick)
}

function headersFrom(key: string, pick: Pick): Record<string, string> {
  const kind = pick(50)
  return {
    ...(kind === 0 ? {} : { authorization: kind === 1 ? `Bearer ${printable(mutated(key, pick))}` : `Bearer ${key}` }),
    ...(kind === 2 ? {} : { 'content-type': kind === 3 ? ['text/plain', 'application/jsonx'][pick(2)]! : 'application/json' }),
    ...(pick(8) === 0 ? { 'idempotency-key': pick(6) === 0 ? printable(Buffer.from('x'.repeat(pick(300)))) : `key-${pick(200)}` } : {}),
    ...(pick(8) === 0 ? { 'transfer-encoding': 'chunked' } : {}),
    ...(kind === 4 ? { 'x-api-key': key, cookie: '__Host-session=x', 'hxp-status': 'completed' } : {}),
  }
}

test(`${CASES} calls of every kind: no crash, no 5xx, every error in the draft's form, bounded memory (seed ${SEED})`, async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-fuzz-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const blobs = await openBlobs(folder, { fatal: (error) => assert.fail(String(error)) })
  const world = await hxpWorld(t, { blobs, http: { bytes: { blobs, bytesMax: 100_000 } } })
  const agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE })
  t.after(() => agent.destroy())
  const pick = numbers(SEED)
  const ids = await Promise.all(Array.from({ length: 40 }, async () => (await world.ask()).request_id as string))
  const { receipt } = (await world.resolve(ids[0]!, 'Approve')).json
  const rule = (await world.http('alice', 'POST', '/delegation/rules', { delegate_to: 'user_rita', tag: 'a' })).json.rule.id as string
  const people = ['alice', 'alice', 'alice', 'rita', 'bob', 'mallory', 'owner'] as const
  const agents = ['devin', 'devin', 'devin', 'robin', 'spy', 'project'] as const
  const seen = new Map<number, number>()

  async function one(): Promise<void> {
    const all = shapes(ids[pick(ids.length)]!, rule, receipt)
    const { method, path, who, body } = all[pick(all.length)]!
    const isSwapped = pick(20) === 0
    const names = (who === 'human') !== isSwapped ? people : agents
    const key = world.keys[names[pick(names.length)]!]
    const where = pick(5) === 0 ? `/hxp${printable(mutated(path, pick)).replace(/^\/hxp|wait/g, '')}` : path
    const verb = pick(25) === 0 ? ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'HEAD', 'OPTIONS'][pick(7)]! : method
    const bytes = body === undefined ? undefined : bodyFrom(body, pick)
    const headers = headersFrom(key, pick)
    // Node's client would send what belongs to a GET without saying how much it is.
    if (bytes !== undefined && headers['transfer-encoding'] === undefined) headers['content-length'] = String(bytes.length)
    const answer = await send(world.port, where, { method: verb, headers, agent, ...(bytes === undefined ? {} : { body: bytes }) })
    const said = `${verb} ${where} ${JSON.stringify(headers)} ${bytes?.subarray(0, 300).toString('latin1')} (seed ${SEED}): ${answer.text.slice(0, 300)}`
    seen.set(answer.status, (seen.get(answer.status) ?? 0) + 1)
    assert.ok(STATUSES.includes(answer.status), `${answer.status}: ${said}`)
    if (verb !== 'HEAD' && answer.status >= 400 && where.startsWith('/hxp/'))
      assert.deepEqual(Object.keys(answer.json ?? {}), ['error', 'message', 'details'], said)
    if (answer.status === 201 && typeof answer.json?.request_id === 'string') ids[pick(ids.length)] = answer.json.request_id
    if (pick(20) === 0) world.advance(1_000)
  }

  const before = process.memoryUsage().heapUsed
  for (let done = 0; done < CASES; done += AT_ONCE) await Promise.all(Array.from({ length: AT_ONCE }, one))
  assert.ok(process.memoryUsage().heapUsed - before < 200_000_000, 'what was sent is not kept')
  assert.deepEqual(world.logged, [])
  // A fuzzer that only ever meets the first door tests only that door.
  for (const status of [200, 201, 400, 401, 404, 405, 409, 415, 422])
    assert.ok((seen.get(status) ?? 0) >= 20, `${status} was met: ${JSON.stringify([...seen])} (seed ${SEED})`)
  await assertWell(world)
})

async function assertWell(world: HxpWorld): Promise<void> {
  world.advance(3_600_000)
  const asked = await world.http('robin', 'POST', '/requests', QUESTION)
  assert.equal(asked.status, 201, asked.text)
  assert.equal((await world.resolve(asked.json.request_id as string, 'Deny', {}, 'owner')).status, 200)
  assert.equal((await world.call('admin', 'collaboration/audit.verify')).valid, true)
  assert.equal(({} as { polluted?: unknown }).polluted, undefined)
}

// --- Sockets --------------------------------------------------------------------------------------------------------------------

const handshake = (path: string, headers: Readonly<Record<string, string>>): string =>
  [
    `GET ${path} HTTP/1.1`,
    ...Object.entries({
      host: '127.0.0.1',
      upgrade: 'websocket',
      connection: 'Upgrade',
      'sec-websocket-version': '13',
      'sec-websocket-key': randomBytes(16).toString('base64'),
      ...headers,
    }).map(([name, value]) => `${name}: ${value}`),
    '',
    '',
  ].join('\r\n')

type Rude = { readonly socket: Socket; said(): string; readonly closed: Promise<void> }
function rude(port: number, bytes: string | Uint8Array): Rude {
  const socket = connect(port, '127.0.0.1', () => socket.write(bytes))
  let text = ''
  socket.on('error', () => undefined).on('data', (part: Buffer) => (text = (text + part.toString('latin1')).slice(0, 2_000)))
  socket.on('end', () => socket.end())
  return { socket, said: () => text, closed: new Promise((done) => socket.once('close', () => done())) }
}

test(`500 sockets that talk nonsense: each is refused or closed, and who listens honestly hears it all (seed ${SEED})`, async (t) => {
  const bounds = { recheckMs: 50, lingerMs: 100, beatMs: 300, commandsPerMinute: 20 }
  const world = await hxpWorld(t, { http: { live: { bounds } } })
  const pick = numbers(SEED)
  const { request_id, ws_url } = await world.ask()
  const foreign = (await world.ask('robin')).request_id as string
  const good = await world.listen(`/hxp/ws/${request_id}`, 'devin')
  const bearer = { authorization: `Bearer ${world.keys.devin}` }
  const ticket = new URL(ws_url as string)
  const spent = await world.listen(ws_url as string, null)
  const path = `/hxp/ws/${request_id}`
  /** The words it opens with, and the words that must be said to it; null: any. */
  const openings: readonly (() => [string, RegExp | null])[] = [
    () => [handshake(path, bearer), /^HTTP\/1\.1 101 /],
    () => [handshake(path, bearer), /^HTTP\/1\.1 101 /],
    () => [handshake(`/hxp/ws?request_id=${request_id}`, bearer), /^HTTP\/1\.1 101 /],
    () => [handshake(path, { ...bearer, origin: 'https://evil.example.com' }), /^HTTP\/1\.1 403 /],
    () => [handshake(path, { ...bearer, origin: 'null' }), /^HTTP\/1\.1 403 /],
    () => [handshake(`${ticket.pathname}${ticket.search}`, {}), /^HTTP\/1\.1 401 /],
    () => [handshake(`/hxp/ws/${foreign}`, bearer), /^HTTP\/1\.1 404 /],
    () => [handshake(`/hxp/ws/${foreign}${ticket.search}`, {}), /^HTTP\/1\.1 401 /],
    () => [handshake(path, { cookie: `__Host-session=${world.keys.alice}` }), /^HTTP\/1\.1 401 /],
    () => [handshake(path, { ...bearer, 'sec-websocket-key': 'x'.repeat(pick(40)) }), /^HTTP\/1\.1 (400|101) /],
    () => [handshake(path, { ...bearer, 'sec-websocket-version': String(pick(99)) }), null],
    () => [mutated(handshake(path, bearer), pick).toString('latin1'), null],
  ]
  const clients = Array.from({ length: 500 }, () => {
    const [first, expected] = openings[pick(openings.length)]!()
    const client = rude(world.port, Buffer.from(first, 'latin1'))
    return { ...client, first, expected }
  })
  for (const { said, expected, first } of clients) {
    if (expected === null) continue
    await until(() => said() !== '', first)
    assert.match(said(), expected, first)
  }
  // Frames at random, one of them or many.
  for (const { socket } of clients) if (!socket.destroyed) socket.write(Buffer.from(Array.from({ length: 1 + pick(200) }, () => pick(256))))
  await Promise.all(clients.map(async ({ socket, closed }) => setTimeout(() => socket.end(), 1_500) && closed))
  for (const { said } of clients) assert.doesNotMatch(said(), /^HTTP\/1\.1 5(?!03)/)
  assert.ok(!good.isOver())
  const { receipt } = (await world.resolve(request_id, 'Approve')).json
  for (const { heard, closed } of [good, spent]) {
    assert.equal((await closed()).code, 1000)
    assert.deepEqual(heard.at(-1), { event: 'completed', receipt })
  }
  assert.deepEqual(world.logged, [])
  await assertWell(world)
})

test('200 that never read and 50 that send a byte at a time delay no other client, and are closed', async (t) => {
  const world = await hxpWorld(t, { http: { live: { bounds: { recheckMs: 50, lingerMs: 100 } } } })
  const { request_id } = await world.ask()
  const bearer = { authorization: `Bearer ${world.keys.devin}` }
  const before = process.memoryUsage().rss
  const open = (): number => process.getActiveResourcesInfo().filter((what) => what === 'TCPSocketWrap').length
  const deaf = Array.from({ length: 200 }, () => {
    const client = rude(world.port, handshake(`/hxp/ws/${request_id}`, bearer))
    client.socket.once('data', () => client.socket.pause())
    return client
  })
  const slow = Array.from({ length: 50 }, () => {
    const bytes = handshake(`/hxp/ws/${request_id}`, bearer)
    const client = rude(world.port, bytes.slice(0, 1))
    let sent = 1
    const timer = setInterval(() => client.socket.writable && client.socket.write(bytes[sent++] ?? 'x'), 100)
    client.socket.once('close', () => clearInterval(timer))
    return client
  })
  const good = await world.listen(`/hxp/ws/${request_id}`, 'devin')
  const delays: number[] = []
  for (let i = 0; i < 20; i++) {
    const began = performance.now()
    const { request_id: own } = await world.ask('robin')
    assert.equal((await world.resolve(own as string, 'Deny', {}, 'owner')).status, 200)
    delays.push(performance.now() - began)
  }
  assert.ok(delays.toSorted((a, b) => a - b)[10]! < SOON_MS / 4, `half of all calls took less than ${delays[10]} ms`)
  await until(() => deaf.every(({ said }) => said() !== ''), 'all are in')
  const most = open()
  await world.resolve(request_id, 'Approve')
  assert.equal((await good.closed()).code, 1000)
  // The request has ended, and with it the server's side of their sockets; theirs are still here, for they have not read it.
  await until(() => open() <= most - deaf.length, 'all are cut')
  assert.ok(deaf.every(({ socket }) => !socket.destroyed))
  for (const { socket } of deaf) socket.destroy()
  for (const { socket } of slow) socket.destroy()
  assert.ok(process.memoryUsage().rss - before < 200_000_000)
  assert.deepEqual(world.logged, [])
})
