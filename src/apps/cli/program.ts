// The parser: commander, configured from the specs. Nothing here ends the process; a run returns its exit code.
import { Argument, Command, CommanderError, InvalidArgumentError, Option } from 'commander'
import { shownAs } from './derive/from-operation.ts'
import { CliError, exits, usage, type Exit } from './exit-codes.ts'
import { fieldOf, valueFrom, type Flag, type FlagValues } from './derive/flags.ts'
import { FIRST_PAGE, GLOBAL, groupOf, hintFor, innerNouns, NOUN_USAGE, termOf, unknownVerb, withHelpAsked } from './derive/help.ts'
import { refuseForAgent } from './remote/agent-child.ts'
import { openRemote, type Remote } from './remote/remote.ts'
import { withWholeIds } from './output/short-ids.ts'
import { allFlags, type Context, type Globals, type Spec } from './derive/command.ts'
import { inertJson, inertLines } from './output/safe-text.ts'
import { columnsOf, paintFor, type Io } from './terminal.ts'

export type Program = { run(argv: readonly string[]): Promise<Exit> }
export type ProgramOptions = {
  readonly io: Io
  readonly specs: readonly Spec[]
  /** The subjects of nouns, for the first page of the help. */
  readonly nouns: Readonly<Record<string, string>>
  readonly version: string
  /** Runs a command that was understood; a test may do something else. */
  perform?(spec: Spec, context: Context, given: FlagValues): Promise<Exit | void>
}

export const globalFlags = [
  ['--url <url>', 'the server (or COUNTERSIGN_URL)'],
  ['--api-key <key>', 'your API key (or COUNTERSIGN_KEY; `countersign login` stores one)'],
  ['--data <folder>', 'read this data folder without a server'],
  ['--json', 'one JSON document, or JSON lines for a stream'],
  ['--pick <path>', 'one field of that document alone, such as task.id or items.id'],
  ['--no-color', 'no colours (or NO_COLOR)'],
] as const

export function createProgram(options: ProgramOptions): Program {
  const { io, specs, nouns, version, perform = performSpec } = options
  let outcome: Exit = exits.ok
  let rest: readonly string[] = []
  const program = new Command('countersign')
  const settle = (command: Command): Command =>
    command
      .exitOverride()
      .enablePositionalOptions()
      .showSuggestionAfterError()
      .configureOutput({
        writeOut: (text) => void io.out.write(text),
        writeErr: (text) => void io.err.write(text),
        outputError: () => undefined,
        getOutHelpWidth: () => (io.out.isTTY === true ? columnsOf(io.out) : 120),
        getErrHelpWidth: () => (io.err.isTTY === true ? columnsOf(io.err) : 120),
        getOutHasColors: () => false,
        getErrHasColors: () => false,
      })
      .configureHelp({ sortSubcommands: false, subcommandTerm: termOf })
      .addHelpOption(new Option('-h, --help', 'show this and exit').helpGroup(GLOBAL))
      .helpCommand(false)
  settle(program)
    .description('The control plane for work that people delegate to agents.')
    .version(version, '-V, --version', 'show the version and exit')
    .usage('<noun> <verb> [arguments] [options]')
    .addHelpText('after', FIRST_PAGE)
  withGlobals(program)

  const commands = new Map<string, Command>()
  const isHidden = (noun: string): boolean => specs.every(({ path, hidden }) => path[0] !== noun || hidden)
  /** `login` is a command and also the noun of `login issue`. */
  const commandFor = (words: readonly string[], hidden: boolean): Command => {
    const name = words.join(' ')
    let found = commands.get(name)
    if (!found) {
      const parent = words.length === 1 ? program : commandFor(words.slice(0, -1), isHidden(words[0]!))
      found = settle(parent.command(words.at(-1)!, { hidden }))
        .description(nouns[name] ?? innerNouns[name] ?? '')
        .usage(NOUN_USAGE)
      if (words.length === 1) found.helpGroup(groupOf(name))
      commands.set(name, found)
    }
    return found
  }
  for (const spec of specs) {
    const command = commandFor(spec.path, spec.hidden)
    describe(command, spec)
    if (spec.path.length === 2 && spec.path[1] === 'get') command.alias('show')
    command.action(async () => {
      const globals = globalsOf(program, command)
      refuseForAgent(io, spec, globals)
      const context = contextOf(io, globals, rest)
      try {
        const flagValues = givenTo(command, spec)
        refuseMissing(spec, flagValues)
        outcome = (await perform(spec, context, flagValues)) ?? exits.ok
      } finally {
        await context.close()
      }
    })
  }

  return {
    async run(words) {
      outcome = exits.ok
      const { ownWords: argv, rest: behind } = split(words)
      rest = behind
      try {
        const asked = withHelpAsked(argv, specs)
        const unknown = unknownVerb(asked, specs)
        if (unknown) throw usage(unknown.message, unknown.hint)
        if (argv.length === 0) program.outputHelp()
        else await program.parseAsync(asked, { from: 'user' })
        return outcome
      } catch (error) {
        return printFailure(io, error, argv, specs)
      }
    },
  }
}

