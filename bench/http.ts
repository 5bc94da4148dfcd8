// A durable, audited mutation over HTTP beside an echo of the same body: two server processes, the same load, alternating rounds.
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { startPostgres, type PostgresServer } from '#test/support/as-processes/postgres.ts'
import { enroll, spawnServer, startServer, type ServerProcess } from '#test/support/as-processes/server.ts'
import { load, requestBytes, type Load } from './load.ts'
import { cpuSecondsOf, median, ms, rate, times, usageOf, type Bench, type Row } from './report.ts'

const FOLDER = process.env['BENCH_FOLDER'] ?? tmpdir()
const CONNECTIONS = 64
const ROUNDS = 5
const ROUND_MS = 3_000
/** A server runs for months: what the first seconds cost, while its code is not compiled yet, is not the question here. */
const WARM_ANSWERS = 40_000
const WARM_MS_MAX = 20_000
const RSS_MB_MAX = 200
/** At most this many times the CPU time of each of these. */
const goals = { bare: 2, insert: 0.8 } as const

const sentence = 'When the password field is empty, the login form answers with a stack trace instead of a message. '
export const body = JSON.stringify({
  type: 'code',
  spec: {
    goal: sentence.repeat(3).trim(),
    acceptance_criteria: ['the form says what is missing', 'a test holds it', 'nothing else changes'],
  },
})

type Target = {
  readonly name: string
  /** The processes that work on an answer, each with its children. */
  readonly pids: readonly number[]
  readonly port: number
  readonly path: string
  readonly bearer: string | null
}

/** Where it is installed, as a second opinion. */
const WRK = 'wrk'
function wrk({ port, path, bearer }: Target, folder: string): string | null {
  const script = join(folder, 'post.lua')
  const quoted = (text: string): string => JSON.stringify(text)
  const headers = [
    `wrk.headers["content-type"] = "application/json"`,
    ...(bearer === null ? [] : [`wrk.headers["authorization"] = ${quoted(`Bearer ${bearer}`)}`]),
  ]
  writeFileSync(script, `wrk.method = "POST"\nwrk.body = ${quoted(body)}\n${headers.join('\n')}\n`)
  const run = spawnSync(WRK, ['-t1', `-c${CONNECTIONS}`, '-d3s', '-s', script, `http://127.0.0.1:${port}${path}`], { encoding: 'utf8' })
  return /Requests\/sec:\s+([\d.]+)/.exec(run.stdout ?? '')?.[1] ?? null
}

/** CPU time of the server that each answer took; if the machine is busy with other things it is the steadier figure. */
type Measured = Load & { readonly cpuUs: number | null }

async function roundsOf(targets: readonly Target[], say: (line: string) => void): Promise<Map<Target, Measured[]>> {
  const measured = new Map<Target, Measured[]>(targets.map((target) => [target, []]))
  const run = async ({ port, path, bearer, pids }: Target, forMs: number): Promise<Measured> => {
    const before = cpuSecondsOf(pids)
    const loaded = await load(port, CONNECTIONS, requestBytes(path, bearer, body), forMs)
    const after = cpuSecondsOf(pids)
    return { ...loaded, cpuUs: before !== null && after !== null ? ((after - before) * 1e6) / loaded.answers : null }
  }
  for (const target of targets) {
    const began = performance.now()
    for (let answers = 0; answers < WARM_ANSWERS && performance.now() - began < WARM_MS_MAX;) answers += (await run(target, 1_000)).answers
  }
  for (let round = 1; round <= ROUNDS; round++) {
    for (const target of targets) measured.get(target)!.push(await run(target, ROUND_MS))
    say(
      `round ${round} of ${ROUNDS}: ${targets.map((target) => `${target.name} ${rate(measured.get(target)!.at(-1)!.perSecond)}`).join(', ')}`,
    )
  }
  return measured
}

function rowOf(target: Target, rounds: readonly Measured[], asWrk: string | null): Row {
  const of = (figure: 'perSecond' | 'p50' | 'p99'): number => median(rounds.map((round) => round[figure]))
  const cpu = cpuOf(rounds)
  const more = [`p50 ${ms(of('p50'))}`, `p99 ${ms(of('p99'))}`, ...(cpu === null ? [] : [`${Math.round(cpu)} us CPU each`])]
  return { what: target.name, value: rate(of('perSecond')), more: [...more, ...(asWrk === null ? [] : [`wrk ${asWrk}/s`])].join(', ') }
}

