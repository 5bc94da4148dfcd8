// Rights of harnesses at their broker: prints the calls of rabbitmqctl that give them, or makes these calls.
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { statementsFor, type Statement } from '#bridges/hcp/permissions.ts'
import { isHarnessId } from '#protocols/harness/envelope.ts'
import { withSecretFiles } from '../../server/settings/secret-files.ts'
import { CliError, exits, usage } from '../exit-codes.ts'
import { flag } from '../derive/flags.ts'
import { spec, type Context } from '../derive/command.ts'

const EVENT_BYTES = 1024 * 1024 * 1024

export const permissionsSpec = spec(
  'harness permissions',
  'Print what gives harnesses their rights at the broker, as calls of rabbitmqctl; or make these calls.',
  {
    positionals: [
      {
        ...flag('id', 'id', 'harnesses: their users at the broker; those of `harness callers` and this one by default', {
          many: true,
          rest: true,
        }),
      },
    ],
    flags: [
      flag('locked', null, 'the default: harnesses declare, bind and delete nothing; exchanges, queues and bindings are made here'),
      flag('unlocked', null, 'harnesses declare for themselves: each can then delete exchanges, and copy commands for others'),
      flag('apply', null, 'make the calls; passwords of new users are printed once'),
      flag('vhost', 'name', 'the virtual host; hcp by default'),
      flag('queues', 'kind', 'queues that are made here: classic (usual) or quorum', { choices: ['classic', 'quorum'] }),
      flag('ctl', 'program', 'rabbitmqctl by default'),
    ],
    examples: [
      'countersign harness permissions lab-a lab-b',
      'countersign harness permissions lab-a lab-b --apply',
      'countersign harness permissions lab-a --vhost science --json',
    ],
    async run(context, given) {
      const { io, json } = context
      if (given.get('locked') === true && given.get('unlocked') === true)
        throw usage('--locked and --unlocked exclude each other: name one')
      const ids = [...new Set((given.get('id') as string[] | undefined) ?? (await usualIds(context)))]
      for (const id of ids)
        if (!isHarnessId(id)) throw usage(`${JSON.stringify(id)} is not a harness id: small letters, digits and dashes, at most 63`)
      const statements = statementsFor({
        ids,
        vhost: (given.get('vhost') as string | undefined) ?? 'hcp',
        locked: given.get('unlocked') !== true,
        queues: (given.get('queues') as 'classic' | 'quorum' | undefined) ?? 'classic',
        eventBytesMax: EVENT_BYTES,
      })
      const ctl = (given.get('ctl') as string | undefined) ?? 'rabbitmqctl'
      if (given.get('apply') === true) return apply(context, statements, ctl)
      if (json) return void io.out.write(`${JSON.stringify({ statements })}\n`)
      io.out.write(`# A user with the tag impersonator may speak for others: none of these may have it (${ctl} list_users).\n`)
      for (const statement of statements) io.out.write(`${lineOf(statement, ctl)}\n`)
    },
  },
)

async function usualIds({ io, remote }: Context): Promise<string[]> {
  const env = withSecretFiles(io.env)
  const url = env['COUNTERSIGN_AMQP_URL'] ?? ''
  const named = env['COUNTERSIGN_HARNESS_ID'] || (URL.canParse(url) ? decodeURIComponent(new URL(url).username) : '')
  const { items } = await (await remote()).call('harness/harness.callers', { limit: 200 })
  const ids = [...(named === '' ? [] : [named]), ...items.map(({ caller_id }) => caller_id)]
  if (ids.length === 0)
    throw usage('no harness is named, and none may submit here', 'name them: countersign harness permissions lab-a lab-b')
  return ids
}

const shellQuote = (word: string): string => (/^[A-Za-z0-9_./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)
function lineOf({ words, definitions, user }: Statement, ctl: string): string {
  const call = [ctl, ...words].map(shellQuote).join(' ')
  if (definitions) return `${call} /dev/stdin <<'END'\n${JSON.stringify(definitions, null, 2)}\nEND`
  return user === undefined ? call : `${call} # asks for a password`
}

function apply({ io, paint }: Context, statements: readonly Statement[], ctl: string): void {
  const run = (...words: readonly string[]): string => {
    try {
      return execFileSync(ctl, words, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
    } catch (error) {
      const { stderr, message } = error as { stderr?: string; message: string }
      throw new CliError(
        exits.refused,
        'BROKER',
        `${ctl} ${words.find((word) => word !== '-q')}: ${(stderr || message).trim().slice(0, 500)}`,
      )
    }
  }
  const users = new Map(
    run('-q', 'list_users', '--no-table-headers')
      .split('\n')
      .filter(Boolean)
      .map((line) => line.split('\t') as [string, string]),
  )
  for (const { user } of statements)
    if (user !== undefined && users.get(user)?.includes('impersonator'))
      throw new CliError(
        exits.refused,
        'IMPERSONATOR',
        `${user} has the tag impersonator, so it may speak for others: nothing was changed`,
        `take it away: ${ctl} set_user_tags ${user}`,
      )
  const folder = mkdtempSync(join(tmpdir(), 'countersign-permissions-'))
  try {
    for (const { words, definitions, user } of statements) {
      if (user !== undefined) {
        if (users.has(user)) continue
        // Hexadecimal: a password that begins with a dash would be an option of rabbitmqctl.
        const password = randomBytes(24).toString('hex')
        run('-q', ...words, password)
        io.out.write(`${user}: the password is ${password}\n`)
      } else if (definitions) {
        const file = join(folder, 'definitions.json')
        writeFileSync(file, JSON.stringify(definitions), { mode: 0o644 })
        run('-q', ...words, file)
      } else run('-q', ...words)
    }
  } finally {
    rmSync(folder, { recursive: true })
  }
  io.out.write(`${paint('green', '✔')} ${statements.filter(({ user }) => user !== undefined).length} harnesses have their rights\n`)
}
