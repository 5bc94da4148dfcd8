// The embedded store: one file, WAL, synchronous=FULL. A transaction is one synchronous call on the only connection, so no read can see it
// before its fsync. Only one process has it open; if a second connection writes nevertheless, the next transaction detects it.
import { DatabaseSync, type StatementSync } from 'node:sqlite'
import type { Backend, DocRow, DocState, Group, State, WriteFailure } from '#kernel/log/backend.ts'
import { createGroupCommit, type GroupCommitOptions } from '#kernel/log/group-commit.ts'
import type { Head } from '#kernel/log/hash-chain.ts'
import { SEALS_MAX, type Onward, type Seal } from '#kernel/log/seals/seals.ts'
import type { FactsOf, FactsPage, Place, Store, StoredFact, StoredImage } from '#kernel/log/store.ts'
import { walksIn } from './stored-document.ts'
import { cannotGrow } from './disk-errors.ts'
import { salt } from './salt.ts'
import { CURRENT_FORMAT, migrate, retag, type MigrationOptions } from './migrations.ts'

export type SqliteOptions = Partial<GroupCommitOptions> &
  MigrationOptions & {
    readonly readOnly?: boolean
    readonly pagesMax?: number
    /** Why writes are forbidden although the database would accept them: its files were moved or deleted. Null: they are allowed. */
    amiss?(): string | null
    /** The key of the tags was lost and replaced: documents without a fact are accepted unchecked. */
    readonly retags?: boolean
  }

// Facts and images are appended in the order of their integer keys. Rows of `docs` are small: the text of a document that a fact
// describes is stored once, in its image.
const SCHEMA = `
CREATE TABLE facts (
  position INTEGER PRIMARY KEY, scope TEXT NOT NULL, seq INTEGER NOT NULL, at TEXT NOT NULL, actor TEXT NOT NULL,
  task TEXT, root TEXT, hash TEXT NOT NULL, line TEXT NOT NULL) STRICT;
CREATE UNIQUE INDEX facts_scope ON facts (scope, seq);
CREATE INDEX facts_actor ON facts (scope, actor, seq);
CREATE INDEX facts_task ON facts (task, position) WHERE task IS NOT NULL;
CREATE INDEX facts_root ON facts (root, position) WHERE root <> task;
CREATE TABLE seals (
  last INTEGER PRIMARY KEY, first INTEGER NOT NULL, before TEXT NOT NULL, hashes TEXT NOT NULL, tag TEXT NOT NULL) STRICT;
CREATE TABLE images (
  id INTEGER PRIMARY KEY, position INTEGER NOT NULL, key TEXT NOT NULL, version INTEGER NOT NULL, previous INTEGER,
  salt TEXT NOT NULL, text TEXT) STRICT;
CREATE INDEX images_position ON images (position);
CREATE UNIQUE INDEX images_key ON images (key, version);
CREATE TABLE docs (key TEXT PRIMARY KEY, version INTEGER NOT NULL, image INTEGER, text TEXT, tag TEXT) STRICT, WITHOUT ROWID;
CREATE TABLE entries (entry TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
CREATE TABLE counts (prefix TEXT PRIMARY KEY, count INTEGER NOT NULL) STRICT, WITHOUT ROWID;
PRAGMA user_version = ${CURRENT_FORMAT};`

export function sqliteStore(path: string, options: SqliteOptions = {}): Store {
  const { readOnly = false, pagesMax, isForced = false, wasSealed = false, retags = false, amiss = () => null, ...groupCommit } = options
  const db = open(path, readOnly, { ...groupCommit, isForced, wasSealed })
  if (retags) retag(db, options)
  if (pagesMax !== undefined) db.exec(`PRAGMA max_page_count = ${pagesMax}`)
  const behind = onwardFrom(db)
  const writer = readOnly ? {} : { transact: writerOf(db, `${path}-wal`, behind, amiss), wasWritten: outsideOf(db) }
  return createGroupCommit(sqliteBackend(db, behind, writer), {
    defer: setImmediate,
    salt,
    fatal: (error) => {
      throw error
    },
    ...groupCommit,
    isKeyless: readOnly && options.tag === undefined,
  })
}

