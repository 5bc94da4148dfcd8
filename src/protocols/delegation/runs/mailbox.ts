// Messages to an agent, in the order of each run. A process that takes them holds the run for the time of a lease; one that takes a run
// that no process holds begins a new attempt, and words of an older one are refused from then on.
import { timestampOf } from '#kernel/ports/clock.ts'
import { errand } from '#kernel/log/errand.ts'
import { Delivery, deliveryId } from '#kernel/log/outbox-document.ts'
import { put } from '#kernel/declare/facts.ts'
import { limits } from '#kernel/limits.ts'
import type { Change } from '#kernel/declare/operation.ts'
import { durationMs } from '#kernel/codec/timestamps.ts'
import { withoutPlace, withPlace, type Room } from './places.ts'
import { Mailbox, type Message, type Run } from '../schema.ts'

type Body = Record<string, unknown>

export const leaseEnd = (now: string, lease: string | undefined): string => {
  const ms = lease === undefined ? limits.leaseMsDefault : durationMs(lease, 'INVALID_REQUEST', 'lease')
  return timestampOf(Date.parse(now) + Math.min(ms, limits.leaseMsMax))
}
/** Another lease is as long as the one before: a process that takes runs for a short time wants them to come back soon after a crash. */
export const leaseAgain = ({ lease_ms }: Mailbox, now: string): string => timestampOf(Date.parse(now) + (lease_ms ?? limits.leaseMsDefault))

export const isHeldBy = (mailbox: Mailbox, worker: string | null, now: string): boolean =>
  !isFree(mailbox, now) && mailbox.worker === worker
/** No lease is longer than the longest: a time beyond it was written before the clock was set back, and does not bind. */
export const isPast = (time: string, now: string): boolean => time <= now || Date.parse(time) - Date.parse(now) > limits.leaseMsMax
export const isFree = ({ until }: Mailbox, now: string): boolean => until === null || isPast(until, now)

/** The first message of a run: here is work. */
export function openMailbox(run: Run, reach: Mailbox['reach'], room: Room, now: string): Change[] {
  const { id, agent_id, project_id } = run
  const empty: Mailbox = {
    id,
    agent_id,
    project_id,
    reach,
    due: now,
    worker: null,
    until: null,
    queued: true,
    attempt: 0,
    handed: 0,
    last: 0,
    messages: [],
  }
  return postMessage(withPlace(empty, room, now), 'run', {}, now)
}

export function postMessage(mailbox: Mailbox | null, kind: Message['kind'], body: Body, now: string): Change[] {
  if (mailbox === null) return []
  const number = mailbox.last + 1
  const messages = dropOldest([...mailbox.messages, { number, kind, at: now, body }])
  const next: Mailbox = { ...mailbox, last: number, messages, due: now }
  return [put(Mailbox, mailbox.id, next), ...(next.waits === undefined ? rung(next, number, now) : [])]
}

/** The channel is told of what was kept back while the run waited for a place. */
const rungLate = (before: Mailbox, now: string): Change[] =>
  before.messages.filter(({ number }) => number >= (before.waits?.from ?? Infinity)).flatMap(({ number }) => rung(before, number, now))

/** It has its place: what was kept back is handed over, as an answer is. */
export function admitRun(mailbox: Mailbox, room: Room, now: string): Change[] {
  const next = reserveAnswerTime({ ...withPlace(mailbox, room, now), due: now }, now)
  return [put(Mailbox, next.id, next), ...rungLate(mailbox, now)]
}

/** A run that is told to stop while it waits to go on is told both, in order. */
export function stopRun(mailbox: Mailbox | null, body: Body, now: string): Change[] {
  return mailbox === null ? [] : [...rungLate(mailbox, now), ...postMessage(withoutPlace(mailbox), 'block', body, now)]
}

/** Every entry of the steering log can be read there, so the oldest need not wait here as well. Word of a part that has ended stands nowhere else. */
function dropOldest(messages: Message[]): Message[] {
  const steers = messages.filter(({ kind, body }) => kind === 'steer' && (body as { intent?: string }).intent !== 'child_ended')
  const dropped = steers.slice(0, Math.max(0, steers.length - limits.messagesPerRunMax))
  return dropped.length === 0 ? messages : messages.filter((message) => !dropped.includes(message))
}

/** An agent that does not come for its messages is told by a channel of the outbox, in the order of the run. */
function rung({ id: run_id, reach, agent_id }: Mailbox, number: number, now: string): Change[] {
  // Another harness is told by its own protocol.
  if (reach === 'pull' || reach === 'hcp') return []
  const id = deliveryId(reach, run_id, String(number).padStart(9, '0'))
  return [put(Delivery, id, { id, channel: reach, lane: run_id, due: now, attempt: 0, body: { agent_id, run_id, number }, error: null })]
}

/**
 * An agent that asks a question has read the messages that brought it so far; words that steer it may still wait. Until there is an answer
 * no process need hold the run, and one that dies meanwhile holds up no other.
 */
