// `npm run docs:cli`: writes docs/cli.md, the reference of the command line, from the commands themselves.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { shownAs } from '#apps/cli/derive/from-operation.ts'
import { fieldOf, type Flag } from '#apps/cli/derive/flags.ts'
import { globalFlags } from '#apps/cli/program.ts'
import type { Spec } from '#apps/cli/derive/command.ts'
import { nouns, specsOf } from '#apps/cli/derive/commands.ts'
import { protocols } from '#protocols/index.ts'

const HEAD = `# The command line

\`countersign <noun> <verb> [arguments] [options]\`. Every operation that people, agents or tools may call is a command; its flags are
the fields of its input. This page is written by \`npm run docs:cli\` from the commands themselves; \`countersign <noun> <verb> --help\` shows the same.

- A field of an object that must be given has a short flag (\`--goal\` for \`spec.goal\`); others are named by their path
  (\`--default.action\`). A list is a flag that is repeated. A list of objects takes \`id=a,label=Yes,risk=low\` or JSON.
- \`--json-input '{...}'\` gives the whole input at once, \`--file path\` or \`--file -\` reads it; flags come on top.
- \`--json\` prints the answer as one JSON document, a stream as JSON lines, an error as JSON on the error output.
- \`--pick task.id\` prints one field of that document alone, as it is; through a list (\`items.id\`) that of each item on a line.
- \`--data <folder>\` reads a data folder without its server: every query works, nothing can be changed.
- Your identity: \`--api-key\`, \`COUNTERSIGN_KEY\`, or what \`countersign login\` has stored for that server in
  \`~/.config/countersign/config.json\`. Without any of them, a server on this machine is administered with the \`admin.key\` of its data
  folder, which administers and reads but decides nothing; a note says so.
- Exit codes: 0 done, 1 refused or not in order, 2 not understood, 3 server not reachable, 4 no valid key, 130 Ctrl-C; of \`ask\` also 5 rejected,
  6 nobody answered in time, 7 withdrawn.
- Colours only on a terminal, never with \`NO_COLOR\`. Text that agents wrote is shown with its control characters escaped.
`

const cell = (text: string): string => text.replaceAll('|', String.raw`\|`)

function rowOf(flag: Flag): string {
  const value = flag.shape.choices ? flag.shape.choices.join(', ') : flag.placeholder
  const help = [flag.required ? '**required**' : '', flag.help].filter((part) => part !== '').join('; ')
  return `| \`--${flag.name}\` | ${cell(value)} | ${cell(help)} |`
}

function sectionOf({ path, summary, positionals, flags, examples, operation }: Spec): string {
  const usage = ['countersign', ...path, ...positionals.map((one) => (one.required ? shownAs(one, positionals) : `[${fieldOf(one)}]`))]
  const shown = flags.filter(
    ({ name }) => !['json-input', 'idempotency-key'].includes(name) && !(name === 'file' && operation !== null && path[0] !== 'artifact'),
  )
  const table = shown.length === 0 ? '' : `\n| flag | value | |\n| --- | --- | --- |\n${shown.map(rowOf).join('\n')}\n`
  const example = examples.length === 0 ? '' : `\n\`\`\`sh\n${examples.join('\n')}\n\`\`\`\n`
  return `### ${path.join(' ')}\n\n\`${usage.join(' ')}\`${operation === null ? '' : ` calls \`${operation}\``}. ${summary}\n${table}${example}`
}

export function cliReference(): string {
  const specs = specsOf(protocols).filter(({ hidden }) => !hidden)
  const single = specs.filter(({ path }) => path.length === 1)
  const names = [...new Set(specs.filter(({ path }) => path.length > 1).map(({ path }) => path[0]!))]
  const globals = globalFlags.map(([flags, message]) => `| \`${flags}\` | ${message} |`).join('\n')
  const parts = [
    `${HEAD}\n| flag of every command | |\n| --- | --- |\n${globals}\n`,
    `## Commands of their own\n\n${single.map(sectionOf).join('\n')}`,
    ...names.map((noun) => {
      const about = nouns[noun] === undefined ? '' : `${nouns[noun]}\n\n`
      return `## ${noun}\n\n${about}${specs
        .filter(({ path }) => path.length > 1 && path[0] === noun)
        .map(sectionOf)
        .join('\n')}`
    }),
  ]
  return parts.join('\n')
}

if (import.meta.main) writeFileSync(join(import.meta.dirname, '..', 'docs', 'cli.md'), cliReference())
