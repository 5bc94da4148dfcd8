// Completion for shells, written out from the specs: no process is started while somebody types.
import { usage } from './exits.ts'
import { flag, type Flag } from './flags.ts'
import { allFlags, spec, type Spec } from './spec.ts'

const shells = { bash: bashScript, zsh: zshScript, fish: fishScript } as const

const globals: readonly Flag[] = [
  flag('url', 'url', 'the server'),
  flag('api-key', 'key', 'who you are'),
  flag('data', 'folder', 'read this data folder without a server'),
  flag('json', null, 'one JSON document'),
  flag('pick', 'path', 'one field of it alone'),
  flag('no-color', null, 'no colours'),
  flag('help', null, 'show help'),
]

export function completionSpec(others: () => readonly Spec[]): Spec {
  return spec('completion', 'Print a script that completes commands and flags in your shell.', {
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

const firstWords = (specs: readonly Spec[]): string[] => [...new Set(specs.map(({ words }) => words[0]!))]
const verbsOf = (specs: readonly Spec[], noun: string): Spec[] => specs.filter(({ words }) => words.length > 1 && words[0] === noun)
const flagsFor = (one: Spec): Flag[] => [...allFlags(one).filter((flag_) => !one.positionals.includes(flag_)), ...globals]

/** What may follow these words: for a flag with choices, its choices. */
function bashScript(specs: readonly Spec[]): string {
  const nouns = firstWords(specs).filter((word) => verbsOf(specs, word).length > 0)
  const verbs = nouns.map(
    (noun) =>
      `    ${noun}) words='${verbsOf(specs, noun)
        .map(({ words }) => words[1])
        .join(' ')}' ;;`,
  )
  const flags = specs.map(
    (one) =>
      `    '${one.words.join(' ')}') words='${flagsFor(one)
        .map(({ name }) => `--${name}`)
        .join(' ')}' ;;`,
  )
  const choices = specs.flatMap((one) =>
    allFlags(one)
      .filter(({ shape }) => shape.choices)
      .map(({ name, shape }) => `    '${one.words.join(' ')} --${name}') words='${shape.choices!.join(' ')}' ;;`),
  )
  return `_countersign() {
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
    esac; fi ;;
    esac ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [ -n "$words" ] || COMPREPLY=($(compgen -f -- "$current"))
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

function fishScript(specs: readonly Spec[]): string {
  const lines = ['complete -c countersign -f']
  for (const word of firstWords(specs)) {
    const words = specs.find((one) => one.words.length === 1 && one.words[0] === word)?.summary ?? `${word} ...`
    lines.push(`complete -c countersign -n __fish_use_subcommand -a ${word} -d ${fishQuoted(words)}`)
  }
  for (const one of specs) {
    const [noun, verb] = one.words
    const siblings = verbsOf(specs, noun!).map(({ words }) => words[1])
    const here = `'__fish_seen_subcommand_from ${noun}${verb === undefined ? '' : `; and __fish_seen_subcommand_from ${verb}`}'`
    if (verb !== undefined) {
      const open = `'__fish_seen_subcommand_from ${noun}; and not __fish_seen_subcommand_from ${siblings.join(' ')}'`
      lines.push(`complete -c countersign -n ${open} -a ${verb} -d ${fishQuoted(one.summary)}`)
    }
    for (const { name, shape, words } of flagsFor(one)) {
      const value = shape.kind === 'switch' ? '' : shape.choices ? ` -x -a ${fishQuoted(shape.choices.join(' '))}` : ' -r'
      lines.push(`complete -c countersign -n ${here} -l ${name}${value} -d ${fishQuoted(words)}`)
    }
  }
  return `${lines.join('\n')}\n`
}
