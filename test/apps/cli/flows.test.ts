// The command line against a server process: what it prints, through pipes and in a terminal.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, cpSync, existsSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { connect, createServer as createProxy, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { after, before, describe, test, type TestContext } from 'node:test'
import { stripVTControlCharacters } from 'node:util'
import {
  inProcess,
  masked,
  root,
  runInTerminal,
  runPiped,
  startUp,
  temporary,
  type Press,
  type Ran,
  type Running,
} from '../../support/as-processes/cli.ts'

const home = temporary('cli-flows')
const data = join(home, 'data')
let server: Running
const keys = { owner: '', agent: '' }

before(async () => {
  server = await startUp(data)
  const admin = async (...argv: string[]) => JSON.parse((await run(argv, { as: null })).out)
  await admin('agent', 'add', 'Robot', '--id', 'agent_robot', '--owner', 'user_owner', '--json')
  keys.owner = (await admin('key', 'issue', 'user_owner', '--json')).key
  keys.agent = (await admin('key', 'issue', 'agent_robot', '--json')).key
})
after(async () => {
  await server.stop()
  rmSync(home, { recursive: true, force: true })
})

type As = { as?: keyof typeof keys | null; input?: string; env?: Record<string, string> }
const envFor = (as: keyof typeof keys | null): Record<string, string> => ({
  HOME: home,
  COUNTERSIGN_URL: server.url,
  ...(as === null ? {} : { COUNTERSIGN_KEY: keys[as] }),
})
/** In this process, against the server's: what is printed is the same, and a hundred starts of Node are saved. */
const run = (argv: readonly string[], { as = 'owner', input = '', env = {} }: As = {}): Promise<Ran> =>
  inProcess({ home, env: { ...envFor(as), ...env } }).run(argv, input)
const piped = (argv: readonly string[], { as = 'owner', input = '', env = {} }: As = {}): Promise<Ran> =>
  runPiped(argv, { env: { ...envFor(as), ...env }, cwd: home, input })
const inTerminal = (argv: readonly string[], presses: readonly Press[], as: keyof typeof keys = 'owner'): Promise<Ran> =>
  runInTerminal(argv, presses, { env: envFor(as), cwd: home })

/** A way to the server that waits before the bytes of a large message, so that they are under way for longer than the bar is patient. */
async function slowWayTo(t: TestContext, url: string): Promise<string> {
  const proxy = createProxy((client) => {
    const upstream = connect(Number(new URL(url).port), '127.0.0.1')
    const close = (): void => {
      client.destroy()
      upstream.destroy()
    }
    upstream.on('error', close).on('close', close).pipe(client).on('error', close)
    let bytes = 0
    client.on('data', (part) => {
      bytes += part.length
      upstream.write(part)
      if (bytes < 1_000_000 || client.isPaused()) return
      client.pause()
      bytes = -Infinity
      setTimeout(() => client.resume(), 1_500)
    })
  }).listen(0, '127.0.0.1')
  t.after(() => void proxy.close())
  await once(proxy, 'listening')
  return `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`
}

/** One that is expected to work, as JSON. */
async function ask(argv: readonly string[], as: keyof typeof keys = 'owner'): Promise<any> {
  const { code, out, err } = await run([...argv, '--json'], { as })
  assert.equal(code, 0, err)
  return JSON.parse(out)
}

async function startedTask(goal: string): Promise<string> {
  const { task } = await ask(['task', 'create', '--goal', goal])
  await ask(['task', 'assign', task.id, 'agent_robot'])
  await ask(['task', 'start', task.id], 'agent')
  return task.id
}