const performSpec: NonNullable<ProgramOptions['perform']> = async (spec, context, given) =>
  spec.run(context, await withWholeIds(spec, given, context.remote))

function withGlobals(command: Command): void {
  for (const [flags, help] of globalFlags) command.addOption(new Option(flags, help).helpGroup(GLOBAL))
}

function describe(command: Command, spec: Spec): void {
  const { summary, positionals, examples } = spec
  command.description(summary).allowExcessArguments(false)
  const argumentName = (positional: Flag): string => `${fieldOf(positional)}${positional.shape.rest ? '...' : ''}`
  for (const positional of positionals) command.addArgument(new Argument(`[${argumentName(positional)}]`, helpOf(positional)))
  const shown = positionals.map((positional) => (positional.required ? `<${argumentName(positional)}>` : `[${argumentName(positional)}]`))
  command.usage([...shown, '[options]'].join(' '))
  for (const flag of allFlags(spec)) for (const option of optionsFor(flag, positionals.includes(flag))) command.addOption(option)
  withGlobals(command)
  if (examples.length > 0) command.addHelpText('after', `\nExamples:\n${examples.map((line) => `  ${line}\n`).join('')}`)
}

const helpOf = ({ help, required }: Flag): string => (required ? `${help}${help === '' ? '' : '; '}required` : help)

function optionsFor(one: Flag, isPositional: boolean): Option[] {
  const { name, short, also, shape, placeholder } = one
  const options: Option[] = []
  const add = (long: string, isHidden: boolean): void => {
    const value = shape.kind === 'switch' ? '' : ` <${placeholder}>`
    const letter = short === undefined || long !== name ? '' : `-${short}, `
    const option = new Option(`${letter}--${long}${value}`, isHidden ? '' : helpOf(one)).hideHelp(isHidden)
    if (shape.kind !== 'switch') option.argParser((text, before) => parseFlag(text, before, one))
    if (shape.choices) option.argChoices = [...shape.choices]
    options.push(option)
    if (shape.kind === 'switch' || shape.nullable) options.push(new Option(`--no-${long}`, 'the opposite, or none').hideHelp())
  }
  add(name, isPositional)
  for (const other of also) add(other, true)
  return options
}

function parseFlag(text: string, before: unknown, { shape }: Flag): unknown {
  let value: unknown
  try {
    value = valueFrom(text, shape)
  } catch (error) {
    throw new InvalidArgumentError((error as Error).message)
  }
  // After --no-… there is nothing to add to.
  if (shape.many) return [...(Array.isArray(before) ? (before as unknown[]) : []), value]
  if (before !== undefined) throw new InvalidArgumentError('is given twice')
  return value
}

/** The given values by flag name, independent of position and spelling. */
function givenTo(command: Command, { positionals, flags }: Spec): FlagValues {
  const flagValues = new Map<string, unknown>()
  const values = command.opts<Record<string, unknown>>()
  for (const flag of [...positionals, ...flags]) {
    for (const spelled of [flag.name, ...flag.also]) {
      const value = values[new Option(`--${spelled}`).attributeName()]
      if (value === undefined) continue
      if (flagValues.has(flag.name)) throw usage(`--${flag.name} is given twice (as --${spelled} too)`)
      // The --no- form of what is no switch clears it.
      flagValues.set(flag.name, value === false && flag.shape.kind !== 'switch' ? null : value)
    }
  }
  for (const [i, positional] of positionals.entries()) {
    const word = command.args[i]
    if (word === undefined) continue
    if (flagValues.has(positional.name)) throw usage(`${fieldOf(positional)} is given twice`)
    try {
      if (positional.shape.rest) flagValues.set(positional.name, command.args.slice(i))
      else {
        const value = valueFrom(word, positional.shape)
        flagValues.set(positional.name, positional.shape.many ? [value] : value)
      }
    } catch (error) {
      throw usage(`<${fieldOf(positional)}> ${(error as Error).message}`)
    }
  }
  return flagValues
}

