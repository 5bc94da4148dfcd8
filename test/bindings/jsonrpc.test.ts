// The JSON-RPC binding on real sockets: envelopes, batches, credentials, streams, every bound and every way to be rude.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { PassThrough } from 'node:stream'
import { test, type TestContext } from 'node:test'
import { createJsonRpc, type JsonRpcBounds } from '#bindings/jsonrpc/index.ts'
import type { Actor } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { scenes } from '#protocols/collaboration/examples.ts'
import { memoryStore } from '#stores/memory.ts'
import { mutated, numbers, type Pick } from '../support/laws/mutations.ts'
import { rpcClient, serveRpc, type RpcClient } from '../support/over-sockets/rpc.ts'
import { createWorld } from '../support/in-process/world.ts'
import { createGate, toyKernel, toyKeys, type Gate } from '../support/in-process/toy.ts'

type Toy = {
  readonly path: string
  readonly keys: Map<string, Actor>
  readonly logged: string[]
  stop(): Promise<void>
  client(token?: string): Promise<RpcClient>
}

async function toy(t: TestContext, bounds: Partial<JsonRpcBounds> = {}, gate?: Promise<void> | Gate, asksPerMinute = 1): Promise<Toy> {
  const { keys, authenticate } = toyKeys()
  const kernel = toyKernel(memoryStore(), { ...(gate ? { gate } : {}), asksPerMinute })
  const { path, server, logged } = await serveRpc(t, kernel, authenticate, bounds)
  const clients: RpcClient[] = []
  t.after(() => clients.forEach(({ socket }) => socket.destroy()))
  return {
    path,
    keys,
    logged,
    stop: server.stop,
    async client(token) {
      const made = await rpcClient(path, token)
      clients.push(made)
      return made
    },
  }
}

function assertError(message: any, code: number, name: string, pattern?: RegExp): void {
  assert.deepEqual(Object.keys(message), ['jsonrpc', 'id', 'error'])
  assert.deepEqual([message.error.code, message.error.data.code], [code, name], JSON.stringify(message))
  assert.deepEqual(Object.keys(message.error.data), ['code', 'fault', 'details'])
  if (pattern) assert.match(message.error.message, pattern)
}

test('a call is one line and its answer is one line, byte for byte', async (t) => {
  const { path } = await toy(t)
  const socket = connect(path)
  const chunks: Buffer[] = []
  socket.on('data', (chunk: Buffer) => chunks.push(chunk))
  socket.end(
    '{"jsonrpc":"2.0","id":1,"method":"rpc.authenticate","params":{"token":"key-alice"}}\n' +
      '{"jsonrpc":"2.0","id":"é","method":"toy/note.write","params":{"id":"one","text":"hello"}}\r\n\n',
  )
  await once(socket, 'close')
  assert.deepEqual(Buffer.concat(chunks).toString().split('\n'), [
    '{"jsonrpc":"2.0","id":1,"result":{"actor":{"id":"user_alice","kind":"human"}}}',
    '{"jsonrpc":"2.0","id":"é","result":{"note":{"id":"one","text":"hello","times":1}}}',
    '',
  ])
})

