// The keys of the inbox: those that answer an item, the line of hints below the list, and the help.
import type { Item } from '#protocols/execution/inbox/item.ts'
import { endsTask } from '../answer/guard.ts'
import { choicesOf, isOpen, isVerdict, payloadOf, proposedIn, stateIn } from './card.ts'
import type { View } from './screen.ts'
import { widthOf } from '../output/safe-text.ts'

export type Hint = readonly [key: string, message: string]

/** The result of each key in a review; the item must offer it as an option. */
const verdicts: Readonly<Record<string, string>> = { a: 'approved', c: 'changes_requested', r: 'rejected' }
/** The answer of `a`, `r` or `c` to an item; undefined: the item accepts no such answer. */
export function verdictOf(item: Item, key: string): string | undefined {
  const result = verdicts[key]
  if (result === undefined) return undefined
  if (isVerdict(item)) return key === 'c' ? undefined : result
  return item.kind === 'review' && choicesOf(item).includes(result) ? result : undefined
}

/** Whether an approval of the checkpoint can carry a state or an artifact that the person edited. */
export const isEditable = (item: Item): boolean =>
  isVerdict(item) && (item.kind === 'request' ? hasSchema(item) : stateIn(item) !== undefined || evidenceIn(item) !== undefined)
/** X33: whether the details can be edited, within the schema that the agent gave. */
export const hasSchema = (item: Item): boolean =>
  item.kind === 'request' && item.quorum === null && payloadOf(item).details_schema !== undefined

export type EditedArtifact = { readonly artifact_id: string; readonly version: string }
/** The artifact that a checkpoint is about. */
export function evidenceIn(item: Item): EditedArtifact | undefined {
  const { context } = (payloadOf(item).details ?? {}) as { context?: unknown }
  if (item.kind === 'request' || !Array.isArray(context)) return undefined
  return context.find((evidence: { kind?: unknown }) => evidence.kind === 'artifact') as EditedArtifact | undefined
}

/** An approval that is asked for in a task can be allowed beforehand. */
export const isGrantable = (item: Item): boolean => isVerdict(item) && item.task_id !== null
/** The agent's scope if it is valid; other text of the agent is never repeated in our own lines. */
export function scopeIn(item: Item): string | null {
  const named = item.kind === 'request' ? payloadOf(item).scope : proposedIn(item)[0]?.kind
  return typeof named === 'string' && /^[A-Za-z0-9_.-]+(:[A-Za-z0-9_.*-]+)+$/.test(named) && named.length <= 100 ? named : null
}

/** Which keys answer an item; the server has the last word. */
export function answersOf(item: Item): readonly Hint[] {
  if (!isOpen(item)) return []
  const choices = choicesOf(item).length
  const actions = proposedIn(item).length
  const no: readonly Hint[] = item.declinable ? [['d', 'decline']] : []
  if (item.kind === 'escalation')
    return [['t', 'tell the agent'], ['h', 'hand to another agent'], ['r', 'end the task'], ['a', 'let it go on'], ...no]
  if (item.kind === 'interrupt') return [['a', 'let it go on'], ['r', 'end the task'], ...no]
  if (isVerdict(item))
    return [
      ['a', actions > 0 ? 'approve all' : 'approve'],
      ...(actions > 0 ? [['x', 'approve some'] as const] : []),
      ...(isEditable(item) ? [['e', 'edit'] as const] : []),
      ['r', endsTask(item, 'rejected') ? 'reject and end the task' : 'reject'],
      ...no,
    ]
  if (item.kind === 'review') {
    const verbs = { a: 'approve', c: 'request changes', r: endsTask(item, 'rejected') ? 'reject and end the task' : 'reject' }
    return Object.entries(verbs).filter(([key]) => verdictOf(item, key) !== undefined)
  }
  if (choices > 0) return [[choices === 1 ? '1' : `1-${Math.min(9, choices)}`, 'choose'], ...no]
  return payloadOf(item).prompt === undefined ? no : [['p', isFile(item) ? 'send a file' : 'provide'], ...no]
}
export const isFile = (item: Item): boolean => payloadOf(item).input_type === 'file'

