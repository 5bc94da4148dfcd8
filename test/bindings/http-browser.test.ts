// The HTTP binding and browsers: whose host, whose page, login links, cookies and pages.
import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { test } from 'node:test'
import { Refusal } from '#kernel/declare/errors.ts'
import { send, sendBytes, type Answer } from '../support/over-sockets/http-client.ts'
import { assertError, httpWorld, JSON_HEADERS } from '../support/over-sockets/http-world.ts'
import { alice } from '../support/in-process/toy.ts'

test('a host name that is not ours is 421: another site’s name may point here', async (t) => {
  const { port, call } = await httpWorld(t)
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
  const { call } = await httpWorld(t)
  const withCookie = (headers: Record<string, string>): Promise<Answer> =>
    call(
      'note.write',
      { id: 'one' },
      { headers: { 'content-type': 'application/json', cookie: 'a=b; countersign=key-alice', host: 'localhost:3402', ...headers } },
    )
  for (const headers of [
    { 'sec-fetch-site': 'same-origin' },
    { origin: 'http://localhost:3402' },
    { 'sec-fetch-site': 'none' },
    { origin: 'http://localhost:3402', 'sec-fetch-site': 'same-origin' },
  ]) {
    assert.equal((await withCookie(headers)).status, 200, JSON.stringify(headers))
  }
  const foreign = ['https://evil.example', 'null', 'http://localhost', 'http://localhost:1', 'http://localhost:3402.evil.example'].map(
    (origin) => ({ origin }),
  )
  for (const headers of [...foreign, { 'sec-fetch-site': 'cross-site' }, { 'sec-fetch-site': 'same-site' }]) {
    assertError(await withCookie(headers), 403, 'UNAUTHORIZED')
  }
  const unnamed = await withCookie({})
  assertError(unnamed, 403, 'UNAUTHORIZED')
  assert.match(unnamed.text, /must carry Origin or Sec-Fetch-Site/)
})

test('a file of the page that cannot be read any more costs its request and nothing else', async (t) => {
  const lost = () => {
    throw new Error('ENOENT: it was replaced by another build')
  }
  const page = new Map([['/assets/old.js', { type: 'text/javascript', isFixed: true, bytes: lost, compressed: () => null }]])
  const { port, logged, call } = await httpWorld(t, { page })
  assertError(await send(port, '/assets/old.js', { method: 'GET' }), 500, 'INTERNAL')
  assert.match(logged.join(), /another build/)
  assert.equal((await call('note.write', { id: 'one' })).status, 200)
})

test('an address that cannot be read is refused, and no fault of the server', async (t) => {
  const { port, logged } = await httpWorld(t)
  for (const url of ['http://[bad/login?token=good', 'http://a:99999/login?token=good', 'https://[bad/v1/toy/note.follow']) {
    const answer = await sendBytes(port, `GET ${url} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n`)
    assert.match(answer, /^HTTP\/1\.1 400 [^]*the URL cannot be read/, url)
  }
  assert.deepEqual(logged, [])
})

test('a login link sets a cookie that scripts and other sites cannot use, and leads to the start page', async (t) => {
  const { port } = await httpWorld(t)
  const answer = await send(port, '/login?token=good', { method: 'GET' })
  assert.equal(answer.status, 303)
  assert.equal(answer.headers['location'], '/')
  assert.match(String(answer.headers['set-cookie']), /^countersign=key-alice; Path=\/; Max-Age=\d+; HttpOnly; SameSite=Strict$/)
  const page = await send(port, '/', { method: 'GET', headers: { cookie: 'countersign=key-alice' } })
  assert.match(page.text, /signed in as <strong>user_alice<\/strong>/)
  assert.match((await send(port, '/', { method: 'GET', headers: { cookie: 'countersign=old' } })).text, /You are not signed in/)
})

