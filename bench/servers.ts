// Several servers on one PostgreSQL compared with one server on SQLite: creates and gets, on one and on many connections, and the delay
// until another server sees a commit.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { memoryEnv, memoryFlags } from '#apps/cli/serve.ts'
import { inDatabase, startPostgres, type PostgresServer } from '#test/support/as-processes/postgres.ts'
import { createCaller, enroll, spawnServer, startServer, type ServerProcess } from '#test/support/as-processes/server.ts'
import { SECRET } from '#test/support/as-processes/servers.ts'
import { body } from './http.ts'
import { load, requestBytes, type Load } from './load.ts'
import { median, ms, rate, times, usageOf, type Bench, type Row } from './report.ts'

const MAIN = join(import.meta.dirname, '../src/apps/server/main.ts')
const CONNECTIONS = 64
const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 3)
const ROUND_MS = 3_000
const WARM_MS = 2_000
const HEARD = 40
const IDLE_MS = 4_000

type Node = Omit<ServerProcess, 'adminKey'>
/** One way to run it: its servers, and whose CPU counts. */
type Place = {
  readonly name: string
  readonly nodes: readonly Node[]
  readonly bearer: string
  readonly task: string
  databasePids(): number[]
}
type Kind = 'create' | 'get'
type Measured = Load & { readonly cpuUs: number; readonly databaseUs: number }

const startNode = (data: string, url: string, name: string): Promise<Node> =>
  // As the one on SQLite is started.
  spawnServer([...memoryFlags, MAIN], {
    ...memoryEnv,
    COUNTERSIGN_DATA: data,
    COUNTERSIGN_PORT: '0',
    COUNTERSIGN_LOG: 'error',
    COUNTERSIGN_QUOTA: 'off',
    COUNTERSIGN_REQUESTS_PER_MINUTE: 'off',
    COUNTERSIGN_DATABASE: url,
    COUNTERSIGN_SECRET: SECRET,
    COUNTERSIGN_NODE: name,
  })

/** The processes of a PostgreSQL: its first one and those that serve a connection each. */
function pidsOf({ pid }: PostgresServer): number[] {
  const parentOf = (of: string): number => {
    try {
      const stat = readFileSync(`/proc/${of}/stat`, 'utf8')
      return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1])
    } catch {
      return 0
    }
  }
  const all = readdirSync('/proc').filter((name) => /^\d+$/.test(name))
  return [pid, ...all.filter((of) => parentOf(of) === pid).map(Number)]
}

const cpuOf = (pids: readonly number[]): number => pids.reduce((sum, pid) => sum + (usageOf(pid)?.cpuSeconds ?? 0), 0)

const requestOf = ({ bearer, task }: Place, kind: Kind): Buffer =>
  kind === 'create'
    ? requestBytes('/v1/collaboration/task.create', bearer, body)
    : requestBytes('/v1/collaboration/task.get', bearer, JSON.stringify({ task_id: task }))

async function measure(place: Place, kind: Kind, connections: number, forMs: number): Promise<Measured> {
  const pids = place.nodes.map(({ pid }) => pid)
  const [server, database] = [cpuOf(pids), cpuOf(place.databasePids())]
  const each = Math.max(1, Math.round(connections / place.nodes.length))
  const all = await Promise.all(place.nodes.map(({ port }) => load(port, each, requestOf(place, kind), forMs)))
  const answers = all.reduce((sum, one) => sum + one.answers, 0)
  return {
    answers,
    perSecond: all.reduce((sum, one) => sum + one.perSecond, 0),
    p50: median(all.map(({ p50 }) => p50)),
    p99: Math.max(...all.map(({ p99 }) => p99)),
    cpuUs: ((cpuOf(pids) - server) * 1e6) / answers,
    databaseUs: ((cpuOf(place.databasePids()) - database) * 1e6) / answers,
  }
}