function open(path: string, readOnly: boolean, options: MigrationOptions): DatabaseSync {
  const db = new DatabaseSync(path, { readOnly, timeout: 1_000 })
  db.exec('PRAGMA cache_size = -4096; PRAGMA temp_store = memory')
  const version = Number(pragma(db, 'user_version'))
  if (version > CURRENT_FORMAT || (readOnly && version !== CURRENT_FORMAT)) {
    db.close()
    throw new Error(
      version > CURRENT_FORMAT
        ? `${path} was written by another version of Countersign (format ${version})`
        : `${path} has the format ${version} of an earlier version: start the server once, which brings it to format ${CURRENT_FORMAT}`,
    )
  }
  if (readOnly) return db
  db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0')
  // Overwrites deleted rows in place. (Copies can remain where SQLite has moved rows.)
  db.exec('PRAGMA secure_delete = ON')
  assertPragma(db, 'journal_mode', 'wal')
  assertPragma(db, 'synchronous', 2)
  assertPragma(db, 'secure_delete', 1)
  if (version === 0) db.exec(`BEGIN IMMEDIATE; ${SCHEMA} COMMIT`)
  else migrate(db, version, options)
  return db
}

const pragma = (db: DatabaseSync, name: string): unknown => Object.values(db.prepare(`PRAGMA ${name}`).get() as object)[0]

/** A setting without effect would lose acknowledged commits in a power cut, or keep erased data, so the store refuses to start. */
function assertPragma(db: DatabaseSync, name: string, wanted: unknown): void {
  const found = pragma(db, name)
  if (found !== wanted)
    throw new Error(
      `SQLite refused ${name}=${String(wanted)} (it is ${String(found)}): work could be lost, or erased data could be recovered`,
    )
}

function sqliteBackend(db: DatabaseSync, behind: Behind, writer: Partial<Pick<Backend, 'transact' | 'wasWritten'>>): Backend {
  const head = db.prepare('SELECT seq, hash, at FROM facts WHERE scope = ? ORDER BY seq DESC LIMIT 1')
  const atOf = db.prepare('SELECT at FROM facts WHERE scope = ? AND seq = ?')
  const scan = db.prepare('SELECT entry FROM entries WHERE entry > ? AND entry < ? ORDER BY entry LIMIT ?')
  const scanBack = db.prepare('SELECT entry FROM entries WHERE entry > ? AND entry < ? ORDER BY entry DESC LIMIT ?')
  const keys = db.prepare('SELECT key FROM docs WHERE key > ? AND key < ? ORDER BY key LIMIT ?')
  const sealsAfter = db.prepare(`SELECT ${SEAL} FROM seals WHERE last > ? ORDER BY last LIMIT ?`)
  const sealAt = db.prepare(`SELECT ${SEAL} FROM seals WHERE last >= ? ORDER BY last LIMIT 1`)
  const place = db.prepare(
    `SELECT f.scope, f.seq, f.position, f.hash FROM docs d JOIN images i ON i.id = d.image JOIN facts f ON f.position = i.position
     WHERE d.key = ?`,
  )
  return {
    ...walksIn(db),
    openedAt: lastIn(db, 'facts', 'position'),
    transact: () => Promise.reject(new Error('this store was opened for reading')),
    ...writer,
    onward: (sealed) => Promise.resolve(behind(sealed)),
    seals: (after, limit) => Promise.resolve(sealsAfter.all(after, limit) as Seal[]),
    sealsAt: (positions) =>
      Promise.resolve([...new Map(positions.flatMap((at) => (sealAt.all(at) as Seal[]).map((seal) => [seal.last, seal]))).values()]),
    head: (scope) => Promise.resolve(head.get(scope) as Head | undefined),
    position: () => Promise.resolve(lastIn(db, 'facts', 'position')),
    scan(after, end, limit, reverse = false) {
      const rows = (reverse ? scanBack : scan).all(after, end, limit) as { entry: string }[]
      return Promise.resolve(rows.map((row) => row.entry))
    },
    keys: (after, end, limit) => Promise.resolve((keys.all(after, end, limit) as { key: string }[]).map((row) => row.key)),
    facts: factsReader(db),
    place: (key) => Promise.resolve((place.get(key) as Place | undefined) ?? null),
    seek: (scope, at) =>
      Promise.resolve(
        firstSeq((head.get(scope) as { seq: number } | undefined)?.seq ?? 0, (seq) => (atOf.get(scope, seq) as { at: string }).at >= at),
      ),
    close() {
      db.close()
      return Promise.resolve()
    },
  }
}

