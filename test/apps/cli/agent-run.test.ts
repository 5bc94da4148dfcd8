// `countersign agent run -- <command>` against a real server, and programs of a real server that is killed.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { masked, root, runPiped, startUp, type Running } from '../../support/as-processes/cli.ts'
import { createCaller, enroll, type Keys } from '../../support/as-processes/server.ts'

const folder = mkdtempSync(join(tmpdir(), 'countersign-agent-run-'))
const data = join(folder, 'data')
const other = join(folder, 'sudo')
writeFileSync(other, '#!/bin/sh\necho "done by $1"\n', { mode: 0o700 })
const script = join(root, 'examples/shell-agent.sh')
let server: Running
let keys: Keys
let caller: ReturnType<typeof createCaller>

const reach = (): void => {
  caller = createCaller(Number(new URL(server.url).port))
}
before(async () => {
  server = await startUp(data)
  keys = await enroll(Number(new URL(server.url).port), readFileSync(join(data, 'admin.key'), 'utf8').trim())
  reach()
})
after(async () => {
  caller.close()
  await server.stop()
  rmSync(folder, { recursive: true, force: true })
})

async function as(key: string, operation: string, input: object): Promise<any> {
  const { status, body } = await caller.call(key, operation, input)
  if (status !== 200) throw new Error(`${operation}: ${JSON.stringify(body)}`)
  return body
}
async function until<T>(look: () => Promise<T | false | undefined | null>): Promise<T> {
  for (let i = 0; i < 600; i++) {
    const found = await look()
    if (found) return found
    await new Promise((done) => setTimeout(done, 50))
  }
  throw new Error('it did not come to be')
}
async function assigned(goal: string): Promise<string> {
  const { task } = await as(keys.alice, 'collaboration/task.create', { spec: { goal } })
  await as(keys.alice, 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_devin' })
  return task.id as string
}
const asked = (task_id: string): Promise<string> =>
  until(async () => (await as(keys.alice, 'collaboration/task.get', { task_id })).task.pending_checkpoint as string | null)
const approve = (checkpoint_id: string): Promise<unknown> =>
  as(keys.alice, 'collaboration/checkpoint.resolve', { checkpoint_id, action: 'approve' })
const delivered = (task_id: string): Promise<any> =>
  until(async () => {
    const { task } = await as(keys.alice, 'collaboration/task.get', { task_id })
    return task.state === 'review_ready' && task
  })
const env = (key: string): Record<string, string> => ({ COUNTERSIGN_URL: server.url, COUNTERSIGN_KEY: key, HOME: folder })

describe('agent run', () => {
  test('a run is followed live, with its progress, until it ends; show tells what became of it', async () => {
    const task_id = await assigned('Say hello')
    const { items } = await as(keys.alice, 'delegation/run.list', { task_id })
    const run_id = items[0].id as string
    const following = runPiped(['run', 'follow', run_id], { env: env(keys.alice), cwd: folder })
    const lines = ['{"type":"progress","message":"half way","percent":50}', '{"type":"commit","text":"hello"}']
    const worker = await runPiped(['agent', 'run', '--once', '--', 'sh', '-c', `read line; printf '%s\\n' '${lines.join("' '")}'`], {
      env: env(keys.devin),
      cwd: folder,
    })
    assert.equal(worker.code, 0, worker.err)
    const followed = await following
    assert.equal(followed.code, 0, followed.err)
    const shown = followed.out.split('\n').map((line) => line.split('  ').slice(1).join(' '))
    assert.match(shown[0]!, /^run\.started/)
    assert.match(followed.out, /run\.progress .*\[#{10}-{10}\] 50 % {2}half way/)
    assert.match(followed.out, /run\.completed .*"version":"v1"/)
    const told = await runPiped(['run', 'show', run_id], { env: env(keys.alice), cwd: folder })
    assert.match(told.out, /state +completed/)
  })

  test('the shell script as an agent: taken, asked, delivered, line by line', async () => {
    const task_id = await assigned('Count the words')
    const running = runPiped(['agent', 'run', '--once', '--', 'sh', script], { env: env(keys.devin), cwd: folder })
    await approve(await asked(task_id))
    const { code, out, err } = await running
    assert.equal(code, 0, err)
    assert.equal(
      masked(out),
      `run_ID  taken
run_ID  Reading the request
run_ID  asks: May I write the report?
run_ID  Writing
run_ID  delivered
`,
    )
    const warned = 'warning: the command of agent_devin runs as your own user and can read ./data/admin.key\n'
    const next = '  → give it another user (sudo -u …) or a container: SECURITY.md\n'
    assert.equal(masked(err), `${warned}${next}agent_devin takes runs from URL; Ctrl-C ends it\n`)
    await delivered(task_id)
  })

  test('its program carries the mark of the agent and no key, and does not use the login of this machine', async () => {
    const home = join(folder, 'person')
    const place = { env: { COUNTERSIGN_URL: server.url, COUNTERSIGN_DATA: data, HOME: home }, cwd: folder }
    assert.equal((await runPiped(['login', '--as', 'user_owner'], place)).code, 0)
    assert.match((await runPiped(['whoami'], place)).out, /^id +user_owner$/m)
    const task_id = await assigned('Who are you?')
    const cli = `${process.execPath} ${join(root, 'bin/countersign.js')}`
    const inside = `echo "mark=$COUNTERSIGN_AGENT key=$COUNTERSIGN_KEY"; ${cli} whoami 2>&1; ${cli} login --as user_owner 2>&1; exit 0`
    const worker = await runPiped(['agent', 'run', '--once', '--profile', 'text', '--', 'sh', '-c', inside], {
      ...place,
      env: { ...place.env, COUNTERSIGN_KEY: keys.devin },
    })
    assert.equal(worker.code, 0, worker.err)
    assert.match(worker.err, /^warning: .* can read \S+config\.json and \.\/data\/admin\.key$/m)
    const { artifacts } = await delivered(task_id)
    const { artifact } = await as(keys.alice, 'collaboration/artifact.get', { artifact_id: artifacts[0].artifact_id ?? artifacts[0] })
    const text = Buffer.from(artifact.payload.uri.split(',')[1], 'base64').toString()
    assert.match(text, /^mark=agent_devin key=$/m)
    assert.equal(text.match(/this program runs for agent_devin \(COUNTERSIGN_AGENT\)/g)?.length, 2, text)
    assert.doesNotMatch(text, /user_owner \(human\)|^id/m)
  })

  test('a command that starts its program as another user brings no warning', async () => {
    await assigned('Elsewhere')
    const { err } = await runPiped(['agent', 'run', '--once', '--profile', 'text', '--tries', '1', '--', other, 'another'], {
      env: env(keys.devin),
      cwd: folder,
    })
    assert.doesNotMatch(err, /warning/)
  })

  test('killed while a person thinks, started again: the answer reaches it, and the question was put once', async () => {
    const task_id = await assigned('Survive')
    const argv = [join(root, 'bin/countersign.js'), 'agent', 'run', '--worker', 'one', '--', 'sh', script]
    const first = spawn(process.execPath, argv, { env: { PATH: process.env['PATH'], ...env(keys.devin) }, stdio: 'ignore' })
    const checkpoint = await asked(task_id)
    first.kill('SIGKILL')
    await once(first, 'exit')
    await approve(checkpoint)
    const again = await runPiped(['agent', 'run', '--once', '--worker', 'one', '--', 'sh', script], { env: env(keys.devin), cwd: folder })
    assert.equal(again.code, 0, again.err)
    assert.deepEqual((await delivered(task_id)).checkpoints, [checkpoint])
  })

  test('a first Ctrl-C lets the run come to its end', async () => {
    const task_id = await assigned('Finish first')
    const argv = [join(root, 'bin/countersign.js'), 'agent', 'run', '--profile', 'text', '--', 'sh', '-c', 'sleep 1; echo done']
    const child = spawn(process.execPath, argv, {
      env: { PATH: process.env['PATH'], ...env(keys.devin) },
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    await once(child.stdout, 'data')
    child.kill('SIGINT')
    const [code] = (await once(child, 'exit')) as [number]
    assert.equal(code, 0)
    await delivered(task_id)
  })

  for (const [argv, key, message] of [
    [['agent', 'run'], 'devin', /there is no command/],
    [['agent', 'run', '--', 'true'], 'alice', /the key is of user_alice, which is not an agent/],
    [['agent', 'run', '--profile', 'clippy', '--', 'true'], 'devin', /must be one of|Allowed choices/],
    [['agent', 'run', '--profile', 'aider', '--', 'true'], 'devin', /the command has none/],
    [['agent', 'run', '--tries', '0', '--', 'true'], 'devin', /--tries must be from 1 to 20/],
    [['agent', 'run', '--time-limit', 'soon', '--', 'true'], 'devin', /ISO 8601/],
  ] as const)
    test(`is not understood: ${argv.join(' ')} as ${key}`, async () => {
      const { code, err } = await runPiped(argv, { env: env(keys[key]), cwd: folder })
      assert.equal(code, 2, err)
      assert.match(err, message)
    })
})

test('a server that is killed while its program waits continues with the answer after its restart', async () => {
  const agents = join(folder, 'agents.json')
  writeFileSync(agents, JSON.stringify({ agents: { agent_devin: { command: ['sh', script] } } }))
  const restart = async (): Promise<void> => {
    caller.close()
    server.process.kill('SIGKILL')
    await once(server.process, 'exit')
    server = await startUp(data, { COUNTERSIGN_AGENTS: agents })
    reach()
  }
  await restart()
  await as(keys.devin, 'delegation/agent.publish', { name: 'Devin', reach: 'process' })
  const task_id = await assigned('Outlive the server')
  const checkpoint = await asked(task_id)
  await restart()
  await approve(checkpoint)
  assert.deepEqual((await delivered(task_id)).checkpoints, [checkpoint])
})

test('a server does not start with a file of agents that it does not understand', async () => {
  const agents = join(folder, 'wrong.json')
  writeFileSync(agents, '{"agents":{"agent_devin":{"comand":["x"]}}}')
  const { code, err } = await runPiped(['up', '--data', join(folder, 'other'), '--port', '0', '--agents', agents], { env: {}, cwd: folder })
  assert.equal(code, 2)
  assert.match(err, /wrong\.json: agent_devin: there is no setting comand/)
})
