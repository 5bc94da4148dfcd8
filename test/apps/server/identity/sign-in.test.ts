// Sign-in at an OpenID Connect provider: the flow of a browser, its attacks, and the ends of a session. The provider is a process of its own.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { readConfig, type Config } from '#apps/server/settings/config.ts'
import { createLog } from '#apps/server/log.ts'
import { startServer, type Server } from '#apps/server/server.ts'
import { SYSTEM } from '#kernel/declare/access.ts'
import { freePort } from '../../../support/harness/broker.ts'
import { CLIENT_ID, CLIENT_SECRET, createVisitor, startProvider, type ProviderProcess } from '../../../support/oidc/provider.ts'

const folder = mkdtempSync(join(tmpdir(), 'oidc-'))
const undo: (() => unknown)[] = [() => rmSync(folder, { recursive: true, force: true })]
after(async () => {
  for (const step of undo.toReversed()) await step()
})

const secretFile = join(folder, 'client-secret')
writeFileSync(secretFile, `${CLIENT_SECRET}\n`)

async function serve(port: number, issuer: string, more: readonly string[] = []): Promise<Server> {
  const argv = ['--data', join(folder, `data-${port}`), '--port', String(port), '--log', 'silent', '--issuer', issuer]
  const oidc = ['--oidc-client-id', CLIENT_ID, '--oidc-client-secret-file', secretFile, ...more]
  const { config } = readConfig([...argv, ...oidc], {}) as { config: Config }
  const server = await startServer(config, { log: createLog('silent'), onFatal: (error) => assert.fail(String(error)) })
  undo.push(() => server.stop())
  return server
}

let provider: ProviderProcess
let server: Server
let app = ''
const call = (operation: string, input: object): Promise<any> => server.kernel.call(operation, input, SYSTEM)
before(async () => {
  const [port, providerPort] = [await freePort(), await freePort()]
  app = `http://127.0.0.1:${port}`
  provider = await startProvider({ port: providerPort, app })
  undo.push(() => provider.stop())
  server = await serve(port, provider.url)
  for (const name of ['alice', 'bob', 'crowd']) {
    await call('identity/user.add', { id: `user_${name}`, name })
    await call('identity/subject.link', { user_id: `user_${name}`, issuer: provider.url, sub: name })
  }
})

const isBack = (url: string): boolean => url.startsWith(`${app}/login/oidc/callback`)
type Visitor = ReturnType<typeof createVisitor>
/** The address that leads back, for a browser that has begun here. */
async function cameBack(visitor: Visitor, name: string, query = ''): Promise<string> {
  return visitor.signInAs(name, await visitor.visit(`${app}/login/oidc${query}`), isBack)
}
const me = async (visitor: Visitor): Promise<any> => {
  const headers = { 'content-type': 'application/json', origin: app }
  const { status, text } = await visitor.visit(`${app}/v1/identity/me.get`, { method: 'POST', body: '{}', headers })
  return status === 200 ? JSON.parse(text).id : status
}

test('a person signs in with the issuer, and the page leads on to where they were', async () => {
  const visitor = createVisitor()
  const back = await cameBack(visitor, 'alice', `?next=${encodeURIComponent('/inbox/req_1?x=1')}`)
  const entered = await visitor.visit(back)
  assert.deepEqual([entered.status, entered.headers.get('location')], [303, '/inbox/req_1?x=1'])
  assert.equal(await me(visitor), 'user_alice')
})

const linesOf = (): number => server.kernel.store.sealed().position

test('the groups of the identity token are recorded at the sign-in, and give nothing by themselves', async () => {
  const visitor = createVisitor()
  await visitor.visit(await cameBack(visitor, 'bob'))
  const facts = (await call('collaboration/audit.query', { project_id: 'system', limit: 200 })).items as any[]
  const signedIn = facts.findLast(({ action }) => action === 'user.signed_in')
  const { user_id, issuer, groups } =
    signedIn.changes?.find(({ kind }: any) => kind === 'identity.signed_in')?.after ?? signedIn.after ?? {}
  assert.deepEqual([user_id, issuer, groups], ['user_bob', provider.url, ['engineering', 'of-bob']])
  assert.deepEqual((await call('identity/user.get', { user_id: 'user_bob' })).user.projects.length, 1)
})

test('an account that nobody linked, and one with 10,000 groups, sign nobody in, and nothing changes', async () => {
  for (const [name, words] of [
    [
      'mallory',
      /no person here is linked to this account: an owner links it with `countersign subject link &lt;user id&gt; http:.* mallory`/,
    ],
    ['crowd', /the claim groups of the identity token names 10000 groups, and at most 500 are read/],
  ] as const) {
    const visitor = createVisitor()
    const back = await cameBack(visitor, name)
    const before = linesOf()
    const { status, text } = await visitor.visit(back)
    assert.equal(status, 403)
    assert.match(text, words)
    assert.equal(await me(visitor), 401)
    assert.equal(linesOf(), before)
  }
})

