// The daemon as an MCP server, spoken to by the client of the MCP project itself.
import { deepEqual, equal, ok, rejects } from 'node:assert/strict'
import { spawn, type ChildProcessByStdio } from 'node:child_process'
import { createInterface } from 'node:readline'
import type { Readable, Writable } from 'node:stream'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { startDaemon, type Any, type Daemon } from '#test/support/hardware/daemon.ts'

const CLI = join(import.meta.dirname, '../../../bin/countersign.js')

const message = (daemon: Daemon): string[] => [
  '--disable-warning=ExperimentalWarning',
  CLI,
  'device',
  'mcp',
  '--socket',
  daemon.ready.socket,
]

/** A client of MCP 2026-07-28 by hand: the library's own takes no tasks. */
class ByHand {
  readonly notes: Any[] = []
  private readonly waiting = new Map<number, (message: Any) => void>()
  private last = 0
  readonly process: ChildProcessByStdio<Writable, Readable, null>
  constructor(daemon: Daemon) {
    this.process = spawn(process.execPath, message(daemon), { stdio: ['pipe', 'pipe', 'inherit'] })
    createInterface({ input: this.process.stdout }).on('line', (line) => {
      const message: Any = JSON.parse(line)
      if (message.id === undefined) this.notes.push(message)
      else this.waiting.get(message.id)?.(message)
    })
  }
  ask(method: string, params: object, extensions: object, more: object = {}): Promise<Any> {
    const id = ++this.last
    const _meta = {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientInfo': { name: 'by-hand', version: '1.0.0' },
      'io.modelcontextprotocol/clientCapabilities': { extensions },
      ...more,
    }
    this.process.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params: { ...params, _meta } })}\n`)
    return new Promise((done) => this.waiting.set(id, done))
  }
}
const TASKS = { 'io.modelcontextprotocol/tasks': {} }
const pulse = (ms: number): object => ({ name: 'gpio.pulse', arguments: { line: 18, value: 1, ms } })

describe('the daemon as an MCP server', () => {
  let daemon: Daemon
  const client = new Client({ name: 'test', version: '1.0.0' })
  before(async () => {
    daemon = await startDaemon()
    await client.connect(new StdioClientTransport({ command: process.execPath, args: message(daemon) }))
  })
  after(async () => {
    await client.close()
    await daemon.end()
  })

  it('lists the tools with their schemas, hints of risk and the whole tool', async () => {
    const { tools } = await client.listTools()
    const set = tools.find(({ name }) => name === 'gpio.set')! as Any
    deepEqual(set.inputSchema.required, ['line', 'value'])
    deepEqual([set.annotations.readOnlyHint, set.annotations.destructiveHint], [false, false])
    equal(set._meta.hacp.risk_level, 2)
    equal(set._meta.hacp.flag, 'CAP_GPIO_RW')
    ok(tools.find(({ name }) => name === 'gpio.get')!.annotations!.readOnlyHint)
  })

  it('runs a tool as a task of one step', async () => {
    const answer = (await client.callTool({ name: 'gpio.set', arguments: { line: 17, value: 1 } })) as Any
    deepEqual(answer.structuredContent, { line: 17, value: 1 })
    const opened = daemon.lines().find((line) => line.event === 'session.open')
    deepEqual([opened.client_name, typeof opened.client_version], ['countersign-mcp', 'string'])
  })

  it('tells a step that failed from a call that was refused', async () => {
    const failed = (await client.callTool({ name: 'i2c.read', arguments: { bus: 1, addr: 9, len: 1 } })) as Any
    equal(failed.isError, true)
    equal(failed._meta.hacp.code, 'absent')
    await rejects(
      client.callTool({ name: 'gpio.set', arguments: { line: 'HEATER', value: 1 } }),
      (error: Any) => error.code === -32003 && error.data.code === 'risk_cap',
    )
    await rejects(
      client.callTool({ name: 'no.such', arguments: {} }),
      (error: Any) => error.code === -32002 && error.data.code === 'tool_not_found',
    )
  })

  it('gives a client that knows tasks a handle for what takes long, and the answer when it is asked for later', async () => {
    const other = new ByHand(daemon)
    const quick = await other.ask('tools/call', { name: 'gpio.get', arguments: { line: 17 } }, TASKS)
    deepEqual([quick.result.resultType, quick.result.structuredContent.line], ['complete', 17])
    const { result: handle } = await other.ask('tools/call', pulse(10_000), TASKS)
    deepEqual([handle.resultType, handle.status, handle.content], ['task', 'working', undefined])
    const show = async (): Promise<Any> => (await other.ask('tasks/get', { taskId: handle.taskId }, TASKS)).result
    equal((await show()).status, 'working')
    deepEqual((await other.ask('tasks/cancel', { taskId: handle.taskId }, TASKS)).error, undefined)
    let shown = await show()
    for (; shown.status === 'working'; shown = await show()) await new Promise((done) => setTimeout(done, shown.pollIntervalMs / 10))
    deepEqual([shown.status, shown.result], ['cancelled', undefined])
    const slow = { name: 'gpio.watch', arguments: { line: 27, timeout_ms: 2_300 } }
    const later = (await other.ask('tools/call', slow, TASKS)).result
    for (shown = later; shown.status === 'working';) {
      await new Promise((done) => setTimeout(done, 100))
      shown = (await other.ask('tasks/get', { taskId: later.taskId }, TASKS)).result
    }
    deepEqual([shown.status, shown.result.structuredContent], ['completed', { events: [], timed_out: true }])
    equal((await other.ask('tasks/get', { taskId: 'nobody' }, TASKS)).error.data.code, 'task_not_found')
    // Without the extension there is no handle, whatever it takes; progress is told to those who want it.
    const patient = await other.ask('tools/call', pulse(2_300), {}, { progressToken: 'p' })
    deepEqual([patient.result.resultType, patient.result.structuredContent.ms], ['complete', 2_300])
    const told = other.notes.filter(({ method, params }) => method === 'notifications/progress' && params.progressToken === 'p')
    ok(told.length >= 3, JSON.stringify(told))
    deepEqual(
      told.map(({ params }) => params.progress),
      told.map((_, i) => i + 1),
    )
    other.process.stdin.end()
  })
})
