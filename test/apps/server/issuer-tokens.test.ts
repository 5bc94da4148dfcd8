// Tokens of an issuer, with a real one over HTTP: which are genuine, which actor they name, and the refusal when the keys cannot be fetched.
import assert from 'node:assert/strict'
import { exportJWK, exportSPKI, SignJWT, UnsecuredJWT } from 'jose'
import { setTimeout as wait } from 'node:timers/promises'
import { describe, test, type TestContext } from 'node:test'
import { readConfig, type Config } from '#apps/server/settings/config.ts'
import { createIssuer, isJwt, type Issuer } from '#apps/server/identity/issuer.ts'
import type { KeySetBounds } from '#apps/server/identity/issuer-keys.ts'
import { createLog } from '#apps/server/log.ts'
import { startServer, type Server } from '#apps/server/server.ts'
import { createAuthenticator, type Authenticator } from '#apps/server/identity/authenticator.ts'
import type { Actor } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { send, type Answer } from '../../support/over-sockets/http-client.ts'
import { AUDIENCE, pairOf, startIssuer, type TestIssuer } from '../../support/over-sockets/issuer.ts'
import { dataFolder } from '../../support/as-processes/server-process.ts'
import { refusalOf } from '../../support/in-process/stage.ts'
import { cast, createWorld, type World } from '../../support/in-process/world.ts'

const NOBODY = 'a valid API key or session is required'
const nobody = async (calling: Promise<unknown>): Promise<void> => {
  const { code, message } = await refusalOf(calling)
  assert.deepEqual([code, message], ['UNAUTHENTICATED', NOBODY])
}

type Made = { readonly from: TestIssuer; readonly issuer: Issuer; readonly said: string[] }
async function made(
  t: TestContext,
  bounds: Partial<KeySetBounds> = {},
  jwks: (from: TestIssuer) => string | null = () => null,
): Promise<Made> {
  const from = await startIssuer(t)
  const said: string[] = []
  const log = { debug: () => undefined, warn: (_: object, message: string) => void said.push(message) }
  const settings = { url: from.url, jwks: jwks(from), audience: AUDIENCE }
  return { from, said, issuer: await createIssuer(settings, { now: Date.now, log: log as never, bounds }) }
}

const inSeconds = (seconds: number): number => Math.floor(Date.now() / 1_000) + seconds