test('every class of refusal has its code, and an error always has the same shape', async (t) => {
  const { client, logged } = await toy(t)
  const alice = await client('key-alice')
  const devin = await client('key-devin')
  await alice.call('toy/note.write', { id: 'one' })
  assertError(await alice.call('toy/note.write', { id: 7 }), -32_602, 'INVALID_REQUEST', /id/)
  assertError(await alice.call('toy/note.write'), -32_602, 'INVALID_REQUEST', /id is required/)
  assertError(await alice.call('toy/note.write', ['one']), -32_602, 'INVALID_REQUEST', /not an array/)
  assertError(await alice.call('toy/note.keep', { id: 'one' }), -32_000, 'UNAUTHORIZED')
  assertError(await alice.call('toy/note.get', { id: 'none' }), -32_000, 'NOT_FOUND')
  assertError(await alice.call('toy/note.burn', { id: 'one' }), -32_000, 'NOTE_GONE')
  for (const method of ['toy/none', 'note.get', 'rpc.none', '', '__proto__', 'toString'])
    assertError(await alice.call(method, {}), -32_601, 'NOT_FOUND', /there is no method/)
  await devin.call('toy/note.ask', { id: 'two' })
  const asked = await devin.call('toy/note.ask', { id: 'two' })
  assertError(asked, -32_000, 'QUOTA_EXCEEDED')
  assert.deepEqual(asked.error.data, { code: 'QUOTA_EXCEEDED', fault: 'quota', details: { retry_after: 60 } })
  const crashed = await alice.call('toy/note.crash', { id: 'one' })
  assertError(crashed, -32_603, 'INTERNAL')
  assert.doesNotMatch(crashed.error.message, /trouble/)
  assert.match(logged.join(), /a call failed .*the cause of the trouble/)
})

/** Each row: a line, the code, and what the answer's id must be. */
const badLines: readonly (readonly [line: string, code: number, id?: unknown])[] = [
  ['{', -32_700],
  ['nonsense', -32_700],
  ['{"jsonrpc":"2.0","id":1,"method":"toy/note.get","method":"toy/note.write"}', -32_602, 1],
  ['{"jsonrpc":"2.0","id":"n","method":"toy/note.get","params":{"id":"\\u0000"}}', -32_602, 'n'],
  ['{"jsonrpc":"2.0","method":"toy/note.get","params":{"id":1,"id":2},"id":1.5}', -32_602, 1.5],
  ['{"jsonrpc":"2.0","id":1,"method":"toy/note.get","id":2}', -32_602],
  ['{"jsonrpc":"2.0","id":12345678901234567890,"method":"toy/note.get"}', -32_602],
  ['{"__proto__":{}}', -32_602],
  [`${'['.repeat(40)}${']'.repeat(40)}`, -32_602],
  [`[${Array.from({ length: 10_001 }, () => 1).join()}]`, -32_600],
  ['"\\ud800"', -32_602],
  ['[]', -32_600],
  ['1', -32_600],
  ['null', -32_600],
  ['"text"', -32_600],
  ['{}', -32_600],
  ['{"id":1,"method":"toy/note.get"}', -32_600, 1],
  ['{"jsonrpc":"1.0","id":"a","method":"toy/note.get"}', -32_600, 'a'],
  ['{"jsonrpc":"2.0","id":1,"method":7}', -32_600, 1],
  ['{"jsonrpc":"2.0","id":{},"method":"toy/note.get"}', -32_600],
  ['{"jsonrpc":"2.0","id":[1],"method":"toy/note.get"}', -32_600],
  ['{"jsonrpc":"2.0","id":true,"method":"toy/note.get"}', -32_600],
  ['{"jsonrpc":"2.0","id":2,"method":"toy/note.get","params":7}', -32_600, 2],
  ['{"jsonrpc":"2.0","id":2,"method":"toy/note.get","params":null}', -32_600, 2],
  ['{"jsonrpc":"2.0","id":2,"method":"toy/note.get","params":[]}', -32_602, 2],
  ['{"jsonrpc":"2.0","id":null,"method":"toy/note.get","params":{"id":7}}', -32_602, null],
]
for (const [line, code, id = null] of badLines) {
  test(`the line ${line.slice(0, 60)} is answered ${code}`, async (t) => {
    const { client } = await toy(t)
    const { write, next } = await client('key-alice')
    write(`${line}\n`)
    const [answer] = [await next()].flat()
    assert.equal(answer.error.code, code, JSON.stringify(answer))
    assert.equal(answer.id, id)
  })
}

