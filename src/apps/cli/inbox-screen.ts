// The inbox as a screen: the list, the card of the item that is chosen, and what can be pressed. A picture of the state and nothing
// else, so that it can be drawn at any size at any time.
import type { Item } from '#protocols/execution/inbox.ts'
import { cardIn, cardLines, choicesOf, deadlineOf, isOpen, spanOf, type Line, type Style } from './inbox-card.ts'
import type { Paint } from './terminal.ts'
import { fitted, inert, inertLines, padded, widthOf } from './text.ts'

export type Typing = { readonly label: string; readonly text: string; readonly hidden: boolean }
export type View = {
  readonly who: string
  readonly items: readonly Item[]
  /** There are more than these. */
  readonly isMore: boolean
  readonly chosen: number
  /** What one has decided here, and what is somebody else's now, by request. */
  readonly marks: ReadonlyMap<string, string>
  readonly mode: 'list' | 'open' | 'help'
  readonly scroll: number
  readonly typing: Typing | null
  readonly message: { readonly text: string; readonly style: Style } | null
  readonly filter: string
  readonly isAway: boolean
}
export type Size = { readonly columns: number; readonly rows: number }
/** `isWhole`: the end of the card is on the screen. */
export type Frame = { readonly lines: readonly Line[]; readonly isWhole: boolean; readonly scrollMax: number }

const LIST_SHARE = 0.4
const LIST_MIN = 3

export function frameOf(view: View, { columns, rows }: Size, now: number): Frame {
  const room = Math.max(1, rows - 3)
  const footer = footerOf(view, columns)
  if (view.mode === 'help') return { lines: framed(view, HELP, footer, columns, rows), isWhole: false, scrollMax: 0 }
  const item = view.items[view.chosen]
  if (item === undefined) {
    const words = view.filter === '' ? 'Nothing waits for you.' : 'Nothing that waits for you fits the filter.'
    return { lines: framed(view, [{ text: words }], footer, columns, rows), isWhole: false, scrollMax: 0 }
  }
  const card = cardLines(item, columns, now)
  if (view.mode === 'open') {
    const scrollMax = Math.max(0, card.length - room)
    const from = Math.min(view.scroll, scrollMax)
    return { lines: framed(view, card.slice(from, from + room), footer, columns, rows), isWhole: from === scrollMax, scrollMax }
  }
  const listed = Math.max(1, Math.min(view.items.length, Math.max(Math.min(LIST_MIN, room - 4), Math.floor(room * LIST_SHARE))))
  const list = listLines(view, listed, columns, now)
  const below = Math.max(1, room - list.length - 1)
  const isWhole = card.length <= below
  const shown = isWhole
    ? card
    : [...card.slice(0, below - 1), { text: `… ${card.length - below + 1} more lines: enter opens it`, style: 'yellow' as const }]
  const place = ` ${view.chosen + 1} of ${view.items.length}${view.isMore ? '+' : ''} `
  const rule = { text: `──${place}${'─'.repeat(Math.max(0, columns - 2 - place.length))}`, style: 'dim' as const }
  return { lines: framed(view, [...list, rule, ...shown], footer, columns, rows), isWhole, scrollMax: 0 }
}

function framed(view: View, body: readonly Line[], footer: readonly Line[], columns: number, rows: number): Line[] {
  const open = view.items.filter((item) => isOpen(item) && !view.marks.has(item.request_id))
  const critical = open.filter(({ priority }) => priority === 'critical').length
  const parts = [
    `Inbox of ${inert(view.who)}`,
    `${open.length}${view.isMore ? '+' : ''} open${critical === 0 ? '' : `, ${critical} critical`}`,
    ...(view.filter === '' ? [] : [`filter: ${inert(view.filter)}`]),
    ...(view.isAway ? ['the server does not answer'] : []),
  ]
  const room = Math.max(0, rows - 1 - footer.length)
  const filled = [...body.slice(0, room), ...Array.from({ length: Math.max(0, room - body.length) }, () => ({ text: '' }))]
  const lines: Line[] = [{ text: parts.join(' · '), style: 'bold' }, ...filled, ...footer]
  return lines.slice(0, rows).map(({ text, style }) => ({ text: fitted(text, columns), style }))
}

// --- The list --------------------------------------------------------------------------------------------------------------

const priorities = { critical: '!!', high: '! ', normal: '  ', low: '- ' } as const
const AGENT_COLUMNS = 18
const WIDE = 60

function listLines(view: View, count: number, columns: number, now: number): Line[] {
  const from = Math.max(0, Math.min(view.chosen - Math.floor(count / 2), view.items.length - count))
  return view.items.slice(from, from + count).map((item, i) => rowOf(view, item, from + i === view.chosen, columns, now))
}

