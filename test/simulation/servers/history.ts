// One seed, one history of three servers on one store: they are paused past their leases, cut off, killed and started again, their clocks are
// an hour apart and step, answers at COMMIT are lost and hints come late. Every law is held after every step; then the faults end, and
// whatever was promised must have come true.
import { createHash } from 'node:crypto'
import { memoryDisk } from '#stores/memory.ts'
import { createRandom, type Random } from '../random.ts'
import type { Outcome, SimulateOptions } from '../simulate.ts'
import { createServerClients, type ServerClients } from './clients.ts'
import { createDatabase, type Database } from './database.ts'
import { createServerLaws, type ServerLaws } from './laws.ts'
import { createScheduler, type Scheduler } from './scheduler.ts'
import { LEASES, startServer, type Server } from './server.ts'

const STEPS = 500
const NAMES = ['one', 'two', 'three']
const IN_FLIGHT_MAX = 6
const HOUR_MS = 3_600_000
const ROUNDS_MAX = 400
const TURNS_MAX = 20_000

type Cluster = {
  readonly random: Random
  readonly scheduler: Scheduler
  readonly database: Database
  readonly clients: ServerClients
  readonly laws: ServerLaws
  /** By name: the present process, or null while it is down. */
  readonly servers: Map<string, Server | null>
  readonly offsets: Map<string, number>
  /** Paused or cut off. */
  readonly heldUp: Set<Server>
  /** Time runs faster while a server is held up: others take its leases, and it is back within the history. */
  readonly losesLeases: boolean
  readonly violations: string[]
  readonly happened: (what: string) => void
  note(what: string): void
  disturb(server: Server): void
  boot(name: string): void
  kill(server: Server): void
  heal(): void
}

export async function simulateServers(seed: number, options: SimulateOptions = {}): Promise<Outcome> {
  const trace: string[] = []
  const happened = new Map<string, number>()
  const hash = createHash('sha256')
  let isOver = false
  const note = (what: string): void => {
    // A server that was left as it was may still have something to say.
    if (isOver) return
    hash.update(what)
    if (options.trace) trace.push(what)
  }
  const count = (what: string): void => {
    happened.set(what, (happened.get(what) ?? 0) + 1)
    note(`  ${what}`)
  }
  const cluster = assemble(seed, note, count)
  const { violations, laws, clients } = cluster
  for (const name of NAMES) cluster.boot(name)
  // It would end the process of a server.
  const uncaught = (error: unknown): void => void violations.push(`nobody caught ${String(error)}`)
  process.on('unhandledRejection', uncaught)
  const limit = options.steps ?? STEPS
  let steps = 0
  while (steps < limit && violations.length === 0) {
    note(`${++steps} ${step(cluster)}`)
    await settled()
    laws.judgeHolders()
    clients.settle()
  }
  if (violations.length === 0) await quiesce(cluster)
  process.off('unhandledRejection', uncaught)
  isOver = true
  hash.update(laws.record.heads())
  return { seed, steps, facts: laws.record.size(), happened, violations, hash: hash.digest('hex'), trace }
}

const settled = (): Promise<void> => new Promise((done) => setImmediate(done))

function assemble(seed: number, note: (what: string) => void, happened: (what: string) => void): Cluster {
  const random = createRandom(seed)
  const disk = memoryDisk()
  const violations: string[] = []
  const fail = (message: string): void => {
    violations.push(message)
    note(`VIOLATED: ${message}`)
  }
  let faulty = true
  let lives = 0
  const isFaulty = (): boolean => faulty
  const scheduler = createScheduler(random, isFaulty)
  const servers = new Map<string, Server | null>(NAMES.map((name) => [name, null]))
  const byWrites = new Map<string, Server>()
  const disturbed = new Map<Server, number>()
  const all = (): Server[] => [...servers.values()].filter((server) => server !== null)
  const offsets = new Map(NAMES.map((name) => [name, Math.floor((random.next() * 2 - 1) * HOUR_MS)]))
  const clients = createServerClients({ random, servers: all, record: () => laws.record, isFaulty, happened, fail })
  const laws: ServerLaws = createServerLaws({
    disk,
    elapsed: scheduler.elapsed,
    servers: all,
    undisturbedSince: (server) => disturbed.get(server) ?? 0,
    serverOf: (writes) => byWrites.get(writes)!,
    onFact(fact) {
      note(`  number ${fact.line.seq}: ${fact.line.action} on ${fact.line.subject}`)
      clients.onFact(fact)
    },
    fail,
  })
  const database = createDatabase({ disk, random, scheduler, isFaulty, happened, onApplied: laws.onApplied })

  function end(server: Server): void {
    server.life.isAlive = false
    database.cut(server.life, true)
    servers.set(server.name, null)
    clients.onGone(server)
  }
  function boot(name: string): void {
    const server = startServer({
      name,
      writes: `${name} ${++lives}`,
      random,
      scheduler,
      database,
      offset: () => offsets.get(name)!,
      onAct: laws.onAct,
      onPost(delivery, by) {
        laws.onPost(delivery, by)
        return !faulty || random.chance(0.8)
      },
      gone: end,
    })
    byWrites.set(server.writes, server)
    servers.set(name, server)
    disturbed.set(server, scheduler.elapsed())
  }
  return {
    random,
    scheduler,
    database,
    clients,
    laws,
    servers,
    offsets,
    heldUp: new Set(),
    losesLeases: seed % 4 === 0,
    violations,
    happened,
    note,
    disturb: (server) => void disturbed.set(server, scheduler.elapsed()),
    boot,
    kill: end,
    heal: () => void (faulty = false),
  }
}