function cpuOf(rounds: readonly Measured[]): number | null {
  const known = rounds.flatMap(({ cpuUs }) => (cpuUs === null ? [] : [cpuUs]))
  return known.length === 0 ? null : median(known)
}

/** null: there is no PostgreSQL for this platform. */
async function insertsInto(
  say: (line: string) => void,
): Promise<{ database: PostgresServer; handler: Omit<ServerProcess, 'adminKey'> } | null> {
  try {
    const database = await startPostgres({ below: FOLDER })
    return { database, handler: await spawnServer([fileURLToPath(import.meta.resolve('./postgres.ts')), database.url]) }
  } catch (error) {
    say(`without PostgreSQL: ${(error as Error).message}`)
    return null
  }
}

/** How many times the CPU time of another one ours takes, round by round. */
function cpuRow(name: string, ours: readonly Measured[], theirs: readonly Measured[], most: number): Row {
  const ratio = median(ours.map(({ cpuUs }, i) => (cpuUs ?? Number.NaN) / (theirs[i]!.cpuUs ?? Number.NaN)))
  return { what: `task.create against ${name}, by CPU time`, value: times(ratio), goal: { message: `<= ${most}x`, met: ratio <= most } }
}

export const http: Bench = {
  name: 'http',
  message: `task.create over HTTP at ${CONNECTIONS} connections, beside a Fastify echo of the same ${body.length} bytes, a bare durable answer and one INSERT through PostgreSQL`,
  async run(say) {
    const folder = mkdtempSync(join(FOLDER, 'countersign-bench-'))
    const server = await startServer(join(folder, 'data'))
    const echo = await spawnServer([fileURLToPath(import.meta.resolve('./echo.ts'))])
    mkdirSync(join(folder, 'bare'))
    const bare = await spawnServer([fileURLToPath(import.meta.resolve('./bare.ts')), join(folder, 'bare')])
    const inserts = await insertsInto(say)
    try {
      const { alice } = await enroll(server.port, server.adminKey)
      const ours: Target = {
        name: 'task.create',
        pids: [server.pid],
        port: server.port,
        path: '/v1/collaboration/task.create',
        bearer: alice,
      }
      const theirs: Target = { name: 'echo', pids: [echo.pid], port: echo.port, path: '/echo', bearer: null }
      const least: Target = { name: 'bare durable', pids: [bare.pid], port: bare.port, path: '/task', bearer: null }
      const insert: Target | null = inserts && {
        name: 'INSERT through PostgreSQL',
        pids: [inserts.handler.pid, inserts.database.pid],
        port: inserts.handler.port,
        path: '/task',
        bearer: null,
      }
      const targets = [ours, theirs, least, ...(insert ? [insert] : [])]
      const measured = await roundsOf(targets, say)
      const usage = usageOf(server.pid)
      const against = (target: Target): number =>
        median(measured.get(target)!.map(({ perSecond }, i) => perSecond / measured.get(theirs)![i]!.perSecond))
      const ratio = against(ours)
      const cpu = [ours, theirs].map((target) => cpuOf(measured.get(target)!))
      return [
        ...targets.map((target) => rowOf(target, measured.get(target)!, wrk(target, folder))),
        { what: 'task.create against echo', value: times(ratio), goal: { message: '>= 0.35x', met: ratio >= 0.35 } },
        { what: 'bare durable against echo', value: times(against(least)) },
        ...(cpu[0] && cpu[1] ? [{ what: 'task.create against echo, by CPU time alone', value: times(cpu[1] / cpu[0]) }] : []),
        cpuRow('a bare durable answer', measured.get(ours)!, measured.get(least)!, goals.bare),
        ...(insert ? [cpuRow('one INSERT through PostgreSQL', measured.get(ours)!, measured.get(insert)!, goals.insert)] : []),
        ...(usage ? [memoryRow(usage)] : []),
      ]
    } finally {
      await Promise.all([server.end('SIGTERM'), echo.end('SIGKILL'), bare.end('SIGKILL'), inserts?.handler.end('SIGKILL')])
      await inserts?.database.stop()
      rmSync(folder, { recursive: true, force: true })
    }
  },
}

const memoryRow = ({ rssMb, peakMb }: { rssMb: number; peakMb: number }): Row => ({
  what: 'resident memory of the server at most',
  value: `${Math.round(peakMb)} MB`,
  more: `${Math.round(rssMb)} MB after it`,
  goal: { message: `< ${RSS_MB_MAX} MB`, met: peakMb < RSS_MB_MAX },
})