test('invalid UTF-8 is answered, and the connection stays open', async (t) => {
  const { client } = await toy(t)
  const { write, next, call } = await client('key-alice')
  write(Uint8Array.from([34, 255, 254, 34, 10]))
  assertError(await next(), -32_700, 'INVALID_REQUEST', /UTF-8/)
  assert.ok((await call('toy/note.write', { id: 'one' })).result)
})

test('a notification is carried out and never answered', async (t) => {
  const { client } = await toy(t)
  const { write, closed, socket } = await client('key-alice')
  for (const method of ['toy/note.write', 'toy/note.keep', 'toy/none'])
    write(`${JSON.stringify({ jsonrpc: '2.0', method, params: { id: 'one' } })}\n`)
  socket.end()
  assert.deepEqual(await closed(), [])
  const after = await client('key-alice')
  assert.equal((await after.call('toy/note.get', { id: 'one' })).result.note.times, 1)
})

test('a batch is answered by one line, in its order and without its notifications', async (t) => {
  const { client } = await toy(t)
  const { write, next, closed, socket } = await client('key-alice')
  const one = (id: unknown, method: string, params: object) => ({ jsonrpc: '2.0', ...(id === undefined ? {} : { id }), method, params })
  write(
    `${JSON.stringify([one(1, 'toy/note.write', { id: 'a' }), one(undefined, 'toy/note.write', { id: 'b' }), 7, one('x', 'toy/none', {})])}\n`,
  )
  const answer = await next()
  assert.deepEqual(
    answer.map((each: any) => [each.id, each.error?.code ?? 'ok']),
    [
      [1, 'ok'],
      [null, -32_600],
      ['x', -32_601],
    ],
  )
  write(`${JSON.stringify([one(undefined, 'toy/note.write', { id: 'c' })])}\n`)
  socket.end()
  assert.deepEqual(await closed(), [])
})

test('a batch of as many calls as allowed is answered, one more is one error, and so are ten thousand', async (t) => {
  const { client } = await toy(t)
  const { write, next, call } = await client('key-alice')
  const batch = (count: number): string => `[${Array.from({ length: count }, (_, id) => `{"id":${id}}`).join()}]\n`
  write(batch(limits.batchMax))
  assert.equal((await next()).length, limits.batchMax)
  for (const count of [limits.batchMax + 1, 10_000]) {
    write(batch(count))
    assertError(await next(), -32_600, 'INVALID_REQUEST', /1 to 100 calls/)
  }
  assert.ok((await call('toy/note.write', { id: 'one' })).result)
})

test('nothing can be called without a credential, and a bad one ends the identity of the connection', async (t) => {
  const { client, keys } = await toy(t)
  const { call } = await client()
  assertError(await call('toy/note.get', { id: 'one' }), -32_000, 'UNAUTHENTICATED')
  for (const params of [{}, { token: 7 }, undefined]) assertError(await call('rpc.authenticate', params), -32_602, 'INVALID_REQUEST')
  assertError(await call('rpc.authenticate', { token: 'wrong' }), -32_000, 'UNAUTHENTICATED')
  assert.deepEqual((await call('rpc.authenticate', { token: 'key-alice' })).result, { actor: { id: 'user_alice', kind: 'human' } })
  assert.ok((await call('toy/note.write', { id: 'one' })).result)
  assertError(await call('rpc.authenticate', { token: 'wrong' }), -32_000, 'UNAUTHENTICATED')
  assertError(await call('toy/note.write', { id: 'one' }), -32_000, 'UNAUTHENTICATED')
  await call('rpc.authenticate', { token: 'key-alice' })
  assert.ok((await call('toy/note.write', { id: 'one' })).result)
  keys.delete('key-alice')
  assertError(await call('toy/note.write', { id: 'one' }), -32_000, 'UNAUTHENTICATED')
})

