// The formats of the database, one step after the other. A step first compares the documents that it reads with the record. It reports
// differences, and does not seal, tag or change documents that differ.
import type { DatabaseSync } from 'node:sqlite'
import { canonical } from '#kernel/log/canonical-json.ts'
import { sha256 } from '#kernel/log/hash-chain.ts'
import { errand } from '#kernel/log/errand.ts'
import type { Change } from '#kernel/declare/operation.ts'
import { duePrefix, END, entriesOf, idOf, keyOf, kindOf, talliesOf } from '#kernel/declare/schema.ts'
import { soundOr, tagInput, type Tag } from '#kernel/log/sealed-documents.ts'
import { createBaseline, type Seal } from '#kernel/log/seals/seals.ts'
import type { Found, StoredFact } from '#kernel/log/store.ts'
import { atRestIn } from './stored-document.ts'

export type MigrationOptions = {
  readonly tag?: Tag
  found?(difference: Found): void
  /** This installation has sealed its record before: a database without seals is not sealed again. */
  readonly wasSealed?: boolean
  /** Continues despite differences from the record. Documents that differ stay unchanged and unused. */
  readonly isForced?: boolean
}

type Step = { readonly to: number; readonly change: string; run(db: DatabaseSync, tag: Tag, wasSealed: boolean): Found[] }

/** Each step brings the previous format to `to`, in one transaction. A released step is never changed. Step 4 builds an index from the
 * present declarations, so a later change of that index needs its own step. */
const steps: readonly Step[] = [
  {
    to: 2,
    change: 'images are found by their key, and documents that no fact describes carry a tag',
    run(db, tag) {
      const twice = 'SELECT key FROM images GROUP BY key, version HAVING count(*) > 1'
      const doubled = (db.prepare(twice).all() as { key: string }[]).map(({ key }) => ({
        what: key,
        how: 'one version of it has two images',
      }))
      // If a version has two images, nothing here shows which one is true.
      db.exec(
        `CREATE ${doubled.length > 0 ? '' : 'UNIQUE '}INDEX images_key ON images (key, version); ALTER TABLE docs ADD COLUMN tag TEXT`,
      )
      return [...doubled, ...differencesIn(db, tag), ...tagAll(db, tag)]
    },
  },
  {
    to: 3,
    change: 'tasks are found by their executor and the artifact versions that their spec names as inputs',
    run: enterInputs,
  },
  {
    to: 4,
    change: 'requests that have ended are counted by project, and each open one is checked once for a person who can answer it',
    run(db, tag) {
      const { found, entries } = reindexKind(db, 'execution.request', tag)
      const open = 'execution.request.open\0'
      const inboxes = new Set(entries.filter((entry) => entry.startsWith(open)).map((entry) => entry.split('\0')[1]!))
      // Earlier releases did not recheck requests that waited for a disabled or departed person.
      for (const person of inboxes) setErrand(db, recipientErrand(person, SINCE_EVER), tag)
      return found
    },
  },
  {
    to: 5,
    change: 'people are found by what they own and by whom they stand in for',
    run: (db, tag) => reindexKind(db, 'identity.user', tag).found,
  },
  {
    to: 6,
    change:
      'requests are found by urgency, by group and by the case that they are about, grants by who gave them, notices by what became of them',
    run: (db, tag) =>
      ['execution.request', 'collaboration.grant', 'execution.channel', 'execution.notice'].flatMap(
        (kind) => reindexKind(db, kind, tag).found,
      ),
  },
  {
    to: 7,
    change: 'documents that wait for a time are in one index, without separate timers',
    run: (db, tag) => [...enterTimes(db, tag), ...dropTimers(db, tag)],
  },
  {
    to: 8,
    change: 'requests are counted by the day on which they were asked, and by what became of them',
    run: (db, tag) => reindexKind(db, 'execution.request', tag).found,
  },
  {
    to: 9,
    change: 'open requests are listed in one order: critical, late or escalated, high, normal, low',
    run: (db, tag) => reindexKind(db, 'execution.request', tag).found,
  },
  {
    to: 10,
    change: 'groups of facts carry a seal under a key that is not in the database',
    run(db, tag, wasSealed) {
      db.exec(
        `CREATE TABLE IF NOT EXISTS seals (
           last INTEGER PRIMARY KEY, first INTEGER NOT NULL, before TEXT NOT NULL, hashes TEXT NOT NULL, tag TEXT NOT NULL) STRICT`,
      )
      if (wasSealed) return [{ what: 'seals', how: 'they are gone, and this installation has sealed its record before' }]
      return sealAll(db, tag)
    },
  },
  {
    to: 11,
    change: 'open requests have one entry for each inbox, and those that are only counted have none',
    run: (db, tag) => reindexKind(db, 'execution.request', tag).found,
  },
  {
    to: 12,
    change: 'runs are found by the agent that delegated them',
    run: (db, tag) => reindexKind(db, 'delegation.run', tag).found,
  },
  {
    to: 13,
    change: 'people who signed in are found by the groups of their issuer',
    run: (db, tag) => reindexKind(db, 'identity.signed_in', tag).found,
  },
]

