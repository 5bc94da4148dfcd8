// The queries of the store. Each is one statement, so each sees one snapshot.
import type { Backend, Inspection, PastImage } from '#kernel/log/backend.ts'
import type { AtRest, ImageAtRest } from '#kernel/log/sealed-documents.ts'
import type { Seal } from '#kernel/log/seals/seals.ts'
import type { FactsOf, FactsPage, Key, Place, StoredFact, StoredImage } from '#kernel/log/store.ts'
import { END } from '#kernel/declare/schema.ts'
import { fromDb, inDb } from './text.ts'

export type Query = <T>(name: string, text: string, values: unknown[]) => Promise<T[]>

type DocumentRow = ImageAtRest & {
  readonly key: string
  readonly docVersion: number | null
  readonly docImage: number | null
  readonly docText: string | null
  readonly docTag: string | null
}
/** A document's row, the newest image of its key, the fact of that image, and the line that follows it. */
const COLUMNS = `k.key, d.version AS "docVersion", d.image AS "docImage", d.text AS "docText", d.tag AS "docTag",
  i.id, i.version, i.salt, i.text, f.position, f.scope, f.seq, f.line, f.hash, n.line AS after`
const TABLES = `unnest($1::text[]) AS k (key) LEFT JOIN docs d ON d.key = k.key
  LEFT JOIN LATERAL (SELECT * FROM images WHERE images.key = k.key ORDER BY version DESC LIMIT 1) i ON TRUE
  LEFT JOIN facts f ON f.position = i.position LEFT JOIN facts n ON n.scope = f.scope AND n.seq = f.seq + 1`

function atRestIn({ key: _, docVersion, docImage, docText, docTag, ...newest }: DocumentRow): AtRest | undefined {
  const doc = docVersion === null ? null : { version: docVersion, image: docImage, text: docText, tag: docTag }
  // A left join leaves nulls if there is no image.
  const image = (newest.id as number | null) === null ? null : newest
  return doc === null && image === null ? undefined : { doc, newest: image }
}

/** Reads all documents in one query; absent ones are left out. */
export async function documentsIn(query: Query, keys: readonly Key[]): Promise<ReadonlyMap<Key, AtRest>> {
  const found = new Map<Key, AtRest>()
  for (const row of await query<DocumentRow>('documents', `SELECT ${COLUMNS} FROM ${TABLES}`, [keys.map(inDb)])) {
    const document = atRestIn(row)
    if (document) found.set(fromDb(row.key), document)
  }
  return found
}

export async function inspectionIn(query: Query, key: Key, entries: readonly string[], prefixes: readonly string[]): Promise<Inspection> {
  const text = `SELECT ${COLUMNS}, (SELECT count(*) FROM images WHERE images.key = k.key) AS images,
      (SELECT json_agg(e.entry IS NOT NULL ORDER BY w.i)::text
       FROM unnest($2::text[]) WITH ORDINALITY AS w (entry, i) LEFT JOIN entries e ON e.entry = w.entry) AS entered,
      (SELECT json_agg(coalesce(c.count, 0) ORDER BY w.i)::text
       FROM unnest($3::text[]) WITH ORDINALITY AS w (prefix, i) LEFT JOIN counts c ON c.prefix = w.prefix) AS counted
    FROM ${TABLES}`
  const values = [[inDb(key)], entries.map(inDb), prefixes.map(inDb)]
  type InspectedRow = DocumentRow & { images: number; entered: string | null; counted: string | null }
  const [{ images, entered, counted, ...row }] = (await query<InspectedRow>('inspection', text, values)) as [InspectedRow]
  return {
    row: atRestIn(row),
    images,
    entries: JSON.parse(entered ?? '[]') as boolean[],
    counts: JSON.parse(counted ?? '[]') as number[],
  }
}

