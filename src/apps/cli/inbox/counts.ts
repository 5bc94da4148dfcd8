// Counts of the inbox, in all and within the filter: the server's own numbers, asked for again when something has changed.
import type { Output } from '#sdk/client.ts'
import { CliError, exits } from '../exit-codes.ts'
import type { Query } from './filter.ts'
import type { Remote } from '../remote/remote.ts'

/** null: not known yet. */
export type Counts = { readonly open: number | null; readonly critical: number; readonly fitting: number | null }

const COUNT = 'execution/inbox.count'

/** Page after page, as far as there is one; `isWanted` ends it early. */
async function countPages(remote: Remote, query: Query, isWanted: () => boolean): Promise<{ open: number; critical: number }> {
  const sum = { open: 0, critical: 0 }
  for (let cursor: string | null = null; isWanted();) {
    const page: Output<typeof COUNT> = await remote.call(COUNT, cursor === null ? query : { ...query, cursor })
    sum.open += page.open
    sum.critical += page.by_priority.critical
    cursor = page.next_cursor
    if (cursor === null) break
  }
  return sum
}

/** Uses the server's counters if they are complete: not for a key of some projects, nor together with the inboxes of other people. */
async function countWaiting(remote: Remote, whose: Query, isWanted: () => boolean): Promise<{ open: number; critical: number }> {
  const each = (): Promise<{ open: number; critical: number }> => countPages(remote, { ...whose, status: 'open' }, isWanted)
  if (Object.keys(whose).length > 0) return each()
  try {
    const { open, by_priority, acting_for } = await remote.call(COUNT, {})
    return acting_for.length > 0 ? await each() : { open, critical: by_priority.critical }
  } catch (error) {
    if (!(error instanceof CliError) || error.exit !== exits.refused) throw error
    return each()
  }
}

export async function countsOf(remote: Remote, whose: Query, query: Query, isWanted: () => boolean): Promise<Counts> {
  const all = await countWaiting(remote, whose, isWanted)
  const isFiltered = Object.keys(query).some((name) => !Object.hasOwn(whose, name))
  const fitting = isFiltered ? (await countPages(remote, query, isWanted)).open : all.open
  return { ...all, fitting }
}