describe('output for people', () => {
  test('a task from its creation to its end', async () => {
    const { code, out, err } = await run([
      'task',
      'create',
      '--goal',
      'Fix the login bug',
      '--criteria',
      'tests pass',
      '--criteria',
      'no\u001b[31m red',
    ])
    assert.deepEqual({ code, err }, { code: 0, err: '' })
    assert.equal(masked(out), '✔ created task_ID: Fix the login bug\n  URL/tasks/task_ID\n')
    const id = /task_\w{26}/.exec(out)![0]
    assert.equal(
      masked((await run(['task', 'get', id])).out),
      String.raw`task task_ID
  state       created
  goal        Fix the login bug
  criteria    - tests pass
              - no\x1b[31m red
  held_by     user_owner
  principal   user_owner
  project     project_default
  type        task
  created_at  TIME
`,
    )
    await ask(['task', 'assign', id, 'agent_robot'])
    await ask(['task', 'start', id], 'agent')
    writeFileSync(join(home, 'a.txt'), 'one\ntwo\nthree\n')
    writeFileSync(join(home, 'b.txt'), 'one\n2\nthree\n')
    const { artifact } = await ask(['artifact', 'commit', id, '--file', 'a.txt', '--type', 'text'], 'agent')
    await ask(['review', 'changes', id, '--change', 'Digits, please.'])
    // The version before is found by itself.
    await ask(['artifact', 'commit', id, '--artifact-id', artifact.id, '--file', 'b.txt'], 'agent')
    assert.match(
      masked((await run(['review', 'show', id])).out),
      /\nDelivered: text v2 \(12 B\), changes since v1:\n   │  one\n   │ -two\n   │ \+2\n   │  three\n$/,
    )
    assert.match(
      masked((await run(['review', 'approve', id, '--comment', 'Good.'])).out),
      /verdict {11}approved\n[^]*\n\ntask task_ID completed\n$/,
    )
    assert.equal(
      masked((await run(['audit', 'replay', id])).out),
      `SEQ  AT                    ACTION              ACTOR         SUBJECT
1    TIME  task.created        user_owner    task_ID
2    TIME  task.assigned       user_owner    task_ID
3    TIME  run.delegated       agent_system  run_ID
4    TIME  task.started        agent_robot   task_ID
5    TIME  run.started         agent_system  run_ID
6    TIME  artifact.committed  agent_robot   art_ID
7    TIME  request.created     agent_system  hxp_ID
8    TIME  run.completed       agent_system  run_ID
9    TIME  review.submitted    user_owner    rev_ID
10   TIME  request.completed   agent_system  hxp_ID
11   TIME  run.delegated       agent_system  run_ID
12   TIME  artifact.committed  agent_robot   art_ID
13   TIME  request.created     agent_system  hxp_ID
14   TIME  run.started         agent_system  run_ID
15   TIME  run.completed       agent_system  run_ID
16   TIME  review.submitted    user_owner    rev_ID
17   TIME  request.completed   agent_system  hxp_ID
18   TIME  task.completed      agent_system  task_ID
✔ rebuilt from 18 events: all 13 documents are as they are stored
`,
    )
    const followed = await run(['task', 'follow', id])
    assert.equal(followed.code, 0, 'it ends with the task')
    assert.equal(masked(followed.out).split('\n')[0], 'TIME  task.created                user_owner        task_ID  created')
    assert.equal(followed.out.trim().split('\n').length, 18)
    const lines = (await run(['task', 'follow', id, '--json'])).out
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    assert.deepEqual(lines.map(({ event }) => event.action).at(-1), 'task.completed')
    const rest = await run(['task', 'follow', id, '--json', '--after', lines[15].cursor])
    assert.deepEqual(
      rest.out
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line).event.seq),
      [17, 18],
      'it goes on behind a cursor',
    )
  })

  test('lists, an empty one, and more than one page', async () => {
    const table = await run(['task', 'list', '--state', 'completed'])
    assert.equal(
      masked(table.out).replaceAll(/ {2,}/g, '  '),
      'TASK  STATE  HELD BY  CREATED  GOAL\ntask_ID  completed  Robot  AGO  Fix the login bug\n',
    )
    assert.deepEqual(await run(['task', 'list', '--state', 'rejected']), { code: 0, out: '', err: 'no tasks\n' })
    const first = await run(['audit', 'query', '--limit', '2'])
    assert.equal(first.err, 'there is more: --all shows everything, --limit a longer page\n')
    const cursor = (await ask(['audit', 'query', '--limit', '2'])).next_cursor
    assert.equal((await run(['audit', 'query', '--limit', '2', '--cursor', cursor])).code, 0)
    assert.equal((await run(['audit', 'query', '--limit', '2', '--all'])).err, '')
  })

  test('the signed-in person, and the administrator key if there is no other', async () => {
    assert.equal(
      masked((await run(['whoami'])).out),
      'id        user_owner\nname      Owner\nkind      human\nowner     yes\nrole      owner\nprojects  project_id=project_default role=owner\nserver    URL\nkey_from  COUNTERSIGN_KEY\n',
    )
    const { out, err } = await run(['whoami'], { as: null })
    assert.match(out, /^id +service_admin$/m)
    assert.match(err, /^note: using the admin key from \.\/data \(can manage and read; cannot answer or approve\)\n$/)
    const refused = await run(['task', 'create', '--goal', 'x'], { as: null })
    assert.equal(refused.code, 1, 'it decides nothing')
  })

  test('refusals with their code, a hint and an exit code', async () => {
    assert.deepEqual(await run(['task', 'get', 'task_nowhere']), {
      code: 1,
      out: '',
      err: 'countersign: there is no task task_nowhere [NOT_FOUND]\n  → it does not exist, or you have no access; `countersign task list` shows what you can see\n',
    })
    const bad = await run(['task', 'list'], { env: { COUNTERSIGN_KEY: 'cs_nobody' } })
    assert.deepEqual([bad.code, bad.err.split('\n')[0]], [4, 'countersign: a valid API key or session is required [UNAUTHENTICATED]'])
    const gone = await run(['task', 'list'], { env: { COUNTERSIGN_URL: 'http://127.0.0.1:9' } })
    assert.deepEqual([gone.code, /\[UNREACHABLE\]/.test(gone.err)], [3, true])
  })
})

