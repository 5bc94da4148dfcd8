// The HTTP binding and browsers: checks of host and origin, login links, cookies and pages.
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
    { origin: 'http://localhost:3402', 'sec-fetch-site': 'same-origin' },
  ]) {
    assert.equal((await withCookie(headers)).status, 200, JSON.stringify(headers))
  }
  const foreign = [
    'https://evil.example',
    'null',
    'https://localhost:3402',
    'localhost:3402',
    'http://localhost',
    'http://localhost:1',
    'http://localhost:3402.evil.example',
  ].map((origin) => ({ origin }))
  for (const headers of [...foreign, { 'sec-fetch-site': 'cross-site' }, { 'sec-fetch-site': 'same-site' }]) {
    assertError(await withCookie(headers), 403, 'UNAUTHORIZED')
  }
  const unnamed = await withCookie({})
  assertError(unnamed, 403, 'UNAUTHORIZED')
  assert.match(unnamed.text, /must carry Origin or Sec-Fetch-Site/)
  // An address that was typed, or that a program opened: no page of ours asked for a change.
  assertError(await withCookie({ 'sec-fetch-site': 'none' }), 403, 'UNAUTHORIZED')
})

test('a page speaks for the person it was opened for: with the session of another one every call is refused, and says who that is', async (t) => {
  const { call, keys } = await httpWorld(t, {
    logins: {
      open: () => Promise.reject(new Refusal('UNAUTHENTICATED', 'no')),
      close: () => Promise.resolve(),
      nameOf: () => Promise.resolve('Tom Okafor'),
    },
  })
  keys.set('key-tom', { ...alice, id: 'user_tom' })
  const ofPage = (session: string, person?: string) => ({
    headers: {
      'content-type': 'application/json',
      cookie: `countersign=${session}`,
      host: 'localhost:3402',
      'sec-fetch-site': 'same-origin',
      ...(person === undefined ? {} : { 'countersign-person': person }),
    },
  })
  const own = await call('note.write', { id: 'one' }, ofPage('key-alice'))
  assert.equal(own.headers['countersign-person'], 'user_alice')
  assert.equal((await call('note.write', { id: 'two' }, ofPage('key-alice', 'user_alice'))).status, 200)
  const ways = [
    () => call('note.write', { id: 'three' }, ofPage('key-tom', 'user_alice')),
    () => call('note.get', { id: 'one' }, ofPage('key-tom', 'user_alice')),
  ]
  for (const way of ways) {
    const refused = await way()
    assertError(refused, 403, 'OTHER_PERSON')
    assert.match(refused.text, /you are signed in as Tom Okafor now/)
    assert.match(refused.text, /"details":{"person":"user_tom","name":"Tom Okafor"}/)
  }
  assert.equal((await call('note.get', { id: 'three' })).status, 404)
})

test('a link asks before it replaces the session of another person, and when another site leads to it', async (t) => {
  const opened: string[] = []
  const closed: string[] = []
  const { port, keys } = await httpWorld(t, {
    logins: {
      open: (token, { remember }) => {
        opened.push(`${token} ${remember}`)
        return Promise.resolve({ session: 'key-tom', expiresAt: '2999-01-01T00:00:00Z' })
      },
      close: (session) => Promise.resolve(void closed.push(session)),
      whoseLink: (token) => Promise.resolve(token === 'toms' ? 'user_tom' : null),
      nameOf: (id) => Promise.resolve(id === 'user_tom' ? 'Tom <b>' : 'Alice'),
    },
  })
  keys.set('key-tom', { ...alice, id: 'user_tom' })
  const get = (headers: Record<string, string>, path = '/login?token=toms&next=/inbox/x') => send(port, path, { method: 'GET', headers })
  const asking: readonly (readonly [Record<string, string>, RegExp, string?])[] = [
    [{ cookie: 'countersign=key-alice' }, /This browser is signed in as <strong>Alice<\/strong>/],
    [{ 'sec-fetch-site': 'cross-site' }, /Sign in as Tom &lt;b&gt;\?/],
    [{ 'sec-fetch-site': 'same-site', cookie: 'countersign=key-tom' }, /Remember this device/],
    [{}, /Sign in as Tom/, '/login?token=toms&ask=1'],
  ]
  for (const [headers, message, path] of asking) {
    const answer = await get(headers, path)
    assert.equal(answer.status, 200)
    assert.match(answer.text, message)
    assert.equal(answer.headers['set-cookie'], undefined)
  }
  assert.deepEqual(opened, [], 'a page that asks has used the link up')
  const post = (headers: Record<string, string>, body = '') =>
    send(port, '/login?token=toms&next=/inbox/x', {
      headers: { 'content-type': 'application/x-www-form-urlencoded', host: 'localhost:1', ...headers },
      body,
    })
  for (const headers of [{}, { 'sec-fetch-site': 'none' }, { 'sec-fetch-site': 'cross-site' }, { origin: 'https://evil.example' }])
    assertError(await post(headers), 403, 'UNAUTHORIZED')
  assert.deepEqual(opened, [])
  const signedIn = await post({ origin: 'http://localhost:1', cookie: 'countersign=key-alice' }, 'remember=on')
  assert.deepEqual([signedIn.status, signedIn.headers['location']], [303, '/inbox/x'])
  assert.match(String(signedIn.headers['set-cookie']), /^countersign=key-tom;/)
  assert.deepEqual([opened, closed], [['toms true'], ['key-alice']], 'the session before it ends')
  // No question: no person is signed in, or the same one.
  for (const headers of [{}, { 'sec-fetch-site': 'none' }, { cookie: 'countersign=key-tom' }] as const)
    assert.equal((await get(headers)).status, 303)
  assert.equal((await get({ 'sec-fetch-site': 'cross-site' }, '/login?token=used')).status, 401)
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

test('without a declared proxy X-Forwarded-Host is ignored', async (t) => {
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

test('names on a page are text, even if they look like markup', async (t) => {
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

test('after signing in a link leads to its page, and never to another host', async (t) => {
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