/** One thing happens. */
function step(cluster: Cluster): string {
  const { random, scheduler, clients, servers } = cluster
  scheduler.pass(random.below(12))
  const down = [...servers].flatMap(([name, server]) => (server === null ? [name] : []))
  const choice = random.weighted([
    [scheduler.canRun() ? 70 : 0, 'run'],
    [clients.inFlight() < IN_FLIGHT_MAX ? 14 : 0.2, 'call'],
    [clients.waiting() > 0 ? 8 : 0, 'retry'],
    [!cluster.losesLeases ? 8 : cluster.heldUp.size > 0 ? 24 : 5, 'time passes'],
    [down.length > 0 ? 4 : 0, 'start'],
    [1.6, 'trouble'],
  ])
  if (choice === 'run') return scheduler.runOne()
  if (choice === 'call') return clients.start()
  if (choice === 'retry') clients.retryOne()
  if (choice === 'time passes') scheduler.pass(50 + random.below(400))
  if (choice === 'start') cluster.boot(random.pick(down))
  return choice === 'trouble' ? trouble(cluster) : choice
}

function trouble(cluster: Cluster): string {
  const { random, scheduler, database, servers, offsets, heldUp, happened, disturb } = cluster
  const living = [...servers.values()].filter((server) => server !== null)
  if (living.length === 0) return 'all are down'
  const holders = living.filter((server) => LEASES.some((lease) => server.leases()?.duty(lease).holds()))
  const server = random.pick(cluster.losesLeases && holders.length > 0 && random.chance(0.5) ? holders : living)
  const { life, name } = server
  const what = random.weighted([
    [4, 'pause'],
    [3, 'cut'],
    [2, 'kill'],
    [1, 'stop'],
    [3, 'clock step'],
  ])
  happened(what)
  if (what === 'clock step') offsets.set(name, Math.floor((random.next() * 2 - 1) * HOUR_MS))
  if (what === 'kill') cluster.kill(server)
  if (what === 'stop' && server.isServing()) server.stop()
  const ms = random.pick([300, 2_500, 4_000, 8_000])
  if (what === 'pause' || what === 'cut') {
    if (what === 'pause') life.isPaused = true
    else database.cut(life, true)
    heldUp.add(server)
    disturb(server)
    scheduler.later(ms, () => {
      if (what === 'pause') life.isPaused = false
      else if (life.isAlive) database.cut(life, false)
      heldUp.delete(server)
      disturb(server)
    })
  }
  return `${what} of ${name}`
}

/** The faults are over: all servers are there, and time goes on past everything that waits for it. */
async function quiesce(cluster: Cluster): Promise<void> {
  const { scheduler, database, clients, servers, laws, violations } = cluster
  cluster.note('the faults are over')
  cluster.heal()
  for (const [name, server] of servers) {
    if (server === null) cluster.boot(name)
    else {
      server.life.isPaused = false
      database.cut(server.life, false)
      cluster.disturb(server)
    }
  }
  const isOpen = (): boolean =>
    clients.inFlight() + clients.waiting() > 0 ||
    [...database.disk.docs].some(
      ([key, { text }]) => /^kernel\.(delivery|pending)\//.test(key) || (key.startsWith('sim.note/') && JSON.parse(text).due !== null),
    )
  for (let round = 0; round < ROUNDS_MAX && violations.length === 0 && (round < 8 || isOpen()); round++) {
    await idle(cluster)
    while (clients.retryOne());
    for (const [name, server] of servers) if (server === null) cluster.boot(name)
    // Clocks are at most an hour behind, and nobody is held up for less than a lease lasts.
    scheduler.pass(round > 60 && round % 10 === 0 ? HOUR_MS / 4 : 500)
    if (round > 60) for (const server of servers.values()) if (server) cluster.disturb(server)
  }
  if (violations.length > 0) return
  if (isOpen()) cluster.violations.push(`${clients.inFlight()} calls are never answered, ${clients.waiting()} wait to be sent again`)
  clients.askAll()
  for (let round = 0; round < 40 && clients.inFlight() > 0; round++) {
    await idle(cluster)
    scheduler.pass(500)
  }
  if (clients.inFlight() > 0) violations.push('a server does not answer though all is quiet')
  laws.judgeEnd()
}

async function idle({ scheduler, violations }: Cluster): Promise<void> {
  for (let turn = 0; turn < TURNS_MAX; turn++) {
    await settled()
    if (!scheduler.canRun()) return
    scheduler.runOne()
  }
  violations.push('it does not come to rest')
}
