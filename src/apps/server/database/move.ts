// The move of an installation between a data folder and a database: rows, keys and bytes, page by page, so that an interrupted move resumes
// where it ended. The target must be empty or hold the same unfinished move; both sides are verified before the move counts.
import { existsSync } from 'node:fs'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import type { Blobs } from '#kernel/ports/blobs.ts'
import { timestampOf } from '#kernel/ports/clock.ts'
import type { Store } from '#kernel/log/store.ts'
import { openBlobs } from '#stores/blobs/index.ts'
import { postgresBlobs } from '#stores/postgres/blobs.ts'
import { blobPool, createPins } from '#stores/postgres/pins.ts'
import { fromDb, inDb } from '#stores/postgres/text.ts'
import { wrappedValues } from '#stores/postgres/wrapped-values.ts'
import { postgresStore, type PostgresStore } from '#stores/postgres/index.ts'
import { sqliteStore } from '#stores/sqlite.ts'
import { serverKeyId, taggerOf } from '#workers/keys/notary.ts'
import { createVerification, NOTHING_VERIFIED } from '#workers/upkeep/record-verifier.ts'
import { lockFolder } from '../folder/folder-lock.ts'
import { anchorIn } from '../folder/anchor.ts'
import { makeFolder } from '../folder/data-folder.ts'
import { keysIn, markSealed, ringFile, serverFile } from '../folder/key-files.ts'
import { markIn, placeOf, sharedMark, type MoveMark } from '../folder/move-mark.ts'
import { moveLogToDatabase, moveLogToFolder } from '../record-log/move.ts'
import { pushFile } from '../folder/push-key-file.ts'
import type { DatabaseSettings } from '../settings/database-settings.ts'
import { StartError } from '../start-error.ts'
import { secretFrom } from './secret.ts'
import {
  isSealedKey,
  MOVE_NAME,
  orOther,
  PUSH_NAME,
  RING_NAME,
  sealedKeyText,
  sealShared,
  SERVER_KEY_NAME,
  serverKeyIn,
} from './shared-keys.ts'

type Row = Readonly<Record<string, string | number | null>>
type Table = { readonly name: string; readonly key: string; readonly columns: readonly string[]; readonly encoded: string | null }

const tables: readonly Table[] = [
  {
    name: 'facts',
    key: 'position',
    columns: ['position', 'scope', 'seq', 'at', 'actor', 'task', 'root', 'hash', 'line'],
    encoded: null,
  },
  { name: 'seals', key: 'last', columns: ['last', 'first', 'before', 'hashes', 'tag'], encoded: null },
  { name: 'images', key: 'id', columns: ['id', 'position', 'key', 'version', 'previous', 'salt', 'text'], encoded: 'key' },
  { name: 'docs', key: 'key', columns: ['key', 'version', 'image', 'text', 'tag'], encoded: 'key' },
  { name: 'entries', key: 'entry', columns: ['entry'], encoded: 'entry' },
  { name: 'counts', key: 'prefix', columns: ['prefix', 'count'], encoded: 'prefix' },
]
const seals = tables.find(({ name }) => name === 'seals')!
const documents = tables.find(({ name }) => name === 'docs')!
const PAGE = 500
const BYTES_MAX = 100 * 2 ** 30

type Say = (message: string) => void
export type Moved = { readonly facts: number; readonly documents: number; readonly blobs: number }

/** One end of a move. */
type Side = {
  page(table: Table, after: string | number | null): Promise<Row[]>
  insert(table: Table, rows: readonly Row[]): Promise<void>
  count(table: Table): Promise<number>
  /** The last key in the table. */
  last(table: Table): Promise<string | number | null>
}

