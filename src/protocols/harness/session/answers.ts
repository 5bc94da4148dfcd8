// Answers and events of other harnesses as they come in, for sessions that were submitted from here: in the order of their numbers, each once.
// A missing event holds back later events for a while; then they are processed without it (C27).
import { image, put } from '#kernel/declare/facts.ts'
import { timestampOf } from '#kernel/ports/clock.ts'
import { limits } from '#kernel/limits.ts'
import { isObject } from '#kernel/codec/strict-json.ts'
import type { Context, Read } from '#kernel/declare/operation.ts'
import type { Value } from '#kernel/log/store.ts'
import { fact, stateEvents, type SessionEvent } from '../events.ts'
import { harnessIn, whole, type OfSession } from '../access.ts'
import { canonical } from '#kernel/log/canonical-json.ts'
import { digestOf, type Envelope, type Payload } from '../envelope.ts'
import {
  Answer,
  answerId,
  Early,
  Event,
  eventId,
  lateEventId,
  Route,
  routeId,
  Session,
  type Artifact,
  type Cursor,
  type Held,
  type Rejection,
  type Risk,
} from '../schema.ts'
import { canMove, isEnded, isState, type SessionState } from '../states.ts'
import { risks } from '../gate/risk.ts'
import { dead, DUPLICATE, TAKEN, type Incoming, type Plan } from './commands.ts'
import { deadLetter, keepEarly, envelopeIn } from './early.ts'
import { outputProblem } from './outputs.ts'
import {
  sendToCallee,
  sealConfidential,
  outcomeOf,
  envelopeOf,
  sessionWork,
  sealedOf,
  unseal,
  type MaybeSealed,
  type SessionWork,
} from './session-work.ts'

/** The session submitted from here, by its own id or by the message that it answers; null: there is none. */
async function askedFor(read: Read, { envelope: { session_id }, user_id, in_reply_to }: Incoming): Promise<Session | null> {
  const bySubmission = in_reply_to === null ? null : await read.raw(Session, in_reply_to)
  if (bySubmission?.role === 'caller') return bySubmission
  if (session_id === null) return null
  const route = user_id === null ? null : await read.raw(Route, routeId(user_id, session_id))
  if (route !== null) return read.raw(Session, route.session)
  const listed = await read.list(Session, 'other', [[session_id]], { limit: 4 })
  const all = await Promise.all(listed.map(({ id }) => read.raw(Session, id)))
  const ours = all.filter((session) => session?.role === 'caller')
  return ours.find((session) => session!.callee_id === user_id) ?? ours[0] ?? null
}

export async function takeAnswer(read: Read, incoming: Incoming, context: Context): Promise<Plan> {
  const { envelope, user_id } = incoming
  const { checksSenders } = harnessIn(context)
  if (checksSenders && user_id === null) return dead('unauthorized', 'the message does not name its sender (user_id)')
  const problem = problemIn(envelope.type, envelope.payload)
  const session = await askedFor(read, incoming)
  if (session === null) return problem === null ? keepEarly(read, incoming, context) : dead('invalid_message', problem)
  if (checksSenders && user_id !== session.callee_id) return dead('forged', `the session is with ${session.callee_id}, not with ${user_id}`)
  if (session.session_id !== null && envelope.session_id !== null && session.session_id !== envelope.session_id)
    return dead('foreign_session', 'the submission was answered under another session_id')
  if (problem !== null) return dead('invalid_message', problem)
  const { cursor, task } = await whole(read, session)
  const work = sessionWork(session, cursor, context)
  const isNamed = session.session_id === null && envelope.session_id !== null
  if (isNamed) name(work, envelope.session_id)
  const plan = await handleMessage(read, work, task, envelope)
  if (plan.output !== TAKEN) return plan
  if (isNamed && user_id !== null) await takeEarly(read, work, task, routeId(user_id, envelope.session_id))
  return { ...outcomeOf(work), output: TAKEN }
}

/** One message of a known session, into the session's work. */
const handleMessage = (read: Read, work: SessionWork, task: OfSession['task'], envelope: Envelope): Promise<Plan> =>
  envelope.type === 'event' ? event(read, work, envelope) : handleUnnumbered(read, work, task, envelope)

/** Messages that overtook the answer are handled right after it, in the same batch. */
async function takeEarly(read: Read, work: SessionWork, task: OfSession['task'], id: string): Promise<void> {
  const early = await read.raw(Early, id)
  if (early === null) return
  work.puts.push(put(Early, id, null))
  for (const message of early.messages) {
    const { output } = await handleMessage(read, work, task, await envelopeIn(message, work.context))
    if (output.outcome === 'dead') work.puts.push(deadLetter(early, message, output.reason!, output.detail ?? '', work.context))
  }
}

