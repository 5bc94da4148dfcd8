// The bytes of `/mcp`: access, sessions, tasks, and malformed messages.
import assert from 'node:assert/strict'
import { request as httpRequest } from 'node:http'
import { test } from 'node:test'
import { openMcpWorld, type McpWorld } from './mcp-world.ts'

const ENVELOPE = 'io.modelcontextprotocol'
type Reply = { readonly status: number; readonly headers: Headers; readonly json: any }

async function post(world: McpWorld, body: unknown, headers: Record<string, string> = {}): Promise<Reply> {
  const answer = await fetch(`${world.url}/mcp`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      authorization: `Bearer ${world.keys.devin}`,
      ...headers,
    },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
  const text = await answer.text()
  const data = /^data: (\{.*)$/m.exec(text)?.[1] ?? text
  return { status: answer.status, headers: answer.headers, json: data === '' ? null : JSON.parse(data) }
}

/** A request of 2026-07-28. */
function modern(
  world: McpWorld,
  method: string,
  params: Record<string, unknown>,
  extensions: object = {},
  name?: string,
  version = '2026-07-28',
): Promise<Reply> {
  const _meta = {
    [`${ENVELOPE}/protocolVersion`]: version,
    [`${ENVELOPE}/clientInfo`]: { name: 'raw', version: '1' },
    [`${ENVELOPE}/clientCapabilities`]: { extensions },
  }
  return post(
    world,
    { jsonrpc: '2.0', id: 1, method, params: { ...params, _meta } },
    {
      'mcp-protocol-version': version,
      'mcp-method': method,
      ...(name === undefined ? {} : { 'mcp-name': name }),
    },
  )
}

const initialize = (protocolVersion: string) => ({
  jsonrpc: '2.0',
  id: 0,
  method: 'initialize',
  params: { protocolVersion, capabilities: {}, clientInfo: { name: 'raw', version: '1' } },
})

test('A foreign Origin or Host is 403, a missing or unknown key 401, and another path or method says so', async (t) => {
  const world = await openMcpWorld(t)
  const list = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} }
  assert.equal((await post(world, list, { origin: 'https://evil.example' })).status, 403)
  const hostile = await new Promise<number>((done) => {
    const asked = httpRequest(`${world.url}/mcp`, {
      method: 'POST',
      headers: { host: 'evil.example', authorization: `Bearer ${world.keys.devin}` },
    })
    asked.on('response', (answer) => done(answer.resume().statusCode!))
    asked.end('{}')
  })
  assert.equal(hostile, 403)
  for (const authorization of ['', 'Bearer none', 'Basic x']) assert.equal((await post(world, list, { authorization })).status, 401)
  const put = await fetch(`${world.url}/mcp`, { method: 'PUT', headers: { authorization: `Bearer ${world.keys.devin}` } })
  assert.deepEqual([put.status, put.headers.get('allow')], [405, 'POST, GET, DELETE'])
  assert.equal((await fetch(`${world.url}/mcp/x`)).status, 404)
})

