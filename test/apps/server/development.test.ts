// Development mode as a process: its credentials, its warnings, and that they work in no other mode.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { createAuthenticator, type Authenticator } from '#apps/server/identity/authenticator.ts'
import { developmentCredentials, setUpDevelopment } from '#apps/server/identity/development.ts'
import type { Actor } from '#kernel/declare/access.ts'
import type { Credential } from '#protocols/identity/authenticate.ts'
import { runPiped } from '../../support/as-processes/cli.ts'
import { send, type Answer } from '../../support/over-sockets/http-client.ts'
import { dataFolder, runToEnd, start } from '../../support/as-processes/server-process.ts'
import { refusalOf } from '../../support/in-process/stage.ts'
import { createWorld, type World } from '../../support/in-process/world.ts'

const call = (port: number, token: string, name: string, body: object = {}): Promise<Answer> =>
  send(port, `/v1/${name}`, {
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
const idOf = async (port: number, token: string): Promise<string> => {
  const { status, json } = await call(port, token, 'identity/me.get')
  return status === 200 ? (json as { id: string }).id : String(status)
}
const keys = ['dev-agent-key', 'dev-agent-key-2', 'dev-human-token']
const wrong = ['dev-agent-key-3', 'dev-human-token-2', 'DEV-AGENT-KEY', 'dev', 'agent_dev', 'user_owner', '__proto__', 'constructor']

test('three well-known credentials, and no others, make two agents and the owner, with a loud warning', async (t) => {
  const data = dataFolder(t)
  const server = await start(t, ['--data', data, '--dev'])
  assert.match(server.stderr(), /\* {2}DEVELOPMENT MODE [^]*dev-agent-key, dev-agent-key-2, dev-human-token/)
  assert.match(server.stderr(), /"level":"warn".*development mode/)
  assert.equal((await send(server.port, '/health', { method: 'GET' })).json.mode, 'development')
  assert.deepEqual(await Promise.all(keys.map((word) => idOf(server.port, word))), ['agent_dev', 'agent_dev-2', 'user_owner'])
  assert.deepEqual(
    await Promise.all(wrong.map((word) => idOf(server.port, word))),
    wrong.map(() => '401'),
  )
  const cookie = await send(server.port, '/v1/identity/me.get', { headers: { cookie: 'countersign=dev-human-token' } })
  assert.equal(cookie.status, 401)
  const { json } = await call(server.port, 'dev-human-token', 'identity/agent.get', { agent_id: 'agent_dev-2' })
  assert.deepEqual([json.agent.owner, json.agent.projects], ['user_owner', [{ project_id: 'project_default', role: 'member' }]])

  const env = { COUNTERSIGN_URL: `http://127.0.0.1:${server.port}`, COUNTERSIGN_DATA: data }
  const { out } = await runPiped(['doctor', '--quick', '--json'], { env, cwd: join(data, '..') })
  assert.match(out, /development mode: anyone/)

  const page = { origin: 'null', 'access-control-request-method': 'POST' }
  assert.equal((await send(server.port, '/hxp', { method: 'OPTIONS', headers: page })).headers['access-control-allow-origin'], 'null')
  const elsewhere = await send(server.port, '/v1/identity/me.get', { method: 'OPTIONS', headers: page })
  assert.equal(elsewhere.headers['access-control-allow-origin'], undefined, 'only where the clients of others are at home')
  const rebound = await send(server.port, '/hxp', { method: 'GET', headers: { host: 'evil.example', origin: 'http://evil.example' } })
  assert.equal(rebound.status, 421)
  await server.end()

  const again = await start(t, ['--data', data], { env: { COUNTERSIGN_DEV: '0' } })
  assert.deepEqual(await Promise.all(keys.map((word) => idOf(again.port, word))), ['401', '401', '401'], 'nobody outside of it')
  assert.equal((await send(again.port, '/health', { method: 'GET' })).json.mode, undefined)
  assert.doesNotMatch(again.stderr(), /DEVELOPMENT/i)
  const closed = await send(again.port, '/hxp', { method: 'OPTIONS', headers: page })
  assert.equal(closed.headers['access-control-allow-origin'], undefined)
  await again.end()
  const third = await start(t, ['--data', data], { env: { COUNTERSIGN_DEV: '1' } })
  assert.equal(await idOf(third.port, 'dev-agent-key'), 'agent_dev', 'and back in it, as they were')
  await third.end()
})

test('an agent may change as much as it likes there, in a minute', async (t) => {
  const server = await start(t, ['--data', dataFolder(t), '--dev'])
  const answers = new Set<number>()
  for (let round = 0; round < 14; round++) {
    const calls = Array.from({ length: 50 }, () => call(server.port, 'dev-agent-key', 'identity/ticket.issue'))
    for (const { status, text } of await Promise.all(calls)) answers.add(text.includes('an agent may') ? -1 : status)
  }
  assert.equal(answers.has(-1), false, 'no quota was met')
  await server.end()
})

test('it is refused if others could reach it, before anything is created', async (t) => {
  for (const args of [
    ['--proxy', 'trusted'],
    ['--host', '0.0.0.0'],
    ['--host', '0.0.0.0', '--proxy', 'trusted'],
  ]) {
    const { code, stdout, stderr } = await runToEnd(t, ['--data', dataFolder(t), '--port', '0', '--dev', ...args])
    assert.deepEqual([code, stdout], [2, ''])
    assert.equal(stderr.trim().split('\n').length, 1, stderr)
  }
})

async function ticketOf({ kernel }: World, owner: Actor, redeem: Authenticator['redeem']): Promise<Actor> {
  const { ticket } = await kernel.call('identity/ticket.issue', {}, owner)
  return (await redeem(ticket))()
}

test('its credentials are distinct, follow their registration, and are traded for nothing that lasts', async (t) => {
  const world = await createWorld()
  t.after(world.close)
  await setUpDevelopment(world.kernel)
  await setUpDevelopment(world.kernel)
  const { recheck, redeem, ...sessions } = createAuthenticator(world.kernel, { dev: true })
  const authenticate = async (credential: Credential): Promise<Actor> => sessions.authenticate(credential)
  for (const token of developmentCredentials.keys()) {
    assert.equal((await authenticate({ kind: 'bearer', token })).via, 'development')
    assert.equal((await recheck({ kind: 'bearer', token })).via, 'development')
    assert.equal((await refusalOf(authenticate({ kind: 'session', token }))).code, 'UNAUTHENTICATED')
    assert.equal(
      (await refusalOf((async () => createAuthenticator(world.kernel).authenticate({ kind: 'bearer', token }))())).code,
      'UNAUTHENTICATED',
    )
  }
  const owner = await authenticate({ kind: 'bearer', token: 'dev-human-token' })
  for (const [name, input] of [
    ['key.issue', { subject: 'user_owner' }],
    ['key.issue', { subject: 'agent_dev' }],
    ['login.issue', { user_id: 'user_owner' }],
  ] as const)
    for (const caller of [owner, await ticketOf(world, owner, redeem)])
      assert.equal((await refusalOf(world.kernel.call(`identity/${name}`, input, caller))).code, 'UNAUTHORIZED')
  await world.call('admin', 'identity/agent.update', { agent_id: 'agent_dev', disabled: true })
  assert.equal((await refusalOf(authenticate({ kind: 'bearer', token: 'dev-agent-key' }))).code, 'UNAUTHENTICATED')
  const { key } = await world.call('admin', 'identity/key.issue', { subject: 'user_alice' })
  assert.equal((await authenticate({ kind: 'bearer', token: key })).via, 'key', 'and everybody else comes as always')
})