export function answersWith(item: Item, key: string): boolean {
  if (!isOpen(item)) return false
  if (/^[1-9]$/.test(key)) return !isVerdict(item) && Number(key) <= choicesOf(item).length
  return answersOf(item).some(([name]) => name === key.toLowerCase())
}

/** How far a key moves; undefined: it does not move. `page`: the number of visible lines. */
export function stepOf(name: string, page: number): number | undefined {
  const far = Number.MAX_SAFE_INTEGER
  const steps: Readonly<Record<string, number>> = {
    up: -1,
    k: -1,
    down: 1,
    j: 1,
    pageup: -page,
    b: -page,
    'ctrl-b': -page,
    pagedown: page,
    'ctrl-f': page,
    home: -far,
    g: -far,
    end: far,
    G: far,
  }
  return steps[name]
}

/** In the order in which they are dropped for lack of room. */
const GENERAL: readonly Hint[] = [
  ['enter', 'open'],
  ['/', 'filter'],
  ['m', 'ask agent'],
  ['s', 'snooze'],
  ['space', 'mark'],
  ['^L', 'refresh'],
]
const ALWAYS: readonly Hint[] = [
  ['?', 'help'],
  ['q', 'quit'],
]

const lineOf = (hints: readonly Hint[]): string => hints.map(([key, message]) => `${key} ${message}`).join('  ')

/** As many as fit, the most useful first; help and quit always. */
function fitHints(first: readonly Hint[], columns: number, last: readonly Hint[]): string {
  const kept: Hint[] = []
  for (const hint of first) if (widthOf(lineOf([...kept, hint, ...last])) <= columns) kept.push(hint)
  return lineOf([...kept, ...last])
}

export function hintsOf(view: View, columns: number): string {
  if (view.mode === 'help') return 'any other key goes back'
  if (view.choosing !== null)
    return fitHints([['space', 'choose'], ['enter', 'answer'], ['a', 'all'], ['↑↓', 'move']], columns, [['esc', 'back']]) // prettier-ignore
  if (view.list.picked.size > 0) {
    const count = String(view.list.picked.size)
    return fitHints([['a', `approve ${count}`], ['r', `reject ${count}`], ['space', 'mark'], ['esc', 'unmark']], columns, ALWAYS) // prettier-ignore
  }
  const item = view.list.all[view.chosen]
  const isFree = item !== undefined && isOpen(item) && !view.list.marks.has(item.request_id)
  const answers: readonly Hint[] = isFree ? [...answersOf(item), ...(isGrantable(item) ? [['+', 'grant'] as const] : [])] : []
  const general = GENERAL.filter(([key]) => isFree || !['m', 's', 'space'].includes(key))
  if (view.mode === 'open') return fitHints([...answers, ['↑↓', 'scroll'], ['esc', 'back'], ['m', 'ask agent']], columns, ALWAYS)
  return fitHints([...answers, ...general], columns, ALWAYS)
}

export const HELP: readonly string[] = [
  'Everything that waits for you: questions of agents and of tasks, and reviews.',
  '',
  '↑ ↓ j k      choose an item; scroll an open one',
  'g G          first, last (Home, End);  PgUp PgDn  a page',
  'enter        open it to read all of it;  esc  back',
  'a r          approve or let it go on, reject or end;  A R  with a reason',
  'c            request changes (reviews)',
  'x            approve some of the proposed actions; the rest is denied',
  'e            edit the details, the state or the artifact, and approve it so',
  '1-9          choose that option',
  'p            provide a value, or a file by its path; a secret is not shown',
  'd            decline: give no answer and say why',
  't h          an escalation: tell the agent; hand the task to another agent',
  '+            allow a scope beforehand for the task; a preview comes first',
  'm            ask the agent something before you decide',
  's            snooze: 30m, 2h, 1d, tomorrow, or a time',
  'space        mark several; a or r answers them all',
  '/            filter: words, priority:high kind:review agent:… @saved',
  'Ctrl-L       refresh, hide answered items',
  'q            quit;  Ctrl-Z  suspend',
  '',
  'Lines with │ were written by others. An answer counts for what is on',
  'the screen: an item that has changed since is shown again first.',
  'Risk: R1 minor, R2 low, R3 moderate, R4 high, R5 severe.',
]
