// Several servers on one PostgreSQL count, offer and administer as one: quotas, capabilities, tickets, names, keys, and what a load balancer sees.
import assert from 'node:assert/strict'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test, type TestContext } from 'node:test'
import pg from 'pg'
import { WebSocket } from 'ws'
import { MIGRATING } from '#stores/postgres/schema.ts'
import { runPiped, type Ran } from '../../support/as-processes/cli.ts'
import { freePort, inDatabase, isPostgresOff, newDatabase } from '../../support/as-processes/postgres.ts'
import { enroll } from '../../support/as-processes/server.ts'
import { dataFolder, launch, runToEnd, start } from '../../support/as-processes/server-process.ts'
import { SECRET, startServers, type Node, type Servers } from '../../support/as-processes/servers.ts'
import { send, type Answer } from '../../support/over-sockets/http-client.ts'

const ok = async (answer: Promise<{ status: number; body: any }>): Promise<any> => {
  const { status, body } = await answer
  assert.equal(status, 200, JSON.stringify(body))
  return body
}
const get = (node: Node, path: string): Promise<Answer> => send(node.port, path, { method: 'GET' })
async function until(what: string, isTrue: () => Promise<boolean>, ms = 15_000): Promise<void> {
  for (const end = performance.now() + ms; !(await isTrue());) {
    assert.ok(performance.now() < end, what)
    await new Promise((done) => setTimeout(done, 100))
  }
}

