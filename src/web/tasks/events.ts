// Events of a task in groups: one readable line for related events, instead of each fact of the record.
import type { IconName } from '../parts/icon.tsx'
import { sortOf } from '../parts/who.tsx'
import type { Event } from '../server/types.ts'

export type Group = {
  readonly events: readonly Event[]
  readonly icon: IconName
  readonly tone: '' | 'ok' | 'bad' | 'warn' | 'agent'
  readonly message: string
  /** The event has no actor to name: it happened to the task. */
  readonly isPassive: boolean
  /** The recipient, shown after the message. */
  readonly whom: string | null
  /** Text that a person or an agent wrote, or the message of the last progress report. */
  readonly quote: string | null
  readonly percent: number | null
  readonly request: string | null
}
type Said = { readonly message: string; readonly icon?: IconName; readonly tone?: Group['tone'] }

const HANDED_OVER: Said = { message: 'reassigned it to', icon: 'person' }
const shortOf = (action: string): string => action.slice(action.indexOf('/') + 1)
const table: Readonly<Record<string, Said>> = {
  'task.created': { message: 'created the task', icon: 'plus' },
  'task.assigned': { message: 'assigned it to', icon: 'person' },
  'task.started': { message: 'began to work', icon: 'play', tone: 'agent' },
  'task.cancelled': { message: 'cancelled the task', icon: 'x', tone: 'bad' },
  'task.completed': { message: 'completed the task', icon: 'check', tone: 'ok' },
  'task.amended': { message: 'steered the work', icon: 'edit' },
  'task.interrupted': { message: 'interrupted the work', icon: 'stop', tone: 'bad' },
  'task.taken_over': { message: 'took the work over', icon: 'hand' },
  'task.returned': { message: 'handed the work back', icon: 'back' },
  'task.extended': { message: 'gave it more time', icon: 'clock' },
  'task.overdue': { message: 'noted that its time is over', icon: 'clock', tone: 'bad' },
  'task.checkpoint.raised': { message: 'asked people', icon: 'ask', tone: 'warn' },
  'task.checkpoint.resolved': { message: 'answered', icon: 'check', tone: 'ok' },
  'task.checkpoint.declined': { message: 'declined to answer', icon: 'x', tone: 'bad' },
  'task.checkpoint.expired': { message: 'noted that nobody answered in time', icon: 'clock', tone: 'bad' },
  'artifact.committed': { message: 'delivered', icon: 'file', tone: 'agent' },
  'artifact.edited': { message: 'delivered a version of their own', icon: 'edit' },
  'review.submitted': { message: 'reviewed', icon: 'review', tone: 'ok' },
  'review.commented': { message: 'remarked', icon: 'ask' },
  'grant.added': { message: 'gave a grant', icon: 'grant' },
  'grant.used': { message: 'used a grant, nobody was asked', icon: 'grant', tone: 'ok' },
  'grant.revoked': { message: 'revoked a grant', icon: 'grant', tone: 'bad' },
  'ownership.transferred': { message: 'handed it to', icon: 'person' },
  'ownership.delegated': { message: 'delegated it', icon: 'agent', tone: 'agent' },
  'ledger.written': { message: 'noted in the ledger', icon: 'record' },
  'request.created': { message: 'asked', icon: 'approve', tone: 'warn' },
  'request.mirrored': { message: 'waits in the inbox', icon: 'inbox' },
  'request.declined': { message: 'declined a request', icon: 'x', tone: 'bad' },
  'request.completed': { message: 'answered a request', icon: 'check', tone: 'ok' },
  'request.questioned': { message: 'asked back', icon: 'ask' },
  'request.replied': { message: 'replied', icon: 'ask', tone: 'agent' },
  'run.delegated': { message: 'got a run', icon: 'agent', tone: 'agent' },
  'run.started': { message: 'began a run', icon: 'play', tone: 'agent' },
  'run.progress': { message: 'reported', icon: 'agent', tone: 'agent' },
  'run.completed': { message: 'finished a run', icon: 'check', tone: 'agent' },
  'run.failed': { message: 'reported that the run failed', icon: 'alert', tone: 'bad' },
  'authorization.denied': { message: 'tried something and was refused', icon: 'alert', tone: 'bad' },
}
const plain = (action: string): string => shortOf(action).replaceAll(/[._]/g, ' ')

type After = Record<string, unknown>
const textIn = (after: After | null, ...names: readonly string[]): string | null => {
  for (const name of names) if (typeof after?.[name] === 'string' && after[name] !== '') return after[name]
  return null
}
function quoteOf(action: string, after: After | null): string | null {
  if (action.startsWith('task.amended')) return textIn(after, 'text')
  if (action === 'task.checkpoint.raised') return textIn(after, 'prompt')
  if (action === 'request.created') {
    const payload = after?.['payload'] as After | undefined
    return textIn(payload ?? null, 'item', 'question', 'prompt', 'claim')
  }
  if (action.startsWith('run.progress')) return textIn((after?.['progress'] as After | undefined) ?? after, 'message')
  if (action === 'review.commented') return textIn(after, 'body')
  if (action === 'review.submitted') return requestedIn(after)
  return action === 'task.cancelled' ? textIn(after, 'outcome_reason') : null
}

