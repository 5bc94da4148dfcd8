// Two checkouts in turn: CPU time of the server for each call, this one beside another. Rounds alternate, so that whatever else the
// machine does falls on both.
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { enroll, spawnServer, type ServerProcess } from '#test/support/as-processes/server.ts'
import { body } from './http.ts'
import { answer, question, roundOf, steps as asking, timed, type Target } from './hxp.ts'
import { load, openConnection, requestBytes } from './load.ts'
import { median, times, usageOf, type Bench, type Row } from './report.ts'

const ROUNDS = Number(process.env['BENCH_ROUNDS'] ?? 7)
const ROUND_MS = 1_500
const WARM_ROUNDS = 3
const CONNECTIONS = 64
const LONE_CALLS = 80
/** The bytes that a lone call writes to the log of the database, at most this part of the other one's. */
const LOG_BYTES_MAX = 0.6
const RSS_MB_MAX = 260
/** At most this part of what the other one takes. */
const goals = { 'task.create': 0.95, create: 0.88, poll: 0.95, resolve: 0.8 } as const
type Step = keyof typeof goals
const steps: readonly Step[] = ['task.create', ...asking]

/** The places that the program has had so far. */
const MAINS = ['src/apps/server/main.ts', 'src/apps/main.ts']

async function serverOf(checkout: string, data: string): Promise<ServerProcess> {
  const main = MAINS.map((path) => join(checkout, path)).find((path) => existsSync(path))
  if (main === undefined) throw new Error(`${checkout} is no checkout of countersign: there is none of ${MAINS.join(', ')} in it`)
  // Both from a warm cache, as a server that was started before: the compiler of types takes memory of its own.
  // Each with the flags that its own release starts with.
  const { memoryFlags } = (await import(join(checkout, 'src/apps/cli/serve.ts'))) as { memoryFlags: readonly string[] }
  const started = await spawnServer([...memoryFlags, main], {
    MALLOC_ARENA_MAX: '1',
    NODE_COMPILE_CACHE: join(checkout, 'node_modules/.cache/node'),
    COUNTERSIGN_DATA: data,
    COUNTERSIGN_PORT: '0',
    COUNTERSIGN_LOG: 'error',
    COUNTERSIGN_QUOTA: 'off',
  })
  return { ...started, adminKey: readFileSync(join(data, 'admin.key'), 'utf8').trim() }
}

async function round(target: Target, forMs: number): Promise<Record<Step, number>> {
  const request = requestBytes('/v1/collaboration/task.create', target.person, body)
  const creates = await timed(target, () => load(target.port, CONNECTIONS, request, forMs))
  const asked = await roundOf(target, forMs)
  const us = (measured: { readonly cpuUs: number | null } | undefined): number => measured?.cpuUs ?? Number.NaN
  return { 'task.create': us(creates), create: us(asked.create), poll: us(asked.poll), resolve: us(asked.resolve) }
}

/** Bytes of the log that lone calls write, one after the other, before the log was moved for the first time: medians. */
async function logBytesOf({ port, agent, person }: Target, data: string): Promise<Record<'ask' | 'answer', number>> {
  const log = join(data, 'countersign.db-wal')
  const connection = await openConnection(port)
  const written = { ask: [] as number[], answer: [] as number[] }
  const send = async (step: keyof typeof written, request: Uint8Array): Promise<string> => {
    const before = statSync(log).size
    const { status, body } = await connection.send(request)
    if (status !== 200 && status !== 201) throw new Error(`answered ${status}: ${body.toString()}`)
    written[step].push(statSync(log).size - before)
    return body.toString()
  }
  const ids: string[] = []
  const asked = requestBytes('/hxp/v1/requests', agent, question)
  for (let i = 0; i < LONE_CALLS; i++) ids.push(/"request_id":"([^"]+)"/.exec(await send('ask', asked))![1]!)
  for (const id of ids) await send('answer', requestBytes(`/hxp/v1/requests/${id}/resolve`, person, answer))
  connection.close()
  return { ask: median(written.ask), answer: median(written.answer) }
}

export const against = (checkout: string): Bench => ({
  name: 'against',
  message: `CPU time of each call beside ${checkout}, ${ROUNDS} rounds in turn`,
  async run(say) {
    const folder = mkdtempSync(join(process.env['BENCH_FOLDER'] ?? tmpdir(), 'countersign-against-'))
    const places = { ours: join(import.meta.dirname, '..'), theirs: resolve(checkout) }
    const all: {
      name: string
      server: ServerProcess
      target: Target
      rounds: Record<Step, number>[]
      log: Record<'ask' | 'answer', number>
    }[] = []
    try {
      for (const [name, place] of Object.entries(places)) {
        const server = await serverOf(place, join(folder, name))
        const { alice, devin } = await enroll(server.port, server.adminKey)
        const target = { pid: server.pid, port: server.port, agent: devin, person: alice, steps: asking }
        all.push({ name, server, target, rounds: [], log: await logBytesOf(target, join(folder, name)) })
      }
      for (let i = 0; i < WARM_ROUNDS; i++) for (const { target } of all) await round(target, ROUND_MS)
      for (let i = 1; i <= ROUNDS; i++) {
        for (const { target, rounds } of all) rounds.push(await round(target, ROUND_MS))
        const message = (of: Record<Step, number>): string => steps.map((step) => `${step} ${Math.round(of[step])} us`).join(', ')
        say(`round ${i} of ${ROUNDS}: ${all.map(({ name, rounds }) => `${name} ${message(rounds.at(-1)!)}`).join('; ')}`)
      }
      const [ours, theirs] = all.map(({ rounds }) => rounds) as [Record<Step, number>[], Record<Step, number>[]]
      const logRows = (['ask', 'answer'] as const).map((step) => logRow(step, all[0]!.log[step], all[1]!.log[step]))
      return [...steps.map((step) => rowOf(step, ours, theirs)), ...logRows, memoryRow(all[0]!.server.pid)]
    } finally {
      await Promise.all(all.map(({ server }) => server.end('SIGTERM')))
      rmSync(folder, { recursive: true, force: true })
    }
  },
})

function rowOf(step: Step, ours: readonly Record<Step, number>[], theirs: readonly Record<Step, number>[]): Row {
  const of = (rounds: readonly Record<Step, number>[]): number => median(rounds.map((one) => one[step]))
  const ratio = median(ours.map((one, i) => one[step] / theirs[i]![step]))
  const goal = { message: `<= ${goals[step]}x`, met: ratio <= goals[step] }
  const what = step === 'task.create' ? 'task.create' : `HXP ${step}`
  return { what, value: times(ratio), more: `${Math.round(of(ours))} and ${Math.round(of(theirs))} us CPU each`, goal }
}

function logRow(step: string, ours: number, theirs: number): Row {
  const goal = { message: `<= ${LOG_BYTES_MAX}x`, met: ours / theirs <= LOG_BYTES_MAX }
  return { what: `bytes of the log, a lone ${step}`, value: times(ours / theirs), more: `${ours} and ${theirs}`, goal }
}

function memoryRow(pid: number): Row {
  const rss = usageOf(pid)?.rssMb ?? Number.NaN
  return { what: 'resident memory', value: `${Math.round(rss)} MB`, goal: { message: `< ${RSS_MB_MAX} MB`, met: rss < RSS_MB_MAX } }
}
