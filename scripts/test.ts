// `npm test`: the checks, then every test/**/*.test.ts. `npm test -- test/kernel` runs only those tests; words that begin
// with a dash go to Node (`npm test -- test/kernel --test-name-pattern=chain`). `npm run test:long` leaves out nothing of the simulation.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { globSync } from 'node:fs'
import { join, normalize } from 'node:path'
import { check } from './check.ts'
import { chosenBy, VARIABLE, wordsFor } from '#test/simulation/choice.ts'
import { testTimeoutMs } from './reporter.ts'
import { inOrder } from './test-order.ts'
import { openRun } from './test-run.ts'

const root = join(import.meta.dirname, '..')
process.chdir(root)

const words = process.argv.slice(2)
const flags = words.filter((word) => word.startsWith('-'))
const filters = words.filter((word) => !word.startsWith('-')).map((word) => normalize(word).replace(/\/$/, ''))

function heading(title: string): void {
  console.log(`\n=== ${title}`)
}

/** The test files to run. The checks have run the architecture test already. */
function select(): string[] {
  const all = inOrder(globSync('test/**/*.test.ts'))
  if (filters.length === 0) return all.filter((file) => file !== 'test/laws/architecture.test.ts')
  return all.filter((file) => filters.some((filter) => file === filter || file.startsWith(`${filter}/`)))
}

async function runTests(files: string[], env: Record<string, string>): Promise<number> {
  const args = [`--test-timeout=${testTimeoutMs}`, ...flags, 'scripts/test-files.ts', ...files]
  const child = spawn(process.execPath, args, { stdio: 'inherit', env: { ...process.env, ...env } })
  // A terminal sends Ctrl-C to the child too: wait for its report.
  process.on('SIGINT', () => {})
  process.on('SIGTERM', () => child.kill('SIGTERM'))
  const [code] = (await once(child, 'exit')) as [number | null]
  return code ?? 1
}

const failed: string[] = []

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
  if ((await runTests(files, { ...run.env, [VARIABLE]: choice.name })) !== 0) failed.push('tests')
  for (const words of run.close()) {
    console.log(words)
    failed.push('a clean end')
  }
}

if (failed.length > 0) console.log(`\nFAILED: ${[...new Set(failed)].join(', ')}`)
process.exitCode = failed.length === 0 ? 0 : 1
