// Gates of the server: both families of official clients over Streamable HTTP, in front of a real program.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readGates } from '#apps/server/settings/gates.ts'
import { StartError } from '#apps/server/start-error.ts'
import { callTool, eras, openGateWorld, until } from './gate-world.ts'

test('A gate of the server lists, allows, asks and denies for clients of both families', async (t) => {
  const world = await openGateWorld(t)
  await world.policy({
    default: 'ask',
    rules: [
      { id: 'images', tool: 'files/image', then: 'allow' },
      { id: 'never', tool: 'files/slow', then: 'deny', reason: 'too slow' },
    ],
  })
  for (const era of eras) {
    const { client, close } = await world.connect('http', era)
    const before = world.runs().length
    const { tools } = await client.listTools()
    assert.ok(tools.some(({ name }) => name === 'countersign_await'))
    assert.ok(!tools.some(({ name }) => ['slow', 'twice'].includes(name)))
    assert.deepEqual((await client.readResource({ uri: 'test://one' })).contents, [{ uri: 'test://one', text: 'a resource' }])
    assert.deepEqual((await callTool(client, 'image')).content, [{ type: 'image', data: 'aGk=', mimeType: 'image/png' }])
    const denied = await callTool(client, 'slow')
    assert.deepEqual([denied.isError, denied._meta?.['countersign/rule']], [true, 'never'])
    const seen: string[] = []
    const pending = callTool(client, 'echo', { era }, { onprogress: ({ message }: { message?: string }) => seen.push(message ?? '') })
    await world.answer('approved')
    assert.equal((await pending).content[0]!.text, `echo {"era":"${era}"}`)
    assert.match(seen[0]!, /^waiting for approval hxp_/)
    assert.equal(world.runs().length, before + 2)
    await close()
  }
})

test('A question of the upstream reaches clients of both families through a gate of the server', async (t) => {
  const world = await openGateWorld(t)
  await world.policy({ default: 'allow' })
  for (const era of eras) {
    const { client, close } = await world.connect('http', era)
    assert.match((await callTool(client, 'ask')).content[0]!.text, /\[files\] Which one\?/)
    await close()
  }
  assert.equal(world.runs().length, 2)
})

test('A gate of the server takes keys of agents alone, and no foreign Origin or Host', async (t) => {
  const world = await openGateWorld(t)
  const ask = async (headers: Record<string, string>, path = '/gate/files/mcp', method = 'POST'): Promise<number> => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} })
    const answer = await fetch(`${world.url}${path}`, {
      method,
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', ...headers },
      ...(method === 'POST' ? { body } : {}),
    })
    await answer.body?.cancel()
    return answer.status
  }
  const own = { authorization: `Bearer ${world.keys.devin}` }
  assert.equal(await ask({}), 401)
  assert.equal(await ask({ authorization: 'Bearer csk_nothing' }), 401)
  assert.equal(await ask({ authorization: `Bearer ${world.keys.alice}` }), 403)
  assert.equal(await ask({ ...own, origin: 'https://evil.example' }), 403)
  assert.equal(await ask(own, '/gate/other/mcp'), 404)
  assert.equal(await ask(own, '/gate/files'), 404)
  assert.equal(await ask(own, '/gate/files/mcp', 'PUT'), 405)
  assert.equal(await ask({ ...own, 'mcp-session-id': 'forgotten' }), 404)
  assert.equal(world.runs().length, 0)
})

test('A client of a gate of the server that goes away leaves the question, and the card says so', async (t) => {
  const world = await openGateWorld(t)
  for (const era of eras) {
    const { client, close } = await world.connect('http', era)
    const stop = new AbortController()
    const pending = callTool(client, 'echo', { era }, { signal: stop.signal })
    const [call] = await until(async () => {
      const waiting = (await world.calls()).filter(({ state }) => state === 'waiting')
      return waiting.length > 0 ? waiting : null
    })
    stop.abort()
    await assert.rejects(pending)
    const left = await until(async () => {
      const view = await world.call(world.keys.alice, 'gate/call.get', { call_id: call.call_id })
      return view.unattended ? view : null
    })
    assert.equal(left.state, 'waiting')
    const again = callTool(client, 'echo', { era })
    await until(async () => !(await world.call(world.keys.alice, 'gate/call.get', { call_id: call.call_id })).unattended)
    await world.answer('approved')
    assert.equal((await again).isError, undefined)
    await close()
  }
  assert.equal(world.runs().length, 2)
})

test('A file of gates that is not understood ends the start with a sentence', (t) => {
  const path = `${t.name.replaceAll(/\W/g, '')}.json`
  const file = join(tmpdir(), `${process.pid}-${path}`)
  const refused = (value: object, message: RegExp): void => {
    writeFileSync(file, JSON.stringify(value))
    assert.throws(
      () => readGates(file, {}),
      (error: Error) => error instanceof StartError && message.test(error.message),
    )
  }
  refused({ servers: {} }, /unknown setting "servers"/)
  refused({ mcpServers: { a: { command: 'x', permissions: {} } } }, /mcpServers\.a\.permissions: a gate has none/)
  refused({ mcpServers: { a: { command: 'x', redact: ['token'] } } }, /mcpServers\.a: redact/)
  refused({ mcpServers: { a: { comand: 'x' } } }, /unknown setting mcpServers\.a\.comand/)
  refused({ mcpServers: { a: { command: 'x', results: { max_bytes: 0 } } } }, /results\.max_bytes/)
  refused({ mcpServers: { cursor: { command: 'x' } } }, /mcpServers\.cursor has the name of an agent/)
  refused({ mcpServers: { A: { command: 'x' } } }, /"A" is not a name/)
  rmSync(file)
})

test('Rules for resources and prompts decide about reads, and what no rule names is read and recorded', async (t) => {
  const world = await openGateWorld(t)
  await world.policy({
    default: 'ask',
    rules: [
      { id: 'secret', resource: 'files/test://one', then: 'deny', reason: 'it is private' },
      { id: 'hello', prompt: 'files/hel*', then: 'ask' },
    ],
  })
  for (const era of eras) {
    const { client, close } = await world.connect('http', era)
    await assert.rejects(client.readResource({ uri: 'test://one' }), /NOT RUN[^]*it is private/)
    assert.deepEqual((await client.readResource({ uri: 'test://two' })).contents, [{ uri: 'test://two', text: 'a resource' }])
    const asked = client.getPrompt({ name: 'hello' })
    await world.answer('approved')
    assert.equal((await asked).messages.length, 1)
    await close()
  }
  await until(async () => (await world.calls()).filter(({ state }) => state === 'ended').length === 4)
})

test("The inspector's command line lists and calls the tools of a gate", async (t) => {
  const world = await openGateWorld(t)
  await world.policy({ default: 'allow' })
  const inspector = join(import.meta.dirname, '../../node_modules/.bin/mcp-inspector')
  const ask = async (...more: string[]): Promise<any> => {
    const to = [`${world.url}/gate/files/mcp`, '--transport', 'http', '--header', `Authorization: Bearer ${world.keys.devin}`]
    const { stdout } = await promisify(execFile)(process.execPath, [inspector, '--cli', ...to, ...more])
    return JSON.parse(stdout)
  }
  assert.ok((await ask('--method', 'tools/list')).tools.some(({ name }: { name: string }) => name === 'echo'))
  const answer = await ask('--method', 'tools/call', '--tool-name', 'echo', '--tool-arg', 'a=1')
  assert.equal(answer.content[0].text, 'echo {"a":1}')
  assert.equal(world.runs().length, 1)
})
