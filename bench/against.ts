// Two checkouts in turn: CPU time of the server for each call, this one beside another. Rounds alternate, so that whatever else the
// machine does falls on both.
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { memoryFlags } from '#apps/cli/serve.ts'
import { enroll, spawnServer, type ServerProcess } from '#test/support/as-processes/server.ts'
import { body } from './http.ts'
import { roundOf, steps as asking, timed, type Target } from './hxp.ts'
import { load, requestBytes } from './load.ts'
import { median, times, usageOf, type Bench, type Row } from './report.ts'

const ROUNDS = 7
const ROUND_MS = 1_500
const WARM_ROUNDS = 3
const CONNECTIONS = 64
const RSS_MB_MAX = 200
/** At most this part of what the other one takes. */
const goals = { 'task.create': 0.85, create: 0.9, poll: 1, resolve: 0.65 } as const
type Step = keyof typeof goals
const steps: readonly Step[] = ['task.create', ...asking]

/** The places that the program has had so far. */
const MAINS = ['src/apps/server/main.ts', 'src/apps/main.ts']

async function serverOf(checkout: string, data: string): Promise<ServerProcess> {
  const main = MAINS.map((path) => join(checkout, path)).find((path) => existsSync(path))
  if (main === undefined) throw new Error(`${checkout} is no checkout of countersign: there is none of ${MAINS.join(', ')} in it`)
  // Both from a warm cache, as a server that was started before: the compiler of types takes memory of its own.
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
  const made = requestBytes('/v1/collaboration/task.create', target.person, body)
  const own = await timed(target, () => load(target.port, CONNECTIONS, made, forMs))
  const asked = await roundOf(target, forMs)
  const us = (measured: { readonly cpuUs: number | null } | undefined): number => measured?.cpuUs ?? Number.NaN
  return { 'task.create': us(own), create: us(asked.create), poll: us(asked.poll), resolve: us(asked.resolve) }
}

export const against = (checkout: string): Bench => ({
  name: 'against',
  message: `CPU time of each call beside ${checkout}, ${ROUNDS} rounds in turn`,
  async run(say) {
    const folder = mkdtempSync(join(process.env['BENCH_FOLDER'] ?? tmpdir(), 'countersign-against-'))
    const places = { ours: join(import.meta.dirname, '..'), theirs: resolve(checkout) }
    const all: { name: string; server: ServerProcess; target: Target; rounds: Record<Step, number>[] }[] = []
    try {
      for (const [name, place] of Object.entries(places)) {
        const server = await serverOf(place, join(folder, name))
        const { alice, devin } = await enroll(server.port, server.adminKey)
        const target = { pid: server.pid, port: server.port, agent: devin, person: alice, steps: asking }
        all.push({ name, server, target, rounds: [] })
      }
      for (let i = 0; i < WARM_ROUNDS; i++) for (const { target } of all) await round(target, ROUND_MS)
      for (let i = 1; i <= ROUNDS; i++) {
        for (const { target, rounds } of all) rounds.push(await round(target, ROUND_MS))
        const message = (of: Record<Step, number>): string => steps.map((step) => `${step} ${Math.round(of[step])} us`).join(', ')
        say(`round ${i} of ${ROUNDS}: ${all.map(({ name, rounds }) => `${name} ${message(rounds.at(-1)!)}`).join('; ')}`)
      }
      const [ours, theirs] = all.map(({ rounds }) => rounds) as [Record<Step, number>[], Record<Step, number>[]]
      return [...steps.map((step) => rowOf(step, ours, theirs)), memoryRow(all[0]!.server.pid)]
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

function memoryRow(pid: number): Row {
  const rss = usageOf(pid)?.rssMb ?? Number.NaN
  return { what: 'resident memory', value: `${Math.round(rss)} MB`, goal: { message: `< ${RSS_MB_MAX} MB`, met: rss < RSS_MB_MAX } }
}
