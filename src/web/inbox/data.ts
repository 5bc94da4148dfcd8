// The rows of the inbox, loaded page by page and updated in place by live events. An item decided by others keeps its row until the list
// is loaded again.
import { useCallback, useEffect, useMemo } from 'react'
import { useQuery } from '@tanstack/react-query'
import { createStore } from '../parts/store.ts'
import { call, queries } from '../server/client.ts'
import { onLive, onNews, type News } from '../server/live.ts'
import type { Item, Row } from '../server/types.ts'
import { isIn, queryOf, searchOf, type Filters, type Tab } from './query.ts'

export type Rows = {
  readonly rows: readonly Row[]
  readonly cursor: string | null
  readonly phase: 'loading' | 'ready' | 'failed'
  readonly error: unknown
  readonly isMore: boolean
  readonly at: number
}
const PAGE = 100
/** Pages fetched one after another: a filter in the browser can leave few rows of each. */
const PAGES_AT_ONCE = 4
const NEWS_AT_ONCE = 12
const TOGETHER_MS = 40

export const isEnded = ({ status }: Pick<Row, 'status'>): boolean => status !== 'pending' && status !== 'assigned'

type RowStore = {
  readonly key: string
  use(): Rows
  load(): Promise<void>
  more(): Promise<void>
  refresh(): Promise<void>
  put(row: Row): void
  drop(request_id: string): void
  news(news: News): void
}

function createRows(key: string, filters: Filters): RowStore {
  const store = createStore<Rows>({ rows: [], cursor: null, phase: 'loading', error: null, isMore: false, at: 0 })
  const set = (next: Partial<Rows>): void => {
    store.set({ ...store.get(), ...next })
  }

  async function fetchRows(cursor: string | null): Promise<{ rows: Row[]; cursor: string | null }> {
    const rows: Row[] = []
    let at = cursor
    for (let pages = 0; pages < PAGES_AT_ONCE; pages++) {
      const order = filters.tab === 'done' || filters.tab === 'snoozed' ? {} : { order: 'urgency' as const }
      const input = { ...queryOf(filters), ...order, view: 'row' as const, limit: PAGE, ...(at === null ? {} : { cursor: at }) }
      const page = await call('execution/inbox.list', input)
      rows.push(...page.items.filter((row) => isIn(filters.tab, row)))
      at = page.next_cursor
      if (at === null || rows.length >= PAGE / 2) break
    }
    return { rows, cursor: at }
  }

  /** Ended rows keep their place. All others are replaced by the server's rows. */
  function mergeRows(fresh: readonly Row[]): Row[] {
    const isListed = new Set(fresh.map(({ request_id }) => request_id))
    const result = [...fresh]
    let before: string | null = null
    for (const row of store.get().rows) {
      if (!isListed.has(row.request_id) && filters.tab !== 'done') {
        if (!isEnded(row)) continue
        const place: number = before === null ? 0 : result.findIndex(({ request_id }) => request_id === before) + 1
        result.splice(place, 0, row)
      }
      before = row.request_id
    }
    return result
  }

  let loading: Promise<void> | null = null
  /** News arrived while a list was in flight. The list might not include it, so it is loaded again. */
  let isOld = false
  async function refresh(): Promise<void> {
    isOld = loading !== null
    loading ??= refetchRows().finally(() => (loading = null))
    await loading
    if (isOld && isIdle()) await refresh()
  }
  const isIdle = (): boolean => loading === null
  async function refetchRows(): Promise<void> {
    try {
      // Loads as many rows as are shown, so that nothing below moves up. A long list is reloaded only up to three pages.
      const wanted = Math.min(store.get().rows.length, PAGE * 3)
      let { rows, cursor } = await fetchRows(null)
      while (cursor !== null && rows.length < wanted) {
        const next = await fetchRows(cursor)
        rows = [...rows, ...next.rows]
        cursor = next.cursor
      }
      set({ rows: mergeRows(rows), cursor, phase: 'ready', error: null, at: Date.now() })
    } catch (error) {
      set(store.get().phase === 'ready' ? { error } : { phase: 'failed', error })
    }
  }

  let timer: ReturnType<typeof setTimeout> | undefined
  const waiting = new Set<string>()
  async function takeNews(): Promise<void> {
    const ids = [...waiting]
    waiting.clear()
    const known = new Set(store.get().rows.map(({ request_id }) => request_id))
    const isBurst = ids.length > NEWS_AT_ONCE
    // An unreadable item might have left this inbox, so the whole list is read again.
    const renewed = await Promise.allSettled(ids.map((id) => renewItem(id, !isBurst && known.has(id))))
    if (isBurst || ids.some((id) => !known.has(id)) || renewed.some(({ status }) => status === 'rejected')) await refresh()
  }
  function put(row: Row): void {
    if (!store.get().rows.some(({ request_id }) => request_id === row.request_id)) return
    if (row.snoozed_until !== null && filters.tab !== 'snoozed') return drop(row.request_id)
    set({ rows: store.get().rows.map((known) => (known.request_id === row.request_id ? row : known)) })
  }
  function drop(request_id: string): void {
    set({ rows: store.get().rows.filter((row) => row.request_id !== request_id) })
  }

  return {
    key,
    use: store.use,
    load: () => {
      set({ phase: store.get().rows.length === 0 ? 'loading' : store.get().phase })
      return refresh()
    },
    async more() {
      const { cursor, isMore } = store.get()
      if (cursor === null || isMore || loading) return
      set({ isMore: true })
      try {
        const next = await fetchRows(cursor)
        const known = new Set(store.get().rows.map(({ request_id }) => request_id))
        set({ rows: [...store.get().rows, ...next.rows.filter((row) => !known.has(row.request_id))], cursor: next.cursor, isMore: false })
      } catch (error) {
        set({ isMore: false, error })
      }
    },
    refresh,
    put,
    drop,
    news({ request_id }) {
      waiting.add(request_id)
      // Continuous news is applied in batches, never postponed.
      timer ??= setTimeout(() => {
        timer = undefined
        void takeNews()
      }, TOGETHER_MS)
    },
  }
}

