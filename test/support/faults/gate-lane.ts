// `countersign gate` in front of a tool and the server that it asks, each a process that can be killed, and a proxy between them that
// chooses the moment. The tool writes each run into a file.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { createClient, type Client as Countersign } from '#sdk/index.ts'
import { callTool, runsIn, toolServer, until, type Answer } from '#test/gate/gate-world.ts'
import { enroll, startServer, type ServerProcess } from '../as-processes/server.ts'
import { openProxy, type Moment } from './crash-proxy.ts'

const BIN = join(import.meta.dirname, '../../../bin/countersign.js')

export type Victim = 'gate' | 'server' | 'both'
/** `run`: the tool has begun to act. */
export type Point =
  | { readonly victim: Victim; readonly operation: string; readonly moment: Moment }
  | { readonly victim: Victim; readonly operation: 'run' }

export type GateLane = {
  readonly alice: Countersign
  arm(point: Point): void
  /** Resolves when the killed processes are back; fails if none was killed. */
  recovered(): Promise<void>
  /** Calls the tool through the gate; null: the gate ended before it answered. */
  call(args: Record<string, unknown>): Promise<Answer | null>
  /** Runs of the tool with these arguments. */
  runsOf(args: Record<string, unknown>): number
  close(): Promise<void>
}

type Gate = { readonly client: Client; kill(): Promise<void> }

async function openGate(url: string, key: string, file: string, home: string): Promise<Gate> {
  const { command, args } = toolServer(file)
  const words = [BIN, 'gate', '--name', 'files', '--', command, ...args]
  const env = { PATH: process.env['PATH']!, HOME: home, COUNTERSIGN_URL: url, COUNTERSIGN_KEY: key }
  const transport = new StdioClientTransport({ command: process.execPath, args: words, cwd: home, env, stderr: 'ignore' })
  const client = new Client({ name: 'test', version: '1' })
  await client.connect(transport)
  return {
    client,
    async kill() {
      const { pid } = transport
      if (pid === null) return
      const closed = Promise.withResolvers<void>()
      client.onclose = closed.resolve
      process.kill(pid, 'SIGKILL')
      await closed.promise
    },
  }
}

export async function openGateLane(): Promise<GateLane> {
  const home = mkdtempSync(join(tmpdir(), 'countersign-crash-gate-'))
  const [data, file] = [join(home, 'data'), join(home, 'runs')]
  let server: ServerProcess = await startServer(data)
  const keys = await enroll(server.port, server.adminKey)
  let armed: Point | null = null
  let recovery: Promise<unknown> | null = null
  let gate: Gate

  /** Whether the message that was under way still arrives. */
  async function kill({ victim }: Point): Promise<void> {
    armed = null
    const [isServer, isGate] = [victim !== 'gate', victim !== 'server']
    await Promise.all([isServer ? server.end('SIGKILL') : null, isGate ? gate.kill() : null])
    recovery = (async () => {
      if (isServer) server = await startServer(data, server.port)
      if (isGate) gate = await openGate(proxy.url, keys.devin, file, home)
    })()
    recovery.catch(() => undefined)
  }
  const proxy = await openProxy(server.port, async (moment, { operation, bearer }) => {
    if (armed === null || armed.operation !== operation || !('moment' in armed) || armed.moment !== moment) return true
    const { victim } = armed
    await kill(armed)
    // The person lives: their message is lost with the server alone.
    return bearer === keys.alice && victim === 'gate'
  })
  gate = await openGate(proxy.url, keys.devin, file, home)
  const runsOf: GateLane['runsOf'] = (args) => runsIn(file).filter((run) => JSON.stringify(run.args) === JSON.stringify(args)).length
  const alice = createClient({ url: proxy.url, key: keys.alice, attempts: 100, waitMsMax: 200 })
  return {
    alice,
    runsOf,
    arm: (point) => void (armed = point),
    async recovered() {
      await until(() => recovery !== null)
      await recovery
      recovery = null
    },
    async call(args) {
      const answer = callTool(gate.client, 'slow', args).catch(() => null)
      if (armed?.operation === 'run') {
        const point = armed
        void until(() => runsOf(args) === 1).then(() => kill(point))
      }
      return answer
    },
    async close() {
      assert.equal(armed, null, 'the process was killed')
      await gate.client.close()
      await alice.close()
      await proxy.close()
      await server.end('SIGKILL')
      rmSync(home, { recursive: true, force: true })
    },
  }
}