test('a way back that is changed, repeated, or of another browser signs nobody in', async () => {
  const visitor = createVisitor()
  const back = await cameBack(visitor, 'alice')
  const before = linesOf()
  const changed = (edit: (params: URLSearchParams) => void): string => {
    const url = new URL(back)
    edit(url.searchParams)
    return url.href
  }
  const flow = visitor.cookies(app).get('countersign-oidc')!
  const attempts: Record<string, string> = {
    'without a state': changed((params) => params.delete('state')),
    'with another state': changed((params) => params.set('state', 'x'.repeat(43))),
    'from another issuer': changed((params) => params.set('iss', 'https://evil.example')),
    'without the issuer': changed((params) => params.delete('iss')),
    'without a code': changed((params) => params.delete('code')),
    'with a state twice': `${back}&state=${'x'.repeat(43)}`,
    'that refuses': `${app}/login/oidc/callback?error=access_denied&state=${new URL(back).searchParams.get('state')}&iss=${provider.url}`,
  }
  for (const [title, url] of Object.entries(attempts)) {
    visitor.cookies(app).set('countersign-oidc', flow)
    const { status } = await visitor.visit(url)
    assert.ok([400, 401].includes(status), `${title}: ${status}`)
    assert.equal(visitor.cookies(app).has('countersign'), false, title)
  }
  const stranger = createVisitor()
  assert.equal((await stranger.visit(back)).status, 400, 'the browser of the victim has begun nothing')
  stranger
    .cookies(app)
    .set('countersign-oidc', Buffer.from(JSON.stringify({ secret: 'x'.repeat(43), at: Date.now() })).toString('base64url'))
  assert.equal((await stranger.visit(back)).status, 400, 'a cookie of its own making does not fit')
  assert.equal(linesOf(), before)
  visitor.cookies(app).set('countersign-oidc', flow)
  assert.equal((await visitor.visit(back)).status, 303)
  visitor.cookies(app).set('countersign-oidc', flow)
  const signedIn = visitor.cookies(app).get('countersign')
  assert.equal((await visitor.visit(back)).status, 401, 'the code was used')
  assert.equal(visitor.cookies(app).get('countersign'), signedIn)
})

test('no `next` leads to another site', async () => {
  const visitor = createVisitor()
  for (const next of [
    'https://evil.example/',
    '//evil.example',
    '/\\evil.example',
    '/%5cevil.example/..//evil.example',
    'javascript:alert(1)',
    `/${'x'.repeat(600)}`,
    '/.//evil.example',
    '/\tevil',
  ]) {
    const { headers } = await visitor.visit(await cameBack(visitor, 'alice', `?next=${encodeURIComponent(next)}`))
    const to = new URL(headers.get('location')!, app)
    assert.ok(to.origin === app && !to.pathname.startsWith('//'), `${next}: ${to.href}`)
  }
  // The cookie is of the browser, whose person can write into it.
  const back = await cameBack(visitor, 'alice')
  const begun = JSON.parse(Buffer.from(visitor.cookies(app).get('countersign-oidc')!, 'base64url').toString())
  visitor.cookies(app).set('countersign-oidc', Buffer.from(JSON.stringify({ ...begun, next: '//evil.example' })).toString('base64url'))
  assert.equal((await visitor.visit(back)).headers.get('location'), '/')
})

test('a sign-in makes a new session, and ends the one that was in the browser before', async () => {
  const visitor = createVisitor()
  await visitor.visit(await cameBack(visitor, 'alice'))
  const first = visitor.cookies(app).get('countersign')!
  await visitor.visit(await cameBack(visitor, 'alice'))
  assert.notEqual(visitor.cookies(app).get('countersign'), first)
  visitor.cookies(app).set('countersign', first)
  assert.equal(await me(visitor), 401)
  visitor.cookies(app).set('countersign', 'cs_fixed')
  await visitor.visit(await cameBack(visitor, 'alice'))
  assert.equal(await me(visitor), 'user_alice')
})

test('a session is over with the link of its account, a second link of the account does not bring it back, and a second account is another way in', async () => {
  const visitor = createVisitor()
  await visitor.visit(await cameBack(visitor, 'bob'))
  const second = createVisitor()
  await call('identity/subject.link', { user_id: 'user_bob', issuer: provider.url, sub: 'bob-2' })
  await second.visit(await cameBack(second, 'bob-2'))
  assert.deepEqual([await me(visitor), await me(second)], ['user_bob', 'user_bob'])
  await call('identity/subject.unlink', { issuer: provider.url, sub: 'bob' })
  assert.deepEqual([await me(visitor), await me(second)], [401, 'user_bob'])
  await call('identity/subject.link', { user_id: 'user_bob', issuer: provider.url, sub: 'bob' })
  assert.equal(await me(visitor), 401)
  await call('identity/user.update', { user_id: 'user_bob', disabled: true })
  assert.equal(await me(second), 401)
  const { status, text } = await second.visit(await cameBack(second, 'bob-2'))
  assert.equal(status, 403)
  assert.match(text, /the person of this account is switched off here/)
  await call('identity/user.update', { user_id: 'user_bob', disabled: false })
})

test('signing out here signs out at the issuer, and signing out there ends the session here', async () => {
  const visitor = createVisitor()
  await visitor.visit(await cameBack(visitor, 'alice'))
  const headers = { origin: app, accept: 'application/json' }
  const { text } = await visitor.visit(`${app}/logout`, { method: 'POST', headers })
  const further = new URL(JSON.parse(text).location)
  assert.equal(further.origin, provider.url)
  assert.equal(further.searchParams.get('post_logout_redirect_uri'), `${app}/`)
  assert.ok(further.searchParams.get('id_token_hint'))
  assert.equal(await me(visitor), 401)
  const asked = await visitor.visit(further.href)
  const { action, fields } = visitor.formIn(asked)
  const done = await visitor.post(action, { ...fields, logout: 'yes' })
  assert.equal(done.headers.get('location'), `${app}/`)
  // The provider asks for the name again: its session has ended.
  await visitor.visit(await cameBack(visitor, 'alice'))
  assert.equal(await me(visitor), 'user_alice')
  const there = await visitor.visit(`${provider.url}/session/end`)
  const form = visitor.formIn(there)
  await visitor.post(form.action, { ...form.fields, logout: 'yes' })
  assert.equal(await me(visitor), 401, provider.said())
})
