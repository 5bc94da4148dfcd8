// Commands for a database that several servers share: a new admin key, the rotation of its signing keys, and moves to it and back.
import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { KeyRing } from '#workers/keys/key-ring.ts'
import type { PushRing } from '#workers/keys/push-keys.ts'
import { realClock, realEntropy } from '../../server/clock.ts'
import { databaseOf, type DatabaseSettings } from '../../server/settings/database-settings.ts'
import { ConfigError } from '../../server/settings/config-error.ts'
import { withSecretFiles } from '../../server/settings/secret-files.ts'
import { markIn, sharedMark, type MarkFile } from '../../server/folder/move-mark.ts'
import { StartError } from '../../server/start-error.ts'
import { CliError, exits, usage } from '../exit-codes.ts'
import { flag } from '../derive/flags.ts'
import { spec, type Spec } from '../derive/command.ts'
import { dataFolder } from '../remote/credentials.ts'
import type { Io } from '../terminal.ts'

/** From the environment, as servers read it; null: there is no shared database. */
export function databaseIn({ env: given }: Io): DatabaseSettings | null {
  const names = {
    database: 'COUNTERSIGN_DATABASE',
    secret: 'COUNTERSIGN_SECRET',
    'secret-file': 'COUNTERSIGN_SECRET_FILE',
    blobs: 'COUNTERSIGN_BLOBS',
  } as const
  try {
    const env = withSecretFiles(given)
    if (!env['COUNTERSIGN_DATABASE']) return null
    return databaseOf((name) => ({ value: env[names[name]] ?? '', name: names[name] }), false)
  } catch (error) {
    throw error instanceof ConfigError ? usage(error.message) : error
  }
}

async function inDatabase<T>(settings: DatabaseSettings, work: (parts: DatabaseParts) => Promise<T>): Promise<T> {
  const { postgresStore } = await import('#stores/postgres/index.ts')
  const { operatorMessage } = await import('#stores/postgres/link.ts')
  const { wrappedValues } = await import('#stores/postgres/wrapped-values.ts')
  const { secretFrom } = await import('../../server/database/secret.ts')
  let tag = (_: string): string => ''
  try {
    const secret = secretFrom(settings.secret)
    const store = await postgresStore(settings.url, { node: 'cli', tag: (text) => tag(text) })
    try {
      return await work({ store, values: wrappedValues(store.query, secret), useTag: (created) => (tag = created) })
    } finally {
      await store.close()
    }
  } catch (error) {
    if (error instanceof CliError) throw error
    throw new CliError(
      exits.refused,
      'NO_DATABASE',
      error instanceof StartError ? error.message : `the database cannot be used: ${operatorMessage(error)}`,
    )
  }
}
type DatabaseParts = {
  readonly store: import('#stores/postgres/index.ts').PostgresStore
  readonly values: import('#stores/postgres/wrapped-values.ts').WrappedValues
  useTag(tag: (text: string) => string): void
}

export const rotateInDatabase = (settings: DatabaseSettings): Promise<KeyRing> =>
  inDatabase(settings, async ({ values }) => {
    const { rotateSharedKeys } = await import('../../server/database/shared-keys.ts')
    return rotateSharedKeys(values, settings.secret.name, realClock.now())
  })

export const rotateLogInDatabase = (settings: DatabaseSettings): Promise<KeyRing> =>
  inDatabase(settings, async ({ values }) => {
    const { rotateSharedLogKey } = await import('../../server/record-log/key.ts')
    return rotateSharedLogKey(values, realClock.now())
  })

export const rotatePushesInDatabase = (settings: DatabaseSettings): Promise<PushRing> =>
  inDatabase(settings, async ({ values }) => {
    const { rotateSharedPushKeys } = await import('../../server/database/shared-keys.ts')
    return rotateSharedPushKeys(values, settings.secret.name, realClock.now())
  })

const adminKey = spec('admin-key', 'Make a new admin key of a shared database and write it to admin.key in the data folder.', {
  isLocal: true,
  flags: [flag('revoke', null, 'revoke all earlier ones')],
  examples: ['countersign admin-key --data /var/lib/countersign', 'countersign admin-key --revoke'],
  async run({ io, globals, paint }, given) {
    const settings = databaseIn(io)
    if (!settings)
      throw usage(
        'admin-key is for a shared database: set COUNTERSIGN_DATABASE and its secret',
        'a server with a data folder makes admin.key at its start',
      )
    const file = join(dataFolder(io, globals), 'admin.key')
    await inDatabase(settings, async ({ store, values, useTag }) => {
      const { contracts } = await import('#contracts/index.ts')
      const { createKernel } = await import('#kernel/kernel.ts')
      const { directory, people } = await import('#protocols/identity/directory.ts')
      const { protocols } = await import('#protocols/index.ts')
      const { createNotary, taggerOf } = await import('#workers/keys/notary.ts')
      const { openSharedKeys, sealShared } = await import('../../server/database/shared-keys.ts')
      const { sharedAnchorIn } = await import('../../server/folder/anchor.ts')
      const { issueAdminKey, revokeAdminKeys } = await import('../../server/folder/first-start.ts')
      const { makeFolder } = await import('../../server/folder/data-folder.ts')
      const keys = await openSharedKeys(values, settings.secret.name, { now: realClock.now, entropy: realEntropy })
      useTag(taggerOf(keys.server))
      await sealShared(settings.url, values, async () => ({
        isForced: false,
        anchor: await sharedAnchorIn(dataFolder(io, globals)).read(),
      }))
      const notary = createNotary(keys.server, keys.ring, () => '')
      const clock = { now: realClock.now, entropy: realEntropy }
      const kernel = createKernel({ store, protocols, contracts, directory, people, notary, ...clock, asksPerMinute: null })
      if (given.get('revoke') === true) await revokeAdminKeys(kernel)
      makeFolder(dataFolder(io, globals))
      await issueAdminKey(kernel, file)
    })
    io.out.write(`${paint('green', '✔')} a new admin key is in ${file}\n`)
  },
})

