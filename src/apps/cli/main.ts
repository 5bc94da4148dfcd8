// The process: arguments in, an exit code out.
import { up, wordsForUp } from './serve.ts'

const argv = process.argv.slice(2)
const words = wordsForUp(argv)
if (words) await up(words)
else {
  const { run } = await import('./run-command.ts')
  process.exitCode = await run(argv)
}
