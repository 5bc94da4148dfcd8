// Storage of an installation: its store, its keys and its bytes, in the data folder of one server or in a database that several share.
import { existsSync } from 'node:fs'
import type { Blobs } from '#kernel/ports/blobs.ts'
import type { Clock } from '#kernel/ports/clock.ts'
import type { Store } from '#kernel/log/store.ts'
import { openBlobs } from '#stores/blobs/index.ts'
import { sqliteStore, type SqliteOptions } from '#stores/sqlite.ts'
import type { PushRing } from '#workers/keys/push-keys.ts'
import { taggerOf } from '#workers/keys/notary.ts'
import type { Findings } from '#workers/upkeep/findings.ts'
import type { MarkerFile } from '#workers/upkeep/record-verifier.ts'
import type { Worker } from '#workers/worker.ts'
import { realEntropy } from './clock.ts'
import type { DataFolder } from './folder/data-folder.ts'
import { anchorIn } from './folder/anchor.ts'
import { markSealed, openKeyFiles, replacedIn, SERVER_KEY, wasSealed, type Keys } from './folder/key-files.ts'
import { openPushKeyFile } from './folder/push-key-file.ts'
import type { Config } from './settings/config.ts'
import { StartError } from './start-error.ts'
import type { Logger } from './log.ts'
import { markIn, type MarkFile } from './folder/move-mark.ts'
import { checkpointFiles } from './record-log/files.ts'
import { folderLogRing } from './record-log/key.ts'
import type { LogStorage } from './record-log/open.ts'

export type Storage = LogStorage & {
  readonly kind: 'sqlite' | 'postgres'
  readonly keys: Keys
  /** Which pushes to browsers are signed with. */
  readonly pushKeys: () => PushRing
  readonly store: Store
  readonly blobs: Blobs
  /** How far the record is verified. */
  readonly marker: MarkerFile
  /** Left by a move. */
  readonly mark: MarkFile
  /** The promise that an answer makes. */
  durability(): string
  /** The reason why the store cannot write at the moment; null: it can write. */
  amiss(): string | null
  /** Whether the store can be reached; a server without its store is not ready. */
  isReachable(): boolean
  /** Deletes old notifications between servers; null: there are no other servers. */
  readonly trim: (() => Promise<unknown>) | null
  /** Workers that run beside the store for as long as it is open. */
  readonly workers: readonly Worker[]
  /** The store's own figures, for /metrics. */
  figures(): readonly string[]
  /** The first start, while no other server does the same. */
  settingUp<T>(work: () => Promise<T>): Promise<T>
  close(): Promise<void>
}

export type StorageParts = {
  readonly folder: DataFolder
  readonly config: Pick<Config, 'skipVerify' | 'readOnly'> & Partial<Pick<Config, 'diskFloorBytes'>>
  readonly clock: Clock
  readonly log: Logger
  readonly findings: Findings
  readonly onFatal: (error: unknown) => void
  /** Ends the start early. */
  readonly signal?: AbortSignal
  /** Called with each long step of the start. */
  readonly progress?: (text: string) => void
}

/** The data folder holds everything, and one server has it. */
export async function openFolderStorage({ folder, config, clock, log, findings, onFatal }: StorageParts): Promise<Storage> {
  if (config.readOnly && !existsSync(folder.database))
    throw new StartError(`there is no Countersign data in ${folder.path}: --read-only starts an installation that is there`)
  // Opened before the database is created: only a new installation may lack its keys.
  const keys = await openKeyFiles(folder.keys, !existsSync(folder.database), { now: clock.now, entropy: realEntropy })
  const retags = replacedIn(folder.keys).includes(SERVER_KEY)
  if (retags && config.readOnly)
    throw new StartError(
      `${folder.keys}/${SERVER_KEY} was replaced, and the record must be sealed again under the new key: start once without --read-only`,
    )
  const anchor = await anchorIn(folder.path).read()
  const isAccepted = retags || anchor?.accepted === true
  const tags = { tag: taggerOf(keys.server), retags, wasSealed: (wasSealed(folder.keys) || anchor !== null) && !isAccepted }
  const store = openStore(folder, config, { fatal: onFatal, found: findings.add, amiss: folder.lock.amiss, ...tags }, log)
  folder.lock.keep([folder.database, `${folder.database}-wal`], log)
  try {
    if (!config.readOnly) await markSealed(folder.keys)
    return {
      kind: 'sqlite',
      keys,
      pushKeys: await openPushKeyFile(folder.keys, clock.now),
      store,
      blobs: await openBlobs(folder.blobs, { fatal: onFatal, floorBytes: config.diskFloorBytes ?? 0 }),
      marker: folder.marker,
      mark: markIn(folder.path),
      logRing: folderLogRing(folder.keys, clock.now),
      checkpoints: checkpointFiles(folder.path),
      durability: () => 'every answer is on disk (WAL, synchronous=FULL)',
      amiss: folder.lock.amiss,
      isReachable: () => true,
      trim: null,
      workers: [],
      figures: () => [],
      settingUp: (work) => work(),
      close: store.close,
    }
  } catch (error) {
    await store.close()
    throw error
  }
}

type StoreOptions = Required<Pick<SqliteOptions, 'fatal' | 'tag' | 'retags' | 'wasSealed' | 'found' | 'amiss'>>

function openStore(folder: DataFolder, config: StorageParts['config'], options: StoreOptions, log: Logger): Store {
  const { database, reserve } = folder
  try {
    return sqliteStore(database, {
      ...options,
      readOnly: config.readOnly,
      isForced: config.skipVerify,
      bug: (error) => log.error({ err: error }, 'a listener of the store failed'),
    })
  } catch (error) {
    const message = (error as Error).message
    const mayBeFull = FULL.has(((error as { errcode?: number }).errcode ?? 0) & 0xff)
    if (!mayBeFull || !reserve.giveUp()) throw new StartError(`the database cannot be opened: ${message} (${database})`)
    log.warn({}, `the disk seems to be full (${message}): the reserve in the data folder was given up to open the database`)
  }
  return openStore(folder, config, options, log)
}
/** IOERR, FULL, CANTOPEN: the codes of SQLite if it cannot create a file beside the database. */
const FULL = new Set([10, 13, 14])
