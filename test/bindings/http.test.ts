// The HTTP binding on real sockets, with a toy protocol behind it: every status, every header, and the life of calls and connections.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { Agent } from 'node:http'
import { connect } from 'node:net'
import { test } from 'node:test'
import { Conflict } from '#kernel/declare/errors.ts'
import { limits } from '#kernel/limits.ts'
import { send, type Answer } from '../support/over-sockets/http-client.ts'
import { assertError, httpWorld, JSON_HEADERS } from '../support/over-sockets/http-world.ts'
import { createGate } from '../support/in-process/toy.ts'
import { SOON_MS } from '../support/over-sockets/soon.ts'

test('an operation is a POST that takes and gives JSON', async (t) => {
  const { call } = await httpWorld(t)
  const written = await call('note.write', { id: 'one', text: 'hello' })
  assert.equal(written.status, 200)
  assert.equal(written.headers['content-type'], 'application/json; charset=utf-8')
  assert.deepEqual(written.json, { note: { id: 'one', text: 'hello', times: 1 } })
  assert.deepEqual((await call('note.get', { id: 'one' })).json, written.json)
})

test('an empty body is an empty object, with and without a content type', async (t) => {
  const { call, port } = await httpWorld(t)
  assertError(await call('note.write'), 400, 'INVALID_REQUEST')
  assert.match((await call('note.write')).json.error.message, /id is required/)
  const bare = await send(port, '/v1/toy/note.write', { headers: { authorization: 'Bearer key-alice' } })
  assert.match(bare.json.error.message, /id is required/)
})

test('every class of refusal has its status, and an error always has the same shape', async (t) => {
  const { call, port } = await httpWorld(t, { asksPerMinute: 1 })
  await call('note.write', { id: 'one' })
  assertError(await call('note.write', { id: 7 }), 400, 'INVALID_REQUEST')
  const nobody = await call('note.write', { id: 'one' }, { headers: { 'content-type': 'application/json' } })
  assertError(nobody, 401, 'UNAUTHENTICATED')
  assert.match(String(nobody.headers['www-authenticate']), /^Bearer/)
  assertError(await call('note.keep', { id: 'one' }), 403, 'UNAUTHORIZED')
  assertError(await call('note.get', { id: 'none' }), 404, 'NOT_FOUND')
  assertError(await call('note.burn', { id: 'one' }), 410, 'NOTE_GONE')
  assertError(await send(port, '/v1/toy/note.none', { headers: JSON_HEADERS }), 404, 'NOT_FOUND')
  const devin = { headers: { ...JSON_HEADERS, authorization: 'Bearer key-devin' } }
  await call('note.ask', { id: 'two' }, devin)
  const asked = await call('note.ask', { id: 'two' }, devin)
  assertError(asked, 429, 'QUOTA_EXCEEDED')
  assert.equal(asked.headers['retry-after'], '60')
})

test('a bug is a 500 without detail, and its cause is in the log', async (t) => {
  const { call, logged } = await httpWorld(t)
  const answer = await call('note.crash', { id: 'one' })
  assertError(answer, 500, 'INTERNAL')
  assert.doesNotMatch(answer.text, /trouble/)
  assert.match(logged.join(), /the cause of the trouble/)
  assertError(await call('note.odd', { id: 'one' }), 500, 'INTERNAL')
  assert.match(logged.join(), /an odd refusal/)
})

test('a store that cannot write is 503 with Retry-After, and /health says so until it can', async (t) => {
  let full = true
  const { call, port, logged } = await httpWorld(t, {
    store: {
      onWrite(_, apply) {
        if (full) throw Object.assign(new Error('full'), { failure: 'full' })
        apply()
      },
    },
  })
  assert.equal((await send(port, '/health', { method: 'GET' })).status, 200)
  const answer = await call('note.write', { id: 'one' })
  assertError(answer, 503, 'UNAVAILABLE')
  assert.equal(answer.headers['retry-after'], '5')
  const ill = await send(port, '/health', { method: 'GET' })
  assert.equal(ill.status, 503)
  assert.equal(ill.json.status, 'degraded')
  await call('note.write', { id: 'one' })
  assert.equal(logged.filter((line) => line.includes('the store cannot write')).length, 1, 'said once')
  full = false
  assert.equal((await call('note.write', { id: 'one' })).status, 200)
  const well = await send(port, '/health', { method: 'GET' })
  assert.deepEqual([well.status, well.json], [200, { status: 'ok', version: '1.2.3', store: 'memory' }])
})