function folderSide(db: DatabaseSync): Side {
  const number = (text: string): number => Number(Object.values(db.prepare(text).get() as object)[0])
  return {
    page({ name, key, columns }, after) {
      const where = after === null ? '' : `WHERE ${key} > ?`
      const rows = db
        .prepare(`SELECT ${columns.join(', ')} FROM ${name} ${where} ORDER BY ${key} LIMIT ${PAGE}`)
        .all(...(after === null ? [] : [after]))
      return Promise.resolve(rows as Row[])
    },
    insert({ name, columns }, rows) {
      const insert = db.prepare(`INSERT OR IGNORE INTO ${name} (${columns.join(', ')}) VALUES (${columns.map(() => '?').join(', ')})`)
      db.exec('BEGIN IMMEDIATE')
      for (const row of rows) insert.run(...columns.map((column) => row[column] ?? null))
      db.exec('COMMIT')
      return Promise.resolve()
    },
    count: ({ name }) => Promise.resolve(number(`SELECT count(*) FROM ${name}`)),
    last({ name, key }) {
      const found = db.prepare(`SELECT ${key} AS key FROM ${name} ORDER BY ${key} DESC LIMIT 1`).get() as
        | { key: string | number }
        | undefined
      return Promise.resolve(found?.key ?? null)
    },
  }
}

function databaseSide({ query }: PostgresStore): Side {
  const numeric = new Set(['position', 'seq', 'last', 'first', 'id', 'version', 'previous', 'image', 'count'])
  const out = ({ encoded }: Table, row: Row): Row => (encoded === null ? row : { ...row, [encoded]: fromDb(String(row[encoded])) })
  return {
    async page(table, after) {
      const { name, key, columns } = table
      const where = after === null ? '' : `WHERE ${key} > $1`
      const text = `SELECT ${columns.join(', ')} FROM ${name} ${where} ORDER BY ${key} LIMIT ${PAGE}`
      const bound = typeof after === 'string' ? inDb(after) : after
      return (await query<Row>(`move ${name} ${after === null}`, text, after === null ? [] : [bound])).map((row) => out(table, row))
    },
    async insert({ name, columns, encoded }, rows) {
      const types = columns.map((column, i) => `$${i + 1}::${numeric.has(column) ? 'bigint' : 'text'}[]`)
      const values = columns.map((column) => rows.map((row) => (column === encoded ? inDb(String(row[column])) : row[column])))
      await query(
        `into ${name}`,
        `INSERT INTO ${name} (${columns.join(', ')}) SELECT * FROM unnest(${types.join(', ')}) ON CONFLICT DO NOTHING`,
        values,
      )
    },
    count: async ({ name }) => (await query<{ n: number }>(`count ${name}`, `SELECT count(*) AS n FROM ${name}`, []))[0]!.n,
    async last(table) {
      const text = `SELECT ${table.key} AS key FROM ${table.name} ORDER BY ${table.key} DESC LIMIT 1`
      const [found] = await query<{ key: string | number }>(`last ${table.name}`, text, [])
      return found === undefined ? null : typeof found.key === 'string' ? fromDb(found.key) : found.key
    },
  }
}

async function copy(from: Side, to: Side, say: Say): Promise<void> {
  for (const table of tables) {
    for (let after = await to.last(table); ;) {
      const rows = await from.page(table, after)
      if (rows.length === 0) break
      await to.insert(table, rows)
      after = rows.at(-1)![table.key] as string | number
      say(`${table.name}: ${await to.count(table)}`)
    }
    const [left, right] = [await from.count(table), await to.count(table)]
    if (left !== right)
      throw new StartError(`${table.name}: ${left} rows were to be moved, ${right} are there: empty the target and start over`)
  }
}

/** Every fact of the record against its hash, its images and the one before it. */
async function verify(store: Store, where: string): Promise<number> {
  const verification = createVerification(store, NOTHING_VERIFIED)
  for (let facts = 0; ;) {
    const slice = await verification.next()
    if (slice.difference) {
      const { scope, seq, what } = slice.difference
      throw new StartError(`the record in ${where} is not whole: project ${scope}, number ${seq}: ${what}`)
    }
    facts += slice.facts
    if (slice.facts === 0) return facts
  }
}

async function copyBytes(from: Blobs, to: Blobs, say: Say): Promise<number> {
  let count = 0
  for (let after: string | null = null; ;) {
    const page = await from.list(after, 100)
    for (const { checksum, size } of page) {
      if ((await to.size(checksum)) !== size) (await to.put((await from.open(checksum))!, { checksum, size }, BYTES_MAX)).release()
      count++
    }
    if (page.length === 0) return count
    after = page.at(-1)!.checksum
    say(`blobs: ${count}`)
  }
}

