// One connection to PostgreSQL that reconnects when it is lost. Queries are pipelined: several statements, one round trip. It never retries
// a query by itself: the caller decides about queries that were in flight when the connection ended.
import pg, { type Client, type QueryResult } from 'pg'
import { Refusal, StoreUnavailable } from '#kernel/declare/errors.ts'

/** The schema that holds all tables of Countersign. */
export const SCHEMA = 'countersign'

export type LinkOptions = {
  readonly url: string
  /** Shown by the database to its operator. */
  readonly name: string
  /** The timeout of a query on a silent connection. */
  readonly queryMs: number
  /** Session settings, each verified after it was set. */
  readonly settings?: Readonly<Record<string, string>>
  opened?(client: Client): Promise<void>
  warned?(code: string, message: string): void
}

export type Link = {
  get(): Promise<Client>
  /** Drops the connection; queries in flight are lost. */
  drop(): void
  close(): Promise<void>
}

const CONNECT_MS = 2_000
const ALONE_CONNECT_MS = 5_000
const BIGINT = 20
/** Positions and counts stay below 2^53. */
const types = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') => (oid === BIGINT ? Number : pg.types.getTypeParser(oid, format)),
}

export function createLink({ url, name, queryMs, settings = {}, opened, warned }: LinkOptions): Link {
  let current: Promise<Client> | null = null
  let closed = false

  async function open(): Promise<Client> {
    const client = new pg.Client({
      connectionString: url,
      application_name: name,
      pipeline: true,
      connectionTimeoutMillis: CONNECT_MS,
      query_timeout: queryMs,
      keepAlive: true,
      types,
    })
    const forgetClient = (): void => {
      if (mine === current) current = null
    }
    const mine = current
    client.on('error', forgetClient)
    client.on('end', forgetClient)
    client.on('notice', ({ severity, code, message }) => {
      if (severity === 'WARNING') warned?.(code ?? '', message ?? '')
    })
    await client.connect()
    try {
      await prepare(client, settings)
      await opened?.(client)
    } catch (error) {
      destroy(client)
      throw error
    }
    return client
  }

  return {
    get() {
      if (closed) return Promise.reject(new Error('the store is closed'))
      if (current === null) {
        // Set before the connection opens, so that a failure can clear it.
        const { promise, resolve, reject } = Promise.withResolvers<Client>()
        current = promise
        promise.catch(() => {
          if (current === promise) current = null
        })
        open().then(resolve, reject)
      }
      return current
    },
    drop() {
      const was = current
      current = null
      was?.then(destroy, () => undefined)
    },
    async close() {
      closed = true
      await current?.then((client) => client.end()).catch(() => undefined)
    },
  }
}

type Socket = { destroy(): void; cork(): void; uncork(): void }
/** The socket of a connection, which the types of `pg` leave out. */
const socketOf = (client: Client): Socket => (client as unknown as { connection: { stream: Socket } }).connection.stream
const destroy = (client: Client): void => socketOf(client).destroy()

/** A separate connection for work that can wait for other servers. The caller ends it. */
export async function connectAlone(url: string, name: string, signal?: AbortSignal): Promise<Client> {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: ALONE_CONNECT_MS,
    application_name: name,
    keepAlive: true,
  })
  client.on('error', () => undefined)
  signal?.throwIfAborted()
  signal?.addEventListener('abort', () => destroy(client), { once: true })
  await client.connect()
  return client
}

/** Verifies the settings: a lost setting, such as behind a pooler in transaction mode, would block every server. */
async function prepare(client: Client, settings: Readonly<Record<string, string>>): Promise<void> {
  const { rows } = await client.query<Row>(`SELECT current_setting('transaction_read_only') AS value`)
  // A standby might return old data, and refuses a change only at its end.
  if (rows[0]!['value'] !== 'off') throw Object.assign(new Error('the session is read-only'), { code: '25006' })
  const all = Object.entries({ ...settings, search_path: SCHEMA })
  const answers = await together([
    ...all.map(([name, value]) => client.query(`SET ${name} = '${value}'`)),
    ...all.map(([name]) => client.query<Row>(`SELECT current_setting('${name}') AS value`)),
  ])
  for (const [i, [name, value]] of all.entries()) {
    const found = (answers[all.length + i]!.rows[0] as { value: string }).value
    if (found !== value) throw new Error(`the database did not take ${name} = ${value} (it is ${found}): connect to it without a pooler`)
  }
}

