// Round trips beside what people would use instead: ask, a person answers, the asker has the answer. Only if it is asked for: it installs
// the peers into the user's cache.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { lossesOf, type Losses } from './peers/losses.ts'
import type { Peer, Running } from './peers/peer.ts'
import { inMemory, ownOnPostgres, ownOnSqlite, restate, withFile, withPostgres } from './peers/start.ts'
import { syncsOf } from './peers/syncs.ts'
import { askOpen, loneTrips, trips, type Trips } from './peers/trips.ts'
import { median, ms, rate, times, type Bench, type Row } from './report.ts'

const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 5)
const OPEN = Number(process.env['BENCH_OPEN'] ?? 10_000)
const ONLY = (process.env['BENCH_PEERS'] ?? '').split(',').filter(Boolean)
const IN_FLIGHT = 64
const [ROUND_MS, LONE_MS, WARM_MS, LONE_TRIPS] = [2_500, 1_000, 2_000, 20]
const KB = 1_024
const goals = { rate: 2.2, cpu: 0.45 }

type Kind = 'many' | 'lone' | 'open'
type Measured = {
  readonly peer: Peer
  running: Running
  readonly rounds: Record<Kind, Trips[]>
  syncs: string
  losses: Losses | null
  memoryMb: Record<'few' | 'open', number>
}

/** Memory that belongs to the processes alone, shared pages divided among them. */
const memoryMbOf = (pids: readonly number[]): number =>
  pids.reduce((sum, pid) => {
    try {
      return sum + Number(/^Pss:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1] ?? 0) / KB
    } catch {
      return sum
    }
  }, 0)

const allIn = (folder: string): Record<string, Peer> => ({
  sqlite: ownOnSqlite(join(folder, 'sqlite')),
  postgres: ownOnPostgres(join(folder, 'postgres')),
  restate: restate(join(folder, 'restate')),
  openai: withFile('openai', 'OpenAI Agents', 'own table in SQLite, WAL, synchronous=FULL', join(folder, 'openai')),
  mastra: withFile('mastra', 'Mastra', 'LibSQL as its store opens it', join(folder, 'mastra')),
  dbos: withPostgres('dbos', 'DBOS', 'PostgreSQL, fsync=on'),
  langgraph: withPostgres('langgraph', 'LangGraph', 'PostgreSQL, fsync=on, durability: sync'),
  memory: inMemory(),
})

export const peers: Bench = {
  name: 'peers',
  message: `round trips from a question to its answer, beside Restate, DBOS, LangGraph, Mastra and OpenAI Agents; only by name`,
  isByName: true,
  async run(say) {
    const folder = mkdtempSync(join(process.env['BENCH_FOLDER'] ?? tmpdir(), 'countersign-peers-'))
    const all: Measured[] = []
    try {
      for (const [name, peer] of Object.entries(allIn(folder))) {
        if (ONLY.length > 0 && !ONLY.includes(name)) continue
        const started = await startPeer(peer, say)
        if (started) all.push(started)
      }
      await roundsOf(all, ['many', 'lone'], say)
      for (const measured of all) measured.memoryMb.few = memoryMbOf(measured.running.pids())
      for (const measured of all) await killed(measured, say)
      for (const { peer, running } of all) {
        say(`${peer.name}: asking ${OPEN.toLocaleString('en')} questions that stay open`)
        await askOpen(running, OPEN, IN_FLIGHT)
      }
      await roundsOf(all, ['open'], say)
      for (const measured of all) measured.memoryMb.open = memoryMbOf(measured.running.pids())
      return [...all.flatMap(rowsOf), ...againstRestate(all)]
    } finally {
      for (const { running } of all) await running.stop().catch((error: unknown) => say(String(error)))
      rmSync(folder, { recursive: true, force: true })
    }
  },
}

/** Null if it cannot be installed or started: it is named and left out. */
async function startPeer(peer: Peer, say: (line: string) => void): Promise<Measured | null> {
  try {
    const running = await peer.start(false)
    await trips(running, IN_FLIGHT, WARM_MS)
    const syncs = await syncsOf(running.pids(), LONE_TRIPS, () => loneTrips(running, LONE_TRIPS))
    say(`${peer.name}: ${peer.setting}; ${syncs}`)
    const rounds = { many: [], lone: [], open: [] }
    return { peer, running, rounds, syncs, losses: null, memoryMb: { few: Number.NaN, open: Number.NaN } }
  } catch (error) {
    say(`${peer.name} is left out: ${error instanceof Error ? error.message : String(error)}`)
    return null
  }
}

async function roundsOf(all: readonly Measured[], kinds: readonly Kind[], say: (line: string) => void): Promise<void> {
  for (let i = 1; i <= ROUNDS; i++) {
    for (const { running, rounds } of all)
      for (const kind of kinds)
        rounds[kind].push(await trips(running, kind === 'lone' ? 1 : IN_FLIGHT, kind === 'lone' ? LONE_MS : ROUND_MS))
    const line = ({ peer, rounds }: Measured): string =>
      `${peer.name} ${kinds.map((kind) => `${rate(rounds[kind].at(-1)!.perSecond)} ${Math.round(rounds[kind].at(-1)!.cpuUs)} us`).join(', ')}`
    say(`round ${i} of ${ROUNDS} (${kinds.join(', ')}): ${all.map(line).join('; ')}`)
  }
}

async function killed(measured: Measured, say: (line: string) => void): Promise<void> {
  const { losses, again } = await lossesOf(measured.peer, measured.running, IN_FLIGHT)
  measured.losses = losses
  measured.running = again
  say(
    `${measured.peer.name}: of ${losses.acknowledged} acknowledged questions, ${losses.questions} questions and ${losses.answers} answers were lost by kill -9`,
  )
}

function rowsOf({ peer, rounds, syncs, losses, memoryMb }: Measured): Row[] {
  const row = (what: string, kind: Kind, memory: number | null): Row => {
    const of = (figure: keyof Trips): number => median(rounds[kind].map((round) => round[figure]))
    const memoryText = memory === null ? '' : `, ${Math.round(memory)} MB`
    return {
      what: `${peer.name}, ${what}`,
      value: rate(of('perSecond')),
      more: `answer to asker p50 ${ms(of('p50'))}, p99 ${ms(of('p99'))}, ${Math.round(of('cpuUs'))} us CPU of all processes${memoryText}`,
    }
  }
  return [
    row(`${IN_FLIGHT} in flight`, 'many', memoryMb.few),
    row('one in flight', 'lone', null),
    row(`${IN_FLIGHT} in flight, ${OPEN.toLocaleString('en')} open`, 'open', memoryMb.open),
    { what: `${peer.name}, syncs`, value: syncs, more: peer.setting },
    {
      what: `${peer.name}, lost by kill -9`,
      value: `${losses!.questions} questions, ${losses!.answers} answers`,
      more: `of ${losses!.acknowledged}`,
    },
  ]
}

function againstRestate(all: readonly Measured[]): Row[] {
  const [own, other] = ['Countersign, SQLite', 'Restate'].map((name) => all.find(({ peer }) => peer.name === name)?.rounds.many)
  if (!own || !other) return []
  const perSecond = median(own.map((round, i) => round.perSecond / other[i]!.perSecond))
  const cpu = median(own.map((round, i) => round.cpuUs / other[i]!.cpuUs))
  return [
    { what: 'round trips against Restate', value: times(perSecond), goal: { message: `>= ${goals.rate}x`, met: perSecond >= goals.rate } },
    { what: 'CPU time against Restate', value: times(cpu), goal: { message: `<= ${goals.cpu}x`, met: cpu <= goals.cpu } },
  ]
}
