// A forged fact, appended by an attacker who can write the database and has no key: its line, hashes and position are correct, and it makes
// a member an owner.
import { DatabaseSync } from 'node:sqlite'
import { digestOf, hashOf, sealedLine, type Line } from '#kernel/log/hash-chain.ts'
import { inDatabase as inPostgres } from '../as-processes/postgres.ts'

type Last = { readonly position: number; readonly seq: number; readonly hash: string; readonly line: string }
type Newest = { readonly id: number; readonly image: number; readonly key: string; readonly version: number; readonly text: string }

const LAST =
  "SELECT (SELECT max(position) FROM %facts) AS position, seq, hash, line FROM %facts WHERE scope = 'system' ORDER BY seq DESC LIMIT 1"
const NEWEST =
  "SELECT (SELECT max(id) FROM %images) AS id, id AS image, key, version, text FROM %images WHERE key = 'identity.user/user_alice' ORDER BY version DESC LIMIT 1"
const SALT = 'c2FsdHNhbHRzYWx0c2FsdA'

function forgedBy(last: Last, newest: Newest) {
  const line = JSON.parse(last.line) as Line
  const text = newest.text.replace('"role":"member"', '"role":"owner"')
  if (text === newest.text) throw new Error('alice is no member')
  const [position, seq, version, id] = [Number(last.position) + 1, Number(last.seq) + 1, Number(newest.version) + 1, Number(newest.id) + 1]
  const made: Line = {
    ...line,
    seq,
    prev: last.hash,
    id: 'aud_01M7GMWX16CYD5TMA0423FKEE5',
    action: 'identity/user.updated',
    subject: newest.key,
    task: null,
    root: null,
    cause: null,
    detail: null,
    images: [{ key: newest.key, version, digest: digestOf(SALT, text) }],
  }
  const forged = sealedLine(made)
  return {
    fact: [position, 'system', seq, made.at, made.actor, null, null, hashOf(forged), forged],
    image: [id, position, newest.key, version, Number(newest.image), SALT, text],
    doc: [version, id, newest.key],
    head: { position, image: id, seq, hash: hashOf(forged) },
  }
}

export function forgeInFolder(folder: string): void {
  const db = new DatabaseSync(`${folder}/countersign.db`, { timeout: 5_000 })
  try {
    const one = <T>(text: string): T => db.prepare(text.replaceAll('%', '')).get() as T
    const { fact, image, doc } = forgedBy(one(LAST), one(NEWEST))
    db.exec('BEGIN IMMEDIATE')
    db.prepare('INSERT INTO facts VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)').run(...fact)
    db.prepare('INSERT INTO images VALUES (?, ?, ?, ?, ?, ?, ?)').run(...(image as (string | number | null)[]))
    db.prepare('UPDATE docs SET version = ?, image = ? WHERE key = ?').run(...doc)
    db.exec('COMMIT')
  } finally {
    db.close()
  }
}

/** `isAnnounced`: the head and the feed say it as well, so that servers forget what they know of it. */
export async function forgeInPostgres(url: string, isAnnounced: boolean): Promise<void> {
  const one = async <T>(text: string): Promise<T> => (await inPostgres(url, text.replaceAll('%', 'countersign.')))[0] as T
  const { fact, image, doc, head } = forgedBy(await one(LAST), await one(NEWEST))
  await inPostgres(url, 'INSERT INTO countersign.facts VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)', fact)
  await inPostgres(url, 'INSERT INTO countersign.images VALUES ($1, $2, $3, $4, $5, $6, $7)', image)
  await inPostgres(url, 'UPDATE countersign.docs SET version = $1, image = $2 WHERE key = $3', doc)
  if (!isAnnounced) return
  await inPostgres(url, `UPDATE countersign.chains SET seq = $1, hash = $2 WHERE scope = 'system'`, [head.seq, head.hash])
  const hint = JSON.stringify({ position: head.position, keys: ['identity.user/user_alice'], wakes: [] })
  const text = `WITH n AS (UPDATE countersign.head SET groups = groups + 1, position = $1, image = $2 RETURNING groups)
    INSERT INTO countersign.delegated_groups (n, id, node, hint) SELECT groups, 'forged', 'nobody', $3 FROM n`
  await inPostgres(url, text, [head.position, head.image, hint])
}
