// One inbox item as lines of text: the agent that asks, everything it wrote, the server's own knowledge, and the effect of each answer.
// Each line of foreign text is marked, so that none looks like the server's own (X32).
import type { Checkpoint } from '#protocols/collaboration/schema.ts'
import type { HumanAction } from '#protocols/execution/actions/action.ts'
import { actions } from '#protocols/execution/actions/index.ts'
import type { Item } from '#protocols/execution/inbox/item.ts'
import type { AnyField } from '#sdk/index.ts'
import type { Delivered } from './deliverable.ts'
import { escapeControl, markedLines, ownLines } from '../output/safe-text.ts'

export type Style = 'bold' | 'dim' | 'red' | 'yellow' | 'green' | 'cyan' | 'inverse'
export type Line = { readonly text: string; readonly style?: Style | undefined }

/** An action that an agent proposes to take. */
export type Proposed = Checkpoint['proposed_actions'][number]

/** Every field that the question of an item can have; its action decides which of them exist. */
export const payloadOf = ({ card }: Item): AnyField<Item['card']['payload']> => card.payload
export const isOpen = ({ status }: Pick<Item, 'status'>): boolean => status === 'pending' || status === 'assigned'

/** The values that a digit chooses. */
export function choicesOf(item: Item): readonly (string | number)[] {
  const { options, validation } = payloadOf(item)
  if (validation !== undefined) return validation.multiple === true ? [] : (validation.allowed_values ?? [])
  return options ?? item.options?.map(({ label }) => label) ?? []
}
/** An action that this version does not know is shown, and asks for no verdict. */
const knownAction = (action: Item['action']): HumanAction | undefined => (Object.hasOwn(actions, action) ? actions[action] : undefined)
/** Whether an answer is a no to a question that allows a yes. */
export const isNo = ({ action }: Pick<Item, 'action'>, result: unknown): boolean => {
  const yes = knownAction(action)?.yes
  return yes !== undefined && result !== yes
}
export const isVerdict = ({ action }: Pick<Item, 'action'>): boolean => knownAction(action)?.isVerdict === true

const detailsIn = (item: Item): Readonly<Record<string, unknown>> => (payloadOf(item).details ?? {}) as Record<string, unknown>

/**
 * The actions that a checkpoint proposes, each of which may be approved by itself. A field of that name in an agent's request is its text.
 */
export const proposedIn = (item: Item): readonly Proposed[] =>
  item.kind === 'request' ? [] : ((detailsIn(item)['proposed_actions'] ?? []) as Proposed[])
/** The state that the agent would resume from, which the person may edit; undefined: the item has none. */
export const stateIn = (item: Item): unknown => (item.kind === 'request' ? undefined : detailsIn(item)['state'])

const riskLabels: Readonly<Record<string, string>> = { R1: 'minor', R2: 'low', R3: 'moderate', R4: 'high', R5: 'severe' }
/** `R4 of 5 (high)`. */
export const riskOf = (risk: string): string => `${escapeControl(risk)} of 5 (${riskLabels[risk] ?? 'unknown'})`

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
/** `now` is the server's time. */
export const ageOf = ({ created_at }: Item, now: number): number => Math.max(0, (now - Date.parse(created_at)) / SECOND)
export function deadlineOf({ expires_at, overdue }: Item, now: number): string {
  if (overdue) return 'overdue'
  if (expires_at === null) return ''
  const left = (Date.parse(expires_at) - now) / SECOND
  return left <= 0 ? 'overdue' : `${spanOf(left)} left`
}

/** A name, in quotes if it could be read as more than a name. */
const word = (text: string): string => (/^[\p{L}\p{N}][\p{L}\p{N} _.@:-]{0,59}$/u.test(text) ? text : JSON.stringify(escapeControl(text)))
const nameAndId = ({ id, name }: { readonly id: string; readonly name: string | null }): string =>
  name === null || name === id ? escapeControl(id) : `${word(name)} (${escapeControl(id)})`

/** The caller of a session that another harness began; the system asks in its name. */
const harnessIn = ({ agent: { id, label } }: Item): string | null =>
  id === 'agent_system' && label.startsWith('hcp:') ? label.slice('hcp:'.length) : null

/** Fields with their own place on the card, or that only repeat another field. */
const PLACED = ['question', 'item', 'prompt', 'claim', 'options', 'option_ids', 'context', 'details', 'details_schema']
const PLACED_DETAILS = ['proposed_actions', 'delivered']

type Writing = {
  readonly columns: number
  readonly lines: Line[]
  own(text: string, style?: Style): void
  theirs(text: string, style?: Style, first?: string): void
}
function writerFor(columns: number): Writing {
  const lines: Line[] = []
  return {
    columns,
    lines,
    own: (text, style) => void lines.push(...ownLines(text, columns).map((line) => ({ text: line, style }))),
    theirs: (text, style, first) => void lines.push(...markedLines(text, columns, first).map((line) => ({ text: line, style }))),
  }
}