const isText = (value: unknown): value is string => typeof value === 'string'

/** The problem with the required fields of a type, or null. Other fields are kept unchanged. */
function problemIn(type: string, payload: Payload): string | null {
  if (type === 'event') {
    const { sequence, event_type, data } = payload
    if (!Number.isSafeInteger(sequence) || (sequence as number) < 1) return 'payload.sequence must be a whole number from 1 on'
    if (!isText(event_type) || event_type.length > limits.labelCharsMax) return 'payload.event_type must be a text'
    return data === undefined || isObject(data) ? null : 'payload.data must be an object'
  }
  if (type === 'task_accepted') return isText(payload['session_token']) ? null : 'payload.session_token must be a text'
  if (type === 'task_rejected') return isText(payload['reason_code']) ? null : 'payload.reason_code must be a text'
  if (type === 'task_failed') return isText(payload['error_code']) ? null : 'payload.error_code must be a text'
  return 'outputs' in payload ? null : 'payload.outputs is missing'
}

// --- Events ----------------------------------------------------------------------------------------------------------------

async function event(read: Read, work: SessionWork, envelope: Envelope): Promise<Plan> {
  const { session, cursor, context } = work
  const sequence = envelope.payload['sequence'] as number
  const isLate = cursor.missing.includes(sequence)
  if (sequence <= cursor.sequence && !isLate) return DUPLICATE
  if (cursor.held.some(({ order }) => order === sequence)) return DUPLICATE
  const held = await heldOf(session, sequence, envelope, context)
  if (isLate) {
    work.cursor = { ...cursor, missing: cursor.missing.filter((gap) => gap !== sequence) }
    note(work, held, true)
    return { ...outcomeOf(work), output: TAKEN }
  }
  if (fateOf(work, held) === 'late') {
    if ((await read.raw(Event, lateEventId(session.id, held.message_id))) !== null) return DUPLICATE
    if (!hasRoomForLate(work))
      return dead('invalid_message', `the session has ended, and keeps at most ${limits.harnessNotesMax} late events`)
    noteAfterEnd(work, held)
    return { ...outcomeOf(work), output: TAKEN }
  }
  noticeAnswer(work, null)
  hold(work, held)
  drain(work, false)
  return { ...outcomeOf(work), output: TAKEN }
}

const isClosing = ({ type, payload }: Held): boolean => type === 'event' && (payload as Payload)['event_type'] === 'session_closed'
const finalState = ({ payload }: Held): unknown => ((payload as Payload)['data'] as Payload | undefined)?.['final_state']

/**
 * Once a session has ended, its events end with the one that closes it with the same state. An earlier event waits for that event:
 * the outcome can have overtaken it. All others arrived after the end.
 */
function fateOf({ session: { state }, cursor }: SessionWork, held: Held): 'event' | 'wait' | 'late' {
  if (held.type !== 'event') return 'event'
  if (cursor.closed === true) return 'late'
  if (!isEnded(state)) return 'event'
  if (isClosing(held)) return finalState(held) === state ? 'event' : 'late'
  return cursor.held.some((event) => isClosing(event) && finalState(event) === state) ? 'event' : 'wait'
}
const hasRoomForLate = ({ cursor }: SessionWork): boolean => (cursor.late ?? 0) < limits.harnessNotesMax

type Heard = { readonly type: string; readonly message_id: string; readonly timestamp: string; readonly payload: Payload }
/** Events with machine-readable fields, which move the session: never confidential. */
const MACHINE = ['session_created', 'state_changed', 'session_closed', 'checkpoint_created']
async function heldOf(session: Session, order: number, { type, message_id, timestamp, payload }: Heard, context: Context): Promise<Held> {
  const { event_type, data = {} } = withoutToken(payload) as { event_type: string; data?: unknown }
  const isPlain = MACHINE.includes(event_type)
  const { plain, sealed } = isPlain ? { plain: data, sealed: null } : await sealConfidential(context, session.data_classification, data)
  return { order, type, message_id, timestamp, payload: { event_type, data: plain ?? {} }, sealed }
}
/** Removes the token: events and the record have none. */
function withoutToken(payload: unknown): unknown {
  if (!isObject(payload)) return payload
  const { session_token: _, ...rest } = payload
  const data = rest['data']
  if (!isObject(data) || !('session_token' in data)) return rest
  const { session_token: __, ...kept } = data
  return { ...rest, data: kept }
}

