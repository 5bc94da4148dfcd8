// The store for several servers: one PostgreSQL. Commits lock one row in turn, so positions have no gaps and follow the commit order. No
// commit is decided from a cache. Reads are as fresh as the barrier before them.
import { backoffMs } from '#kernel/codec/backoff.ts'
import { definedFields } from '#kernel/codec/strict-json.ts'
import { randomUUID } from 'node:crypto'
import type { Backend } from '#kernel/log/backend.ts'
import { Refusal, StoreUnavailable } from '#kernel/declare/errors.ts'
import { createGroupCommit, type GroupCommitOptions } from '#kernel/log/group-commit.ts'
import type { Head } from '#kernel/log/hash-chain.ts'
import type { AtRest } from '#kernel/log/sealed-documents.ts'
import type { Key, Store } from '#kernel/log/store.ts'
import { createFeed, FEED, feedIn, RECORD, type FeedRow } from './feed.ts'
import { createHints } from './hints.ts'
import { ask, createLink, isLost, letsNobodyIn, unavailableFor, type Link } from './link.ts'
import { documentsIn, entriesIn, factsIn, inspectionIn, keysIn, placeIn, sealsAt, sealsIn, seekIn, walksIn, type Query } from './reads.ts'
import { migrate, refuseUnmigrated } from './schema.ts'
import { inDb } from './text.ts'
import { createWriting } from './writing.ts'
import { salt } from '../salt.ts'

export type PostgresOptions = Partial<GroupCommitOptions> & {
  /** Shown by the database to its operator. */
  readonly node?: string
  /** Aborts the wait for another server's migration. */
  readonly signal?: AbortSignal
  /** Called for each long step of opening the store. */
  readonly progress?: (text: string) => void
  /** Does not migrate: tables of an earlier release are refused. */
  readonly readOnly?: boolean
  /** False: behave as if notifications did not arrive. */
  readonly listens?: boolean
  /** The timeouts before and after a group has sent its COMMIT. */
  readonly unsentMs?: number
  readonly unknownMs?: number
  /** Metrics: the duration of commits and of barriers, and commits with an unknown outcome. */
  committed?(seconds: number): void
  asked?(seconds: number): void
  unknown?(): void
}

export type PostgresStore = Store & {
  /** The number of groups of all servers known here. */
  foreign(): number
  /** Whether the last query was answered. */
  isReachable(): boolean
  /** Whether notifications arrive; otherwise this server polls for commits of others. */
  isHeard(): boolean
  /** Deletes hints older than this. A server that missed deleted hints clears its cache. */
  trim(olderThanSeconds: number): Promise<number>
  readonly query: Query
}

/** The timeout of one attempt on a silent connection, and of a query with all its attempts. */
const QUERY_MS = 3_000
const READ_MS = 4_500
/**
 * Every query is by key or by an index range, so each plan is made once and never scans a table. By default, the database plans lookups of
 * a few keys again each time, and keeps plans from when a table was small. Compiling a plan takes a hundred times as long as running it, so
 * JIT is off.
 */
const PLANS = { plan_cache_mode: 'force_generic_plan', enable_seqscan: 'off', jit: 'off' }

const WRITER_SETTINGS = {
  // A server that stops between its two round trips must not block all others.
  idle_in_transaction_session_timeout: '3s',
  lock_timeout: '4s',
  statement_timeout: '10s',
  synchronous_commit: 'on',
  ...PLANS,
}
const TRIM = `WITH gone AS (DELETE FROM delegated_groups WHERE n = ANY(ARRAY(SELECT n FROM delegated_groups ORDER BY n LIMIT 10000)) AND at < now() - make_interval(secs => $1) RETURNING n)
  SELECT count(*) AS n FROM gone`

export async function postgresStore(url: string, options: PostgresOptions = {}): Promise<PostgresStore> {
  const {
    node = 'server',
    readOnly = false,
    listens = true,
    unsentMs,
    unknownMs,
    committed,
    asked,
    unknown,
    signal,
    progress,
    ...sequencer
  } = options
  const name = `countersign ${node}`
  const self = randomUUID()
  await (readOnly ? refuseUnmigrated(url, signal) : migrate(url, undefined, signal, undefined, progress))
  const reader = createLink({ url, name: `${name} reads`, queryMs: QUERY_MS, settings: { statement_timeout: '10s', ...PLANS } })
  let isReachable = true
  const query = queryOn(reader, (is) => (isReachable = is), unsentMs)
  const [start] = await query<{ groups: number; position: number }>('start', 'SELECT groups, position FROM head WHERE one', [])
  const feed = createFeed(start!.groups)
  const writer = createLink({
    url,
    name: `${name} writes`,
    queryMs: 20_000,
    settings: WRITER_SETTINGS,
    warned: (code) => writing.warned(code),
  })
  const writing = createWriting({
    node: self,
    link: writer,
    feed,
    ...definedFields({ unsentMs, unknownMs, committed, unknown }),
  })
  const hints = createHints({
    url,
    name: `${name} hints`,
    queryMs: QUERY_MS,
    node: self,
    known: feed.since,
    last: async () => (await query<{ groups: number }>('last group', 'SELECT groups FROM head WHERE one', []))[0]!.groups,
    listens,
  })

  const backend: Backend = {
    openedAt: start!.position,
    ...readingOf(query),
    transact: writing.transact,
    heldUp: writing.heldUp,
    async news(sealed) {
      const began = performance.now()
      const since = feed.since()
      const { groups, onward } = feedIn(await query<FeedRow>('feed', FEED, [since, sealed]))
      asked?.((performance.now() - began) / 1_000)
      return { hint: feed.take(groups, since), onward }
    },
    watch: hints.watch,
    async close() {
      await hints.close()
      await Promise.all([writer.close(), reader.close()])
    },
  }
  const store = createGroupCommit(backend, {
    defer: setImmediate,
    salt,
    fatal: (error) => {
      throw error
    },
    ...sequencer,
  })
  return Object.assign(store, {
    foreign: feed.heard,
    isHeard: hints.isHeard,
    isReachable: () => isReachable,
    query,
    trim: async (seconds: number) => (await query<{ n: number }>('trim', TRIM, [seconds]))[0]!.n,
  })
}

