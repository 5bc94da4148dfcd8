// The inbox: the list, and the open item beside it.
import { useCallback, useEffect, useMemo, useState } from 'react'
import { useLocation, useSearch } from 'wouter'
import { useCommands, type Command } from '../app/commands.ts'
import { useNarrow } from '../app/narrow.ts'
import { onUndone, useAllOutgoing } from '../decide/outgoing.ts'
import { ItemDetail } from '../item/detail.tsx'
import { Empty, Failed, Skeleton } from '../parts/states.tsx'
import { plural } from '../parts/text.tsx'
import { secondsOf } from '../parts/time.tsx'
import { useConnection } from '../server/live.ts'
import type { Row } from '../server/types.ts'
import { BatchBar, type Verdict } from './batch.tsx'
import { isEnded, useAhead, useCounts, useRows, type Counted, type Rows } from './data.ts'
import { FilterBar } from './filter-bar.tsx'
import { entriesOf, InboxList, rowsIn } from './list.tsx'
import { filtersIn, isFiltered, searchOf, type Filters, type Tab } from './query.ts'

const emptyMessages: Readonly<Record<Tab, string>> = {
  mine: 'Nothing waits for you.',
  unassigned: 'Other people have claimed everything in your pools.',
  groups: 'Nothing was escalated to your groups.',
  all: 'Nothing waits for you or for others whom you can see.',
  snoozed: 'You have snoozed nothing.',
  done: 'Nothing was decided yet.',
}
function AllClear({ filters, counts, at }: { readonly filters: Filters; readonly counts: Counted | undefined; readonly at: number }) {
  const { connection } = useConnection()
  if (isFiltered(filters) || filters.tab !== 'mine')
    return (
      <Empty icon="search" tone="accent" title="Nothing here" testId="inbox-empty">
        <p>{isFiltered(filters) ? 'No item fits these filters.' : emptyMessages[filters.tab]}</p>
      </Empty>
    )
  const pooled = counts?.unassigned ?? 0
  return (
    <Empty icon="check" tone="ok" title="All clear" testId="inbox-empty">
      <p>
        Nothing waits for you.
        {pooled > 0 && ` ${plural(pooled, 'item')} in your pools ${pooled === 1 ? 'is' : 'are'} unassigned.`}
      </p>
      <p className="note">
        {connection === 'live' ? 'Live, as of ' : 'As of '}
        {secondsOf(at)}
      </p>
    </Empty>
  )
}

type ListProps = {
  readonly rows: Rows
  readonly children: React.ReactNode
  readonly filters: Filters
  readonly counts: Counted | undefined
  load(): void
}
function ListState({ rows, children, filters, counts, load }: ListProps) {
  if (rows.rows.length > 0) return <>{children}</>
  if (rows.phase === 'failed') return <Failed what="The inbox" error={rows.error} again={load} testId="inbox-error" />
  if (rows.phase === 'loading') return <Skeleton rows={8} />
  return <AllClear filters={filters} counts={counts} at={rows.at} />
}

/** The open item: the one in the URL or, on a wide screen, the first pending one. The latter stays open when others arrive before it. */
function useOpenId(id: string | null, listed: readonly Row[], key: string): { readonly at: string | null; close(): void } {
  const isNarrow = useNarrow()
  const [kept, keep] = useState<{ readonly key: string; readonly id: string | null }>({ key, id: null })
  const isClosed = kept.key === key && kept.id === CLOSED
  const known = kept.key === key && kept.id !== null && listed.some(({ request_id }) => request_id === kept.id) ? kept.id : null
  const first = known ?? listed.find((row) => !isEnded(row))?.request_id ?? null
  const isOwn = id === null && !isNarrow && !isClosed
  if (isOwn && first !== null && (kept.key !== key || kept.id !== first)) keep({ key, id: first })
  return { at: id ?? (isOwn ? first : null), close: () => keep({ key, id: CLOSED }) }
}
const CLOSED = ''

const keyHints = [
  ['J', 'K', 'move'],
  ['X', 'select'],
  ['Ctrl K', 'commands'],
  ['?', 'all keys'],
]
const KeyHints = () => (
  <div className="keys wide-only" aria-hidden="true">
    {keyHints.map((keys) => (
      <span key={keys[0]}>
        {keys.slice(0, -1).map((key) => (
          <span key={key} className="kbd">
            {key}
          </span>
        ))}{' '}
        {keys.at(-1)}
      </span>
    ))}
  </div>
)

/** The right half of a wide screen when no item is open. */
function NoItem({ listed, tab }: { readonly listed: readonly Row[]; readonly tab: Tab }) {
  return (
    <section className="detail none wide-only" aria-label="Item">
      {listed.some((row) => !isEnded(row)) ? (
        <Empty icon="inbox" tone="accent" title="No item is open">
          <p>Choose one on the left, or press J.</p>
        </Empty>
      ) : (
        listed.length > 0 &&
        tab !== 'done' && (
          <Empty icon="check" tone="ok" title="Nothing left to decide here">
            <p>Decided items stay in the list until you reload it.</p>
          </Empty>
        )
      )}
    </section>
  )
}

