// Messages that pass through a gate, calls excluded: changes of lists, cancellation, questions of the upstream. Also the oldest revision that it speaks.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { startFixture, startOnSessions } from './conformance-server.ts'
import { callTool, eras, openGateWorld, textOf, until } from './gate-world.ts'

const BIN = join(import.meta.dirname, '../../bin/countersign.js')

test('A change of the list of tools reaches clients of both families, and the cancellation of a begun call its tool', async (t) => {
  const fixture = await startOnSessions(t)
  const world = await openGateWorld(t)
  await world.policy({ default: 'allow' })
  for (const era of eras) {
    const upstream = { url: fixture, headers: {} }
    const { client, close } = await world.connect('stdio', era, { upstream })
    let changes = 0
    client.setNotificationHandler('notifications/tools/list_changed', () => void changes++)
    if (era === 'modern') await client.listen({ toolsListChanged: true })
    await callTool(client, 'test_trigger_tool_change')
    await until(() => changes > 0)
    await close()

    const slow = await world.connect('stdio', era)
    const stop = new AbortController()
    const before = world.runs().length
    const cancelled = callTool(slow.client, 'slow', { until: 'cancelled', era }, { signal: stop.signal })
    await until(() => world.runs().length === before + 1)
    stop.abort()
    await assert.rejects(cancelled)
    await until(() => world.runs().at(-1)!.name === 'cancelled')
    await slow.close()
  }
})

test('Sampling of an upstream reaches the client where the gate is configured for it, and is refused elsewhere', async (t) => {
  const fixture = await startFixture(t)
  const world = await openGateWorld(t)
  await world.policy({ default: 'allow' })
  const upstream = { url: fixture, headers: {} }
  for (const passes of [[], ['sampling/createMessage']] as const) {
    const { client, close } = await world.connect('stdio', 'legacy', { upstream, passes, capabilities: { sampling: {} } })
    let asked = 0
    client.setRequestHandler('sampling/createMessage', () => {
      asked++
      return { model: 'none', role: 'assistant', content: { type: 'text', text: 'sampled' } }
    })
    const answer = await callTool(client, 'test_sampling', { prompt: 'Hello?' }).catch((error: Error) => error.message)
    assert.equal(asked, passes.length)
    assert.equal(/sampled/.test(JSON.stringify(answer)), passes.length === 1)
    await close()
  }
})

test('`countersign gate --url` puts a server behind an address behind the policy, with its variables and a client of 2025-06-18', async (t) => {
  const fixture = await startFixture(t)
  const world = await openGateWorld(t)
  const { task } = await world.call(world.keys.alice, 'collaboration/task.create', { spec: { goal: 'Shop' } })
  await world.call(world.keys.alice, 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_devin' })
  const config = `${world.data}.gate.json`
  writeFileSync(config, '{"redact":["/token"]}')
  await world.policy({ default: 'ask', rules: [{ id: 'text', tool: 'shop/test_simple_text', then: 'allow' }] })
  const client = new Client({ name: 'mcp', version: '1' }, { supportedProtocolVersions: ['2025-06-18'] })
  await client.connect(
    new StdioClientTransport({
      command: process.execPath,
      args: [BIN, 'gate', '--name', 'shop', '--url', fixture],
      env: {
        PATH: process.env['PATH']!,
        HOME: world.data,
        COUNTERSIGN_URL: world.url,
        COUNTERSIGN_KEY: world.keys.devin,
        COUNTERSIGN_TASK: task.id,
        COUNTERSIGN_GATE_HOLD: 'PT0.5S',
        COUNTERSIGN_GATE_CONFIG: config,
      },
    }),
  )
  assert.equal(client.getNegotiatedProtocolVersion(), '2025-06-18')
  assert.equal(textOf(await callTool(client, 'test_simple_text')), 'This is a simple text response for testing.')
  const waiting = await callTool(client, 'test_image_content', { token: 'hush', size: 1 })
  assert.deepEqual([waiting.isError, waiting._meta?.['countersign/state']], [true, 'waiting'], textOf(waiting))
  const [, asked] = await world.calls()
  assert.equal(asked.task_id, task.id)
  const { request } = await world.call(world.keys.alice, 'execution/request.get', { request_id: asked.request_id })
  assert.deepEqual(request.payload.details.arguments, { token: '[redacted]', size: 1 })
  await client.close()
})