/** Runs queries. They can be retried, so a lost connection is no reason to refuse. */
function queryOn(link: Link, told: (isReachable: boolean) => void, mostMs = READ_MS): Query {
  return async <T>(name: string, text: string, values: unknown[]): Promise<T[]> => {
    const until = performance.now() + mostMs
    for (let attempt = 1; ; attempt++) {
      try {
        const rows = await queryUntil<T>(link, name, text, values, until)
        told(true)
        return rows
      } catch (error) {
        const refusal = unavailableFor(error)
        if (letsNobodyIn(error)) told(false)
        if (error instanceof Refusal || !isLost(error)) throw refusal ?? error
        link.drop()
        const pauseMs = backoffMs(20, 500, attempt)
        if (performance.now() + pauseMs > until) throw refusal ?? error
        await new Promise((done) => setTimeout(done, pauseMs))
      }
    }
  }
}

async function queryUntil<T>(link: Link, name: string, text: string, values: unknown[], until: number): Promise<T[]> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  late.catch(() => undefined)
  const timer = setTimeout(
    () => reject(new StoreUnavailable('the database cannot be reached', { retry_after: 1 })),
    Math.max(1, until - performance.now()),
  )
  try {
    const client = await Promise.race([link.get(), late])
    return (await Promise.race([ask<T>(client, name, text, values), late])).rows
  } finally {
    clearTimeout(timer)
  }
}

type Reads = Omit<Backend, 'openedAt' | 'transact' | 'heldUp' | 'news' | 'watch' | 'close'>

function readingOf(query: Query): Reads {
  const walks = walksIn(query)
  const read = gatherReads((keys) => documentsIn(query, keys))
  return {
    read,
    inspect: (key, entries, prefixes) => inspectionIn(query, key, entries, prefixes),
    tally: walks.tally,
    counts: walks.counts,
    imagesAt: walks.imagesAt,
    allKeys: walks.allKeys,
    prefixes: walks.prefixes,
    async head(scope) {
      return (await query<Head>('head', 'SELECT seq, hash, at FROM chains WHERE scope = $1', [scope]))[0]
    },
    async count(prefix) {
      return (await query<{ n: number }>('count', 'SELECT count AS n FROM counts WHERE prefix = $1', [inDb(prefix)]))[0]?.n ?? 0
    },
    async position() {
      return (await query<{ position: number }>('position', 'SELECT position FROM head WHERE one', []))[0]!.position
    },
    scan: (after, end, limit, reverse = false) => entriesIn(query, after, end, limit, reverse),
    keys: (after, end, limit) => keysIn(query, after, end, limit),
    facts: (of, page) => factsIn(query, of, page),
    onward: async (sealed) => feedIn(await query<FeedRow>('record', RECORD, [sealed])).onward,
    seals: (after, limit) => sealsIn(query, after, limit),
    sealsAt: (positions) => sealsAt(query, positions),
    seek: (scope, at) => seekIn(query, scope, at),
    place: (key) => placeIn(query, key),
  }
}

/** Combines the keys requested in one turn of the event loop into one query. */
function gatherReads(ask: (keys: readonly Key[]) => Promise<ReadonlyMap<Key, AtRest>>): Backend['read'] {
  let waiting: { keys: Set<Key>; answer: Promise<ReadonlyMap<Key, AtRest>> } | null = null
  return async (keys) => {
    if (!waiting) {
      const mine = { keys: new Set<Key>(), answer: Promise.resolve(new Map() as ReadonlyMap<Key, AtRest>) }
      waiting = mine
      mine.answer = Promise.resolve().then(() => {
        waiting = null
        return ask([...mine.keys])
      })
    }
    const { keys: all, answer } = waiting
    for (const key of keys) all.add(key)
    const found = await answer
    return keys.map((key) => found.get(key))
  }
}
