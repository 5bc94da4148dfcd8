// The feed: each group has a row with its hint, so that a server learns what others have committed. Hints up to the group `applied` have been
// passed on here. A hint can be passed on twice, but must not be left out.
import { SEALS_MAX, type Onward, type Seal } from '#kernel/log/seals/seals.ts'
import type { Hint, Key } from '#kernel/log/store.ts'

export type FeedRow = {
  readonly groups: number
  readonly position: number
  readonly image: number
  /** `ONWARD` marks the row about the record after the requested seal; every other row is a group. */
  readonly n: number | null
  /** The hint of a group, or the seals after the requested one, as JSON. */
  readonly hint: string | null
  /** The tag of the requested seal. */
  readonly hash: string | null
}
const ONWARD = 0
/** `at`: the last position of the record. Reads seals only if there are new ones. */
const onwardOf = (sealed: string, at: string): string => `SELECT h.groups, ${at} AS position, h.image, ${ONWARD}::bigint AS n,
  CASE WHEN ${at} <> ${sealed} THEN (SELECT json_agg(s ORDER BY s.last)::text FROM (
    SELECT first, last, before, hashes, tag FROM seals WHERE last > ${sealed} ORDER BY last DESC LIMIT ${SEALS_MAX}) s) END AS hint,
  CASE WHEN ${sealed} = 0 THEN '' WHEN ${at} = ${sealed} THEN h.seal ELSE (SELECT tag FROM seals WHERE last = ${sealed}) END AS hash
  FROM head h WHERE h.one`
/** One statement, so the head and the rows are of one snapshot. `$1`: the last known group, `$2`: the last known seal. */
export const FEED = `SELECT h.groups, h.position, h.image, g.n, g.hint, NULL::text AS hash
  FROM head h LEFT JOIN delegated_groups g ON g.n > $1 AND g.n <= h.groups WHERE h.one
  UNION ALL ${onwardOf('$2::bigint', 'h.position')}`
/** The end of the record by its facts, ignoring the head. */
export const RECORD = onwardOf('$1::bigint', '(SELECT coalesce(max(position), 0) FROM facts)')

/** Separates the groups of a feed from its row about the record. */
export function feedIn(rows: readonly FeedRow[]): { readonly groups: readonly FeedRow[]; readonly onward: Onward } {
  const { position, hint, hash } = rows.find(({ n }) => n === ONWARD)!
  return { groups: rows.filter(({ n }) => n !== ONWARD), onward: { position, at: hash, since: JSON.parse(hint ?? '[]') as Seal[] } }
}

/** The channel that servers listen to. A message on it is a number and a name. */
export const CHANNEL = 'countersign'

/** Beyond this many keys it is cheaper to clear the whole cache. */
const KEYS_MAX = 20_000

export type Feed = {
  since(): number
  /** Returns one hint for all new groups in these rows, or null. `since` is the group after which the rows were read. */
  take(rows: readonly FeedRow[], since: number): Hint | null
  /** This server's own group `n` is committed: if all earlier hints were passed on, its hint is skipped. */
  reached(n: number): void
  /** The outcome of group `n` is unknown: its hint and all later ones are passed on again. */
  forget(n: number): void
  /** The number of groups passed on. */
  heard(): number
}

export function createFeed(start: number): Feed {
  let applied = start
  let passed = 0
  return {
    since: () => applied,
    take(rows, since) {
      const { groups: last, position } = rows[0]!
      // A failover lost groups that were seen here, and their numbers are reused.
      if (last < since) {
        applied = Math.min(applied, last)
        return { position, keys: 'all', wakes: 'all' }
      }
      if (last <= applied) return null
      // If `forget` ran while these rows were being read, `applied` stays, and the rows are read again later. Their hints are passed on
      // now as well: a call that waits at a barrier needs them.
      if (since <= applied) applied = last
      const news = rows.filter(({ n }) => n !== null)
      if (last === since) return null
      passed += news.length
      // Rows are kept for some minutes; a server that missed deleted rows clears its cache.
      if (news.length < last - since) return { position, keys: 'all', wakes: 'all' }
      return joinHints(
        position,
        news.map(({ hint }) => JSON.parse(hint!) as Hint),
      )
    },
    reached(n) {
      if (applied === n - 1) applied = n
    },
    forget(n) {
      if (n > 0) applied = Math.min(applied, n - 1)
    },
    heard: () => passed,
  }
}

function joinHints(position: number, hints: readonly Hint[]): Hint {
  const keys = new Set<Key>()
  const wakes = new Set<string>()
  let isAll = false
  let wakesAll = false
  for (const hint of hints) {
    if (hint.keys === 'all') isAll = true
    else for (const key of hint.keys) keys.add(key)
    if (hint.wakes === 'all') wakesAll = true
    else for (const wake of hint.wakes) wakes.add(wake)
  }
  return { position, keys: isAll || keys.size > KEYS_MAX ? 'all' : [...keys], wakes: wakesAll ? 'all' : [...wakes] }
}
