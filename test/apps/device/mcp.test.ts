// The daemon as an MCP server, spoken to by the client of the MCP project itself.
import { deepEqual, equal, ok, rejects } from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { startDaemon, type Any, type Daemon } from '#test/support/hardware/daemon.ts'

const CLI = join(import.meta.dirname, '../../../bin/countersign.js')

describe('the daemon as an MCP server', () => {
  let daemon: Daemon
  const client = new Client({ name: 'test', version: '1.0.0' })
  before(async () => {
    daemon = await startDaemon()
    const args = ['--disable-warning=ExperimentalWarning', CLI, 'device', 'mcp', '--socket', daemon.ready.socket]
    await client.connect(new StdioClientTransport({ command: process.execPath, args }))
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
})