export const CURRENT_FORMAT = steps.at(-1)!.to
/** The number of differences that the error lists. */
const NAMED_MAX = 20

export function migrate(
  db: DatabaseSync,
  from: number,
  { tag = sha256, found, wasSealed = false, isForced = false }: MigrationOptions,
): void {
  for (const { to, change, run } of steps.filter((step) => step.to > from)) {
    db.exec('BEGIN IMMEDIATE')
    try {
      const differences = run(db, tag, wasSealed)
      if (differences.length > 0 && !isForced) throw new Error(refusalOf(to, change, differences))
      for (const difference of differences) found?.(difference)
      db.exec(`PRAGMA user_version = ${to}; COMMIT`)
    } catch (error) {
      if (db.isTransaction) db.exec('ROLLBACK')
      db.close()
      throw error
    }
  }
}

function refusalOf(to: number, change: string, differences: readonly Found[]): string {
  const named = differences.slice(0, NAMED_MAX).map(({ what, how }) => `${what}: ${how}`)
  const more = differences.length > NAMED_MAX ? `; and ${differences.length - NAMED_MAX} more` : ''
  return `it was not brought to format ${to} (${change}), because documents differ from the record: ${named.join('; ')}${more}`
}

/** Compares every document that a fact describes with its image, and finds images whose document is missing. */
function differencesIn(db: DatabaseSync, tag: Tag): Found[] {
  const atRest = atRestIn(db)
  const found: Found[] = []
  const keys = db.prepare('SELECT key FROM docs WHERE image IS NOT NULL UNION SELECT key FROM images').iterate() as Iterable<{
    key: string
  }>
  for (const { key } of keys) {
    const sound = soundOr(atRest(key)!, key, tag)
    if (typeof sound === 'string') found.push({ what: key, how: sound })
  }
  return found
}

/** Adds an index entry for each executor and input, from the sealed images of the tasks. */
function enterInputs(db: DatabaseSync, tag: Tag): Found[] {
  const atRest = atRestIn(db)
  const enter = db.prepare('INSERT OR IGNORE INTO entries VALUES (?)')
  const found: Found[] = []
  const tasks = "SELECT key FROM docs WHERE key > 'collaboration.task/' AND key < 'collaboration.task0'"
  for (const { key } of db.prepare(tasks).all() as { key: string }[]) {
    const sound = soundOr(atRest(key)!, key, tag)
    if (typeof sound === 'string') found.push({ what: key, how: sound })
    else for (const entry of inputEntries(JSON.parse(sound.text) as TaskOfFormat2)) enter.run(entry)
  }
  return found
}
type TaskOfFormat2 = {
  readonly id: string
  readonly executor: string | null
  readonly spec: { readonly inputs: readonly { readonly kind: string; readonly id: string; readonly version?: string }[] }
}
const inputEntries = ({ id, executor, spec }: TaskOfFormat2): string[] =>
  spec.inputs
    .filter(({ kind, version }) => executor !== null && kind === 'artifact' && version !== undefined)
    .map((input) => `collaboration.task.input\0${executor}\0${input.id}@${input.version}\0${id}`)

