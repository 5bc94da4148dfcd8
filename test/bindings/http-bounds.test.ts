// Rude clients of the HTTP binding: bad bodies, too much of everything, too slowly. Nothing is changed, nothing breaks.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { test } from 'node:test'
import { limits } from '#kernel/limits.ts'
import { send, sendBytes } from '../support/over-sockets/http-client.ts'
import { assertError, httpWorld, JSON_HEADERS } from '../support/over-sockets/http-world.ts'
import { SOON_MS } from '../support/over-sockets/soon.ts'

const deep = (levels: number): string => `${'{"a":'.repeat(levels)}1${'}'.repeat(levels)}`
const badBodies: Record<string, string | Uint8Array> = {
  'no JSON': '{"id":',
  'text after the JSON': '{"id":"one"} {}',
  'a thousand levels': deep(1_000),
  'one level too many': deep(limits.depthMax + 1),
  'a key twice': '{"id":"one","id":"two"}',
  'a key twice in another spelling': '{"id":"one","\\u0069d":"two"}',
  __proto__: '{"id":"one","__proto__":{"admin":true}}',
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
    const { call, store } = await httpWorld(t)
    assertError(await call('note.write', body), 400, 'INVALID_REQUEST')
    assert.equal(store.stats().position, 0)
    assert.equal((Object.prototype as { admin?: unknown }).admin, undefined)
  })
}

test('other content types are 415', async (t) => {
  const { call } = await httpWorld(t)
  for (const type of [
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/jsonp',
    'nonsense',
    'application/cbor',
  ]) {
    const answer = await call('note.write', { id: 'one' }, { headers: { ...JSON_HEADERS, 'content-type': type } })
    assertError(answer, 415, 'INVALID_REQUEST')
  }
  const untyped = await call('note.write', { id: 'one' }, { headers: { authorization: 'Bearer key-alice' } })
  assertError(untyped, 415, 'INVALID_REQUEST')
  const charset = await call(
    'note.write',
    { id: 'one' },
    { headers: { ...JSON_HEADERS, 'content-type': 'application/json; charset=utf-8' } },
  )
  assert.equal(charset.status, 200)
})

test('a body is read up to its bound and not a byte further', async (t) => {
  const { call } = await httpWorld(t)
  const shell = JSON.stringify({ id: 'one', text: '' }).length
  const body = (bytes: number): string =>
    `${JSON.stringify({ id: 'one', text: 'x'.repeat(190_000) })}${' '.repeat(bytes - shell - 190_000)}`
  assert.equal((await call('note.write', body(limits.bodyBytesMax))).status, 200)
  assertError(await call('note.write', body(limits.bodyBytesMax + 1)), 413, 'TOO_LARGE')
})

test('a client that sends 10 MB still gets its 413, with a length and without', async (t) => {
  const { call } = await httpWorld(t)
  const body = new Uint8Array(10 * 1024 * 1024).fill(0x20)
  assertError(await call('note.write', body), 413, 'TOO_LARGE')
  const chunked = await call('note.write', body, { headers: { ...JSON_HEADERS, 'transfer-encoding': 'chunked' } })
  assertError(chunked, 413, 'TOO_LARGE')
})

test('a client that reads only when it has sent everything still finds the 413', async (t) => {
  const { port } = await httpWorld(t)
  const body = Buffer.alloc(10 * 1024 * 1024, 0x20)
  const head = `POST /v1/toy/note.write HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n`
  const socket = connect(port, '127.0.0.1')
  t.after(() => socket.destroy())
  await new Promise((sent, failed) => {
    socket.on('error', failed)
    socket.write(head)
    socket.write(body, sent)
  })
  await new Promise((done) => setTimeout(done, 100))
  const [answer] = (await once(socket, 'data')) as [Buffer]
  assert.match(String(answer), /^HTTP\/1\.1 413 /)
})

