// The statements of one group. One statement changes every table once; a table that changes twice gets a separate statement for the first
// change. Fewer statements cost less on both sides, because each is sent and answered separately.
import type { DocRow, Group } from '#kernel/log/backend.ts'
import { numbers, texts, type Column } from './columns.ts'
import { CHANNEL } from './feed.ts'
import { inDb } from './text.ts'

export type Statement = readonly [name: string, text: string, values: unknown[]]

/** A part of a statement: one change of one table, with its own parameters. */
type Part = { readonly name: string; readonly table: string; readonly text: string; readonly values: readonly unknown[] }

/** A group as a row: its number, its id, the process that writes it, and the id of the last image before it. */
export type GroupRow = { readonly n: number; readonly id: string; readonly node: string; readonly image: number }

/** The group's rows, its feed row and the head. The last statement returns the notification. */
export const statementsOf = (group: Group, row: GroupRow): Statement[] => joinByTable([...rowsIn(group), ...headOf(group, row)])

export const rowsOf = (group: Group): Statement[] => joinByTable(rowsIn(group))

const rowsIn = (group: Group): Part[] => [...recordOf(group), ...docsOf(group), ...indexOf(group)]

function joinByTable(parts: readonly Part[]): Statement[] {
  const isBefore = ({ table }: Part, i: number): boolean => parts.some((later, k) => k > i && later.table === table)
  const first = parts.filter(isBefore)
  const last = parts.filter((part) => !first.includes(part))
  return [...first.map((part) => joinParts([part])), ...(last.length > 0 ? [joinParts(last)] : [])]
}

/** Texts by the name under which the statement is prepared. */
const joinedTexts = new Map<string, string>()

function joinParts(parts: readonly Part[]): Statement {
  const name = `w ${parts.map((part) => part.name).join(' ')}`
  let text = joinedTexts.get(name)
  if (text === undefined) joinedTexts.set(name, (text = textOf(parts)))
  return [name, text, parts.flatMap(({ values }) => values)]
}

function textOf(parts: readonly Part[]): string {
  let used = 0
  const all = parts.map(({ text, values }) => {
    const shifted = text.replace(/\$(\d+)/g, (_, n: string) => `$${Number(n) + used}`)
    used += values.length
    return shifted
  })
  const last = all.pop()!
  return all.length === 0 ? last : `WITH ${all.map((text, i) => `p${i} AS (${text})`).join(', ')} ${last}`
}

const textColumn = <T, K extends keyof T>(rows: readonly T[], name: K): Column => texts(rows.map((row) => row[name]) as (string | null)[])
const numberColumn = <T, K extends keyof T>(rows: readonly T[], name: K): Column =>
  numbers(rows.map((row) => row[name]) as (number | null)[])

function recordOf({ facts, seal, images }: Group): Part[] {
  const all: Part[] = []
  if (facts.length > 0)
    all.push({
      name: 'facts',
      table: 'facts',
      text: `INSERT INTO facts (position, scope, seq, at, actor, task, root, hash, line)
        SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[])`,
      values: [
        numberColumn(facts, 'position'),
        textColumn(facts, 'scope'),
        numberColumn(facts, 'seq'),
        ...(['at', 'actor', 'task', 'root', 'hash', 'line'] as const).map((name) => textColumn(facts, name)),
      ],
    })
  if (facts.length > 0) all.push(chainsOf(facts))
  if (seal)
    all.push({
      name: 'seals',
      table: 'seals',
      text: 'INSERT INTO seals (last, first, before, hashes, tag) VALUES ($1, $2, $3, $4, $5)',
      values: [seal.last, seal.first, seal.before, seal.hashes, seal.tag],
    })
  if (images.length > 0)
    all.push({
      name: 'images',
      table: 'images',
      text: `INSERT INTO images (id, position, key, version, previous, salt, text)
        SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::text[], $7::text[])`,
      values: [
        numberColumn(images, 'id'),
        numberColumn(images, 'position'),
        texts(images.map(({ key }) => inDb(key))),
        numberColumn(images, 'version'),
        numberColumn(images, 'previous'),
        textColumn(images, 'salt'),
        textColumn(images, 'text'),
      ],
    })
  return all
}

