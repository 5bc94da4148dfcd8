// A server with a gate over HTTP, gates on lines in front of it, official clients, and the runs that the tool itself has written down.
import assert from 'node:assert/strict'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import type { TestContext } from 'node:test'
import { Client, StreamableHTTPClientTransport, type JSONRPCMessage, type Transport } from '@modelcontextprotocol/client'
import { readConfig, type Config } from '#apps/server/settings/config.ts'
import { createLog } from '#apps/server/log.ts'
import { startServer, type Server } from '#apps/server/server.ts'
import { httpTransport } from '#sdk/transport/http.ts'
import { serveGate } from '../../src/gate/index.ts'
import { gatePort, type GatePort } from '../../src/gate/port.ts'
import { createCaller, enroll, type Keys } from '../support/as-processes/server.ts'
import { dataFolder } from '../support/as-processes/server-process.ts'

export const eras = ['modern', 'legacy'] as const
export type Era = (typeof eras)[number]
export const ways = ['stdio', 'http'] as const
export type Way = (typeof ways)[number]
export type Answer = { content: { text: string }[]; isError?: boolean; structuredContent?: unknown; _meta?: Record<string, unknown> }
export type Run = { readonly name: string; readonly args: Record<string, unknown>; readonly meta: string[]; readonly env: string[] }

const TOOLS = join(import.meta.dirname, 'tool-server.ts')
export const toolServer = (file: string, variant = ''): { command: string; args: string[]; env: Record<string, string> } => ({
  command: process.execPath,
  args: [TOOLS, file, variant],
  env: {},
})
export const pause = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms))
export async function until<T>(find: () => T | Promise<T>): Promise<NonNullable<T>> {
  for (;;) {
    const found = await find()
    if (found) return found
    await pause(5)
  }
}

export function runsIn(file: string): Run[] {
  if (!existsSync(file)) return []
  const lines = readFileSync(file, 'utf8').trim().split('\n')
  return lines.filter(Boolean).map((line) => JSON.parse(line) as Run)
}

/** The client's end of two pipes. */
export class Lines implements Transport {
  onclose?: () => void
  onmessage?: Transport['onmessage']
  readonly toGate = new PassThrough()
  readonly fromGate = new PassThrough()
  readonly raw: string[] = []
  start(): Promise<void> {
    let rest = ''
    this.fromGate.on('data', (part: Buffer) => {
      const lines = (rest + part.toString()).split('\n')
      rest = lines.pop()!
      for (const line of lines) {
        this.raw.push(line)
        this.onmessage?.(JSON.parse(line) as JSONRPCMessage)
      }
    })
    return Promise.resolve()
  }
  send(message: JSONRPCMessage): Promise<void> {
    this.toGate.write(`${JSON.stringify(message)}\n`)
    return Promise.resolve()
  }
  close(): Promise<void> {
    this.toGate.end()
    this.onclose?.()
    return Promise.resolve()
  }
}

export type ClientOptions = {
  readonly name?: string
  readonly holdMs?: number | null
  readonly key?: string
  readonly redact?: readonly string[]
  readonly passes?: readonly ('sampling/createMessage' | 'roots/list')[]
  readonly capabilities?: Record<string, unknown>
  readonly port?: (port: GatePort) => GatePort
  readonly upstream?: { command: string; args: string[]; env: Record<string, string> } | { url: string; headers: Record<string, string> }
}

const silent = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined }

export function officialClient(era: Era, { name = 'test', capabilities = {} }: ClientOptions = {}): Client {
  const client = new Client(
    { name, version: '1' },
    { capabilities: { elicitation: { form: {} }, ...capabilities }, versionNegotiation: { mode: era === 'modern' ? 'auto' : 'legacy' } },
  )
  client.setRequestHandler('elicitation/create', ({ params }) => ({ action: 'accept', content: { one: params.message } }))
  return client
}

export type GateWorld = {
  readonly server: Server
  readonly url: string
  readonly keys: Keys & { readonly owner: string }
  readonly data: string
  readonly file: string
  runs(): Run[]
  /** Calls an operation, and fails with its refusal. */
  call(key: string, operation: string, input?: object): Promise<any>
  policy(gate: object): Promise<void>
  /** The calls of devin, the oldest first. */
  calls(): Promise<any[]>
  /** Waits for a waiting call, and answers the newest question. */
  answer(result: 'approved' | 'rejected', reason?: string): Promise<string>
  connect(way: Way, era: Era, options?: ClientOptions): Promise<{ client: Client; lines: Lines | null; close(): Promise<void> }>
}