test('Batches, broken messages, 2 MB of arguments, unknown revisions, tools and sessions are refused in the form of MCP or HTTP', async (t) => {
  const world = await openMcpWorld(t)
  const list = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} }
  const session = (await post(world, initialize('2025-11-25'))).headers.get('mcp-session-id')!
  const own = { 'mcp-session-id': session }
  assert.equal((await post(world, '{"jsonrpc":"2.0","jsonrpc":"2.0"}', own)).status, 400)
  assert.equal((await post(world, '{', own)).status, 400)
  const batch = await post(world, [list, { ...list, id: 2 }], own)
  assert.deepEqual([batch.status, batch.json.error.code], [400, -32_600])
  const large = { ...list, method: 'tools/call', params: { name: 'task_get', arguments: { task_id: 'x'.repeat(2_000_000) } } }
  assert.equal((await post(world, large, own)).json.error.code, 'TOO_LARGE')
  assert.equal((await post(world, list, { 'mcp-session-id': 'forged' })).status, 404)
  // The session of another actor.
  assert.equal((await post(world, list, { ...own, authorization: `Bearer ${world.keys.alice}` })).status, 404)
  const unknown = await modern(world, 'tools/list', {}, {}, undefined, '2031-01-01')
  assert.equal(unknown.json.error.code, -32_022)
  const none = await modern(world, 'tools/call', { name: 'x'.repeat(5_000), arguments: {} }, {}, 'x'.repeat(5_000))
  assert.equal(none.json.error.code, -32_602)
  assert.ok(none.json.error.message.length < 300)
  for (const [method, params] of [
    ['resources/read', {}],
    ['resources/list', { cursor: 7 }],
    ['tools/list', { cursor: [] }],
    ['prompts/get', { name: 'hand_over', arguments: { goal: 7 } }],
    ['prompts/get', { name: 'hand_over', arguments: 'x' }],
  ] as const) {
    const { json } = await modern(world, method, params, {}, String((params as { name?: string }).name ?? ''))
    assert.equal(json.error.code, -32_602, `${method} ${JSON.stringify(json)}`)
  }
  const forged = await modern(
    world,
    'tools/call',
    { name: 'ask_decide', arguments: { question: 'Ship it?', options: ['yes', 'no'] }, requestState: 'e30.AAAA' },
    {},
    'ask_decide',
  )
  assert.equal(forged.json.error.code, -32_602)
  assert.equal((await world.requests()).length, 0)
})

test('The revisions with sessions are both served, and a request that is repeated in its session has one effect', async (t) => {
  const world = await openMcpWorld(t)
  for (const version of ['2025-11-25', '2025-06-18']) {
    const opened = await post(world, initialize(version))
    assert.equal(opened.json.result.protocolVersion, version)
    const own = { 'mcp-session-id': opened.headers.get('mcp-session-id')!, 'mcp-protocol-version': version }
    const create = {
      jsonrpc: '2.0',
      id: 7,
      method: 'tools/call',
      params: { name: 'request_create', arguments: { action: 'DECIDE', payload: { question: version, options: ['yes', 'no'] } } },
    }
    const [one, two] = [await post(world, create, own), await post(world, create, own)]
    assert.deepEqual(one.json.result.content, two.json.result.content)
    const ended = await fetch(`${world.url}/mcp`, { method: 'DELETE', headers: { authorization: `Bearer ${world.keys.devin}`, ...own } })
    assert.equal(ended.status, 200)
    assert.equal((await post(world, create, own)).status, 404)
  }
  assert.equal((await world.requests()).length, 2)
})

test('A client that declares tasks gets a handle, polls it until a person has answered, and cancels by it', async (t) => {
  const world = await openMcpWorld(t)
  const tasks = { 'io.modelcontextprotocol/tasks': {} }
  const asked = { name: 'ask_approve', arguments: { item: 'Deploy' } }
  const { result: handle } = (await modern(world, 'tools/call', asked, tasks, 'ask_approve')).json
  assert.deepEqual([handle.resultType, handle.status], ['task', 'working'])
  const { taskId } = handle
  const now = async (): Promise<any> => (await modern(world, 'tasks/get', { taskId }, tasks, taskId)).json.result
  assert.equal((await now()).status, 'working')
  assert.equal(await world.answer('approved'), taskId)
  for (const _ of [1, 2]) {
    const { status, result } = await now()
    assert.deepEqual([status, JSON.parse(result.content[0].text).result], ['completed', 'approved'])
  }
  const again = (await modern(world, 'tools/call', asked, tasks, 'ask_approve')).json.result.taskId
  assert.notEqual(again, taskId)
  await modern(world, 'tasks/cancel', { taskId: again }, tasks, again)
  assert.equal((await modern(world, 'tasks/get', { taskId: again }, tasks, again)).json.result.status, 'cancelled')
  const foreign = await modern(world, 'tasks/get', { taskId: 'hxp_01M7GMWX16CYD5TMA0423FKEE4' }, tasks, 'hxp_01M7GMWX16CYD5TMA0423FKEE4')
  assert.equal(foreign.json.error.code, -32_602)
})
