// A data folder read without its server: the same queries on the same kernel, as the system, over a store that cannot be written.
import { existsSync } from 'node:fs'
import { contracts } from '#contracts/index.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { SYSTEM } from '#kernel/declare/access.ts'
import { createKernel, type Kernel } from '#kernel/kernel.ts'
import type { Store } from '#kernel/log/store.ts'
import { directory, people } from '#protocols/identity/directory.ts'
import { protocols } from '#protocols/index.ts'
import { sqliteStore, type SqliteOptions } from '#stores/sqlite.ts'
import { taggerOf } from '#workers/keys/notary.ts'
import { realClock, realEntropy } from '../../server/clock.ts'
import { keysIn, serverKeyOrNull } from '../../server/folder/key-files.ts'
import { CliError, exits, refusedBy, usage } from '../exit-codes.ts'
import { databaseIn } from './credentials.ts'
import { callsBy } from './calls.ts'
import type { AnyOutput, Remote } from './remote.ts'

export function openStore(folder: string, options: Pick<SqliteOptions, 'found'> = {}): Store {
  const path = databaseIn(folder)
  if (!existsSync(path)) {
    throw new CliError(
      exits.refused,
      'NO_DATA',
      `there is no Countersign data in ${folder}`,
      '--data names the folder that the server uses',
    )
  }
  try {
    const server = serverKeyOrNull(keysIn(folder))
    return sqliteStore(path, { readOnly: true, ...(server ? { tag: taggerOf(server) } : {}), ...options })
  } catch (error) {
    throw new CliError(exits.refused, 'UNREADABLE', `${path} cannot be read: ${(error as Error).message}`)
  }
}

export function openFolder(folder: string): Remote {
  const store = openStore(folder)
  const kernel = createKernel({
    store,
    protocols,
    contracts,
    directory,
    people,
    now: realClock.now,
    entropy: realEntropy,
    asksPerMinute: null,
  })
  const online = (what: string): never => {
    throw usage(`${what} needs a running server`, 'omit --data to ask the server')
  }
  return {
    where: folder,
    isOffline: true,
    ...callsBy((operation, input) =>
      isQuery(kernel, operation) ? callAsSystem(kernel, operation, input) : online(`${operation} changes something and`),
    ),
    follow: () => online('following the record'),
    upload: () => online('an upload'),
    download: () => online('a download'),
    asking: () => online('asking'),
    close: () => store.close(),
  }
}

function isQuery(kernel: Kernel, operation: string): boolean {
  return kernel.protocols.some(({ name, operations }) => operations.some((op) => op.kind === 'query' && `${name}/${op.name}` === operation))
}

async function callAsSystem(kernel: Kernel, operation: string, input: object): Promise<AnyOutput> {
  try {
    return (await kernel.call(operation, input, SYSTEM)) as AnyOutput
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    throw refusedBy(error.code, error.message, error.details)
  }
}