export async function openGateWorld(
  t: TestContext,
  entry: object = {},
  { variant = '', upstream }: { variant?: string; upstream?: object } = {},
): Promise<GateWorld> {
  const data = dataFolder(t)
  const file = `${data}.runs`
  const gatesFile = `${data}.gates.json`
  writeFileSync(gatesFile, JSON.stringify({ mcpServers: { files: { ...(upstream ?? toolServer(file, variant)), ...entry } } }))
  const args = ['--data', data, '--port', '0', '--log', 'silent', '--socket', 'off', '--gates', gatesFile, '--quota', 'off', '--web', 'off']
  const { config } = readConfig(args, {}) as { config: Config }
  const onFatal = (error: unknown): never => {
    throw error as Error
  }
  const server = await startServer(config, { log: createLog(config.log), onFatal })
  t.after(server.stop)
  return worldAt(t, server, { data, file })
}

export async function worldAt(t: TestContext, server: Server, { data, file }: { data: string; file: string }): Promise<GateWorld> {
  const admin = readFileSync(join(data, 'admin.key'), 'utf8').trim()
  const keys = await enroll(server.port, admin)
  const { call: send, close } = createCaller(server.port)
  t.after(close)
  const call: GateWorld['call'] = async (key, operation, input = {}) => {
    const { status, body } = await send(key, operation, input)
    if (status !== 200) throw Object.assign(new Error(`${operation}: ${body.error.code} ${body.error.message}`), { code: body.error.code })
    return body
  }
  const { key: owner } = await call(admin, 'identity/key.issue', { subject: 'user_owner', label: 'test' })
  const calls = async (): Promise<any[]> => (await call(keys.devin, 'gate/call.list', { limit: 100 })).items.toReversed()
  return {
    server,
    url: server.url,
    keys: { ...keys, owner },
    data,
    file,
    call,
    calls,
    runs: () => runsIn(file),
    policy: async (gate) =>
      void (await call(owner, 'execution/policy.set', { installation: true, gate: { version: 1, rules: [], ...gate } })),
    async answer(result, reason) {
      const waiting = await until(async () => (await calls()).findLast(({ state }) => state === 'waiting'))
      await call(keys.alice, 'execution/request.resolve', { request_id: waiting.request_id, result, ...(reason ? { reason } : {}) })
      return waiting.call_id
    },
    connect: (way, era, options = {}) =>
      way === 'http' ? overHttp(server.url, keys, era, options) : overLines(server.url, keys, file, era, options),
  }
}

async function overHttp(url: string, keys: Keys, era: Era, options: ClientOptions) {
  const client = officialClient(era, options)
  const transport = new StreamableHTTPClientTransport(new URL(`${url}/gate/files/mcp`), {
    requestInit: { headers: { authorization: `Bearer ${options.key ?? keys.devin}` } },
  })
  await client.connect(transport)
  assert.equal(client.getProtocolEra(), era)
  return { client, lines: null, close: () => client.close() }
}

async function overLines(url: string, keys: Keys, file: string, era: Era, options: ClientOptions) {
  const key = options.key ?? keys.devin
  const transport = httpTransport({ url, key, streams: 'events', attempts: 3, timeoutMs: 40_000 })
  const port = gatePort((operation, input, signal) => transport.call(operation, input, { signal }))
  const lines = new Lines()
  const serving = serveGate(
    {
      settings: {
        name: 'files',
        holdMs: options.holdMs ?? null,
        task_id: null,
        redact: options.redact ?? [],
        trusted: false,
        passes: options.passes ?? [],
        resultBytesMax: 1024 * 1024,
      },
      server: options.upstream ?? toolServer(file),
      port: options.port?.(port) ?? port,
      log: silent,
      version: '1',
      key: Buffer.alloc(32, 1),
      agent: key,
    },
    lines.toGate,
    lines.fromGate,
  )
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

export const callTool = (client: Client, name: string, args: Record<string, unknown> = {}, options = {}): Promise<Answer> =>
  client.callTool({ name, arguments: args }, options) as Promise<unknown> as Promise<Answer>
export const textOf = ({ content }: Answer): string => content[0]!.text
