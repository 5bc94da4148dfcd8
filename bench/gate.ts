// An allowed call through `countersign gate`, beside the same call without it plus two durable operations; a tool of 100 ms; and the memory
// of a gate with 1,000 waiting calls. Gate, server and tool are processes of their own; rounds alternate.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { createCaller, enroll, spawnServer } from '#test/support/as-processes/server.ts'
import { median, ms, times, usageOf, type Bench, type Row } from './report.ts'

const ROOT = join(import.meta.dirname, '..')
const TOOLS = join(ROOT, 'test/gate/tool-server.ts')
const CALLS = 60
const ROUNDS = 3
const WAITING = 1_000
const [RATIO_MAX, SLOW_RATIO_MAX, WAITING_MB_MAX] = [1.3, 1.1, 150]

type Connected = { readonly client: Client; readonly pid: number }
async function connect(name: string, command: string, args: string[], env: Record<string, string> = {}): Promise<Connected> {
  const client = new Client({ name, version: '1' })
  const transport = new StdioClientTransport({ command, args, env: { PATH: process.env['PATH']!, ...env }, stderr: 'ignore' })
  await client.connect(transport)
  return { client, pid: transport.pid! }
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now()
  await work()
  return performance.now() - began
}

async function medianOf(count: number, work: (i: number) => Promise<unknown>): Promise<number> {
  const spans: number[] = []
  for (let i = 0; i < count; i++) spans.push(await timed(() => work(i)))
  return median(spans)
}

export const gate: Bench = {
  name: 'gate',
  message: 'an allowed call through a gate beside the call itself, and 1,000 waiting calls',
  async run(say) {
    const folder = mkdtempSync(join(process.env['BENCH_FOLDER'] ?? tmpdir(), 'countersign-bench-'))
    const data = join(folder, 'data')
    const server = await spawnServer([join(ROOT, 'src/apps/server/main.ts')], {
      COUNTERSIGN_DATA: data,
      COUNTERSIGN_PORT: '0',
      COUNTERSIGN_LOG: 'error',
      COUNTERSIGN_QUOTA: 'off',
      COUNTERSIGN_REQUESTS_OPEN: 'off',
      COUNTERSIGN_REQUESTS_PER_MINUTE: 'off',
    })
    const admin = readFileSync(join(data, 'admin.key'), 'utf8').trim()
    const { devin } = await enroll(server.port, admin)
    const { call, close } = createCaller(server.port)
    const { key: owner } = (await call(admin, 'identity/key.issue', { subject: 'user_owner' })).body
    const set = (rules: object): Promise<unknown> =>
      call(owner, 'execution/policy.set', { installation: true, gate: { version: 1, rules: [], ...rules } })
    const env = { COUNTERSIGN_URL: `http://127.0.0.1:${server.port}`, COUNTERSIGN_KEY: devin, HOME: folder }
    const gated = (client: string): Promise<Connected> =>
      connect(client, join(ROOT, 'bin/countersign'), ['gate', '--name', 'tools', '--', process.execPath, TOOLS], env)
    const direct = await connect('bench', process.execPath, [TOOLS])
    const through = await gated('bench')
    try {
      await set({ default: 'allow' })
      const rows = await compare({ direct, through, durable: (i) => call(devin, 'gate/call.propose', resourceOf(i)) }, say)
      await set({ default: 'ask' })
      return [...rows, await waitingCalls(await gated('claude-code'), say)]
    } finally {
      await Promise.allSettled([direct.client.close(), through.client.close()])
      close()
      await server.end('SIGKILL')
      rmSync(folder, { recursive: true, force: true })
    }
  },
}

const resourceOf = (i: number): object => ({ server: 'bench', tool: 'one', kind: 'resource', arguments: { i } })

type Compared = { readonly direct: Connected; readonly through: Connected; durable(i: number): Promise<unknown> }
async function compare({ direct, through, durable }: Compared, say: (line: string) => void): Promise<Row[]> {
  const callOf =
    (name: string, { client }: Connected) =>
    (i: number): Promise<unknown> =>
      client.callTool({ name, arguments: { i } })
  const seen = {
    direct: [] as number[],
    through: [] as number[],
    durable: [] as number[],
    slow: [] as number[],
    slowThrough: [] as number[],
  }
  for (const client of [direct, through]) await medianOf(CALLS, callOf('echo', client))
  for (let round = 1; round <= ROUNDS; round++) {
    seen.direct.push(await medianOf(CALLS, callOf('echo', direct)))
    seen.durable.push(await medianOf(CALLS, durable))
    seen.through.push(await medianOf(CALLS, callOf('echo', through)))
    seen.slow.push(await medianOf(10, callOf('slow', direct)))
    seen.slowThrough.push(await medianOf(10, callOf('slow', through)))
    say(`round ${round} of ${ROUNDS}: ${ms(seen.through.at(-1)!)} through the gate, ${ms(seen.direct.at(-1)!)} without`)
  }
  const ratio = median(seen.through.map((own, i) => own / (seen.direct[i]! + 2 * seen.durable[i]!)))
  const slow = median(seen.slowThrough.map((own, i) => own / seen.slow[i]!))
  return [
    { what: 'a call without a gate', value: ms(median(seen.direct)) },
    { what: 'a durable operation', value: ms(median(seen.durable)) },
    {
      what: 'an allowed call through the gate',
      value: ms(median(seen.through)),
      more: `${times(ratio)} of a call and two durable operations`,
      goal: { message: `<= ${RATIO_MAX}x`, met: ratio <= RATIO_MAX },
    },
    {
      what: 'a tool of 100 ms through the gate',
      value: ms(median(seen.slowThrough)),
      more: `${times(slow)} of ${ms(median(seen.slow))} without`,
      goal: { message: `<= ${SLOW_RATIO_MAX}x`, met: slow <= SLOW_RATIO_MAX },
    },
  ]
}

/** A client that counts progress is held: all calls wait at the same time. */
async function waitingCalls({ client, pid }: Connected, say: (line: string) => void): Promise<Row> {
  const idle = usageOf(pid)?.rssMb ?? Number.NaN
  let waiting = 0
  const calls = Array.from({ length: WAITING }, (_, i) => {
    let isHeard = false
    const onprogress = (): void => {
      if (!isHeard) waiting++
      isHeard = true
    }
    return client.callTool({ name: 'echo', arguments: { i } }, { onprogress, resetTimeoutOnProgress: true }).catch(() => undefined)
  })
  while (waiting < WAITING) await new Promise((done) => setTimeout(done, 50))
  say(`${waiting} calls wait`)
  const { rssMb, peakMb } = usageOf(pid) ?? { rssMb: Number.NaN, peakMb: Number.NaN }
  await client.close()
  await Promise.all(calls)
  return {
    what: `the memory of a gate with ${WAITING.toLocaleString('en')} waiting calls`,
    value: `${rssMb.toFixed(0)} MB`,
    more: `${idle.toFixed(0)} MB before, at most ${peakMb.toFixed(0)} MB`,
    goal: { message: `< ${WAITING_MB_MAX} MB`, met: rssMb < WAITING_MB_MAX },
  }
}
