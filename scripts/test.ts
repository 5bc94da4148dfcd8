// `npm test`: the checks, then every test/**/*.test.ts. `npm test -- test/kernel` runs only those tests; words that begin
// with a dash go to Node (`npm test -- test/kernel --test-name-pattern=chain`). `npm run test:long` leaves out nothing of the simulation.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { globSync, readFileSync } from 'node:fs'
import { join, normalize } from 'node:path'
import { check } from './check.ts'
import { chosenBy, VARIABLE, wordsFor } from '#test/simulation/choice.ts'
import { testTimeoutMs } from './reporter.ts'
import { inOrder } from './test-order.ts'
import { openRun, type TestRun } from './test-run.ts'
import { fetchOldestPostgres, POSTGRES_VARIABLE, startPostgres } from '#test/support/as-processes/postgres.ts'
import { CHROMIUM_VARIABLE, chromiumPath } from '#test/support/browser/chromium.ts'
import { buildWeb } from './web.ts'

const root = join(import.meta.dirname, '..')
process.chdir(root)

const args = process.argv.slice(2)
const flags = args.filter((word) => word.startsWith('-'))
const filters = args.filter((word) => !word.startsWith('-')).map((word) => normalize(word).replace(/\/$/, ''))

function heading(title: string): void {
  console.log(`\n=== ${title}`)
}

const CHECKED = ['test/laws/architecture.test.ts', 'test/laws/names.test.ts']

/** The test files to run, without those that the checks have run already. */
function select(): string[] {
  const all = inOrder(globSync('test/**/*.test.ts'))
  if (filters.length === 0) return all.filter((file) => !CHECKED.includes(file))
  return all.filter((file) => filters.some((filter) => file === filter || file.startsWith(`${filter}/`)))
}

const isPattern = (flag: string): boolean => flag.startsWith('--test-name-pattern=')

async function runTests(files: string[], env: Record<string, string>): Promise<number> {
  const [patterns, others] = [flags.filter(isPattern), flags.filter((flag) => !isPattern(flag))]
  const args = [`--test-timeout=${testTimeoutMs}`, ...others, 'scripts/test-files.ts', ...patterns, ...files]
  const child = spawn(process.execPath, args, { stdio: 'inherit', env: { ...process.env, ...env } })
  // A terminal sends Ctrl-C to the child too: wait for its report.
  process.on('SIGINT', () => {})
  process.on('SIGTERM', () => child.kill('SIGTERM'))
  const [code] = (await once(child, 'exit')) as [number | null]
  return code ?? 1
}

/** One PostgreSQL for the files that speak of one. They make their databases in it. */
async function databaseFor(selected: string[], run: TestRun): Promise<{ env: Record<string, string>; stop(): Promise<void> }> {
  const given = process.env[POSTGRES_VARIABLE] ?? ''
  if (given !== '' && given !== 'off') run.admit(Number(new URL(given).port || 5_432))
  if (given !== '' || !selected.some((file) => /postgres/i.test(readFileSync(file, 'utf8'))))
    return { env: {}, stop: () => Promise.resolve() }
  const { url, port, stop } = await startPostgres({ below: run.folder })
  run.admit(port)
  return { env: { [POSTGRES_VARIABLE]: url }, stop }
}

/** The browser for the files that open one, fetched before they begin. Where there is none they say so themselves. */
function browserFor(selected: string[]): Record<string, string> {
  if (!selected.some((file) => readFileSync(file, 'utf8').includes('support/browser/'))) return {}
  try {
    return { [CHROMIUM_VARIABLE]: chromiumPath() }
  } catch {
    return {}
  }
}

/** A broker of the operator's, if one is named: files that need no power over it use its virtual host. */
function admitBroker(run: TestRun): void {
  const given = process.env['COUNTERSIGN_AMQP_URL'] ?? ''
  if (given !== '') run.admit(Number(new URL(given).port || (given.startsWith('amqps:') ? 5_671 : 5_672)))
}

const failed: string[] = []

// The page of the tests is the one of the sources.
await buildWeb(console.log)

if (filters.length === 0) {
  heading('check')
  failed.push(...(await check()))
}

const files = select()
heading(`tests (${files.length} files)`)
if (files.length === 0) {
  console.log(filters.length === 0 ? 'there are no test files' : `no test file matches ${filters.join(' ')}`)
  failed.push('tests')
} else {
  const choice = chosenBy(process.env[VARIABLE])
  if (files.some((file) => file.startsWith('test/simulation/'))) console.log(wordsFor(choice))
  const run = openRun()
  if (files.some((file) => readFileSync(file, 'utf8').includes('oldestPostgres'))) await fetchOldestPostgres()
  const database = await databaseFor(files, run)
  admitBroker(run)
  const again: Record<string, string> = filters.length === 0 ? { COUNTERSIGN_TEST_AGAIN: 'first' } : {}
  if ((await runTests(files, { ...run.env, ...database.env, ...browserFor(files), ...again, [VARIABLE]: choice.name })) !== 0)
    failed.push('tests')
  await database.stop()
  for (const message of run.close()) {
    console.log(message)
    failed.push('a clean end')
  }
}

if (failed.length > 0) console.log(`\nFAILED: ${[...new Set(failed)].join(', ')}`)
process.exitCode = failed.length === 0 ? 0 : 1
