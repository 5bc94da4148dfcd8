// The server for one client that starts it: JSON-RPC lines on stdin and stdout, the log on stderr. It ends when stdin does.
import { ConfigError, readConfig, type Config } from './settings/config.ts'
import { StartError } from './start-error.ts'
import { createLog } from './log.ts'
import { startServer } from './server.ts'

async function run(config: Config): Promise<void> {
  const log = createLog(config.log)
  const die = (message: string) => (error: unknown) => {
    log.fatal({ err: error }, message)
    process.exit(1)
  }
  process.on('uncaughtException', die('an uncaught error'))
  process.on('unhandledRejection', die('an uncaught rejection'))
  const server = await startServer(config, { log, onFatal: die('the store failed, and the state on the disk is unknown') })
  const stop = async (): Promise<void> => {
    await server.stop()
    process.exit(0)
  }
  process.on('SIGTERM', () => void stop())
  process.on('SIGINT', () => void stop())
  await server.rpc.serve(process.stdin, process.stdout)
  await stop()
}

try {
  // It opens no HTTP port unless one is asked for.
  const invocation = readConfig(process.argv.slice(2), { COUNTERSIGN_PORT: '0', ...process.env })
  if (invocation.kind !== 'start') throw new ConfigError('this mode is for programs: see --help of the server')
  await run(invocation.config)
} catch (error) {
  if (!(error instanceof ConfigError) && !(error instanceof StartError)) throw error
  process.stderr.write(`countersign: ${error.message}\n`)
  process.exit(error instanceof ConfigError ? 2 : 1)
}
