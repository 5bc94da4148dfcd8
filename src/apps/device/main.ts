// The process of the daemon: flags in, one line out when everything listens, signals, exit codes.
import { dieOfErrors, quietAtTerminal, runProcess, stopOnSignal } from '../process.ts'
import { createLog } from '../server/log.ts'
import { version } from '../version.ts'
import { startDaemon, type Daemon } from './daemon.ts'
import { deviceHelp, readDeviceConfig, type DeviceConfig } from './settings.ts'

/** The process exits after this time, even if a stop is unfinished. */
const STOP_MS = 4_800

async function run(config: DeviceConfig): Promise<void> {
  // Never looser than the service manager has set it.
  process.umask(process.umask() | 0o027)
  const log = createLog(config.log)
  const stopping = new AbortController()
  const starting = startDaemon(config, { log, onFatal: dieOfErrors(log) })
  stopping.signal.addEventListener('abort', () => setTimeout(() => process.exit(0), STOP_MS).unref())
  stopOnSignal(stopping, starting)
  const rotate = (daemon: Daemon): void => daemon.rotate()
  process.on('SIGHUP', () => void starting.then(rotate, () => undefined))
  const { ready } = await starting
  if (stopping.signal.aborted) return
  // The first line is for programs; a person at a terminal also gets the next steps.
  const next = process.stdout.isTTY
    ? `Next, in another terminal:\n  countersign device tools --socket ${ready.socket ?? '<path>'}\nCtrl-C ends it.\n`
    : ''
  process.stdout.write(`countersign device ready ${JSON.stringify(ready)}\n${next}`)
  log.info({ ...ready, version }, 'ready')
}

export async function main(argv: readonly string[]): Promise<void> {
  await runProcess(async () => {
    if (argv.includes('--help') || argv.includes('-h')) process.stdout.write(deviceHelp())
    else await run(readDeviceConfig(quietAtTerminal(argv), process.env))
  })
}

if (import.meta.main) await main(process.argv.slice(2))
