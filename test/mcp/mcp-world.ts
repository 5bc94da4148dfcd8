// A server with `/mcp`, and official clients of both families at it: over Streamable HTTP, and over lines in front of the same server.
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { StreamableHTTPClientTransport, type Client } from '@modelcontextprotocol/client'
import { createLog } from '#apps/server/log.ts'
import { readConfig, type Config } from '#apps/server/settings/config.ts'
import { startServer } from '#apps/server/server.ts'
import { protocols } from '#protocols/index.ts'
import { httpTransport } from '#sdk/transport/http.ts'
import { serveMcp } from '../../src/mcp/index.ts'
import { dataFolder } from '../support/as-processes/server-process.ts'
import { Lines, officialClient, worldAt, type Era, type GateWorld, type Way } from '../gate/gate-world.ts'

export { callTool, eras, until, ways, type Answer, type Era, type Way } from '../gate/gate-world.ts'

export type ClientOptions = { readonly key?: string; readonly name?: string; readonly capabilities?: Record<string, unknown> }
export type McpWorld = Omit<GateWorld, 'connect' | 'runs' | 'answer' | 'calls' | 'policy' | 'file'> & {
  connect(way: Way, era: Era, options?: ClientOptions): Promise<{ client: Client; lines: Lines | null; close(): Promise<void> }>
  /** Waits for the newest open question of devin, and answers it. */
  answer(result: unknown, reason?: string): Promise<string>
  /** The requests of devin, the newest first. */
  requests(): Promise<any[]>
}

export async function openMcpWorld(t: TestContext, more: readonly string[] = []): Promise<McpWorld> {
  const data = dataFolder(t)
  const args = ['--data', data, '--port', '0', '--log', 'silent', '--socket', 'off', '--quota', 'off', '--web', 'off', ...more]
  const { config } = readConfig(args, {}) as { config: Config }
  const onFatal = (error: unknown): never => {
    throw error as Error
  }
  const server = await startServer(config, { log: createLog(config.log), onFatal })
  t.after(server.stop)
  const world = await worldAt(t, server, { data, file: '' })
  const { url, keys, call } = world
  const requests = async (): Promise<any[]> => (await call(keys.devin, 'execution/request.list', { newest: true, limit: 100 })).items
  return {
    server,
    url,
    keys,
    data,
    call,
    requests,
    async answer(result, reason) {
      for (;;) {
        const open = (await requests()).find(({ status }) => status === 'pending' || status === 'assigned')
        if (!open) {
          await new Promise((done) => setTimeout(done, 5))
          continue
        }
        await call(keys.alice, 'execution/request.resolve', { request_id: open.id, result, ...(reason ? { reason } : {}) })
        return open.id as string
      }
    },
    connect: (way, era, options = {}) =>
      way === 'http' ? overHttp(url, options.key ?? keys.devin, era, options) : overLines(url, options.key ?? keys.devin, era, options),
  }
}

async function overHttp(url: string, key: string, era: Era, options: ClientOptions) {
  const client = officialClient(era, options)
  const requestInit = { headers: { authorization: `Bearer ${key}` } }
  await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`), { requestInit }))
  assert.equal(client.getProtocolEra(), era)
  return { client, lines: null, close: () => client.close() }
}

async function overLines(url: string, key: string, era: Era, options: ClientOptions) {
  const transport = httpTransport({ url, key, streams: 'events', attempts: 3, timeoutMs: 75_000 })
  const { id, kind } = (await transport.call('identity/me.get', {}, {})) as { id: string; kind: 'agent' | 'human' }
  const lines = new Lines()
  const caller = {
    id,
    kind,
    call: (operation: string, input: object, { signal, key: once }: { signal?: AbortSignal; key?: string } = {}) =>
      transport.call(operation, input, { signal, ...(once === undefined ? {} : { idempotencyKey: once }) }),
  }
  const log = { debug: () => undefined }
  const serving = serveMcp({ protocols, version: '1', caller, log }, lines.toGate, lines.fromGate)
  const client = officialClient(era, options)
  await client.connect(lines)
  assert.equal(client.getProtocolEra(), era)
  const close = async (): Promise<void> => {
    await client.close()
    await transport.close()
    await serving
  }
  return { client, lines, close }
}
