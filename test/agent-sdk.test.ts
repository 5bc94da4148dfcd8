// Agents against a real server: calls that wait, runs that are taken, asked about, delegated, cancelled and steered, and processes
// that are killed in the middle of it.
import assert from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, test, type TestContext } from 'node:test'
import { DelegationFailed, Ended, Rejected, serve, type Handler, type Run, type ServeOptions } from 'countersign/agent'
import { readConfig, type Config } from '#apps/config.ts'
import { createLog } from '#apps/log.ts'
import { startServer, type Server } from '#apps/server.ts'
import { SYSTEM } from '#kernel/identity.ts'
import { limits } from '#kernel/limits.ts'
import { authenticateAgain } from '#protocols/identity/authenticate.ts'
import { createClient, CountersignError, type Client } from '#sdk/index.ts'
import { localTransport } from '#sdk/local.ts'
import { socketTransport } from '#sdk/jsonrpc.ts'

const folder = mkdtempSync(join(tmpdir(), 'countersign-agent-'))
const socket = join(folder, 'countersign.sock')
let server: Server
let owner: Client

function configOf(data: string, port = 0): Config {
  const wish = readConfig(['--data', data, '--port', String(port), '--log', 'silent', '--quota', 'off'], {})
  assert.equal(wish.kind, 'start')
  return (wish as { config: Config }).config
}
const start = (data = folder, port = 0): Promise<Server> =>
  startServer(configOf(data, port), { log: createLog('silent'), onFatal: (error) => assert.fail(String(error)) })

const asSystem = (operation: string, input: object): Promise<any> => server.kernel.call(operation, input, SYSTEM)
const keyFor = async (subject: string): Promise<string> => (await asSystem('identity/key.issue', { subject })).key
let agents = 0
/** An agent of its own for each test, so that nobody takes what is meant for another. */
async function newAgent(name = 'worker'): Promise<{ id: string; key: string; key_id: string }> {
  const id = `agent_${name}_${++agents}`
  await asSystem('identity/agent.add', { id, name, owner: 'user_owner' })
  const { key, id: key_id } = await asSystem('identity/key.issue', { subject: id }).then(({ key: secret, ...rest }) => ({
    key: secret as string,
    id: (rest.id ?? rest.key_id ?? rest.issued?.id ?? '') as string,
  }))
  return { id, key, key_id }
}

before(async () => {
  server = await start()
  owner = createClient({ url: server.url, key: await keyFor('user_owner') })
})
after(async () => {
  await owner.close()
  await server.stop()
  rmSync(folder, { recursive: true, force: true })
})

const fast = { leaseMs: 3_000, waitMs: 5_000, graceMs: 1_000 }
type Agent = { readonly id: string; readonly key: string }
function serving(t: TestContext, agent: Agent, handler: Handler<any>, options: ServeOptions = {}): ReturnType<typeof serve> {
  const own = serve(agent.id, handler, { url: server.url, key: agent.key, ...fast, onError: () => undefined, ...options })
  t.after(() => own.stop())
  return own
}
async function assign(agent: Agent, goal = 'Fix the login bug', more: object = {}): Promise<string> {
  const { task } = await owner.collaboration.task.create({ spec: { goal }, ...more })
  await owner.collaboration.task.assign({ task_id: task.id, assignee: agent.id })
  return task.id
}
async function until<T>(look: () => Promise<T | null | undefined | false> | T | null | undefined | false, what: string): Promise<T> {
  const late = performance.now() + 20_000
  for (;;) {
    const found = await look()
    if (found) return found
    if (performance.now() > late) assert.fail(`never: ${what}`)
    await new Promise((done) => setTimeout(done, 10))
  }
}
const taskIn = (task_id: string, state: string) =>
  until(async () => {
    const { task } = await owner.collaboration.task.get({ task_id })
    return task.state === state && task
  }, `${task_id} is ${state}`)
const question = (task_id: string) =>
  until(async () => {
    const { items } = await owner.collaboration.checkpoint.list({ task_id })
    return items.findLast(({ state }) => state === 'pending')
  }, 'a question')

test('smoke', async (t) => {
  const agent = await newAgent()
  const seen: string[] = []
  serving(t, agent, async (run: Run<{ goal: string }>) => {
    seen.push(run.input.goal)
    const { choice } = await run.ask.decide('Which?', ['red', 'blue'])
    await run.progress(`took ${choice}`, 50)
    await run.commit(`done in ${choice}`)
  })
  const task_id = await assign(agent)
  const { id } = await question(task_id)
  await owner.collaboration.checkpoint.resolve({ checkpoint_id: id, action: 'choose', choice: 'blue' })
  const task = await taskIn(task_id, 'review_ready')
  assert.deepEqual(seen, ['Fix the login bug'])
  assert.equal(task.artifacts.length, 1)
})
