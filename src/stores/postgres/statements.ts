// The statements of one group: each table is written once, however many batches there are.
import type { DocRow, Group } from '#kernel/log/backend.ts'
import { inDb } from './text.ts'

export type Statement = readonly [name: string, text: string, values: unknown[]]

const column = <T, K extends keyof T>(rows: readonly T[], name: K): T[K][] => rows.map((row) => row[name])

export const rowsOf = (group: Group): Statement[] => [...recordOf(group), ...docsOf(group), ...indexOf(group)]

function recordOf({ facts, images }: Group): Statement[] {
  const all: Statement[] = []
  if (facts.length > 0)
    all.push([
      'w facts',
      `INSERT INTO facts (position, scope, seq, at, actor, task, root, hash, line)
       SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[])`,
      (['position', 'scope', 'seq', 'at', 'actor', 'task', 'root', 'hash', 'line'] as const).map((name) => column(facts, name)),
    ])
  if (facts.length > 0) all.push(chainsOf(facts))
  if (images.length > 0)
    all.push([
      'w images',
      `INSERT INTO images (id, position, key, version, previous, salt, text)
       SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::text[], $7::text[])`,
      [
        column(images, 'id'),
        column(images, 'position'),
        images.map(({ key }) => inDb(key)),
        column(images, 'version'),
        column(images, 'previous'),
        column(images, 'salt'),
        column(images, 'text'),
      ],
    ])
  return all
}

/** The last fact of each chain: a group begins where the one before it ended. */
function chainsOf(facts: Group['facts']): Statement {
  const tips = [...new Map(facts.map((fact) => [fact.scope, fact])).values()]
  return [
    'w chains',
    `INSERT INTO chains (scope, seq, hash, at) SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[])
     ON CONFLICT (scope) DO UPDATE SET seq = excluded.seq, hash = excluded.hash, at = excluded.at`,
    [column(tips, 'scope'), column(tips, 'seq'), column(tips, 'hash'), column(tips, 'at')],
  ]
}

function docsOf({ create, update, remove }: Group): Statement[] {
  const all: Statement[] = []
  const valuesOf = (rows: readonly DocRow[]): unknown[] => [
    rows.map(({ key }) => inDb(key)),
    column(rows, 'version'),
    column(rows, 'image'),
    column(rows, 'text'),
    column(rows, 'tag'),
  ]
  const given = 'unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[], $5::text[])'
  // First: what is removed and made anew within one group is one row.
  if (remove.length > 0) all.push(['w remove', 'DELETE FROM docs WHERE key = ANY($1::text[])', [remove.map(inDb)]])
  if (create.length > 0)
    all.push(['w create', `INSERT INTO docs (key, version, image, text, tag) SELECT * FROM ${given}`, valuesOf(create)])
  if (update.length > 0)
    all.push([
      'w update',
      `UPDATE docs d SET version = u.version, image = u.image, text = u.text, tag = u.tag
       FROM ${given} AS u (key, version, image, text, tag) WHERE d.key = u.key`,
      valuesOf(update),
    ])
  return all
}

function indexOf({ entries, present, counts }: Group): Statement[] {
  const all: Statement[] = []
  const last = new Map<string, boolean>()
  for (const [i, entry] of entries.entries()) last.set(entry, present[i]!)
  const added: string[] = []
  const dropped: string[] = []
  for (const [entry, comes] of last) (comes ? added : dropped).push(inDb(entry))
  if (dropped.length > 0) all.push(['w drop', 'DELETE FROM entries WHERE entry = ANY($1::text[])', [dropped]])
  if (added.length > 0) all.push(['w add', 'INSERT INTO entries (entry) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING', [added]])
  if (counts.length > 0)
    all.push([
      'w counts',
      `INSERT INTO counts (prefix, count) SELECT * FROM unnest($1::text[], $2::bigint[])
       ON CONFLICT (prefix) DO UPDATE SET count = excluded.count`,
      [counts.map(([prefix]) => inDb(prefix)), counts.map(([, count]) => count)],
    ])
  return all
}