const SEAL = 'first, last, before, hashes, tag'
type Behind = (sealed: number) => Onward

function onwardFrom(db: DatabaseSync): Behind {
  const at = db.prepare('SELECT tag FROM seals WHERE last = ?')
  const since = db.prepare(`SELECT ${SEAL} FROM (SELECT * FROM seals WHERE last > ? ORDER BY last DESC LIMIT ${SEALS_MAX}) ORDER BY last`)
  return (sealed) => ({
    position: lastIn(db, 'facts', 'position'),
    at: sealed === 0 ? '' : ((at.get(sealed) as { tag: string } | undefined)?.tag ?? null),
    since: since.all(sealed) as Seal[],
  })
}

/** Whether another connection has written since the last call. */
function outsideOf(db: DatabaseSync): () => boolean {
  const version = db.prepare('PRAGMA data_version')
  const now = (): number => (version.get() as { data_version: number }).data_version
  let known = now()
  return () => {
    const before = known
    known = now()
    return known !== before
  }
}

const lastIn = (db: DatabaseSync, table: string, column: string): number =>
  (db.prepare(`SELECT coalesce(max(${column}), 0) AS n FROM ${table}`).get() as { n: number }).n

/** Times never decrease along a chain, so a binary search finds the first seq that is late enough. */
function firstSeq(last: number, isLateEnough: (seq: number) => boolean): number {
  let low = 1
  let high = last + 1
  while (low < high) {
    const middle = (low + high) >> 1
    if (isLateEnough(middle)) high = middle
    else low = middle + 1
  }
  return low
}

function factsReader(db: DatabaseSync): Store['facts'] {
  const columns = 'position, scope, seq, at, actor, task, root, hash, line'
  const wheres: Record<FactsOf['by'], { where: string[]; place: string }> = {
    position: { where: ['TRUE'], place: 'position' },
    scope: { where: ['scope = :a'], place: 'seq' },
    actor: { where: ['scope = :a AND actor = :b'], place: 'seq' },
    task: { where: ['task = :a'], place: 'position' },
    // A task's own facts and those of its descendants: two index ranges, merged in order.
    root: { where: ['task = :a', 'root = :a AND root <> task'], place: 'position' },
  }
  const statements = new Map<string, StatementSync>()
  const statementOf = (by: FactsOf['by'], reverse: boolean): StatementSync => {
    const name = `${by} ${reverse}`
    let statement = statements.get(name)
    if (!statement) {
      const { where, place } = wheres[by]
      const selects = where.map((condition) => `SELECT ${columns} FROM facts WHERE ${condition} AND ${place} ${reverse ? '<' : '>'} :after`)
      statement = db.prepare(`${selects.join(' UNION ALL ')} ORDER BY ${place} ${reverse ? 'DESC' : 'ASC'} LIMIT :limit`)
      statements.set(name, statement)
    }
    return statement
  }
  // A manipulated `previous` pointer can lead nowhere, but never to an image other than the previous version.
  const images = db.prepare(
    `SELECT i.key, i.version, i.salt, i.text, i.previous, p.text AS before, p.salt AS beforeSalt, f.line AS beforeLine
     FROM images i LEFT JOIN images p ON p.id = i.previous AND p.key = i.key AND p.version = i.version - 1
     LEFT JOIN facts f ON f.position = p.position
     WHERE i.position = ? ORDER BY i.id`,
  )
  return (of: FactsOf, { after, limit, reverse = false }: FactsPage) => {
    const place = after ?? (reverse ? Number.MAX_SAFE_INTEGER : 0)
    const rows = statementOf(of.by, reverse).all({ ...argumentsOf(of), after: place, limit }) as Omit<StoredFact, 'images'>[]
    const facts = rows.map((row) => ({ ...row, images: images.all(row.position) as StoredImage[] }))
    // Yield to the event loop, so that a reader of many pages does not block other calls.
    return new Promise((done) => setImmediate(() => done(facts)))
  }
}