test('the credential is checked before the body is looked at', async (t) => {
  const { port } = await httpWorld(t)
  const answer = await send(port, '/v1/toy/note.write', {
    headers: { 'content-type': 'application/json', authorization: 'Bearer wrong' },
    body: '{"broken',
  })
  assertError(answer, 401, 'UNAUTHENTICATED')
})

for (const authorization of ['Bearer', 'Bearer ', 'Basic a2V5LWFsaWNl', 'key-alice', 'Bearer key-alice key-alice', 'Bearer \u00e9']) {
  test(`the Authorization header ${JSON.stringify(authorization)} is nobody, also with a good cookie`, async (t) => {
    const { call } = await httpWorld(t)
    assertError(
      await call(
        'note.write',
        { id: 'one' },
        { headers: { 'content-type': 'application/json', authorization, cookie: 'countersign=key-alice' } },
      ),
      401,
      'UNAUTHENTICATED',
    )
  })
}

test('a key that is revoked between two attempts of one call wins no race', async (t) => {
  const gate = Promise.withResolvers<void>()
  const { call, keys, store } = await httpWorld(t, { gate: gate.promise })
  await call('note.write', { id: 'one', text: 'first' })
  const waiting = call('note.wait', { id: 'one', text: 'second' })
  await new Promise((done) => setTimeout(done, 50))
  // While the call has read nothing yet it cannot conflict: so it reads when let go, and another write comes in between.
  keys.delete('key-alice')
  const conflicting = store.commit
  let once = true
  store.commit = (batch) => {
    if (once) {
      once = false
      throw new Conflict('toy.note/one', 'moved')
    }
    return conflicting(batch)
  }
  gate.resolve()
  assertError(await waiting, 401, 'UNAUTHENTICATED')
})

test('the same idempotency key has one effect and one answer; with another body it is refused', async (t) => {
  const { call } = await httpWorld(t)
  const keyed = (body: object): Promise<Answer> => call('note.write', body, { headers: { ...JSON_HEADERS, 'idempotency-key': 'abc-1' } })
  const first = await keyed({ id: 'one' })
  assert.equal(first.json.note.times, 1)
  assert.deepEqual((await keyed({ id: 'one' })).json, first.json)
  const reused = await keyed({ id: 'two' })
  assertError(reused, 409, 'CONFLICT')
  assert.equal(reused.json.error.details.reason, 'idempotency_key_reused')
  assert.equal((await call('note.write', { id: 'one' })).json.note.times, 2)
})

test('an idempotency key is 1 to 255 visible ASCII characters', async (t) => {
  const { call } = await httpWorld(t)
  const keyed = (key: string): Promise<Answer> =>
    call('note.write', { id: 'one' }, { headers: { ...JSON_HEADERS, 'idempotency-key': key } })
  for (const key of ['', 'a b', 'x'.repeat(256), 'caf\u00e9', 'a, b']) assertError(await keyed(key), 400, 'INVALID_REQUEST')
  assert.equal((await keyed('x'.repeat(255))).status, 200)
})

test('/ready says whether requests may be sent here', async (t) => {
  const state = { isReady: false }
  const { port } = await httpWorld(t, { unready: () => (state.isReady ? null : 'starting') })
  const look = async (): Promise<[number, unknown]> => {
    const { status, json } = await send(port, '/ready', { method: 'GET' })
    return [status, json]
  }
  assert.deepEqual(await look(), [503, { ready: false, reason: 'starting' }])
  state.isReady = true
  assert.deepEqual(await look(), [200, { ready: true }])
})