describe('several servers', { skip: isPostgresOff }, () => {
  test('count what an agent changes over all of them', async (t) => {
    const servers = await startServers(t, 3, undefined, { COUNTERSIGN_QUOTA: '6', COUNTERSIGN_REQUESTS_PER_MINUTE: '3' })
    const { nodes } = servers
    const { alice, devin } = await enroll(nodes[0]!.port, servers.adminKey)
    const { task } = await ok(nodes[0]!.call(alice, 'collaboration/task.create', { spec: { goal: 'Much' } }))
    await ok(nodes[0]!.call(alice, 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_devin' }))
    const began = performance.now()
    const acting = Array.from({ length: 24 }, (_, i) => nodes[i % 3]!.call(devin, 'delegation/mailbox.take', { limit: 1 }))
    const statuses = (await Promise.all(acting)).map(({ status }) => status)
    const granted = statuses.filter((status) => status === 200).length
    const refilled = Math.ceil((performance.now() - began) / 10_000)
    assert.ok(granted >= 6 && granted <= 6 + 3 + refilled, `${granted} of 24 were granted: ${statuses.join(' ')}`)
    assert.equal(statuses.filter((status) => status === 429).length, 24 - granted)
  })

  test('offer what each of them has, and take it back when none has it any more', async (t) => {
    const servers = await startServers(t, 2)
    const file = `${dataFolder(t)}.json`
    const skill = {
      capability_id: 'cap:greet',
      version: '1.0.0',
      name: 'Greet',
      input_schema: { type: 'object' },
      prompt_template: 'Say hello',
    }
    writeFileSync(file, JSON.stringify({ skills: { greetings: { skills: [skill] } } }))
    const [a, b] = servers.nodes as [Node, Node]
    const { alice, devin } = await enroll(a.port, servers.adminKey)
    const c = await servers.add('node-with', { args: ['--capabilities', file] })
    const offered = async (node: Node): Promise<string[]> =>
      (await ok(node.call(devin, 'delegation/capability.list'))).items.map(({ capability_id }: any) => capability_id)
    assert.deepEqual(await offered(a), ['cap:greet'])
    // One that has none starts, and takes nothing away.
    const d = await servers.add('node-without')
    assert.deepEqual(await offered(d), ['cap:greet'])

    const { task } = await ok(a.call(alice, 'collaboration/task.create', { spec: { goal: 'Greet' } }))
    await ok(a.call(alice, 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_devin' }))
    const run_id = (await ok(b.call(devin, 'delegation/mailbox.take'))).items[0].run.id
    await ok(b.call(devin, 'delegation/run.start', { run_id, attempt: 1 }))
    const invoke = { run_id, attempt: 1, ref: { capability_id: 'cap:greet', version: '1.0.0' } }
    const elsewhere = await a.call(devin, 'delegation/capability.invoke', invoke, 'once')
    assert.equal(elsewhere.status, 503)
    assert.match(elsewhere.body.error.message, /the source greetings is on another server/)
    const here = await ok(c.call(devin, 'delegation/capability.invoke', invoke, 'once'))
    assert.equal(here.ok, true, JSON.stringify(here))
    assert.deepEqual(await ok(a.call(devin, 'delegation/capability.invoke', invoke, 'once')), here, 'a repeated call is answered anywhere')

    const e = await servers.add('node-with-too', { args: ['--capabilities', file] })
    await c.end('SIGKILL')
    await new Promise((done) => setTimeout(done, 7_000))
    assert.deepEqual(await offered(a), ['cap:greet'], 'another one has it')
    await e.end()
    await until('nobody has it any more', async () => (await offered(b)).length === 0)
  })

  test('take the socket address of a question that another one gave out, once', async (t) => {
    const { nodes, adminKey } = await startServers(t, 2)
    const [a, b] = nodes as [Node, Node]
    const { alice, devin } = await enroll(a.port, adminKey)
    const headers = { authorization: `Bearer ${devin}`, 'content-type': 'application/json' }
    const body = JSON.stringify({
      action: 'DECIDE',
      recipient: { human_id: 'user_alice' },
      payload: { question: 'So?', options: ['Yes', 'No'] },
    })
    const asked = await send(a.port, '/hxp/v1/requests', { method: 'POST', headers, body })
    assert.equal(asked.status, 201, JSON.stringify(asked.json))
    const { ws_url, request_id } = asked.json
    const path = new URL(ws_url).pathname + new URL(ws_url).search
    const open = (node: Node): Promise<{ ws: WebSocket; heard: string[]; how: string }> =>
      new Promise((done) => {
        const ws = new WebSocket(`ws://127.0.0.1:${node.port}${path}`)
        const heard: string[] = []
        ws.on('message', (data: Buffer) => heard.push(data.toString()))
        ws.on('open', () => done({ ws, heard, how: 'open' }))
        ws.on('unexpected-response', (_, answer) => done({ ws, heard, how: String(answer.statusCode) }))
        ws.on('error', () => undefined)
      })
    const first = await open(b)
    t.after(() => first.ws.terminate())
    assert.equal(first.how, 'open')
    for (const node of [a, b]) assert.equal((await open(node)).how, '401', 'it was used')
    const resolving = { request_id, result: 'Yes' }
    await ok(a.call(alice, 'execution/request.resolve', resolving))
    await until('the other server hears of the answer', () => Promise.resolve(first.heard.some((text) => text.includes('receipt'))), 5_000)
  })

  test("have a name each, say that they stop, and keep each other's keys", async (t) => {
    const servers = await startServers(t, 2)
    const lines = (text: string): string[] => text.split('\n').filter((line) => /^countersign_(lease|node)\b/.test(line))
    const [a, b] = servers.nodes as [Node, Node]
    let names: string[] = []
    await until('each lease is held by one', async () => {
      const both = await Promise.all([a, b].map(async (node) => lines((await get(node, '/metrics')).text)))
      assert.ok(both[0]!.some((line) => /^countersign_node\{node="node-\d"\} 1$/.test(line)))
      const all = both.flat().filter((line) => line.startsWith('countersign_lease'))
      names = [...new Set(all.map((line) => line.slice(0, -2)))]
      return all.filter((line) => line.endsWith(' 1')).length === names.length
    })
    assert.ok(names.includes('countersign_lease{name="timers"}') && names.includes('countersign_lease{name="groups"}'))
    const text = (await get(a, '/metrics')).text
    for (const name of ['commit_seconds_count', 'barrier_seconds_count', 'foreign_groups_total', 'unknown_outcomes_total'])
      assert.match(text, new RegExp(`^countersign_${name} \\d+$`, 'm'))

    const taken = await runToEnd(t, ['--port', '0', '--data', dataFolder(t)], {
      env: { COUNTERSIGN_DATABASE: servers.url, COUNTERSIGN_SECRET: SECRET, COUNTERSIGN_NODE: (await get(b, '/health')).json.node },
    })
    assert.deepEqual([taken.code, /a server called node-\d is running: give each server a name of its own/.test(taken.stderr)], [1, true])
    await ok(b.call(servers.adminKey, 'identity/me.get'))
    // One that was killed leaves its name to the next.
    await b.end('SIGKILL')
    const name = (await get(a, '/health')).json.node === 'node-1' ? 'node-2' : 'node-1'
    const again = await servers.add(name, { data: b.data })
    assert.equal((await get(again, '/health')).json.node, name)
    assert.equal(existsSync(join(again.data, 'admin.key')) && existsSync(join(a.data, 'admin.key')), false, 'the first one made it')
    await drains(servers)
    await keepsKeys(t, servers, a, again)
  })

  test('say where no admin key is, behind a proxy by addresses that can be used, and the doctor knows what they share', async (t) => {
    const servers = await startServers(t, 1)
    const args = ['--host', '0.0.0.0', '--proxy', 'trusted', '--hosts', 'tasks.example.com']
    const node = await servers.add('second', { args })
    const said = node.stdout()
    assert.match(said, /^https:\/\/tasks\.example\.com\/login\?token=/m, 'a link that others can open')
    assert.ok(said.includes(`There is no admin key in ${node.data}: the first server of this database made it\n`), said)
    assert.ok(said.includes(`export COUNTERSIGN_URL=http://127.0.0.1:${node.port} COUNTERSIGN_DATA=${node.data} `), said)
    assert.match(said, /countersign admin-key +# make an admin key here, with this server's COUNTERSIGN_DATABASE and secret\n/)
    const env = { COUNTERSIGN_URL: `http://127.0.0.1:${node.port}`, COUNTERSIGN_DATA: node.data, HOME: dataFolder(t) }
    const shared = { COUNTERSIGN_DATABASE: servers.url, COUNTERSIGN_SECRET: SECRET }
    const before = await runPiped(['doctor'], { env, cwd: tmpdir() })
    assert.match(before.out, /admin\.key .*there is no .*\n.*→ `countersign admin-key` writes one/)
    assert.match(before.out, /✔ database +a PostgreSQL that servers share \(single\)/)
    assert.equal((await runPiped(['admin-key'], { env: { ...env, ...shared }, cwd: tmpdir() })).code, 0)
    const login = await runPiped(['login', '--as', 'user_owner'], { env, cwd: tmpdir() })
    assert.match(login.out, /logged in at http:\/\/127\.0\.0\.1:\d+ as user_owner/, login.err)
    const after = await runPiped(['doctor'], { env, cwd: tmpdir() })
    assert.deepEqual([after.code, after.out.includes('!')], [0, false], after.out)
  })

  /** A database that another server migrates, for as long as it is not told that this is over. */
  async function migrating(t: TestContext): Promise<{ env: Record<string, string>; over(): Promise<unknown> }> {
    const { url, drop } = await newDatabase()
    t.after(drop)
    const other = new pg.Client({ connectionString: url, application_name: 'countersign migrations' })
    // The database is dropped before it leaves.
    other.on('error', () => undefined)
    await other.connect()
    t.after(() => other.end())
    await other.query('SELECT pg_advisory_lock($1)', [MIGRATING])
    return {
      env: { COUNTERSIGN_DATABASE: url, COUNTERSIGN_SECRET: SECRET, COUNTERSIGN_LOG: 'warn' },
      over: () => other.query('SELECT pg_advisory_unlock_all()'),
    }
  }
  const at = (port: number, path: string): Promise<Answer | null> => send(port, path, { method: 'GET' }).catch(() => null)

  test('say that they are starting while another one migrates', async (t) => {
    const { env, over } = await migrating(t)
    const port = await freePort()
    const starting = start(t, ['--data', dataFolder(t), '--port', String(port)], { env })
    await until('it listens', async () => (await at(port, '/ready')) !== null, 60_000)
    const early = (await at(port, '/ready'))!
    assert.deepEqual([early.status, early.json], [503, { ready: false, reason: 'starting' }])
    assert.equal((await at(port, '/health'))!.status, 503)
    const call = await send(port, '/v1/identity/me.get', { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}' })
    assert.deepEqual([call.status, call.json.error.code, call.headers['retry-after']], [503, 'UNAVAILABLE', '1'])
    await over()
    const node = await starting
    assert.equal(node.port, port)
    assert.deepEqual((await at(port, '/ready'))!.json, { ready: true })
    assert.equal((await at(port, '/health'))!.json.store, 'postgres')
    assert.equal((await node.end('SIGTERM')).code, 0)
    assert.equal(await at(port, '/ready'), null)
  })

  test('stop on a signal, also while they wait for another server that migrates', async (t) => {
    const { env } = await migrating(t)
    const port = await freePort()
    const { child, ended } = launch(t, ['--data', dataFolder(t), '--port', String(port)], { env })
    await until('it listens', async () => (await at(port, '/ready')) !== null, 60_000)
    child.kill('SIGTERM')
    assert.equal((await ended()).code, 0)
  })

  async function drains(servers: Servers): Promise<void> {
    const node = await servers.add('draining', { args: ['--drain', '6'] })
    assert.deepEqual([(await get(node, '/ready')).status, (await get(node, '/ready')).json], [200, { ready: true }])
    const ended = node.end('SIGTERM')
    await until('it says so', async () => (await get(node, '/ready')).status === 503, 1_500)
    assert.deepEqual((await get(node, '/ready')).json, { ready: false, reason: 'stopping' })
    assert.equal((await node.call(servers.adminKey, 'identity/me.get')).status, 200, 'it still answers')
    assert.equal((await ended).code, 0)
  }

  async function keepsKeys(t: TestContext, servers: Servers, a: Node, b: Node): Promise<void> {
    const env = { COUNTERSIGN_DATABASE: servers.url, COUNTERSIGN_SECRET: SECRET }
    const folder = dataFolder(t)
    const cli = (args: readonly string[]): Promise<Ran> => runPiped(args, { env: { ...env, HOME: dataFolder(t) }, cwd: tmpdir() })
    const made = await cli(['admin-key', '--data', folder])
    assert.equal(made.code, 0, made.err)
    const other = readFileSync(join(folder, 'admin.key'), 'utf8').trim()
    for (const node of [a, b]) for (const key of [servers.adminKey, other]) await ok(node.call(key, 'identity/me.get'))
    const kids = async (node: Node): Promise<string[]> => (await get(node, '/.well-known/jwks.json')).json.keys.map(({ kid }: any) => kid)
    const before = await kids(a)
    const rotated = await cli(['receipt', 'rotate'])
    assert.equal(rotated.code, 0, rotated.err)
    for (const node of [a, b]) await until('the new key is there', async () => (await kids(node)).length > before.length, 60_000)
    const revoked = await cli(['admin-key', '--data', folder, '--revoke'])
    assert.equal(revoked.code, 0, revoked.err)
    for (const node of [a, b])
      for (const key of [servers.adminKey, other]) assert.equal((await node.call(key, 'identity/me.get')).status, 401)
    await ok(b.call(readFileSync(join(folder, 'admin.key'), 'utf8').trim(), 'identity/me.get'))
    const rows = await inDatabase(servers.url, 'SELECT name, value FROM countersign.wrapped ORDER BY name')
    const names = rows.map(({ name }) => name)
    for (const name of ['push keys', 'server key', 'signing keys']) assert.ok(names.includes(name))
    for (const { value } of rows) assert.doesNotMatch(String(value), /"d"|PRIVATE/)
  }
})