/** The last fact of each chain: the next group continues from it. */
function chainsOf(facts: Group['facts']): Part {
  const tips = [...new Map(facts.map((fact) => [fact.scope, fact])).values()]
  return {
    name: 'chains',
    table: 'chains',
    text: `INSERT INTO chains (scope, seq, hash, at) SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[])
      ON CONFLICT (scope) DO UPDATE SET seq = excluded.seq, hash = excluded.hash, at = excluded.at`,
    values: [textColumn(tips, 'scope'), numberColumn(tips, 'seq'), textColumn(tips, 'hash'), textColumn(tips, 'at')],
  }
}

function docsOf({ create, update, remove }: Group): Part[] {
  const all: Part[] = []
  const valuesOf = (rows: readonly DocRow[]): Column[] => [
    texts(rows.map(({ key }) => inDb(key))),
    numberColumn(rows, 'version'),
    numberColumn(rows, 'image'),
    textColumn(rows, 'text'),
    textColumn(rows, 'tag'),
  ]
  const given = 'unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[], $5::text[])'
  const table = 'docs'
  if (remove.length > 0)
    all.push({ name: 'remove', table, text: 'DELETE FROM docs WHERE key = ANY($1::text[])', values: [texts(remove.map(inDb))] })
  if (update.length > 0)
    all.push({
      name: 'update',
      table,
      text: `UPDATE docs d SET version = u.version, image = u.image, text = u.text, tag = u.tag
        FROM ${given} AS u (key, version, image, text, tag) WHERE d.key = u.key`,
      values: valuesOf(update),
    })
  if (create.length > 0)
    all.push({
      name: 'create',
      table,
      text: `INSERT INTO docs (key, version, image, text, tag) SELECT * FROM ${given}`,
      values: valuesOf(create),
    })
  return all
}

function indexOf({ entries, present, counts }: Group): Part[] {
  const all: Part[] = []
  const last = new Map<string, boolean>()
  for (const [i, entry] of entries.entries()) last.set(entry, present[i]!)
  const added: string[] = []
  const dropped: string[] = []
  for (const [entry, isPresent] of last) (isPresent ? added : dropped).push(inDb(entry))
  const table = 'entries'
  if (dropped.length > 0)
    all.push({ name: 'drop', table, text: 'DELETE FROM entries WHERE entry = ANY($1::text[])', values: [texts(dropped)] })
  if (added.length > 0)
    all.push({
      name: 'add',
      table,
      text: 'INSERT INTO entries (entry) SELECT unnest($1::text[]) ON CONFLICT DO NOTHING',
      values: [texts(added)],
    })
  if (counts.length > 0)
    all.push({
      name: 'counts',
      table: 'counts',
      text: `INSERT INTO counts (prefix, count) SELECT * FROM unnest($1::text[], $2::bigint[])
        ON CONFLICT (prefix) DO UPDATE SET count = excluded.count`,
      values: [texts(counts.map(([prefix]) => inDb(prefix))), numbers(counts.map(([, count]) => count))],
    })
  return all
}

const headOf = ({ hint, images, seal }: Group, { n, id, node, image }: GroupRow): Part[] => [
  {
    name: 'group',
    table: 'delegated_groups',
    text: 'INSERT INTO delegated_groups (n, id, node, hint) VALUES ($1, $2, $3, $4)',
    values: [n, id, node, JSON.stringify(hint)],
  },
  {
    name: 'head',
    table: 'head',
    text: 'UPDATE head SET groups = $1, position = $2, image = $3, seal = coalesce($4, seal) WHERE one RETURNING pg_notify($5, $6)',
    values: [n, hint.position, images.at(-1)?.id ?? image, seal?.tag ?? null, CHANNEL, `${n} ${node}`],
  },
]
