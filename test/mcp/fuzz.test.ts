// `/mcp` with messages that no honest client sends: an answer in the form of MCP or HTTP to each, nothing that is refused changes anything,
// and the server goes on.
import assert from 'node:assert/strict'
import { Agent } from 'node:http'
import { test } from 'node:test'
import { mcp } from '#bridges/mcp/index.ts'
import { mcpOverHttp } from '../../src/mcp/http.ts'
import { toolNameOf, toolsOf } from '../../src/mcp/tools.ts'
import { mutated, numbers, type Pick } from '../support/laws/mutations.ts'
import { protocols, stateHash } from '../support/in-process/world.ts'
import { send } from '../support/over-sockets/http-client.ts'
import { hxpWorld } from '../support/over-sockets/hxp-world.ts'

const CASES = process.env['COUNTERSIGN_TEST_CHOICE'] === 'all' ? 200_000 : 1_000
const AT_ONCE = 16
const SEED = Number(process.env['FUZZ_SEED'] ?? Math.floor(Math.random() * 2 ** 31))
const STATUSES = [200, 202, 400, 401, 404, 406, 413, 415]
/** Tools that only read: a message that is honest after all changes nothing either. */
const READING = ['task.get', 'task.list', 'run.get', 'artifact.get', 'inbox.list', 'me.get', 'agent.card']

const name = (word: string): string => `io.modelcontextprotocol/${word}`
const _meta = {
  [name('protocolVersion')]: '2026-07-28',
  [name('clientInfo')]: { name: 'fuzz', version: '1' },
  [name('clientCapabilities')]: { extensions: {} },
}
const tools = toolsOf(protocols)
const reading = READING.map(toolNameOf).filter((tool) => tools.has(tool))

/** What an honest client of either era sends. */
const shapes: readonly (readonly [method: string, params: Record<string, unknown>])[] = [
  ['tools/list', {}],
  ...reading.map((tool): [string, Record<string, unknown>] => [
    'tools/call',
    { name: tool, arguments: { task_id: 'task_none', limit: 3 } },
  ]),
  ['resources/list', {}],
  ['resources/read', { uri: 'countersign://task/task_none' }],
  ['prompts/list', {}],
  ['prompts/get', { name: 'hand_over', arguments: { goal: 'x' } }],
  ['server/discover', {}],
  ['tasks/get', { taskId: 'hxp_none' }],
  ['initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'fuzz', version: '1' } }],
  ['ping', {}],
  ['notifications/initialized', {}],
]

const printable = (bytes: Buffer): string => bytes.toString('latin1').replaceAll(/[^!-~]/g, '_')
const versions = ['2026-07-28', '2025-11-25', '2031-01-01', 'x']
function headersFrom(method: string, params: Record<string, unknown>, pick: Pick): Record<string, string> {
  const target = params['name'] ?? params['uri'] ?? params['taskId']
  const honest: Record<string, string> = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': '2026-07-28',
    'mcp-method': method,
    ...(typeof target === 'string' ? { 'mcp-name': target } : {}),
  }
  const kind = pick(12)
  if (kind === 0) return { ...honest, 'mcp-protocol-version': versions[pick(versions.length)]! }
  if (kind === 1) return { ...honest, 'mcp-method': printable(mutated(method, pick)) }
  if (kind === 2) return { ...honest, 'mcp-session-id': 'forged' }
  if (kind === 3) return { ...honest, accept: 'text/html' }
  if (kind === 4) return { ...honest, 'content-type': 'text/plain' }
  return honest
}

/** An error of JSON-RPC, or one of HTTP in the form of every other door. */
function assertFormed(json: any, where: string): void {
  for (const answer of [json].flat()) {
    const { error } = answer ?? {}
    if (error === undefined) {
      assert.ok(answer?.result !== undefined, where)
      continue
    }
    assert.ok(typeof error.code === 'number' || /^[A-Z_]+$/.test(error.code), where)
    assert.ok(typeof error.message === 'string' && error.message !== '' && error.message.length < 2_000, where)
    // The official server answers wrong params of its own `initialize` so.
    assert.ok(error.code !== -32_603 || where.includes('"initialize"'), where)
  }
}

test(`${CASES} messages of every kind get an answer in the form of MCP, and none changes anything (seed ${SEED})`, async (t) => {
  const log = { debug: () => undefined, error: (fields: object) => assert.fail(String((fields as { err?: unknown }).err)) }
  const bridge = mcp({ origin: null, open: () => Promise.resolve(mcpOverHttp({ protocols, version: '1', log })) })
  const world = await hxpWorld(t, { http: { bridges: [bridge] } })
  const agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE })
  t.after(() => agent.destroy())
  const pick = numbers(SEED)
  const before = await stateHash(world.store)
  const seen = new Map<string, number>()

  async function one(): Promise<void> {
    const [method, params] = shapes[pick(shapes.length)]!
    const text = JSON.stringify({ jsonrpc: '2.0', id: pick(9), method, params: { ...params, _meta } })
    const kind = pick(8)
    const body = kind < 2 ? Buffer.from(text) : kind === 2 ? Buffer.from(`[${text},${text}]`) : mutated(text, pick)
    const as = (['devin', 'alice', 'spy'] as const)[pick(3)]!
    const headers = { ...headersFrom(method, params, pick), authorization: `Bearer ${world.keys[as]}` }
    const answer = await send(world.port, '/mcp', { headers, body, agent })
    const where = `${JSON.stringify(headers)} ${body.toString('latin1').slice(0, 400)} (seed ${SEED}): ${answer.status} ${answer.text.slice(0, 400)}`
    assert.ok(STATUSES.includes(answer.status), where)
    const data = /^data: (\{.*)$/m.exec(answer.text)?.[1]
    const json = data === undefined ? answer.json : JSON.parse(data)
    if (answer.text !== '') assertFormed(json, where)
    const code = String(json?.error?.code ?? (answer.text === '' ? 'none' : 'OK'))
    seen.set(code, (seen.get(code) ?? 0) + 1)
  }
  for (let done = 0; done < CASES; done += AT_ONCE) await Promise.all(Array.from({ length: AT_ONCE }, one))
  for (const code of ['OK', 'INVALID_REQUEST', '-32600', '-32602', '-32601', '-32020'])
    assert.ok((seen.get(code) ?? 0) > 0, `${code} was met: ${JSON.stringify([...seen])} (seed ${SEED})`)
  assert.equal(await stateHash(world.store), before)
  assert.deepEqual(world.logged, [])
})