/** The changes that a review requested, or else its first comment. */
function requestedIn(after: After | null): string | null {
  const changes = (after?.['requested_changes'] as readonly string[] | undefined) ?? []
  if (changes.length > 0) return changes.join('\n')
  const [first] = (after?.['comments'] as readonly { readonly body: string }[] | undefined) ?? []
  return first?.body ?? null
}

/** The end of a run that the system recorded, without an actor to name. */
function endOfRun(action: string, actor: string, after: After | null): Said | null {
  if (sortOf(actor) !== 'system') return null
  if (action === 'run.completed') return { message: 'Run finished', icon: 'check', tone: 'agent' }
  if (action !== 'run.failed') return null
  const reason = textIn(after, 'reason')
  return reason === 'cancelled' || reason === 'handed_off'
    ? { message: 'Run stopped', icon: 'stop' }
    : { message: 'Run failed', icon: 'alert', tone: 'bad' }
}

/** The new holder of the task after this event; null if it did not move. */
function receiverIn(action: string, after: After | null, detail: unknown): string | null {
  if (action === 'task.checkpoint.resolved') return textIn((after?.['resolution'] as After | undefined) ?? null, 'reassign_to')
  if (action !== 'task.assigned' && action !== 'ownership.transferred') return null
  const { to } = (detail ?? {}) as { readonly to?: string }
  return to ?? textIn((after?.['ownership'] as After | undefined) ?? null, 'assignee')
}

/** The id of the inbox item of each checkpoint, from the requests in the record. */
export function itemsIn(events: readonly Event[]): ReadonlyMap<string, string> {
  const requests = events.filter(({ subject }) => subject.kind === 'execution.request')
  return new Map(requests.map(({ subject, after }) => [textIn(after as After | null, 'checkpoint_id') ?? '', subject.id]))
}

function groupOf(event: Event, items: ReadonlyMap<string, string>): Group {
  const action = shortOf(event.action)
  const after = event.after as After | null
  const end = endOfRun(action, event.actor, after)
  const whom = receiverIn(action, after, event.detail)
  const phrase = end ??
    (action === 'task.checkpoint.resolved' && whom !== null ? HANDED_OVER : table[action]) ?? { message: plain(event.action) }
  const verdict = action === 'review.submitted' ? textIn(after, 'verdict') : null
  const progress = (after?.['progress'] as { percent?: number } | undefined) ?? null
  return {
    events: [event],
    icon: phrase.icon ?? 'record',
    tone: verdict === 'rejected' || verdict === 'changes_requested' ? 'bad' : (phrase.tone ?? ''),
    isPassive: end !== null,
    message: verdict === null ? phrase.message : `reviewed: ${verdict.replace('_', ' ')}`,
    whom,
    quote: quoteOf(action, after),
    percent: action.startsWith('run.progress') ? (progress?.percent ?? null) : null,
    request:
      action === 'request.created' ? event.subject.id : action === 'task.checkpoint.raised' ? (items.get(event.subject.id) ?? null) : null,
  }
}

/** Facts that only follow from another fact are not shown: an interruption, for example, also raises a checkpoint. */
const isEcho = ({ action, cause, actor }: Event): boolean =>
  cause !== null &&
  (/request\.(?:created|mirrored|completed|closed|rerouted|bound)|run\.(?:delegated|started|steered|blocked|resumed)|card\.|checkpoint\.(?:asked|settled)/.test(
    action,
  ) ||
    (action.endsWith('checkpoint.raised') && actor.startsWith('user_')))

/** Whether one line covers both: handing back answers the checkpoint that blocked the work. */
const replaces = (event: Event, last: Event): boolean =>
  shortOf(event.action) === 'task.returned' && event.cause === last.seq && shortOf(last.action) === 'task.checkpoint.resolved'

/** In order; consecutive reports of one agent are one line. */
export function groupsOf(events: readonly Event[]): Group[] {
  const groups: Group[] = []
  const items = itemsIn(events)
  for (const event of events) {
    if (isEcho(event)) continue
    const group = groupOf(event, items)
    const last = groups.at(-1)
    if (
      last &&
      shortOf(event.action).startsWith('run.progress') &&
      last.events[0]!.action === event.action &&
      last.events[0]!.actor === event.actor
    )
      groups[groups.length - 1] = { ...group, events: [...last.events, event] }
    else if (last && replaces(event, last.events[0]!)) groups[groups.length - 1] = { ...group, events: [event] }
    else groups.push(group)
  }
  return groups
}
