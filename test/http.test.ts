// The HTTP binding on real sockets, with a toy protocol behind it: every status, every bound, every way to be rude.
import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { test, type TestContext } from 'node:test'
import { createHttp, type HttpOptions } from '#bindings/http.ts'
import { Conflict, Refusal } from '#kernel/errors.ts'
import type { Actor } from '#kernel/identity.ts'
import { limits } from '#kernel/limits.ts'
import type { Store } from '#kernel/store.ts'
import { memoryStore, type MemoryOptions } from '#stores/memory.ts'
import { send, sendBytes, type Answer, type Sent } from './http-client.ts'
import { alice, toyKernel, toyKeys } from './toy.ts'

const JSON_HEADERS = { authorization: 'Bearer key-alice', 'content-type': 'application/json' }

type Options = Partial<HttpOptions> & { readonly gate?: Promise<void>; readonly store?: MemoryOptions; readonly asksPerMinute?: number }
type World = {
  readonly port: number
  readonly store: Store
  readonly keys: Map<string, Actor>
  readonly logged: string[]
  readonly stop: () => Promise<void>
  call(name: string, body?: unknown, more?: Sent): Promise<Answer>
}

async function world(t: TestContext, { gate, store: storeOptions, asksPerMinute, ...options }: Options = {}): Promise<World> {
  const store = memoryStore(storeOptions)
  const kernel = toyKernel(store, { ...(gate ? { gate } : {}), asksPerMinute: asksPerMinute ?? null })
  const { keys, authenticate } = toyKeys()
  const logged: string[] = []
  const note = (fields: object, words: string): void => void logged.push(`${words} ${JSON.stringify(fields, (_, value: unknown) => (value instanceof Error ? value.message : value))}`)
  const http = createHttp({
    kernel,
    authenticate,
    logins: {
      open: (token) =>
        token === 'good' ? Promise.resolve({ session: 'key-alice', expiresAt: '2999-01-01T00:00:00Z' }) : Promise.reject(new Refusal('UNAUTHENTICATED', 'no')),
      close: (session) => Promise.resolve(void keys.delete(session)),
    },
    log: { level: 'info', debug: note, error: note },
    version: '1.2.3',
    hosts: ['tasks.example.com'],
    proxied: false,
    health: () => ({ store: 'memory' }),
    ...options,
  })
  const port = await http.listen(0, '127.0.0.1')
  t.after(http.stop)
  const call: World['call'] = (name, body, more = {}) =>
    send(port, `/v1/toy/${name}`, { headers: JSON_HEADERS, ...(body === undefined ? {} : { body: typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body) }), ...more })
  return { port, store, keys, logged, stop: http.stop, call }
}

function assertError(answer: Answer, status: number, code: string): void {
  assert.equal(answer.status, status, answer.text)
  assert.deepEqual(Object.keys(answer.json as object), ['error'])
  const { error } = answer.json as { error: { code: string; message: string; details: object } }
  assert.equal(error.code, code)
  assert.equal(typeof error.message, 'string')
  assert.equal(typeof error.details, 'object')
}

test('an operation is a POST that takes and gives JSON', async (t) => {
  const { call } = await world(t)
  const written = await call('note.write', { id: 'one', text: 'hello' })
  assert.equal(written.status, 200)
  assert.equal(written.headers['content-type'], 'application/json; charset=utf-8')
  assert.deepEqual(written.json, { note: { id: 'one', text: 'hello', times: 1 } })
  assert.deepEqual((await call('note.get', { id: 'one' })).json, written.json)
})

test('an empty body is an empty object, with and without a content type', async (t) => {
  const { call, port } = await world(t)
  assertError(await call('note.write'), 400, 'INVALID_REQUEST')
  assert.match((await call('note.write')).json.error.message, /id is required/)
  const bare = await send(port, '/v1/toy/note.write', { headers: { authorization: 'Bearer key-alice' } })
  assert.match(bare.json.error.message, /id is required/)
})

test('every class of refusal has its status, and an error always has the same shape', async (t) => {
  const { call, port } = await world(t, { asksPerMinute: 1 })
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
  const { call, logged } = await world(t)
  const answer = await call('note.crash', { id: 'one' })
  assertError(answer, 500, 'INTERNAL')
  assert.doesNotMatch(answer.text, /trouble/)
  assert.match(logged.join(), /the cause of the trouble/)
})

