// The cost of a full store: the same calls to a server with an empty store and to one with 100,000 tasks, side by side in alternating
// rounds, and the time from the start of the process until it says that it is ready.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createCaller, startServer, type Keys, type ServerProcess } from '#test/support/as-processes/server.ts'
import { fill, verifyAll } from './fill.ts'
import { measureFlow } from './flow.ts'
import { openConnection, requestBytes } from './load.ts'
import { median, ms, rate, times, usageOf, type Bench, type Row } from './report.ts'

const TASKS = Number(process.env['BENCH_TASKS'] ?? 100_000)
const ROUNDS = 8
const WIDTH = 16
/** Short rounds in a close alternation: what else the machine does meets both sides. */
const FLOW_MS = 1_500
const ASKED_MS = 500
const WARM_MS = 3_000
const STARTS = 3
const START_MS_MAX = 2_000
const FLOW_SHARE_MIN = 0.85
const COST_MAX = 1.5
/** Pages that are asked for in turn, from the newest on, and tasks that are replayed. On both sides they tell of reference flows. */
const PAGES = 10
const REPLAYED = 200

type Size = 'empty' | 'full'
type Question = 'task.list' | 'audit.query' | 'audit.replay'
const questions: readonly Question[] = ['task.list', 'audit.query', 'audit.replay']
type Asker = { ask(operation: string, input: object): Promise<any>; close(): void }
type Side = { readonly server: ServerProcess; readonly keys: Keys & { readonly owner: string } }

export const size: Bench = {
  name: 'size',
  message: `flows, pages, replays and starts with an empty store and with ${TASKS.toLocaleString('en')} tasks`,
  async run(say) {
    const folder = mkdtempSync(join(process.env['BENCH_FOLDER'] ?? tmpdir(), 'countersign-bench-'))
    const data: Record<Size, string> = { empty: join(folder, 'empty'), full: join(folder, 'full') }
    const running: ServerProcess[] = []
    try {
      await fill(data.full, TASKS, say)
      await fill(data.empty, 0, () => undefined)
      const starts = await startsOf(data, say)
      const sides = { empty: await openSide(data.empty, running), full: await openSide(data.full, running) }
      const measured = await compare(sides, say)
      const usage = usageOf(sides.full.server.pid)
      const crashed = await startAfterCrash(sides.full, data.full, running)
      return [
        ...measured,
        ...starts,
        startRow('after kill -9 in the middle of flows', [crashed], true),
        ...(usage ? [{ what: 'memory of the server with the full store', value: `${Math.round(usage.rssMb)} MB` }] : []),
      ]
    } finally {
      await Promise.all(running.map((server) => server.end('SIGTERM')))
      rmSync(folder, { recursive: true, force: true })
    }
  },
}

// --- Starts ----------------------------------------------------------------------------------------------------------------

async function timedStart(data: string): Promise<{ server: ServerProcess; spent: number }> {
  const began = performance.now()
  const server = await startServer(data)
  return { server, spent: performance.now() - began }
}

async function startOf(data: string): Promise<number> {
  const { server, spent } = await timedStart(data)
  await server.end('SIGTERM')
  return spent
}

async function startsOf(data: Record<Size, string>, say: (line: string) => void): Promise<Row[]> {
  // The first start fills the compile cache, which later starts have too.
  await startOf(data.empty)
  const unverified = await startOf(data.full)
  say(`start with nothing verified: ${ms(unverified)}`)
  // A server would come to it little by little; here it would only disturb.
  await verifyAll(data.full, say)
  const spent: Record<Size, number[]> = { empty: [], full: [] }
  for (let i = 1; i <= STARTS; i++) {
    for (const which of ['empty', 'full'] as const) spent[which].push(await startOf(data[which]))
    say(`start ${i} of ${STARTS}: empty ${ms(spent.empty.at(-1)!)}, full ${ms(spent.full.at(-1)!)}`)
  }
  return [
    startRow('of an empty store', spent.empty, false),
    startRow('with the tasks, after a clean stop', spent.full, true),
    startRow('with the tasks, when nothing is verified yet', [unverified], true),
  ]
}

async function startAfterCrash({ server, keys }: Side, data: string, running: ServerProcess[]): Promise<number> {
  const dying = measureFlow(server.port, WIDTH, keys, FLOW_MS).catch(() => undefined)
  await new Promise((done) => setTimeout(done, FLOW_MS / 2))
  await server.end('SIGKILL')
  await dying
  const again = await timedStart(data)
  running.push(again.server)
  return again.spent
}

const startRow = (what: string, spent: readonly number[], hasGoal: boolean): Row => ({
  what: `start ${what}`,
  value: ms(median(spent)),
  ...(hasGoal ? { goal: { message: `<= ${START_MS_MAX / 1_000} s`, met: median(spent) <= START_MS_MAX } } : {}),
})

// --- Calls -----------------------------------------------------------------------------------------------------------------

async function openSide(data: string, running: ServerProcess[]): Promise<Side> {
  const server = await startServer(data)
  running.push(server)
  const { ask, close } = askerOf(server.port, server.adminKey)
  const keyOf = async (subject: string): Promise<string> => (await ask('identity/key.issue', { subject })).key
  const keys = { alice: await keyOf('user_alice'), devin: await keyOf('agent_devin'), owner: await keyOf('user_owner') }
  close()
  // Also what the empty store needs in order to have pages and tasks to replay.
  await measureFlow(server.port, WIDTH, keys, WARM_MS)
  return { server, keys }
}

