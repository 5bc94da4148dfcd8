// The process: arguments in, an exit code out.
import { deviceUp, up, wordsForDevice, wordsForUp } from './serve.ts'

const argv = process.argv.slice(2)
const words = wordsForUp(argv)
const daemon = wordsForDevice(argv)
if (words) await up(words)
else if (daemon) await deviceUp(daemon)
else {
  const { run } = await import('./run-command.ts')
  process.exitCode = await run(argv)
}
