// Speech of a session: events with their numbers, messages into the outbox, and transitions, all of one batch. A script collects them
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

/** A message as it waits in the outbox: what is confidential in its payload is sealed by field, and opened when it is sent. */
export type Outgoing = {
  readonly exchange: string
  readonly key: string
  readonly from: string
  readonly envelope: Envelope
  readonly sealed: Readonly<Record<string, string>>
  readonly session: string | null
  /** Its receiver has no rights here: it is not tried again where no queue takes it. */
  readonly stranger?: true
  /** Of a dead letter: why it is one. */
  readonly headers?: Readonly<Record<string, string>>
}

/** The outcome of a confidential value: itself, or a seal in its place. */
export type Confided = { readonly plain: unknown; readonly sealed: string | null }

/** T3 and T4 are encrypted at rest (C39). */
export const isSealed = (data: DataClass): boolean => data === 'T3' || data === 'T4'
export async function confide({ notary }: Pick<Context, 'notary'>, data: DataClass, value: unknown): Promise<Confided> {
  if (value === undefined || value === null || !isSealed(data)) return { plain: value ?? null, sealed: null }
  return { plain: null, sealed: await notary.seal(JSON.stringify(value), null) }
}

/** The seals of fields, as a document keeps them. */
export function sealedOf(confided: Readonly<Record<string, Confided>>): Record<string, string> | null {
  const sealed = Object.entries(confided).flatMap(([name, one]) => (one.sealed === null ? [] : [[name, one.sealed] as const]))
  return sealed.length === 0 ? null : Object.fromEntries(sealed)
}
/** A document's fields with what was sealed of them. */
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

export type Script = {
  session: Session
  cursor: Cursor
  /** The other side has no rights here. */
  stranger?: true
  readonly facts: Made[]
  readonly puts: Change[]
  readonly context: Context
}
export const scriptOf = (session: Session, cursor: Cursor, context: Context): Script => ({ session, cursor, facts: [], puts: [], context })

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

/** Puts a message of the session into the outbox, after all that it has said before. */
export function send(script: Script, message: Outgoing): Outgoing {
  refuseTooLarge(message.envelope)
  const outgoing = script.stranger ? { ...message, stranger: script.stranger } : message
  const number = script.cursor.sent + 1
  script.cursor = { ...script.cursor, sent: number }
  script.puts.push(deliveryOf(script.session.id, number, outgoing, script.context.now))
  return outgoing
}

/** To the caller, unnumbered: task_accepted, task_rejected, task_completed, task_failed. */
export function tell(script: Script, type: MessageType, payload: Payload, confided: Readonly<Record<string, Confided>> = {}): Outgoing {
  const { session, context } = script
  const { fields, sealed } = sealedFieldsOf(confided)
  const envelope = envelopeOf(type, session.session_id, { ...payload, ...fields, in_reply_to: session.submit_id }, context)
  return send(script, {
    exchange: EVENTS,
    key: eventKey(session.caller_id, session.session_id, type),
    from: session.callee_id,
    envelope,
    sealed,
    session: session.id,
  })
}

export function sealedFieldsOf(confided: Readonly<Record<string, Confided>>): { fields: Payload; sealed: Record<string, string> } {
  const fields: Payload = {}
  const sealed: Record<string, string> = {}
  for (const [name, one] of Object.entries(confided)) {
    if (one.sealed === null) fields[name] = one.plain
    else sealed[name] = one.sealed
  }
  return { fields, sealed }
}

/** To the callee: task_submit and abort. */
export function command(script: Script, envelope: Envelope, sealed: Readonly<Record<string, string>> = {}): Outgoing {
  const { callee_id, caller_id, id } = script.session
  return send(script, { exchange: COMMANDS, key: commandKey(callee_id), from: caller_id, envelope, sealed, session: id })
}

/** The next event, with its number, in the record and in the outbox. `untold`: what goes out and is not kept. */
export function say(script: Script, event_type: string, data: Confided | Payload, untold: Payload = {}, in_reply_to = false): Outgoing {
  const { session, context } = script
  const sequence = script.cursor.sequence + 1
  const { plain, sealed } = isConfided(data) ? data : { plain: data, sealed: null }
  const told = { event_type, sequence, ...(in_reply_to ? { in_reply_to: session.submit_id } : {}) }
  const payload = sealed === null ? { ...told, data: { ...(plain as Payload), ...untold } } : told
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
  script.cursor = { ...script.cursor, sequence }
  script.facts.push(fact('session.event', [image(Event, event)], { detail: { event_type, sequence } }))
  return send(script, {
    exchange: EVENTS,
    key: eventKey(session.caller_id, session.session_id, 'event'),
    from: session.callee_id,
    envelope,
    sealed: sealed === null ? {} : { data: sealed },
    session: session.id,
  })
}
const isConfided = (data: Confided | Payload): data is Confided => 'plain' in data && 'sealed' in data && Object.keys(data).length === 2

/** Another state by the table, in the record; who follows the session is told by whichever message says it (C16). */
export function move(script: Script, to: ReachedState, more: Partial<Session> = {}, action: SessionEvent = stateEvents[to]): void {
  const { now } = script.context
  const state = nextState(script.session.state, to)
  const ended = isEnded(to) ? { ended_at: now, waiting_for: null, deadline: keptUntil(now) } : {}
  script.session = { ...script.session, state, updated_at: now, ...ended, ...more }
  script.facts.push(fact(action, [image(Session, script.session)], { detail: { state, reason: script.session.reason } }))
}
/** How long what is kept beside the record outlasts a session (C40). */
const keptUntil = (now: string): string => timestampOf(Date.parse(now) + limits.harnessKeptMs)

/** A transition that has an event of its own. */
export function change(script: Script, to: ReachedState, reason: string, more: Partial<Session> = {}): void {
  const from = script.session.state
  move(script, to, { reason, ...more })
  say(script, 'state_changed', { from_state: from, to_state: to, reason })
}

/** The last event of every session. */
export const close = (script: Script): Outgoing =>
  say(script, 'session_closed', { final_state: script.session.state, reason: script.session.reason ?? script.session.state.toLowerCase() })

/** The document as it is from now on, where no transition has said so. */
export function keep(script: Script, more: Partial<Session>, action: SessionEvent, detail?: Payload): void {
  script.session = { ...script.session, updated_at: script.context.now, ...more }
  script.facts.push(fact(action, [image(Session, script.session)], detail ? { detail: detail } : {}))
}

/** Everything together; the cursor goes with it. */
export const outcomeOf = (script: Script): { facts: Made[]; puts: Change[] } => ({
  facts: script.facts,
  puts: [...script.puts, put(Cursor, script.session.id, script.cursor)],
})

/** An ISO 8601 duration between two times. */
export const endedDuration = (from: string, to: string): string => `PT${Math.max(0, Date.parse(to) - Date.parse(from)) / 1_000}S`