function askerOf(port: number, bearer: string): Asker {
  const { call, close } = createCaller(port)
  return {
    async ask(operation, input) {
      const { status, body } = await call(bearer, operation, input)
      if (status !== 200) throw new Error(`${operation} answered ${status}: ${JSON.stringify(body)}`)
      return body
    },
    close,
  }
}

/** `cpuMs`: of the server, for each flow; if the machine is busy with other things it is the steadier figure. */
type Measured = { flows: number[]; cpuMs: number[]; asked: Record<Question, number[]> }

async function compare(sides: Record<Size, Side>, say: (line: string) => void): Promise<Row[]> {
  const prepared = { empty: await requestsFor(sides.empty), full: await requestsFor(sides.full) }
  const nothing = (): Measured => ({ flows: [], cpuMs: [], asked: { 'task.list': [], 'audit.query': [], 'audit.replay': [] } })
  const measured: Record<Size, Measured> = { empty: nothing(), full: nothing() }
  for (let round = 1; round <= ROUNDS; round++) {
    const order: readonly Size[] = round % 2 === 1 ? ['empty', 'full'] : ['full', 'empty']
    for (const which of order) {
      const { server, keys } = sides[which]
      const before = usageOf(server.pid)
      const began = performance.now()
      const { flows } = await measureFlow(server.port, WIDTH, keys, FLOW_MS)
      const count = (flows * (performance.now() - began)) / 1_000
      measured[which].flows.push(flows)
      if (before) measured[which].cpuMs.push(((usageOf(server.pid)!.cpuSeconds - before.cpuSeconds) * 1_000) / count)
    }
    for (const question of questions)
      for (const which of order) measured[which].asked[question].push(await costOf(sides[which].server.port, prepared[which][question]))
    const shown = (which: Size): string =>
      `${which} ${rate(measured[which].flows.at(-1)!)} flows, ${questions.map((one) => `${one} ${ms(measured[which].asked[one].at(-1)!)}`).join(', ')}`
    say(`round ${round} of ${ROUNDS}: ${shown('empty')}; ${shown('full')}`)
  }
  return rowsOf(measured)
}

function rowsOf({ empty, full }: Record<Size, Measured>): Row[] {
  const kept = median(full.flows.map((flows, i) => flows / empty.flows[i]!))
  const cpu = full.cpuMs.length === 0 ? '' : `; ${ms(median(full.cpuMs))} of CPU each against ${ms(median(empty.cpuMs))}`
  return [
    {
      what: `the reference flow, ${WIDTH} at a time, full against empty`,
      value: times(kept),
      more: `${rate(median(full.flows))} against ${rate(median(empty.flows))}${cpu}`,
      goal: { message: `>= ${FLOW_SHARE_MIN}x`, met: kept >= FLOW_SHARE_MIN },
    },
    ...questions.map((question): Row => {
      const cost = median(full.asked[question].map((spent, i) => spent / empty.asked[question][i]!))
      return {
        what: `cost of ${question}, full against empty`,
        value: times(cost),
        more: `${ms(median(full.asked[question]))} against ${ms(median(empty.asked[question]))}`,
        goal: { message: `<= ${COST_MAX}x`, met: cost <= COST_MAX },
      }
    }),
  ]
}

/** The questions of the project's owner: everything in it is theirs to see. */
async function requestsFor({ server, keys: { owner } }: Side): Promise<Record<Question, Buffer[]>> {
  const { ask, close } = askerOf(server.port, owner)
  const bytesOf = (operation: string, input: object): Buffer => requestBytes(`/v1/${operation}`, owner, JSON.stringify(input))
  const pagesOf = async (operation: string): Promise<Buffer[]> => {
    const pages: Buffer[] = []
    for (let cursor: string | null = null, i = 0; i < PAGES; i++) {
      const input: object = { order: 'newest', ...(cursor === null ? {} : { cursor }) }
      pages.push(bytesOf(operation, input))
      cursor = (await ask(operation, input)).next_cursor
    }
    return pages
  }
  const replays = (await finishedIn(ask)).map((task_id) => bytesOf('collaboration/audit.replay', { task_id }))
  const prepared = { 'task.list': await pagesOf('collaboration/task.list'), 'audit.query': await pagesOf('collaboration/audit.query') }
  close()
  return { ...prepared, 'audit.replay': replays }
}

/** Tasks that went the whole reference flow, which asks a person once, from all over the store. */
async function finishedIn(ask: Asker['ask']): Promise<string[]> {
  const found: string[] = []
  for (let cursor: string | null = null; ;) {
    const page: any = await ask('collaboration/task.list', { state: 'completed', limit: 200, ...(cursor === null ? {} : { cursor }) })
    found.push(...page.items.filter((task: any) => task.checkpoints.length > 0).map((task: any) => task.id))
    cursor = page.next_cursor
    if (cursor === null) break
  }
  const every = Math.max(1, Math.floor(found.length / REPLAYED))
  return found.filter((_, i) => i % every === 0).slice(0, REPLAYED)
}

/** Milliseconds of one call, on one connection, over the requests in turn. */
async function costOf(port: number, requests: readonly Buffer[]): Promise<number> {
  const connection = await openConnection(port)
  const began = performance.now()
  let answers = 0
  while (performance.now() - began < ASKED_MS) {
    const { status, body } = await connection.send(requests[answers++ % requests.length]!)
    if (status !== 200) throw new Error(`answered ${status}: ${body.toString()}`)
  }
  const spent = (performance.now() - began) / answers
  connection.close()
  return spent
}
