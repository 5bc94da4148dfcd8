// The inbox: the list, and beside it the item that is open.
import { useCallback, useMemo, useState } from 'react'
import { useLocation, useSearch } from 'wouter'
import { useCommands } from '../app/commands.ts'
import { ItemDetail } from '../item/detail.tsx'
import { Empty, Failed, Skeleton } from '../parts/states.tsx'
import { plural } from '../parts/text.tsx'
import { secondsOf } from '../parts/time.tsx'
import { useConnection } from '../server/live.ts'
import type { Row } from '../server/types.ts'
import { BatchBar } from './batch.tsx'
import { useAhead, useCounts, useRows, type Counted, type Rows } from './data.ts'
import { FilterBar } from './filter-bar.tsx'
import { entriesOf, InboxList, rowsIn } from './list.tsx'
import { filtersIn, isFiltered, searchOf, type Filters } from './query.ts'

function AllClear({ filters, counts, at }: { readonly filters: Filters; readonly counts: Counted | undefined; readonly at: number }) {
  const { connection } = useConnection()
  if (isFiltered(filters) || filters.tab !== 'mine')
    return (
      <Empty icon="search" tone="accent" title="Nothing here" testId="inbox-empty">
        <p>{isFiltered(filters) ? 'No item fits these filters.' : 'There is no such item.'}</p>
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

export function InboxPage({ id }: { readonly id: string | null }) {
  const search = useSearch()
  const [, navigate] = useLocation()
  const filters = useMemo(() => filtersIn(search), [search])
  const { more, load, ...rows } = useRows(filters)
  const counts = useCounts().data
  const [selected, setSelected] = useState<ReadonlyMap<string, Row>>(new Map())
  const entries = useMemo(() => entriesOf(rows.rows, filters.tab !== 'done'), [rows.rows, filters.tab])
  const listed = useMemo(() => rowsIn(entries), [entries])
  const query = searchOf(filters)
  const at = listed.findIndex(({ request_id }) => request_id === id)
  useAhead(at === -1 ? [] : [listed[at + 1]?.request_id, listed[at - 1]?.request_id])
  const open = useCallback((row: Row | undefined) => row && navigate(`/inbox/${row.request_id}${query}`), [navigate, query])
  const select = useCallback((row: Row, on: boolean) => {
    setSelected((before) => {
      const next = new Map(before)
      if (on) next.set(row.request_id, row)
      else next.delete(row.request_id)
      return next
    })
  }, [])
  const step = (by: number, extends_ = false): void => {
    const to = listed[at === -1 ? 0 : Math.max(0, Math.min(listed.length - 1, at + by))]
    if (extends_ && to) {
      if (at >= 0) select(listed[at]!, true)
      select(to, true)
    }
    open(to)
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
    {
      title: 'Close',
      keys: ['Escape'],
      group: 'List',
      run: () => (selected.size > 0 ? setSelected(new Map()) : navigate(`/inbox${query}`)),
    },
  ])
  return (
    <div className="inbox" data-open={id === null ? undefined : 'item'}>
      <section className="pane" aria-label="Inbox">
        <header>
          <FilterBar filters={filters} counts={counts} at={id} />
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
        <BatchBar rows={[...selected.values()]} clear={() => setSelected(new Map())} />
        <div className="keys wide-only" aria-hidden="true">
          <span>
            <span className="kbd">J</span>
            <span className="kbd">K</span> move
          </span>
          <span>
            <span className="kbd">X</span> select
          </span>
          <span>
            <span className="kbd">Ctrl K</span> commands
          </span>
          <span>
            <span className="kbd">?</span> all keys
          </span>
        </div>
      </section>
      {id === null ? (
        <section className="detail none wide-only" aria-label="Item">
          {rows.rows.length > 0 && (
            <Empty icon="inbox" tone="accent" title="No item is open">
              <p>Choose one on the left, or press J.</p>
            </Empty>
          )}
        </section>
      ) : (
        <ItemDetail
          key={id}
          id={id}
          row={listed[at]}
          place={at === -1 ? null : `${at + 1} of ${listed.length}`}
          back={`/inbox${query}`}
          next={() => step(1)}
        />
      )}
    </div>
  )
}