type Opened = {
  readonly store: PostgresStore
  readonly values: ReturnType<typeof wrappedValues>
  readonly blobs: Blobs
  useTag(tag: (text: string) => string): void
}

async function withDatabase<T>({ url, secret, blobs }: DatabaseSettings, work: (opened: Opened) => Promise<T>): Promise<T> {
  const bytes = secretFrom(secret)
  let tag = (_: string): string => ''
  const store = await postgresStore(url, { node: 'move', listens: false, tag: (text) => tag(text) })
  const pool = blobPool(url, 'move')
  const pins = createPins(pool)
  try {
    return await work({
      store,
      values: wrappedValues(store.query, bytes),
      blobs: blobs === null ? postgresBlobs(pool, pins) : await openBlobs(blobs, { fatal, pins }),
      useTag: (created) => (tag = created),
    })
  } finally {
    await store.close()
    await pool.end()
  }
}
const fatal = (error: unknown): void => {
  throw error
}

/** Two installations that sign with the same keys would be two truths. */
function refuseMoved(mark: MoveMark | null): void {
  if (mark && 'moved_to' in mark) throw new StartError(`it was moved to ${mark.moved_to} at ${mark.at}: move it on from there`)
}

/** A stopped server's folder into a database that is empty, or holds the unfinished move of the same folder. */
export async function moveToDatabase(data: string, settings: DatabaseSettings, say: Say): Promise<Moved> {
  const file = join(data, 'countersign.db')
  if (!existsSync(file)) throw new StartError(`there is no Countersign data in ${data}`)
  const free = lockFolder(data, `a server uses ${data}: stop it first`)
  const db = new DatabaseSync(file, { readOnly: true })
  try {
    return await withDatabase(settings, async ({ store, values, blobs, useTag }) => {
      const server = (await readFile(serverFile(keysIn(data)), 'utf8')).trim()
      const ring = await readFile(ringFile(keysIn(data)), 'utf8')
      const tag = taggerOf(Buffer.from(server, 'base64url'))
      useTag(tag)
      const source = sqliteStore(file, { readOnly: true, tag })
      try {
        const [first] = await source.facts({ by: 'position' }, { after: null, limit: 1, asStored: true })
        const mark = JSON.stringify({ installation: first?.hash ?? '' })
        const noted = await orOther(settings.secret.name, () => values.read(MOVE_NAME))
        if (noted ? noted.text !== mark : (await store.position()) > 0 || (await values.read(SERVER_KEY_NAME)) !== null)
          throw new StartError('the database is not empty: a move needs an empty database, or continues its own unfinished move')
        if (!noted) refuseMoved(await markIn(data).read())
        if (!noted) await values.write(MOVE_NAME, mark, 0)
        const facts = await verify(source, data)
        await copy(folderSide(db), databaseSide(store), say)
        const blobCount = await copyBytes(await openBlobs(join(data, 'blobs'), { fatal }), blobs, say)
        if ((await values.read(SERVER_KEY_NAME)) === null) await values.write(SERVER_KEY_NAME, sealedKeyText(server), 0)
        if ((await values.read(RING_NAME)) === null) await values.write(RING_NAME, ring, 0)
        await moveLogToDatabase(data, values)
        const pushes = pushFile(keysIn(data))
        if (existsSync(pushes) && (await values.read(PUSH_NAME)) === null) await values.write(PUSH_NAME, await readFile(pushes, 'utf8'), 0)
        const there = await verify(store, 'the database')
        if (there !== facts) throw new StartError(`${facts} events were to be moved, ${there} are there`)
        await store.query('move chains', CHAINS, [])
        const at = timestampOf(Date.now())
        await sharedMark(values).write({ copy_of: data, at })
        await markIn(data).write({ moved_to: placeOf(settings.url), at })
        // In one statement: from here on the target is an installation, and the move is complete.
        await store.query('move ends', ENDS, [MOVE_NAME])
        return { facts, documents: await databaseSide(store).count(documents), blobs: blobCount }
      } finally {
        await source.close()
      }
    })
  } finally {
    db.close()
    free()
  }
}

