// A server and an agent, each a process that can be killed and restarted: the server with the same data and port, the agent as a new
// process. A proxy between them chooses the moment.
import assert from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createClient, type Client } from '#sdk/index.ts'
import { openProxy, type Moment, type Passing } from './crash-proxy.ts'
import { enroll, startServer } from '../as-processes/server.ts'

export type Kind = 'agent' | 'server' | 'both'
/** Where the flow is cut: who is killed at which moment of which call. */
export type Cut = { readonly kind: Kind; readonly moment: Moment; isAt(call: Passing, by: 'agent' | 'person'): boolean }
export type Lane = {
  readonly agent_id: string
  readonly person: Client
  readonly agent: Client
  readonly admin: Client
  arm(cut: Cut): void
  /** Resolves when the killed process is back; fails if none was killed. */
  recovered(): Promise<void>
  /** The lines that the agent wrote about a run. */
  effectsOf(run_id: string): string[]
  close(): Promise<void>
}

const PROGRAM = join(import.meta.dirname, '../as-processes/flow-agent.ts')
const AGENT = 'agent_devin'
const LEASE_MS = 500

async function startAgent(url: string, key: string, effects: string): Promise<ChildProcess> {
  const env = {
    PATH: process.env['PATH'],
    NODE_COMPILE_CACHE: join(import.meta.dirname, '../../../node_modules/.cache/node'),
    COUNTERSIGN_URL: url,
    COUNTERSIGN_KEY: key,
  }
  const child = spawn(process.execPath, [PROGRAM, AGENT, effects, String(LEASE_MS)], { env, stdio: ['ignore', 'pipe', 'inherit'] })
  await once(child.stdout, 'data')
  return child
}

async function kill(child: ChildProcess): Promise<void> {
  assert.equal(child.exitCode, null, 'the agent was still there')
  const gone = once(child, 'exit')
  child.kill('SIGKILL')
  await gone
}

export async function openLane(): Promise<Lane> {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-crash-agents-'))
  const [data, effects] = [join(folder, 'data'), join(folder, 'effects')]
  let server = await startServer(data)
  const keys = await enroll(server.port, server.adminKey)
  let cut: Cut | null = null
  let recovery: Promise<unknown> | null = null

  const proxy = await openProxy(server.port, async (moment, call) => {
    const by = call.bearer === keys.devin ? 'agent' : 'person'
    if (cut === null || cut.moment !== moment || !cut.isAt(call, by)) return true
    const { kind } = cut
    cut = null
    const isServer = kind !== 'agent'
    const isAgent = kind !== 'server'
    await Promise.all([isServer ? server.end('SIGKILL') : null, isAgent ? kill(child) : null])
    recovery = Promise.all([
      isServer ? startServer(data, server.port).then((next) => (server = next)) : null,
      isAgent ? startAgent(proxy.url, keys.devin, effects).then((next) => (child = next)) : null,
    ])
    recovery.catch(() => undefined)
    // The person lives: only with the server is what they said or would hear lost.
    return by === 'person' && !isServer
  })
  let child = await startAgent(proxy.url, keys.devin, effects)
  // On a busy machine a server restart might take longer than the default client timeout.
  const clientOf = (key: string): Client => createClient({ url: proxy.url, key, attempts: 100, waitMsMax: 200 })
  const clients = { person: clientOf(keys.alice), agent: clientOf(keys.devin), admin: clientOf(server.adminKey) }

  return {
    agent_id: AGENT,
    ...clients,
    arm: (next) => void (cut = next),
    async recovered() {
      // A change is seen by others before its answer is on its way, and ending a process takes a moment.
      for (let i = 0; recovery === null && i < 1_000; i++) await new Promise((done) => setTimeout(done, 10))
      assert.ok(recovery, 'somebody was killed')
      await recovery
      recovery = null
    },
    effectsOf: (run_id) => (existsSync(effects) ? readFileSync(effects, 'utf8').split('\n') : []).filter((line) => line.startsWith(run_id)),
    async close() {
      await recovery?.catch(() => undefined)
      await Promise.all(Object.values(clients).map((client) => client.close()))
      await Promise.all([child.exitCode === null && child.signalCode === null ? kill(child) : null, server.end('SIGKILL')])
      await proxy.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