test('a call may carry its own credential, which counts for it alone', async (t) => {
  const { client } = await toy(t)
  const { call } = await client('key-devin')
  await call('toy/note.write', { id: 'one' })
  assertError(await call('toy/note.get', { id: 'one' }), -32_000, 'UNAUTHORIZED')
  assert.ok((await call('toy/note.get', { id: 'one', _meta: { token: 'key-alice' } })).result)
  assertError(await call('toy/note.get', { id: 'one', _meta: { token: 'wrong' } }), -32_000, 'UNAUTHENTICATED')
  assertError(await call('toy/note.get', { id: 'one' }), -32_000, 'UNAUTHORIZED')
})

test('a call right behind rpc.authenticate waits for it', async (t) => {
  const { client } = await toy(t)
  const { call } = await client()
  const [known, written] = await Promise.all([call('rpc.authenticate', { token: 'key-alice' }), call('toy/note.write', { id: 'one' })])
  assert.ok(known.result && written.result)
})

test('an idempotency key makes a repeated call one effect', async (t) => {
  const { client } = await toy(t)
  const { call } = await client('key-alice')
  const params = { id: 'one', text: 'a', _meta: { idempotency_key: 'k1' } }
  const first = await call('toy/note.write', params)
  assert.deepEqual((await call('toy/note.write', params)).result, first.result)
  assert.equal((await call('toy/note.get', { id: 'one' })).result.note.times, 1)
  assertError(await call('toy/note.write', { ...params, text: 'b' }), -32_000, 'CONFLICT')
  for (const _meta of [
    7,
    null,
    [],
    'k',
    { idempotency_key: '' },
    { idempotency_key: 'a b' },
    { idempotency_key: 7 },
    { idempotency_key: 'x'.repeat(256) },
    { token: 7 },
  ])
    assertError(await call('toy/note.write', { id: 'one', _meta }), -32_602, 'INVALID_REQUEST', /_meta/)
})

test('a line of the largest size is served, one byte more is an error and the end', async (t) => {
  const { client } = await toy(t)
  const lineOf = (size: number): string => {
    const bare = '{"jsonrpc":"2.0","id":1,"method":"toy/none","params":{"text":""}}'
    return `${bare.slice(0, -3)}${'x'.repeat(size - bare.length)}"}}\n`
  }
  const fits = await client('key-alice')
  for (const size of [limits.lineBytesMax - 1, limits.lineBytesMax]) {
    fits.write(lineOf(size))
    assertError(await fits.next(), -32_601, 'NOT_FOUND')
  }
  fits.write(lineOf(limits.lineBytesMax + 1))
  const [said, ...more] = await fits.closed()
  assertError(said, -32_600, 'TOO_LARGE', /at most 262144 bytes/)
  assert.deepEqual(more, [])
})

test('an endless line without LF is refused at the bound, however fast it comes, and holds no memory', async (t) => {
  const { client } = await toy(t)
  const { socket, closed } = await client('key-alice')
  const before = process.memoryUsage().arrayBuffers
  const chunk = Buffer.alloc(64 * 1024, 'x')
  let sent = 0
  const pour = (): void => {
    while (sent < 100_000_000 && socket.writable && socket.write(chunk)) sent += chunk.length
  }
  socket.on('drain', pour)
  pour()
  assertError((await closed())[0], -32_600, 'TOO_LARGE')
  assert.ok(process.memoryUsage().arrayBuffers - before < 40_000_000)
})

test('a line that takes too long is refused, byte by byte and with complete lines before it', async (t) => {
  const { client } = await toy(t, { lineMs: 200 })
  const { write, call, closed, socket } = await client('key-alice')
  assert.ok((await call('toy/note.write', { id: 'one' })).result)
  const drip = setInterval(() => socket.writable && write('x'), 20)
  t.after(() => clearInterval(drip))
  assertError((await closed())[0], -32_600, 'INVALID_REQUEST', /within 0\.2 s/)
})

