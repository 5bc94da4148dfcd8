// The whole server: first start, credentials, one server per folder, signals, exit codes, and a log that keeps secrets.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test, type TestContext } from 'node:test'
import { readConfig, type Config } from '#apps/server/settings/config.ts'
import { createLog } from '#apps/server/log.ts'
import { startServer, type Server } from '#apps/server/server.ts'
import { setUp } from '#apps/server/folder/first-start.ts'
import { version } from '#apps/version.ts'
import type { Clock } from '#kernel/ports/clock.ts'
import { SYSTEM } from '#kernel/declare/access.ts'
import { createKernel, type Kernel } from '#kernel/kernel.ts'
import { limits } from '#kernel/limits.ts'
import type { Store } from '#kernel/log/store.ts'
import { contracts } from '#contracts/index.ts'
import { directory } from '#protocols/identity/directory.ts'
import { protocols } from '#protocols/index.ts'
import { memoryDisk, memoryStore } from '#stores/memory.ts'
import { send, type Answer } from '../../support/over-sockets/http-client.ts'
import { manualClock } from '../../support/in-process/manual-clock.ts'
import { rpcClient } from '../../support/over-sockets/rpc.ts'
import { dataFolder, runToEnd, start } from '../../support/as-processes/server-process.ts'

const keyIn = (data: string): string => readFileSync(join(data, 'admin.key'), 'utf8').trim()
const modeOf = (path: string): number => statSync(path).mode & 0o777
const call = (port: number, name: string, key: string, body: object = {}): Promise<Answer> =>
  send(port, `/v1/${name}`, { headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' }, body: JSON.stringify(body) })
const cookieIn = (answer: Answer): string => String(answer.headers['set-cookie']).split(';')[0]!

test('a first start makes a private folder, an owner, a project and an admin key, and says where to go', async (t) => {
  const data = dataFolder(t)
  const server = await start(t, ['--data', data])
  const lines = server.stdout().split('\n')
  assert.equal(lines[0], `countersign ready http://127.0.0.1:${server.port}`)
  assert.equal(lines[1], 'Log in as the owner in a browser (works once, 15 minutes):')
  assert.ok(lines[2]!.startsWith(`http://127.0.0.1:${server.port}/login?token=cs_`))
  assert.equal(lines[3], `The admin key is in ${join(data, 'admin.key')}`)
  assert.equal(modeOf(data), 0o700)
  for (const file of ['admin.key', 'countersign.db', 'lock']) assert.equal(modeOf(join(data, file)), 0o600, file)
  assert.deepEqual((await call(server.port, 'identity/me.get', keyIn(data))).json.kind, 'service')
  const { user } = (await call(server.port, 'identity/user.get', keyIn(data), { user_id: 'user_owner' })).json
  assert.equal(user.role, 'owner')
  assert.deepEqual(user.projects, [{ project_id: 'project_default', role: 'owner' }])
  const health = await send(server.port, '/health', { method: 'GET' })
  assert.equal(health.json.status, 'ok')
  assert.equal(health.json.version, version)
  assert.equal(health.json.store, 'sqlite')
  assert.equal(health.json.record, 'verified')
})

test('without a terminal and without a flag for it, no credential of the owner is printed or made', async (t) => {
  const data = dataFolder(t)
  const server = await start(t, ['--data', data], { link: false })
  assert.doesNotMatch(server.stdout() + server.stderr(), /token|cs_/)
  assert.match(server.stdout(), /^The login link of the owner is printed at a terminal only: start with --link, or make one with/m)
  const { items } = (await call(server.port, 'collaboration/audit.query', keyIn(data), { project_id: 'system' })).json
  assert.equal(JSON.stringify(items ?? []).includes('login.issued'), false)
})

test('the link signs the owner in once; a second use is refused; signing out ends the session', async (t) => {
  const { port, link } = await start(t, ['--data', dataFolder(t), '--web', 'off'])
  assert.equal((await send(port, link, { method: 'HEAD' })).status, 200)
  const answer = await send(port, link, { method: 'GET' })
  assert.equal(answer.status, 303)
  const cookie = cookieIn(answer)
  assert.match((await send(port, '/', { method: 'GET', headers: { cookie } })).text, /user_owner/)
  const me = (): Promise<Answer> => send(port, '/v1/identity/me.get', { headers: { cookie } })
  assert.equal((await me()).json.id, 'user_owner')
  const again = await send(port, link, { method: 'GET' })
  assert.equal(again.status, 401)
  assert.match(again.text, /This link does not work/)
  assert.equal((await send(port, '/login?token=nonsense', { method: 'GET' })).status, 401)
  assert.equal((await send(port, `/login?token=${'x'.repeat(5_000)}`, { method: 'GET' })).status, 401)
  assert.equal((await send(port, '/logout', { headers: { cookie } })).status, 303)
  assert.equal((await me()).status, 401)
  assert.equal((await send(port, '/logout', { headers: { cookie } })).status, 303, 'once more does no harm')
})

test('a second start changes nothing that is there, and what an operator changed stays', async (t) => {
  const data = dataFolder(t)
  const first = await inProcess(t, data)
  const key = keyIn(data)
  await call(first.port, 'identity/user.update', key, { user_id: 'user_owner', name: 'Olga' })
  await call(first.port, 'identity/project.join', key, { project_id: 'project_default', subject: 'user_owner', role: 'member' })
  await first.stop()
  const second = await inProcess(t, data)
  assert.equal(keyIn(data), key)
  const { user } = (await call(second.port, 'identity/user.get', key, { user_id: 'user_owner' })).json
  assert.equal(user.name, 'Olga')
  assert.deepEqual(user.projects, [{ project_id: 'project_default', role: 'member' }])
})

test('a lost, damaged or foreign admin.key is replaced, the old key stops working, and its mode is repaired', async (t) => {
  const data = dataFolder(t)
  const path = join(data, 'admin.key')
  let old = ''
  let foreign = ''
  for (const damage of [
    () => undefined,
    () => rmSync(path),
    () => writeFileSync(path, 'nonsense\n'),
    () => writeFileSync(path, ''),
    () => writeFileSync(path, foreign),
  ]) {
    damage()
    const server = await inProcess(t, data)
    const key = keyIn(data)
    assert.notEqual(key, old)
    assert.equal(modeOf(path), 0o600)
    assert.equal((await call(server.port, 'identity/me.get', key)).json.id, 'service_admin')
    if (old) assert.equal((await call(server.port, 'identity/me.get', old)).status, 401)
    foreign = (await call(server.port, 'identity/key.issue', key, { subject: 'user_owner' })).json.key
    await server.stop()
    old = key
  }
  chmodSync(path, 0o644)
  const server = await inProcess(t, data)
  assert.equal(keyIn(data), old)
  assert.equal(modeOf(path), 0o600)
  assert.equal(existsSync(`${path}.new`), false)
  await server.stop()
})

const kernelOn = (store: Store): Kernel =>
  createKernel({
    store,
    protocols,
    contracts,
    directory,
    now: Date.now,
    entropy: (count) => crypto.getRandomValues(new Uint8Array(count)),
    asksPerMinute: null,
  })

test('a set-up that ends at any point is completed by the next start, with one admin key', async (t) => {
  for (let survived = 0; survived < 8; survived++) {
    const data = dataFolder(t)
    const disk = memoryDisk()
    const path = `${data}-${survived}.key`
    let writes = 0
    const dying = memoryStore({
      disk,
      onWrite(_, apply) {
        if (writes++ >= survived) throw new Error('the power is gone')
        apply()
      },
    })
    await setUp(kernelOn(dying), path).catch(() => undefined)
    const kernel = kernelOn(memoryStore({ disk }))
    await setUp(kernel, path)
    const { user } = await kernel.call('identity/user.get', { user_id: 'user_owner' }, SYSTEM)
    assert.deepEqual(user.projects, [{ project_id: 'project_default', role: 'owner' }], `after ${survived} writes`)
    const { items } = await kernel.call('identity/key.list', { subject: 'service_admin' }, SYSTEM)
    assert.equal(items.length, 1, `after ${survived} writes`)
    assert.ok(readFileSync(path, 'utf8').includes(items[0].id.slice(4)))
  }
})

test('the figures count the calls of every binding by itself, and no name that a caller made up', async (t) => {
  const data = dataFolder(t)
  const { port } = await start(t, ['--data', data])
  await call(port, 'identity/me.get', keyIn(data))
  const client = await rpcClient(join(data, 'countersign.sock'), keyIn(data))
  for (const [method, params] of [
    ['identity/me.get', {}],
    ['identity/me.get', {}],
    ['identity/user.get', { user_id: 'user_nobody' }],
    ['made/up', {}],
  ] as const)
    await client.call(method, params)
  client.socket.destroy()
  const { text } = await send(port, '/metrics', { method: 'GET' })
  assert.deepEqual(text.match(/^countersign_calls_total.*$/gm), [
    'countersign_calls_total{binding="http",operation="identity/me.get",code="OK"} 1',
    'countersign_calls_total{binding="jsonrpc",operation="rpc.authenticate",code="OK"} 1',
    'countersign_calls_total{binding="jsonrpc",operation="identity/user.get",code="NOT_FOUND"} 1',
    'countersign_calls_total{binding="jsonrpc",operation="identity/me.get",code="OK"} 2',
  ])
  assert.match(text, /^countersign_call_seconds_count\{binding="jsonrpc",operation="identity\/me\.get"\} 2$/m)
})

test('one server uses a folder at a time; a killed one leaves it free', async (t) => {
  const data = dataFolder(t)
  const first = await start(t, ['--data', data])
  const second = await runToEnd(t, ['--data', data, '--port', '0'])
  assert.equal(second.code, 1)
  assert.match(second.stderr, /another Countersign server uses .*--data/)
  assert.equal(second.stdout, '')
  await first.end('SIGKILL')
  const third = await start(t, ['--data', data])
  assert.equal((await third.end()).code, 0)
})

test('an acknowledged operation is there after kill -9', async (t) => {
  const data = dataFolder(t)
  const first = await start(t, ['--data', data])
  assert.equal((await call(first.port, 'identity/user.add', keyIn(data), { id: 'user_nora', name: 'Nora' })).status, 200)
  await first.end('SIGKILL')
  const second = await start(t, ['--data', data])
  assert.equal((await call(second.port, 'identity/user.get', keyIn(data), { user_id: 'user_nora' })).json.user.name, 'Nora')
})

test('SIGTERM and SIGINT end it with 0 within 5 s, also when the signal comes twice and a client does not let go', async (t) => {
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    const server = await start(t, ['--data', dataFolder(t)])
    const stuck = new Promise((done) => {
      const body = send(server.port, '/v1/identity/me.get', { headers: { 'content-type': 'application/json', 'content-length': 100 } })
      body.then(done, done)
    })
    await new Promise((done) => setTimeout(done, 50))
    const began = Date.now()
    server.child.kill(signal)
    await new Promise((done) => setTimeout(done, 50))
    const { code } = await server.end(signal)
    assert.equal(code, 0, signal)
    assert.ok(Date.now() - began < 5_000)
    await stuck
  }
})

test('a port that is taken is named, with the flag to choose another', async (t) => {
  const taken = createServer().listen(0, '127.0.0.1')
  t.after(() => taken.close())
  await new Promise((done) => taken.once('listening', done))
  const { port } = taken.address() as AddressInfo
  const data = dataFolder(t)
  const { code, stderr } = await runToEnd(t, ['--data', data, '--port', String(port)])
  assert.equal(code, 1)
  assert.match(stderr, new RegExp(`port ${port} on 127.0.0.1 is taken.*--port`))
  assert.equal((await (await start(t, ['--data', data])).end()).code, 0, 'the folder was given back')
})

test('--help lists every option with its variable and default; --version is the version', async (t) => {
  const help = await runToEnd(t, ['--help'])
  assert.equal(help.code, 0)
  for (const name of ['DATA', 'PORT', 'HOST', 'HOSTS', 'PROXY', 'LOG', 'QUOTA']) {
    assert.ok(help.stdout.includes(`COUNTERSIGN_${name}`), name)
    assert.ok(help.stdout.includes(`--${name.toLowerCase()}`), name)
  }
  assert.match(help.stdout, /--skip-verify/)
  assert.match(help.stdout, /default 3402/)
  assert.deepEqual(await runToEnd(t, ['--version']), { code: 0, stdout: `${version}\n`, stderr: '' })
})

test('an option that does not exist ends with 2 and names the nearest one', async (t) => {
  const { code, stdout, stderr } = await runToEnd(t, ['--prot', '8080'])
  assert.deepEqual([code, stdout], [2, ''])
  assert.match(stderr, /there is no option --prot: did you mean --port\? \(see --help\)/)
})

test('a folder that cannot be made or written is named', async (t) => {
  const file = `${dataFolder(t)}-file`
  writeFileSync(file, '')
  const { code, stderr } = await runToEnd(t, ['--data', join(file, 'inside'), '--port', '0'])
  assert.equal(code, 1)
  assert.match(stderr, /the data folder .* cannot be made/)
})

test('a record that was changed stops the start with project, number and what differs; --skip-verify starts and says so', async (t) => {
  const data = dataFolder(t)
  const first = await start(t, ['--data', data])
  await first.end()
  const db = new DatabaseSync(join(data, 'countersign.db'))
  db.exec(`UPDATE images SET text = replace(text, 'Owner', 'Other') WHERE position = 2`)
  db.close()
  rmSync(join(data, 'verified.json'))
  const refused = await runToEnd(t, ['--data', data, '--port', '0'])
  assert.equal(refused.code, 1)
  assert.match(refused.stderr, /the record in .* was changed: project system, number 2: the image of identity.user\/user_owner was changed/)
  assert.match(refused.stderr, /--skip-verify/)
  const started = await start(t, ['--data', data, '--skip-verify'])
  assert.equal((await send(started.port, '/health', { method: 'GET' })).json.record, 'changed')
  assert.match(started.stderr(), /was changed.*because of --skip-verify/)
})

test('a start does not wait for a long backlog: /health says that the record is being verified, until it is', async (t) => {
  const data = dataFolder(t)
  const first = await inProcess(t, data)
  const adding = Array.from({ length: 800 }, (_, i) => first.kernel.call('identity/user.add', { id: `user_${i}`, name: 'N' }, SYSTEM))
  await Promise.all(adding)
  await first.stop()
  rmSync(join(data, 'verified.json'))
  const recordOf = async ({ port }: Server): Promise<string> => (await send(port, '/health', { method: 'GET' })).json.record
  // With this clock every slice takes its time, and who sleeps does so until the end.
  let now = Date.now()
  const clock: Clock = {
    now: () => (now += 200),
    sleep: (_, signal) => new Promise((done) => signal.addEventListener('abort', () => done())),
  }
  const second = await inProcess(t, data, clock)
  assert.equal(await recordOf(second), 'verifying')
  await second.stop()
  const third = await inProcess(t, data)
  assert.equal(await recordOf(third), 'verified')
})

test('a disk that fails in the middle of a write ends it with 70, and what was answered is there', async (t) => {
  const data = dataFolder(t)
  // No file may grow beyond some hundred kilobytes; Node must only not die of the signal that comes with it.
  const failing = { first: 'ulimit -f 800', node: ['--import', 'data:text/javascript,process.on("SIGXFSZ",()=>{})'] }
  const server = await start(t, ['--data', data], failing)
  const key = keyIn(data)
  const answered: string[] = []
  for (let i = 0; i < 2_000 && server.child.exitCode === null; i++) {
    const answer = await call(server.port, 'identity/user.add', key, { id: `user_${i}`, name: 'N' }).catch(() => undefined)
    if (answer?.status === 200) answered.push(`user_${i}`)
  }
  const { code, stderr } = await server.ended()
  assert.equal(code, 70)
  assert.match(stderr, /"level":"fatal".*the state on the disk is unknown/)
  const again = await start(t, ['--data', data])
  assert.ok(answered.length > 0)
  assert.equal((await call(again.port, 'identity/user.get', key, { user_id: answered.at(-1)! })).status, 200)
})

test('an uncaught error is logged and ends it with 1', async (t) => {
  for (const trouble of ['Promise.reject(new Error("boom"))', 'throw new Error("boom")']) {
    const server = await start(t, ['--data', dataFolder(t)], {
      node: ['--import', `data:text/javascript,process.on("SIGUSR2",()=>{${trouble}})`],
    })
    server.child.kill('SIGUSR2')
    const { code, stderr } = await server.ended()
    assert.equal(code, 1)
    assert.match(stderr, /"level":"fatal".*boom/)
  }
})

test('the log holds no secret, for every input and every failure', async (t) => {
  const data = dataFolder(t)
  const server = await start(t, ['--data', data], { env: { COUNTERSIGN_LOG: 'debug' } })
  const { port } = server
  const canary = 'CANARY-f3a9c1'
  const key = keyIn(data)
  const json = { 'content-type': 'application/json' }
  const login = await send(port, server.link, { method: 'GET' })
  const cookie = cookieIn(login)
  await Promise.all([
    send(port, '/v1/identity/user.add', {
      headers: { ...json, authorization: `Bearer ${key}` },
      body: JSON.stringify({ name: canary, password: canary }),
    }),
    send(port, '/v1/identity/user.add', { headers: { ...json, authorization: `Bearer ${canary}`, 'x-secret': canary }, body: canary }),
    send(port, '/v1/identity/user.add', {
      headers: { ...json, authorization: `Bearer ${key}`, 'idempotency-key': canary },
      body: `{"name":"${canary}`,
    }),
    send(port, '/v1/identity/me.get', { headers: { ...json, cookie: `${cookie}; other=${canary}`, origin: `https://${canary}` } }),
    send(port, `/login?token=${canary}`, { method: 'GET' }),
    send(port, `/nowhere/${canary}?key=${canary}`, { method: 'GET' }),
    send(port, '/', { method: 'GET', headers: { host: canary } }),
  ])
  const { stderr, stdout } = await server.end()
  assert.match(stderr, /"operation":"identity\/user.add"/, 'calls are logged at this level')
  const session = cookie.slice(cookie.indexOf('=') + 1)
  for (const secret of [canary, key, key.slice(-43), session, session.slice(-43), server.link.slice(-43)])
    assert.ok(!stderr.includes(secret), `the log holds ${secret}`)
  assert.deepEqual(
    stdout.match(/^[a-z]+/gim),
    ['countersign', 'Log', 'http', 'The', 'Next'],
    'nothing but where it is, how to sign in and what to do next on stdout',
  )
  for (const line of stderr.trim().split('\n')) assert.equal(typeof JSON.parse(line), 'object')
})

test('a session lasts while it is used and ends for idleness', async (t) => {
  const clock = manualClock()
  const server = await inProcess(t, dataFolder(t), clock)
  const link = (await server.ownerLink())!
  const cookie = cookieIn(await send(server.port, link.slice(server.url.length), { method: 'GET' }))
  const me = async (): Promise<number> => (await send(server.port, '/v1/identity/me.get', { headers: { cookie } })).status
  for (let i = 0; i < 3; i++) {
    clock.step(limits.sessionIdleMs - 60_000)
    assert.equal(await me(), 200, `use ${i}`)
  }
  clock.step(limits.sessionIdleMs + 1_000)
  assert.equal(await me(), 401)
})

test('without the page, the one behind a login link says how many items wait and how to answer them; without a login, how to get a link', async (t) => {
  const data = dataFolder(t)
  const server = await inProcess(t, data)
  const { port } = server
  const link = (await server.ownerLink())!
  const cookie = cookieIn(await send(port, link.slice(server.url.length), { method: 'GET' }))
  const page = async (headers: Record<string, string>): Promise<string> => (await send(port, '/', { method: 'GET', headers })).text
  assert.match(await page({ cookie }), /user_owner<\/strong>\. Nothing waits for your answer\.[^]*<code>countersign inbox<\/code>/)
  await call(port, 'identity/agent.add', keyIn(data), { id: 'agent_robin', name: 'Robin', owner: 'user_owner' })
  const { key } = (await call(port, 'identity/key.issue', keyIn(data), { subject: 'agent_robin' })).json
  const ask = (item: string): Promise<Answer> =>
    call(port, 'execution/request.create', key, { action: 'APPROVE', payload: { item, details: {} } })
  assert.equal((await ask('Deploy v1')).status, 200)
  assert.match(await page({ cookie }), / 1 item waits for your answer\./)
  assert.equal((await ask('Deploy v2')).status, 200)
  assert.match(await page({ cookie }), / 2 items wait for your answer\./)
  const stranger = await page({})
  assert.doesNotMatch(stranger, /wait/)
  assert.match(
    stranger,
    /You are not signed in\.[^]*<code>countersign login issue &lt;your user id&gt;<\/code>[^]*<code>countersign login --link<\/code>/,
  )
})

async function inProcess(t: TestContext, data: string, clock?: Clock): Promise<Server> {
  const { config } = readConfig(['--data', data, '--port', '0', '--log', 'silent', '--web', 'off'], {}) as { config: Config }
  const onFatal = (error: unknown): void => assert.fail(String(error))
  const server = await startServer(config, { log: createLog(config.log), onFatal, ...(clock ? { clock } : {}) })
  t.after(server.stop)
  return server
}

test('the server loads no HTTP client, which would waste memory', () => {
  const script = `await import(${JSON.stringify(join(import.meta.dirname, '../../../src/apps/server/server.ts'))})
    console.log(process.moduleLoadList.filter((name) => name.includes('undici') || name === 'NativeModule http').join())`
  const { status, stdout, stderr } = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' })
  assert.deepEqual([status, stdout.trim()], [0, 'NativeModule http'], stderr)
})