function argumentsOf(of: FactsOf): Record<string, string> {
  if (of.by === 'scope') return { a: of.scope }
  if (of.by === 'actor') return { a: of.scope, b: of.actor }
  if (of.by === 'task') return { a: of.task }
  return of.by === 'root' ? { a: of.root } : {}
}

/**
 * The state as the current transaction sees it. The last state is cached until another connection writes.
 */
function stateIn(db: DatabaseSync, behind: Behind): { now(sealed: () => number): State; wrote(group: Group): void } {
  const wasWritten = outsideOf(db)
  const doc = db.prepare('SELECT version, image FROM docs WHERE key = ?')
  const head = db.prepare('SELECT seq, hash, at FROM facts WHERE scope = ? ORDER BY seq DESC LIMIT 1')
  const count = db.prepare('SELECT count AS n FROM counts WHERE prefix = ?')
  const look = {
    docOf: (key: string) => doc.get(key) as DocState | undefined,
    headOf: (scope: string) => head.get(scope) as Head | undefined,
    countOf: (prefix: string) => (count.get(prefix) as { n: number } | undefined)?.n ?? 0,
    isCacheTrue: true,
  }
  /** Whether the record after the known seal is still to be checked. */
  let isUnsettled = true
  let position = lastIn(db, 'facts', 'position')
  let image = lastIn(db, 'images', 'id')
  return {
    now(sealed) {
      if (!wasWritten()) return { ...look, news: null, onward: isUnsettled ? behind(sealed()) : null, position, image }
      isUnsettled = true
      position = lastIn(db, 'facts', 'position')
      image = lastIn(db, 'images', 'id')
      return { ...look, news: { position, keys: 'all', wakes: 'all' }, onward: behind(sealed()), position, image }
    },
    wrote({ facts, images }) {
      isUnsettled = false
      position += facts.length
      image += images.length
    },
  }
}

