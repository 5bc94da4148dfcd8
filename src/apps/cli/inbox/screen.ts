// The inbox as a screen: the list, the card of the item that is chosen, and the keys that answer it. It is a pure
// function of the state, so it can be drawn at any size at any time.
import type { Item } from '#protocols/execution/inbox/item.ts'
import type { Delivered } from './deliverable.ts'
import { actionLines, ageOf, cardLines, deadlineOf, isOpen, proposedIn, spanOf, type Line, type Style } from './card.ts'
import type { Choosing } from './choose-actions.ts'
import { HELP, hintsOf } from './keyboard-help.ts'
import type { InboxList } from './list.ts'
import { charactersOf } from '../input/line-editor.ts'
import type { Paint } from '../terminal.ts'
import { cutToWidth, escapeControl, ownLines, padToWidth, widthOf } from '../output/safe-text.ts'

export type Typing = { readonly label: string; readonly line: { readonly text: string; readonly at: number }; readonly hidden: boolean }
export type View = {
  readonly who: string
  readonly list: Pick<InboxList, 'all' | 'isMore' | 'counts' | 'marks' | 'picked' | 'filter' | 'isSearching'>
  /** The index of the chosen item; -1 without one. */
  readonly chosen: number
  readonly mode: 'list' | 'open' | 'help'
  readonly scroll: number
  readonly typing: Typing | null
  readonly choosing: Choosing | null
  /** The deliverable under review; undefined: it is still being fetched. */
  readonly delivered: Delivered | null | undefined
  readonly message: { readonly text: string; readonly style: Style } | null
  /** Since when the server does not answer; null: it does. */
  readonly awaySince: number | null
}
export type Size = { readonly columns: number; readonly rows: number }
/** `isWhole`: the end of the card is on the screen. `page`: how far a page key goes. */
export type Frame = { readonly lines: readonly Line[]; readonly isWhole: boolean; readonly scrollMax: number; readonly page: number }

const LIST_SHARE = 0.4
const LIST_MIN = 3

/** `now` is the server's time. */
export function frameOf(view: View, { columns, rows }: Size, now: number): Frame {
  const footer = footerOf(view, columns)
  const room = Math.max(1, rows - 1 - footer.length)
  const of = (body: readonly Line[], more: Partial<Frame> = {}): Frame => ({
    lines: layOut(view, body, footer, columns, rows, now),
    isWhole: false,
    scrollMax: 0,
    page: room,
    ...more,
  })
  if (view.mode === 'help') return of(helpLines(columns, room, view.scroll), { scrollMax: Math.max(0, HELP.length - room) })
  if (view.choosing !== null) return of(choiceLines(view.choosing, columns, room))
  const item = view.list.all[view.chosen]
  if (item === undefined) return of(emptyLines(view, columns))
  const card = [...cardLines(item, columns, now, view.delivered ?? null), ...(view.delivered === undefined ? [FETCHING] : [])]
  if (view.mode === 'open') {
    const scrollMax = Math.max(0, card.length - room)
    const from = Math.min(view.scroll, scrollMax)
    const isWhole = from === scrollMax && view.delivered !== undefined
    return of(card.slice(from, from + room), { isWhole, scrollMax, page: Math.max(1, room - 1) })
  }
  const listed = Math.max(1, Math.min(view.list.all.length, Math.max(Math.min(LIST_MIN, room - 4), Math.floor(room * LIST_SHARE))))
  const list = listLines(view, listed, columns, now)
  const below = Math.max(1, room - list.length - 1)
  const isFitting = card.length <= below
  const shown = isFitting
    ? card
    : [...card.slice(0, below - 1), { text: `… ${card.length - below + 1} more lines: enter opens it`, style: 'yellow' as const }]
  const place = ` ${view.chosen + 1} of ${totalOf(view)} `
  const rule = { text: `──${place}${'─'.repeat(Math.max(0, columns - 2 - place.length))}`, style: 'dim' as const }
  return of([...list, rule, ...shown], { isWhole: isFitting && view.delivered !== undefined, page: listed })
}

