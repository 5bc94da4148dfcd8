// Group writes to PostgreSQL, one after the other. Each is a transaction of two round trips. The first locks the one row of `head` and
// reads what the group depends on. Pure code then stages the rows. The second sends one statement for all tables and COMMIT. Each group has
// a random id, by which it is looked up if the outcome of its COMMIT is unknown.
import { backoffMs } from '#kernel/codec/backoff.ts'
import { randomUUID } from 'node:crypto'
import type { Client, QueryResult } from 'pg'
import type { Backend, DocState, Group, State, Wanted, WriteFailure } from '#kernel/log/backend.ts'
import type { Head } from '#kernel/log/hash-chain.ts'
import type { Key } from '#kernel/log/store.ts'
import { Damaged, Refusal } from '#kernel/declare/errors.ts'
import { texts } from './columns.ts'
import { FEED, feedIn, type Feed, type FeedRow } from './feed.ts'
import { ask, asksAgain, inOneTrip, isLost, Lost, together, unavailableFor, type Link, type Row } from './link.ts'
import { statementsOf } from './statements.ts'
import { fromDb, inDb, isTooLong } from './text.ts'

/** A group that has not sent its COMMIT is refused after this time. */
const UNSENT_MS = 4_500
/** How long the caller waits while the outcome of a COMMIT is unknown. */
const UNKNOWN_MS = 15_000
const COMMIT_MS = 5_000
const PAUSE_MS_MAX = 500
/** PostgreSQL's code for a COMMIT whose wait for a standby was cancelled: it is stored here, but would not survive a failover. */
const NOT_REPLICATED = '01000'

export type WritingOptions = {
  /** Identifies this process. */
  readonly node: string
  readonly link: Link
  readonly feed: Feed
  readonly unsentMs?: number
  readonly unknownMs?: number
  committed?(seconds: number): void
  unknown?(): void
  /** Replaced by simulations. */
  readonly time?: Time
}

/** Time and randomness: a monotonic clock in milliseconds, a timer, a random number from 0 up to 1, a unique id. */
export type Time = {
  now(): number
  /** Returns a function that cancels the timer. */
  later(run: () => void, ms: number): () => void
  chance(): number
  id(): string
}

const realTime: Time = {
  now: () => performance.now(),
  later(run, ms) {
    const timer = setTimeout(run, ms)
    return () => clearTimeout(timer)
  },
  chance: Math.random,
  id: randomUUID,
}

type Attempt = { readonly id: string; isSent: boolean; n: number }

export type Writing = {
  readonly transact: Backend['transact']
  readonly heldUp: NonNullable<Backend['heldUp']>
  /** Called by the connection with the code of a warning. */
  warned(code: string): void
}

const writeFailure = (failure: WriteFailure['failure'], message: string): Error & WriteFailure =>
  Object.assign(new Error(message), { failure, explanation: message })