/** Sets the session's own id from the first message that names it. */
function name(work: SessionWork, session_id: string): void {
  const { id: session, callee_id } = work.session
  work.session = { ...work.session, session_id }
  const id = routeId(callee_id, session_id)
  work.puts.push(put(Route, id, { id, session }))
  work.facts.push(fact('session.answered', [image(Session, work.session)]))
}

/** The first sign of life of a callee ends the repetition of the submission, and lets an abort go out that had to wait for the id. */
function noticeAnswer(work: SessionWork, token: string | null): void {
  const { session, cursor, context } = work
  if (session.waiting_for !== 'answer') return
  work.session = { ...session, waiting_for: null }
  work.cursor = { ...cursor, republish_at: null }
  work.facts.push(fact('session.answered', [image(Session, work.session)]))
  if (cursor.abort === null || session.session_id === null) return
  work.cursor = { ...work.cursor, abort: null }
  const withToken = token === null ? {} : { session_token: token }
  sendToCallee(work, envelopeOf('abort', session.session_id, { reason: cursor.abort.reason, ...withToken }, context))
}

/** Holds back an early event. */
function hold(work: SessionWork, held: Held): void {
  const all = [...work.cursor.held, held].toSorted((a, b) => a.order - b.order)
  work.cursor = { ...work.cursor, held: all }
}
const isFull = ({ held }: Cursor): boolean => held.length > limits.harnessHeldMax || canonical(held).length > limits.harnessHeldBytesMax

/** The event closes the session before the message with the outcome has arrived: that message must be processed first (C16). */
const closesEarly = (held: Held, state: SessionState): boolean =>
  isClosing(held) && ['COMPLETED', 'FAILED', 'REJECTED'].includes(finalState(held) as string) && !isEnded(state)

/** Processes held messages in order until one is missing. `skips`: the missing one is no longer awaited. */
export function drain(work: SessionWork, skips: boolean): void {
  let isSkipping = skips || isFull(work.cursor)
  for (;;) {
    const [next, ...rest] = work.cursor.held
    if (next === undefined) break
    const expected = work.cursor.sequence + 1
    const isUnnumbered = next.type !== 'event'
    if (!isSkipping && closesEarly(next, work.session.state)) break
    const fate = fateOf(work, next)
    if (!isSkipping && fate === 'wait') break
    if (!isUnnumbered && next.order > expected) {
      if (!isSkipping) break
      const gap = Array.from({ length: Math.min(next.order - expected, limits.harnessNotesMax) }, (_, i) => expected + i)
      work.cursor = {
        ...work.cursor,
        missing: [...work.cursor.missing, ...gap].slice(-limits.harnessNotesMax),
        sequence: next.order - 1,
      }
    } else if (isUnnumbered && Math.floor(next.order) > work.cursor.sequence) {
      if (!isSkipping) break
      work.cursor = { ...work.cursor, sequence: Math.floor(next.order) }
    }
    isSkipping = skips && rest.length > 0 ? isSkipping : isFull({ ...work.cursor, held: rest })
    work.cursor = { ...work.cursor, held: rest, ...(isUnnumbered ? {} : { sequence: next.order }) }
    if (fate === 'event') note(work, next, false)
    else if (hasRoomForLate(work)) noteAfterEnd(work, next)
  }
  const { held, gap_until } = work.cursor
  const { now, terms } = work.context
  const until =
    held.length === 0 ? null : !skips && gap_until !== null ? gap_until : timestampOf(Date.parse(now) + (terms.harness?.gapMs ?? 30_000))
  work.cursor = { ...work.cursor, gap_until: until }
}

/** Records one message in its turn, and moves the session if the message reports an allowed transition. */
function note(work: SessionWork, held: Held, late: boolean): void {
  if (held.type !== 'event') return settle(work, held)
  const { event_type, data } = recordEvent(work, held, 'session.event', eventId(work.session.id, held.order), late ? { late } : {})
  if (late) return
  follow(work, event_type, data as Payload)
  if (event_type === 'session_closed' && isEnded(work.session.state)) work.cursor = { ...work.cursor, closed: true }
}

/** Stores an event after the end. It is not one of the session's events and changes nothing. */
function noteAfterEnd(work: SessionWork, held: Held): void {
  const id = lateEventId(work.session.id, held.message_id)
  recordEvent(work, held, 'session.late_event', id, { late: true, after_end: true })
  work.cursor = { ...work.cursor, late: (work.cursor.late ?? 0) + 1 }
}

