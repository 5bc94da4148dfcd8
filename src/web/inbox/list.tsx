// The list of the inbox: only the rows that are on the screen exist, however many there are.
import { useEffect, useEffectEvent, useMemo, useRef } from 'react'
import { useVirtualizer, type Virtualizer } from '@tanstack/react-virtual'
import type { Row } from '../server/types.ts'
import { InboxRow } from './row.tsx'
import { isEnded } from './data.ts'

/** The tiers of the server's order; within a tier, rows keep the order of the server. */
type Section = 'Critical' | 'Overdue or escalated' | 'High' | 'Normal' | 'Low'
const order: readonly Section[] = ['Critical', 'Overdue or escalated', 'High', 'Normal', 'Low']

function sectionOf({ priority, overdue, escalated }: Row): Section {
  if (priority === 'critical') return 'Critical'
  if (overdue || escalated) return 'Overdue or escalated'
  return ({ high: 'High', normal: 'Normal', low: 'Low' } as const)[priority]
}

export type Entry = { readonly section: Section; readonly count: number } | { readonly row: Row; readonly position: number }

/** Rows in the order in which they are shown, with the names of their sections between them. */
export function entriesOf(rows: readonly Row[], sectioned: boolean): Entry[] {
  if (!sectioned) return rows.map((row, i) => ({ row, position: i + 1 }))
  let position = 0
  return order.flatMap((section): Entry[] => {
    const within = rows.filter((row) => sectionOf(row) === section)
    if (within.length === 0) return []
    const count = within.filter((row) => !isEnded(row)).length
    return [{ section, count }, ...within.map((row) => ({ row, position: ++position }))]
  })
}
export const rowsIn = (entries: readonly Entry[]): Row[] => entries.flatMap((entry) => ('row' in entry ? [entry.row] : []))

/** Uses the height that the browser observes: measuring it would force a layout for every row that scrolls into view. */
function heightOf(element: Element, told: ResizeObserverEntry | undefined, list: Virtualizer<HTMLUListElement, Element>): number {
  const height = told?.borderBoxSize[0]?.blockSize
  const index = list.indexFromElement(element)
  return height === undefined ? (list.measurementsCache[index]?.size ?? list.options.estimateSize(index)) : Math.round(height)
}

type Props = {
  readonly entries: readonly Entry[]
  readonly currentId: string | null
  readonly selected: ReadonlySet<string>
  readonly search: string
  readonly hasMore: boolean
  more(): void
  select(row: Row, on: boolean): void
}
export function InboxList({ entries, currentId, selected, search, hasMore, more, select }: Props) {
  const scroller = useRef<HTMLUListElement>(null)
  // oxlint-disable-next-line react/incompatible-library -- the page is not compiled, so nothing memoizes the functions of the virtualizer
  const virtual = useVirtualizer<HTMLUListElement, Element>({
    count: entries.length,
    getScrollElement: () => scroller.current,
    estimateSize: (index) => ('row' in entries[index]! ? 63 : 30),
    getItemKey: (index) => {
      const entry = entries[index]!
      return 'row' in entry ? entry.row.request_id : entry.section
    },
    overscan: 8,
    measureElement: heightOf,
  })
  const virtualRows = virtual.getVirtualItems()
  const last = virtualRows.at(-1)?.index ?? 0
  useEffect(() => {
    if (hasMore && last >= entries.length - 20) more()
  }, [hasMore, last, entries.length, more])
  const at = useMemo(() => entries.findIndex((entry) => 'row' in entry && entry.row.request_id === currentId), [entries, currentId])
  const showCurrent = useEffectEvent(() => {
    if (at >= 0) virtual.scrollToIndex(at, { align: 'auto' })
  })
  // The list scrolls when another item is opened, not when rows are added or removed.
  useEffect(() => showCurrent(), [currentId])
  const size = useMemo(() => rowsIn(entries).length, [entries])
  return (
    <ul className="list" ref={scroller} data-testid="inbox-list" aria-label="Inbox items" tabIndex={-1}>
      <li className="space" aria-hidden="true" style={{ height: virtual.getTotalSize() }} />
      {virtualRows.map(({ index, start, key }) => {
        const entry = entries[index]!
        if (!('row' in entry))
          return (
            <li className="day" key={key} ref={virtual.measureElement} data-index={index} style={{ transform: `translateY(${start}px)` }}>
              <span>{entry.section}</span>
              {entry.count > 0 && <span>{entry.count}</span>}
            </li>
          )
        return (
          <InboxRow
            key={key}
            row={entry.row}
            href={`/inbox/${entry.row.request_id}${search}`}
            isCurrent={entry.row.request_id === currentId}
            isSelected={selected.has(entry.row.request_id)}
            position={entry.position}
            size={hasMore ? -1 : size}
            start={start}
            index={index}
            measure={virtual.measureElement}
            select={select}
          />
        )
      })}
    </ul>
  )
}
