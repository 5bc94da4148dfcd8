// Existing clients against this server, unmodified: what they send, and what they need to find in the answers.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { createHttp } from '#bindings/http/index.ts'
import { hxp } from '#bridges/hxp/index.ts'
import type { Actor } from '#kernel/declare/access.ts'
import { agentClient, demo, page } from '../../support/over-sockets/hxp-clients.ts'
import { send } from '../../support/over-sockets/http-client.ts'
import { hxpWorld, QUESTION } from '../../support/over-sockets/hxp-world.ts'
import { spawnServer } from '../../support/as-processes/server.ts'

const wait = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms))

test('an agent’s client creates, polls and gets its receipts; every error has a message', async (t) => {
  const { port, keys } = await hxpWorld(t)
  await agentClient(`http://127.0.0.1:${port}`, { agent: keys.devin, human: keys.alice }, wait)
})

test('the page for people reads the inbox and answers a number with the text "42"', async (t) => {
  const { port, keys } = await hxpWorld(t)
  await page(`http://127.0.0.1:${port}`, { agent: keys.devin, human: keys.alice }, `http://127.0.0.1:${port}`)
})

test('the demo script asks under several names with one development key', async (t) => {
  const { kernel } = await hxpWorld(t)
  const devin: Actor = { id: 'agent_devin', kind: 'agent', projects: new Map([['project_default', 'member']]), via: 'development' }
  const http = createHttp({
    kernel,
    authenticate: ({ token }) => (token === 'dev-agent-key' ? Promise.resolve(devin) : Promise.reject(new Error('nobody'))),
    logins: { open: () => Promise.reject(new Error('none')), close: () => Promise.resolve() },
    log: { level: 'info', debug: () => undefined, error: () => undefined },
    version: '1',
    hosts: [],
    proxied: false,
    health: () => ({}),
    bridges: [hxp(null)],
  })
  t.after(http.stop)
  await demo(`http://127.0.0.1:${await http.listen(0, '127.0.0.1')}`, { agent: 'dev-agent-key', human: '' })
  const { port, keys } = await hxpWorld(t)
  await assert.rejects(demo(`http://127.0.0.1:${port}`, { agent: keys.devin, human: '' }), /401/, 'any other key asks in its own name')
})

// --- The real server in development mode ---------------------------------------------------------------------------------------

const MAIN = join(import.meta.dirname, '../../../src/apps/server/main.ts')
async function development(t: TestContext): Promise<number> {
  const data = mkdtempSync(join(tmpdir(), 'countersign-dev-'))
  const { port, end } = await spawnServer([MAIN], {
    COUNTERSIGN_DATA: data,
    COUNTERSIGN_PORT: '0',
    COUNTERSIGN_LOG: 'error',
    COUNTERSIGN_DEV: '1',
  })
  t.after(async () => {
    await end('SIGKILL')
    rmSync(data, { recursive: true, force: true })
  })
  return port
}

test('in development mode the well-known credentials are enough, and pages of any origin have access', async (t) => {
  const port = await development(t)
  const base = `http://127.0.0.1:${port}`
  const known = { agent: 'dev-agent-key', human: 'dev-human-token' }
  await demo(base, known)
  const ask = (agent: string) =>
    send(port, '/hxp/v1/requests', {
      headers: { authorization: `Bearer ${agent}`, 'content-type': 'application/json' },
      body: JSON.stringify(QUESTION),
    })
  const first = (await ask('dev-agent-key')).json
  const second = (await ask('dev-agent-key-2')).json
  const shown = (id: string, agent: string) =>
    send(port, `/hxp/v1/requests/${id}`, { method: 'GET', headers: { authorization: `Bearer ${agent}` } })
  assert.equal((await shown(first.request_id, 'dev-agent-key')).status, 200)
  assert.equal((await shown(second.request_id, 'dev-agent-key')).status, 404, 'the second key is another agent')
  const inbox = await send(port, '/hxp/v1/inbox?status=pending', {
    method: 'GET',
    headers: { authorization: 'Bearer dev-human-token', origin: 'null' },
  })
  assert.deepEqual([inbox.status, inbox.json.total, inbox.headers['access-control-allow-origin']], [200, 4, 'null'])
  const hasKeys = (await send(port, '/.well-known/jwks.json', { method: 'GET' })).status === 200
  if (!hasKeys) return t.diagnostic('without keys nothing can be answered: the flows with receipts are left out')
  await agentClient(base, known, wait)
  await page(base, known, 'null')
})

test('CORS: on every answer for pages of configured origins, errors and preflights included, and for no others', async (t) => {
  const world = await hxpWorld(t, { http: { cors: { prefixes: ['/hxp'], origins: ['https://desk.example.com'], anyOrigin: false } } })
  const { request_id } = await world.ask()
  const from = (origin: string) => ({ origin })
  const paths: [string, string, string | null][] = [
    ['GET', '/inbox', 'alice'],
    ['GET', `/requests/${request_id}`, 'alice'],
    ['GET', '/inbox', null],
    ['GET', '/nothing', 'alice'],
    ['PATCH', '/inbox', 'alice'],
    ['POST', `/requests/${request_id}/resolve`, 'alice'],
  ]
  for (const [method, path, as] of paths) {
    const good = await world.http(as, method, path, undefined, from('https://desk.example.com'))
    assert.equal(good.headers['access-control-allow-origin'], 'https://desk.example.com', `${method} ${path}`)
    assert.equal(good.headers['access-control-expose-headers'], 'HXP-Status, HXP-Request-Id, HXP-Ignored, Retry-After')
    const foreign = await world.http(as, method, path, undefined, from('https://evil.example.com'))
    assert.equal(foreign.headers['access-control-allow-origin'], undefined)
  }
  const preflight = await world.http(null, 'OPTIONS', `/requests/${request_id}/resolve`, undefined, {
    ...from('https://desk.example.com'),
    'access-control-request-method': 'POST',
    'access-control-request-headers': 'authorization, content-type',
  })
  assert.equal(preflight.status, 204)
  assert.match(String(preflight.headers['access-control-allow-headers']), /authorization.*content-type/)
})