describe('one field of the answer', () => {
  test('is printed alone, as it is, for the next command', async () => {
    const goal = 'a "goal"\u001b[31m\nin two lines'
    const made = await run(['task', 'create', '--goal', goal, '--pick', 'task.id'])
    assert.match(made.out, /^task_[0-9A-HJKMNP-TV-Z]{26}\n$/)
    const id = made.out.trim()
    const picked = async (path: string, ...argv: string[]): Promise<string> => (await run([...argv, '--pick', path])).out
    assert.equal(await picked('task.spec.goal', 'task', 'get', id), `${goal}\n`)
    assert.equal(await picked('task.amendments', 'task', 'get', id), '0\n')
    assert.equal(await picked('task.deadline', 'task', 'get', id), 'null\n')
    assert.equal(await picked('task.spec.constraints', 'task', 'get', id), '{}\n')
    assert.equal(await picked('items.0.id', 'task', 'list'), `${id}\n`)
    assert.ok((await picked('items.id', 'task', 'list')).split('\n').length > 2, 'one line for each item of a list')
    assert.equal(await picked('items.id', 'task', 'list', '--state', 'rejected'), '')
    const shown = await inTerminal(['task', 'get', id, '--pick', 'task.spec.goal'], [])
    assert.equal(shown.out, String.raw`a "goal"\x1b[31m` + '\r\nin two lines\r\n', 'a terminal is shown it, and does not obey')
  })

  test('that is not there is named, with those that are, and what was done stays done', async () => {
    const before_ = (await ask(['task', 'list', '--limit', '200'])).items.length
    const { code, out, err } = await run(['task', 'create', '--goal', 'x', '--pick', 'task.ident'])
    assert.deepEqual([code, out], [1, ''])
    assert.match(
      err,
      /The command worked, but its output has no field "task\.ident"\. \[NO_FIELD\]\n {2}→ its fields: task; --json shows all of it\n/,
    )
    assert.equal((await ask(['task', 'list', '--limit', '200'])).items.length, before_ + 1)
    for (const path of ['__proto__', 'task.constructor', '', '.', 'task..id']) {
      assert.equal((await run(['task', 'list', '--pick', path])).code, 1, path)
    }
  })
})

