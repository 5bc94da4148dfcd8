// A newcomer's first `npm start`: from a clone in an empty folder, with an empty cache of npm, until the server says that it is ready.
// BENCH_AGAINST names another commit, which takes turns with this one.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { foreignEnv } from '#test/support/as-processes/clone.ts'
import { median, times, type Bench, type Row } from './report.ts'

const ROUNDS = 3
const root = join(import.meta.dirname, '..')

type First = { readonly seconds: number; readonly mb: number; readonly againSeconds: number }

const outputOf = (command: string, args: readonly string[], cwd = root): string =>
  execFileSync(command, args, { cwd, encoding: 'utf8' }).trim()
const seconds = (value: number): string => `${value.toFixed(1)} s`

export const install: Bench = {
  name: 'install',
  message: 'the first `npm start` in a fresh clone, with an empty cache, and the second one; needs the registry of npm',
  async run(say) {
    const commits = ['HEAD', ...(process.env['BENCH_AGAINST'] === undefined ? [] : [process.env['BENCH_AGAINST']])]
    const measured = new Map<string, First[]>(commits.map((commit) => [commit, []]))
    for (let round = 1; round <= ROUNDS; round++) {
      for (const commit of round % 2 === 1 ? commits : commits.toReversed()) {
        const first = await firstStart(commit)
        measured.get(commit)!.push(first)
        say(
          `round ${round} of ${ROUNDS}, ${commit}: ${first.mb} MB, ready after ${seconds(first.seconds)}, again ${seconds(first.againSeconds)}`,
        )
      }
    }
    return rowsOf(measured)
  },
}

function rowsOf(measured: ReadonlyMap<string, readonly First[]>): Row[] {
  const [here, there] = [...measured.values()]
  const middle = (all: readonly First[], of: keyof First): number => median(all.map((first) => first[of]))
  const against = (of: keyof First, unit: string, digits: number): string =>
    there === undefined ? '' : `${times(middle(here!, of) / middle(there, of))} of ${middle(there, of).toFixed(digits)} ${unit}`
  return [
    { what: 'node_modules', value: `${middle(here!, 'mb')} MB`, more: against('mb', 'MB', 0) },
    { what: 'until the server is ready, first', value: seconds(middle(here!, 'seconds')), more: against('seconds', 's', 1) },
    { what: 'until the server is ready, again', value: seconds(middle(here!, 'againSeconds')), more: against('againSeconds', 's', 1) },
  ]
}

async function firstStart(commit: string): Promise<First> {
  const folder = mkdtempSync(join(process.env['BENCH_FOLDER'] ?? tmpdir(), 'countersign-install-'))
  try {
    const clone = join(folder, 'clone')
    mkdirSync(join(folder, 'home'))
    outputOf('git', ['clone', '--quiet', root, clone])
    outputOf('git', ['checkout', '--quiet', outputOf('git', ['rev-parse', commit])], clone)
    const env = {
      ...foreignEnv(join(folder, 'home')),
      // The Node of this run lies in a node_modules and is not the newcomer's.
      PATH: process.env['PATH']!.split(delimiter)
        .filter((part) => !part.includes('node_modules'))
        .join(delimiter),
      COUNTERSIGN_PORT: '0',
    }
    const first = await untilReady(clone, env)
    const mb = Math.round(Number(outputOf('du', ['-sk', 'node_modules'], clone).split('\t')[0]) / 1_024)
    return { seconds: first, mb, againSeconds: await untilReady(clone, env) }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

async function untilReady(cwd: string, env: Record<string, string>): Promise<number> {
  const began = performance.now()
  // In a group of its own: npm passes signals on only to a shell.
  const child = spawn('npm', ['start'], { cwd, env, stdio: ['ignore', 'pipe', 'pipe'], detached: true })
  const { promise, resolve, reject } = Promise.withResolvers<number>()
  let heard = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (part: string) => {
      heard += part
      if (/^countersign ready /m.test(heard)) resolve((performance.now() - began) / 1_000)
    })
  const gone = once(child, 'exit')
  void gone.then(() => reject(new Error(`the server did not start: ${heard}`)))
  const spent = await promise
  process.kill(-child.pid!, 'SIGTERM')
  await gone
  return spent
}