function recordEvent(
  { session, context, facts }: SessionWork,
  held: Held,
  action: 'session.event' | 'session.late_event',
  id: string,
  marks: Partial<Event>,
): Event {
  const { event_type, data = {} } = (held.payload ?? {}) as { event_type?: string; data?: Value }
  const event: Event = {
    id,
    session: session.id,
    project_id: session.project_id,
    sequence: held.order,
    event_type: event_type ?? '',
    data,
    message_id: held.message_id,
    at: context.now,
    ...marks,
    ...(held.sealed === null ? {} : { sealed: held.sealed }),
  }
  const late = marks.late === true ? { late: true } : {}
  facts.push(fact(action, [image(Event, event)], { detail: { event_type: event.event_type, sequence: held.order, ...late } }))
  return event
}

/** Follows the state that the callee reports. A transition that is not in the table moves nothing (C26). */
function follow(work: SessionWork, event_type: string, data: Record<string, unknown>): void {
  const risk = risks.includes(data['risk_level'] as Risk) ? { risk_level: data['risk_level'] as Risk } : {}
  if (event_type === 'session_created') return goTo(work, 'RUNNING', null, risk)
  const reason = isText(data['reason']) ? data['reason'].slice(0, limits.labelCharsMax) : null
  if (event_type === 'session_closed' && isState(data['final_state'])) return goTo(work, data['final_state'], reason)
  if (event_type !== 'state_changed' || !isState(data['to_state'])) return
  if (data['to_state'] === work.session.state) {
    const waits = reason === 'awaiting_human' ? 'human' : work.session.waiting_for
    if (waits !== work.session.waiting_for || work.session.reason !== reason)
      changeSession(work, { waiting_for: waits, reason }, 'session.moved')
    return
  }
  goTo(work, data['to_state'], reason)
}

function goTo(work: SessionWork, to: SessionState, reason: string | null, more: Partial<Session> = {}): void {
  const { session } = work
  const { now } = work.context
  if (session.state === to) return Object.keys(more).length > 0 ? changeSession(work, more, 'session.moved') : undefined
  // The callee can report the end without the states in between. The session accepts it if it is an end state.
  const path = isEnded(to) && session.state === 'RUNNING' && to === 'ABORTED' ? (['ABORTING', 'ABORTED'] as const) : [to]
  for (const step of path) {
    if (!canMove(work.session.state, step)) return
    const isOver = isEnded(step)
    changeSession(
      work,
      {
        state: step,
        reason,
        waiting_for: step === 'ABORTING' ? 'cleanup' : null,
        ...(step === 'RUNNING' && session.accepted_at === null ? { accepted_at: now } : {}),
        ...(isOver ? { ended_at: now, deadline: timestampOf(Date.parse(now) + limits.harnessKeptMs) } : {}),
        ...more,
      },
      step === 'RUNNING' && session.state === 'PENDING' ? 'session.accepted' : stateEvents[step],
    )
  }
}

function changeSession(work: SessionWork, more: Partial<Session>, action: SessionEvent): void {
  work.session = { ...work.session, ...more, updated_at: work.context.now }
  const { state, reason } = work.session
  work.facts.push(fact(action, [image(Session, work.session)], { detail: { state, reason } }))
}

// --- Unnumbered: task_accepted, task_rejected, task_completed, task_failed ---------------------------------------------------

async function handleUnnumbered(read: Read, work: SessionWork, task: OfSession['task'], envelope: Envelope): Promise<Plan> {
  const { session, cursor, context } = work
  const { message_id, type } = envelope
  const digest = digestOf(envelope.payload)
  const before = cursor.seen.find((entry) => entry.message_id === message_id)
  if (before !== undefined)
    return before.digest === digest ? DUPLICATE : dead('message_id_reused', 'the message_id was used before with another payload')
  work.cursor = { ...cursor, seen: [...cursor.seen, { message_id, digest }].slice(-limits.harnessNotesMax) }
  noticeAnswer(work, type === 'task_accepted' ? (envelope.payload['session_token'] as string) : null)
  // After all earlier events, except the event that closes the session.
  const earlier = cursor.held.filter((event) => !closesEarly(event, session.state))
  const order = Math.max(cursor.sequence, ...earlier.map((event) => Math.floor(event.order)))
  const judged = type === 'task_completed' ? await judgedOutputs(envelope.payload, task, context) : {}
  const fields = await confidedFields(session, envelope.payload, context)
  const isEnd = type === 'task_completed' || type === 'task_failed'
  const answer: Held = {
    order: order + 0.5,
    type,
    message_id,
    timestamp: envelope.timestamp,
    payload: { ...fields, ...judged },
    sealed: null,
  }
  if (type === 'task_accepted') await keepToken(read, work, envelope.payload['session_token'] as string)
  if (!isEnd) settle(work, answer)
  else {
    hold(work, answer)
    drain(work, false)
  }
  return { ...outcomeOf(work), output: TAKEN }
}