export function createWriting({ node, link, feed, ...options }: WritingOptions): Writing {
  const { unsentMs = UNSENT_MS, unknownMs = UNKNOWN_MS, time = realTime } = options
  const sleep = (ms: number): Promise<void> => new Promise((done) => void time.later(done, ms))
  /** A random pause, so that losers of a race do not collide again immediately. */
  const pauseAfter = (attempt: number): number => backoffMs(10, PAUSE_MS_MAX, attempt) * (0.5 + time.chance() / 2)
  let warnings: string[] = []
  let refuseWaiting: ((message: string) => void) | undefined

  async function transact(wanted: () => Wanted, stage: (state: State) => Group | null): Promise<void> {
    let callOff: () => void
    const hold = (ms: number): void => {
      callOff = time.later(() => {
        refuseWaiting?.('the database does not answer')
        hold(PAUSE_MS_MAX)
      }, ms)
    }
    hold(unsentMs)
    try {
      await untilDone(wanted, stage)
    } finally {
      callOff!()
    }
  }

  async function untilDone(wanted: () => Wanted, stage: (state: State) => Group | null): Promise<void> {
    const began = time.now()
    const asked = wanted()
    for (let attempt = 1, until = began + unsentMs; ; attempt++) {
      const group: Attempt = { id: time.id(), isSent: false, n: 0 }
      try {
        await once(asked, stage, group, until)
        options.committed?.((time.now() - began) / 1_000)
        return
      } catch (error) {
        const isUnanswered = isLost(error) && (error as Partial<WriteFailure>).failure === undefined
        if (!isUnanswered && !asksAgain(error)) throw failureFor(error)
        if (isUnanswered) link.drop()
        if (group.isSent && isUnanswered) {
          options.unknown?.()
          until = began + unknownMs
          if (await isThere(group, until)) return
        }
        if (time.now() > until) throw failureFor(error)
        await sleep(pauseAfter(attempt))
      }
    }
  }

  async function once(asked: Wanted, stage: (state: State) => Group | null, group: Attempt, until: number): Promise<void> {
    const client = await within(link.get(), until)
    const since = feed.since()
    const read = await within(lockAndRead(client, asked, since), until).catch(async (error: unknown) => {
      if (!isLost(error)) await leave(client)
      throw error
    })
    const { groups, image } = read.news[0]!
    let rows: Group | null
    try {
      // No `await` between the two: only staging reports what was taken from the feed.
      rows = stage({ ...read.state, news: feed.take(read.news, since) })
      if (rows) refuseTooLong(rows)
    } catch (error) {
      await leave(client)
      throw Object.assign(error as Error, { failure: 'refused' } as const)
    }
    if (!rows) return leave(client)
    group.n = groups + 1
    const written = statementsOf(rows, { n: group.n, id: group.id, node, image })
    warnings = []
    const sending = inOneTrip(client, () => [
      ...written.map(([name, text, values]) => ask(client, name, text, values)),
      ask(client, 'commit', 'COMMIT'),
    ])
    group.isSent = true
    checkCommit(await within(Promise.allSettled(sending), time.now() + COMMIT_MS))
    feed.reached(group.n)
  }

  /** PostgreSQL also answers the COMMIT of a failed transaction, with ROLLBACK. */
  function checkCommit(all: PromiseSettledResult<QueryResult<Row>>[]): void {
    const commit = all.at(-1)!
    const failed = all.find((result) => result.status === 'rejected')
    if (commit.status === 'rejected') throw isLost(commit.reason) ? commit.reason : (failed?.reason ?? commit.reason)
    if (commit.value.command !== 'COMMIT') throw failed?.reason ?? new Error(`the group was rolled back (${commit.value.command})`)
    if (warnings.includes(NOT_REPLICATED)) throw new Lost('it is not known to be replicated')
  }

  /** The lock is granted once the lost transaction has ended. A group that is absent then was not committed and never will be. */
  async function isThere(group: Attempt, until: number): Promise<boolean> {
    feed.forget(group.n)
    for (let attempt = 1; ; attempt++) {
      try {
        const client = await within(link.get(), until)
        warnings = []
        const trip = inOneTrip(client, () => [
          ask(client, 'begin', 'BEGIN'),
          ask(client, 'lock', 'SELECT 1 AS one FROM head WHERE one FOR UPDATE'),
          ask<{ n: number }>(client, 'find', 'SELECT n FROM delegated_groups WHERE id = $1', [group.id]),
          // A write: if its COMMIT brings no warning, everything before it is replicated, too.
          ask(client, 'touch', 'UPDATE head SET touched = touched + 1 WHERE one'),
          ask(client, 'commit', 'COMMIT'),
        ])
        const all = await within(together(trip), Math.min(until, time.now() + COMMIT_MS))
        if (all.at(-1)!.command !== 'COMMIT') throw new Lost('the lookup was rolled back')
        if (warnings.includes(NOT_REPLICATED)) throw new Lost('it is not known to be replicated')
        feed.forget(group.n)
        return all[2]!.rows.length > 0
      } catch (error) {
        link.drop()
        if (time.now() > until)
          throw writeFailure('unknown', `the connection to the database was lost while it committed (${(error as Error).message})`)
        await sleep(pauseAfter(attempt))
      }
    }
  }

  /** Rolls back on a connection that still works: the session must not stay in a transaction. */
  async function leave(client: Client): Promise<void> {
    await within(ask(client, 'rollback', 'ROLLBACK'), time.now() + COMMIT_MS).catch(() => link.drop())
  }

  /** After the timeout the answer counts as lost, and the connection is dropped with all its queries in flight. */
  function within<T>(work: Promise<T>, until: number): Promise<T> {
    return new Promise((done, no) => {
      const callOff = time.later(
        () => {
          link.drop()
          no(new Lost('the database does not answer'))
        },
        Math.max(1, until - time.now()),
      )
      work.then(done, no).finally(callOff)
    })
  }

  return { transact, heldUp: (refuse) => void (refuseWaiting = refuse), warned: (code) => void warnings.push(code) }
}

