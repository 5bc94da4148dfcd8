// kill -9 of the agent, the proxy or the server between every two messages about one permission: a yes is used once at most, and the same
// question can be asked again.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { createCaller, enroll, startServer, type ServerProcess } from '../../support/as-processes/server.ts'
import { temporary } from '../../support/as-processes/cli.ts'
import { until } from '../gate-world.ts'
import { effectsIn } from './acp-world.ts'
import { login, startProxy } from './proxy-process.ts'

const isLong = process.env['COUNTERSIGN_TEST_CHOICE'] === 'all'
const SEED = Number(process.env['KILL_SEED'] ?? Math.floor(Math.random() * 1_000))
const victims = ['agent', 'proxy', 'server'] as const
const ask = { ask: { title: 'rm', kind: 'execute', rawInput: { command: 'rm' } } }
const WORDS = ['--agent', 'agent_devin', '--name', 'fake']

async function openKillWorld(t: TestContext) {
  const data = join(temporary('acp-kill'), 'data')
  let server: ServerProcess = await startServer(data)
  const { port } = server
  t.after(() => server.end('SIGKILL'))
  const keys = await enroll(port, server.adminKey)
  let caller = createCaller(port)
  t.after(() => caller.close())
  const call = async (key: string, operation: string, input: object = {}): Promise<any> => {
    const { status, body } = await caller.call(key, operation, input)
    if (status !== 200) throw Object.assign(new Error(`${operation}: ${JSON.stringify(body)}`), { code: body.error?.code })
    return body
  }
  const effectsFile = `${data}.effects`
  const calls = async (): Promise<any[]> => (await call(keys.devin, 'gate/call.list', { limit: 100 })).items.toReversed()
  return {
    data,
    url: `http://127.0.0.1:${port}`,
    keys,
    effectsFile,
    calls,
    effects: () => effectsIn(effectsFile).filter((line) => line.endsWith('allow_once')),
    waiting: () => until(async () => (await calls()).findLast(({ state }) => state === 'waiting')),
    approve: (request_id: string) => call(keys.alice, 'execution/request.resolve', { request_id, result: 'approved' }),
    async restart() {
      await server.end('SIGKILL')
      caller.close()
      server = await startServer(data, port)
      caller = createCaller(port)
    },
  }
}

type World = Awaited<ReturnType<typeof openKillWorld>>
type Proxy = Awaited<ReturnType<typeof startProxy>>
/** The messages of one turn; each step resolves when its message has arrived. */
const messages: readonly (readonly [name: string, pass: (world: World, proxy: Proxy) => Promise<unknown>])[] = [
  ['initialize', (_, { editor }) => editor.call('initialize', { protocolVersion: 1, clientCapabilities: {} })],
  ['session/new', ({ data }, { editor }) => editor.call('session/new', { cwd: data, mcpServers: [] })],
  ['session/prompt', async (_, { editor }) => void editor.prompt([ask])],
  ['call.propose', ({ waiting }) => waiting()],
  ['session/request_permission', (_, { editor }) => until(() => editor.questions().length === 1)],
  ['request.resolve', async ({ waiting, approve }) => approve((await waiting()).request_id)],
  ['the outcome', ({ effects }) => until(() => effects().length === 1)],
  ['$/cancel_request', (_, { editor }) => until(() => editor.closed().length === 1)],
  ['call.conclude', ({ calls }) => until(async () => (await calls())[0]?.state === 'ended')],
]

/** The process of the agent is the only child of the proxy. */
function agentOf(pid: number): number {
  const [child] = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ')
  return Number(child)
}
async function kill(victim: (typeof victims)[number], world: World, proxy: Proxy): Promise<void> {
  if (victim === 'server') return world.restart()
  const agent = agentOf(proxy.child.pid!)
  process.kill(victim === 'agent' ? agent : proxy.child.pid!, 'SIGKILL')
  await proxy.ended
}

/** Asks until an answer has let the call run once more: with a yes that is there already, or with a new one. */
async function askAgain(t: TestContext, world: World, home: string): Promise<number> {
  const proxy = await startProxy(t, world, home, WORDS)
  await proxy.begin()
  const before = world.effects().length
  const turn = proxy.editor.prompt([ask])
  let approvals = 0
  await until(async () => {
    if (world.effects().length > before) return true
    const open = (await world.calls()).findLast(({ state }) => state === 'waiting')
    if (!open) return false
    const isFirst = await world.approve(open.request_id).then(
      () => true,
      () => false,
    )
    if (isFirst) approvals++
    return false
  })
  await turn
  proxy.child.kill('SIGTERM')
  await proxy.ended
  return approvals
}

async function play(t: TestContext, victim: (typeof victims)[number], after: number): Promise<void> {
  const world = await openKillWorld(t)
  const home = await login(world)
  const proxy = await startProxy(t, world, home, WORDS)
  let approvals = 0
  for (const [i, [name, pass]] of messages.entries()) {
    await pass(world, proxy)
    if (name === 'request.resolve') approvals++
    if (i === after) break
  }
  await kill(victim, world, proxy)
  if (victim === 'server') {
    proxy.child.kill('SIGKILL')
    await proxy.ended
  }
  approvals += await askAgain(t, world, home)
  const effects = world.effects().length
  assert.ok(effects >= 1 && effects <= approvals, `${effects} effects of ${approvals} answers`)
  const begun = (await world.calls()).filter(({ state }) => state === 'begun' || state === 'ended')
  assert.ok(effects <= begun.length, 'nothing ran that is not on the record as begun')
}

const places = messages.map((_, i) => i)
const chosen = isLong
  ? victims.flatMap((victim) => places.map((place) => [victim, place] as const))
  : [0, 1].map((i) => [victims[(SEED + i) % victims.length]!, (SEED + 4 * i) % places.length] as const)
for (const [victim, place] of chosen)
  test(`kill -9 of the ${victim} after ${messages[place]![0]}: a yes is used once at most (KILL_SEED=${SEED})`, (t) =>
    play(t, victim, place))
