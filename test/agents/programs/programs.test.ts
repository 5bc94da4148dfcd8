// Agents that are programs: real children that behave, and real children that do not.
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { readAgents } from '#apps/server/settings/agents-file.ts'
import { realClock } from '#apps/server/clock.ts'
import { limits } from '#kernel/limits.ts'
import { openBlobs } from '#stores/blobs/index.ts'
import { promptFor, resultIn } from '#agents/programs/profiles.ts'
import { runProgramAgents, type ProcessAgent } from '#agents/programs/agents.ts'
import { silent } from '../../support/in-process/worker-world.ts'
import { createWorld, type World } from '../../support/in-process/world.ts'

const folder = mkdtempSync(join(tmpdir(), 'countersign-child-'))
after(() => rmSync(folder, { recursive: true, force: true }))
const root = join(import.meta.dirname, '../../..')

type Over = { argv?: string[]; profile?: string; tries?: number; time_limit?: string; waitMs?: number; graceMs?: number; env?: object }

/** As the operator's file says it. */
function configured({ argv, waitMs = 60_000, graceMs = 200, ...entry }: Over): ProcessAgent {
  const path = join(folder, 'agents.json')
  writeFileSync(path, JSON.stringify({ agents: { agent_devin: { ...(argv ? { command: argv } : {}), ...entry } } }))
  const [agent] = readAgents(path, { PATH: process.env['PATH'], SECRET: 'not for children' })
  return { ...agent!, plan: { ...agent!.plan, waitMs, graceMs } }
}

const node = (script: string): string[] => [process.execPath, '-e', script]

async function employed(over: Over, goal = 'Fix the "login" bug') {
  const blobs = await openBlobs(mkdtempSync(join(folder, 'blobs-')), { fatal: () => undefined })
  const world = await createWorld({ now: Date.now, blobs })
  await world.call('devin', 'delegation/agent.publish', { name: 'Devin', reach: 'process' })
  const open = (agent = configured(over)) => runProgramAgents(world.kernel, blobs, [agent], realClock, silent)
  const worker = open()
  const { task } = await world.call('alice', 'collaboration/task.create', { spec: { goal }, reviewers: ['user_rita'] })
  const task_id = task.id as string
  await world.call('alice', 'collaboration/task.assign', { task_id, assignee: 'agent_devin' })
  return { world, worker, task_id, open }
}

async function until<T>(look: () => Promise<T | false | undefined | null> | T | false | undefined | null): Promise<T> {
  for (let i = 0; i < 1_500; i++) {
    const found = await look()
    if (found) return found
    await new Promise((done) => setTimeout(done, 10))
  }
  throw new Error('it did not come to be')
}
const runOf = async (world: World, task_id: string): Promise<any> =>
  (await world.call('alice', 'delegation/run.list', { task_id })).items.at(-1)
const ended = (world: World, task_id: string): Promise<any> =>
  until(async () => {
    const run = await runOf(world, task_id)
    return ['completed', 'failed'].includes(run.state) && run
  })
const question = (world: World): Promise<any> => until(async () => (await world.call('alice', 'collaboration/checkpoint.list')).items[0])
const textOf = async (world: World, task_id: string): Promise<string> => {
  const { task } = await world.call('alice', 'collaboration/task.get', { task_id })
  const { artifact } = await world.call('alice', 'collaboration/artifact.get', { artifact_id: task.artifacts[0] })
  return decodeURIComponent(Buffer.from(artifact.payload.uri.split(',')[1], 'base64').toString())
}
const shell = { argv: ['sh', join(root, 'examples/shell-agent.sh')] }

