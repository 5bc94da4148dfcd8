// Logging in: one step on the server's machine, several servers side by side, and another installation at an old address.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { readConfig, type Config } from '#apps/server/settings/config.ts'
import { createLog } from '#apps/server/log.ts'
import { startServer, type Server } from '#apps/server/server.ts'
import { inProcess, temporary, type Ran } from '../../support/as-processes/cli.ts'

function home(t: TestContext): string {
  const folder = temporary('login')
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

async function serve(t: TestContext, data: string, port = 0, more: readonly string[] = []): Promise<Server> {
  const { config } = readConfig(['--data', data, '--port', String(port), '--log', 'silent', ...more], {}) as { config: Config }
  const server = await startServer(config, { log: createLog('silent'), onFatal: (error) => assert.fail(String(error)) })
  t.after(() => server.stop())
  return server
}

const client =
  (folder: string) =>
  (argv: readonly string[], { url, data, input }: { url?: string; data?: string; input?: string } = {}): Promise<Ran> =>
    inProcess({ home: folder, env: { ...(url ? { COUNTERSIGN_URL: url } : {}), ...(data ? { COUNTERSIGN_DATA: data } : {}) } }).run(
      argv,
      input,
    )

test('`login --as` is one step, needs no key, and a second one leaves one key behind', async (t) => {
  const folder = home(t)
  const { url, installation } = await serve(t, join(folder, 'data'))
  const run = client(folder)
  const file = join(folder, '.config', 'countersign', 'config.json')
  const { code, out, err } = await run(['login', '--as', 'user_owner'], { url })
  assert.deepEqual({ code, out, err }, { code: 0, out: `✔ logged in at ${url} as user_owner (human); stored in ${file}\n`, err: '' })
  assert.equal(statSync(file).mode & 0o777, 0o600)
  // Its server is the one that is meant from now on.
  assert.match((await run(['whoami'])).out, /^id +user_owner$/m)
  const keysOf = async (): Promise<{ label: string }[]> => JSON.parse((await run(['key', 'list', 'user_owner', '--json'])).out).items
  assert.deepEqual([(await keysOf()).length, (await keysOf())[0]!.label.startsWith('login on ')], [1, true])
  assert.equal((await run(['login', '--as', 'owner'], { url })).code, 0)
  assert.equal((await keysOf()).length, 1)
  const listed = JSON.parse((await run(['login', 'list', '--json'])).out)
  assert.deepEqual(listed, { items: [{ url, installation, id: 'user_owner', current: true }] })
})

test('the doctor says that there is no page in the browser', async (t) => {
  const folder = home(t)
  const { url } = await serve(t, join(folder, 'data'), 0, ['--web', 'off'])
  const { code, out } = await client(folder)(['doctor', '--quick'], { url })
  assert.equal(code, 0)
  assert.match(out, /^! page +no page in the browser: .*\n +→ start the server with `npm start`, which builds it$/m)
})

test('a server that is starting, one that speaks no TLS, and an empty list are called what they are', async (t) => {
  const folder = home(t)
  const run = client(folder)
  const { url } = await serve(t, join(folder, 'data'))
  const plain = await run(['whoami'], { url: url.replace('http:', 'https:'), data: join(folder, 'nowhere') })
  assert.deepEqual([plain.code, plain.err], [3, `countersign: cannot connect to ${url.replace('http:', 'https:')}: it answers without TLS [UNREACHABLE]\n  → that port speaks plain HTTP: use ${url}\n`]) // prettier-ignore
  await run(['login', '--as', 'user_owner'], { url })
  assert.equal((await run(['task', 'list'])).err, 'no tasks\n')
  assert.equal((await run(['inbox'])).err, 'nothing waits for you\n')
  assert.match((await run(['version'])).out, /^\d+\.\d+\.\d+\n$/)
  for (const name of ['One', 'Two']) {
    const id = (await run(['project', 'add', name, '--pick', 'project.id'])).out.trim()
    assert.equal((await run(['project', 'join', id, 'user_owner'])).code, 0)
    assert.equal((await run(['task', 'create', '--goal', name, '--project-id', id])).code, 0)
  }
  assert.equal((await run(['task', 'list'])).err, 'no tasks\n2 more projects: --all-projects\n')
  assert.match((await run(['task', 'list', '--all-projects'])).out, /One\n.*Two\n|Two\n.*One\n/)
  const paged = await run(['task', 'list', '--all-projects', '--limit', '1'])
  assert.equal(paged.err, 'there is more: --all shows everything, --limit a longer page\n')
  assert.equal(JSON.parse((await run(['task', 'list', '--all-projects', '--limit', '1', '--all', '--json'])).out).items.length, 2)
  const starting = createServer((_, answer) => answer.writeHead(503).end('{"status":"degraded","reason":"starting"}')).listen(
    0,
    '127.0.0.1',
  )
  await once(starting, 'listening')
  t.after(() => starting.close())
  const there = `http://127.0.0.1:${(starting.address() as { port: number }).port}`
  const doctor = await run(['doctor', '--quick'], { url: there, data: join(folder, 'data') })
  assert.match(doctor.out, /^! server +http\S+ is starting: .*\n +→ run this again in a moment$/m)
})

test('hints fit what was refused', async (t) => {
  const folder = home(t)
  const run = client(folder)
  const { url } = await serve(t, join(folder, 'data'))
  await run(['login', '--as', 'user_owner'], { url })
  const mail = await run(['channel', 'add', '--kind', 'email', '--address', 'a@example.com'])
  assert.doesNotMatch(mail.err, /task get/)
  const missing = await run(['delivery', 'list'])
  assert.match(missing.err, /--agent-id is required/)
  const id = (await run(['task', 'create', '--goal', 'Gone', '--pick', 'task.id'])).out.trim()
  await run(['task', 'cancel', id])
  const over = await run(['task', 'takeover', id])
  assert.match(
    over.err,
    /the task is cancelled, and that state does not allow task\.takeover \[PRECONDITION_FAILED\]\n {2}→ `countersign task get/,
  )
})

test('`login --as` says what is missing: the folder, the server, the person, or that the folder is another server’s', async (t) => {
  const folder = home(t)
  const { url } = await serve(t, join(folder, 'data'))
  const run = client(folder)
  const nobody = await run(['login', '--as', 'user_nobody'], { url })
  assert.deepEqual([nobody.code, /there is no .*user_nobody .*\n {2}→ `countersign user list`/.test(nobody.err)], [1, true], nobody.err)
  const elsewhere = await run(['login', '--as', 'user_owner'], { url, data: join(folder, 'nowhere') })
  assert.deepEqual([elsewhere.code, /there is no admin\.key in \.\/nowhere/.test(elsewhere.err)], [2, true], elsewhere.err)
  mkdirSync(join(folder, 'other'))
  writeFileSync(join(folder, 'other', 'admin.key'), 'cs_nonsense\n')
  const foreign = await run(['login', '--as', 'user_owner'], { url, data: join(folder, 'other') })
  assert.deepEqual([foreign.code, /the admin\.key in \.\/other is not that of the server at/.test(foreign.err)], [4, true], foreign.err)
  assert.equal((await run(['login', 'list'])).err, 'you are not logged in at any server\n', 'nothing was stored')
})

test('another folder at the same address: the stale login is named, `login --as` heals it, and the first server’s login is kept', async (t) => {
  const folder = home(t)
  const run = client(folder)
  const first = await serve(t, join(folder, 'one'))
  const { url, port } = first
  await run(['login', '--as', 'user_owner'], { url, data: join(folder, 'one') })
  await first.stop()
  const second = await serve(t, join(folder, 'two'), port)
  const stale = await run(['task', 'list'], { data: join(folder, 'two') })
  assert.equal(stale.code, 4)
  assert.match(
    stale.err,
    /→ the login that is stored for http\S+ is not valid there \(any more\)\. Log in again, on the server's machine: `countersign login --as user_owner`; with a key: `countersign login`\n$/,
  )
  const healed = await run(['login', '--as', 'user_owner'], { data: join(folder, 'two') })
  assert.equal(healed.code, 0, healed.err)
  assert.equal((await run(['task', 'list'], { data: join(folder, 'two') })).code, 0)
  const { items } = JSON.parse((await run(['login', 'list', '--json'])).out) as { items: { current: boolean }[] }
  assert.deepEqual(
    items.map(({ current }) => current),
    [false, true],
    'one of them is current, though both are at one address',
  )
  await second.stop()
  await serve(t, join(folder, 'one'), port)
  assert.equal((await run(['task', 'list'], { data: join(folder, 'nowhere') })).code, 0, 'each installation has its own login')
})

test('a stored key is not sent to another installation at the address of its server', async (t) => {
  const folder = home(t)
  const run = client(folder)
  const first = await serve(t, join(folder, 'one'))
  const { url, port } = first
  await run(['login', '--as', 'user_owner'], { url, data: join(folder, 'one') })
  await first.stop()
  const heard: (string | undefined)[] = []
  let health: object = { status: 'ok', version: '0.0.0', installation: 'inst_other' }
  const other = createServer((from, answer) => {
    heard.push(from.headers.authorization)
    if (from.url !== '/health') answer.statusCode = 401
    answer.end(JSON.stringify(from.url === '/health' ? health : { error: { code: 'UNAUTHENTICATED', message: 'no' } }))
  }).listen(port, '127.0.0.1')
  await once(other, 'listening')
  t.after(() => other.close())
  const there = { data: join(folder, 'nowhere') }
  const stale = await run(['task', 'list'], there)
  assert.equal(stale.code, 4, stale.err)
  assert.match(
    stale.err,
    /another installation answers at \S+ than the one you logged in at; your key was not sent there \[UNAUTHENTICATED\]\n {2}→ .*Log in again/,
  )
  const doctor = await run(['doctor', '--quick'], there)
  assert.match(doctor.out, /the stored login is of another installation than the one that answers/)
  assert.deepEqual([...new Set(heard)], [undefined])
  // A server that does not say which one it is may be an older version of the same.
  health = { status: 'ok', version: '0.0.0' }
  assert.equal((await run(['task', 'list'], there)).code, 4)
  assert.ok(heard.some((key) => key !== undefined))
})

test('several servers side by side: the last one is current, others are named, and `logout` forgets one or all', async (t) => {
  const folder = home(t)
  const run = client(folder)
  const [a, b] = [await serve(t, join(folder, 'a')), await serve(t, join(folder, 'b'))]
  for (const { url, folder: of } of [a, b]) await run(['login', '--as', 'user_owner'], { url, data: of.path })
  assert.match((await run(['whoami'])).out, new RegExp(`^server +${b.url}$`, 'm'))
  assert.match((await run(['whoami', '--url', a.url])).out, new RegExp(`^server +${a.url}$`, 'm'))
  assert.match((await run(['logout'])).out, new RegExp(`^logged out at ${b.url} \\(user_owner\\)\\n.*still logged in at ${a.url}\\n$`))
  assert.match((await run(['whoami'])).out, new RegExp(`^server +${a.url}$`, 'm'))
  await run(['login', '--as', 'user_owner'], { url: b.url, data: b.folder.path })
  assert.equal((await run(['logout', '--all'])).out.match(/^logged out at /gm)?.length, 2)
  assert.equal((await run(['logout', '--all'])).out, 'there was no login to forget\n')
})

test('a login of an older version is understood, a broken file is named, and the next login rewrites it', async (t) => {
  const folder = home(t)
  const run = client(folder)
  const { url, folder: of } = await serve(t, join(folder, 'data'))
  await run(['login', '--as', 'user_owner'], { url })
  const file = join(folder, '.config', 'countersign', 'config.json')
  const { key } = JSON.parse(readFileSync(file, 'utf8')).logins[0]
  writeFileSync(file, JSON.stringify({ url, key }))
  assert.match((await run(['whoami'])).out, /^id +user_owner$/m)
  await run(['login', '--as', 'user_owner'], { data: of.path })
  assert.equal(JSON.parse(readFileSync(file, 'utf8')).logins.length, 1, 'it replaces the older one')
  for (const broken of ['', '{', '[]', '{"logins":{}}', '{"logins":[{"url":"x","key":"y"}]}', '{"url":1,"key":2}', 'null']) {
    writeFileSync(file, broken)
    const { code, err } = await run(['whoami'], { url })
    assert.deepEqual([code, /config\.json cannot be read\n {2}→ delete it/.test(err)], [2, true], broken)
  }
  assert.equal((await run(['login', '--as', 'user_owner'], { url })).code, 0)
})
