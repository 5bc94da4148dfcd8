// The process of a server or a daemon: errors that nothing caught, the signals to stop, and the exit codes.
import type { Logger } from './server/log.ts'
import { ConfigError } from './server/settings/config-error.ts'
import { StartError } from './server/start-error.ts'

const EXIT_USAGE = 2
/** EX_SOFTWARE in the words of the shell: the disk did not keep its promise; a supervisor starts the process again and the store recovers. */
const EXIT_STORE = 70

/** Has every error that nothing caught end the process. Returns how a failure of the store does. */
export function dieOfErrors(log: Logger): (error: unknown) => void {
  const die = (code: number, message: string) => (error: unknown) => {
    log.fatal({ err: error }, message)
    process.exit(code)
  }
  process.on('uncaughtException', die(1, 'an uncaught error'))
  process.on('unhandledRejection', die(1, 'an uncaught rejection'))
  // A reader that takes the first line and goes away does not take the process along.
  process.stdout.on('error', () => undefined)
  return die(EXIT_STORE, 'the store failed, and the state on the disk is unknown')
}

/** Stops with the first signal. A second one changes nothing: what is under way is finished, and that takes seconds at most. */
export function stopOnSignal(stopping: AbortController, starting: Promise<{ stop(): Promise<void> }>): void {
  const stop = (): void => {
    if (stopping.signal.aborted) return
    stopping.abort()
    // The caller that awaits the start gets its failure.
    void starting
      .then((started) => started.stop())
      .then(
        () => process.exit(0),
        () => undefined,
      )
  }
  process.on('SIGTERM', stop)
  process.on('SIGINT', stop)
}

/** The flags with a log level for people: the lines that an operator's log collector wants are noise at a terminal. */
export const quietAtTerminal = (argv: readonly string[]): readonly string[] =>
  process.stderr.isTTY && !process.env['COUNTERSIGN_LOG'] && !argv.some((word) => /^--log(=|$)/.test(word))
    ? [...argv, '--log', 'warn']
    : argv

/** Runs the process. Invalid settings and failed starts print one line. */
export async function runProcess(run: () => Promise<void>): Promise<void> {
  try {
    await run()
  } catch (error) {
    if (!(error instanceof ConfigError) && !(error instanceof StartError)) throw error
    process.stderr.write(`countersign: ${error.message}\n`)
    process.exit(error instanceof ConfigError ? EXIT_USAGE : 1)
  }
}