test('an idle connection stays open once it was authenticated', async (t) => {
  const { client } = await toy(t, { lineMs: 150 })
  const known = await client('key-alice')
  const unknown = await client()
  assertError((await unknown.closed())[0], -32_600, 'INVALID_REQUEST', /the connection has not authenticated/)
  await new Promise((done) => setTimeout(done, 300))
  assert.ok((await known.call('toy/note.write', { id: 'one' })).result)
})

test('beyond the calls under way the next lines wait, and all are answered in the end', async (t) => {
  const { promise: gate, resolve: open } = Promise.withResolvers<void>()
  const { client } = await toy(t, { calls: 4, lineMs: 100 }, gate)
  const { call } = await client('key-alice')
  const held = Array.from({ length: 4 }, (_, i) => call('toy/note.wait', { id: `w${i}` }))
  let early = 0
  const behind = Array.from({ length: 200 }, (_, i) => call('toy/note.write', { id: `n${i % 7}` }).finally(() => early++))
  // Longer than a line may take: it is not the sender who keeps us waiting.
  await new Promise((done) => setTimeout(done, 250))
  assert.equal(early, 0)
  open()
  const all = await Promise.all([...held, ...behind])
  assert.equal(all.filter((message) => message?.result).length, 204)
})

test('a flood of immediately answered lines is answered line by line without growing the stack', async (t) => {
  const { path } = await serveRpc(t, (await createWorld()).kernel)
  const client = await rpcClient(path)
  t.after(() => client.socket.destroy())
  const floods = [
    '0',
    '{"jsonrpc":"2.0","method":"x","id":1}',
    '{"jsonrpc":"2.0","method":"collaboration/task.get","params":{"_meta":0},"id":1}',
  ]
  for (const line of floods) {
    client.write(`${line}\n`.repeat(30_000))
    for (let i = 0; i < 30_000; i++) assert.ok((await client.next()).error)
  }
})

test('a client that never reads is closed, and its calls have stopped long before', async (t) => {
  const { client, path } = await toy(t, { stallMs: 300 })
  const writer = await client('key-alice')
  await writer.call('toy/note.write', { id: 'big', text: 'x'.repeat(100_000) })
  const before = process.memoryUsage().arrayBuffers
  const mute = connect(path)
  mute.on('error', () => undefined)
  mute.pause()
  mute.write('{"jsonrpc":"2.0","method":"rpc.authenticate","params":{"token":"key-alice"}}\n')
  const ask = '{"jsonrpc":"2.0","id":1,"method":"toy/note.get","params":{"id":"big"}}\n'.repeat(100)
  const pour = setInterval(() => mute.writable && mute.writableLength < 1_000_000 && mute.write(ask), 1)
  t.after(() => clearInterval(pour))
  // It does not read, so it notices by writing.
  await new Promise((done) => mute.on('close', done))
  assert.ok(process.memoryUsage().arrayBuffers - before < 60_000_000)
  assert.ok((await writer.call('toy/note.get', { id: 'big' })).result)
})

test('answers that pile up behind one that is not taken close the connection', async (t) => {
  const gate = createGate()
  const { client, path } = await toy(t, { unsentMax: 500_000, stallMs: 60_000 }, gate)
  const writer = await client('key-alice')
  await writer.call('toy/note.write', { id: 'big' })
  const mute = connect(path)
  mute.on('error', () => undefined)
  mute.pause()
  mute.write('{"jsonrpc":"2.0","method":"rpc.authenticate","params":{"token":"key-alice"}}\n')
  // All concurrently, each with a large answer.
  const text = 'x'.repeat(100_000)
  for (let i = 0; i < 30; i++)
    mute.write(`${JSON.stringify({ jsonrpc: '2.0', id: i, method: 'toy/note.wait', params: { id: `w${i}`, text } })}\n`)
  await gate.reached(30)
  gate.open()
  const probe = setInterval(() => mute.writable && mute.write('\n'), 10)
  t.after(() => clearInterval(probe))
  await new Promise((done) => mute.on('close', done))
  assert.ok((await writer.call('toy/note.get', { id: 'big' })).result)
})

