// `npm run check`: every check that does not run the code, each tool in its own process. The steps run concurrently and report in the order of
// the table. `npm run check -- --commits [range]` checks the subjects of commits instead.
import { spawn } from 'node:child_process'
import { delimiter, join } from 'node:path'
import { checkCommits } from './commits.ts'

const root = join(import.meta.dirname, '..')

const steps: Record<string, string[]> = {
  types: ['tsc'],
  'page types': ['tsc', '-p', 'src/web'],
  lint: ['oxlint', '--type-aware', '--deny-warnings'],
  format: ['oxfmt', '--check'],
  architecture: [process.execPath, '--test', '--test-reporter=spec', 'test/laws/architecture.test.ts', 'test/laws/names.test.ts'],
  places: [process.execPath, 'scripts/places.ts'],
  unused: ['knip', '--no-progress'],
}

type Outcome = { code: number; output: string; ms: number }

function run([command = '', ...args]: string[]): Promise<Outcome> {
  const started = performance.now()
  const path = [join(root, 'node_modules', '.bin'), process.env['PATH']].join(delimiter)
  const { promise, resolve } = Promise.withResolvers<Outcome>()
  const child = spawn(command, args, { cwd: root, env: { ...process.env, PATH: path }, stdio: ['ignore', 'pipe', 'pipe'] })
  const parts: string[] = []
  const end = (code: number) => resolve({ code, output: parts.join('').trim(), ms: performance.now() - started })
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (part: string) => parts.push(part))
  child.on('error', (error) => {
    parts.push(String(error))
    end(1)
  })
  child.on('close', (code) => end(code ?? 1))
  return promise
}

/** Runs all steps and returns the names of those that failed. */
export async function check(): Promise<string[]> {
  const failed: string[] = []
  const running = Object.entries(steps).map(([name, command]) => ({ name, command, outcome: run(command) }))
  for (const { name, command, outcome } of running) {
    const { code, output, ms } = await outcome
    console.log(`${code === 0 ? '✔' : '✖'} ${name.padEnd(13)} ${(ms / 1000).toFixed(1)} s`)
    if (code === 0) continue
    failed.push(name)
    const shown = command.map((word) => (word === process.execPath ? 'node' : word)).join(' ')
    console.log(`\n$ ${shown}\n${output}\n`)
  }
  if (failed.includes('format')) console.log('`npm run format` formats the code.\n')
  return failed
}

async function main([option, range, ...others]: readonly string[]): Promise<number> {
  if (option === undefined) return (await check()).length === 0 ? 0 : 1
  if (option !== '--commits' || others.length > 0) {
    console.error('usage: npm run check, or npm run check -- --commits [range]')
    return 2
  }
  const { code, lines } = checkCommits(root, range)
  for (const line of lines) console.log(line)
  return code
}

if (import.meta.main) process.exitCode = await main(process.argv.slice(2))