describe('a token', () => {
  test('of the issuer, for here and in time, proves its subject; the keys are fetched once', async (t) => {
    const { from, issuer } = await made(t)
    const token = await from.token()
    assert.ok(isJwt(token))
    assert.deepEqual(from.asked, [], 'nothing is asked before a token comes')
    const { issuer: by, sub, until } = await issuer.verify(token)
    assert.deepEqual([by, sub], [from.url, 'alice-7'])
    assert.ok(Math.abs(Date.parse(until) - Date.now() - 330_000) < 60_000)
    await issuer.verify(token)
    await issuer.verify(await from.token({ aud: ['other', AUDIENCE], nbf: inSeconds(20), exp: inSeconds(-20) }, { typ: 'at+jwt' }))
    assert.deepEqual(from.asked, ['/.well-known/openid-configuration', '/keys'])
  })

  test('may be signed with any asymmetric algorithm', async (t) => {
    const algorithms = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA']
    const { from, issuer } = await made(t, {}, ({ jwks }) => jwks)
    from.pairs = await Promise.all(algorithms.map((alg) => pairOf(alg, alg)))
    for (const pair of from.pairs) assert.equal((await issuer.verify(await from.token({}, {}, pair))).sub, 'alice-7', pair.alg)
    assert.deepEqual(from.asked, ['/keys'], 'where the keys are was said')
  })

  test('that is wrong in any way authenticates no one, with one and the same message', async (t) => {
    const { from, issuer } = await made(t, { retryMs: 0 })
    const good = await from.token()
    await issuer.verify(good)
    const [header, payload, signature] = good.split('.') as [string, string, string]
    const coded = (value: unknown): string => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url')
    const stranger = await pairOf('one')
    const claims = { iss: from.url, aud: AUDIENCE, sub: 'alice-7', exp: inSeconds(300) }
    const publicPem = new TextEncoder().encode(await exportSPKI(from.pairs[0]!.publicKey))
    const publicJwk = new TextEncoder().encode(JSON.stringify(await exportJWK(from.pairs[0]!.publicKey)))
    const hmac = (secret: Uint8Array, kid?: string): Promise<string> =>
      new SignJWT(claims).setProtectedHeader({ alg: 'HS256', ...(kid === undefined ? {} : { kid }) }).sign(secret)
    const embedded = { jwk: await exportJWK(stranger.publicKey) }
    const bad: Record<string, string | Promise<string>> = {
      'of another issuer': from.token({ iss: 'https://other.example' }),
      'without an issuer': from.token({ iss: undefined }),
      'with a slash more': from.token({ iss: `${from.url}/` }),
      'for another audience': from.token({ aud: 'other' }),
      'for none': from.token({ aud: undefined }),
      expired: from.token({ exp: inSeconds(-31) }),
      'that never ends': from.token({ exp: undefined }),
      'that ends at a text': from.token({ exp: 'never' }),
      'for later': from.token({ nbf: inSeconds(60) }),
      'without a subject': from.token({ sub: undefined }),
      'with an empty subject': from.token({ sub: '' }),
      'with a subject that is a list': from.token({ sub: ['alice-7'] }),
      'with a long subject': from.token({ sub: 'x'.repeat(limits.subCharsMax + 1) }),
      'signed by another key of the same name': from.token({}, {}, stranger),
      'signed by another key that it brings along': from.token({}, embedded, stranger),
      'signed by another key that it says where to find': from.token(
        {},
        { jku: 'http://127.0.0.1:1/keys', x5u: 'http://127.0.0.1:1/' },
        stranger,
      ),
      'signed by a key that the issuer does not have': from.token({}, { kid: 'two' }, stranger),
      'not signed': new UnsecuredJWT(claims).encode(),
      'not signed, in other letters': `${coded({ alg: 'NONE', kid: 'one' })}.${coded(claims)}.`,
      'whose signature is missing': `${header}.${payload}.`,
      'whose signature is another': `${header}.${payload}.${signature.replace(/^./, (c) => (c === 'A' ? 'B' : 'A'))}`,
      'whose claims were changed': `${header}.${coded({ ...claims, sub: 'owner' })}.${signature}`,
      'HMAC with the public key as PEM': hmac(publicPem, 'one'),
      'HMAC with the public key as JWK': hmac(publicJwk, 'one'),
      'HMAC without a key id': hmac(publicPem),
      'that says HMAC over the old signature': `${coded({ alg: 'HS256', kid: 'one' })}.${payload}.${signature}`,
      'with a critical header that nobody knows': from
        .token({}, { crit: ['x'], x: 1 })
        .catch(() => `${coded({ alg: 'ES256', crit: ['x'], x: 1 })}.${payload}.${signature}`),
      'to log out': from.token({}, { typ: 'logout+jwt' }),
      'with a type that is a list': from.token({}, { typ: ['JWT'] }),
      'that says its subject twice': `${header}.${coded(`{"iss":"${from.url}","sub":"owner","sub":"alice-7"}`)}.${signature}`,
      'that is not JSON': `${coded('{')}.${payload}.${signature}`,
      'that is null': `${coded('null')}.${coded('null')}.${signature}`,
      'of nothing': 'a.b.c',
    }
    for (const [message, token] of Object.entries(bad)) {
      const text = await token
      assert.ok(isJwt(text), message)
      await nobody(issuer.verify(text)).catch((error: unknown) => assert.fail(`a token ${message}: ${String(error)}`))
    }
    assert.equal((await issuer.verify(good)).sub, 'alice-7', 'and the good one is still good')
  })

  test('that is longer than a token is, or has other parts, is none', async () => {
    for (const text of ['', 'a', 'a.b', 'a.b.c.d', 'a.b.c ', 'a.ü.c', '..', '.b.c', `a.${'b'.repeat(limits.tokenCharsMax)}.c`]) {
      assert.equal(isJwt(text), false, text.slice(0, 20))
    }
  })
})