/** Kinds that no fact describes, by their names in format 2 and later. A document of any other kind without an image was added by an editor. */
const UNTOLD = new Set([
  'kernel.delivery',
  'kernel.errand',
  'kernel.pending',
  'kernel.reply',
  'kernel.stored_bytes',
  'identity.ticket',
  'delegation.endpoint',
  'delegation.mailbox',
  'delegation.memo',
  'delegation.posting',
  'delegation.signing',
  'execution.filters',
  'execution.hook',
  'execution.notice',
  'execution.notice_cursor',
  'execution.secret',
])

/** Tags documents that had no tag before: there is nothing to compare them with. A document that hides an image gets no tag. */
function tagAll(db: DatabaseSync, tag: Tag): Found[] {
  const update = db.prepare('UPDATE docs SET tag = ? WHERE key = ?')
  const untold = 'SELECT key, version, text FROM docs WHERE image IS NULL AND NOT EXISTS (SELECT 1 FROM images i WHERE i.key = docs.key)'
  const found: Found[] = []
  for (const { key, version, text } of db.prepare(untold).all() as { key: string; version: number; text: string | null }[]) {
    if (text === null) found.push({ what: key, how: 'its content is missing' })
    else if (!UNTOLD.has(key.slice(0, key.indexOf('/')))) found.push({ what: key, how: 'no fact describes it' })
    else update.run(tag(tagInput(key, version, text)), key)
  }
  return found
}

/** Rebuilds the index of a kind from its documents. Omits and reports documents that differ from the record. */
function reindexKind(db: DatabaseSync, kind: string, tag: Tag): { found: Found[]; entries: string[] } {
  const atRest = atRestIn(db)
  const found: Found[] = []
  const entries: string[] = []
  const counts = new Map<string, number>()
  for (const { key } of db.prepare('SELECT key FROM docs WHERE key > ? AND key < ?').iterate(`${kind}/`, `${kind}/${END}`) as Iterable<{
    key: string
  }>) {
    const sound = soundOr(atRest(key)!, key, tag)
    if (typeof sound === 'string') {
      found.push({ what: key, how: sound })
      continue
    }
    const value = JSON.parse(sound.text) as object
    const rows = entriesOf(kindOf(key), idOf(key), value)
    for (const { entry } of rows) entries.push(entry)
    for (const prefix of [...rows.flatMap(({ counted }) => counted ?? []), ...talliesOf(kindOf(key), value)])
      counts.set(prefix, (counts.get(prefix) ?? 0) + 1)
  }
  for (const [table, column] of [
    ['entries', 'entry'],
    ['counts', 'prefix'],
  ] as const)
    db.prepare(`DELETE FROM ${table} WHERE ${column} > ? AND ${column} < ?`).run(`${kind}.`, `${kind}.${END}`)
  const add = db.prepare('INSERT OR IGNORE INTO entries VALUES (?)')
  // In key order, so each entry is appended at the end.
  for (const entry of entries.sort()) add.run(entry)
  const count = db.prepare('INSERT INTO counts VALUES (?, ?)')
  for (const [prefix, number] of counts) count.run(prefix, number)
  return { found, entries }
}

/** Kinds with due times, by their names in format 7. */
const WAITING = [
  'collaboration.task',
  'collaboration.checkpoint',
  'collaboration.upload',
  'delegation.posting',
  'execution.request',
  'execution.file',
  'execution.secret',
  'execution.notice',
]

/** Adds an entry for the next due time of each document. Until now requests had a separate index for it. */
function enterTimes(db: DatabaseSync, tag: Tag): Found[] {
  const atRest = atRestIn(db)
  const found: Found[] = []
  const oldIndex = 'execution.request.~due\0'
  db.prepare('DELETE FROM entries WHERE entry > ? AND entry < ?').run(oldIndex, oldIndex + END)
  const keys = db.prepare('SELECT key FROM docs WHERE key > ? AND key < ?')
  const enter = db.prepare('INSERT OR IGNORE INTO entries VALUES (?)')
  for (const kind of WAITING)
    for (const { key } of keys.iterate(`${kind}/`, `${kind}/${END}`) as Iterable<{ key: string }>) {
      const sound = soundOr(atRest(key)!, key, tag)
      if (typeof sound === 'string') {
        found.push({ what: key, how: sound })
        continue
      }
      for (const { entry } of entriesOf(kindOf(key), idOf(key), JSON.parse(sound.text) as object))
        if (entry.startsWith(duePrefix)) enter.run(entry)
    }
  return found
}