/** From a person's answer on one server to the return of a call that waits for it on another, in milliseconds. */
async function heard(from: Node, at: Node, alice: string, devin: string): Promise<number[]> {
  const [one, other] = [createCaller(from.port), createCaller(at.port)]
  const question = { action: 'DECIDE', payload: { question: 'So?', options: ['Yes', 'No'] } }
  const all: number[] = []
  for (let i = 0; i < HEARD; i++) {
    const { status, body: asked } = await other.call(devin, 'execution/request.create', question)
    if (status !== 200) throw new Error(JSON.stringify(asked))
    const request_id = asked.request.id as string
    const waiting = other.call(devin, 'execution/request.await', { request_id, wait: 10 })
    await new Promise((done) => setTimeout(done, 20))
    await one.call(alice, 'execution/request.resolve', { request_id, result: 'Yes' })
    const began = performance.now()
    await waiting
    all.push(performance.now() - began)
  }
  one.close()
  other.close()
  return all
}

/** From a commit on one server to its event on a stream of another, in milliseconds. */
async function followed(from: Node, at: Node, alice: string, admin: string): Promise<number[]> {
  const stop = new AbortController()
  const address = `http://127.0.0.1:${at.port}/v1/collaboration/audit.follow?after=latest`
  const stream = await fetch(address, { headers: { authorization: `Bearer ${admin}` }, signal: stop.signal })
  if (stream.status !== 200) throw new Error(await stream.text())
  let heardAt: ((now: number) => void) | undefined
  const reading = (async () => {
    for await (const part of stream.body!) if (Buffer.from(part).includes('task.created')) heardAt?.(performance.now())
  })().catch(() => undefined)
  const { call, close } = createCaller(from.port)
  const all: number[] = []
  for (let i = 0; i < HEARD; i++) {
    const event = new Promise<number>((done) => (heardAt = done))
    await call(alice, 'collaboration/task.create', { spec: { goal: `Follow ${i}` } })
    const began = performance.now()
    // The event may be there before the answer is.
    all.push(Math.max(0, (await event) - began))
    await new Promise((done) => setTimeout(done, 20))
  }
  stop.abort()
  await reading
  close()
  return all
}

/** CPU time of idle servers for each commit of another server, without their baseline. */
async function foreignUs(writer: Place, idle: readonly Node[]): Promise<number> {
  const pids = idle.map(({ pid }) => pid)
  const start = cpuOf(pids)
  await new Promise((done) => setTimeout(done, IDLE_MS))
  const still = (cpuOf(pids) - start) / IDLE_MS
  const before = cpuOf(pids)
  const began = performance.now()
  const { answers } = await load(writer.nodes[0]!.port, CONNECTIONS, requestOf(writer, 'create'), IDLE_MS)
  const extra = cpuOf(pids) - before - still * (performance.now() - began)
  return Math.max(0, (extra * 1e6) / idle.length / answers)
}

const p95 = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length * 0.95)]!

async function taskOf(port: number, bearer: string): Promise<string> {
  const { call, close } = createCaller(port)
  const { body: made } = await call(bearer, 'collaboration/task.create', JSON.parse(body) as object)
  close()
  return made.task.id as string
}

export const servers: Bench = {
  name: 'servers',
  message: `one and three servers on one PostgreSQL on this machine, beside one on SQLite, at 1 and ${CONNECTIONS} connections`,
  async run(say) {
    const folder = mkdtempSync(join(process.env['BENCH_FOLDER'] ?? tmpdir(), 'countersign-bench-'))
    const database = await startPostgres()
    const [version] = await inDatabase(database.url, `SELECT current_setting('server_version') AS version`)
    say(`PostgreSQL ${String(version!['version'])}`)
    const ended: (() => Promise<void>)[] = []
    try {
      const sqlite = await startServer(join(folder, 'sqlite'))
      ended.push(() => sqlite.end('SIGTERM'))
      const nodes: Node[] = []
      for (const name of ['a', 'b', 'c']) {
        const node = await startNode(join(folder, name), database.url, name)
        nodes.push(node)
        ended.push(() => node.end('SIGTERM'))
      }
      const sqliteKeys = await enroll(sqlite.port, sqlite.adminKey)
      const admin = readFileSync(join(folder, 'a', 'admin.key'), 'utf8').trim()
      const shared = await enroll(nodes[0]!.port, admin)
      const databasePids = (): number[] => pidsOf(database)
      const task = await taskOf(nodes[0]!.port, shared.alice)
      const places: readonly [Place, Place, Place] = [
        {
          name: 'SQLite',
          nodes: [sqlite],
          bearer: sqliteKeys.alice,
          task: await taskOf(sqlite.port, sqliteKeys.alice),
          databasePids: () => [],
        },
        { name: 'one server', nodes: nodes.slice(0, 1), bearer: shared.alice, task, databasePids },
        { name: 'three servers', nodes, bearer: shared.alice, task, databasePids },
      ]
      const rows = await rowsOf(places, say)
      const foreign = await foreignUs(places[1], nodes.slice(1))
      say(`a commit that concerns nobody there: ${foreign.toFixed(1)} us of another server`)
      const [a, b] = nodes as [Node, Node]
      const { alice, devin } = shared
      return [
        ...rows,
        {
          what: 'a commit of another server that concerns nobody, CPU',
          value: `${foreign.toFixed(1)} us`,
          goal: { message: '<= 15 us', met: foreign <= 15 },
        },
        ...lateness('a call that waits', await heard(a, a, alice, devin), await heard(a, b, alice, devin)),
        ...lateness('a stream', await followed(a, a, alice, admin), await followed(a, b, alice, admin)),
      ]
    } finally {
      for (const end of ended) await end()
      await database.stop()
      rmSync(folder, { recursive: true, force: true })
    }
  },
}