test('one connection too many is refused and closed, and a closed connection makes room again', async (t) => {
  const { client, path } = await toy(t, { connections: 2 })
  const [first] = [await client('key-alice'), await client('key-alice')]
  const third = await rpcClient(path)
  assertError((await third.closed())[0], -32_000, 'UNAVAILABLE', /2 connections/)
  first.socket.destroy()
  await once(first.socket, 'close')
  await new Promise((done) => setTimeout(done, 20))
  assert.ok(await client('key-alice'))
})

test('a stop answers running calls, accepts no more and ends in time', async (t) => {
  const gate = createGate()
  const { client, stop, path } = await toy(t, {}, gate)
  const { call, closed } = await client('key-alice')
  const waiting = call('toy/note.wait', { id: 'one' })
  await gate.reached()
  const stopping = stop()
  const late = call('toy/note.write', { id: 'late' })
  await assert.rejects(once(connect(path), 'connect'))
  gate.open()
  assert.ok((await waiting).result)
  assert.equal(await late, undefined)
  await closed()
  await stopping
})

test('a stop does not wait for ever', async (t) => {
  const gate = createGate()
  const { client, stop } = await toy(t, { stopMs: 100 }, gate)
  const { call } = await client('key-alice')
  void call('toy/note.wait', { id: 'one' })
  await gate.reached()
  await stop()
})

test('two streams serve as well as a socket: answers come also after the input has ended', async () => {
  const { authenticate } = toyKeys()
  const server = createJsonRpc({ kernel: toyKernel(memoryStore()), authenticate, log: { error: (_, message) => assert.fail(message) } })
  const [input, output] = [new PassThrough(), new PassThrough()]
  const serving = server.serve(input, output)
  const texts: string[] = []
  output.on('data', (chunk: Buffer) => texts.push(chunk.toString()))
  input.end(
    '{"jsonrpc":"2.0","id":1,"method":"toy/note.write","params":{"id":"one","_meta":{"token":"key-alice"}}}\n{"jsonrpc":"2.0","id":2,"meth',
  )
  await serving
  assert.equal(texts.join(''), '{"jsonrpc":"2.0","id":1,"result":{"note":{"id":"one","text":"","times":1}}}\n')
  await server.stop()
})

// --- Streams ---------------------------------------------------------------------------------------------------------------

test('a stream sends past and new events, resumes from any cursor, and ends when its follower leaves', async (t) => {
  const world = await createWorld()
  const { task } = await world.play(scenes.created)
  const { path } = await serveRpc(t, world.kernel)
  const { call, next, socket } = await rpcClient(path, 'alice')
  t.after(() => socket.destroy())
  const { result } = await call('rpc.follow', { stream: 'collaboration/audit.follow', input: { task_id: task.id } })
  assert.equal(result.cursor, null, 'from the first')
  const first = await next()
  assert.deepEqual(Object.keys(first), ['jsonrpc', 'method', 'params'])
  assert.deepEqual([first.method, first.params.id, first.params.item.event.action], ['rpc.item', result.id, 'task.created'])
  await world.call('alice', 'collaboration/task.assign', { task_id: task.id, assignee: 'user_bob' })
  assert.equal((await next()).params.item.event.action, 'task.assigned')
  assert.deepEqual((await call('rpc.unfollow', { id: result.id })).result, {})
  assertError(await call('rpc.unfollow', { id: result.id }), -32_000, 'NOT_FOUND')
  await world.call('bob', 'collaboration/task.start', { task_id: task.id })
  const beyond = Buffer.from(`${Buffer.from(first.params.cursor, 'base64url').toString().slice(0, 12)}999999`).toString('base64url')
  const ahead = await call('rpc.follow', { stream: 'collaboration/audit.follow', input: { task_id: task.id }, after: beyond })
  assertError(ahead, -32_602, 'INVALID_REQUEST', /not a cursor of this stream/)
  await call('rpc.follow', { stream: 'collaboration/audit.follow', input: { task_id: task.id }, after: first.params.cursor })
  const rest = [await next(), await next()]
  assert.deepEqual(
    rest.map((message) => [message.params.id, message.params.item.event.action]),
    [
      [result.id + 1, 'task.assigned'],
      [result.id + 1, 'task.started'],
    ],
  )
  const latest = await call('rpc.follow', { stream: 'collaboration/audit.follow', input: { task_id: task.id }, after: 'latest' })
  assert.equal(latest.result.cursor, rest[1]!.params.cursor, 'where it begins')
})

