// A reporter for thousands of tests: every failure in full when it happens, one line per file as it ends, then Node's own summary.
// It also ends a run that hangs: Node's --test-timeout covers a test, not a file that a leaked handle keeps alive.
import { relative, resolve } from 'node:path'
import type { EventData } from 'node:test'
import type { TestEvent } from 'node:test/reporters'
import { inspect } from 'node:util'

/** Ends a test that hangs. It is no measurement: a busy machine needs minutes for the longest ones. */
export const testTimeoutMs = 300_000
/** Between tests a file is loaded or ends, which takes long on a busy machine. */
const stallMs = { betweenTests: 90_000, withinTest: 310_000 }

/** Node's test ids are unique within one file, which is one process. */
type Test = EventData.TestDequeue | EventData.TestComplete
type File = { tests: number; failures: string[]; open: Map<number, Test>; output: string; begun: boolean; ended: boolean }
/** Fields that Node's errors carry beyond their published type. */
type Failure = Error & { failureType?: string; exitCode?: number }

const outputLengthMax = 100_000
/** Whether a flag leaves tests out, so that a file may have none to run. */
const isPartial = [...process.execArgv, ...process.argv].some((flag) => /^--test-(name-pattern|skip-pattern|only|shard)/.test(flag))
const files = new Map<string, File>()

const nameOf = (path: string | undefined): string => (path === undefined ? '(no file)' : relative(process.cwd(), resolve(path)))

function fileOf(path: string | undefined): File {
  const key = nameOf(path)
  const file = files.get(key) ?? { tests: 0, failures: [], open: new Map(), output: '', begun: false, ended: false }
  files.set(key, file)
  return file
}

/** The file that was run: a test may be declared by a helper that it imports. */
const entryOf = (test: Test): string | undefined => (test as { entryFile?: string }).entryFile ?? test.file

/** Each file is a test to Node as well. */
const isFile = ({ name, file }: Test): boolean => file !== undefined && resolve(name) === resolve(file)

/** The name of a test after the names of the suites around it. */
function titleOf(file: File, test: Test): string {
  const parent = file.open.get(test.parentId ?? 0)
  return parent === undefined ? test.name : `${titleOf(file, parent)} > ${test.name}`
}

function explain(error: Failure | undefined): string {
  if (error?.exitCode !== undefined) return `the process ended with exit code ${error.exitCode}`
  const cause = error?.cause ?? error?.message
  return typeof cause === 'string' ? cause : inspect(cause, { depth: 8 })
}

/** The text that is printed immediately. */
function endTest(result: EventData.TestComplete): string {
  const file = fileOf(entryOf(result))
  const { passed, type } = result.details
  const error: Failure | undefined = result.details.error
  if (type !== 'suite') file.tests += 1
  const title = titleOf(file, result)
  file.open.delete(result.testId)
  // A part that was left out must not pass for one that was run.
  if (result.skip !== undefined)
    return `- ${nameOf(entryOf(result))}: ${title}: left out${typeof result.skip === 'string' ? `, ${result.skip}` : ''}\n`
  // A suite or a test around a failed one fails as well: only the innermost has something to say.
  if (passed || result.todo !== undefined || error?.failureType === 'subtestsFailed') return ''
  file.failures.push(title)
  return `\n✖ ${nameOf(entryOf(result))}: ${title}\n${explain(error)}\n\n`
}

function endFile(result: EventData.TestComplete): string {
  const file = fileOf(result.file)
  const { passed, duration_ms, error } = result.details
  file.ended = true
  const { failureType }: Partial<Failure> = error ?? {}
  if (failureType === 'testAborted' && !file.begun) return ''
  if (failureType === 'testAborted') file.failures.push(unended)
  else if (!passed && file.failures.length === 0) file.failures.push(explain(error))
  if (passed && file.tests === 0 && !isPartial) file.failures.push('has no tests')
  const isGood = file.failures.length === 0
  const line = `${isGood ? '✔' : '✖'} ${result.name}  ${file.tests} tests, ${(duration_ms / 1000).toFixed(1)} s\n`
  return isGood ? line : `${line}${printedBy(result.name, file)}`
}

const printedBy = (name: string, { output }: File): string => (output === '' ? '' : `printed by ${name}:\n${output}\n`)

const unended = 'did not end: it was interrupted, a test hangs, or a handle (server, socket, timer) was left open'

/** Ends the run when nothing has happened for too long; the files that were under way are stopped then, and each is reported. */
function watch(): { touch(): void; stop(): void } {
  let touched = performance.now()
  const timer = setInterval(() => {
    const isWithin = files.values().some((file) => !file.ended && file.open.size > 0)
    if (performance.now() - touched > (isWithin ? stallMs.withinTest : stallMs.betweenTests)) process.kill(process.pid, 'SIGTERM')
  }, 1000)
  timer.unref()
  return { touch: () => (touched = performance.now()), stop: () => clearInterval(timer) }
}

/** The files in which something failed. */
export const failedFiles = (): string[] => [...files].filter(([, file]) => file.failures.length > 0).map(([name]) => name)

export async function* report(events: AsyncIterable<TestEvent>, interrupted: AbortSignal): AsyncGenerator<string> {
  const summary: string[] = []
  const watchdog = watch()
  for await (const { type, data } of events) {
    watchdog.touch()
    if (type === 'test:dequeue' && isFile(data)) fileOf(data.file).begun = !interrupted.aborted
    else if (type === 'test:dequeue') fileOf(entryOf(data)).open.set(data.testId, data)
    if (type === 'test:complete' && isFile(data)) yield endFile(data)
    else if (type === 'test:complete') yield endTest(data)
    if (type === 'test:stdout' || type === 'test:stderr') {
      const file = fileOf(data.file)
      file.output = (file.output + data.message).slice(-outputLengthMax)
    }
    if (type === 'test:diagnostic' && data.nesting === 0 && data.file === undefined) summary.push(data.message)
  }
  watchdog.stop()
  yield conclusion(summary)
}

/** Node's summary, or ours when Node was interrupted before it could write one, and the name of every test that failed. */
function conclusion(summary: string[]): string {
  const executed = files.values().reduce((sum, file) => sum + file.tests, 0)
  const failed = files.values().reduce((sum, file) => sum + file.failures.length, 0)
  // Node is content with files that hold no tests.
  if (executed === 0 || failed > 0) process.exitCode = 1
  const names = files.entries().flatMap(([name, file]) => file.failures.map((failure) => `✖ ${name}: ${failure.split('\n', 1)[0]}\n`))
  const lines = summary.length > 0 ? summary : [`tests ${executed}`, `fail ${failed}`]
  return `${executed === 0 ? '\nno test was run\n' : ''}\n${lines.map((line) => `ℹ ${line}\n`).join('')}${[...names].join('')}`
}
