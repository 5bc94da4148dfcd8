// The process: arguments in, an exit code out.
import { markedAgent } from '#agents/programs/marker.ts'
import { isHook } from './hook/is-hook.ts'
import { deviceUp, runWitness, up, wordsForDevice, wordsForUp, wordsForWitness } from './serve.ts'

const argv = process.argv.slice(2)
// A program of an agent starts neither: the command line says why.
const isAgent = markedAgent(process.env) !== null
const message = isAgent ? null : wordsForUp(argv)
const daemon = isAgent ? null : wordsForDevice(argv)
const witnessWords = isAgent ? null : wordsForWitness(argv)
if (isHook(argv)) await (await import('./hook/run.ts')).runHook(argv)
else if (argv[0] === 'gate' && !isAgent && (await (await import('./gate/lean.ts')).runLeanGate(argv))) process.exitCode = 0
else if (message) await up(message)
else if (daemon) await deviceUp(daemon)
else if (witnessWords) await runWitness(witnessWords)
else {
  const { run } = await import('./run-command.ts')
  process.exitCode = await run(argv)
}
