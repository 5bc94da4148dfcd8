// Pages of other origins, over real sockets: which origins are allowed, on which paths, and the headers that say so on every answer.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '#kernel/limits.ts'
import { send, type Answer, type Sent } from '../support/over-sockets/http-client.ts'
import { httpWorld, JSON_HEADERS } from '../support/over-sockets/http-world.ts'

const desk = 'https://desk.example.com'
const cors = { prefixes: ['/hxp', '/v1/toy'], origins: [desk], anyOrigin: false }

const corsHeaders = ({ headers }: Answer): object =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => name.startsWith('access-control-') || name === 'vary'))
const marked = (origin: string): object => ({
  vary: 'origin',
  'access-control-allow-origin': origin,
  'access-control-expose-headers': 'Retry-After',
})

const asking = { 'access-control-request-method': 'POST', 'access-control-request-headers': 'authorization,content-type' }

test('a preflight of a configured origin is answered, of another one it is not', async (t) => {
  const { port } = await httpWorld(t, { cors })
  const ask = (headers: Record<string, string>, path = '/hxp/v1/requests'): Promise<Answer> =>
    send(port, path, { method: 'OPTIONS', headers: { ...asking, ...headers } })
  for (const path of ['/hxp', '/hxp?x=1', '/hxp/v1/requests', '/v1/toy/note.write']) {
    const answer = await ask({ origin: desk }, path)
    assert.deepEqual([answer.status, answer.text], [204, ''])
    assert.deepEqual(corsHeaders(answer), {
      ...marked(desk),
      'access-control-allow-methods': 'GET, POST, PUT, PATCH, DELETE',
      'access-control-allow-headers': 'authorization, content-type, idempotency-key',
      'access-control-max-age': '600',
    })
    assert.equal(answer.headers['x-content-type-options'], 'nosniff')
    assert.equal(answer.headers['content-type'], undefined)
  }
  const foreign = [
    'https://evil.example',
    'null',
    `${desk}.evil.example`,
    'https://DESK.example.com',
    'http://desk.example.com',
    `${desk}:444`,
  ]
  for (const origin of foreign) assert.deepEqual(corsHeaders(await ask({ origin })), { vary: 'origin' }, origin)
  for (const path of ['/', '/health', '/hxpx', '/v1', '/openapi.json', '/hx']) {
    const answer = await ask({ origin: desk }, path)
    assert.deepEqual([corsHeaders(answer), answer.status >= 404], [{}, true], path)
  }
})

test('every answer carries the headers: success, refusals, malformed and oversized bodies, unknown paths', async (t) => {
  const { port } = await httpWorld(t, { cors, asksPerMinute: 1 })
  const post = (path: string, body: string, more: Sent['headers'] = {}): Promise<Answer> =>
    send(port, path, { body, headers: { ...JSON_HEADERS, 'content-length': Buffer.byteLength(body), origin: desk, ...more } })
  // The framework's way, since it is not plain.
  const chunked = { ...JSON_HEADERS, 'transfer-encoding': 'chunked', origin: desk }
  const seen: number[] = []
  for (const [status, sending] of [
    [200, post('/v1/toy/note.write', '{"id":"one"}')],
    [200, send(port, '/v1/toy/note.write', { body: '{"id":"one"}', headers: chunked })],
    [400, post('/v1/toy/note.write', '{"id":')],
    [400, post('/v1/toy/note.write', '{}')],
    [400, send(port, '/v1/toy/note.write', { body: '{', headers: chunked })],
    [401, post('/v1/toy/note.write', '{"id":"one"}', { authorization: 'Bearer nobody' })],
    [401, send(port, '/v1/toy/note.write', { headers: { origin: desk } })],
    [404, post('/hxp/v1/nothing', '{}')],
    [404, post('/v1/toy/note.get', '{"id":"never"}')],
    [405, send(port, '/v1/toy/note.write', { method: 'GET', headers: { origin: desk } })],
    [413, post('/v1/toy/note.write', `{"id":"${'x'.repeat(limits.bodyBytesMax)}"}`)],
    [415, post('/v1/toy/note.write', 'x', { 'content-type': 'text/plain' })],
    [500, post('/v1/toy/note.crash', '{"id":"one"}')],
  ] as const) {
    const answer = await sending
    assert.equal(answer.status, status, answer.text)
    assert.deepEqual(corsHeaders(answer), marked(desk), String(status))
    assert.equal(answer.headers['cross-origin-resource-policy'], 'cross-origin')
    assert.equal(answer.headers['cache-control'], 'no-store')
    assert.equal(typeof answer.json, 'object', 'and is JSON')
    seen.push(answer.status)
  }
  assert.equal(seen.length, 13)
  const elsewhere = await send(port, '/health', { method: 'GET', headers: { origin: desk } })
  assert.deepEqual([elsewhere.status, corsHeaders(elsewhere)], [200, {}])
})

test('other pages, and those without an origin, get the answer that they always had', async (t) => {
  const { call } = await httpWorld(t, { cors })
  for (const origin of ['https://evil.example', 'null', undefined]) {
    const answer = await call('note.write', { id: 'one' }, { headers: { ...JSON_HEADERS, ...(origin === undefined ? {} : { origin }) } })
    assert.deepEqual([answer.status, corsHeaders(answer)], [200, origin === undefined ? {} : { vary: 'origin' }])
    assert.equal(answer.headers['cross-origin-resource-policy'], 'same-origin')
  }
})

test('cookies never cross: a configured page may not act with a session either', async (t) => {
  const { call } = await httpWorld(t, { cors })
  const headers = { 'content-type': 'application/json', cookie: 'countersign=key-alice', origin: desk }
  const answer = await call('note.write', { id: 'one' }, { headers })
  assert.equal(answer.status, 403)
  assert.deepEqual(corsHeaders(answer), marked(desk), 'and there is no allow-credentials')
})

test('a host that is not ours is refused before any of it', async (t) => {
  const { port } = await httpWorld(t, { cors: { ...cors, anyOrigin: true } })
  for (const method of ['OPTIONS', 'POST', 'GET']) {
    const answer = await send(port, '/hxp', { method, headers: { ...asking, origin: desk, host: 'evil.example' } })
    assert.deepEqual([answer.status, corsHeaders(answer)], [421, {}])
  }
})

test('any origin, null included, if that was chosen: each gets its own name, never a star', async (t) => {
  const { port } = await httpWorld(t, { cors: { ...cors, anyOrigin: true } })
  for (const origin of ['null', 'http://localhost:8000', 'https://evil.example', 'file://']) {
    assert.equal(
      (await send(port, '/hxp', { method: 'OPTIONS', headers: { ...asking, origin } })).headers['access-control-allow-origin'],
      origin,
    )
    assert.deepEqual(corsHeaders(await send(port, '/hxp/x', { method: 'GET', headers: { origin } })), marked(origin))
  }
})

test('without an origin list there is none of it', async (t) => {
  const { port } = await httpWorld(t)
  const answer = await send(port, '/hxp', { method: 'OPTIONS', headers: { ...asking, origin: desk } })
  assert.deepEqual([answer.status, corsHeaders(answer)], [404, {}])
})