describe('a program that speaks JSON lines', () => {
  test('the shell script reads, asks, waits for a person, and delivers', async () => {
    const { world, worker, task_id } = await employed(shell)
    const { id, prompt } = await question(world)
    assert.equal(prompt, 'May I write the report?')
    assert.equal((await runOf(world, task_id)).progress.message, 'Reading the request')
    await world.call('alice', 'collaboration/checkpoint.resolve', { checkpoint_id: id, action: 'approve' })
    const run = await ended(world, task_id)
    assert.deepEqual([run.state, run.error], ['completed', null])
    assert.equal(await textOf(world, task_id), 'Report: Fix the "login" bug\n')
    await worker.stop()
  })

  test('that made room while a person thinks is started again with the answer, and asks only once', async () => {
    const { world, worker, task_id } = await employed({ ...shell, waitMs: 50 })
    const { id } = await question(world)
    await new Promise((done) => setTimeout(done, 500))
    // Messages that come while no process is there wait for the one that continues.
    await world.call('alice', 'collaboration/task.amend', { task_id, text: 'Keep it short.', intent: 'constrain' })
    await new Promise((done) => setTimeout(done, 200))
    await world.call('alice', 'collaboration/checkpoint.resolve', { checkpoint_id: id, action: 'approve' })
    assert.equal((await ended(world, task_id)).state, 'completed')
    const { task } = await world.call('alice', 'collaboration/task.get', { task_id })
    assert.deepEqual(task.checkpoints, [id])
    await worker.stop()
  })

  test('is taken up again by another server after the first has gone, and asks only once', async () => {
    const { world, worker, task_id, open } = await employed(shell)
    const { id } = await question(world)
    await worker.stop()
    await world.call('alice', 'collaboration/checkpoint.resolve', { checkpoint_id: id, action: 'approve' })
    const second = open()
    assert.equal((await ended(world, task_id)).state, 'completed')
    assert.deepEqual((await world.call('alice', 'collaboration/task.get', { task_id })).task.checkpoints, [id])
    await second.stop()
  })

  for (const profile of ['lines', 'text'])
    test(`that another process has taken the run from delivers nothing (${profile})`, async () => {
      const go = join(folder, `go-${profile}`)
      const said = profile === 'lines' ? JSON.stringify({ type: 'commit', text: 'stale' }) : 'stale'
      const script = `const wait = setInterval(() => { if (require('node:fs').existsSync(${JSON.stringify(go)})) { clearInterval(wait); console.log(${JSON.stringify(said)}) } }, 10)`
      const { world, worker, task_id } = await employed({ argv: node(script), profile })
      const { id: run_id } = await until(async () => (await runOf(world, task_id)).started_at && runOf(world, task_id))
      await world.call('devin', 'delegation/mailbox.release', { runs: [{ run_id, attempt: 1 }] })
      const { items } = await world.call('devin', 'delegation/mailbox.take', { worker: 'another', run_id, lease: 'PT1H' })
      assert.equal(items[0].attempt, 2)
      writeFileSync(go, '')
      // A child that lost its run is ended; the other one delivers.
      await new Promise((done) => setTimeout(done, 700))
      const { task } = await world.call('alice', 'collaboration/task.get', { task_id })
      assert.deepEqual([task.state, task.artifacts], ['in_progress', []])
      const payload = { kind: 'inline', uri: `data:text/plain;base64,${Buffer.from('fresh').toString('base64')}` }
      await world.call('devin', 'collaboration/artifact.commit', { task_id, type: 'text', payload, run_id, attempt: 2 })
      assert.equal(await textOf(world, task_id), 'fresh')
      await worker.stop()
    })

  test('gets amendments and the cancel, and ends with everything that it started', async () => {
    const notes = join(folder, 'notes')
    const script = `
      const { spawn } = require('node:child_process')
      const fs = require('node:fs')
      const child = spawn('sleep', ['300'], { stdio: 'inherit' })
      process.on('SIGTERM', () => undefined)
      console.log(JSON.stringify({ type: 'progress', message: String(child.pid) }))
      require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => fs.appendFileSync(process.env.NOTES, line + '\\n'))
    `
    const { world, worker, task_id } = await employed({ argv: node(script), env: { NOTES: notes } })
    const pid = Number(await until(async () => (await runOf(world, task_id)).progress?.message))
    await world.call('alice', 'collaboration/task.amend', { task_id, text: 'Only the tests.', intent: 'constrain' })
    await until(() => existsSync(notes) && readFileSync(notes, 'utf8').includes('Only the tests.'))
    await world.call('alice', 'collaboration/task.cancel', { task_id, reason: 'enough' })
    const isGone = (): boolean => {
      try {
        process.kill(pid, 0)
        return readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ')
      } catch {
        return true
      }
    }
    await until(isGone)
    await until(() => readFileSync(notes, 'utf8').includes('"cancel"'))
    const lines = readFileSync(notes, 'utf8').trim().split('\n')
    assert.deepEqual(
      lines.map((line) => (JSON.parse(line) as { type: string }).type),
      ['run', 'steer', 'cancel'],
    )
    await worker.stop()
  })

  test('that leaves a process outside of its group still ends, and its output counts', async () => {
    const script = `
      const { spawn } = require('node:child_process')
      const child = spawn('sleep', ['60'], { detached: true, stdio: ['ignore', 'inherit', 'ignore'] })
      child.unref()
      console.log(child.pid)
    `
    const { world, worker, task_id } = await employed({ argv: node(script), profile: 'text' })
    assert.equal((await ended(world, task_id)).state, 'completed')
    process.kill(Number(await textOf(world, task_id)))
    await worker.stop()
  })

  test('gets the error of a wrong line and can continue; the ledger answers', async () => {
    const script = `
      const lines = []
      const say = (line) => console.log(typeof line === 'string' ? line : JSON.stringify(line))
      const next = [
        () => say('no json'),
        () => say({ type: 'dance' }),
        () => say({ type: 'progress', percent: 400 }),
        () => say({ type: 'ledger', key: 'release', value: 7 }),
        () => say({ type: 'ledger', key: 'release' }),
        () => say({ type: 'commit', text: lines.slice(1).map((one) => one.message ?? String(one.entry.value)).join('|') }),
      ]
      require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => { lines.push(JSON.parse(line)); next.shift()?.() })
    `
    const { world, worker, task_id } = await employed({ argv: node(script) })
    assert.equal((await ended(world, task_id)).error, null)
    const said = (await textOf(world, task_id)).split('|')
    assert.match(said[0]!, /^a line is one JSON object/)
    assert.match(said[1]!, /^type is one of progress, ask, commit/)
    assert.match(said[2]!, /percent/)
    assert.deepEqual(said.slice(3), ['7', '7'])
    await worker.stop()
  })

  test('that asks the same twice is answered twice', async () => {
    const script = `
      const say = (line) => console.log(JSON.stringify(line))
      const ask = { type: 'ask', kind: 'input', prompt: 'More?' }
      const next = [() => say(ask), () => say(ask), (line) => say({ type: 'commit', text: line.resolution.input })]
      require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => next.shift()?.(JSON.parse(line)))
    `
    const { world, worker, task_id } = await employed({ argv: node(script), waitMs: 50 })
    for (const input of ['one', 'two']) {
      const { id } = await question(world)
      await new Promise((done) => setTimeout(done, 300))
      await world.call('alice', 'collaboration/checkpoint.resolve', { checkpoint_id: id, action: 'provide', input })
    }
    await ended(world, task_id)
    assert.equal(await textOf(world, task_id), 'two')
    assert.equal((await world.call('alice', 'collaboration/task.get', { task_id })).task.checkpoints.length, 2)
    await worker.stop()
  })

  test('that continues while a person has stopped it is held until the person releases it', async () => {
    const script = `
      const say = (line) => console.log(JSON.stringify(line))
      say({ type: 'progress', message: 'working' })
      require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
        if (JSON.parse(line).type === 'block') say({ type: 'commit', text: 'done' })
      })
    `
    const { world, worker, task_id } = await employed({ argv: node(script) })
    await until(async () => (await runOf(world, task_id)).progress)
    await world.call('alice', 'collaboration/task.interrupt', { task_id, reason: 'Wait.' })
    await new Promise((done) => setTimeout(done, 500))
    assert.equal((await runOf(world, task_id)).state, 'blocked')
    const { id } = await question(world)
    await world.call('alice', 'collaboration/checkpoint.resolve', { checkpoint_id: id, action: 'approve' })
    assert.equal((await ended(world, task_id)).state, 'completed')
    await worker.stop()
  })

  test('works on as many runs at a time as it is configured for, and all get their turn', async () => {
    const script = `
      const say = (line) => console.log(JSON.stringify(line))
      const began = Date.now()
      setTimeout(() => say({ type: 'commit', text: began + ' ' + Date.now() }), 200)
    `
    const { world, worker, task_id } = await employed({ argv: node(script) })
    const tasks = [task_id]
    for (const goal of ['two', 'three']) {
      const { task } = await world.call('alice', 'collaboration/task.create', { spec: { goal } })
      await world.call('alice', 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_devin' })
      tasks.push(task.id)
    }
    for (const one of tasks) await ended(world, one)
    const times = await Promise.all(tasks.map(async (one) => (await textOf(world, one)).split(' ').map(Number) as [number, number]))
    const [a, b, c] = times.toSorted(([x], [y]) => x - y)
    assert.ok(b![0] >= a![1] && c![0] >= b![1], JSON.stringify(times))
    await worker.stop()
  })

  test('gets the configured environment and the mark of its agent, and nothing else', async () => {
    // Node itself is told where the guard of this test run is.
    const script = `const { COUNTERSIGN_AGENT: agent, ...env } = process.env
      console.log(JSON.stringify({ type: 'commit', text: [agent, ...Object.keys(env).filter((name) => !/^(COUNTERSIGN_TEST_GUARD|NODE_OPTIONS|NODE_COMPILE_CACHE)$/.test(name)).sort()].join() }))`
    const { world, worker, task_id } = await employed({ argv: node(script), env: { ONLY: 'this', COUNTERSIGN_AGENT: 'agent_other' } })
    await ended(world, task_id)
    assert.equal(await textOf(world, task_id), 'agent_devin,ONLY,PATH')
    await worker.stop()
  })
})

describe('a program that does not behave', () => {
  const rows: readonly [message: string, over: Over, error: RegExp][] = [
    [
      'prints 100 MB',
      { argv: node(`const s = 'x'.repeat(65535) + '\\n'; for (let i = 0; i < 1600; i++) process.stdout.write(s)`) },
      /printed more than 10 MiB/,
    ],
    [
      'prints errors without end',
      { argv: node(`process.on('SIGTERM', () => {}); const s = 'x'.repeat(65536); const go = () => process.stderr.write(s, go); go()`) },
      /printed more than 10 MiB/,
    ],
    [
      'prints a line without end',
      { argv: node(`process.stdout.write('x'.repeat(300 * 1024)); setTimeout(() => {}, 60000)`) },
      /a line of more than 256 KiB/,
    ],
    [
      'never ends',
      { argv: node(`process.on('SIGTERM', () => {}); setInterval(() => {}, 1000)`), time_limit: 'PT0.3S' },
      /longer than its limit of 0\.3 s/,
    ],
    ['does not exist', { argv: ['/nowhere/at-all'] }, /cannot be started: .*ENOENT/],
    [
      'exits at once',
      { argv: node(`console.error('no such model'); process.exit(3)`), tries: 2 },
      /ended with code 3\. Its last output: no such model/,
    ],
    ['ends well and says nothing', { argv: ['true'], tries: 1 }, /ended without saying complete or fail/],
    ['prints no text', { argv: ['true'], profile: 'text', tries: 1 }, /printed no result/],
    [
      'prints 100 MB of text',
      { argv: node(`const s = 'x'.repeat(65536); for (let i = 0; i < 1600; i++) process.stdout.write(s)`), profile: 'text' },
      /printed more than 10 MiB/,
    ],
  ]
  for (const [message, over, error] of rows)
    test(`${message}: the run fails with the reason, and the person is asked`, async () => {
      const { world, worker, task_id } = await employed(over)
      const run = await ended(world, task_id)
      assert.equal(run.state, 'failed')
      assert.match(run.error, error)
      assert.ok(run.error.length < 1_500)
      assert.equal((await question(world)).kind, 'escalation')
      await worker.stop()
    })

  test('fails once and then works: it is restarted, and no one is notified', async () => {
    const mark = join(folder, 'mark')
    const script = `[ -e ${mark} ] || { touch ${mark}; exit 1; }; read -r run; echo '{"type":"commit","text":"done"}'`
    const { world, worker, task_id } = await employed({ argv: ['sh', '-c', script] })
    assert.equal((await ended(world, task_id)).state, 'completed')
    await worker.stop()
  })

  test('an agent that no program is configured for: the run fails in the end', async () => {
    const { world, worker, task_id } = await employed({ argv: ['true'], tries: 1 })
    await ended(world, task_id)
    await world.call('robin', 'delegation/agent.publish', { name: 'Robin', reach: 'process' })
    const { run } = await world.call('devin', 'delegation/agent.delegate', { to_agent: 'agent_robin', input: {} })
    const failed = await until(async () => {
      const found = (await world.call('robin', 'delegation/run.get', { run_id: run.id })).run
      return found.state === 'failed' && found
    })
    assert.deepEqual([failed.reason, failed.error], ['unreachable', 'no program is configured for agent_robin on this server'])
    await worker.stop()
  })
})

describe('a command-line agent', () => {
  test('gets the prompt on standard input, and what it prints is delivered', async () => {
    const { world, worker, task_id } = await employed({ argv: ['sh', '-c', 'echo "I was asked:"; cat'], profile: 'text' })
    await ended(world, task_id)
    assert.match(await textOf(world, task_id), /^I was asked:\nTask: Fix the "login" bug\n/)
    await worker.stop()
  })

  test('gets the prompt as an argument that no shell reads', async () => {
    const goal = '$(touch /tmp/x); `id` --help'
    const { world, worker, task_id } = await employed({ argv: ['printf', '%s', '{prompt}'], profile: 'gemini' }, goal)
    await ended(world, task_id)
    assert.ok((await textOf(world, task_id)).startsWith(`Task: ${goal}\n`))
    await worker.stop()
  })

  test('a large result goes as bytes', async () => {
    const { world, worker, task_id } = await employed({ argv: node(`process.stdout.write('y'.repeat(500000))`), profile: 'text' })
    await ended(world, task_id)
    const { task } = await world.call('alice', 'collaboration/task.get', { task_id })
    const { artifact } = await world.call('alice', 'collaboration/artifact.get', { artifact_id: task.artifacts[0] })
    assert.deepEqual([artifact.payload.kind, artifact.payload.size], ['blob', 500_000])
    await worker.stop()
  })

  test('the changes that a review asks for come with the next prompt', () => {
    const prompt = promptFor({
      input: { goal: 'Fix it', acceptance_criteria: ['tests pass'] },
      context: { review: { requested_changes: ['name it'] } },
    })
    assert.match(prompt, /It is done when:\n- tests pass\n[^]*asked for:\n- name it\n/)
  })

  test('the result of JSON lines is the last one that has it', () => {
    const output = { kind: 'result', field: 'result' } as const
    assert.equal(resultIn('noise\n{"type":"assistant"}\n{"type":"result","result":"done","is_error":false}\n', output), 'done')
    assert.equal(resultIn('{"type":"result","result":"quota","is_error":true}\n', output), null)
    assert.equal(resultIn('{"broken\n', output), null)
  })
})

describe("the operator's file", () => {
  const rows: readonly [text: string, message: RegExp][] = [
    ['{', /agents\.json: /],
    ['{"agents":{"devin":{"command":["x"]}}}', /devin: the id of an agent begins with agent_/],
    ['{"agents":{"agent_a":{}}}', /agent_a: command is required/],
    ['{"agents":{"agent_a":{"comand":["x"]}}}', /agent_a: there is no setting comand; there are command, profile/],
    ['{"agents":{"agent_a":{"command":"rm -rf"}}}', /agent_a: command/],
    ['{"agents":{"agent_a":{"profile":"clippy"}}}', /agent_a: profile is one of lines, acp, text, claude, codex, gemini, opencode, aider/],
    ['{"agents":{"agent_a":{"command":["x"],"profile":"gemini"}}}', /has no \{prompt\}/],
    ['{"agents":{"agent_a":{"command":["x"],"time_limit":"P8D"}}}', /time_limit is at most P7D/],
    ['{"agents":{"agent_a":{"command":["x"],"concurrency":0}}}', /agent_a: concurrency/],
    ['{"agents":{"agent_a":{"command":["x"],"env":{"A":1}}}}', /agent_a: env\.A must be text/],
  ]
  for (const [text, message] of rows)
    test(`is refused with a sentence: ${text}`, () => {
      const path = join(folder, 'agents.json')
      writeFileSync(path, text)
      assert.throws(() => readAgents(path, {}), message)
    })

  test('a profile brings its own command', () => {
    writeFileSync(join(folder, 'agents.json'), '{"agents":{"agent_a":{"profile":"claude","concurrency":2}}}')
    const [agent] = readAgents(join(folder, 'agents.json'), {})
    assert.deepEqual([agent!.plan.argv[0], agent!.concurrency, agent!.tries], ['claude', 2, limits.childTriesDefault])
  })
})
