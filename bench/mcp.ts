// The cost of our MCP server: `tools/call` of a read through `/mcp`, in turn with the same operation over HTTP, and the memory of idle sessions.
// The server is a process of its own.
import { mkdtempSync, rmSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createCaller, enroll, startServer } from '#test/support/as-processes/server.ts'
import { cpuSecondsOf, median, times, usageOf, type Bench, type Row } from './report.ts'

const CALLS = Number(process.env['BENCH_CALLS'] ?? 3_000)
const ROUNDS = 5
const AT_ONCE = 16
const SESSIONS = 1_000
/** An actor has at most 256 sessions. */
const ACTORS = 4
const [RATIO_MAX, IDLE_MB_MAX] = [1.5, 100]

type Ask = (headers: Record<string, string>, path: string, body: object) => Promise<{ status: number; session: string }>

export const mcp: Bench = {
  name: 'mcp',
  message: `tools/call of a read through /mcp against the same operation over HTTP, and ${SESSIONS.toLocaleString('en')} idle sessions`,
  async run(say) {
    const folder = mkdtempSync(join(process.env['BENCH_FOLDER'] ?? tmpdir(), 'countersign-mcp-'))
    const server = await startServer(join(folder, 'data'))
    const { call, close } = createCaller(server.port)
    const agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE })
    try {
      const keys = await enroll(server.port, server.adminKey)
      const { task } = (await call(keys.alice, 'collaboration/task.create', { spec: { goal: 'Fix the login bug' } })).body
      const { task: assigned } = (await call(keys.alice, 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_devin' })).body
      const ask: Ask = (headers, path, body) => post(agent, server.port, { authorization: `Bearer ${keys.devin}`, ...headers }, path, body)
      const rows = await compare(ask, server.pid, assigned.id as string, say)
      const others: string[] = []
      for (let i = 0; i < ACTORS; i++) {
        await call(server.adminKey, 'identity/agent.add', { id: `agent_idle_${i}`, name: 'Idle', owner: 'user_owner' })
        others.push((await call(server.adminKey, 'identity/key.issue', { subject: `agent_idle_${i}` })).body.key as string)
      }
      return [...rows, await idle(ask, others, server.pid, say)]
    } finally {
      close()
      agent.destroy()
      await server.end('SIGTERM')
      rmSync(folder, { recursive: true, force: true })
    }
  },
}

const ENVELOPE = 'io.modelcontextprotocol'
const ACCEPT = { accept: 'application/json, text/event-stream' }
async function compare(ask: Ask, pid: number, task_id: string, say: (line: string) => void): Promise<Row[]> {
  const _meta = {
    [`${ENVELOPE}/protocolVersion`]: '2026-07-28',
    [`${ENVELOPE}/clientInfo`]: { name: 'bench', version: '1' },
    [`${ENVELOPE}/clientCapabilities`]: {},
  }
  const headers = { ...ACCEPT, 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': 'task_get' }
  const params = { name: 'task_get', arguments: { task_id }, _meta }
  const ways = {
    http: () => ask({}, '/v1/collaboration/task.get', { task_id }),
    mcp: () => ask(headers, '/mcp', { jsonrpc: '2.0', id: 1, method: 'tools/call', params }),
  }
  const spent: Record<keyof typeof ways, number[]> = { http: [], mcp: [] }
  for (let round = 0; round <= ROUNDS; round++)
    for (const way of ['http', 'mcp'] as const) {
      const us = await cpuOf(pid, ways[way])
      // The first round warms both up.
      if (round > 0) spent[way].push(us)
      say(`round ${round} of ${ROUNDS}: ${Math.round(us)} us CPU over ${way}`)
    }
  const ratio = median(spent.mcp) / median(spent.http)
  return [
    { what: 'task.get over HTTP', value: `${Math.round(median(spent.http))} us CPU` },
    {
      what: 'tools/call of task_get through /mcp',
      value: `${Math.round(median(spent.mcp))} us CPU`,
      more: times(ratio),
      goal: { message: `<= ${RATIO_MAX}x`, met: ratio <= RATIO_MAX },
    },
  ]
}

/** CPU time of the server for one call, in microseconds. */
async function cpuOf(pid: number, act: () => Promise<{ status: number }>): Promise<number> {
  const before = cpuSecondsOf([pid]) ?? Number.NaN
  for (let done = 0; done < CALLS; done += AT_ONCE) {
    const answers = await Promise.all(Array.from({ length: AT_ONCE }, act))
    const bad = answers.find(({ status }) => status !== 200)
    if (bad) throw new Error(`a call was answered with ${bad.status}`)
  }
  return (((cpuSecondsOf([pid]) ?? Number.NaN) - before) * 1e6) / CALLS
}

async function idle(ask: Ask, keys: readonly string[], pid: number, say: (line: string) => void): Promise<Row> {
  const open = (id: number) =>
    ask({ ...ACCEPT, authorization: `Bearer ${keys[id % keys.length]}` }, '/mcp', {
      jsonrpc: '2.0',
      id,
      method: 'initialize',
      params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'bench', version: '1' } },
    })
  const before = usageOf(pid)?.rssMb ?? Number.NaN
  const sessions = new Set<string>()
  for (let i = 0; i < SESSIONS; i++) sessions.add((await open(i)).session)
  say(`${sessions.size} sessions are open`)
  const mb = (usageOf(pid)?.rssMb ?? Number.NaN) - before
  return {
    what: `the memory of ${SESSIONS.toLocaleString('en')} idle sessions`,
    value: `${mb.toFixed(0)} MB`,
    goal: { message: `< ${IDLE_MB_MAX} MB`, met: mb < IDLE_MB_MAX },
  }
}

function post(agent: Agent, port: number, headers: Record<string, string>, path: string, body: object): ReturnType<Ask> {
  const { promise, resolve, reject } = Promise.withResolvers<Awaited<ReturnType<Ask>>>()
  const options = { agent, port, host: '127.0.0.1', method: 'POST', path, headers: { 'content-type': 'application/json', ...headers } }
  const sent = request(options, (answer) => {
    answer.resume()
    answer.on('end', () => resolve({ status: answer.statusCode!, session: String(answer.headers['mcp-session-id']) }))
  })
  sent.on('error', reject)
  sent.end(JSON.stringify(body))
  return promise
}