describe('a key that is refused', () => {
  const hintOf = ({ err }: Ran): string => /→ (.*)/.exec(err)?.[1] ?? ''

  test('is explained by where it came from', async () => {
    const elsewhere = join(home, 'elsewhere')
    const login = await run(['login'], { as: null, input: 'cs_nobody\n', env: { XDG_CONFIG_HOME: elsewhere } })
    assert.deepEqual([login.code, hintOf(login)], [4, `${server.url} does not accept this key; nothing was stored`])
    assert.ok(!existsSync(elsewhere))
    const given = await run(['task', 'list', '--api-key', 'cs_nobody'])
    assert.match(hintOf(given), /^http\S+ does not accept the key from --api-key; an owner issues another with `countersign key issue`$/)
    const { issued, key } = await ask(['key', 'issue', 'user_owner'])
    await run(['login'], { as: null, input: `${key}\n`, env: { XDG_CONFIG_HOME: elsewhere } })
    await ask(['key', 'revoke', issued.id])
    const stale = await run(['task', 'list'], { as: null, env: { XDG_CONFIG_HOME: elsewhere } })
    assert.match(
      hintOf(stale),
      /^the login that is stored for http\S+ is not valid there \(any more\)\. Log in again, .*`countersign login --as user_owner`/,
    )
    const admin = await run(['task', 'create', '--goal', 'x'], { as: null })
    assert.match(hintOf(admin), /^the admin key cannot do this; log in as a person: `countersign login --as user_owner`$/)
    assert.match((await run(['logout'], { env: { XDG_CONFIG_HOME: elsewhere } })).out, /^logged out at http\S+ \(user_owner\)\n/)
    assert.equal((await run(['logout'], { env: { XDG_CONFIG_HOME: elsewhere } })).out, `there was no login for ${server.url}\n`)
  })
})

/** Reads the first character of the output and closes the pipe. */
async function headOf(argv: readonly string[]): Promise<{ code: number | null; said: string }> {
  const command = `'${process.execPath}' '${join(root, 'bin', 'countersign.js')}' ${argv.join(' ')} | head -c 1`
  const child = spawn('bash', ['-o', 'pipefail', '-c', command], { env: { ...process.env, ...envFor('owner') }, cwd: home })
  let said = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (part) => (said += String(part)))
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, said }
}

describe('a pipe', () => {
  test('takes no colours, gives its input, and may be closed early', async () => {
    const made = await piped(['task', 'create', '--file', '-', '--json'], { input: '{"spec":{"goal":"from a pipe"}}' })
    assert.equal(JSON.parse(made.out).task.spec.goal, 'from a pipe')
    assert.equal(made.out.split('\n').length, 2, 'one document on one line')
    const forced = await piped(['task', 'list'], { env: { FORCE_COLOR: '1' } })
    assert.ok(forced.out.includes('\u001b['))
    assert.ok(!(await piped(['task', 'list'])).out.includes('\u001b'))
    assert.deepEqual(await headOf(['audit', 'query', '--limit', '200']), { code: 0, said: 'S' })
  })

  test('carries artifacts both ways', async () => {
    const task = await startedTask('Deliver')
    const text = 'x'.repeat(70_000)
    const { code, out, err } = await piped(['artifact', 'commit', task, '--file', '-', '--json'], { as: 'agent', input: text })
    assert.equal(code, 0, err)
    const { artifact } = JSON.parse(out)
    assert.deepEqual([artifact.payload.kind, artifact.payload.size, artifact.payload.verified], ['blob', 70_000, true])
    assert.equal((await piped(['artifact', 'download', artifact.id, '--output', '-'])).out, text)
    // More than a pipe holds, without a reader.
    assert.deepEqual(await headOf(['artifact', 'download', artifact.id, '--output', '-']), { code: 0, said: 'x' })
    assert.equal((await run(['artifact', 'download', artifact.id, '--output', 'got.bin'])).code, 0)
    assert.equal(readFileSync(join(home, 'got.bin'), 'utf8'), text)
    const again = await run(['artifact', 'download', artifact.id, '--output', 'got.bin'])
    assert.deepEqual([again.code, /is there already/.test(again.err)], [2, true])
    assert.equal((await run(['artifact', 'download', artifact.id, '--output', 'got.bin', '--force'])).code, 0)
    assert.equal(existsSync(join(home, 'got.bin.part')), false)
  })
})

