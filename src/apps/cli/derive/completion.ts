// Completion scripts for shells, generated from the specs. Only the completion of an id starts a process: it asks the server.
import { usage } from '../exit-codes.ts'
import { idFieldOf, idsFor } from '../output/short-ids.ts'
import { flag, type Flag } from './flags.ts'
import { allFlags, spec, type Spec } from './command.ts'

const shells = { bash: bashScript, zsh: zshScript, fish: fishScript } as const

const globals: readonly Flag[] = [
  flag('url', 'url', 'the server'),
  flag('api-key', 'key', 'your API key'),
  flag('data', 'folder', 'read this data folder without a server'),
  flag('json', null, 'one JSON document'),
  flag('pick', 'path', 'one field of it alone'),
  flag('no-color', null, 'no colours'),
  flag('help', null, 'show help'),
]

export function completionSpec(others: () => readonly Spec[]): Spec {
  return spec('completion', 'Print a script that completes commands, flags and ids in your shell.', {
    positionals: [{ ...flag('shell', 'word', 'bash, zsh or fish', { choices: Object.keys(shells) }), required: true }],
    examples: [
      'eval "$(countersign completion bash)"',
      'eval "$(countersign completion zsh)"',
      'countersign completion fish > ~/.config/fish/completions/countersign.fish',
    ],
    run({ io }, given) {
      const shell = given.get('shell') as keyof typeof shells
      if (!Object.hasOwn(shells, shell)) throw usage(`shell must be one of: ${Object.keys(shells).join(', ')}`)
      io.out.write(shells[shell](others().filter(({ hidden }) => !hidden)))
      return Promise.resolve()
    },
  })
}

/** The command that a completion script calls. */
export const idsSpec = spec('ids', 'Print the ids that a field takes, for the completion in a shell.', {
  positionals: [{ ...flag('field', 'word', 'the field, such as task_id'), required: true }],
  hidden: true,
  async run(context, given) {
    const ids = await idsFor(await context.remote(), given.get('field') as string)
    context.io.out.write(ids.map((id) => `${id}\n`).join(''))
  },
})

const firstWords = (specs: readonly Spec[]): string[] => [...new Set(specs.map(({ path }) => path[0]!))]
const verbsOf = (specs: readonly Spec[], noun: string): Spec[] => specs.filter(({ path }) => path.length > 1 && path[0] === noun)
const flagsFor = (spec: Spec): Flag[] => [...allFlags(spec).filter((flag_) => !spec.positionals.includes(flag_)), ...globals]

/** Flags whose value is a file or a folder: their values complete as files, and never as ids. */
const fileFlags = (specs: readonly Spec[]): string[] => [
  ...new Set(
    [...globals, ...specs.flatMap((spec) => [...allFlags(spec)])]
      .filter(({ placeholder }) => ['path', 'file', 'folder'].includes(placeholder))
      .map(({ name }) => `--${name}`),
  ),
]

/** The field whose ids a positional takes, with the number of words before it. */
const idPositionals = ({ path, positionals }: Spec): (readonly [before: number, field: string])[] =>
  positionals.flatMap((positional, i) => {
    const field = idFieldOf(positional)
    return field === null ? [] : [[path.length + i + 1, field] as const]
  })