type TimerOfFormat6 = { readonly id: string; readonly due: string; readonly body: { readonly call: string; readonly input: object } }

/** Removes timers of documents, which now declare their due times. Every other timer becomes an errand. */
function dropTimers(db: DatabaseSync, tag: Tag): Found[] {
  const found: Found[] = []
  const timers = 'kernel.delivery/call/'
  const atRest = atRestIn(db)
  const drop = db.prepare('DELETE FROM docs WHERE key = ?')
  for (const { key } of db.prepare('SELECT key FROM docs WHERE key > ? AND key < ?').all(timers, timers + END) as { key: string }[]) {
    const sound = soundOr(atRest(key)!, key, tag)
    if (typeof sound === 'string') found.push({ what: key, how: sound })
    else {
      const errand = errandFor(JSON.parse(sound.text) as TimerOfFormat6)
      if (errand) setErrand(db, errand, tag)
      drop.run(key)
    }
  }
  const entries = 'kernel.delivery.due\0call\0'
  db.prepare('DELETE FROM entries WHERE entry > ? AND entry < ?').run(entries, entries + END)
  return found
}

function errandFor({ due, body: { call, input } }: TimerOfFormat6): Change | null {
  const { run_id, agent_id, person, from } = input as Record<'run_id' | 'agent_id' | 'person', string> & { from?: object }
  if (call === 'delegation/run.forget') return errand(`forget/${run_id}`, due, call, { run_id })
  if (call === 'delegation/run.abandon') return errand(`abandon/${run_id}`, due, call, { run_id })
  if (call === 'delegation/run.admit') return errand(`admit/${agent_id}`, due, call, { agent_id })
  if (call === 'delegation/agent.retire') return errand(`retire/${agent_id}`, due, call, { ...input })
  return call === 'execution/recipient.check' ? recipientErrand(person, due, from) : null
}

/** One errand for each time, since several requests can wait for one person. */
const recipientErrand = (person: string, at: string, from?: object): Change =>
  from === undefined
    ? errand(`recipient/${person}/${at}`, at, 'execution/recipient.check', { person, at })
    : errand(`recipient/${person}/next`, at, 'execution/recipient.check', { person, from })

/** Due before every clock. */
const SINCE_EVER = '1970-01-01T00:00:00.000Z'

function setErrand(db: DatabaseSync, { doc, id, value }: Change, tag: Tag): void {
  const [key, text] = [keyOf(doc, id), canonical(value)]
  const { changes } = db.prepare('INSERT OR IGNORE INTO docs VALUES (?, 1, NULL, ?, ?)').run(key, text, tag(tagInput(key, 1, text)))
  const add = db.prepare('INSERT OR IGNORE INTO entries VALUES (?)')
  if (changes === 1) for (const { entry } of entriesOf(doc, id, value)) add.run(entry)
}

/** Seals facts that were written before seals existed, after checking their chains. */
function sealAll(db: DatabaseSync, tag: Tag): Found[] {
  db.exec('DELETE FROM seals')
  const insert = db.prepare('INSERT INTO seals (last, first, before, hashes, tag) VALUES (?, ?, ?, ?, ?)')
  const baseline = createBaseline(tag)
  const put = (seals: readonly Seal[]): void => {
    for (const { last, first, before, hashes, tag: sealTag } of seals) insert.run(last, first, before, hashes, sealTag)
  }
  const facts = db.prepare('SELECT position, scope, seq, at, actor, task, root, hash, line FROM facts ORDER BY position').iterate()
  for (const fact of facts as Iterable<unknown> as Iterable<Omit<StoredFact, 'images'>>) put(baseline.take([fact]))
  put(baseline.end())
  return [...baseline.found()]
}

/** Recomputes all tags and seals after the key was lost and the operator created a new one. */
export function retag(db: DatabaseSync, { tag = sha256, found }: MigrationOptions): void {
  db.exec('BEGIN IMMEDIATE')
  try {
    for (const difference of [...tagAll(db, tag), ...sealAll(db, tag)]) found?.(difference)
    db.exec('COMMIT')
  } catch (error) {
    if (db.isTransaction) db.exec('ROLLBACK')
    db.close()
    throw error
  }
}