describe('the keys of an issuer', () => {
  test('may rotate: a new key is found, and what the old one signed counts no longer', async (t) => {
    const { from, issuer } = await made(t, { retryMs: 0 })
    const before = await from.token()
    await issuer.verify(before)
    from.pairs = [await pairOf('two', 'RS256')]
    assert.equal((await issuer.verify(await from.token())).sub, 'alice-7')
    await nobody(issuer.verify(before))
  })

  test('are fetched rarely, for any sequence of tokens', async (t) => {
    const { from, issuer } = await made(t)
    await issuer.verify(await from.token())
    const stranger = await pairOf('unknown')
    for (let i = 0; i < 20; i++) await nobody(issuer.verify(await from.token({}, { kid: `unknown-${i}` }, stranger)))
    assert.equal(from.asked.length, 2)
  })

  test('are not fetched for a token with a foreign audience', async (t) => {
    const { from, issuer } = await made(t)
    await nobody(issuer.verify(await from.token({ iss: 'https://other.example' })))
    await nobody(issuer.verify(new UnsecuredJWT({ iss: from.url }).encode()))
    assert.deepEqual(from.asked, [])
  })

  test('are fetched once for many that come together', async (t) => {
    const { from, issuer } = await made(t)
    const tokens = await Promise.all(Array.from({ length: 50 }, (_, i) => from.token({ sub: `person-${i}` })))
    const subs = await Promise.all(tokens.map(async (token) => (await issuer.verify(token)).sub))
    assert.equal(new Set(subs).size, 50)
    assert.equal(from.asked.length, 2)
  })

  test('remain valid for a while without the issuer, and then tokens cannot be checked', async (t) => {
    const { from, issuer, said } = await made(t, { retryMs: 0, freshMs: 0, staleMs: 300 })
    const token = await from.token()
    await issuer.verify(token)
    from.stop()
    assert.equal((await issuer.verify(token)).sub, 'alice-7')
    await wait(350)
    const { code, details } = await refusalOf(issuer.verify(token))
    assert.deepEqual([code, details], ['BUSY', { retry_after: 1 }])
    assert.match(said.join(), /the keys of the issuer could not be fetched: ECONNREFUSED/)
  })

  for (const [message, instead, reason] of [
    ['answers with an error', (_: unknown, response: any) => response.writeHead(500).end('no'), /answered 500/],
    ['answers with something else', (_: unknown, response: any) => response.end('<html>'), /not JSON/],
    [
      'answers without end',
      (_: unknown, response: any) => void response.write('x'.repeat(limits.issuerBytesMax + 1)),
      /more than 262144 bytes/,
    ],
    ['sends us elsewhere', (_: unknown, response: any) => response.writeHead(302, { location: '/keys' }).end(), /redirect/],
    ['does not answer', () => undefined, /timeout|aborted/],
    ['begins and does not end', (_: unknown, response: any) => void response.write('{'), /timeout|aborted/],
    [
      'is another one',
      (_: unknown, response: any) => response.end('{"issuer":"https://other.example","jwks_uri":"x"}'),
      /names the issuer "https:/,
    ],
  ] as const) {
    test(`are not had from one that ${message}: 503, and the next try is later`, async (t) => {
      const { from, issuer, said } = await made(t, { askMs: 300 })
      from.instead = instead as never
      const token = await from.token()
      for (let i = 0; i < 3; i++) assert.equal((await refusalOf(issuer.verify(token))).code, 'BUSY')
      assert.equal(from.asked.length, 1)
      assert.match(said.join(), reason)
    })
  }

  test('are not fetched in the open from another machine', async (t) => {
    const { from, issuer, said } = await made(t)
    from.instead = (_, response) => response.end(JSON.stringify({ issuer: from.url, jwks_uri: 'http://keys.example/keys' }))
    assert.equal((await refusalOf(issuer.verify(await from.token()))).code, 'BUSY')
    assert.match(said.join(), /no jwks_uri with https/)
  })
})