export type Row = Record<string, unknown>

/** Runs a statement, which is prepared under its name the first time. */
export const ask = <T = Row>(client: Client, name: string, text: string, values: unknown[] = []): Promise<QueryResult<T & Row>> =>
  client.query<T & Row>({ name, text, values })

/** Sends the statements in one write. */
export function inOneTrip<T>(client: Client, send: () => T): T {
  const stream = socketOf(client)
  stream.cork()
  try {
    return send()
  } finally {
    stream.uncork()
  }
}

/** Waits for all results of a round trip. Rejects with the first error, since later errors only follow from it. */
export async function together(queries: readonly Promise<QueryResult<Row>>[]): Promise<QueryResult<Row>[]> {
  const all = await Promise.allSettled(queries)
  const failed = all.find((result) => result.status === 'rejected')
  if (failed) throw failed.reason
  return all.map((result) => (result as PromiseFulfilledResult<QueryResult<Row>>).value)
}

// --- Errors of the database -----------------------------------------------------------------------------------------------------

/** The outcome of the last statements sent is unknown. */
export class Lost extends Error {}

/** The session was ended: by an operator, a crash, a timeout. */
const ENDED = new Set(['57P01', '57P02', '57P03', '08000', '08003', '08006', '25P03', '25P04'])
/** The database cannot write at the moment, and refused before it changed anything. */
const WORDS: Readonly<Record<string, string>> = {
  '53100': 'the disk of the database is full',
  '53200': 'the database is out of memory',
  '53300': 'the database takes no more connections',
  '53400': 'the database is at one of its limits',
  '25006': 'the database can only be read: it is a standby, or was made read-only',
  '55P03': 'another server holds up the database',
  '57014': 'the database took too long',
  '40001': 'the database asked to try again',
  '40P01': 'the database asked to try again',
  '42P01': 'the tables are missing',
  '3D000': 'the database does not exist',
  '3F000': 'the tables are missing',
  '28P01': 'the database refuses the password',
  '28000': 'the database refuses this user',
}
const ASKS_AGAIN = new Set(['40001', '40P01'])

export const codeOf = (error: unknown): string => (error as { code?: unknown }).code?.toString() ?? ''
const isSqlState = (code: string): boolean => /^[0-9A-Z]{5}$/.test(code) && !code.startsWith('E')
export const isLost = (error: unknown): boolean => error instanceof Lost || !isSqlState(codeOf(error)) || ENDED.has(codeOf(error))
const SHUT = new Set(['53300', '28P01', '28000', '3D000'])
/** The database is unreachable: the connection is lost or refused. A database that rejects one statement can still run other statements. */
export const letsNobodyIn = (error: unknown): boolean => isLost(error) || SHUT.has(codeOf(error))
/** Serializable engines can return these for any statement. */
export const asksAgain = (error: unknown): boolean => ASKS_AGAIN.has(codeOf(error))

/** Null: the error does not come from the current state of the database. */
export function unavailableFor(error: unknown): Refusal | null {
  if (error instanceof Refusal) return error
  const message = isLost(error) ? 'the database cannot be reached' : WORDS[codeOf(error)]
  return message === undefined ? null : new StoreUnavailable(`${message}: nothing was changed`, { retry_after: 1 })
}

/** The message for the operator who starts a server or a command: what is wrong, and what to do. */
export function operatorMessage(error: unknown): string {
  const known = WORDS[codeOf(error)]
  const reason = error instanceof AggregateError ? error.errors.map(String).join('; ') : (error as Error).message
  if (reason.includes('client password must be a string')) return 'the database wants a password, and the URL has none'
  if (reason === 'Query read timeout')
    return 'the database takes connections and does not answer: a pooler in front of it needs seven sessions for each server'
  return known === undefined ? reason : `${known} (${reason})`
}
