// Storage in a PostgreSQL that several servers share. The requirements of that database are checked before any request is answered.
import pg from 'pg'
import type { Tag } from '#kernel/log/sealed-documents.ts'
import { postgresBlobs } from '#stores/postgres/blobs.ts'
import { connectAlone, SCHEMA, operatorMessage } from '#stores/postgres/link.ts'
import { blobPool, createPins } from '#stores/postgres/pins.ts'
import { wrappedValues } from '#stores/postgres/wrapped-values.ts'
import { openBlobs } from '#stores/blobs/index.ts'
import { postgresStore, type PostgresStore } from '#stores/postgres/index.ts'
import { taggerOf } from '#workers/keys/notary.ts'
import type { Worker } from '#workers/worker.ts'
import { realEntropy } from '../clock.ts'
import type { DatabaseSettings } from '../settings/database-settings.ts'
import { StartError } from '../start-error.ts'
import type { Storage, StorageParts } from '../storage.ts'
import { sharedMark } from '../folder/move-mark.ts'
import { sharedAnchorIn } from '../folder/anchor.ts'
import { sharedCheckpoints } from '../record-log/files.ts'
import { sharedLogRing } from '../record-log/key.ts'
import { createDatabaseFigures } from './figures.ts'
import { secretFrom } from './secret.ts'
import { openSharedKeys, openSharedPushKeys, sealShared, sharedMarker, type SealWish } from './shared-keys.ts'

export type Durability = 'single' | 'replicated'

/** How often the server checks whether a standby confirms commits. */
const LOOK_MS = 10_000
/** How long servers can catch up with the changes of others; a server that missed more drops its cache. */
const KEPT_SECONDS = 600
/** NTP-synchronized clocks differ by less. */
const CLOCKS_MS_MAX = 5_000
const CONNECT_MS = 5_000
/** A pooler without a free session does not answer, so the wait has an end. */
const ANSWER_MS = 10_000