test('a stream that may not be read is a refusal of rpc.follow', async (t) => {
  const world = await createWorld()
  const { task } = await world.play(scenes.created)
  const { path } = await serveRpc(t, world.kernel, undefined, { follows: 1 })
  const { call, socket } = await rpcClient(path, 'mallory')
  t.after(() => socket.destroy())
  const follow = (stream: unknown, input?: unknown, more: object = {}) => call('rpc.follow', { stream, input, ...more })
  assertError(await follow('collaboration/audit.follow', { task_id: task.id }), -32_000, 'NOT_FOUND')
  assertError(await follow('collaboration/audit.follow', { task_id: 7 }), -32_602, 'INVALID_REQUEST')
  assertError(await follow('collaboration/task.get', {}), -32_000, 'NOT_FOUND')
  assertError(await follow('collaboration/audit.follow', 7), -32_602, 'INVALID_REQUEST')
  const mine = { project_id: 'project_other' }
  for (const after of ['x', 7, '', Buffer.from('aaaaaaaaaaaa1').toString('base64url')])
    assertError(await follow('collaboration/audit.follow', mine, { after }), -32_602, 'INVALID_REQUEST')
  assertError(await follow(undefined), -32_602, 'INVALID_REQUEST')
  assert.ok((await follow('collaboration/audit.follow', mine)).result)
  assertError(await follow('collaboration/audit.follow', mine), -32_000, 'QUOTA_EXCEEDED', /at most 1 stream/)
  const stranger = await rpcClient(path)
  t.after(() => stranger.socket.destroy())
  assertError(await stranger.call('rpc.follow', { stream: 'collaboration/audit.follow' }), -32_000, 'UNAUTHENTICATED')
})

test('a subscriber that loses read access gets the end of the stream with its reason', async (t) => {
  const world = await createWorld()
  const { task } = await world.play(scenes.created)
  const { path } = await serveRpc(t, world.kernel)
  const { call, next, socket } = await rpcClient(path, 'rita')
  t.after(() => socket.destroy())
  const { result } = await call('rpc.follow', { stream: 'collaboration/audit.follow', input: { task_id: task.id } })
  assert.equal((await next()).method, 'rpc.item')
  await world.call('alice', 'collaboration/reviewer.remove', { task_id: task.id, user: 'user_rita' })
  const end = await next()
  assert.deepEqual([end.method, end.params.id, end.params.error.data.code], ['rpc.end', result.id, 'NOT_FOUND'])
  assertError(await call('rpc.unfollow', { id: result.id }), -32_000, 'NOT_FOUND')
})

test('a stop ends the streams with a reason, and a follower that does not read delays nothing', async (t) => {
  const world = await createWorld()
  const { task } = await world.play(scenes.created)
  const { path, server } = await serveRpc(t, world.kernel, undefined, { unsentHigh: 20_000, unsentMax: 100_000 })
  const { call, next } = await rpcClient(path, 'alice')
  const mute = await rpcClient(path, 'alice')
  const follow = { stream: 'collaboration/audit.follow', input: { task_id: task.id } }
  const { result } = await call('rpc.follow', follow)
  await mute.call('rpc.follow', follow)
  mute.socket.pause()
  for (let i = 0; i < 300; i++)
    await world
      .call('alice', 'collaboration/reviewer.add', { task_id: task.id, user: 'user_bob' })
      .then(() => world.call('alice', 'collaboration/reviewer.remove', { task_id: task.id, user: 'user_bob' }))
  for (let i = 0; i < 601; i++) assert.equal((await next()).method, 'rpc.item')
  // Events that it did not read were not piled up for it: they waited in the record.
  mute.socket.resume()
  for (let i = 0; i < 601; i++) assert.equal((await mute.next())?.method, 'rpc.item')
  const stopping = server.stop()
  const end = await next()
  assert.deepEqual([end.method, end.params.id, end.params.error.data.code], ['rpc.end', result.id, 'UNAVAILABLE'])
  await stopping
})