// --- Who comes with a token ------------------------------------------------------------------------------------------------

type Linked = World & {
  readonly from: TestIssuer
  readonly sessions: Authenticator
  who(token: string): Promise<Actor>
  link(sub: string, user_id: string): Promise<any>
}
async function linked(t: TestContext): Promise<Linked> {
  const world = await createWorld()
  t.after(world.close)
  const from = await startIssuer(t, world.kernel.now)
  const log = { debug: () => undefined, warn: () => undefined }
  const issuer = await createIssuer({ url: from.url, jwks: null, audience: AUDIENCE }, { now: world.kernel.now, log })
  const sessions = createAuthenticator(world.kernel, { issuer })
  const link = (sub: string, user_id: string): Promise<any> =>
    world.call('admin', 'identity/subject.link', { user_id, issuer: from.url, sub })
  return { ...world, from, sessions, link, who: async (token) => sessions.authenticate({ kind: 'bearer', token }) }
}

test('a linked subject is the person; before, after, and while the person is switched off it is no one', async (t) => {
  const { from, who, link, call, sessions } = await linked(t)
  const token = await from.token()
  await nobody(who(token))
  await link('alice-7', 'user_alice')
  const alice = await who(token)
  assert.deepEqual([alice.id, alice.kind, alice.via, alice.owner, alice.narrowed], ['user_alice', 'human', 'token', false, true])
  assert.equal((await sessions.recheck({ kind: 'bearer', token })).id, 'user_alice')
  await nobody(Promise.resolve(sessions.authenticate({ kind: 'session', token })))
  await nobody(who(await from.token({ sub: 'ALICE-7' })))
  await call('admin', 'identity/user.update', { user_id: 'user_alice', disabled: true })
  await nobody(who(token))
  await call('admin', 'identity/user.update', { user_id: 'user_alice', disabled: false })
  assert.equal((await who(token)).id, 'user_alice')
  await call('admin', 'identity/subject.unlink', { issuer: from.url, sub: 'alice-7' })
  await nobody(who(token))
  await nobody(sessions.recheck({ kind: 'bearer', token }))
  await link('alice-7', 'user_bob')
  assert.equal((await who(token)).id, 'user_bob', 'linked again it is whom it was linked to')
})

test('a subject is one person at a time, of whom there are so many; agents and strangers cannot be linked', async (t) => {
  const { from, link, call } = await linked(t)
  const code = async (calling: Promise<unknown>): Promise<string> => (await refusalOf(calling)).code
  await link('s-0', 'user_alice')
  assert.equal(await code(link('s-0', 'user_bob')), 'CONFLICT')
  assert.equal(await code(link('s-0', 'user_alice')), 'CONFLICT')
  assert.equal(await code(link('s', 'agent_devin')), 'INVALID_REQUEST')
  assert.equal(await code(link('s', 'user_nobody')), 'NOT_FOUND')
  assert.equal(await code(link('', 'user_alice')), 'INVALID_REQUEST')
  assert.equal(await code(call('admin', 'identity/subject.link', { user_id: 'user_alice', issuer: 'login', sub: 's' })), 'INVALID_REQUEST')
  for (let i = 1; i < limits.subjectsPerUserMax; i++) await link(`s-${i}`, 'user_alice')
  assert.equal(await code(link('s-more', 'user_alice')), 'QUOTA_EXCEEDED')
  await call('admin', 'identity/subject.unlink', { issuer: from.url, sub: 's-0' })
  assert.equal(await code(call('admin', 'identity/subject.unlink', { issuer: from.url, sub: 's-0' })), 'PRECONDITION_FAILED')
  await link('s-more', 'user_alice')
  await link('bob', 'user_bob')
  const list = async (input: object): Promise<string[]> =>
    (await call('admin', 'identity/subject.list', input)).items.map((one: any) => one.sub)
  assert.equal((await list({ limit: 100 })).length, limits.subjectsPerUserMax + 1)
  assert.deepEqual(await list({ user_id: 'user_bob' }), ['bob'])
  await call('admin', 'identity/user.update', { user_id: 'user_bob', disabled: true })
  assert.equal(await code(link('bob-2', 'user_bob')), 'PRECONDITION_FAILED')
})