const FACTS: Record<FactsOf['by'], { readonly where: readonly string[]; readonly place: string }> = {
  position: { where: ['TRUE'], place: 'position' },
  scope: { where: ['scope = $3'], place: 'seq' },
  actor: { where: ['scope = $3 AND actor = $4'], place: 'seq' },
  task: { where: ['task = $3'], place: 'position' },
  // A task's own facts and those of its descendants: two index ranges, merged in order.
  root: { where: ['task = $3', 'root = $3 AND root <> task'], place: 'position' },
}

function argumentsOf(of: FactsOf): string[] {
  if (of.by === 'scope') return [of.scope]
  if (of.by === 'actor') return [of.scope, of.actor]
  if (of.by === 'task') return [of.task]
  return of.by === 'root' ? [of.root] : []
}

type FactRow = Omit<StoredFact, 'images'> & Omit<StoredImage, 'key' | 'text'> & { readonly key: Key | null; readonly body: string | null }

export async function factsIn(query: Query, of: FactsOf, { after, limit, reverse = false }: FactsPage): Promise<StoredFact[]> {
  const { where, place } = FACTS[of.by]
  const order = `${place} ${reverse ? 'DESC' : 'ASC'}`
  const ranges = where.map(
    (condition) => `(SELECT * FROM facts WHERE ${condition} AND ${place} ${reverse ? '<' : '>'} $1 ORDER BY ${order} LIMIT $2)`,
  )
  // A manipulated `previous` pointer can lead nowhere, but never to an image other than the previous version.
  const rows = await query<FactRow>(
    `facts ${of.by} ${reverse}`,
    `SELECT f.*, i.key, i.version, i.salt, i.text AS body, i.previous, p.text AS before, p.salt AS "beforeSalt", b.line AS "beforeLine"
     FROM (SELECT * FROM (${ranges.join(' UNION ALL ')}) u ORDER BY ${order} LIMIT $2) f
     LEFT JOIN images i ON i.position = f.position
     LEFT JOIN images p ON p.id = i.previous AND p.key = i.key AND p.version = i.version - 1
     LEFT JOIN facts b ON b.position = p.position
     ORDER BY f.${order}, i.id`,
    [after ?? (reverse ? Number.MAX_SAFE_INTEGER : 0), limit, ...argumentsOf(of)],
  )
  const facts: (StoredFact & { readonly images: StoredImage[] })[] = []
  for (const row of rows) {
    const { position, scope, seq, at, actor, task, root, hash, line, key, version, salt, body, previous } = row
    if (facts.at(-1)?.position !== position) facts.push({ position, scope, seq, at, actor, task, root, hash, line, images: [] })
    const { before, beforeSalt, beforeLine } = row
    if (key !== null) facts.at(-1)!.images.push({ key: fromDb(key), version, salt, text: body, previous, before, beforeSalt, beforeLine })
  }
  return facts
}

export const sealsIn = (query: Query, after: number, limit: number): Promise<Seal[]> =>
  query('seals', 'SELECT first, last, before, hashes, tag FROM seals WHERE last > $1 ORDER BY last LIMIT $2', [after, limit])

export const sealsAt = (query: Query, positions: readonly number[]): Promise<Seal[]> =>
  query(
    'seals at',
    `SELECT DISTINCT s.* FROM unnest($1::bigint[]) AS p (position),
     LATERAL (SELECT first, last, before, hashes, tag FROM seals WHERE last >= p.position ORDER BY last LIMIT 1) s`,
    [positions],
  )

export const placeIn = async (query: Query, key: Key): Promise<Place | null> => {
  const text = `SELECT f.scope, f.seq, f.position, f.hash FROM docs d JOIN images i ON i.id = d.image JOIN facts f ON f.position = i.position
    WHERE d.key = $1`
  return (await query<Place>('place', text, [inDb(key)]))[0] ?? null
}

