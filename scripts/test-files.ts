// Runs the test files that it is given, two at a time and in that order: `node --test` would sort them by name.
import { run } from 'node:test'
import { report } from './reporter.ts'

const interrupted = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => {
    process.exitCode = 1
    interrupted.abort()
  })
const events = run({ files: process.argv.slice(2), concurrency: 2, signal: interrupted.signal })
for await (const words of report(events, interrupted.signal)) process.stdout.write(words)