test('routes that are mounted are served like our own, and what no path has is left to the pages', async (t) => {
  const page = (message: string) => (): { status: number; body: string } => ({ status: 200, body: message })
  const { port } = await httpWorld(t, {
    routes: [{ method: 'GET', path: '/assets/a.js', answer: page('a') }],
    otherwise: (path) => (path.startsWith('/inbox') ? { method: 'GET', path, answer: page(path) } : null),
  })
  for (const [path, method, status, text] of [
    ['/assets/a.js', 'GET', 200, 'a'],
    ['/inbox/one', 'GET', 200, '/inbox/one'],
    ['/inbox/one', 'HEAD', 200, ''],
    ['/elsewhere', 'GET', 404, null],
    ['/inbox/one', 'POST', 404, null],
    ['/assets/a.js', 'POST', 405, null],
    ['http://localhost/%61ssets/a.js?x', 'GET', 200, 'a'],
  ] as const) {
    const answer = await send(port, path, { method })
    assert.equal(answer.status, status, `${method} ${path}`)
    if (text !== null) assert.equal(answer.text, text)
    assert.equal(answer.headers['x-content-type-options'], 'nosniff')
  }
})

test('a path that is not there is 404, a method that is not possible is 405 and says which are', async (t) => {
  const { port } = await httpWorld(t)
  assertError(await send(port, '/nowhere', { method: 'GET' }), 404, 'NOT_FOUND')
  assertError(await send(port, '/v1/kernel/delivery.settle', { headers: JSON_HEADERS, body: '{"outcomes":[]}' }), 404, 'NOT_FOUND')
  for (const [path, method, allow] of [
    ['/v1/toy/note.write', 'GET', 'POST'],
    ['/v1/toy/note.write?x=1', 'DELETE', 'POST'],
    ['/v1/toy/note.write', 'OPTIONS', 'POST'],
    ['/health', 'POST', 'GET, HEAD'],
    ['/login', 'PUT', 'HEAD, GET, POST'],
    ['/', 'PUT', 'GET, HEAD'],
  ] as const) {
    const answer = await send(port, path, { method })
    assertError(answer, 405, 'INVALID_REQUEST')
    assert.equal(answer.headers.allow, allow, `${method} ${path}`)
  }
  for (const path of ['/%zz', '/v1/toy/%', '//', '/v1/toy/note.write/', '/v1/__proto__/constructor']) {
    const { status } = await send(port, path, { method: 'GET' })
    assert.ok(status === 400 || status === 404, `${path}: ${status}`)
  }
})

test('every answer carries the security headers', async (t) => {
  const { port, call } = await httpWorld(t)
  const answers = await Promise.all([
    call('note.write', { id: 'one' }),
    call('note.write', '{'),
    call('note.write', ' '.repeat(limits.bodyBytesMax + 1)),
    call('note.crash', { id: 'one' }),
    ...['/', '/health', '/openapi.json', '/metrics', '/login', '/nowhere', '/%zz'].map((path) => send(port, path, { method: 'GET' })),
    send(port, '/', { method: 'GET', headers: { host: 'evil.example' } }),
  ])
  for (const { headers } of answers) {
    assert.equal(headers['x-content-type-options'], 'nosniff')
    assert.equal(headers['cache-control'], 'no-store')
    // A page of ours names itself to this server alone: its forms are known by that.
    assert.equal(headers['referrer-policy'], String(headers['content-type']).startsWith('text/html') ? 'same-origin' : 'no-referrer')
    assert.match(String(headers['content-security-policy']), /^default-src 'none';.*frame-ancestors 'none'/)
    assert.equal(headers['access-control-allow-origin'], undefined)
  }
})

test('the figures count calls by operation and code, and are for this machine or an administrator', async (t) => {
  const { port, call } = await httpWorld(t)
  await call('note.write', { id: 'one' })
  await call('note.write', { id: 'one' })
  await call('note.get', { id: 'none' })
  const { text } = await send(port, '/metrics', { method: 'GET' })
  assert.match(text, /countersign_calls_total\{binding="http",operation="toy\/note\.write",code="OK"\} 2/)
  assert.match(text, /countersign_calls_total\{binding="http",operation="toy\/note\.get",code="NOT_FOUND"\} 1/)
  assert.match(text, /countersign_call_seconds_bucket\{binding="http",operation="toy\/note\.write",le="\+Inf"\} 2/)
  assert.match(text, /countersign_store_position 2/)
  for (const name of [
    'commit_groups_total',
    'commit_batches_total',
    'commit_waiting',
    'conflicts_total',
    'denials_total',
    'connections',
    'event_loop_delay_p99_seconds',
  ]) {
    assert.match(text, new RegExp(`^countersign_${name} [0-9.e-]+$`, 'm'))
  }
  assert.match(text, /^process_resident_memory_bytes \d+$/m)
})

