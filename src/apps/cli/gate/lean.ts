// `countersign gate` without the rest of the command line, a path only for memory: it loads no commands and no protocols, which saves 45 MB in each
// gate, and a small heap saves 60 MB more with a thousand waiting calls. It leaves unusual options and refusals to the command line, which can
// serve a gate, too.
import { homedir } from 'node:os'
import { parseArgs, type ParseArgsConfig } from 'node:util'
import { setFlagsFromString } from 'node:v8'
import type { Globals } from '../derive/command.ts'
import type { FlagValues } from '../derive/flags.ts'
import { CliError } from '../exit-codes.ts'
import { gateFlags, runGate } from './commands.ts'

type Parsed = { readonly given: FlagValues; readonly globals: Globals; readonly rest: readonly string[] }

function parseWords([command, ...words]: readonly string[]): Parsed | null {
  const at = words.indexOf('--')
  const options: NonNullable<ParseArgsConfig['options']> = { url: { type: 'string' }, 'api-key': { type: 'string' } }
  for (const { name, shape } of gateFlags) options[name] = { type: 'string', multiple: shape.many }
  try {
    const { values } = parseArgs({ args: at < 0 ? words : words.slice(0, at), options, allowPositionals: false })
    const { url, 'api-key': apiKey, ...given } = values as Readonly<Record<string, string | undefined>>
    const globals = { url, apiKey, data: undefined, json: false, pick: undefined, color: false }
    return command === 'gate' ? { given: new Map(Object.entries(given)), globals, rest: at < 0 ? [] : words.slice(at + 1) } : null
  } catch {
    return null
  }
}

/** False: the command line has to parse these options, or report what is wrong with them. */
export async function runLeanGate(argv: readonly string[]): Promise<boolean> {
  const words = parseWords(argv)
  if (words === null) return false
  const { stdout: out, stderr: err, stdin: input, env } = process
  // A gate mostly waits, so it collects garbage early and has a small nursery.
  for (const flag of ['--heap-growing-percent=20', '--max-semi-space-size=4', '--semi-space-growth-factor=1']) setFlagsFromString(flag)
  for (const stream of [out, err]) stream.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1))
  try {
    await runGate(
      { io: { out, err, input, env, cwd: process.cwd(), home: homedir() }, globals: words.globals, rest: words.rest },
      words.given,
    )
    return true
  } catch (error) {
    if (error instanceof CliError) return false
    throw error
  }
}