describe('a terminal', () => {
  test('sees colours in tables and a bar while something large is sent', async (t) => {
    const coloured = (await inTerminal(['task', 'list'], [])).out
    assert.ok(coloured.includes('\u001b[33mblocked') || coloured.includes('\u001b[32mcompleted'), coloured)
    const task = await startedTask('Large')
    writeFileSync(join(home, 'large.bin'), Buffer.alloc(50_000_000, 7))
    const env = { ...envFor('agent'), COUNTERSIGN_URL: await slowWayTo(t, server.url) }
    const { code, out } = await runInTerminal(['artifact', 'commit', task, '--file', 'large.bin'], [], { env, cwd: home })
    assert.equal(code, 0, out)
    assert.match(out, /uploading [█░]{24} +\d+ % of 50\.0 MB/)
    assert.match(stripVTControlCharacters(out), /payload\.size +50000000/)
  })

  test('Ctrl-C ends a stream', async () => {
    const task = await startedTask('Watch')
    const { code, out } = await inTerminal(['task', 'follow', task], [['task.started', '\u0003']])
    assert.equal(code, 130, out)
  })

  test('a followed task fits a terminal of 80 columns, and a pipe gets one line for each event', async () => {
    const task = await startedTask('Watch')
    await run(['checkpoint', 'raise', task, '--kind', 'approval', '--prompt', `Drop ${'everything '.repeat(20)}?`], { as: 'agent' })
    await run(['task', 'cancel', task])
    const { code, out } = await runInTerminal(['task', 'follow', task], [], { env: envFor('owner'), cwd: home, columns: 80 })
    assert.equal(code, 0, out)
    const lines = stripVTControlCharacters(out).trimEnd().split(/\r?\n/)
    assert.deepEqual(
      lines.filter((line) => line.length > 80),
      [],
    )
    assert.match(lines.join('\n'), /^\S+Z  task\.created +user_owner\n {4}task_\w{26}  created$/m)
    assert.match(lines.join('\n'), /^ {4}"Drop everything .*…$/m)
    const inPipe = (await run(['task', 'follow', task])).out.trimEnd().split('\n')
    assert.ok(inPipe.every((line) => /^\d{4}-/.test(line)) && inPipe.some((line) => line.length > 200))
  })

  test('stores a key that is typed and never shown', async () => {
    const presses: Press[] = [
      ['Address of the server', `${server.url}\r`],
      ['Key for', `${keys.owner}\r`],
    ]
    const { code, out } = await runInTerminal(['login'], presses, { env: { HOME: home }, cwd: home })
    assert.equal(code, 0, out)
    assert.doesNotMatch(out, new RegExp(keys.owner))
    const file = join(home, '.config', 'countersign', 'config.json')
    assert.equal(statSync(file).mode & 0o777, 0o600)
    const { current, logins } = JSON.parse(readFileSync(file, 'utf8'))
    assert.deepEqual([current, logins.length, logins[0].key, logins[0].id], [server.url, 1, keys.owner, 'user_owner'])
    const me = await runPiped(['whoami'], { env: { HOME: home }, cwd: home })
    assert.match(me.out, /^key_from +login$/m)
    // It is for that server alone: another one is not even shown it.
    const seen: unknown[] = []
    const other = createServer(({ headers }, answer) => {
      seen.push(headers.authorization)
      answer.end('{}')
    }).listen(0, '127.0.0.1')
    await once(other, 'listening')
    const url = `http://127.0.0.1:${(other.address() as AddressInfo).port}`
    const elsewhere = await runPiped(['whoami', '--url', url], { env: { HOME: home, COUNTERSIGN_DATA: '/nowhere' }, cwd: home })
    other.close()
    assert.deepEqual([elsewhere.code, /you are not logged in at/.test(elsewhere.err), seen], [4, true, [undefined]])
    assert.equal((await runPiped(['logout'], { env: { HOME: home }, cwd: home })).code, 0)
    assert.equal(existsSync(file), false)
  })

  test('a key comes from standard input too, and a wrong one is not stored', async () => {
    const wrong = await run(['login'], { as: null, input: 'cs_wrong\n' })
    assert.equal(wrong.code, 4)
    const right = await run(['login', '--json'], { as: null, input: `${keys.agent}\n` })
    assert.equal(JSON.parse(right.out).id, 'agent_robot')
    await run(['logout'])
  })
})

describe('without a server', () => {
  test('a data folder is read, and nothing in it can be changed', async () => {
    const offline = ['--data', data]
    const { items } = await ask(['task', 'list', '--state', 'completed'])
    for (const argv of [
      ['task', 'list'],
      ['task', 'get', items[0].id],
      ['audit', 'query', '--task-id', items[0].id],
      ['audit', 'replay', items[0].id],
    ]) {
      const [off, on] = await Promise.all([run([...argv, ...offline, '--json'], { as: null }), run([...argv, '--json'])])
      assert.equal(off.code, 0, off.err)
      assert.deepEqual(JSON.parse(off.out), JSON.parse(on.out))
    }
    const shown = ['task', 'get', items[0].id]
    assert.equal((await run([...shown, ...offline], { as: null })).out, (await run(shown)).out, 'in the same order, wherever it was read')
    const verified = await run(['audit', 'verify', '--all', ...offline], { as: null })
    assert.match(
      masked(verified.out),
      /^✔ system: \d+ events in order, the last is number \d+ HASH\n✔ project_default: \d+ events in order/,
    )
    for (const argv of [
      ['task', 'create', '--goal', 'x'],
      ['task', 'follow', 'task_1'],
      ['artifact', 'download', 'art_1'],
    ]) {
      const { code, err } = await run([...argv, ...offline], { as: null })
      assert.deepEqual([code, /needs a running server/.test(err)], [2, true], argv.join(' '))
    }
    assert.equal((await run(['task', 'list', '--data', 'nowhere'], { as: null })).code, 1)
  })

  test('every query that has an example answers or refuses, and none of them fails', async () => {
    for (const argv of [
      ['user', 'list'],
      ['agent', 'list'],
      ['project', 'list'],
      ['session', 'list'],
      ['checkpoint', 'list'],
      ['me', 'get'],
      ['key', 'list', 'user_owner'],
      ['ledger', 'read', 'k'],
      ['project', 'get', 'project_default'],
    ]) {
      const { code, err } = await run([...argv, '--data', data], { as: null })
      assert.ok(code === 0 || code === 1, `${argv.join(' ')}: ${code} ${err}`)
      assert.doesNotMatch(err, /\n {4}at /, 'no stack')
    }
  })
})

describe('the record', () => {
  test('verifies to its end, and one changed letter ends with exit code 1', async () => {
    assert.equal((await run(['audit', 'verify'])).code, 0)
    const copy = join(home, 'copy')
    await server.stop()
    spawnCopy(data, copy)
    const db = new DatabaseSync(join(copy, 'countersign.db'))
    db.exec(`UPDATE images SET text = replace(text, 'Fix the login bug', 'Fix the login bag') WHERE text LIKE '%Fix the login bug%'`)
    db.close()
    const { code, out } = await runPiped(['audit', 'verify', '--data', copy], { env: { HOME: home }, cwd: home })
    assert.equal(code, 1)
    assert.match(out, /^✖ project_default: number 1 is not what was recorded: /)
    const doctor = await runPiped(['doctor', '--data', copy, '--url', 'http://127.0.0.1:1'], { env: { HOME: home }, cwd: home })
    assert.equal(doctor.code, 1)
    assert.match(doctor.out, /✖ record {5}project project_default, number 1: /)
    server = await startUp(data)
  })
})

function spawnCopy(from: string, to: string): void {
  rmSync(to, { recursive: true, force: true })
  cpSync(from, to, { recursive: true })
}

describe('the doctor', () => {
  test('finds a healthy installation healthy', async () => {
    const { code, out } = await run(['doctor'])
    assert.equal(code, 0, out)
    assert.deepEqual(out.match(/^. \S+/gm), [
      '✔ node',
      '✔ data',
      '✔ admin.key',
      '✔ keys',
      '✔ database',
      '✔ record',
      '✔ clock',
      '✔ disk',
      '✔ server',
      '✔ page',
      '✔ key',
    ])
    assert.equal(JSON.parse((await run(['doctor', '--json', '--quick'])).out).ok, true)
  })

  test('says what to do about what is not', async () => {
    const key = join(data, 'admin.key')
    chmodSync(key, 0o644)
    chmodSync(data, 0o755)
    const { code, out } = await run(['doctor'], { env: { COUNTERSIGN_KEY: 'cs_wrong' } })
    chmodSync(key, 0o600)
    chmodSync(data, 0o700)
    assert.equal(code, 1)
    assert.match(out, /✖ data +others may look into .*\(mode 755\)\n +→ chmod 700 /)
    assert.match(out, /✖ admin\.key +others may read .*\(mode 644\)\n +→ delete it/)
    assert.match(out, /✖ key +the key from COUNTERSIGN_KEY does not work/)
    const nowhere = await runPiped(['doctor', '--data', 'nowhere', '--url', server.url], {
      env: { HOME: home, COUNTERSIGN_KEY: keys.owner },
      cwd: home,
    })
    assert.match(nowhere.out, /! data +there is no data folder/)
  })
})

describe('completion', () => {
  test('asks the server for the ids that a field takes, as short as they are accepted', async () => {
    const { task } = await ask(['task', 'create', '--goal', 'To complete'])
    const ids = (await run(['ids', 'task_id'])).out.trim().split('\n')
    assert.ok(ids.includes(`task_${task.id.slice(-6)}`), ids.join(' '))
    assert.equal((await run(['ids', 'assignee'])).out, 'agent_robot\nuser_owner\n')
    assert.equal((await run(['ids', 'goal'])).out, '')
  })

  test('completes nouns, verbs, flags, choices and ids in bash', async () => {
    const script = (await run(['completion', 'bash'])).out
    const completed = async (line: string, server = ''): Promise<string[]> => {
      const words = line.split(' ')
      const body = `${script}\n${server}\nCOMP_WORDS=(${words.map((word) => `'${word}'`).join(' ')}); COMP_CWORD=${words.length - 1}; _countersign; printf '%s\\n' "\${COMPREPLY[@]}"`
      const child = spawn('bash', ['-c', body])
      let said = ''
      child.stdout.on('data', (part) => (said += String(part)))
      await once(child, 'close')
      return said.trim().split('\n')
    }
    assert.deepEqual(await completed('countersign che'), ['checkpoint'])
    assert.deepEqual(await completed('countersign task f'), ['follow'])
    assert.deepEqual(await completed('countersign task create --aut'), ['--autonomy'])
    assert.deepEqual(await completed('countersign checkpoint resolve x --action re'), ['reject', 'reassign'])
    assert.deepEqual(await completed('countersign doctor --q'), ['--quick'])
    assert.deepEqual(await completed('countersign completion z'), ['zsh'])
    assert.deepEqual(await completed('countersign task get '), [''], 'an id is not a file')
    const says = 'countersign() { test "$1" = ids && echo "of-$2"; }'
    assert.deepEqual(await completed('countersign task get ', says), ['of-task_id'])
    assert.deepEqual(await completed('countersign task assign x ', says), ['of-assignee'])
    assert.deepEqual(await completed('countersign task list --project-id ', says), ['of-project_id'])
    assert.deepEqual(await completed('countersign task create ', says), [''])
    assert.notDeepEqual(await completed('countersign artifact commit x --file '), [''], 'a file is one')
    assert.ok((await run(['completion', 'fish'])).out.length < 230_000, 'a shell reads it at its start')
    assert.match((await run(['completion', 'fish'])).out, /^complete -c countersign -n '__cs_in task create' -l goal -x /m)
    assert.match((await run(['completion', 'fish'])).out, /-n '__cs_at task get' -a '\(countersign ids task_id 2>\/dev\/null\)'$/m)
    assert.match((await run(['completion', 'zsh'])).out, /bashcompinit/)
  })
})