const lateness = (what: string, near: readonly number[], far: readonly number[]): Row[] => [
  { what: `${what} on the same server, p95`, value: ms(p95(near)) },
  {
    what: `${what} on another server, p95`,
    value: ms(p95(far)),
    goal: { message: 'at most 50 ms more', met: p95(far) - p95(near) <= 50 },
  },
]

async function rowsOf(places: readonly [Place, Place, Place], say: (line: string) => void): Promise<Row[]> {
  const rows: Row[] = []
  for (const kind of ['create', 'get'] as const)
    for (const connections of [1, CONNECTIONS]) {
      const all = connections === 1 ? places.slice(0, 2) : places
      const measured = new Map<Place, Measured[]>(all.map((place) => [place, []]))
      for (const place of all) await measure(place, kind, connections, WARM_MS)
      for (let round = 1; round <= ROUNDS; round++)
        for (const place of all) {
          const measurement = await measure(place, kind, connections, ROUND_MS)
          measured.get(place)!.push(measurement)
          say(`  ${kind}, ${connections} connections, round ${round} of ${ROUNDS}, ${place.name}: ${rate(measurement.perSecond)}`)
        }
      const of = (place: Place, figure: keyof Measured): number => median(measured.get(place)!.map((measurement) => measurement[figure]))
      for (const place of all) {
        const more = [`p50 ${ms(of(place, 'p50'))}`, `${Math.round(of(place, 'cpuUs'))} us CPU of servers`]
        if (place !== places[0]) more.push(`${Math.round(of(place, 'databaseUs'))} us of PostgreSQL`)
        rows.push({ what: `${kind}, ${connections}: ${place.name}`, value: rate(of(place, 'perSecond')), more: more.join(', ') })
      }
      say(`${kind} at ${connections}: ${all.map((place) => `${place.name} ${rate(of(place, 'perSecond'))}`).join(', ')}`)
      rows.push(...goalsOf(kind, connections, places, of))
    }
  return rows
}

function goalsOf(
  kind: Kind,
  connections: number,
  places: readonly [Place, Place, Place],
  of: (place: Place, figure: keyof Measured) => number,
): Row[] {
  const [sqlite, one, three] = places
  const ratio = (what: string, value: number, least: number): Row => ({
    what,
    value: times(value),
    goal: { message: `>= ${least}x`, met: value >= least },
  })
  const most = (what: string, value: number, max: number): Row => ({
    what,
    value: times(value),
    goal: { message: `<= ${max}x`, met: value <= max },
  })
  if (connections === 1) {
    const slower = of(one, 'p50') / of(sqlite, 'p50')
    return kind === 'create' ? [most('a lone create against SQLite, by its time', slower, 4)] : []
  }
  const against = of(one, 'perSecond') / of(sqlite, 'perSecond')
  const spread = of(three, 'perSecond') / of(one, 'perSecond')
  return kind === 'create'
    ? [
        ratio('create: one server against SQLite', against, 0.4),
        most('create: CPU of the server against SQLite', of(one, 'cpuUs') / of(sqlite, 'cpuUs'), 1.7),
        ratio('create: three servers against one', spread, 0.6),
      ]
    : [ratio('get: one server against SQLite', against, 0.7), ratio('get: three servers against one', spread, 0.8)]
}
