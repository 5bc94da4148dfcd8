// kill -9 of an ACP agent and of its server between every two messages of a run: the run still ends with its delivery, and no call runs more often
// than people have allowed it.
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { memoryFlags } from '#apps/cli/serve.ts'
import { temporary } from '../../support/as-processes/cli.ts'
import { createCaller, enroll, spawnServer } from '../../support/as-processes/server.ts'

const isLong = process.env['COUNTERSIGN_TEST_CHOICE'] === 'all'
const SEED = Number(process.env['KILL_SEED'] ?? Math.floor(Math.random() * 1_000))
const MAIN = join(import.meta.dirname, '../../../src/apps/server/main.ts')
const FAKE = join(import.meta.dirname, '../../support/acp/misbehaving-agent.ts')
const victims = ['agent', 'server'] as const

async function until<T>(look: () => Promise<T | false | undefined | null> | T | false | undefined | null): Promise<T> {
  for (let i = 0; i < 6_000; i++) {
    const found = await look()
    if (found) return found
    await new Promise((done) => setTimeout(done, 10))
  }
  throw new Error('it did not happen')
}

async function openRun(t: TestContext) {
  const at = temporary('acp-run-kill')
  const [data, cwd] = [join(at, 'data'), join(at, 'work')]
  mkdirSync(cwd)
  const files = { EFFECTS: join(at, 'effects'), HEARD: join(at, 'heard'), STEPS: join(at, 'steps') }
  writeFileSync(files.STEPS, 'run make; say Done.')
  const entry = { profile: 'acp', command: [process.execPath, FAKE], cwd, env: files }
  writeFileSync(join(at, 'agents.json'), JSON.stringify({ agents: { agent_devin: entry } }))
  const start = (port: number) =>
    spawnServer([...memoryFlags, MAIN, '--agents', join(at, 'agents.json')], {
      COUNTERSIGN_DATA: data,
      COUNTERSIGN_PORT: String(port),
      COUNTERSIGN_LOG: 'error',
      COUNTERSIGN_QUOTA: 'off',
    })
  let server = await start(0)
  const { port } = server
  t.after(() => server.end('SIGKILL'))
  const keys = await enroll(port, readFileSync(join(data, 'admin.key'), 'utf8').trim())
  let caller = createCaller(port)
  t.after(() => caller.close())
  const call = async (key: string, operation: string, input: object = {}): Promise<any> => {
    const { status, body } = await caller.call(key, operation, input)
    if (status !== 200) throw new Error(`${operation}: ${JSON.stringify(body)}`)
    return body
  }
  await call(keys.devin, 'delegation/agent.publish', { name: 'Devin', reach: 'acp' })
  const { task } = await call(keys.alice, 'collaboration/task.create', { spec: { goal: 'Make it' } })
  await call(keys.alice, 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_devin' })
  const linesIn = (path: string): string[] => (existsSync(path) ? readFileSync(path, 'utf8').split('\n').filter(Boolean) : [])
  const calls = async (): Promise<any[]> => (await call(keys.devin, 'gate/call.list', { limit: 100 })).items
  let approvals = 0
  async function approve(): Promise<boolean> {
    const open = (await calls()).find(({ state }) => state === 'waiting')
    if (!open) return false
    const isFirst = await call(keys.alice, 'execution/request.resolve', { request_id: open.request_id, result: 'approved' }).then(
      () => true,
      () => false,
    )
    if (isFirst) approvals++
    return isFirst
  }
  return {
    calls,
    approve,
    approvals: () => approvals,
    effects: () => linesIn(files.EFFECTS),
    prompts: () => linesIn(`${files.STEPS}.prompts`),
    run: async (): Promise<any> => (await call(keys.alice, 'delegation/run.list', { task_id: task.id })).items.at(-1),
    task: async (): Promise<any> => (await call(keys.alice, 'collaboration/task.get', { task_id: task.id })).task,
    /** The only child of the server; none: it has ended. */
    agent: (): number => Number(readFileSync(`/proc/${server.pid}/task/${server.pid}/children`, 'utf8').trim().split(' ')[0]),
    async restart() {
      await server.end('SIGKILL')
      caller.close()
      server = await start(port)
      caller = createCaller(port)
    },
  }
}
type On = Awaited<ReturnType<typeof openRun>>

/** The messages of the run, each with what shows that it has passed. */
const messages: readonly (readonly [name: string, pass: (on: On) => Promise<unknown>])[] = [
  ['run.start', (on) => until(async () => (await on.run())?.started_at)],
  ['session/prompt', (on) => until(() => on.prompts().length === 1)],
  ['session/request_permission', (on) => until(async () => (await on.calls()).some(({ state }) => state === 'waiting'))],
  ['request.resolve', (on) => until(on.approve)],
  ['the outcome', (on) => until(() => on.effects().length === 1)],
  ['artifact.commit', (on) => until(async () => (await on.task()).state === 'review_ready')],
]

async function play(t: TestContext, victim: (typeof victims)[number], after: number): Promise<void> {
  const on = await openRun(t)
  for (const [, pass] of messages.slice(0, after + 1)) await pass(on)
  const agent = on.agent()
  if (victim === 'server') await on.restart()
  else if (agent > 0) process.kill(agent, 'SIGKILL')
  await until(async () => {
    await on.approve()
    return (await on.task()).state === 'review_ready'
  })
  const effects = on.effects().length
  assert.ok(effects >= 1 && effects <= on.approvals(), `${effects} effects of ${on.approvals()} answers`)
  assert.equal((await on.task()).artifacts.length, 1)
}

const places = messages.map((_, i) => i)
// The run of a killed server is taken up when its lease ends, half a minute later.
const chosen = isLong
  ? victims.flatMap((victim) => places.map((place) => [victim, place] as const))
  : [['agent', SEED % places.length] as const]
for (const [victim, place] of chosen)
  test(`kill -9 of the ${victim} after ${messages[place]![0]}: the run is delivered (KILL_SEED=${SEED})`, (t) => play(t, victim, place))
