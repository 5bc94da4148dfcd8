// The items on the screen and the server's inbox: read page by page, updated as others decide, and never moved while the person is about
// to press a key. A decided item keeps its place until the list is reloaded.
import type { Item } from '#protocols/execution/inbox/item.ts'
import { CliError } from '../exit-codes.ts'
import { isOpen } from './card.ts'
import { countsOf, type Counts } from './counts.ts'
import { whoseIn, type Filter } from './filter.ts'
import type { Remote } from '../remote/remote.ts'
import { escapeControl } from '../output/safe-text.ts'

/** A list begins with as many as fill any screen. */
const SCREENFUL = 60
const PAGE = 100
/** More than anybody walks through at a terminal: a filter finds the rest. */
const ITEMS_MAX = 5_000

export type InboxList = {
  readonly all: readonly Item[]
  readonly isMore: boolean
  readonly filter: Filter
  readonly counts: Counts
  /** More pages are being read. */
  readonly isSearching: boolean
  /** The difference between the server's clock and the local one. */
  readonly skewMs: number
  /** A note for each item that can no longer be answered, by request id. */
  readonly marks: ReadonlyMap<string, string>
  /** The marked items, which get one common answer. */
  readonly picked: Set<string>
  /** The item that keys act on; null: the next item shown. */
  chosen: string | null
  mark(request_id: string, message: string): void
  /** Reads the first page and drops decided items. */
  reset(filter: Filter): Promise<void>
  /** Reads enough items to fill a screen, or all of them. */
  fillScreen(): Promise<void>
  /** Inserts new items at their place and keeps the others. */
  refresh(): Promise<void>
  more(): Promise<void>
  toEnd(): Promise<void>
  recount(): Promise<void>
  /** Rereads one item; null: it is no longer in this inbox. */
  reload(request_id: string): Promise<Item | null>
}

type Page = { readonly items: Item[]; readonly next_cursor: string | null }
type State = {
  all: Item[]
  cursor: string | null
  filter: Filter
  counts: Counts
  isSearching: boolean
  skewMs: number
  turn: number
  chosen: string | null
}

/** `changed` is called during a long read whenever there is more to show. */
export function createInboxList(remote: Remote, first: Filter, changed: () => void): InboxList {
  const is: State = { all: [], cursor: null, filter: first, counts: NONE, isSearching: false, skewMs: 0, turn: 0, chosen: null }
  const marks = new Map<string, string>()
  const picked = new Set<string>()

  async function page({ query }: Filter, after: string | null): Promise<Page> {
    const found = await remote.call('execution/inbox.list', { ...query, limit: PAGE, ...(after === null ? {} : { cursor: after }) })
    const items = found.items.filter((item) => 'card' in item)
    const newest = items[0]
    if (newest) is.skewMs = Date.parse(newest.created_at) + newest.age_seconds * 1_000 - Date.now()
    return { items, next_cursor: found.next_cursor }
  }

  /** Reads pages until there are `count` items or no more; a new filter stops it. */
  async function fill(count: number): Promise<void> {
    const mine = is.turn
    if (is.cursor === null || is.isSearching || is.all.length >= Math.min(count, ITEMS_MAX)) return
    is.isSearching = true
    try {
      while (is.cursor !== null && is.all.length < Math.min(count, ITEMS_MAX)) {
        changed()
        const { items, next_cursor } = await page(is.filter, is.cursor)
        if (mine !== is.turn) return
        const known = new Set(is.all.map(({ request_id }) => request_id))
        is.all = [...is.all, ...items.filter(({ request_id }) => !known.has(request_id))]
        is.cursor = next_cursor
      }
    } finally {
      if (mine === is.turn) is.isSearching = false
    }
  }

  async function recount(): Promise<void> {
    const mine = is.turn
    const whose = whoseIn(is.filter.query)
    const counts = await countsOf(remote, whose, is.filter.query, () => mine === is.turn)
    if (mine === is.turn) is.counts = counts
    changed()
  }

  async function reset(next: Filter): Promise<void> {
    const found = await page(next, null)
    is.turn++
    Object.assign(is, { filter: next, all: found.items, cursor: found.next_cursor, isSearching: false, chosen: null })
    is.counts = { ...is.counts, fitting: null }
    marks.clear()
    picked.clear()
  }

  async function refresh(): Promise<void> {
    if (is.isSearching) return
    const mine = is.turn
    const now: Item[] = []
    let cursor: string | null = null
    do {
      const found: Page = await page(is.filter, cursor)
      now.push(...found.items)
      cursor = found.next_cursor
    } while (cursor !== null && now.length < Math.max(SCREENFUL, is.all.length) && mine === is.turn)
    if (mine !== is.turn) return
    const isHeld = (id: string): boolean => id === is.chosen || picked.has(id)
    is.all = mergeItems(is.all, now, marks, isHeld, cursor === null)
    is.cursor = cursor
  }

  async function reload(request_id: string): Promise<Item | null> {
    try {
      const { item } = await remote.call('execution/inbox.get', { request_id })
      if (!isOpen(item) && !marks.has(request_id))
        marks.set(request_id, `${item.status} by ${escapeControl(item.ended?.by.name ?? item.ended?.by.id ?? '?')}`)
      is.all = is.all.map((known) => (known.request_id === request_id ? item : known))
      return item
    } catch (error) {
      if (!(error instanceof CliError) || error.code !== 'NOT_FOUND') throw error
      if (!marks.has(request_id)) marks.set(request_id, 'no longer yours')
      return null
    }
  }

  return {
    get all() {
      return is.all
    },
    get isMore() {
      return is.cursor !== null
    },
    get filter() {
      return is.filter
    },
    get counts() {
      return is.counts
    },
    get isSearching() {
      return is.isSearching
    },
    get skewMs() {
      return is.skewMs
    },
    get chosen() {
      return is.chosen
    },
    set chosen(request_id) {
      is.chosen = request_id
    },
    marks,
    picked,
    mark(request_id, message) {
      marks.set(request_id, message)
      picked.delete(request_id)
    },
    reset,
    fillScreen: () => fill(SCREENFUL),
    refresh,
    more: () => fill(is.all.length + 1),
    toEnd: () => fill(ITEMS_MAX),
    recount,
    reload,
  }
}
const NONE: Counts = { open: null, critical: 0, fitting: null }

/**
 * The server's order; items that left the server's list stay behind their old predecessor. `isAll`: nothing follows `now`; otherwise the
 * rest is read again when the person scrolls to it. `isHeld`: the person is about to answer the item, so it stays even beyond the page.
 */
function mergeItems(
  before: readonly Item[],
  now: readonly Item[],
  marks: Map<string, string>,
  isHeld: (request_id: string) => boolean,
  isAll: boolean,
): Item[] {
  const fresh = new Set(now.map(({ request_id }) => request_id))
  const end = isAll ? before.length : before.findLastIndex(({ request_id }) => fresh.has(request_id))
  const behind = new Map<string, Item[]>()
  let ahead = ''
  for (const [i, item] of before.entries()) {
    const id = item.request_id
    if (fresh.has(id)) ahead = id
    else if (i <= end || marks.has(id) || isHeld(id)) {
      if (i <= end && !marks.has(id)) marks.set(id, 'no longer open')
      behind.set(ahead, [...(behind.get(ahead) ?? []), item])
    }
  }
  return [...(behind.get('') ?? []), ...now.flatMap((item) => [item, ...(behind.get(item.request_id) ?? [])])]
}
