// A document as it lies in the database, with everything that it is compared with.
import type { DatabaseSync } from 'node:sqlite'
import { END } from '#kernel/declare/schema.ts'
import type { AtRest, ImageAtRest } from '#kernel/log/sealed-documents.ts'
import type { Backend } from '#kernel/log/backend.ts'

type Row = ImageAtRest & {
  readonly docVersion: number | null
  readonly docImage: number | null
  readonly docText: string | null
  readonly docTag: string | null
}

/** A document's row, the newest image of its key, the fact of that and the line after it. */
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
    // A left join leaves nulls where there is no image.
    const image = (newest.id as number | null) === null ? null : newest
    return doc === null && image === null ? undefined : { doc, newest: image }
  }
}

/** For an examination of everything. Each answer is one turn of this process, so it is about one moment. */
export function walksIn(db: DatabaseSync): Pick<Backend, 'read' | 'inspect' | 'tally' | 'allKeys' | 'prefixes' | 'count'> {
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
    allKeys: (after, limit) => Promise.resolve((keys.all({ after, limit }) as { key: string }[]).map(({ key }) => key)),
    prefixes: (after, limit) => Promise.resolve((prefixes.all(after, limit) as { prefix: string }[]).map(({ prefix }) => prefix)),
    count: (prefix) => Promise.resolve(countOf(prefix)),
  }
}
