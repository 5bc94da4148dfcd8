// JSON-RPC round trips on a Unix socket: a cheap query with a credential check, compared with a server that parses each line and
// immediately returns the same result. Servers run in separate processes, the load in this one; rounds alternate.
//
//   node bench/jsonrpc.ts [milliseconds a round]
import assert from 'node:assert/strict'
import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readConfig, type Config } from '#apps/server/settings/config.ts'
import { memoryFlags } from '#apps/cli/serve.ts'
import { createLog } from '#apps/server/log.ts'
import { startServer } from '#apps/server/server.ts'
import { SYSTEM } from '#kernel/declare/access.ts'
import { authenticate } from '#protocols/identity/authenticate.ts'
import { createWorld } from '#test/support/in-process/world.ts'
import { median, rate, tableOf, times, type Bench, type Row } from './report.ts'

const LF = 10
const ROUNDS = 3
/** So many tasks are asked for in turn: no answer comes again soon enough for its text to be kept. */
const TASKS = 1_000
const shapes = [
  { clients: 1, inFlight: 1, tasks: TASKS },
  { clients: 64, inFlight: 16, tasks: TASKS },
  // The same task again and again: ours writes it once, the echo each time.
  { clients: 64, inFlight: 16, tasks: 1 },
] as const

type Shape = (typeof shapes)[number]
type Rate = { readonly perSecond: number; /** By the time that the server really had. */ readonly perCpuSecond: number }
type RoundTrips = Shape & { readonly echo: Rate; readonly ours: Rate; readonly ratio: number; readonly cpuRatio: number }

const ROUND_MS = 1_500
const SHARE_MIN = 0.5

export const jsonrpc: Bench = {
  name: 'jsonrpc',
  message: 'task.get over the Unix socket, beside an echo of the same result',
  run: async (say) => (await roundTrips(ROUND_MS, say)).flatMap(rowsOf),
}

function rowsOf({ clients, inFlight, tasks, echo, ours, ratio, cpuRatio }: RoundTrips): Row[] {
  const who = `${clients} ${clients === 1 ? 'client' : 'clients'} x ${inFlight} under way${tasks === 1 ? ', one task' : ''}`
  const row = (name: string, { perSecond, perCpuSecond }: Rate): Row => ({
    what: `${who}, ${name}`,
    value: rate(perSecond),
    more: `${Math.round(perCpuSecond).toLocaleString('en')} a CPU second`,
  })
  const goal = { message: `>= ${SHARE_MIN}x`, met: ratio >= SHARE_MIN }
  const against: Row = { what: `${who}, task.get against echo`, value: times(ratio), more: `by CPU time ${times(cpuRatio)}`, goal }
  return [row('task.get', ours), row('echo', echo), against]
}

