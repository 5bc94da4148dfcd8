// A command as data, before anything parses or shows it: help, completion, the reference and the parser are made from it.
import type { Exit } from '../exit-codes.ts'
import type { Flag, FlagValues } from './flags.ts'
import type { Remote } from '../remote/remote.ts'
import type { Io, Paint } from '../terminal.ts'

export type Globals = {
  readonly url: string | undefined
  readonly apiKey: string | undefined
  readonly data: string | undefined
  readonly json: boolean
  readonly pick: string | undefined
  readonly color: boolean
}

export type Context = {
  readonly io: Io
  readonly globals: Globals
  /** For programs: prints the answer as JSON, or the part of it that `globals.pick` names. */
  readonly json: boolean
  /** Colours for the output and for the error output. */
  readonly paint: Paint
  readonly paintErr: Paint
  /** The words after `--`: the command of another program. */
  readonly rest: readonly string[]
  /** The server, or the data folder when read offline; opened on first use. */
  remote(): Promise<Remote>
}

export type Spec = {
  /** `task create`, `login`. */
  readonly path: readonly string[]
  readonly summary: string
  /** Given without a name, in this order; each is understood as a flag as well. */
  readonly positionals: readonly Flag[]
  readonly flags: readonly Flag[]
  readonly examples: readonly string[]
  /** Works, but is in no list. */
  readonly hidden: boolean
  /** The operation that the command calls; null: none, or several. */
  readonly operation: string | null
  /** Uses the rights of this machine's user: their logins, the files of a server, the socket of a daemon. */
  readonly isLocal: boolean
  run(context: Context, given: FlagValues): Promise<Exit | void>
}

export const spec = (words: string, summary: string, parts: Partial<Omit<Spec, 'path' | 'summary' | 'run'>> & Pick<Spec, 'run'>): Spec => ({
  path: words.split(' '),
  summary,
  positionals: [],
  flags: [],
  examples: [],
  hidden: false,
  operation: null,
  isLocal: false,
  ...parts,
})

export const allFlags = ({ positionals, flags }: Pick<Spec, 'positionals' | 'flags'>): readonly Flag[] => [...positionals, ...flags]
