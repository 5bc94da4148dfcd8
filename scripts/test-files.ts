// Runs the test files that it is given, two at a time and in that order: `node --test` would sort them by name.
import { run } from 'node:test'
import { report } from './reporter.ts'

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
const events = run({ files: process.argv.slice(2), concurrency: 2, signal: interrupted.signal })
for await (const words of report(events, interrupted.signal)) process.stdout.write(words)