const FETCHING: Line = { text: 'Fetching what was delivered…', style: 'yellow' }

/** Counts all matching items, including unread pages. Decided items stay in the list until it is reloaded, so they count too. */
function totalOf({ list: { all, isMore, counts, marks } }: View): string {
  if (!isMore) return String(all.length)
  const decided = all.filter((item) => marks.has(item.request_id)).length
  return counts.fitting === null ? '…' : String(Math.max(all.length, counts.fitting + decided))
}

function emptyLines({ list: { filter, counts, isSearching } }: View, columns: number): Line[] {
  const waiting =
    counts.open === null ? '' : ` ${counts.open} ${counts.open === 1 ? 'item waits' : 'items wait'} for you; / changes the filter.`
  const message = isSearching ? 'Searching…' : filter.text === '' ? 'Nothing waits for you.' : `Nothing fits the filter.${waiting}`
  return ownLines(message, columns).map((text) => ({ text }))
}

// --- Around it -------------------------------------------------------------------------------------------------------------

function layOut(view: View, body: readonly Line[], footer: readonly Line[], columns: number, rows: number, now: number): Line[] {
  const { list, awaySince } = view
  const { counts, filter, picked, isSearching } = list
  const open = counts.open === null ? '… open' : `${counts.open} open`
  const parts = [
    `Inbox of ${escapeControl(view.who)}`,
    `${open}${counts.critical === 0 ? '' : `, ${counts.critical} critical`}`,
    ...(filter.text === '' ? [] : [`${counts.fitting === null ? '…' : counts.fitting} with filter: ${escapeControl(filter.text)}`]),
    ...(picked.size === 0 ? [] : [`${picked.size} marked`]),
    ...(isSearching ? ['searching…'] : []),
  ]
  const away = awaySince === null ? '' : `DISCONNECTED ${spanOf((now - awaySince) / 1_000)}, trying again · `
  const room = Math.max(0, rows - 1 - footer.length)
  const filled: Line[] = [...body.slice(0, room), ...Array.from({ length: Math.max(0, room - body.length) }, () => ({ text: '' }))]
  const head: Line = { text: `${away}${parts.join(' · ')}`, style: awaySince === null ? 'bold' : 'red' }
  return [head, ...filled, ...footer].slice(0, rows).map(({ text, style }) => ({ text: cutToWidth(text, columns), style }))
}

function footerOf(view: View, columns: number): Line[] {
  const { typing, message } = view
  if (typing !== null) return typingLines(typing, columns)
  return [
    { text: message === null ? '' : escapeControl(message.text), style: message?.style },
    { text: hintsOf(view, columns), style: 'dim' },
  ]
}

const CURSOR = '▏'
const LABEL_LINES_MAX = 12
/** The label, and the part of the line around the cursor. */
function typingLines({ label, line, hidden }: Typing, columns: number): Line[] {
  const characters = charactersOf(line.text).map((character) => (hidden ? '•' : escapeControl(character)))
  const [before, after] = [characters.slice(0, line.at), characters.slice(line.at)]
  const room = Math.max(1, columns - 4)
  while (widthOf(before.join('')) > Math.max(room / 2, room - widthOf(after.join(''))) && before.length > 0) before.shift()
  const text = cutToWidth(`> ${before.join('')}${CURSOR}${after.join('')}`, columns)
  return [
    ...label
      .split('\n')
      .flatMap((text) => ownLines(text, columns))
      .slice(0, LABEL_LINES_MAX)
      .map((text): Line => ({ text: text, style: 'bold' })),
    { text },
  ]
}

const helpLines = (columns: number, room: number, scroll: number): Line[] => {
  const from = Math.min(scroll, Math.max(0, HELP.length - room))
  return HELP.slice(from, from + room).map((text) => ({ text: cutToWidth(text, columns) }))
}

// --- Which actions ---------------------------------------------------------------------------------------------------------

