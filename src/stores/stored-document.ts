// A document as stored in the database, with everything that it is checked against.
import type { DatabaseSync } from 'node:sqlite'
import { END } from '#kernel/declare/schema.ts'
import type { AtRest, ImageAtRest } from '#kernel/log/sealed-documents.ts'
import type { Backend, PastImage } from '#kernel/log/backend.ts'

type Row = ImageAtRest & {
  readonly docVersion: number | null
  readonly docImage: number | null
  readonly docText: string | null
  readonly docTag: string | null
}

/** A document's row, the newest image of its key, the fact of that image, and the line that follows it. */
export function atRestIn(db: DatabaseSync): (key: string) => AtRest | undefined {
  const get = db.prepare(
    `SELECT d.version AS docVersion, d.image AS docImage, d.text AS docText, d.tag AS docTag,
       i.id, i.version, i.salt, i.text, f.position, f.scope, f.seq, f.line, f.hash, n.line AS after
     FROM (SELECT ? AS key) k LEFT JOIN docs d ON d.key = k.key
     LEFT JOIN images i ON i.key = k.key AND i.version = (SELECT max(version) FROM images WHERE key = k.key)
     LEFT JOIN facts f ON f.position = i.position
     LEFT JOIN facts n ON n.scope = f.scope AND n.seq = f.seq + 1`,
  )
  return (key) => {
    const row = get.get(key) as Row
    const { docVersion, docImage, docText, docTag, ...newest } = row
    const doc = docVersion === null ? null : { version: docVersion, image: docImage, text: docText, tag: docTag }
    // A left join leaves nulls if there is no image.
    const image = (newest.id as number | null) === null ? null : newest
    return doc === null && image === null ? undefined : { doc, newest: image }
  }
}

/** Reads for an examination of the whole store. Each answer is computed in one turn of the event loop, so it is one snapshot. */
export function walksIn(
  db: DatabaseSync,
): Pick<Backend, 'read' | 'inspect' | 'tally' | 'counts' | 'imagesAt' | 'allKeys' | 'prefixes' | 'count'> {
  const get = atRestIn(db)
  const has = db.prepare('SELECT 1 FROM entries WHERE entry = ?')
  const images = db.prepare('SELECT count(*) AS n FROM images WHERE key = ?')
  const entries = db.prepare('SELECT count(*) AS n FROM entries WHERE entry > ? AND entry < ?')
  const count = db.prepare('SELECT count AS n FROM counts WHERE prefix = ?')
  const keys = db.prepare(
    `SELECT key FROM (SELECT key FROM docs WHERE key > :after ORDER BY key LIMIT :limit)
     UNION SELECT key FROM (SELECT DISTINCT key FROM images WHERE key > :after ORDER BY key LIMIT :limit) ORDER BY key LIMIT :limit`,
  )
  const prefixes = db.prepare('SELECT prefix FROM counts WHERE prefix > ? ORDER BY prefix LIMIT ?')
  const position = db.prepare('SELECT coalesce(max(position), 0) AS n FROM facts')
  const counts = db.prepare('SELECT prefix, count FROM counts WHERE prefix > ? AND prefix < ? AND count <> 0 ORDER BY prefix LIMIT ?')
  const imagesAt = db.prepare(
    `SELECT i.key, i.version, i.salt, i.text, f.line FROM images i LEFT JOIN facts f ON f.position = i.position
     WHERE i.key > :after AND i.key < :end AND i.position <= :position
       AND NOT EXISTS (SELECT 1 FROM images n WHERE n.key = i.key AND n.version > i.version AND n.position <= :position)
     ORDER BY i.key LIMIT :limit`,
  )
  const countOf = (prefix: string): number => (count.get(prefix) as { n: number } | undefined)?.n ?? 0
  return {
    read: (some) => Promise.resolve(some.map(get)),
    inspect: (key, some, counted) =>
      Promise.resolve({
        row: get(key),
        images: (images.get(key) as { n: number }).n,
        entries: some.map((entry) => has.get(entry) !== undefined),
        counts: counted.map(countOf),
      }),
    tally: (prefix) => Promise.resolve({ counted: countOf(prefix), there: (entries.get(prefix, prefix + END) as { n: number }).n }),
    counts: (after, end, limit) =>
      Promise.resolve({
        position: (position.get() as { n: number }).n,
        counts: (counts.all(after, end, limit) as { prefix: string; count: number }[]).map(({ prefix, count }) => [prefix, count] as const),
      }),
    imagesAt: (after, end, upTo, limit) => Promise.resolve(imagesAt.all({ after, end, position: upTo, limit }) as PastImage[]),
    allKeys: (after, limit) => Promise.resolve((keys.all({ after, limit }) as { key: string }[]).map(({ key }) => key)),
    prefixes: (after, limit) => Promise.resolve((prefixes.all(after, limit) as { prefix: string }[]).map(({ prefix }) => prefix)),
    count: (prefix) => Promise.resolve(countOf(prefix)),
  }
}
