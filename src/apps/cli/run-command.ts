// A command at this process's own terminal.
import { homedir } from 'node:os'
import { protocols } from '#protocols/index.ts'
import { version } from '../version.ts'
import type { Exit } from './exit-codes.ts'
import { createProgram } from './program.ts'
import { nouns, specsOf } from './derive/commands.ts'

export function run(argv: readonly string[]): Promise<Exit> {
  // `countersign task list | head -1` closes our output: that is no error.
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1))
    // A terminal that does not know its size says 0, and a question would be drawn forever.
    if (stream.isTTY) Object.assign(stream, { columns: stream.columns || 80, rows: stream.rows || 24 })
  }
  const io = { out: process.stdout, err: process.stderr, input: process.stdin, env: process.env, cwd: process.cwd(), home: homedir() }
  return createProgram({ io, specs: specsOf(protocols), nouns, version }).run(argv)
}