function writerOf(db: DatabaseSync, log: string, behind: Behind, amiss: () => string | null): Backend['transact'] {
  const begin = db.prepare('BEGIN IMMEDIATE')
  const commit = db.prepare('COMMIT')
  const rollback = db.prepare('ROLLBACK')
  const fact = db.prepare('INSERT INTO facts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)')
  const seal = db.prepare('INSERT INTO seals VALUES (?, ?, ?, ?, ?)')
  const image = db.prepare('INSERT INTO images VALUES (?, ?, ?, ?, ?, ?, ?)')
  const create = db.prepare('INSERT INTO docs VALUES (?, ?, ?, ?, ?)')
  const update = db.prepare('UPDATE docs SET version = ?, image = ?, text = ?, tag = ? WHERE key = ?')
  const remove = db.prepare('DELETE FROM docs WHERE key = ?')
  const add = db.prepare('INSERT OR IGNORE INTO entries VALUES (?)')
  const drop = db.prepare('DELETE FROM entries WHERE entry = ?')
  const count = db.prepare('INSERT OR REPLACE INTO counts VALUES (?, ?)')
  const state = stateIn(db, behind)

  function writeRows(group: Group): void {
    for (const f of group.facts) fact.run(f.position, f.scope, f.seq, f.at, f.actor, f.task, f.root, f.hash, f.line)
    if (group.seal) seal.run(group.seal.last, group.seal.first, group.seal.before, group.seal.hashes, group.seal.tag)
    for (const i of group.images) image.run(i.id, i.position, i.key, i.version, i.previous, i.salt, i.text)
    for (const d of group.create) create.run(d.key, d.version, d.image, d.text, d.tag)
    for (const d of group.update) changeOne(update, d)
    for (const key of group.remove) remove.run(key)
    for (let i = 0; i < group.entries.length; i++) (group.present[i]! ? add : drop).run(group.entries[i]!)
    for (const [prefix, n] of group.counts) count.run(prefix, n)
  }
  const checkpoint = db.prepare('PRAGMA wal_checkpoint(PASSIVE)')
  let pages = 0
  /** SQLite would do this by itself, but would not report a failed sync: then the log is discarded and the pages are lost. */
  function moveLog(group: Group): void {
    pages += pagesOf(group)
    if (pages < PAGES_PER_CHECKPOINT) return
    pages = 0
    try {
      checkpoint.all()
    } catch (error) {
      const failure = classifyError(error, log)
      // The group itself is durable. A full disk is tried again later; a failing disk can no longer be trusted.
      if (failure.failure === 'fatal') throw failure
    }
  }
  // A rejection, not an exception, says that nothing was written. There is no `await` between BEGIN and COMMIT, so no other call runs in
  // between.
  return async (wanted, stage) => {
    let group: Group | null = null
    let isStaged = false
    try {
      begin.run()
      group = stage(state.now(() => wanted().sealed))
      isStaged = true
      if (group === null) return void rollback.run()
      writeRows(group)
      // Checked as late as possible: a commit to a deleted file is lost.
      const message = amiss()
      if (message !== null) throw Object.assign(new Error(message), { failure: 'full', explanation: message } as const)
      commit.run()
    } catch (error) {
      // SQLITE_FULL has already ended the transaction.
      if (db.isTransaction) rollback.run()
      throw isStaged || isOfSqlite(error) ? classifyError(error, log) : error
    }
    state.wrote(group)
    moveLog(group)
  }
}

/** Pages at the edge of a table are written again and again before they are moved once. */
const PAGES_PER_CHECKPOINT = 4_000
/** About as many pages as a group touches: some for each row when rows are few, shared ones when they are many. */
function pagesOf({ facts, images, create, update, entries }: Group): number {
  const rows = facts.length + images.length + create.length + update.length + entries.length
  return Math.min(rows * 2, 12 + rows / 4)
}

const isOfSqlite = (error: unknown): boolean => (error as { errcode?: number }).errcode !== undefined

function changeOne(update: StatementSync, { key, version, image, text, tag }: DocRow): void {
  if (update.run(version, image, text, tag, key).changes !== 1) throw new Error(`${key} is in the cache but not in the database`)
}

const SQLITE_IOERR = 10
const SQLITE_IOERR_WRITE = 10 | (3 << 8)
const SQLITE_CORRUPT = 11
/** The disk is full, or another program holds the file (BUSY, LOCKED), or it cannot be written to (NOMEM, READONLY, CANTOPEN, PROTOCOL). */
const unavailable = new Set([13, 5, 6, 7, 8, 14, 15])
/** After an I/O error the state of the disk is unknown, and a retry can report success for lost pages. */
function classifyError(error: unknown, log: string): Error & WriteFailure {
  if ((error as Partial<WriteFailure>).failure !== undefined) return error as Error & WriteFailure
  const primary = ((error as { errcode?: number }).errcode ?? 0) & 0xff
  const isFull = unavailable.has(primary) || ((error as { errcode?: number }).errcode === SQLITE_IOERR_WRITE && cannotGrow(log))
  const failure = isFull ? 'full' : primary === SQLITE_IOERR || primary === SQLITE_CORRUPT ? 'fatal' : 'refused'
  return Object.assign(error as Error, { failure } as const)
}