async function roundTrips(ms: number, say: (line: string) => void): Promise<RoundTrips[]> {
  const folder = mkdtempSync(join(process.env['BENCH_FOLDER'] ?? tmpdir(), 'countersign-bench-'))
  const ours = await started('ours', folder)
  const echo = await started('echo', folder)
  try {
    const measured: RoundTrips[] = []
    for (const shape of shapes) {
      await load(echo, shape, ms / 3)
      await load(ours, shape, ms / 3)
      const rates: { echo: Rate[]; ours: Rate[] } = { echo: [], ours: [] }
      for (let round = 0; round < ROUNDS; round++) {
        rates.echo.push(await load(echo, shape, ms))
        rates.ours.push(await load(ours, shape, ms))
        const [theirs, own] = [rates.echo.at(-1)!, rates.ours.at(-1)!].map(({ perSecond }) => rate(perSecond))
        say(`${shape.clients} x ${shape.inFlight}, round ${round + 1} of ${ROUNDS}: task.get ${own}, echo ${theirs}`)
      }
      const share = (figure: keyof Rate): number => median(rates.ours.map((own, i) => own[figure] / rates.echo[i]![figure]))
      const [reference, own] = [middleOf(rates.echo), middleOf(rates.ours)]
      measured.push({ ...shape, echo: reference, ours: own, ratio: share('perSecond'), cpuRatio: share('perCpuSecond') })
    }
    return measured
  } finally {
    for (const { child } of [ours, echo]) {
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
    rmSync(folder, { recursive: true, force: true })
  }
}

function middleOf(rates: readonly Rate[]): Rate {
  const of = (figure: keyof Rate): number => median(rates.map((each) => each[figure]))
  return { perSecond: of('perSecond'), perCpuSecond: of('perCpuSecond') }
}

// --- Load ------------------------------------------------------------------------------------------------------------------

type Running = { readonly child: ChildProcess; readonly path: string; readonly greeting: string; readonly calls: readonly string[] }

async function started(which: 'ours' | 'echo', folder: string): Promise<Running> {
  // The echo is not held to the memory that the server keeps to: that would slow it down and flatter us.
  const child = fork(import.meta.filename, [which, folder], { execArgv: which === 'ours' ? [...memoryFlags] : ['--max-semi-space-size=8'] })
  const [{ path, greeting, calls }] = (await once(child, 'message')) as [Omit<Running, 'child'>]
  return { child, path, greeting, calls }
}

async function cpuMs({ child }: Running): Promise<number> {
  child.send('cpu')
  const [ms] = (await once(child, 'message')) as [number]
  return ms
}

async function load(server: Running, { clients, inFlight, tasks }: Shape, ms: number): Promise<Rate> {
  const sockets = await Promise.all(Array.from({ length: clients }, () => opened(server)))
  const cpuBefore = await cpuMs(server)
  const began = performance.now()
  const until = began + ms
  const turn = turnsOf(server.calls.slice(0, tasks), inFlight)
  const counts = await Promise.all(sockets.map((socket) => drive(socket, turn, inFlight, until)))
  const seconds = (performance.now() - began) / 1_000
  const cpuSeconds = ((await cpuMs(server)) - cpuBefore) / 1_000
  const total = counts.reduce((sum, count) => sum + count, 0)
  for (const socket of sockets) socket.destroy()
  return { perSecond: total / seconds, perCpuSecond: total / cpuSeconds }
}

async function opened({ path, greeting }: Running): Promise<Socket> {
  const socket = connect(path)
  socket.write(greeting)
  await once(socket, 'data')
  return socket
}

/** The next calls, so many of them; made beforehand, so that asking costs the same whatever is asked. */
function turnsOf(calls: readonly string[], most: number): (count: number) => string {
  const texts = Array.from({ length: most + 1 }, (_, count) =>
    calls.map((_call, i) => Array.from({ length: count }, (_none, j) => calls[(i + j) % calls.length]!).join('')),
  )
  let at = 0
  return (count) => {
    const text = texts[count]![at]!
    at = (at + count) % calls.length
    return text
  }
}

/** Keeps a fixed number of calls in flight until the time is over; every response is one line. */
function drive(socket: Socket, turn: (count: number) => string, inFlight: number, until: number): Promise<number> {
  return new Promise((done) => {
    let answers = 0
    let waiting = inFlight
    socket.on('data', (chunk) => {
      let came = 0
      for (let at = (chunk as Buffer).indexOf(LF); at !== -1; at = (chunk as Buffer).indexOf(LF, at + 1)) came++
      answers += came
      if (performance.now() < until) socket.write(turn(came))
      else if ((waiting -= came) === 0) done(answers)
    })
    socket.write(turn(inFlight))
  })
}

// --- Servers ---------------------------------------------------------------------------------------------------------------

const spec = { goal: 'count', acceptance_criteria: ['done'] }

async function serveOurs(folder: string): Promise<void> {
  const wish = readConfig(['--data', folder, '--port', '0', '--log', 'error'], {}) as { config: Config }
  const { kernel } = await startServer(wish.config, { log: createLog('error'), onFatal: (error) => assert.fail(String(error)) })
  const { key } = await kernel.call('identity/key.issue', { subject: 'user_owner' }, SYSTEM)
  const owner = await authenticate(kernel.store, { kind: 'bearer', token: key }, kernel.now())
  const calls: string[] = []
  for (let i = 0; i < TASKS; i++) {
    const { task } = await kernel.call('collaboration/task.create', { spec }, owner)
    calls.push(line('collaboration/task.get', { task_id: task.id }))
  }
  process.send!({ path: wish.config.socket, greeting: line('rpc.authenticate', { token: key }), calls })
}

/** No kernel, no credential, no checks: what a line costs by itself. */
async function serveEcho(folder: string): Promise<void> {
  const world = await createWorld()
  const results = new Map<string, object>()
  for (let i = 0; i < TASKS; i++) {
    const created = await world.call('alice', 'collaboration/task.create', { spec })
    // As a store would have read it.
    results.set(created.task.id, JSON.parse(JSON.stringify(created)) as object)
  }
  const path = join(folder, 'echo')
  const server = createServer((socket) => {
    let rest: Buffer | null = null
    socket.on('data', (chunk) => {
      const bytes: Buffer = rest === null ? (chunk as Buffer) : Buffer.concat([rest, chunk as Buffer])
      const out: string[] = []
      let from = 0
      for (let at = bytes.indexOf(LF); at !== -1; at = bytes.indexOf(LF, from)) {
        const { id, params } = JSON.parse(bytes.toString('utf8', from, at)) as { id: number; params: { task_id: string } }
        out.push(`${JSON.stringify({ jsonrpc: '2.0', id, result: results.get(params.task_id) })}\n`)
        from = at + 1
      }
      rest = from < bytes.length ? bytes.subarray(from) : null
      if (out.length > 0) socket.write(out.join(''))
    })
    socket.on('error', () => undefined)
  })
  server.listen(path, () =>
    process.send!({ path, greeting: line('hello', {}), calls: [...results.keys()].map((task_id) => line('get', { task_id })) }),
  )
}

const line = (method: string, params: object): string => `${JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })}\n`

if (import.meta.main && process.send) {
  const [which, folder] = process.argv.slice(2) as [string, string]
  process.on('message', () => {
    const { user, system } = process.cpuUsage()
    process.send!((user + system) / 1_000)
  })
  await (which === 'ours' ? serveOurs(folder) : serveEcho(folder))
} else if (import.meta.main) {
  const measured = await roundTrips(Number(process.argv[2] ?? ROUND_MS), (line) => console.log(line))
  console.log(tableOf(measured.flatMap(rowsOf)))
}