export function cardLines(item: Item, columns: number, now: number, delivered: Delivered | null = null): Line[] {
  const { asks, thread = [], notice } = item.card
  const payload = payloadOf(item)
  const out = writerFor(columns)
  const harness = harnessIn(item)
  out.own(
    `${harness === null ? `${asks}: ${nameAndId(item.agent)}` : `A harness asks: ${word(harness)}`}, for ${nameAndId(item.acts_for)}`,
    'cyan',
  )
  if (harness === null && item.agent.label !== item.agent.id) {
    out.own('It calls itself:', 'cyan')
    out.theirs(item.agent.label)
  }
  out.theirs(knownAction(item.action)?.question(payload) ?? item.title, 'bold')
  // The verdicts on a review have keys of their own.
  const choices = item.kind === 'review' ? [] : choicesOf(item)
  for (const [i, choice] of choices.entries()) out.theirs(String(choice), undefined, `${String(i + 1).padStart(2)} │ `)
  proposals(item, out)
  for (const { depth, text } of writtenIn(item)) {
    const indent = '  '.repeat(Math.min(depth, 12))
    // Further lines of a value are below its name: they cannot be taken for another field.
    out.theirs(`${indent}${text.replaceAll('\n', `\n${indent}  `)}`)
  }
  if (item.reason !== null) {
    out.own('The agent says:')
    out.theirs(item.reason.text)
  }
  if (delivered !== null) out.lines.push(...deliveredLines(delivered, columns))
  for (const text of item.facts.flagged) out.own(`Warning: ${text}`, 'red')
  for (const { by, kind, text } of thread) {
    out.own(`${kind === 'question' ? 'Asked' : 'Replied'} by ${word(by)}:`, 'yellow')
    out.theirs(text, 'yellow')
  }
  if (notice !== undefined) {
    out.own('Meanwhile:', 'yellow')
    out.theirs(notice, 'yellow')
  }
  fate(item, out, now)
  return out.lines
}

const riskStyles: Readonly<Record<string, Style>> = { low: 'green', medium: 'yellow', high: 'red' }

/**
 * Each action with its risk before it, outside of the agent's text. Its kind comes first and on a line of its own: if that is a
 * capability, a yes permits it (D8), whatever the summary says.
 */
export function actionLines({ kind, summary, detail, permission_scope, risk }: Proposed, columns: number, begin: string): Line[] {
  const level = Object.hasOwn(riskStyles, risk) ? risk : 'unknown'
  const scope = permission_scope ? [`scope: ${permission_scope}`] : []
  const text = [word(kind), summary, ...(detail ? [detail] : []), ...scope].join('\n')
  const style = riskStyles[level]
  return markedLines(text, columns, `${begin} ${level.padEnd(7)} │ `).map((line) => ({ text: line, style }))
}

function proposals(item: Item, { own, lines, columns }: Writing): void {
  const actions = proposedIn(item)
  if (actions.length === 0) return
  own(`${actions.length === 1 ? 'One action is' : `${actions.length} actions are`} proposed, each with its risk and its kind:`)
  for (const [i, action] of actions.entries()) lines.push(...actionLines(action, columns, String(i + 1).padStart(2)))
}

/** Long texts are folded once for each width, not at every tick of the clock. */
const folds = new WeakMap<Delivered, { readonly columns: number; readonly lines: readonly Line[] }>()
export const DELIVERED_LINES_MAX = 2_000

function deliveredLines(delivered: Delivered, columns: number): readonly Line[] {
  const cached = folds.get(delivered)
  if (cached?.columns === columns) return cached.lines
  const out = writerFor(columns)
  out.own(delivered.head)
  for (const { text, style } of delivered.lines.slice(0, DELIVERED_LINES_MAX)) out.theirs(text, style)
  const left = delivered.lines.length - DELIVERED_LINES_MAX
  const { id, version } = delivered.artifact
  if (left > 0)
    out.own(`${left} more lines: countersign artifact download ${escapeControl(id)} --version ${escapeControl(version)}`, 'yellow')
  folds.set(delivered, { columns, lines: out.lines })
  return out.lines
}

/** Everything else that was written, a field on a line. */
function writtenIn(item: Item): Written[] {
  const payload = payloadOf(item)
  const isMirrored = item.kind !== 'request'
  const fields = Object.entries(payload).filter(([name]) => !PLACED.includes(name) && !(isMirrored && name === 'validation'))
  const { details } = payload
  const inner = isMirrored ? Object.entries(detailsIn(item)).filter(([name, value]) => !isPlaced(item, name, value)) : null
  return [
    ...fields.flatMap(([name, value]) => linesOf(name, value, 0)),
    ...(inner === null
      ? details === undefined || isEmpty(details)
        ? []
        : linesOf('details', details, 0)
      : inner.flatMap(([name, value]) => linesOf(name, value, 0))),
  ]
}

