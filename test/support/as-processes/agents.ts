// A real server with agents of its own for each test, and the least that is needed to give them work and to wait for what they do.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readConfig, type Config } from '#apps/server/settings/config.ts'
import { createLog } from '#apps/server/log.ts'
import { startServer, type Server } from '#apps/server/server.ts'
import { SYSTEM } from '#kernel/declare/access.ts'
import { createClient, type Client } from '#sdk/index.ts'

export type Agent = { readonly id: string; readonly key: string; readonly key_id: string }
export type Stage = {
  readonly folder: string
  readonly socket: string
  readonly server: Server
  readonly owner: Client
  /** Registers an agent under a unique id, so that no other test takes its work. */
  agent(name?: string): Promise<Agent>
  system(operation: string, input: object): Promise<any>
  /** Assigns a task to the agent; returns its id. */
  assign(agent: Agent, goal?: string, more?: object): Promise<string>
  taskIn(task_id: string, state: string): Promise<any>
  /** The pending checkpoint of a task. */
  question(task_id: string): Promise<any>
  runsOf(task_id: string): Promise<any[]>
  /** Ends the server and starts it again, on the same port. */
  restart(): Promise<void>
  close(): Promise<void>
}

export function configOf(data: string, port = 0, more: readonly string[] = []): Config {
  const wish = readConfig(['--data', data, '--port', String(port), '--log', 'silent', '--quota', 'off', ...more], {})
  assert.equal(wish.kind, 'start')
  return (wish as { config: Config }).config
}
const start = (data: string, port = 0, more: readonly string[] = []): Promise<Server> =>
  startServer(configOf(data, port, more), { log: createLog('silent'), onFatal: (error) => assert.fail(String(error)) })

type Look<T> = () => T | null | undefined | false | Promise<T | null | undefined | false>
export async function until<T>(look: Look<T>, what: string, { everyMs = 5, lateMs = 20_000 } = {}): Promise<T> {
  const late = performance.now() + lateMs
  for (;;) {
    const found = await look()
    if (found) return found
    if (performance.now() > late) assert.fail(`never: ${what}`)
    await new Promise((done) => setTimeout(done, everyMs))
  }
}

export async function openStage(more: readonly string[] = []): Promise<Stage> {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-agent-'))
  let server = await start(folder, 0, more)
  const system = (operation: string, input: object): Promise<any> => server.kernel.call(operation, input, SYSTEM)
  const { key } = await system('identity/key.issue', { subject: 'user_owner' })
  const owner = createClient({ url: server.url, key })
  let count = 0
  return {
    folder,
    socket: join(folder, 'countersign.sock'),
    get server() {
      return server
    },
    owner,
    system,
    async agent(name = 'worker') {
      const id = `agent_${name}_${++count}`
      await system('identity/agent.add', { id, name, owner: 'user_owner' })
      const { key: secret, issued } = await system('identity/key.issue', { subject: id })
      return { id, key: secret, key_id: issued.id }
    },
    async assign(agent, goal = 'Fix the login bug', more = {}) {
      const { task } = await owner.collaboration.task.create({ spec: { goal }, ...more })
      await owner.collaboration.task.assign({ task_id: task.id, assignee: agent.id })
      return task.id
    },
    taskIn: (task_id, state) =>
      until(async () => {
        const { task } = await owner.collaboration.task.get({ task_id })
        return task.state === state && task
      }, `${task_id} is ${state}`),
    question: (task_id) =>
      until(async () => {
        const { items } = await owner.collaboration.checkpoint.list({ task_id })
        return items.findLast(({ state }) => state === 'pending')
      }, `a question of ${task_id}`),
    runsOf: async (task_id) => (await owner.delegation.run.list({ task_id })).items,
    async restart() {
      const { port } = server
      await server.stop()
      server = await start(folder, port, more)
    },
    async close() {
      await owner.close()
      await server.stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