test('behind a proxy the cookie is Secure and bound to its host, and the host is the one that the proxy was asked for', async (t) => {
  const { port, call } = await httpWorld(t, { proxied: true })
  const answer = await send(port, '/login?token=good', { method: 'GET' })
  assert.match(
    String(answer.headers['set-cookie']),
    /^__Host-countersign=key-alice; Path=\/; Max-Age=\d+; HttpOnly; SameSite=Strict; Secure$/,
  )
  assert.match(String(answer.headers['strict-transport-security']), /max-age/)
  const from = (origin: string): Promise<Answer> =>
    call(
      'note.write',
      { id: 'one' },
      {
        headers: {
          'content-type': 'application/json',
          cookie: '__Host-countersign=key-alice',
          'x-forwarded-host': 'tasks.example.com',
          origin,
        },
      },
    )
  assert.equal((await from('https://tasks.example.com')).status, 200)
  assertError(await from('https://evil.example'), 403, 'UNAUTHORIZED')
  assertError(
    await call('note.write', { id: 'one' }, { headers: { ...JSON_HEADERS, 'x-forwarded-host': 'evil.example' } }),
    421,
    'INVALID_REQUEST',
  )
})

test('without a declared proxy nobody believes X-Forwarded-Host', async (t) => {
  const { call } = await httpWorld(t)
  assertError(
    await call('note.write', { id: 'one' }, { headers: { ...JSON_HEADERS, host: 'evil.example', 'x-forwarded-host': 'localhost' } }),
    421,
    'INVALID_REQUEST',
  )
})

test('a bad login link is a page that says so, and HEAD does not use one up', async (t) => {
  const opened: string[] = []
  const { port } = await httpWorld(t, {
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
  const { port, keys } = await httpWorld(t)
  const cookie = 'countersign=key-alice'
  assertError(await send(port, '/logout', { headers: { cookie, origin: 'https://evil.example' } }), 403, 'UNAUTHORIZED')
  assert.ok(keys.has('key-alice'))
  const answer = await send(port, '/logout', { headers: { cookie, 'content-type': 'application/x-www-form-urlencoded' }, body: 'a=b' })
  assert.equal(answer.status, 303)
  assert.match(String(answer.headers['set-cookie']), /^countersign=; Path=\/; Max-Age=0;/)
  assert.equal(keys.has('key-alice'), false)
})

test('names on a page are text, whatever they look like', async (t) => {
  const { port, keys } = await httpWorld(t)
  keys.set('key-evil', { ...alice, id: '<img src=x onerror=alert(1)>' })
  const { text } = await send(port, '/', { method: 'GET', headers: { cookie: 'countersign=key-evil' } })
  assert.match(text, /&lt;img src=x onerror=alert\(1\)&gt;/)
  assert.doesNotMatch(text, /<img|<script/)
})

test('the one style of a page is the one that the policy allows', async (t) => {
  const { port } = await httpWorld(t)
  const { text, headers } = await send(port, '/', { method: 'GET' })
  const style = /<style>([^]*?)<\/style>/.exec(text)![1]!
  assert.ok(String(headers['content-security-policy']).includes(`'sha256-${hash('sha256', style, 'base64')}'`))
  assert.doesNotMatch(text, /<script| style=| on[a-z]+=/)
})

test('after signing in a link goes on to its page, and never to another host', async (t) => {
  const { port } = await httpWorld(t, {
    logins: { open: () => Promise.resolve({ session: 's', expiresAt: '2030-01-01T00:00:00Z' }), close: () => Promise.resolve() },
  })
  const cases: readonly (readonly [string, string])[] = [
    ['/inbox/hxp_1', '/inbox/hxp_1'],
    ['/inbox?order=urgency', '/inbox?order=urgency'],
    ['//evil.example/x', '/'],
    ['/\\evil.example', '/'],
    ['/%5Cevil.example', '/%5Cevil.example'],
    ['https://evil.example/', '/'],
    ['javascript:alert(1)', '/'],
    ['/x\r\nset-cookie: a=b', '/'],
    ['/../../x', '/x'],
    // Without its dots each of these would begin with two slashes.
    ['/.//evil.example', '/'],
    ['/x/..//evil.example', '/'],
    ['/%2e//evil.example', '/'],
    ['/inbox//x', '/inbox//x'],
    [`/${'x'.repeat(600)}`, '/'],
  ]
  for (const [next, location] of cases) {
    const answer = await send(port, `/login?token=good&next=${encodeURIComponent(next)}`, { method: 'GET' })
    assert.deepEqual([answer.status, answer.headers['location']], [303, location], next)
  }
})
