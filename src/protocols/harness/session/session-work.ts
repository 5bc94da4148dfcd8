// The work of one batch on a session: events with their numbers, messages into the outbox, and transitions. `SessionWork` collects them
// while an operation decides.
import { put, putNew, image } from '#kernel/declare/facts.ts'
import { timestampOf } from '#kernel/ports/clock.ts'
import { Delivery, deliveryId } from '#kernel/log/outbox-document.ts'
import { limits } from '#kernel/limits.ts'
import type { Change, Context, Made } from '#kernel/declare/operation.ts'
import { fact, stateEvents, type SessionEvent } from '../events.ts'
import {
  COMMANDS,
  commandKey,
  eventKey,
  EVENTS,
  HCP_VERSION,
  refuseTooLarge,
  uuidOf,
  type Envelope,
  type MessageType,
  type Payload,
} from '../envelope.ts'
import { Cursor, Event, eventId, Session, type DataClass } from '../schema.ts'
import { isEnded, nextState, type ReachedState } from '../states.ts'

export const AMQP = 'amqp'

/** A message in the outbox. Confidential fields of its payload are sealed one by one, and opened when it is sent. */
export type Outgoing = {
  readonly exchange: string
  readonly key: string
  readonly from: string
  readonly envelope: Envelope
  readonly sealed: Readonly<Record<string, string>>
  readonly session: string | null
  /** Its receiver has no rights here: it is not tried again if no queue takes it. */
  readonly stranger?: true
  /** The reason headers of a dead letter. */
  readonly headers?: Readonly<Record<string, string>>
}

/** The outcome of a confidential value: itself, or a seal in its place. */
export type MaybeSealed = { readonly plain: unknown; readonly sealed: string | null }

/** T3 and T4 are encrypted at rest (C39). */
export const isSealed = (data: DataClass): boolean => data === 'T3' || data === 'T4'
export async function sealConfidential({ notary }: Pick<Context, 'notary'>, data: DataClass, value: unknown): Promise<MaybeSealed> {
  if (value === undefined || value === null || !isSealed(data)) return { plain: value ?? null, sealed: null }
  return { plain: null, sealed: await notary.seal(JSON.stringify(value), null) }
}

/** The sealed fields in the format of a document. */
export function sealedOf(confided: Readonly<Record<string, MaybeSealed>>): Record<string, string> | null {
  const sealed = Object.entries(confided).flatMap(([name, value]) => (value.sealed === null ? [] : [[name, value.sealed] as const]))
  return sealed.length === 0 ? null : Object.fromEntries(sealed)
}
/** A document with its sealed fields opened. */
export async function unseal<T extends object>(
  context: Pick<Context, 'notary'>,
  value: T,
  sealed: Readonly<Record<string, string>> | null,
): Promise<T> {
  if (sealed === null) return value
  const opened = await Promise.all(
    Object.entries(sealed).map(async ([name, text]) => [name, JSON.parse(await context.notary.open(text)) as unknown] as const),
  )
  return { ...value, ...Object.fromEntries(opened) }
}

export type SessionWork = {
  session: Session
  cursor: Cursor
  /** The other side has no rights here. */
  stranger?: true
  readonly facts: Made[]
  readonly puts: Change[]
  readonly context: Context
}
export const sessionWork = (session: Session, cursor: Cursor, context: Context): SessionWork => ({
  session,
  cursor,
  facts: [],
  puts: [],
  context,
})

export const newCursor = ({ id, project_id, role }: Pick<Session, 'id' | 'project_id' | 'role'>): Cursor => ({
  id,
  project_id,
  role,
  sequence: 0,
  sent: 0,
  attempt: 0,
  steps: 0,
  checkpoints: 0,
  snapshot: null,
  last_checkpoint: null,
  risk_events: [],
  warnings: [],
  seen: [],
  missing: [],
  held: [],
  gap_until: null,
  republish_at: null,
  abort: null,
})

export function deliveryOf(lane: string, number: number, body: Outgoing, now: string): Change {
  const id = deliveryId(AMQP, lane, String(number).padStart(9, '0'))
  return putNew(Delivery, id, { id, channel: AMQP, lane, due: now, attempt: 0, body, error: null })
}

export function envelopeOf(type: MessageType, session_id: string | null, payload: Payload, { secret, now }: Context): Envelope {
  return { hcp_version: HCP_VERSION, message_id: uuidOf(secret()), timestamp: now, session_id, type, payload }
}

/** Adds a message of the session to the outbox, after all its earlier messages. */
export function send(work: SessionWork, message: Outgoing): Outgoing {
  refuseTooLarge(message.envelope)
  const outgoing = work.stranger ? { ...message, stranger: work.stranger } : message
  const number = work.cursor.sent + 1
  work.cursor = { ...work.cursor, sent: number }
  work.puts.push(deliveryOf(work.session.id, number, outgoing, work.context.now))
  return outgoing
}

