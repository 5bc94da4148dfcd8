// The rows of the hardware draft as one book that all files of tests write into, and the daemon that they speak to: one process with a policy for
// each thing to be shown.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import { requirements } from '../support/laws/requirements.ts'
import { clientAt, startDaemon, type Any, type Client, type Daemon } from '../support/hardware/daemon.ts'
import { hardwareRows } from './hacp-hardware.ts'

export const hardware = requirements('HACP hardware', hardwareRows)

export type Bench = {
  readonly folder: string
  readonly daemon: Daemon
  readonly client: Client
  readonly session: string
  /** The error of a submission, or null. */
  refused(steps: readonly object[], more?: object, params?: object): Promise<Any>
  run(steps: readonly object[], more?: object): Promise<Any>
  /** A client of a policy with a session of its own. */
  as(policy: string): Promise<{ readonly client: Client; readonly session: string }>
}

const PLUGIN = `
const schema = { type: 'object', properties: {} }
export const tools = [
  { name: 'com.acme.lamp.read', risk_level: 0, description: 'Reads a lamp.', params_schema: schema, execute: () => ({ on: 1 }) },
  { name: 'com.acme.lamp.read.v2', version: 2, risk_level: 0, description: 'Reads a lamp.', params_schema: schema, execute: () => ({ on: true }) },
  { name: 'com.acme.lamp.stuck', risk_level: 0, timeout_ms: 200, description: 'Never ends.', params_schema: schema,
    execute: (_, { signal }) => new Promise((done) => signal.addEventListener('abort', () => done({}))) },
  { name: 'com.acme.mic.record', risk_level: 2, personal: true, description: 'Records.', params_schema: schema, execute: () => ({ data: '' }) },
]`

async function made(): Promise<Bench> {
  const folder = mkdtempSync(join(tmpdir(), 'countersign-conformance-'))
  mkdirSync(join(folder, 'files'))
  mkdirSync(join(folder, 'plugins'))
  writeFileSync(join(folder, 'files/a'), Buffer.of(0, 255, 10))
  writeFileSync(join(folder, 'plugins/acme.js'), PLUGIN)
  const usual = ['hw.*', 'gpio.*', 'i2c.*', 'uart.*', 'file.*', 'sys.*', 'sensor.*', 'com.acme.*']
  const files = { read: [join(folder, 'files')], write: [join(folder, 'files')] }
  const daemon = await startDaemon({
    options: ['--plugins', join(folder, 'plugins')],
    policies: {
      policies: {
        default: { tools: usual, ...files },
        relaxed: { socket: 'relaxed.sock', tools: ['gpio.*', 'proc.*'], max_risk_level: 1, relax_to: 3 },
        brief: { socket: 'brief.sock', tools: ['gpio.*', 'i2c.*'], idle_seconds: 1 },
        small: { socket: 'small.sock', tools: ['i2c.*'], queue: 1, concurrent: 1 },
        slow: { socket: 'slow.sock', tools: ['gpio.*'], rate: { 'gpio.get': { per_second: 0.01, burst: 2 } } },
        named: { socket: 'named.sock', tools: ['com.acme.mic.record'] },
      },
      proc: { programs: { date: ['/bin/date', '-u'] } },
    },
  })
  const client = await clientAt(daemon.ready.socket)
  const session = await client.open()
  const clients: Client[] = [client]
  const submit = (steps: readonly object[], more: object, params: object): Promise<Any> =>
    client.call('task.submit', { session_id: session, task: { intent: 'a test', steps, ...more }, ...params })
  undo.push(async () => {
    for (const one of clients) one.close()
    await daemon.end()
    rmSync(folder, { recursive: true, force: true })
  })
  return {
    folder,
    daemon,
    client,
    session,
    refused: async (steps, more = {}, params = {}) => (await submit(steps, more, params)).error ?? null,
    run: (steps, more) => client.run(session, steps, more),
    async as(policy) {
      const one = await clientAt(daemon.ready.sockets[policy]!)
      clients.push(one)
      return { client: one, session: await one.open() }
    },
  }
}

const undo: (() => Promise<void>)[] = []
after(async () => {
  for (const step of undo) await step()
})
let there: Promise<Bench> | undefined
export const bench = (): Promise<Bench> => (there ??= made())
export const set = (line: number | string, value: number): object => ({ tool: 'gpio.set', args: { line, value } })
export const get = (line: number | string): object => ({ tool: 'gpio.get', args: { line } })
/** A transaction of 800 ms. */
export const slow = { tool: 'i2c.read', args: { bus: 1, addr: '0x51', len: 1 } }
export const sleep = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms))
