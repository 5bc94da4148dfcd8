// Runs the test files that it is given, three at a time and in that order: `node --test` would sort them by name.
import { spawnSync } from 'node:child_process'
import { run } from 'node:test'
import { failedFiles, report } from './reporter.ts'

/**
 * With this variable set, as in a whole run, files that failed are run once more, alone: some drive browsers, brokers and several servers, and one hiccup of
 * the machine among thousands of tests must not hide the state of all others. A defect fails twice; an unstable file is named as such.
 */
const AGAIN = 'COUNTERSIGN_TEST_AGAIN'
const turn = process.env[AGAIN]
// Runs within a test are no second try.
delete process.env[AGAIN]
/** More files than these are no hiccup. */
const againMax = 3

/** One more than two cores: files wait for leases, kills and other programs in a third of their time. */
const AT_A_TIME = 3

const interrupted = new AbortController()
/** A program that a test left running holds the test's output open, and Node waits for that: then the run ends without it. */
const END_MS = 20_000
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => {
    process.exitCode = 1
    interrupted.abort()
    setTimeout(() => {
      console.log('\nthe run was interrupted and did not end by itself: a test left a program running')
      process.exit(1)
    }, END_MS).unref()
  })
const args = process.argv.slice(2)
const files = args.filter((word) => !word.startsWith('-'))
/** A flag of Node's with a pattern would be held against the names of the files too. */
const testNamePatterns = args.flatMap((word) => /^--test-name-pattern=(.*)/s.exec(word)?.[1] ?? [])
const events = run({
  files,
  concurrency: turn === 'second' ? 1 : AT_A_TIME,
  signal: interrupted.signal,
  ...(testNamePatterns.length > 0 && { testNamePatterns }),
})
for await (const line of report(events, interrupted.signal)) process.stdout.write(line)

const failed = failedFiles()
if (turn === 'first' && !interrupted.signal.aborted && failed.length > 0 && failed.length <= againMax) {
  console.log(`\n=== once more, alone: ${failed.join(', ')}`)
  const args = [...process.execArgv, import.meta.filename, ...failed]
  const { status } = spawnSync(process.execPath, args, { stdio: 'inherit', env: { ...process.env, [AGAIN]: 'second' } })
  if (status === 0) {
    for (const file of failed) console.log(`UNSTABLE: ${file} failed and then passed alone. Find the reason in its first failure above.`)
    process.exitCode = 0
  }
}