/** A binary search: times never decrease along a chain. */
export async function seekIn(query: Query, scope: string, at: string): Promise<number> {
  let low = 1
  const [head] = await query<{ seq: number }>('last', 'SELECT seq FROM chains WHERE scope = $1', [scope])
  let high = (head?.seq ?? 0) + 1
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    const [row] = await query<{ late: boolean }>('at', 'SELECT at >= $3 AS late FROM facts WHERE scope = $1 AND seq = $2', [
      scope,
      middle,
      at,
    ])
    if (row?.late === true) high = middle
    else low = middle + 1
  }
  return low
}

export async function entriesIn(query: Query, after: string, end: string, limit: number, reverse: boolean): Promise<string[]> {
  const text = `SELECT entry FROM entries WHERE entry > $1 AND entry < $2 ORDER BY entry ${reverse ? 'DESC' : 'ASC'} LIMIT $3`
  return (await query<{ entry: string }>(`scan ${reverse}`, text, [inDb(after), inDb(end), limit])).map(({ entry }) => fromDb(entry))
}

export async function keysIn(query: Query, after: Key, end: Key, limit: number): Promise<Key[]> {
  const text = 'SELECT key FROM docs WHERE key > $1 AND key < $2 ORDER BY key LIMIT $3'
  return (await query<{ key: string }>('keys', text, [inDb(after), inDb(end), limit])).map(({ key }) => fromDb(key))
}

/** Reads for an examination of the whole store. */
export function walksIn(query: Query): Pick<Backend, 'tally' | 'counts' | 'imagesAt' | 'allKeys' | 'prefixes'> {
  return {
    async tally(prefix) {
      const text = `SELECT coalesce((SELECT count FROM counts WHERE prefix = $1), 0) AS counted,
        (SELECT count(*) FROM entries WHERE entry > $1 AND entry < $2) AS there`
      const [row] = await query<{ counted: number; there: number }>('tally', text, [inDb(prefix), inDb(prefix + END)])
      return row!
    },
    async counts(after, end, limit) {
      // One statement, so position and counts are of one snapshot.
      const text = `SELECT h.position, c.prefix, c.count FROM head h LEFT JOIN LATERAL
        (SELECT prefix, count FROM counts WHERE prefix > $1 AND prefix < $2 AND count <> 0 ORDER BY prefix LIMIT $3) c ON TRUE WHERE h.one`
      type Row = { readonly position: number; readonly prefix: string | null; readonly count: number }
      const rows = await query<Row>('counts', text, [inDb(after), inDb(end), limit])
      const counts = rows.flatMap(({ prefix, count }) => (prefix === null ? [] : [[fromDb(prefix), count] as const]))
      return { position: rows[0]!.position, counts }
    },
    async imagesAt(after, end, position, limit) {
      const text = `SELECT i.key, i.version, i.salt, i.text, f.line FROM images i LEFT JOIN facts f ON f.position = i.position
        WHERE i.key > $1 AND i.key < $2 AND i.position <= $3
          AND NOT EXISTS (SELECT 1 FROM images n WHERE n.key = i.key AND n.version > i.version AND n.position <= $3)
        ORDER BY i.key LIMIT $4`
      const rows = await query<PastImage>('images at', text, [inDb(after), inDb(end), position, limit])
      return rows.map((row) => ({ ...row, key: fromDb(row.key) }))
    },
    async allKeys(after, limit) {
      const text = `SELECT key FROM (
          (SELECT key FROM docs WHERE key > $1 ORDER BY key LIMIT $2)
          UNION (SELECT DISTINCT key FROM images WHERE key > $1 ORDER BY key LIMIT $2)) k ORDER BY key LIMIT $2`
      return (await query<{ key: string }>('all keys', text, [inDb(after), limit])).map(({ key }) => fromDb(key))
    },
    async prefixes(after, limit) {
      const text = 'SELECT prefix FROM counts WHERE prefix > $1 ORDER BY prefix LIMIT $2'
      return (await query<{ prefix: string }>('prefixes', text, [inDb(after), limit])).map(({ prefix }) => fromDb(prefix))
    },
  }
}
