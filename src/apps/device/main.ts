// The process of the daemon: flags in, one line out when everything listens, signals, exit codes.
import { createLog } from '../server/log.ts'
import { ConfigError } from '../server/settings/config.ts'
import { StartError } from '../server/start-error.ts'
import { version } from '../version.ts'
import { startDaemon, type Daemon } from './daemon.ts'
import { deviceHelp, readDeviceConfig, type DeviceConfig } from './settings.ts'

const EXIT_USAGE = 2
/** EX_SOFTWARE, as the shell calls it: the disk did not keep its promise. */
const EXIT_STORE = 70
const STOP_MS = 4_800

async function run(config: DeviceConfig): Promise<void> {
  process.umask(0o027)
  const log = createLog(config.log)
  const die = (code: number, words: string) => (error: unknown) => {
    log.fatal({ err: error }, words)
    process.exit(code)
  }
  process.on('uncaughtException', die(1, 'an uncaught error'))
  process.on('unhandledRejection', die(1, 'an uncaught rejection'))
  process.stdout.on('error', () => undefined)
  const starting = startDaemon(config, { log, onFatal: die(EXIT_STORE, 'the store failed, and the state on the disk is unknown') })
  let isStopping = false
  const stop = (): void => {
    if (isStopping) return
    isStopping = true
    setTimeout(() => process.exit(0), STOP_MS).unref()
    void starting
      .then((daemon) => daemon.stop())
      .then(
        () => process.exit(0),
        () => undefined,
      )
  }
  process.on('SIGTERM', stop)
  process.on('SIGINT', stop)
  const rotate = (daemon: Daemon): void => daemon.rotate()
  process.on('SIGHUP', () => void starting.then(rotate, () => undefined))
  const { ready } = await starting
  if (isStopping) return
  process.stdout.write(`countersign device ready ${JSON.stringify(ready)}\n`)
  log.info({ ...ready, version }, 'ready')
}

/** The daemon of this process. */
export async function main(argv: readonly string[]): Promise<void> {
  try {
    if (argv.includes('--help') || argv.includes('-h')) process.stdout.write(deviceHelp())
    else await run(readDeviceConfig(argv, process.env))
  } catch (error) {
    if (!(error instanceof ConfigError) && !(error instanceof StartError)) throw error
    process.stderr.write(`countersign: ${error.message}\n`)
    process.exit(error instanceof ConfigError ? EXIT_USAGE : 1)
  }
}

if (import.meta.main) await main(process.argv.slice(2))