export function answeredByAsking(mailbox: Mailbox | null, now: string): Change[] {
  if (mailbox === null) return []
  const messages = mailbox.messages.filter(({ kind }) => kind === 'steer')
  return [...rungLate({ ...mailbox, messages }, now), putMailbox({ ...withoutPlace(mailbox), until: null, messages })]
}

/** The answer is for any process that comes for it, but for a moment only for the process that asked: its handler waits for it. */
export function holdForAsker(mailbox: Mailbox | null, room: Room, now: string): Mailbox | null {
  if (mailbox === null) return null
  return reserveAnswerTime({ ...withPlace(mailbox, room, now), messages: mailbox.messages.filter(({ kind }) => kind !== 'block') }, now)
}

function reserveAnswerTime(mailbox: Mailbox, now: string): Mailbox {
  const moment = timestampOf(Date.parse(now) + limits.answerMs)
  const isShort = mailbox.until === null || mailbox.until < moment
  return { ...mailbox, until: mailbox.worker !== null && isShort ? moment : mailbox.until }
}

export function settleMessages(mailbox: Mailbox, number: number): Mailbox {
  return { ...mailbox, messages: mailbox.messages.filter((message) => message.number > number) }
}

/** Nothing is kept where the last word to a run that has ended is settled: nothing comes after it. */
export function ackMailbox(mailbox: Mailbox, number: number, isOver: boolean): Change {
  const next = settleMessages(mailbox, number)
  return next.messages.length === 0 && isOver ? put(Mailbox, mailbox.id, null) : putMailbox(next)
}

/** As it waits now: at once for what was not handed over yet, and for the end of the lease for the rest. */
export function putMailbox(mailbox: Mailbox): Change {
  const isNew = mailbox.messages.some(({ number }) => number > mailbox.handed)
  return put(Mailbox, mailbox.id, { ...mailbox, due: isNew ? mailbox.due : (mailbox.until ?? mailbox.due) })
}

/** A receiver has accepted a message of the run: it waits for no process any more. */
export const acceptRun = (mailbox: Mailbox): Mailbox => ({ ...mailbox, queued: false })

/** Whether the run waits for its agent: to take it, or to have a place for it. */
export const isQueued = ({ state, started_at }: Run, mailbox: Mailbox | null): boolean =>
  state === 'running' && (mailbox?.waits !== undefined || (started_at === null && mailbox?.queued === true))

export type Taken = { readonly mailbox: Mailbox; readonly messages: readonly Message[] }

export function takeMailbox(mailbox: Mailbox, worker: string | null, until: string, now: string): Taken {
  const goesOn = isHeldBy(mailbox, worker, now)
  const messages = goesOn ? mailbox.messages.filter(({ number }) => number > mailbox.handed) : mailbox.messages
  const attempt = goesOn ? mailbox.attempt : mailbox.attempt + 1
  const lease_ms = Date.parse(until) - Date.parse(now)
  return { mailbox: { ...mailbox, worker, until, lease_ms, queued: false, attempt, handed: mailbox.last, due: until }, messages }
}

/**
 * Handed over by who was told to, one at a time. A message that an agent acts on begins an attempt: of two that arrived, the last one
 * counts.
 */
export function pushMessage(mailbox: Mailbox, { number, kind }: Message, until: string): Mailbox {
  const attempt = kind === 'run' || kind === 'resume' ? mailbox.attempt + 1 : mailbox.attempt
  return { ...mailbox, worker: mailbox.reach, until, attempt, handed: Math.max(mailbox.handed, number), due: until }
}

export function extendLease(mailbox: Mailbox, until: string): Mailbox {
  return { ...mailbox, until: mailbox.until !== null && mailbox.until > until ? mailbox.until : until }
}

/** No process holds it any more: what waits in it can be taken at once, and all of it is new to the next one. */
export function releaseMailbox(mailbox: Mailbox, now: string): Mailbox {
  return { ...mailbox, worker: null, until: null, handed: 0, due: now }
}

const FORGET = 'delegation/run.forget'

/** The rest of a run that has ended: that word, for the process that works on it, and the notes, for a while. */
export function closeMailbox(mailbox: Mailbox | null, memos: number, word: Body | null, now: string): Change[] {
  if (mailbox === null) return []
  // It was never taken and never sent: there is no process to tell.
  const isTold = word !== null && (mailbox.attempt > 0 || mailbox.reach !== 'pull')
  const rest = isTold ? postMessage({ ...withoutPlace(mailbox), messages: [] }, 'cancel', word, now) : [put(Mailbox, mailbox.id, null)]
  return memos > 0 || isTold ? [...rest, forgetErrand(mailbox.id, timestampOf(Date.parse(now) + limits.memoMs))] : rest
}
export const forgetErrandId = (run_id: string): string => `forget/${run_id}`
export const forgetErrand = (run_id: string, at: string): Change => errand(forgetErrandId(run_id), at, FORGET, { run_id })