/** The words that can follow: after a flag with choices, its choices. */
function bashScript(specs: readonly Spec[]): string {
  const nouns = firstWords(specs).filter((word) => verbsOf(specs, word).length > 0)
  const verbs = nouns.map(
    (noun) =>
      `    ${noun}) words='${verbsOf(specs, noun)
        .map(({ path }) => path[1])
        .join(' ')}' ;;`,
  )
  const flags = specs.map(
    (spec) =>
      `    '${spec.path.join(' ')}') words='${flagsFor(spec)
        .map(({ name }) => `--${name}`)
        .join(' ')}' ;;`,
  )
  const choices = specs.flatMap((spec) =>
    allFlags(spec)
      .filter(({ shape }) => shape.choices)
      .map(({ name, shape }) => `    '${spec.path.join(' ')} --${name}') words='${shape.choices!.join(' ')}' ;;`),
  )
  const ids = specs.flatMap((spec) =>
    idPositionals(spec).map(([before, field]) => `    '${spec.path.join(' ')} ${before}') field=${field} ;;`),
  )
  const idFlags = new Map(specs.flatMap((spec) => spec.flags.map((flag_) => [`--${flag_.name}`, idFieldOf(flag_)] as const)))
  return `_countersign() {
  local field=''
  local current=\${COMP_WORDS[COMP_CWORD]} previous=\${COMP_WORDS[COMP_CWORD-1]} words=''
  local noun=\${COMP_WORDS[1]} both="\${COMP_WORDS[1]} \${COMP_WORDS[2]}"
  case $noun in ${firstWords(specs)
    .filter((word) => !nouns.includes(word))
    .join('|')}) both=$noun ;; esac
  case "$both $previous" in
${choices.join('\n')}
    *) case $current in
    -*) case $both in
${flags.join('\n')}
    esac ;;
    *) if [ "$COMP_CWORD" -eq 1 ]; then words='${firstWords(specs).join(' ')}'
    elif [ "$COMP_CWORD" -eq 2 ]; then case $noun in
${verbs.join('\n')}
    completion) words='bash zsh fish' ;;
    esac; fi
    case "$both $COMP_CWORD" in
${ids.join('\n')}
    esac
    case $previous in
${[...idFlags].flatMap(([name, field]) => (field === null ? [] : [`    ${name}) field=${field} ;;`])).join('\n')}
    esac
    if [ -n "$field" ]; then words=$("\${COMP_WORDS[0]}" ids "$field" 2>/dev/null </dev/null); fi ;;
    esac ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  case $previous in ${fileFlags(specs).join('|')}) COMPREPLY=($(compgen -f -- "$current")) ;; esac
}
complete -F _countersign countersign
`
}

/** zsh runs bash's. */
function zshScript(specs: readonly Spec[]): string {
  return `autoload -U +X compinit && compinit -u
autoload -U +X bashcompinit && bashcompinit
${bashScript(specs)}`
}

const fishQuoted = (text: string): string => `'${text.replaceAll('\\', '\\\\').replaceAll("'", String.raw`\'`)}'`

const FISH_WORDS_MAX = 60
/** The beginning of a flag's help: completion shows one line. */
const inShort = (words: string): string => fishQuoted(words.split(/[;:(]/)[0]!.trim().slice(0, FISH_WORDS_MAX))

function fishFlag({ name, shape, placeholder, help }: Flag): string {
  const isFile = ['path', 'file', 'folder'].includes(placeholder)
  const value = shape.kind === 'switch' ? '' : shape.choices ? ` -xa ${fishQuoted(shape.choices.join(' '))}` : isFile ? ' -rF' : ' -x'
  return `-l ${name}${value} -d ${inShort(help)}`
}

function fishScript(specs: readonly Spec[]): string {
  // `at task create`: these words come first; `at task`: the noun alone.
  const lines = [
    'function __cs_at; set -l w (commandline -opc); test "$w[2..-1]" = "$argv" ; end',
    'function __cs_in; set -l w (commandline -opc); string match -q -- "$argv*" "$w[2..-1]"; end',
    'complete -c countersign -f',
    ...globals.map((global) => `complete -c countersign ${fishFlag(global)}`),
  ]
  for (const word of firstWords(specs)) {
    const summary = specs.find((spec) => spec.path.length === 1 && spec.path[0] === word)?.summary ?? word
    lines.push(`complete -c countersign -n __fish_use_subcommand -a ${word} -d ${inShort(summary)}`)
  }
  for (const spec of specs) {
    const [noun, verb] = spec.path
    if (verb !== undefined) lines.push(`complete -c countersign -n '__cs_at ${noun}' -a ${verb} -d ${inShort(spec.summary)}`)
    const [first] = idPositionals(spec)
    if (first?.[0] === spec.path.length + 1)
      lines.push(`complete -c countersign -n '__cs_at ${spec.path.join(' ')}' -a '(countersign ids ${first[1]} 2>/dev/null)'`)
    for (const flag_ of flagsFor(spec).filter((of) => !globals.includes(of)))
      lines.push(`complete -c countersign -n '__cs_in ${spec.path.join(' ')}' ${fishFlag(flag_)}`)
  }
  return `${lines.join('\n')}\n`
}