/** An operation's own input is looked at as a whole, since it may also come as JSON. */
function refuseMissing({ operation, positionals, flags }: Spec, given: FlagValues): void {
  if (operation !== null) return
  const missing = [...positionals, ...flags].filter(({ required, name }) => required && !given.has(name))
  if (missing.length > 0) throw usage(`missing: ${missing.map((positional) => shownAs(positional, positionals)).join(', ')}`)
}

function globalsOf(program: Command, command: Command): Globals {
  const [outer, inner] = [program.opts<Record<string, unknown>>(), command.opts<Record<string, unknown>>()]
  const text = (name: string): string | undefined => (inner[name] ?? outer[name]) as string | undefined
  return {
    url: text('url'),
    apiKey: text('apiKey'),
    data: text('data'),
    json: inner['json'] === true || outer['json'] === true,
    pick: text('pick'),
    color: inner['color'] !== false && outer['color'] !== false,
  }
}

/** `agent run -- <command>`, `gate -- <command>`, `acp -- <command>`, `hook resume <session> -- <words>`: the words after the dashes belong to the other program and are not parsed. */
function split(argv: readonly string[]): { ownWords: readonly string[]; rest: readonly string[] } {
  const at = argv.indexOf('--')
  const isRun = (word: string, i: number): boolean => ['agent run', 'hook resume'].includes(`${word} ${argv[i + 1]}`)
  const isCommand = at >= 0 && (['acp', 'gate'].includes(argv[0]!) || argv.slice(0, at).some(isRun))
  return isCommand ? { ownWords: argv.slice(0, at), rest: argv.slice(at + 1) } : { ownWords: argv, rest: [] }
}

function contextOf(io: Io, globals: Globals, rest: readonly string[]): Context & { close(): Promise<void> } {
  const paintErr = paintFor(io.err, io.env, globals.color)
  let remote: Promise<Remote> | undefined
  return {
    io,
    globals,
    json: globals.json || globals.pick !== undefined,
    rest,
    paint: paintFor(io.out, io.env, globals.color),
    paintErr,
    remote: () => (remote ??= openRemote(io, globals, paintErr)),
    // A failure to open was already reported.
    async close() {
      await remote?.then((open) => open.close()).catch(() => undefined)
    },
  }
}

/** The message, hint and exit code of any exception. */
function printFailure(io: Io, error: unknown, argv: readonly string[], specs: readonly Spec[]): Exit {
  if (error instanceof CommanderError) {
    if (error.code === 'commander.helpDisplayed' || error.code === 'commander.version' || error.code === 'commander.help') {
      return error.exitCode === 0 ? exits.ok : exits.usage
    }
    return report(io, usage(error.message.replace(/^error: /, ''), hintFor(argv, specs)), argv)
  }
  if (error instanceof CliError) {
    return report(io, error.code === 'USAGE' && error.hint === null ? usage(error.message, hintFor(argv, specs)) : error, argv)
  }
  throw error
}

function report(io: Io, { exit, code, message, hint, details }: CliError, argv: readonly string[]): Exit {
  if (argv.includes('--json')) {
    io.err.write(`${inertJson({ error: { code, message, hint, details } }, 0)}\n`)
    return exit
  }
  if (exit === exits.interrupted) return exit
  const paint = paintFor(io.err, io.env, !argv.includes('--no-color'))
  io.err.write(
    `${paint('red', 'countersign:')} ${inertLines(message).replaceAll('\n', code === 'USAGE' ? '\n' : '\n  │ ')}${code === 'USAGE' ? '' : ` ${paint('dim', `[${code}]`)}`}\n`,
  )
  if (hint !== null) io.err.write(`${paint('dim', '  →')} ${inertLines(hint)}\n`)
  return exit
}