/** To the caller, unnumbered: task_accepted, task_rejected, task_completed, task_failed. */
export function sendToCaller(
  work: SessionWork,
  type: MessageType,
  payload: Payload,
  confided: Readonly<Record<string, MaybeSealed>> = {},
): Outgoing {
  const { session, context } = work
  const { fields, sealed } = sealedFieldsOf(confided)
  const envelope = envelopeOf(type, session.session_id, { ...payload, ...fields, in_reply_to: session.submit_id }, context)
  return send(work, {
    exchange: EVENTS,
    key: eventKey(session.caller_id, session.session_id, type),
    from: session.callee_id,
    envelope,
    sealed,
    session: session.id,
  })
}

export function sealedFieldsOf(confided: Readonly<Record<string, MaybeSealed>>): { fields: Payload; sealed: Record<string, string> } {
  const fields: Payload = {}
  const sealed: Record<string, string> = {}
  for (const [name, value] of Object.entries(confided)) {
    if (value.sealed === null) fields[name] = value.plain
    else sealed[name] = value.sealed
  }
  return { fields, sealed }
}

/** To the callee: task_submit and abort. */
export function sendToCallee(work: SessionWork, envelope: Envelope, sealed: Readonly<Record<string, string>> = {}): Outgoing {
  const { callee_id, caller_id, id } = work.session
  return send(work, { exchange: COMMANDS, key: commandKey(callee_id), from: caller_id, envelope, sealed, session: id })
}

/** The next event, with its number, in the record and in the outbox. `untold`: fields that are sent but not stored. */
export function emitEvent(
  work: SessionWork,
  event_type: string,
  data: MaybeSealed | Payload,
  unstored: Payload = {},
  in_reply_to = false,
): Outgoing {
  const { session, context } = work
  const sequence = work.cursor.sequence + 1
  const { plain, sealed } = isMaybeSealed(data) ? data : { plain: data, sealed: null }
  const eventFields = { event_type, sequence, ...(in_reply_to ? { in_reply_to: session.submit_id } : {}) }
  const payload = sealed === null ? { ...eventFields, data: { ...(plain as Payload), ...unstored } } : eventFields
  const envelope = envelopeOf('event', session.session_id, payload, context)
  const event: Event = {
    id: eventId(session.id, sequence),
    session: session.id,
    project_id: session.project_id,
    sequence,
    event_type,
    data: plain ?? {},
    message_id: envelope.message_id,
    at: context.now,
    ...(sealed === null ? {} : { sealed }),
  }
  work.cursor = { ...work.cursor, sequence }
  work.facts.push(fact('session.event', [image(Event, event)], { detail: { event_type, sequence } }))
  return send(work, {
    exchange: EVENTS,
    key: eventKey(session.caller_id, session.session_id, 'event'),
    from: session.callee_id,
    envelope,
    sealed: sealed === null ? {} : { data: sealed },
    session: session.id,
  })
}
const isMaybeSealed = (data: MaybeSealed | Payload): data is MaybeSealed =>
  'plain' in data && 'sealed' in data && Object.keys(data).length === 2

/** Moves the session by the table and records it. Followers learn the new state from the message that reports it (C16). */
export function moveSession(
  work: SessionWork,
  to: ReachedState,
  more: Partial<Session> = {},
  action: SessionEvent = stateEvents[to],
): void {
  const { now } = work.context
  const state = nextState(work.session.state, to)
  const ended = isEnded(to) ? { ended_at: now, waiting_for: null, deadline: keptUntil(now) } : {}
  work.session = { ...work.session, state, updated_at: now, ...ended, ...more }
  work.facts.push(fact(action, [image(Session, work.session)], { detail: { state, reason: work.session.reason } }))
}
/** How long data kept beside the record outlasts a session (C40). */
const keptUntil = (now: string): string => timestampOf(Date.parse(now) + limits.harnessKeptMs)

/** A transition with its own event. */
export function changeState(work: SessionWork, to: ReachedState, reason: string, more: Partial<Session> = {}): void {
  const from = work.session.state
  moveSession(work, to, { reason, ...more })
  emitEvent(work, 'state_changed', { from_state: from, to_state: to, reason })
}

export const emitClosed = (work: SessionWork): Outgoing =>
  emitEvent(work, 'session_closed', { final_state: work.session.state, reason: work.session.reason ?? work.session.state.toLowerCase() })

/** Updates the document without a transition. */
export function updateSession(work: SessionWork, more: Partial<Session>, action: SessionEvent, detail?: Payload): void {
  work.session = { ...work.session, updated_at: work.context.now, ...more }
  work.facts.push(fact(action, [image(Session, work.session)], detail ? { detail } : {}))
}

/** All facts and puts of the work, including the cursor. */
export const outcomeOf = (work: SessionWork): { facts: Made[]; puts: Change[] } => ({
  facts: work.facts,
  puts: [...work.puts, put(Cursor, work.session.id, work.cursor)],
})

/** An ISO 8601 duration between two times. */
export const endedDuration = (from: string, to: string): string => `PT${Math.max(0, Date.parse(to) - Date.parse(from)) / 1_000}S`