function failureFor(error: unknown): Error & WriteFailure {
  if ((error as Partial<WriteFailure>).failure !== undefined) return error as Error & WriteFailure
  const refusal = unavailableFor(error)
  if (refusal) return writeFailure('full', refusal.message.replace(/: nothing was changed$/, ''))
  const foreign = foreignRow(error)
  if (foreign !== null) return Object.assign(new Damaged('record', foreign), { failure: 'refused' } as const)
  return Object.assign(error as Error, { failure: 'refused' } as const)
}

/** Behind the lock every position and image number is assigned once, so a duplicate row was not written by a server. */
function foreignRow(error: unknown): string | null {
  const { code, table, detail } = error as { readonly code?: string; readonly table?: string; readonly detail?: string }
  const isForeign = code === '23505' && ['facts', 'images', 'seals'].includes(table ?? '')
  return isForeign ? `${table} has a row that no server of this installation wrote (${detail ?? 'its key was to be given next'})` : null
}

function refuseTooLong({ entries, create, counts }: Group): void {
  const long = entries.find(isTooLong) ?? create.find(({ key }) => isTooLong(key))?.key ?? counts.find(([prefix]) => isTooLong(prefix))?.[0]
  if (long !== undefined)
    throw Object.assign(
      new Refusal('TOO_LARGE', `an index entry of ${Buffer.byteLength(long)} bytes is longer than the database takes: ${shownOf(long)}`),
      { failure: 'refused' as const },
    )
}

/** The first characters of an entry, with spaces between its parts. */
const shownOf = (entry: string): string => entry.slice(0, 80).replaceAll('\0', ' ')

type Read = { readonly state: Omit<State, 'news'>; readonly news: readonly FeedRow[] }

/** A row that a group depends on. `number`: the position of the head, the version of a document, the seq of a chain, or a count. */
type StateRow =
  | (Omit<FeedRow, 'position'> & { readonly of: 'feed'; readonly number: number })
  | (Omit<DocState, 'version'> & { readonly of: 'docs'; readonly name: string; readonly number: number })
  | (Omit<Head, 'seq'> & { readonly of: 'chains'; readonly name: string; readonly number: number })
  | { readonly of: 'counts'; readonly name: string; readonly number: number }
const STATE = `SELECT 'feed' AS of, NULL AS name, position AS number, image, hash, NULL AS at, groups, n, hint FROM (${FEED}) f
  UNION ALL SELECT 'docs', key, version, image, NULL, NULL, NULL, NULL, NULL FROM docs WHERE key = ANY($3::text[])
  UNION ALL SELECT 'chains', scope, seq, NULL, hash, at, NULL, NULL, NULL FROM chains WHERE scope = ANY($4::text[])
  UNION ALL SELECT 'counts', prefix, count, NULL, NULL, NULL, NULL, NULL, NULL FROM counts WHERE prefix = ANY($5::text[])`

/** One round trip. Each statement sees all commits before the lock was granted: READ COMMITTED takes a snapshot per statement. */
async function lockAndRead(client: Client, { keys, scopes, prefixes, sealed }: Wanted, since: number): Promise<Read> {
  const wanted = [texts([...keys].map(inDb)), texts([...scopes]), texts([...prefixes].map(inDb))]
  const trip = inOneTrip(client, () => [
    ask(client, 'begin', 'BEGIN'),
    ask(client, 'lock', 'SELECT 1 AS one FROM head WHERE one FOR UPDATE'),
    ask(client, 'state', STATE, [since, sealed, ...wanted]),
  ])
  const rows = (await together(trip))[2]!.rows as StateRow[]
  const feed: FeedRow[] = []
  const found = new Map<Key, DocState>()
  const heads = new Map<string, Head>()
  const sums = new Map<string, number>()
  for (const row of rows) {
    if (row.of === 'feed')
      feed.push({ groups: row.groups, position: row.number, image: row.image, n: row.n, hint: row.hint, hash: row.hash })
    else if (row.of === 'docs') found.set(fromDb(row.name), { version: row.number, image: row.image })
    else if (row.of === 'chains') heads.set(row.name, { seq: row.number, hash: row.hash, at: row.at })
    else sums.set(fromDb(row.name), row.number)
  }
  const { groups: news, onward } = feedIn(feed)
  const { position, image } = news[0]!
  return {
    news,
    state: {
      onward,
      position,
      image,
      docOf: (key) => found.get(key),
      headOf: (scope) => heads.get(scope),
      countOf: (prefix) => sums.get(prefix) ?? 0,
      isCacheTrue: false,
    },
  }
}