test('a store that cannot write is 503 with Retry-After, and /health says so until it can', async (t) => {
  let full = true
  const { call, port } = await world(t, {
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
  full = false
  assert.equal((await call('note.write', { id: 'one' })).status, 200)
  const well = await send(port, '/health', { method: 'GET' })
  assert.deepEqual([well.status, well.json], [200, { status: 'ok', version: '1.2.3', store: 'memory' }])
})

test('the credential is checked before the body is looked at', async (t) => {
  const { port } = await world(t)
  const answer = await send(port, '/v1/toy/note.write', { headers: { 'content-type': 'application/json', authorization: 'Bearer wrong' }, body: '{"broken' })
  assertError(answer, 401, 'UNAUTHENTICATED')
})

for (const authorization of ['Bearer', 'Bearer ', 'Basic a2V5LWFsaWNl', 'key-alice', 'Bearer key-alice key-alice', 'Bearer \u00e9']) {
  test(`the Authorization header ${JSON.stringify(authorization)} is nobody, also with a good cookie`, async (t) => {
    const { call } = await world(t)
    assertError(await call('note.write', { id: 'one' }, { headers: { 'content-type': 'application/json', authorization, cookie: 'countersign=key-alice' } }), 401, 'UNAUTHENTICATED')
  })
}

const deep = (levels: number): string => `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`
const badBodies: Record<string, string | Uint8Array> = {
  'no JSON': '{"id":',
  'text after the JSON': '{"id":"one"} {}',
  'a thousand levels': deep(1_000),
  'one level too many': deep(limits.depthMax + 1),
  'a key twice': '{"id":"one","id":"two"}',
  'a key twice in another spelling': '{"id":"one","\\u0069d":"two"}',
  '__proto__': '{"id":"one","__proto__":{"admin":true}}',
  'half of a surrogate pair': '{"id":"one","text":"\\ud800"}',
  NUL: '{"id":"one","text":"\\u0000"}',
  'a number beyond 2^53': '{"id":"one","rank":9007199254740993}',
  'a number that is no number': '{"id":"one","rank":1e999}',
  'bytes that are no UTF-8': Uint8Array.from([0x7b, 0x22, 0x69, 0x64, 0x22, 0x3a, 0x22, 0xc3, 0x28, 0x22, 0x7d]),
  'a byte order mark': '\u{feff}{"id":"one"}',
  'an array': '[]',
  'a bare word': 'null',
  'too many keys': `{${Array.from({ length: 300 }, (_, i) => `"k${i}":1`).join()}}`,
}
for (const [name, body] of Object.entries(badBodies)) {
  test(`a body with ${name} is refused and changes nothing`, async (t) => {
    const { call, store } = await world(t)
    assertError(await call('note.write', body), 400, 'INVALID_REQUEST')
    assert.equal(store.stats().position, 0)
    assert.equal((Object.prototype as { admin?: unknown }).admin, undefined)
  })
}

test('other content types are 415', async (t) => {
  const { call } = await world(t)
  for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x', 'application/jsonp', 'nonsense', 'application/cbor']) {
    const answer = await call('note.write', { id: 'one' }, { headers: { ...JSON_HEADERS, 'content-type': type } })
    assertError(answer, 415, 'INVALID_REQUEST')
  }
  const untyped = await call('note.write', { id: 'one' }, { headers: { authorization: 'Bearer key-alice' } })
  assertError(untyped, 415, 'INVALID_REQUEST')
  const charset = await call('note.write', { id: 'one' }, { headers: { ...JSON_HEADERS, 'content-type': 'application/json; charset=utf-8' } })
  assert.equal(charset.status, 200)
})

test('a body is read up to its bound and not a byte further', async (t) => {
  const { call } = await world(t)
  const shell = JSON.stringify({ id: 'one', text: '' }).length
  const body = (bytes: number): string => `${JSON.stringify({ id: 'one', text: 'x'.repeat(190_000) })}${' '.repeat(bytes - shell - 190_000)}`
  assert.equal((await call('note.write', body(limits.bodyBytesMax))).status, 200)
  assertError(await call('note.write', body(limits.bodyBytesMax + 1)), 413, 'TOO_LARGE')
})

test('a client that sends 10 MB still gets its 413, with a length and without', async (t) => {
  const { call } = await world(t)
  const body = new Uint8Array(10 * 1024 * 1024).fill(0x20)
  assertError(await call('note.write', body), 413, 'TOO_LARGE')
  const chunked = await call('note.write', body, { headers: { ...JSON_HEADERS, 'transfer-encoding': 'chunked' } })
  assertError(chunked, 413, 'TOO_LARGE')
})

test('headers beyond their bound are 431, as JSON', async (t) => {
  const { port, call } = await world(t)
  assert.equal((await call('note.write', { id: 'one' }, { headers: { ...JSON_HEADERS, 'x-filler': 'x'.repeat(limits.headerBytesMax - 1_000) } })).status, 200)
  const answer = await sendBytes(port, `GET / HTTP/1.1\r\nhost: localhost\r\nx-filler: ${'x'.repeat(limits.headerBytesMax)}\r\n\r\n`)
  assert.match(answer, /^HTTP\/1\.1 431 /)
  assert.equal(JSON.parse(answer.slice(answer.indexOf('\r\n\r\n'))).error.code, 'TOO_LARGE')
})

for (const [name, bytes] of Object.entries({
  'no HTTP at all': 'hello\r\n\r\n',
  'TLS on a plain port': Uint8Array.from([0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00]),
  'two lengths': 'POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab',
  'a length and chunks': 'POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
})) {
  test(`${name} is answered 400 as JSON and closed`, async (t) => {
    const { port } = await world(t)
    const answer = await sendBytes(port, bytes)
    assert.match(answer, /^HTTP\/1\.1 400 /)
    assert.equal(JSON.parse(answer.slice(answer.indexOf('\r\n\r\n'))).error.code, 'INVALID_REQUEST')
    assert.match(answer, /x-content-type-options: nosniff/)
  })
}

test('a client that sends a byte at a time, or nothing, is let go when its time is over', async (t) => {
  const { port } = await world(t, { bounds: { requestMs: 400 } })
  const began = Date.now()
  const answers = await Promise.all([
    slowly(port, 'POST /v1/toy/note.write HTTP/1.1\r\nhost: localhost\r\n'),
    slowly(port, `POST /v1/toy/note.write HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer key-alice\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n`, '{'),
    sendBytes(port, ''),
  ])
  for (const answer of answers) assert.match(answer, /^HTTP\/1\.1 408 [^]*"code":"INVALID_REQUEST"/)
  assert.ok(Date.now() - began < 3_000)
})
function slowly(port: number, head: string, rest = ''): Promise<string> {
  return new Promise((done) => {
    let text = ''
    const socket = connect(port, '127.0.0.1', () => rest && socket.write(head))
    let at = 0
    const dripping = setInterval(() => socket.writable && socket.write((rest === '' ? head : `${rest}${'a'.repeat(100)}`)[at++ % 60]!), 20)
    socket.on('data', (chunk) => (text += String(chunk)))
    socket.on('error', () => undefined)
    socket.on('close', () => {
      clearInterval(dripping)
      done(text)
    })
  })
}

test('connections beyond the bound are not accepted, and the others go on', async (t) => {
  const { port, call } = await world(t, { bounds: { connections: 3 } })
  const held = await Promise.all([1, 2].map(() => new Promise<ReturnType<typeof connect>>((done) => {
    const socket = connect(port, '127.0.0.1', () => done(socket))
  })))
  assert.equal((await call('note.write', { id: 'one' })).status, 200)
  const third = connect(port, '127.0.0.1')
  await new Promise((done) => third.once('connect', done))
  await assert.rejects(call('note.write', { id: 'one' }), /ECONNRESET|EPIPE|socket hang up/)
  for (const socket of [...held, third]) socket.destroy()
})

test('a host name that is not ours is 421: another site’s name may point here', async (t) => {
  const { port, call } = await world(t)
  for (const host of ['evil.example', 'evil.example:80', 'localhost.evil.example', '127.0.0.1.evil.example', '127.0.0.2']) {
    const answer = await call('note.write', { id: 'one' }, { headers: { ...JSON_HEADERS, host } })
    assertError(answer, 421, 'INVALID_REQUEST')
  }
  for (const host of ['localhost', 'LOCALHOST:1', '127.0.0.1:3402', '[::1]:9', 'tasks.example.com', 'Tasks.Example.com:443']) {
    assert.equal((await call('note.write', { id: 'one' }, { headers: { ...JSON_HEADERS, host } })).status, 200, host)
  }
  assert.match(await sendBytes(port, 'GET /health HTTP/1.1\r\nconnection: close\r\n\r\n'), /^HTTP\/1\.1 400 [^]*Host header is missing/)
  assert.match(await sendBytes(port, 'GET /health HTTP/1.1\r\nhost:\r\nconnection: close\r\n\r\n'), /^HTTP\/1\.1 421 /)
  assert.match(await sendBytes(port, 'GET /health HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n'), /^HTTP\/1\.1 421 /)
})

test('with a cookie, only pages of our own may act', async (t) => {
  const { call } = await world(t)
  const withCookie = (headers: Record<string, string>): Promise<Answer> =>
    call('note.write', { id: 'one' }, { headers: { 'content-type': 'application/json', cookie: 'a=b; countersign=key-alice', host: 'localhost:3402', ...headers } })
  for (const headers of [{}, { 'sec-fetch-site': 'same-origin' }, { 'sec-fetch-site': 'none' }, { origin: 'http://localhost:3402', 'sec-fetch-site': 'same-origin' }]) {
    assert.equal((await withCookie(headers)).status, 200, JSON.stringify(headers))
  }
  const foreign = ['https://evil.example', 'null', 'http://localhost', 'http://localhost:1', 'http://localhost:3402.evil.example'].map((origin) => ({ origin }))
  for (const headers of [...foreign, { 'sec-fetch-site': 'cross-site' }, { 'sec-fetch-site': 'same-site' }]) {
    assertError(await withCookie(headers), 403, 'UNAUTHORIZED')
  }
})

test('a key that is revoked between two attempts of one call wins no race', async (t) => {
  const gate = Promise.withResolvers<void>()
  const { call, keys, store } = await world(t, { gate: gate.promise })
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
  const { call } = await world(t)
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
  const { call } = await world(t)
  const keyed = (key: string): Promise<Answer> => call('note.write', { id: 'one' }, { headers: { ...JSON_HEADERS, 'idempotency-key': key } })
  for (const key of ['', 'a b', 'x'.repeat(256), 'caf\u00e9', 'a, b']) assertError(await keyed(key), 400, 'INVALID_REQUEST')
  assert.equal((await keyed('x'.repeat(255))).status, 200)
})

test('a path that is not there is 404, a method that is not possible is 405 and says which are', async (t) => {
  const { port } = await world(t)
  assertError(await send(port, '/nowhere', { method: 'GET' }), 404, 'NOT_FOUND')
  assertError(await send(port, '/v1/kernel/delivery.settle', { headers: JSON_HEADERS, body: '{"outcomes":[]}' }), 404, 'NOT_FOUND')
  for (const [path, method, allow] of [
    ['/v1/toy/note.write', 'GET', 'POST'],
    ['/v1/toy/note.write?x=1', 'DELETE', 'POST'],
    ['/v1/toy/note.write', 'OPTIONS', 'POST'],
    ['/health', 'POST', 'GET, HEAD'],
    ['/login', 'POST', 'HEAD, GET'],
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
  const { port, call } = await world(t)
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
    assert.equal(headers['referrer-policy'], 'no-referrer')
    assert.match(String(headers['content-security-policy']), /^default-src 'none';.*frame-ancestors 'none'/)
    assert.equal(headers['access-control-allow-origin'], undefined)
  }
})

test('a login link sets a cookie that scripts and other sites cannot use, and leads to the start page', async (t) => {
  const { port } = await world(t)
  const answer = await send(port, '/login?token=good', { method: 'GET' })
  assert.equal(answer.status, 303)
  assert.equal(answer.headers['location'], '/')
  assert.match(String(answer.headers['set-cookie']), /^countersign=key-alice; Path=\/; Max-Age=\d+; HttpOnly; SameSite=Strict$/)
  const page = await send(port, '/', { method: 'GET', headers: { cookie: 'countersign=key-alice' } })
  assert.match(page.text, /signed in as <strong>user_alice<\/strong>/)
  assert.match((await send(port, '/', { method: 'GET', headers: { cookie: 'countersign=old' } })).text, /You are not signed in/)
})

test('behind a proxy the cookie is Secure and bound to its host, and the host is the one that the proxy was asked for', async (t) => {
  const { port, call } = await world(t, { proxied: true })
  const answer = await send(port, '/login?token=good', { method: 'GET' })
  assert.match(String(answer.headers['set-cookie']), /^__Host-countersign=key-alice; Path=\/; Max-Age=\d+; HttpOnly; SameSite=Strict; Secure$/)
  assert.match(String(answer.headers['strict-transport-security']), /max-age/)
  const from = (origin: string): Promise<Answer> =>
    call('note.write', { id: 'one' }, { headers: { 'content-type': 'application/json', cookie: '__Host-countersign=key-alice', 'x-forwarded-host': 'tasks.example.com', origin } })
  assert.equal((await from('https://tasks.example.com')).status, 200)
  assertError(await from('https://evil.example'), 403, 'UNAUTHORIZED')
  assertError(await call('note.write', { id: 'one' }, { headers: { ...JSON_HEADERS, 'x-forwarded-host': 'evil.example' } }), 421, 'INVALID_REQUEST')
})

test('without a declared proxy nobody believes X-Forwarded-Host', async (t) => {
  const { call } = await world(t)
  assertError(await call('note.write', { id: 'one' }, { headers: { ...JSON_HEADERS, host: 'evil.example', 'x-forwarded-host': 'localhost' } }), 421, 'INVALID_REQUEST')
})

test('a bad login link is a page that says so, and HEAD does not use one up', async (t) => {
  const opened: string[] = []
  const { port } = await world(t, {
    logins: {
      open: (token) => {
        opened.push(token)
        return Promise.reject(new Refusal('UNAUTHENTICATED', 'no'))
      },
      close: () => Promise.resolve(),
    },
  })
  assert.equal((await send(port, '/login?token=abc', { method: 'HEAD' })).status, 200)
  assert.deepEqual(opened, [])
  const answer = await send(port, '/login?token=<script>', { method: 'GET' })
  assert.equal(answer.status, 401)
  assert.equal(answer.headers['content-type'], 'text/html; charset=utf-8')
  assert.match(answer.text, /This link does not work/)
  assert.doesNotMatch(answer.text, /<script/)
  assert.equal((await send(port, '/login', { method: 'GET' })).status, 401)
})

test('signing out ends the session and clears the cookie; another site cannot do it', async (t) => {
  const { port, keys } = await world(t)
  const cookie = 'countersign=key-alice'
  assertError(await send(port, '/logout', { headers: { cookie, origin: 'https://evil.example' } }), 403, 'UNAUTHORIZED')
  assert.ok(keys.has('key-alice'))
  const answer = await send(port, '/logout', { headers: { cookie, 'content-type': 'application/x-www-form-urlencoded' }, body: 'a=b' })
  assert.equal(answer.status, 303)
  assert.match(String(answer.headers['set-cookie']), /^countersign=; Path=\/; Max-Age=0;/)
  assert.equal(keys.has('key-alice'), false)
})

test('names on a page are text, whatever they look like', async (t) => {
  const { port, keys } = await world(t)
  keys.set('key-evil', { ...alice, id: '<img src=x onerror=alert(1)>' })
  const { text } = await send(port, '/', { method: 'GET', headers: { cookie: 'countersign=key-evil' } })
  assert.match(text, /&lt;img src=x onerror=alert\(1\)&gt;/)
  assert.doesNotMatch(text, /<img|<script/)
})

test('the figures count calls by operation and code, and are for this machine or an administrator', async (t) => {
  const { port, call } = await world(t)
  await call('note.write', { id: 'one' })
  await call('note.write', { id: 'one' })
  await call('note.get', { id: 'none' })
  const { text } = await send(port, '/metrics', { method: 'GET' })
  assert.match(text, /countersign_calls_total\{operation="toy\/note\.write",code="OK"\} 2/)
  assert.match(text, /countersign_calls_total\{operation="toy\/note\.get",code="NOT_FOUND"\} 1/)
  assert.match(text, /countersign_call_seconds_bucket\{operation="toy\/note\.write",le="\+Inf"\} 2/)
  assert.match(text, /countersign_store_position 2/)
  for (const name of ['commit_groups_total', 'commit_batches_total', 'commit_waiting', 'conflicts_total', 'denials_total', 'connections', 'event_loop_delay_p99_seconds']) {
    assert.match(text, new RegExp(`^countersign_${name} [0-9.e-]+$`, 'm'))
  }
  assert.match(text, /^process_resident_memory_bytes \d+$/m)
})

test('the figures are not for those behind a proxy, unless they are an administrator', async (t) => {
  const { port } = await world(t, { proxied: true })
  const figures = (headers: Record<string, string>): Promise<Answer> => send(port, '/metrics', { method: 'GET', headers })
  assertError(await figures({}), 401, 'UNAUTHENTICATED')
  assertError(await figures({ authorization: 'Bearer key-alice' }), 403, 'UNAUTHORIZED')
  assert.equal((await figures({ authorization: 'Bearer key-admin' })).status, 200)
  const plain = await world(t)
  assertError(await send(plain.port, '/metrics', { method: 'GET', headers: { 'x-forwarded-for': '1.2.3.4' } }), 401, 'UNAUTHENTICATED')
})

test('the description names every operation with its schemas, and no operation that is not served', async (t) => {
  const { port } = await world(t)
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

test('a stop finishes the call under way, closes idle and silent connections at once, and takes no new ones', async (t) => {
  const gate = Promise.withResolvers<void>()
  const { call, stop, port } = await world(t, { gate: gate.promise })
  const silent = connect(port, '127.0.0.1')
  await new Promise((done) => silent.once('connect', done))
  const waiting = call('note.wait', { id: 'one' })
  await new Promise((done) => setTimeout(done, 50))
  let stopped = false
  const stopping = stop().then(() => (stopped = true))
  await new Promise((done) => setTimeout(done, 50))
  await assert.rejects(call('note.write', { id: 'two' }), /ECONNREFUSED/)
  assert.equal(stopped, false)
  const began = Date.now()
  gate.resolve()
  assert.equal((await waiting).status, 200)
  await stopping
  assert.ok(Date.now() - began < 1_000, 'nothing idle holds it')
  silent.destroy()
})

test('a stop does not wait for ever for a call that does not end', async (t) => {
  const { call, stop } = await world(t, { gate: new Promise(() => undefined), bounds: { stopMs: 200 } })
  const waiting = call('note.wait', { id: 'one' }).catch((error: unknown) => error)
  await new Promise((done) => setTimeout(done, 50))
  const began = Date.now()
  await stop()
  assert.ok(Date.now() - began < 1_500)
  assert.ok((await waiting) instanceof Error)
})

test('a request that comes on an open connection during a stop is told to come back', async (t) => {
  const gate = Promise.withResolvers<void>()
  const { stop, port } = await world(t, { gate: gate.promise })
  const socket = connect(port, '127.0.0.1')
  let text = ''
  socket.on('data', (chunk) => (text += String(chunk)))
  const head = 'host: localhost\r\nauthorization: Bearer key-alice\r\ncontent-type: application/json\r\n'
  socket.write(`POST /v1/toy/note.wait HTTP/1.1\r\n${head}content-length: 12\r\n\r\n{"id":"one"}`)
  await new Promise((done) => setTimeout(done, 50))
  const stopping = stop()
  socket.write(`POST /v1/toy/note.write HTTP/1.1\r\n${head}content-length: 12\r\n\r\n{"id":"two"}`)
  await new Promise((done) => setTimeout(done, 50))
  gate.resolve()
  await stopping
  await new Promise((done) => (socket.closed ? done(null) : socket.once('close', done)))
  assert.match(text, /HTTP\/1\.1 200 [^]*HTTP\/1\.1 503 [^]*"code":"UNAVAILABLE"/)
})