function rowOf(view: View, item: Item, isChosen: boolean, columns: number, now: number): Line {
  const mark = view.marks.get(item.request_id) ?? (isOpen(item) ? null : item.status)
  const word = item.kind === 'request' ? item.action.toLowerCase() : item.kind
  const when = [spanOf(item.age_seconds), deadlineOf(item, now)].filter((part) => part !== '').join(', ')
  const begin = `${isChosen ? '>' : ' '} ${priorities[item.priority]} ${padded(inert(word), 10)} `
  const agent = columns >= WIDE ? `  ${padded(fitted(inert(item.agent.name ?? item.agent.id), AGENT_COLUMNS), AGENT_COLUMNS)}` : ''
  const end = `${agent}  ${mark === null ? when : inert(mark)}`
  const room = Math.max(8, columns - widthOf(begin) - widthOf(end))
  const text = `${begin}${padded(fitted(inert(item.title), room), room)}${end}`
  return { text, style: isChosen ? 'inverse' : mark === null ? styleOf(item) : 'dim' }
}

function styleOf({ priority, overdue }: Item): Style | undefined {
  if (overdue || priority === 'critical') return 'red'
  return priority === 'high' ? 'yellow' : undefined
}

// --- What can be pressed ---------------------------------------------------------------------------------------------------

/** Which keys answer an item; the server has the last word. */
export function answersOf(item: Item): readonly [key: string, words: string][] {
  if (!isOpen(item)) return []
  const { input_type } = cardIn(item).payload
  const digits = choicesOf(item)
    .slice(0, 9)
    .map((choice, i): [string, string] => [String(i + 1), String(choice)])
  if (item.action === 'APPROVE') return [['a', 'approve'], ['r', 'reject']] // prettier-ignore
  if (item.action === 'DECIDE' || digits.length > 0) return digits
  return input_type === 'file' ? [] : [['p', 'provide']]
}

function footerOf(view: View, columns: number): Line[] {
  const { typing, message } = view
  if (typing !== null) {
    const shown = typing.hidden ? '•'.repeat(Array.from(typing.text).length) : inert(typing.text)
    const label = fitted(inertLines(typing.label), Math.max(8, columns - 12))
    return [{ text: label, style: 'bold' }, { text: `> ${tailOf(shown, columns - 4)}_` }]
  }
  const item = view.items[view.chosen]
  const isFree = item !== undefined && !view.marks.has(item.request_id)
  const keys = [...(isFree ? answersOf(item) : []), ...(isFree && isOpen(item) ? MORE : []), ...(view.mode === 'list' ? LIST : OPEN)]
  const hint = view.mode === 'help' ? 'any key goes back' : keys.map(([key, words]) => `${key} ${inert(words)}`).join('  ')
  return [
    { text: message === null ? '' : inert(message.text), style: message?.style },
    { text: hint, style: 'dim' },
  ]
}
const MORE: readonly [string, string][] = [
  ['q', 'ask back'],
  ['s', 'snooze'],
]
const LIST: readonly [string, string][] = [
  ['enter', 'open'],
  ['/', 'filter'],
  ['?', 'help'],
  ['esc', 'quit'],
]
const OPEN: readonly [string, string][] = [
  ['↑↓', 'scroll'],
  ['esc', 'back'],
]

function tailOf(text: string, columns: number): string {
  let tail = text
  while (widthOf(tail) > columns && tail !== '') tail = Array.from(tail).slice(1).join('')
  return tail
}

const HELP: readonly Line[] = [
  { text: 'Everything that waits for you: what agents ask, questions of tasks, reviews.' },
  { text: '' },
  { text: '↑ ↓ j k      choose an item; in an open one, scroll' },
  { text: 'enter        open it, to read all of it' },
  { text: 'a            approve             A  approve with a reason' },
  { text: 'r            reject              R  reject with a reason' },
  { text: '1-9          choose that option' },
  { text: 'p            provide what is asked for; secrets are not shown' },
  { text: 'q            ask the agent something before you decide' },
  { text: 's            snooze: 30m, 2h, 1d, tomorrow, or a time' },
  { text: '/            filter: words, or priority:high kind:review agent:... @saved' },
  { text: 'g            look again, without what is decided' },
  { text: 'esc ctrl-c   quit' },
  { text: '' },
  { text: 'An answer counts for what is on the screen: what has changed since is' },
  { text: 'shown again first, and what does not fit is read to its end first.' },
]

// --- Drawing ---------------------------------------------------------------------------------------------------------------

const HOME = '\u001b[H'
const CLEAR_LINE = '\u001b[K'
export const CLEAR = '\u001b[2J'
export const SCREEN_ON = '\u001b[?1049h\u001b[?25l'
export const SCREEN_OFF = '\u001b[?25h\u001b[?1049l'

/** A line is cleared before it is written: behind a full one there is no place to clear from. */
export function drawn({ lines }: Frame, paint: Paint): string {
  return `${HOME}${lines.map(({ text, style }) => `${CLEAR_LINE}${style === undefined ? text : paint(style, text)}`).join('\r\n')}`
}