/** Whether the card already shows this detail of another protocol's request elsewhere. */
function isPlaced(item: Item, name: string, value: unknown): boolean {
  if (PLACED_DETAILS.includes(name) || isEmpty(value)) return true
  if (name === 'goal') return payloadOf(item).question?.endsWith(String(value)) === true
  const isReason = (evidence: unknown): boolean => (evidence as { text?: unknown }).text === item.reason?.text
  return name === 'context' && Array.isArray(value) && value.every(isReason)
}

/** The server's own knowledge, and the effect of an answer. */
function fate(item: Item, { own, theirs }: Writing, now: number): void {
  const { facts, effects, quorum, risk } = item
  const deadline = deadlineOf(item, now)
  const { registered_at, open_requests } = facts.agent
  const parts = [
    `${item.priority} priority`,
    ...(risk === null ? [] : [`risk ${riskOf(risk)}`]),
    `asked ${spanOf(ageOf(item, now))} ago`,
    ...(deadline === '' ? [] : [deadline]),
    ...(registered_at === null ? [] : [`agent registered ${registered_at.slice(0, 10)}`]),
    `${open_requests} open ${open_requests === 1 ? 'request' : 'requests'}`,
    `project ${nameAndId(facts.project)}`,
    ...(quorum === null ? [] : [`${quorum.voted} of ${quorum.of} voted, ${quorum.n} must agree${quorum.yours ? '; you have voted' : ''}`]),
    ...(item.snoozed_until === null ? [] : [`snoozed until ${item.snoozed_until}`]),
  ]
  own(parts.join(' · '), 'dim')
  if (facts.task !== null) {
    own(`Task ${facts.task.id} is ${facts.task.state}; its goal:`, 'dim')
    theirs(facts.task.goal, 'dim')
  }
  writeFacts(item, own)
  // A server of an earlier version says nothing of it.
  if (item.approval) own(`Approval: ${item.approval.words}`, 'yellow')
  if (!isOpen(item)) return own(endOf(item), 'green')
  const isJudged = isVerdict(item) || item.kind === 'review'
  const [yes, no] = verdictLabels[item.kind] ?? ['Approve', 'Reject']
  own(`${isJudged ? yes : 'Answer'}: ${effects.approve}`)
  if (effects.changes !== undefined) own(`Request changes: ${effects.changes}`)
  if (isJudged) own(`${no}: ${effects.reject}`)
  own(`${item.expires_at === null ? 'No deadline' : 'Without an answer'}: ${effects.timeout}`)
  if (item.declinable) own(`Decline: ${effects.decline}`)
}

/** The chain of delegation, the rule behind the risk, and earlier answers. */
function writeFacts({ facts }: Item, own: Writing['own']): void {
  // A server of an earlier version does not say all of it.
  const { chain = [], risk = { said: null, floor: null, rule: null }, precedents = [] } = facts as Partial<Item['facts']>
  if (risk.floor !== null)
    own(
      `Risk: ${risk.said === null ? 'the agent says none' : `the agent says ${riskOf(risk.said)}`}; a rule: ${word(risk.rule ?? '')}`,
      'yellow',
    )
  if (chain.length > 1)
    own(`Chain: ${chain.map(({ kind, ...who }) => `${kind === 'target' ? 'target ' : ''}${nameAndId(who)}`).join(' → ')}`, 'dim')
  for (const { at, by, result, reason } of precedents) {
    const answer = typeof result === 'string' ? result : JSON.stringify(result)
    own(`Before: ${word(answer.slice(0, 60))} by ${nameAndId(by)}, ${at.slice(0, 10)}${reason === null ? '' : ', with a reason'}`, 'dim')
  }
}

/** Where the keys have other words than approve and reject. */
const verdictLabels: Readonly<Partial<Record<Item['kind'], readonly [yes: string, no: string]>>> = {
  escalation: ['Tell it, or let it go on', 'End the task'],
  interrupt: ['Let it go on', 'End the task'],
}

export function endOf({ status, ended }: Item): string {
  if (ended?.by_default === true) return `Nobody answered in time, its default was taken: ${status} at ${ended.at}`
  return ended === null ? `Ended: ${status}` : `Ended: ${status} by ${nameAndId(ended.by)} at ${ended.at}`
}

const isEmpty = (value: unknown): boolean => typeof value === 'object' && value !== null && Object.keys(value).length === 0

type Written = { readonly depth: number; readonly text: string }
/** A value in readable form, each nested value on its own line. `name` null: the value is a list item. */
function linesOf(name: string | null, value: unknown, depth: number): Written[] {
  const begin = name === null ? '- ' : `${name}: `
  if (typeof value !== 'object' || value === null) return [{ depth, text: `${begin}${String(value)}` }]
  if (isEmpty(value)) return [{ depth, text: `${begin}${Array.isArray(value) ? '[]' : '{}'}` }]
  const inner = Object.entries(value).flatMap(([key, held]) => linesOf(Array.isArray(value) ? null : key, held, depth + 1))
  return [{ depth, text: begin.trimEnd() }, ...inner]
}