const isUrl = (text: string): boolean => /^postgres(ql)?:/.test(text)

/** The database of a move: its URL as given, its secret from the environment. */
function databaseAt(url: string, { env, ...io }: Io): DatabaseSettings {
  return databaseIn({ ...io, env: { ...env, COUNTERSIGN_DATABASE: url } })!
}

const migrate = spec(
  'migrate',
  "Move a stopped server's data folder into a PostgreSQL, or back; an interrupted move continues where it stopped.",
  {
    isLocal: true,
    flags: [
      { ...flag('from', 'folder|url', 'the data folder or the postgres:// URL to move from'), required: true },
      { ...flag('to', 'folder|url', 'the postgres:// URL of an empty database, or a new folder'), required: true },
    ],
    examples: [
      'countersign migrate --from /var/lib/countersign --to postgres://countersign@db.example.com/countersign',
      'countersign migrate --from postgres://countersign@db.example.com/countersign --to ./data',
    ],
    async run({ io, paint, json }, given) {
      const [from, to] = [String(given.get('from')), String(given.get('to'))]
      if (isUrl(from) === isUrl(to))
        throw usage('one of --from and --to is a data folder, the other a URL such as postgres://user@host/database')
      const { moveToDatabase, moveToFolder } = await import('../../server/database/move.ts')
      const { operatorMessage } = await import('#stores/postgres/link.ts')
      const say = (message: string): void => void (io.err.isTTY === true && io.err.write(`\r${message}          `))
      try {
        const moved = isUrl(to)
          ? await moveToDatabase(resolve(io.cwd, from), databaseAt(to, io), say)
          : await moveToFolder(databaseAt(from, io), resolve(io.cwd, to), say)
        if (json) return void io.out.write(`${JSON.stringify(moved)}\n`)
        io.out.write(
          `${paint('green', '✔')} ${moved.facts} events, ${moved.documents} documents and ${moved.blobs} blobs were moved and verified\n`,
        )
        io.out.write(
          'It is a copy that serves reads alone until `countersign adopt` makes it the installation. The origin no longer starts.\n',
        )
      } catch (error) {
        if (error instanceof CliError) throw error
        // A refusal says what to do; any other error interrupted the work.
        if (error instanceof StartError) throw new CliError(exits.refused, 'NOT_MOVED', error.message)
        throw new CliError(exits.refused, 'NOT_MOVED', operatorMessage(error), 'run it again: it continues where it stopped')
      }
    },
  },
)

const adopt = spec('adopt', 'Make a copy, such as `migrate` leaves, the installation: after a restart it changes, sends and fires again.', {
  isLocal: true,
  flags: [],
  examples: [
    'countersign adopt --data /var/lib/countersign',
    'COUNTERSIGN_DATABASE=postgres://db.example.com/countersign countersign adopt',
  ],
  async run({ io, globals, paint, json }) {
    const settings = databaseIn(io)
    const data = dataFolder(io, globals)
    const adopted = settings
      ? await inDatabase(settings, async ({ values }) => adoptAt(sharedMark(values), 'the database'))
      : await adoptFolder(data)
    if (json) return void io.out.write(`${JSON.stringify({ adopted })}\n`)
    io.out.write(
      adopted
        ? `${paint('green', '✔')} ${settings ? 'the database' : data} is the installation now: restart its servers\n`
        : `${settings ? 'the database' : data} is not a copy: there is nothing to adopt\n`,
    )
  },
})

function adoptFolder(data: string): Promise<boolean> {
  if (!existsSync(join(data, 'countersign.db')))
    throw new CliError(exits.refused, 'NOT_ADOPTED', `there is no Countersign data in ${data}`, 'name the folder with --data')
  return adoptAt(markIn(data), data)
}

async function adoptAt(file: MarkFile, where: string): Promise<boolean> {
  const mark = await file.read().catch((error: unknown) => {
    throw new CliError(exits.refused, 'NOT_ADOPTED', (error as Error).message)
  })
  if (mark === null) return false
  if ('moved_to' in mark)
    throw new CliError(
      exits.refused,
      'NOT_ADOPTED',
      `${where} was moved to ${mark.moved_to} at ${mark.at}, and two installations would sign with the same keys`,
      'adopt that one',
    )
  await file.write(null)
  return true
}

export const databaseSpecs: readonly Spec[] = [adminKey, migrate, adopt]
