// Events of a request (HXP 0.1, 5.2): the difference between two of its states, in the words of the draft.
import { keyOf } from '#kernel/declare/schema.ts'
import type { StoredFact } from '#kernel/log/store.ts'
import { shownText } from '../asking/hostile-text.ts'
import { Request, TIMEOUT } from '../schema.ts'

/** Agents learn less of people than people do of one another. */
export type Audience = 'agent' | 'person'

export type RequestEvent = { readonly event: string } & Readonly<Record<string, unknown>>

/** The changes between two states. `before` null: the subscriber has seen no state yet. */
export function eventsOf(before: Request | null, after: Request, audience: Audience): RequestEvent[] {
  if (after.receipt) return before?.receipt ? [] : [{ event: outcomeOf(after) }]
  const events: RequestEvent[] = []
  if (after.assigned_to !== null && after.assigned_to !== before?.assigned_to)
    // Agents never learn the names of people in a pool.
    events.push({ event: 'assigned', assigned_to: audience === 'agent' && after.role === 'pool' ? null : after.assigned_to })
  if (before && after.assigned_to === null && before.assigned_to !== null) events.push({ event: 'released' })
  for (const { kind, text, at } of remarksSince(before, after))
    events.push({ event: kind, text: audience === 'agent' ? text : shownText(text), at })
  if (before && after.expires_at !== before.expires_at) events.push({ event: 'extended', expires_at: after.expires_at })
  if (after.overdue && before?.overdue !== true) events.push({ event: 'expired' })
  return events
}

/** A late subscriber needs only the open question, not the earlier remarks. */
function remarksSince(before: Request | null, { thread = [] }: Request): NonNullable<Request['thread']> {
  if (before) return thread.slice(before.thread?.length ?? 0)
  return thread.at(-1)?.kind === 'question' ? thread.slice(-1) : []
}

/** X3: a request that failed by timeout is reported as expired. */
const outcomeOf = ({ status, receipt }: Request): string => (status === 'failed' && receipt?.reason === TIMEOUT ? 'expired' : status)

/** Two states of a request around a fact. */
export type Change = { readonly event: string; readonly version: number; readonly before: Request | null; readonly after: Request }

const SUBJECT = keyOf(Request, '')
/** Each fact is parsed once, however many follow. */
const parsed = new WeakMap<StoredFact, Change | 'none'>()

/** The change of a request by a fact; null: the fact is not about a request, or does not change it. */
export function changeIn(fact: StoredFact): Change | null {
  let change = parsed.get(fact)
  if (change === undefined) parsed.set(fact, (change = read(fact) ?? 'none'))
  return change === 'none' ? null : change
}

/** The first image of a fact is that of its subject. */
function read({ line, images: [image] }: StoredFact): Change | null {
  if (!image?.key.startsWith(SUBJECT) || image.text === null) return null
  const { action } = JSON.parse(line) as { readonly action: string }
  return {
    event: action.slice(action.lastIndexOf('.') + 1),
    version: image.version,
    before: image.before === null ? null : (JSON.parse(image.before) as Request),
    after: JSON.parse(image.text) as Request,
  }
}