test('a token that is unlinked while its call is under way cannot win', async (t) => {
  const { from, who, link, call, kernel } = await linked(t)
  await link('alice-7', 'user_alice')
  const token = await from.token()
  let asked = 0
  const slow = async (): Promise<Actor> => {
    const actor = await who(token)
    if (asked++ === 0) await call('admin', 'identity/subject.unlink', { issuer: from.url, sub: 'alice-7' })
    return actor
  }
  await nobody(kernel.call('collaboration/task.create', { spec: { goal: 'Fix it' } }, slow))
})

test('a token ends, issues nothing that does not, and a ticket is worth no more than it', async (t) => {
  const { from, who, link, kernel, sessions, advance } = await linked(t)
  await link('alice-7', 'user_alice')
  await link('owner', 'user_owner')
  const token = await from.token()
  const owner = await who(await from.token({ sub: 'owner' }))
  assert.equal(owner.owner, true)
  for (const [name, input] of [
    ['key.issue', { subject: 'user_owner' }],
    ['login.issue', { user_id: 'user_bob' }],
    ['subject.link', { user_id: 'user_bob', issuer: from.url, sub: 'mine' }],
  ] as const)
    assert.equal((await refusalOf(kernel.call(`identity/${name}`, input, owner))).code, 'UNAUTHORIZED', name)
  const alice = await who(token)
  const ticketed = async (): Promise<() => Promise<Actor>> =>
    sessions.redeem((await kernel.call('identity/ticket.issue', {}, alice)).ticket)
  const again = await ticketed()
  assert.deepEqual([(await again()).id, (await again()).via], ['user_alice', 'ticket'])
  advance(330_000)
  await nobody(again())
  await nobody(who(token))
})

// --- The whole server ------------------------------------------------------------------------------------------------------

async function serverOf(t: TestContext, args: string[]): Promise<Server> {
  const { config } = readConfig(['--data', dataFolder(t), '--port', '0', '--log', 'silent', '--socket', 'off', ...args], {}) as {
    config: Config
  }
  const server = await startServer(config, { log: createLog('silent'), onFatal: (error) => assert.fail(String(error)) })
  t.after(server.stop)
  return server
}
const me = (port: number, token: string): Promise<Answer> =>
  send(port, '/v1/identity/me.get', { headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' }, body: '{}' })

test('over HTTP: 200 for the person, 401 for a stranger, 503 with Retry-After if the token cannot be checked, and health stays well', async (t) => {
  const from = await startIssuer(t)
  const server = await serverOf(t, ['--issuer', from.url, '--audience', AUDIENCE])
  const token = await from.token()
  from.instead = (_, response) => void response.writeHead(500).end()
  const busy = await me(server.port, token)
  assert.deepEqual([busy.status, busy.json.error.code, busy.headers['retry-after']], [503, 'BUSY', '10'])
  assert.equal((await send(server.port, '/health', { method: 'GET' })).status, 200)
  await nobodyOver(me(server.port, 'a.b.c'))
})

test('over HTTP, linked by the owner; without an issuer the same token is refused', async (t) => {
  const from = await startIssuer(t)
  const server = await serverOf(t, ['--issuer', from.url, '--audience', AUDIENCE])
  await server.kernel.call('identity/subject.link', { user_id: 'user_owner', issuer: from.url, sub: 'alice-7' }, cast['admin']!)
  const token = await from.token()
  const answer = await me(server.port, token)
  assert.deepEqual([answer.status, answer.json.id, answer.json.kind], [200, 'user_owner', 'human'])
  await nobodyOver(me(server.port, await from.token({ aud: 'other' })))
  const plain = await serverOf(t, [])
  await nobodyOver(me(plain.port, token))
})

async function nobodyOver(calling: Promise<Answer>): Promise<void> {
  const { status, json } = await calling
  assert.deepEqual([status, json.error.code, json.error.message], [401, 'UNAUTHENTICATED', NOBODY])
}