test('headers beyond their bound are 431, as JSON', async (t) => {
  const { port, call } = await httpWorld(t)
  assert.equal(
    (await call('note.write', { id: 'one' }, { headers: { ...JSON_HEADERS, 'x-filler': 'x'.repeat(limits.headerBytesMax - 1_000) } }))
      .status,
    200,
  )
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
    const { port } = await httpWorld(t)
    const answer = await sendBytes(port, bytes)
    assert.match(answer, /^HTTP\/1\.1 400 /)
    assert.equal(JSON.parse(answer.slice(answer.indexOf('\r\n\r\n'))).error.code, 'INVALID_REQUEST')
    assert.match(answer, /x-content-type-options: nosniff/)
  })
}

test('an Expect other than 100-continue gets an ordinary error, and HTTP/1.0 has no Expect', async (t) => {
  const { port, call } = await httpWorld(t)
  const expecting = { ...JSON_HEADERS, expect: 'foo' }
  for (const answer of [
    await send(port, '/health', { method: 'GET', headers: { expect: 'foo' } }),
    await send(port, '/health', { method: 'GET', headers: { expect: '' } }),
    await call('note.write', { id: 'one' }, { headers: expecting }),
  ]) {
    assertError(answer, 417, 'INVALID_REQUEST')
    assert.equal(answer.headers['content-type'], 'application/json; charset=utf-8')
    assert.equal(answer.headers['cache-control'], 'no-store')
    assert.equal(answer.headers['x-content-type-options'], 'nosniff')
  }
  assertError(await call('note.get', { id: 'one' }), 404, 'NOT_FOUND')
  assertError(await call('note.write', { id: 'one' }, { headers: { ...expecting, host: 'evil.example' } }), 421, 'INVALID_REQUEST')
  assert.match(await sendBytes(port, 'GET /health HTTP/1.0\r\nhost: localhost\r\nexpect: foo\r\n\r\n'), /^HTTP\/1\.1 200 /)
})

test('a client that sends a byte at a time, or nothing, is let go when its time is over', async (t) => {
  const { port } = await httpWorld(t, { bounds: { requestMs: 400 } })
  const began = Date.now()
  const answers = await Promise.all([
    slowly(port, 'POST /v1/toy/note.write HTTP/1.1\r\nhost: localhost\r\n'),
    slowly(
      port,
      `POST /v1/toy/note.write HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer key-alice\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n`,
      '{',
    ),
    sendBytes(port, ''),
  ])
  for (const answer of answers) assert.match(answer, /^HTTP\/1\.1 408 [^]*"code":"INVALID_REQUEST"/)
  assert.ok(Date.now() - began < SOON_MS)
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

test('a client that never reads its answers is let go, with what waits for it', async (t) => {
  const { port, call } = await httpWorld(t, { bounds: { stuckMs: 300 } })
  const connections = async (): Promise<string> =>
    /^countersign_connections (\d+)$/m.exec((await send(port, '/metrics', { method: 'GET' })).text)![1]!
  await call('note.write', { id: 'one', text: 'x'.repeat(190_000) })
  const socket = connect(port, '127.0.0.1')
  t.after(() => socket.destroy())
  socket.pause()
  const ask =
    'POST /v1/toy/note.get HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer key-alice\r\ncontent-type: application/json\r\ncontent-length: 12\r\n\r\n{"id":"one"}'
  socket.write(ask.repeat(90))
  await new Promise((done) => setTimeout(done, 100))
  assert.equal(await connections(), '2')
  for (let i = 0; i < 50 && (await connections()) !== '1'; i++) await new Promise((done) => setTimeout(done, 50))
  assert.equal(await connections(), '1')
})

test('connections beyond the bound are not accepted, and the others go on', async (t) => {
  const { port, call } = await httpWorld(t, { bounds: { connections: 3 } })
  const held = await Promise.all(
    [1, 2].map(
      () =>
        new Promise<ReturnType<typeof connect>>((done) => {
          const socket = connect(port, '127.0.0.1', () => done(socket))
        }),
    ),
  )
  assert.equal((await call('note.write', { id: 'one' })).status, 200)
  const third = connect(port, '127.0.0.1')
  await new Promise((done) => third.once('connect', done))
  await assert.rejects(call('note.write', { id: 'one' }), /ECONNRESET|EPIPE|socket hang up/)
  for (const socket of [...held, third]) socket.destroy()
})