function choiceLines({ item, at, chosen }: Choosing, columns: number, room: number): Line[] {
  const head = ownLines('Which actions may the agent take? Actions that are not chosen are denied.', columns)
  const blocks = proposedIn(item).map((action, i) =>
    actionLines(action, columns, `${i === at ? '>' : ' '} [${chosen.has(i) ? 'x' : ' '}] ${String(i + 1).padStart(2)}`),
  )
  const lines = blocks.flat()
  const begin = blocks.slice(0, at).flat().length
  const size = blocks[at]?.length ?? 0
  const space = Math.max(1, room - head.length)
  const from = Math.max(0, Math.min(begin - Math.floor(Math.max(0, space - size) / 2), lines.length - space))
  return [...head.map((text): Line => ({ text, style: 'bold' })), ...lines.slice(from, from + space)]
}

// --- The list --------------------------------------------------------------------------------------------------------------

const priorities = { critical: '!!', high: '! ', normal: '  ', low: '- ' } as const
const [RISK_COLUMNS, KIND_COLUMNS, AGENT_COLUMNS, WHEN_COLUMNS] = [2, 10, 16, 9]
const WIDE = 60

function listLines(view: View, count: number, columns: number, now: number): Line[] {
  const { all } = view.list
  const from = Math.max(0, Math.min(view.chosen - Math.floor(count / 2), all.length - count))
  return all.slice(from, from + count).map((item, i) => rowOf(view, item, from + i === view.chosen, columns, now))
}

/** `3d`, `57m left`: one unit, so that the columns keep their width. */
function whenOf(item: Item, now: number): string {
  const short = (span: string): string => /^\d+[a-z]/.exec(span)?.[0] ?? span
  const deadline = deadlineOf(item, now)
  return deadline === '' ? short(spanOf(ageOf(item, now))) : deadline.replace(/^(\d+[a-z])\S*/, '$1')
}

function rowOf(view: View, item: Item, isChosen: boolean, columns: number, now: number): Line {
  const mark = view.list.marks.get(item.request_id) ?? (isOpen(item) ? null : item.status)
  const marks = `${isChosen ? '>' : ' '}${view.list.picked.has(item.request_id) ? '*' : ' '}${priorities[item.priority]}`
  const begin = `${marks} ${padToWidth(escapeControl(item.risk ?? ''), RISK_COLUMNS)} ${padToWidth(escapeControl(item.asks), KIND_COLUMNS)} `
  const agent = escapeControl(item.agent.name ?? item.agent.id)
  const isWide = columns >= WIDE
  const width = isWide ? AGENT_COLUMNS + 1 + WHEN_COLUMNS : WHEN_COLUMNS
  const columnsLeft = isWide ? `${padToWidth(cutToWidth(agent, AGENT_COLUMNS), AGENT_COLUMNS)} ` : ''
  const end =
    mark === null ? `${columnsLeft}${whenOf(item, now).padStart(WHEN_COLUMNS)}` : padToWidth(cutToWidth(escapeControl(mark), width), width)
  const room = Math.max(8, columns - widthOf(begin) - width - 2)
  const text = `${begin}${padToWidth(cutToWidth(escapeControl(item.title), room), room)}  ${end}`
  return { text, style: isChosen ? 'inverse' : mark === null ? styleOf(item) : 'dim' }
}

function styleOf({ priority, overdue }: Item): Style | undefined {
  if (overdue || priority === 'critical') return 'red'
  return priority === 'high' ? 'yellow' : undefined
}

// --- Drawing ---------------------------------------------------------------------------------------------------------------

const HOME = '\u001b[H'
const CLEAR_LINE = '\u001b[K'
export const CLEAR = '\u001b[2J'
/** Disables wrapping: a line drawn wider than expected is cut off, and never continues where the server's own lines begin. */
export const SCREEN_ON = '\u001b[?1049h\u001b[?25l\u001b[?7l'
export const SCREEN_OFF = '\u001b[?7h\u001b[?25h\u001b[?1049l'

/** Clears each line before writing it: after a full line, the cursor has no position to clear from. */
export function drawFrame({ lines }: Frame, paint: Paint): string {
  return `${HOME}${lines.map(({ text, style }) => `${CLEAR_LINE}${style === undefined ? text : paint(style, text)}`).join('\r\n')}`
}