// --- Fuzz ------------------------------------------------------------------------------------------------------------------

const seeds = [
  '{"jsonrpc":"2.0","id":1,"method":"toy/note.write","params":{"id":"one","text":"hello","rank":1.5}}',
  '{"jsonrpc":"2.0","id":"a","method":"toy/note.get","params":{"id":"one","_meta":{"token":"key-alice","idempotency_key":"k"}}}',
  '[{"jsonrpc":"2.0","id":1,"method":"toy/note.get","params":{"id":"one"}},{"jsonrpc":"2.0","method":"toy/note.keep","params":{}}]',
  '{"jsonrpc":"2.0","id":null,"method":"rpc.follow","params":{"stream":"toy/none","input":{},"after":null}}',
  '{"jsonrpc":"2.0","id":2,"method":"rpc.unfollow","params":{"id":1}}',
  '{"jsonrpc":"2.0","id":3,"method":"rpc.authenticate","params":{"token":"key-alice"}}',
]
/** One line, whatever is in it. */
const lineFrom = (pick: Pick): Buffer => Buffer.from(mutated(seeds[pick(seeds.length)]!, pick).map((byte) => (byte === 10 ? 32 : byte)))

test('20,000 lines of every kind: no crash, every answer is a result or a listed error, and memory is bounded', async (t) => {
  const { client, path, logged } = await toy(t, {}, undefined, 1_000_000)
  const socket = connect(path)
  const codes = new Map<number | 'result', number>()
  let rest = ''
  let answers = 0
  const note = (message: any): void => {
    answers++
    assert.equal(message.jsonrpc, '2.0')
    const kind = message.error?.code ?? 'result'
    codes.set(kind, (codes.get(kind) ?? 0) + 1)
  }
  socket.setEncoding('utf8')
  socket.on('data', (text: string) => {
    const lines = (rest + text).split('\n')
    rest = lines.pop()!
    for (const line of lines) {
      const message = JSON.parse(line)
      for (const each of Array.isArray(message) ? message : [message]) note(each)
    }
  })
  const before = process.memoryUsage().heapUsed
  const pick = numbers(20_260_101)
  for (let i = 0; i < 20_000; i++) {
    const line = lineFrom(pick)
    // In portions that end anywhere.
    const cut = pick(line.length + 1)
    socket.write(line.subarray(0, cut))
    if (!socket.write(Buffer.concat([line.subarray(cut), Buffer.from('\n')]))) await once(socket, 'drain')
  }
  socket.end()
  await once(socket, 'close')
  assert.ok(answers > 15_000, `${answers} answers`)
  assert.deepEqual(
    [...codes.keys()].filter((code) => !['result', -32_700, -32_600, -32_601, -32_602, -32_000].includes(code)),
    [],
  )
  for (const code of ['result', -32_700, -32_600, -32_601, -32_602, -32_000] as const)
    assert.ok((codes.get(code) ?? 0) > 20, `${code} was met`)
  assert.deepEqual(logged, [])
  assert.ok(process.memoryUsage().heapUsed - before < 150_000_000)
  assert.equal(({} as any).isAdmin, undefined)
  assert.ok((await (await client('key-alice')).call('toy/note.write', { id: 'after' })).result)
})
