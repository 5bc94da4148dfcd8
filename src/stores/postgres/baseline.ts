// Baseline seals for the facts of a database that is older than seals: made in one transaction, with all writers locked out.
import { createBaseline, type Seal } from '#kernel/log/seals/seals.ts'
import type { Tag } from '#kernel/log/sealed-documents.ts'
import type { Found, StoredFact } from '#kernel/log/store.ts'
import { connectAlone, SCHEMA } from './link.ts'

const PAGE = 1_000

export type BaselineOptions = {
  readonly tag: Tag
  /** This installation has sealed its record before: missing seals were removed. */
  readonly wasSealed: boolean
  /** Seals the record despite differences; later checks still find them. */
  readonly isForced: boolean
}

/** Does nothing if there are seals, or no facts. Returns the differences; if there are any, nothing was sealed unless it was forced. */
export async function sealDatabase(
  url: string,
  signal: AbortSignal | undefined,
  options: () => Promise<BaselineOptions>,
): Promise<readonly Found[]> {
  const client = await connectAlone(url, 'countersign seals', signal)
  try {
    await client.query(`BEGIN; SET LOCAL search_path = ${SCHEMA}`)
    const { rows: heads } = await client.query<{ position: string; seal: string }>('SELECT position, seal FROM head WHERE one FOR UPDATE')
    const head = heads[0]!
    if (head.seal !== '' || Number(head.position) === 0) return []
    const { tag, wasSealed, isForced } = await options()
    if (wasSealed) return [{ what: 'seals', how: 'they are gone, and this installation has sealed its record before' }]
    const baseline = createBaseline(tag)
    for (let after = 0; ;) {
      const { rows } = await client.query<Record<'position' | 'seq', string> & Omit<StoredFact, 'images' | 'position' | 'seq'>>(
        'SELECT position, scope, seq, at, actor, task, root, hash, line FROM facts WHERE position > $1 ORDER BY position LIMIT $2',
        [after, PAGE],
      )
      if (rows.length === 0) break
      const facts = rows.map((row) => ({ ...row, position: Number(row.position), seq: Number(row.seq) }))
      await insert(baseline.take(facts))
      after = facts.at(-1)!.position
    }
    await insert(baseline.end())
    const found = baseline.found()
    if (found.length > 0 && !isForced) return found
    await client.query(`UPDATE head SET seal = coalesce((SELECT tag FROM seals ORDER BY last DESC LIMIT 1), ''); COMMIT`)
    return found
  } finally {
    // Whatever was not committed is rolled back with the connection.
    await client.end().catch(() => undefined)
  }

  async function insert(seals: readonly Seal[]): Promise<void> {
    for (const { last, first, before, hashes, tag: sealTag } of seals)
      await client.query('INSERT INTO seals (last, first, before, hashes, tag) VALUES ($1, $2, $3, $4, $5)', [
        last,
        first,
        before,
        hashes,
        sealTag,
      ])
  }
}
