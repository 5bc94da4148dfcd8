// The feed: each group has a row that says what it changed, so that a server learns what others have committed. `applied` is the group up to
// which everything was said here; saying something twice is harmless, leaving something out is not.
import { SEALS_MAX, type Onward, type Seal } from '#kernel/log/seals/seals.ts'
import type { Hint, Key } from '#kernel/log/store.ts'

export type FeedRow = {
  readonly groups: number
  readonly position: number
  readonly image: number
  /** `ONWARD`: it is no group, but the record behind the seal that was asked for. */
  readonly n: number | null
  /** Of a group its hint; of the record the seals behind it, as JSON. */
  readonly hint: string | null
  /** The tag of the seal that was asked for. */
  readonly hash: string | null
}
const ONWARD = 0
/** `at`: up to which position the record goes. Seals are only read where there are new ones. */
const onwardOf = (sealed: string, at: string): string => `SELECT h.groups, ${at} AS position, h.image, ${ONWARD}::bigint AS n,
  CASE WHEN ${at} <> ${sealed} THEN (SELECT json_agg(s ORDER BY s.last)::text FROM (
    SELECT first, last, before, hashes, tag FROM seals WHERE last > ${sealed} ORDER BY last DESC LIMIT ${SEALS_MAX}) s) END AS hint,
  CASE WHEN ${sealed} = 0 THEN '' WHEN ${at} = ${sealed} THEN h.seal ELSE (SELECT tag FROM seals WHERE last = ${sealed}) END AS hash
  FROM head h WHERE h.one`
/** One statement, so that the head and the rows are of one moment. `$1`: the last group that is known, `$2`: the last seal. */
export const FEED = `SELECT h.groups, h.position, h.image, g.n, g.hint, NULL::text AS hash
  FROM head h LEFT JOIN sealed_groups g ON g.n > $1 AND g.n <= h.groups WHERE h.one
  UNION ALL ${onwardOf('$2::bigint', 'h.position')}`
/** The record as its facts have it, whatever the head says. */
export const RECORD = onwardOf('$1::bigint', '(SELECT coalesce(max(position), 0) FROM facts)')

/** Rows of the feed, apart from the record behind a seal. */
export function feedIn(rows: readonly FeedRow[]): { readonly groups: readonly FeedRow[]; readonly onward: Onward } {
  const { position, hint, hash } = rows.find(({ n }) => n === ONWARD)!
  return { groups: rows.filter(({ n }) => n !== ONWARD), onward: { position, at: hash, since: JSON.parse(hint ?? '[]') as Seal[] } }
}

/** The channel that servers listen to. A message on it is a number and a name. */
export const CHANNEL = 'countersign'

/** Beyond so many keys it is cheaper to forget everything. */
const KEYS_MAX = 20_000

export type Feed = {
  since(): number
  /** The news in these rows that were not told before; null: none. `since`: as they were asked for. */
  take(rows: readonly FeedRow[], since: number): Hint | null
  /** A group of this server is there, and everything before it was said. Until then it is told like one of others. */
  reached(n: number): void
  /** The outcome of a group is unknown: it is said again, with everything after it. */
  forget(n: number): void
  /** Groups that were heard of. */
  heard(): number
}

export function createFeed(start: number): Feed {
  let applied = start
  let heard = 0
  return {
    since: () => applied,
    take(rows, since) {
      const { groups: last, position } = rows[0]!
      // A failover lost groups that had been seen: their numbers are given again.
      if (last < since) {
        applied = Math.min(applied, last)
        return { position, keys: 'all', wakes: 'all' }
      }
      if (last <= applied) return null
      // Keys that were forgotten while they were on their way stay to be told, with everything after them. These are told all the same: a call
      // that waits at a barrier must not go on without them.
      if (since <= applied) applied = last
      const news = rows.filter(({ n }) => n !== null)
      if (last === since) return null
      heard += news.length
      // Rows are kept for some minutes: a server that missed more forgets everything.
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
    heard: () => heard,
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