/** The list that is shown. It outlives its page: an item opened from it returns to the same rows. */
let current: RowStore | null = null
/** Changes a row of the list that is shown, as soon as more is known about it. */
export function patchRow(row: Row): void {
  current?.put(row)
}
export function dropRow(request_id: string): void {
  current?.drop(request_id)
}

export function useRows(filters: Filters): Rows & Pick<RowStore, 'more' | 'load'> {
  const key = searchOf(filters)
  // oxlint-disable-next-line react-hooks/exhaustive-deps -- `key` is the text of `filters`, a new object in each render
  const list = useMemo(() => (current?.key === key ? current : createRows(key, filters)), [key])
  useEffect(() => {
    current = list
    void list.load()
    const leaveNews = onNews(list.news)
    const leaveLive = onLive(() => void list.refresh())
    return () => {
      leaveNews()
      leaveLive()
    }
  }, [list])
  const rows = list.use()
  return { ...rows, more: useCallback(() => list.more(), [list]), load: useCallback(() => list.load(), [list]) }
}

export type Counted = Readonly<Record<Exclude<Tab, 'done'>, number>>
const sumOf = (counts: readonly { readonly open: number }[]): number => counts.reduce((sum, { open }) => sum + open, 0)
export const useCounts = () =>
  useQuery({
    queryKey: ['inbox-count'],
    async queryFn(): Promise<Counted> {
      const { open, pool, no_decider, unassigned, groups, snoozed, acting_for } = await call('execution/inbox.count', {})
      const standingIn = sumOf(acting_for)
      return { mine: open - pool - no_decider + standingIn, unassigned, groups: sumOf(groups), all: open + standingIn, snoozed }
    },
  })

const itemQuery = (request_id: string) => ({
  queryKey: ['item', request_id],
  async queryFn() {
    const { item, thread = [], votes = [], seal_key } = await call('execution/inbox.get', { request_id })
    const whole: Item = { ...item, seal_key }
    patchRow(whole)
    return { item: whole, thread, votes }
  },
  staleTime: 0,
})
/** Fetches an item after news of it, once for its row and its open page. The cache drops an item that is neither listed nor open. */
async function renewItem(request_id: string, isListed: boolean): Promise<void> {
  const query = itemQuery(request_id)
  const filters = { queryKey: query.queryKey, exact: true }
  queries.removeQueries({ ...filters, type: 'inactive' })
  if (queries.getQueryState(query.queryKey) !== undefined) await queries.invalidateQueries(filters, { throwOnError: true })
  else if (isListed) await queries.fetchQuery(query)
}
export const useItem = (request_id: string) => useQuery(itemQuery(request_id))
export type Shown = NonNullable<ReturnType<typeof useItem>['data']>

const AHEAD_MS = 120
/** Prefetches the neighbours of the open item, so that the next one opens immediately. A live event about a neighbour invalidates it. */
export function useAhead(ids: readonly (string | undefined)[]): void {
  const key = ids.join(' ')
  useEffect(() => {
    const timer = setTimeout(() => {
      for (const id of key.split(' ')) if (id !== '') void queries.prefetchQuery({ ...itemQuery(id), staleTime: 10_000 })
    }, AHEAD_MS)
    return () => clearTimeout(timer)
  }, [key])
}
