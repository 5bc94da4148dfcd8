// A table of settings: each with its flag, its variable, its default, its help and the function that reads it. The server and the daemon have one
// each; flags, environment, help and the types of the values come from it.
import { distanceOf } from '#kernel/codec/spelling.ts'
import { ConfigError, type Named } from './config-error.ts'

export type Setting<T> = {
  /** How the value is written; null: a switch without one. */
  readonly value: string | null
  readonly usual: string
  readonly help: string
  read(named: Named): T
  /** Its variable, if it is not named after the flag. null: a flag only, because a forgotten variable would stay on unseen. */
  readonly env?: string | null
}
export type Table = Readonly<Record<string, Setting<unknown>>>
export type Env = Readonly<Record<string, string | undefined>>

export const option = <T>(value: string, usual: string | number, read: (named: Named) => T, help: string): Setting<T> => ({
  value,
  usual: String(usual),
  help,
  read,
})
/** A text; '' by default. */
export const text = (value: string, help: string, usual = ''): Setting<string> => option(value, usual, (named) => named.value, help)
/** A switch without a variable, because a forgotten variable would stay on unseen. */
export const onOff = (help: string): Setting<boolean> => ({ value: null, usual: '', help, env: null, read: ({ value }) => value === 'on' })

export type Settings<T extends Table> = {
  value<F extends keyof T & string>(flag: F): ReturnType<T[F]['read']>
  /** The text of a value, with the name under which it was given. */
  named(flag: keyof T & string): Named
  isGiven(flag: keyof T & string): boolean
}

export const variableOf = (flag: string, { env }: Setting<unknown>, prefix: string): string | null =>
  env === undefined ? `${prefix}${flag.toUpperCase().replaceAll('-', '_')}` : env

/** Flags win over variables, variables over defaults. */
export function readSettings<T extends Table>(table: T, prefix: string, argv: readonly string[], env: Env): Settings<T> {
  const flags = readFlags(table, argv)
  const settingName = (flag: keyof T & string): Named => {
    const setting = table[flag]!
    const variable = variableOf(flag, setting, prefix)
    const value = flags.get(flag)
    if (value !== undefined) return { value, name: `--${flag}` }
    // An empty variable is how most shells say "not set".
    const fromEnv = variable === null ? undefined : env[variable]
    return fromEnv ? { value: fromEnv, name: variable! } : { value: setting.usual, name: `--${flag}` }
  }
  return {
    value: (flag) => table[flag]!.read(settingName(flag)) as ReturnType<T[typeof flag]['read']>,
    named: settingName,
    isGiven: (flag) => flags.has(flag) || settingName(flag).name !== `--${flag}`,
  }
}

function readFlags(table: Table, argv: readonly string[]): ReadonlyMap<string, string> {
  const flags = new Map<string, string>()
  for (let i = 0; i < argv.length; i++) {
    const word = argv[i]!
    const [, name, inline] = /^--([^=]+)(?:=(.*))?$/s.exec(word) ?? (word === '-h' ? [word, 'help'] : [])
    if (name === undefined) throw new ConfigError(`unknown word ${JSON.stringify(word)}: options begin with --; see --help`)
    if (!Object.hasOwn(table, name)) throw new ConfigError(`there is no option --${name}${suggestion(table, name)} (see --help)`)
    const { value: placeholder } = table[name]!
    if (flags.has(name)) throw new ConfigError(`--${name} is given twice`)
    if (placeholder === null && inline !== undefined) throw new ConfigError(`--${name} takes no value`)
    const value = placeholder === null ? 'on' : (inline ?? argv[++i])
    if (value === undefined || (inline === undefined && value.startsWith('--')))
      throw new ConfigError(`--${name} needs a value: --${name} ${placeholder}`)
    flags.set(name, value)
  }
  return flags
}

function suggestion(table: Table, name: string): string {
  const nearest = Object.keys(table)
    .map((flag) => ({ flag, distance: distanceOf(name, flag) }))
    .toSorted((a, b) => a.distance - b.distance)[0]!
  return nearest.distance <= 3 ? `: did you mean --${nearest.flag}?` : ''
}

/** Where the help of every row begins. */
const HELP_COLUMN = 22

export function helpRows(table: Table, prefix: string): string {
  const rows = Object.entries(table).map(([flag, setting]) => {
    const { value, usual, help } = setting
    const env = variableOf(flag, setting, prefix)
    const left = `  --${flag}${value === null ? '' : ` ${value}`}`
    // A flag that does not fit into the column gets its own line.
    const start = left.length < HELP_COLUMN ? left.padEnd(HELP_COLUMN) : `${left}\n${' '.repeat(HELP_COLUMN)}`
    return `${start}${help}${usual === '' ? '' : ` (default ${usual})`}${env === null ? '' : `\n${' '.repeat(HELP_COLUMN)}or ${env}`}`
  })
  return rows.join('\n')
}