/** Stores the token for an abort, which sends it if the broker does not identify us (C9). No fact and no answer contains it. */
async function keepToken(read: Read, work: SessionWork, token: string): Promise<void> {
  const id = answerId('self', work.session.id)
  if (token.length > limits.sessionTokenCharsMax || (await read.raw(Answer, id)) !== null) return
  work.puts.push(put(Answer, id, { id, session: work.session.id, digest: '', deliveries: [], token }))
}

const OPEN = ['outputs', 'partial_outputs', 'error_details'] as const
/** The stored payload, with confidential fields sealed. */
async function confidedFields(session: Session, payload: Payload, context: Context): Promise<Payload> {
  const stored = withoutToken(payload) as Payload
  const confided: Record<string, MaybeSealed> = {}
  for (const name of OPEN) if (name in stored) confided[name] = await sealConfidential(context, session.data_classification, stored[name])
  return {
    ...stored,
    ...Object.fromEntries(Object.entries(confided).map(([name, value]) => [name, value.plain])),
    $sealed: sealedOf(confided),
  }
}

/** Notes whether the outputs match the expected ones. Outputs that do not match are kept, too. */
async function judgedOutputs(payload: Payload, task: OfSession['task'], context: Context): Promise<Payload> {
  const submission = (await unseal(context, task.submission, task.sealed)) as {
    expected_output?: { schema?: object; required_fields?: string[] }
  }
  return { $valid: outputProblem(payload['outputs'], submission.expected_output) === null }
}

const artifactsIn = (payload: Payload): Artifact[] =>
  (Array.isArray(payload['artifacts']) ? payload['artifacts'] : [])
    .filter((entry): entry is Artifact => isObject(entry) && isText(entry['name']) && isText(entry['uri']))
    .slice(0, limits.harnessArtifactsMax)
    .map(({ name, type, uri, url, size_bytes, checksum }) => ({
      name: name.slice(0, limits.nameCharsMax),
      type: isText(type) ? type.slice(0, limits.labelCharsMax) : '',
      uri: uri.slice(0, 2_000),
      size_bytes: Number.isSafeInteger(size_bytes) ? size_bytes : 0,
      ...(isText(url) ? { url: url.slice(0, 2_000) } : {}),
      ...(isText(checksum) ? { checksum: checksum.slice(0, 100) } : {}),
    }))
const textIn = (payload: Payload, name: string): string => (isText(payload[name]) ? payload[name].slice(0, limits.textCharsMax) : '')

function settle(work: SessionWork, { type, payload: given }: Held): void {
  const payload = given as Payload
  const risk = payload['risk_level'] ?? payload['assessed_risk_level']
  const level = risks.includes(risk as Risk) ? { risk_level: risk as Risk } : {}
  const summary = isObject(payload['execution_summary']) ? { execution_summary: payload['execution_summary'] } : {}
  const sealed = { sealed: (payload['$sealed'] ?? null) as Session['sealed'] }
  if (type === 'task_accepted') return goTo(work, 'RUNNING', null, level)
  if (type === 'task_rejected') {
    const rejection: Rejection = {
      reason_code: textIn(payload, 'reason_code').slice(0, limits.labelCharsMax),
      reason_message: textIn(payload, 'reason_message'),
      assessed_risk_level: level.risk_level ?? null,
      suggestion: isText(payload['suggestion']) ? textIn(payload, 'suggestion') : null,
    }
    return goTo(work, 'REJECTED', rejection.reason_code, { rejection, ...level })
  }
  resumeSession(work)
  if (type === 'task_completed')
    return goTo(work, 'COMPLETED', 'completed', {
      outputs: payload['outputs'] ?? null,
      outputs_valid: payload['$valid'] === true,
      artifacts: artifactsIn(payload),
      ...summary,
      ...sealed,
    })
  const error_code = textIn(payload, 'error_code').slice(0, limits.labelCharsMax)
  goTo(work, 'FAILED', error_code, {
    error: { error_code, error_message: textIn(payload, 'error_message') },
    error_details: payload['error_details'] ?? null,
    partial_outputs: payload['partial_outputs'] ?? null,
    artifacts: artifactsIn(payload),
    ...summary,
    ...sealed,
  })
}
/** An end implies that the work was running, even if no event has said so. */
function resumeSession(work: SessionWork): void {
  if (work.session.state === 'PAUSED' || work.session.state === 'PENDING') goTo(work, 'RUNNING', null)
}