function useSelection() {
  const [selected, setSelected] = useState<ReadonlyMap<string, Row>>(new Map())
  const select = useCallback((row: Row, on: boolean) => {
    setSelected((before) => {
      const next = new Map(before)
      if (on) next.set(row.request_id, row)
      else next.delete(row.request_id)
      return next
    })
  }, [])
  return { selected, select, clear: () => setSelected(new Map()) }
}

const batchCommands = (decide: (verdict: Verdict) => void): Command[] => [
  { title: 'Approve selected', keys: ['a'], group: 'List', first: true, run: () => decide('approved') },
  { title: 'Reject selected', keys: ['r', 'd'], group: 'List', first: true, run: () => decide('rejected') },
]

export function InboxPage({ id: asked }: { readonly id: string | null }) {
  const search = useSearch()
  const [, navigate] = useLocation()
  const filters = useMemo(() => filtersIn(search), [search])
  const { more, load, ...rows } = useRows(filters)
  const counts = useCounts().data
  const outgoing = useAllOutgoing()
  const { selected, select, clear } = useSelection()
  const [batch, setBatch] = useState<Verdict | null>(null)
  const entries = useMemo(() => entriesOf(rows.rows, filters.tab !== 'done' && filters.tab !== 'snoozed'), [rows.rows, filters.tab])
  const listed = useMemo(() => rowsIn(entries), [entries])
  const query = searchOf(filters)
  const { at: id, close } = useOpenId(asked, listed, query)
  // A link to one item was followed for that item: it stays open until its receipt is here.
  const [linked] = useState(asked)
  const at = listed.findIndex(({ request_id }) => request_id === id)
  useAhead(at === -1 ? [] : [listed[at + 1]?.request_id, listed[at - 1]?.request_id])
  const open = useCallback((row: Row | undefined) => row && navigate(`/inbox/${row.request_id}${query}`), [navigate, query])
  useEffect(() => onUndone((undone) => navigate(`/inbox/${undone}${query}`)), [navigate, query])
  const leave = (): void => {
    if (selected.size > 0) return clear()
    close()
    navigate(`/inbox${query}`)
  }
  const step = (by: number, extends_ = false): void => {
    const to = listed[at === -1 ? 0 : Math.max(0, Math.min(listed.length - 1, at + by))]
    if (extends_ && to) {
      if (at >= 0) select(listed[at]!, true)
      select(to, true)
    }
    open(to)
  }
  /** The next waiting item, from here to the end and then from the top. */
  const next = (): void => {
    const waits = (row: Row): boolean => !isEnded(row) && row.request_id !== id && !outgoing.has(row.request_id)
    open(listed.slice(at + 1).find(waits) ?? listed.find(waits))
  }
  const toggle = (): void => {
    const row = listed[at]
    if (row) select(row, !selected.has(row.request_id))
  }
  useCommands([
    { title: 'Next item', keys: ['j', 'ArrowDown'], group: 'List', run: () => step(1) },
    { title: 'Previous item', keys: ['k', 'ArrowUp'], group: 'List', run: () => step(-1) },
    { title: 'Extend the selection down', keys: ['Shift+j'], group: 'List', run: () => step(1, true) },
    { title: 'Extend the selection up', keys: ['Shift+k'], group: 'List', run: () => step(-1, true) },
    { title: 'Open', keys: ['Enter'], group: 'List', run: () => document.querySelector<HTMLElement>('#item-title')?.focus() },
    { title: 'Select', keys: ['x'], group: 'List', run: toggle },
    { title: 'Close', keys: ['Escape'], group: 'List', run: leave },
    ...(selected.size === 0 ? [] : batchCommands(setBatch)),
  ])
  return (
    <div className="inbox" data-open={id === null ? undefined : 'item'}>
      <section className="pane" aria-label="Inbox">
        <header>
          <FilterBar filters={filters} counts={counts} at={asked} />
        </header>
        <ListState rows={rows} filters={filters} counts={counts} load={() => void load()}>
          <InboxList
            entries={entries}
            currentId={id}
            selected={useMemo(() => new Set(selected.keys()), [selected])}
            search={query}
            hasMore={rows.cursor !== null}
            more={() => void more()}
            select={select}
          />
        </ListState>
        <BatchBar rows={[...selected.values()]} open={batch} setOpen={setBatch} clear={clear} />
        <KeyHints />
      </section>
      {id === null ? (
        <NoItem listed={listed} tab={filters.tab} />
      ) : (
        <ItemDetail
          key={id}
          id={id}
          row={listed[at]}
          place={at === -1 ? null : `${at + 1} of ${listed.length}`}
          back={`/inbox${query}`}
          next={next}
          advance={() => linked !== id && next()}
        />
      )}
    </div>
  )
}