export async function openSharedStorage(parts: StorageParts, settings: DatabaseSettings, node: string): Promise<Storage> {
  const { config, clock, log, findings, onFatal, signal, progress = () => undefined } = parts
  const secret = secretFrom(settings.secret)
  progress(`connecting to the database ${hostIn(settings.url)}`)
  let durability = await orStartError(() => checkDurability(settings))
  const figures = createDatabaseFigures()
  // The tag needs a key from the database, and reading that key needs no tag.
  let tag: Tag | null = null
  const store = await orStartError(() =>
    postgresStore(settings.url, {
      node,
      readOnly: parts.config.readOnly,
      ...(signal ? { signal } : {}),
      progress,
      fatal: onFatal,
      found: findings.add,
      tag: (text) => tag?.(text) ?? '',
      hasKey: () => tag !== null,
      bug: (error) => log.error({ err: error }, 'a listener of the store failed'),
      committed: figures.commit.observe,
      asked: figures.barrier.observe,
      unknown: figures.unknown,
    }),
  )
  const pool = blobPool(settings.url, node)
  const close = async (): Promise<void> => {
    await store.close()
    await pool.end()
  }
  try {
    const values = wrappedValues(store.query, secret)
    const keys = await openSharedKeys(values, settings.secret.name, { now: clock.now, entropy: realEntropy })
    tag = taggerOf(keys.server)
    const readSealWish = async (): Promise<SealWish> => ({
      isForced: parts.config.skipVerify,
      anchor: await sharedAnchorIn(parts.folder.path).read(),
    })
    // A record without seals is sealed by a server that may write.
    for (const difference of parts.config.readOnly ? [] : await orStartError(() => sealShared(settings.url, values, readSealWish, signal)))
      findings.add(difference)
    const pins = createPins(pool)
    const clocks = compareClocks(store, clock.now, log)
    await clocks()
    const look = every(LOOK_MS, async () => {
      durability = await durabilityOf(store)
      await clocks()
    })
    return {
      kind: 'postgres',
      keys,
      pushKeys: await openSharedPushKeys(values, clock.now),
      store,
      blobs:
        settings.blobs === null
          ? postgresBlobs(pool, pins)
          : await openBlobs(settings.blobs, { fatal: onFatal, pins, floorBytes: config.diskFloorBytes ?? 0 }),
      marker: sharedMarker(values),
      mark: sharedMark(values),
      logRing: sharedLogRing(values, clock.now),
      checkpoints: sharedCheckpoints(values, parts.folder.path),
      durability: () => durability,
      amiss: () => null,
      isReachable: store.isReachable,
      trim: () => store.trim(KEPT_SECONDS),
      workers: [look],
      figures: () => figures.lines(store.foreign()),
      settingUp: (work) => alone(settings.url, signal, work),
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

/** Runs on one server at a time: the first creates the data, the others find it. The lock of a stalled server times out. */
async function alone<T>(url: string, signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
  const client = await orStartError(() => connectAlone(url, 'countersign first start', signal))
  try {
    await orStartError(() => client.query(`BEGIN; SET LOCAL idle_in_transaction_session_timeout = '30s'`))
    await orStartError(() => client.query(`SELECT n FROM ${SCHEMA}.migrations WHERE n = 1 FOR UPDATE`))
    return await work()
  } finally {
    await client.end().catch(() => undefined)
  }
}

/** A failed run is retried at the next interval. */
function every(ms: number, work: () => Promise<void>): Worker {
  const timer = setInterval(() => void work().catch(() => undefined), ms)
  timer.unref()
  return {
    stop() {
      clearInterval(timer)
      return Promise.resolve()
    },
  }
}

/** Warns about clock skew. No decision compares clocks, but deadlines follow the clock of the server that holds the timers lease. */
function compareClocks(store: PostgresStore, now: () => number, log: StorageParts['log']): () => Promise<void> {
  let isSaid = false
  return async () => {
    const [row] = await store.query<{ ms: string }>('clock', 'SELECT extract(epoch FROM clock_timestamp()) * 1000 AS ms', [])
    const apart = now() - Number(row!.ms)
    const isApart = Math.abs(apart) > CLOCKS_MS_MAX
    if (isApart && !isSaid) {
      const message = `${Math.round(Math.abs(apart) / 1_000)} s ${apart > 0 ? 'ahead of' : 'behind'}`
      log.warn({}, `the clock of this server is ${message} that of the database, so deadlines fire early or late: set both clocks`)
    }
    isSaid = isApart
  }
}

async function durabilityOf(store: PostgresStore): Promise<Durability> {
  const text = `SELECT current_setting('synchronous_standby_names', TRUE) AS names, current_setting('synchronous_commit', TRUE) AS commit`
  const [row] = await store.query<{ names: string | null; commit: string | null }>('durability', text, [])
  return durabilityBy(row!.names, row!.commit)
}

/** Replicated means: a standby has flushed each commit to disk before it is acknowledged. `remote_write` or less does not guarantee that. */
const durabilityBy = (names: string | null | undefined, commit: string | null | undefined): Durability =>
  names && ['on', 'remote_apply'].includes(commit ?? '') ? 'replicated' : 'single'

const NEEDED = 130_000

/** Refuses at startup database settings that would lose acknowledged work, or stop the server later. */
async function checkDurability({ url, isReplicatedOnly }: DatabaseSettings): Promise<Durability> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: CONNECT_MS, query_timeout: ANSWER_MS })
  client.on('error', () => undefined)
  await client.connect()
  try {
    const names = [
      'server_version_num',
      'server_encoding',
      'fsync',
      'full_page_writes',
      'synchronous_standby_names',
      'synchronous_commit',
      'transaction_read_only',
    ]
    const { rows } = await client.query<{ name: string; value: string }>(
      'SELECT name, current_setting(name, TRUE) AS value FROM unnest($1::text[]) AS name',
      [names],
    )
    const of = new Map(rows.map(({ name, value }) => [name, value]))
    const refuse = (message: string): never => {
      throw new StartError(`the database ${hostIn(url)} cannot be used: ${message}`)
    }
    if (Number(of.get('server_version_num')) < NEEDED) refuse('it is older than PostgreSQL 13')
    if (of.get('server_encoding') !== 'UTF8')
      refuse(`its encoding is ${of.get('server_encoding')}, not UTF8: create it with ENCODING 'UTF8'`)
    if (of.get('transaction_read_only') === 'on') refuse('it can only be read: it is a standby, or was made read-only')
    if (of.get('fsync') === 'off') refuse('its fsync is off, so a power cut loses what was acknowledged: set fsync = on')
    if (of.get('full_page_writes') === 'off') refuse('its full_page_writes is off, so a power cut may break it: set full_page_writes = on')
    const [standbys, commit] = [of.get('synchronous_standby_names'), of.get('synchronous_commit')]
    const durability = durabilityBy(standbys, commit)
    if (isReplicatedOnly && durability === 'single')
      refuse(
        `no standby confirms its commits (${standbys ? `synchronous_commit is ${commit}` : 'synchronous_standby_names is empty'}), and --require-replicated was given`,
      )
    await refusePooler(client, url)
    return durability
  } finally {
    await client.end().catch(() => undefined)
  }
}

/** Refuses a pooler that gives each transaction another session: it loses settings and notifications. */
async function refusePooler(first: pg.Client, url: string): Promise<void> {
  const second = new pg.Client({ connectionString: url, connectionTimeoutMillis: CONNECT_MS, query_timeout: ANSWER_MS })
  second.on('error', () => undefined)
  await second.connect()
  const sessionOf = async (client: pg.Client): Promise<number> =>
    (await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')).rows[0]!.pid
  try {
    // Open transactions hold one session each. Commit in both orders: a pooler reuses sessions last in first out, or first in first out.
    for (const order of [
      [first, second],
      [second, first],
    ]) {
      const before = new Map<pg.Client, number>()
      for (const client of [first, second]) {
        await client.query('BEGIN')
        before.set(client, await sessionOf(client))
      }
      for (const client of order) await client.query('COMMIT')
      for (const client of [first, second]) {
        await client.query('BEGIN')
        if ((await sessionOf(client)) !== before.get(client))
          throw new StartError(
            `${hostIn(url)} is a pooler that gives each transaction another session: connect to PostgreSQL itself, or set the pooler to sessions`,
          )
      }
      for (const client of [first, second]) await client.query('COMMIT')
    }
  } finally {
    await second.end().catch(() => undefined)
  }
}

/** Without its password. */
function hostIn(url: string): string {
  const { host, pathname } = new URL(url)
  return `${host}${pathname}`
}

async function orStartError<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof StartError) throw error
    throw new StartError(`the database cannot be used: ${operatorMessage(error)} (see --database)`)
  }
}