const CHAINS = `INSERT INTO chains (scope, seq, hash, at)
  SELECT f.scope, f.seq, f.hash, f.at FROM facts f JOIN (SELECT scope, max(seq) AS seq FROM facts GROUP BY scope) l ON l.scope = f.scope AND l.seq = f.seq
  ON CONFLICT (scope) DO UPDATE SET seq = excluded.seq, hash = excluded.hash, at = excluded.at`
const ENDS = `WITH gone AS (DELETE FROM wrapped WHERE name = $1 RETURNING name)
  UPDATE head SET groups = groups + 1, position = (SELECT coalesce(max(position), 0) FROM facts),
    image = (SELECT coalesce(max(id), 0) FROM images),
    seal = coalesce((SELECT tag FROM seals ORDER BY last DESC LIMIT 1), '') FROM gone`

/** Moves a database, whose servers must be stopped, into a new folder, or into the folder of an unfinished move of the same database. */
export async function moveToFolder(settings: DatabaseSettings, data: string, say: Say): Promise<Moved> {
  makeFolder(data)
  const free = lockFolder(data, `a server uses ${data}: stop it first`)
  const [file, note] = [join(data, 'countersign.db'), join(data, 'moving')]
  try {
    if (existsSync(file) && !existsSync(note))
      throw new StartError(`${data} holds an installation already: a move needs a new folder, or continues its own unfinished move`)
    return await withDatabase(settings, async ({ store, values, blobs, useTag }) => {
      const [server, ring] = await orOther(settings.secret.name, async () => [
        await values.read(SERVER_KEY_NAME),
        await values.read(RING_NAME),
      ])
      if (!server || !ring) throw new StartError('there is no installation in the database')
      if (await values.read(MOVE_NAME)) throw new StartError('a move into this database is not finished')
      if (!existsSync(note)) refuseMoved(await sharedMark(values).read())
      // A server has an anchor beside it and notices removed seals; a move has only the mark, which can be put back with the database.
      if (!isSealedKey(server.text))
        throw new StartError(
          'the record in the database is not sealed yet: start a server with its data folder on it once, stop it, and move again',
        )
      await sealShared(settings.url, values)
      const key = serverKeyIn(server.text)
      const tag = taggerOf(Buffer.from(key, 'base64url'))
      useTag(tag)
      const facts = await verify(store, 'the database')
      await writeFile(note, '', { mode: 0o600 })
      // The mark comes first: the folder of an interrupted move is a copy, too, and must not start.
      await markIn(data).write({ copy_of: placeOf(settings.url), at: timestampOf(Date.now()) })
      // Whatever the umask of the command is. SQLite's other files copy the mode.
      await writeFile(file, '', { flag: 'a', mode: 0o600 })
      await sqliteStore(file, { tag }).close()
      const db = new DatabaseSync(file)
      try {
        await copy(databaseSide(store), folderSide(db), say)
      } finally {
        db.close()
      }
      const blobCount = await copyBytes(blobs, await openBlobs(join(data, 'blobs'), { fatal }), say)
      await mkdir(keysIn(data), { recursive: true, mode: 0o700 })
      await writeFile(serverFile(keysIn(data)), `${key}\n`, { mode: 0o600 })
      await writeFile(ringFile(keysIn(data)), ring.text, { mode: 0o600 })
      await moveLogToFolder(values, data)
      const pushes = await values.read(PUSH_NAME)
      if (pushes) await writeFile(pushFile(keysIn(data)), pushes.text, { mode: 0o600 })
      const moved = sqliteStore(file, { readOnly: true, tag })
      const there = await verify(moved, data)
      await moved.close()
      if (there !== facts) throw new StartError(`${facts} events were to be moved, ${there} are there`)
      await markSealed(keysIn(data))
      const last = (await databaseSide(store).last(seals)) as number | null
      const [seal] = last === null ? [] : await store.seals(last - 1, 1)
      if (seal) await anchorIn(data).write({ key: serverKeyId(Buffer.from(key, 'base64url')), position: seal.last, tag: seal.tag })
      const { rm } = await import('node:fs/promises')
      await sharedMark(values).write({ moved_to: data, at: timestampOf(Date.now()) })
      await rm(note)
      return { facts, documents: await databaseSide(store).count(documents), blobs: blobCount }
    })
  } finally {
    free()
  }
}