test('the figures are not for those behind a proxy, unless they are an administrator', async (t) => {
  const { port } = await httpWorld(t, { proxied: true })
  const figures = (headers: Record<string, string>): Promise<Answer> => send(port, '/metrics', { method: 'GET', headers })
  assertError(await figures({}), 401, 'UNAUTHENTICATED')
  assertError(await figures({ authorization: 'Bearer key-alice' }), 403, 'UNAUTHORIZED')
  assert.equal((await figures({ authorization: 'Bearer key-admin' })).status, 200)
  const plain = await httpWorld(t)
  assertError(await send(plain.port, '/metrics', { method: 'GET', headers: { 'x-forwarded-for': '1.2.3.4' } }), 401, 'UNAUTHENTICATED')
})

test('the description names every operation with its schemas, and no operation that is not served', async (t) => {
  const { port } = await httpWorld(t)
  const { json } = await send(port, '/openapi.json', { method: 'GET' })
  assert.equal(json.openapi, '3.1.0')
  assert.equal(json.info.version, '1.2.3')
  const write = json.paths['/v1/toy/note.write'].post
  assert.equal(write.summary, 'Write a note.')
  assert.deepEqual(write.requestBody.content['application/json'].schema.required, ['id'])
  assert.deepEqual(write.requestBody.content['application/json'].example, { id: 'one', text: 'hello' })
  assert.equal(write.responses['401'].$ref, '#/components/responses/unauthenticated')
  assert.match(json.components.responses.gone.description, /NOTE_GONE/)
  assert.ok(Object.keys(json.paths as object).every((path) => path.startsWith('/v1/toy/')))
})

test('a stop finishes the call in flight, closes idle and silent connections immediately, and takes no new ones', async (t) => {
  const gate = createGate()
  const { call, stop, port } = await httpWorld(t, { gate, bounds: { stopMs: 2 * SOON_MS } })
  const silent = connect(port, '127.0.0.1')
  await once(silent, 'connect')
  const kept = new Agent({ keepAlive: true })
  t.after(() => kept.destroy())
  const waiting = call('note.wait', { id: 'one' }, { agent: kept })
  await gate.reached()
  let stopped = false
  const stopping = stop().then(() => (stopped = true))
  await new Promise((done) => setTimeout(done, 50))
  assertError(await call('note.write', { id: 'two' }), 503, 'UNAVAILABLE')
  assert.equal(stopped, false)
  const began = Date.now()
  gate.open()
  assert.equal((await waiting).status, 200)
  await stopping
  assert.ok(Date.now() - began < SOON_MS, 'nothing idle holds it')
  silent.destroy()
})

test('a stop does not wait for ever for a call that does not end', async (t) => {
  const gate = createGate()
  const { call, stop } = await httpWorld(t, { gate, bounds: { stopMs: 200 } })
  const waiting = call('note.wait', { id: 'one' }).catch((error: unknown) => error)
  await gate.reached()
  await stop()
  assert.ok((await waiting) instanceof Error)
})

test('a request on an open connection during a stop is answered with a retry', async (t) => {
  const gate = createGate()
  const { stop, port } = await httpWorld(t, { gate })
  const socket = connect(port, '127.0.0.1')
  let text = ''
  socket.on('data', (chunk) => (text += String(chunk)))
  const head = 'host: localhost\r\nauthorization: Bearer key-alice\r\ncontent-type: application/json\r\n'
  socket.write(`POST /v1/toy/note.wait HTTP/1.1\r\n${head}content-length: 12\r\n\r\n{"id":"one"}`)
  await gate.reached()
  const stopping = stop()
  socket.write(`POST /v1/toy/note.write HTTP/1.1\r\n${head}content-length: 12\r\n\r\n{"id":"two"}`)
  await new Promise((done) => setTimeout(done, 50))
  gate.open()
  await stopping
  await new Promise((done) => (socket.closed ? done(null) : socket.once('close', done)))
  assert.match(text, /HTTP\/1\.1 200 [^]*HTTP\/1\.1 503 [^]*"code":"UNAVAILABLE"/)
})
