// One item of the inbox as lines of text: that an agent asks and which, everything that it wrote, what the server knows, and what each
// answer will do. All of it stands on what the server showed; what agents wrote cannot do anything to the terminal.
import type { Item } from '#protocols/execution/inbox.ts'
import { folded, inert, inertLines } from './text.ts'

export type Style = 'bold' | 'dim' | 'red' | 'yellow' | 'green' | 'cyan' | 'inverse'
export type Line = { readonly text: string; readonly style?: Style | undefined }

/** What the agent asks, in the words of HXP; what comes from elsewhere has the same fields and more. */
export type Asked = {
  readonly question?: string
  readonly item?: string
  readonly prompt?: string
  readonly options?: readonly string[]
  readonly input_type?: string
  readonly placeholder?: string
  readonly sensitive?: boolean
  readonly reject_requires_reason?: boolean
  readonly validation?: { readonly allowed_values?: readonly (string | number)[]; readonly multiple?: boolean }
}
type Remark = { readonly by: string; readonly kind: string; readonly text: string }
export type Card = {
  readonly asks: string
  readonly payload: Asked & Readonly<Record<string, unknown>>
  readonly thread?: readonly Remark[]
}

export const cardIn = (item: Item): Card => item.card as unknown as Card
export const isOpen = ({ status }: Pick<Item, 'status'>): boolean => status === 'pending' || status === 'assigned'

/** The values that a digit chooses. */
export function choicesOf(item: Item): readonly (string | number)[] {
  const { options, validation } = cardIn(item).payload
  return options ?? (validation?.multiple === true ? [] : (validation?.allowed_values ?? []))
}

const SECOND = 1_000
const units = [
  ['d', 86_400],
  ['h', 3_600],
  ['m', 60],
  ['s', 1],
] as const
/** `3d4h`, `2h`, `5m10s`, `40s`. */
export function spanOf(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds))
  const at = units.findIndex(([, size]) => whole >= size)
  const [[unit, size], next] = [units[at] ?? (['s', 1] as const), units[at + 1]]
  const rest = next === undefined ? 0 : Math.floor((whole % size) / next[1])
  return `${Math.floor(whole / size)}${unit}${rest === 0 ? '' : `${rest}${next![0]}`}`
}
export function deadlineOf({ expires_at, overdue }: Item, now: number): string {
  if (overdue) return 'overdue'
  if (expires_at === null) return ''
  const left = (Date.parse(expires_at) - now) / SECOND
  return left <= 0 ? 'time is up' : `${spanOf(left)} left`
}

const named = ({ id, name }: { readonly id: string; readonly name: string | null }): string =>
  name === null || name === id ? inert(id) : `${inert(name)} (${inert(id)})`

/** Fields that have a place of their own. */
const PLACED = ['question', 'item', 'prompt', 'options', 'context']

export function cardLines(item: Item, columns: number, now: number): Line[] {
  const { asks, payload, thread = [] } = cardIn(item)
  const lines: Line[] = []
  const say = (text: string, style?: Style, indent = ''): void => {
    for (const line of folded(inertLines(text), Math.max(8, columns - indent.length))) lines.push({ text: `${indent}${line}`, style })
  }
  const room = Math.floor(columns / 2)
  const label = item.agent.label === item.agent.id ? '' : `, which calls itself "${item.agent.label}"`
  say(`${asks}: ${named(item.agent)}${label}, for ${named(item.acts_for)}`, 'cyan')
  say(payload.question ?? payload.item ?? payload.prompt ?? item.title, 'bold')
  for (const [i, choice] of choicesOf(item).entries()) say(`${i + 1}  ${choice}`, undefined, '  ')
  for (const [name, value] of Object.entries(payload)) {
    if (PLACED.includes(name)) continue
    if (name === 'details' && isEmpty(value)) continue
    for (const { depth, text } of written(name, value, 1)) say(text, undefined, '  '.repeat(depth).slice(0, room))
  }
  if (item.reason !== null) say(`The agent says: ${item.reason.text}`)
  for (const text of item.facts.flagged) say(`Warning: ${text}`, 'red')
  for (const { by, kind, text } of thread) say(`${kind === 'question' ? 'asked' : 'replied'} by ${by}: ${text}`, 'yellow')
  lines.push(...fateLines(item, columns, now))
  return lines
}

/** What the server knows by itself, and what will come of it. */
function fateLines(item: Item, columns: number, now: number): Line[] {
  const { facts, effects, quorum, risk, task_id } = item
  const deadline = deadlineOf(item, now)
  const parts = [
    `${item.priority} priority`,
    ...(risk === null ? [] : [`risk ${risk}`]),
    `asked ${spanOf(item.age_seconds)} ago`,
    ...(deadline === '' ? [] : [deadline]),
    ...(facts.agent.registered_at === null ? [] : [`the agent is known since ${facts.agent.registered_at.slice(0, 10)}`]),
    `${facts.agent.open_requests} of its requests are open`,
    `project ${named(facts.project)}`,
    ...(quorum === null ? [] : [`${quorum.voted} voted, ${quorum.n} of ${quorum.of} are needed${quorum.yours ? ', you have' : ''}`]),
    ...(item.snoozed_until === null ? [] : [`snoozed until ${item.snoozed_until}`]),
  ]
  const texts: [string, Style?][] = [[parts.join(' · '), 'dim']]
  if (facts.task !== null) texts.push([`task ${facts.task.id} (${facts.task.state}): ${facts.task.goal}`, 'dim'])
  if (item.kind === 'review' && task_id !== null) texts.push([`\`countersign review show ${task_id}\` shows what was delivered`, 'dim'])
  if (isOpen(item)) {
    texts.push([`${item.action === 'APPROVE' ? 'If you approve' : 'If you answer'}: ${effects.approve}`])
    if (item.action === 'APPROVE') texts.push([`If you reject: ${effects.reject}`])
    texts.push([`Without an answer: ${effects.timeout}`])
  } else texts.push([endOf(item), 'green'])
  return texts.flatMap(([text, style]) => folded(inertLines(text), columns).map((line) => ({ text: line, style })))
}

export function endOf({ status, ended }: Item): string {
  return ended === null ? `decided: ${status}` : `decided: ${status} by ${ended.by} at ${ended.at}`
}

const isEmpty = (value: unknown): boolean => typeof value === 'object' && value !== null && Object.keys(value).length === 0

type Written = { readonly depth: number; readonly text: string }
/** A value as people read it, everything in it on lines of its own; null: it stands in a list. */
function written(name: string | null, value: unknown, depth: number): Written[] {
  const begin = name === null ? '- ' : `${name}: `
  if (typeof value !== 'object' || value === null) return [{ depth, text: `${begin}${String(value)}` }]
  if (isEmpty(value)) return [{ depth, text: `${begin}${Array.isArray(value) ? '[]' : '{}'}` }]
  const inner = Object.entries(value).flatMap(([key, held]) => written(Array.isArray(value) ? null : key, held, depth + 1))
  return [{ depth, text: begin.trimEnd() }, ...inner]
}
