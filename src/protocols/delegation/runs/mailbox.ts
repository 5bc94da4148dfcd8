// Messages to an agent, in the order of each run. A process that takes them holds the run for the time of a lease; one that takes a free
// run begins a new attempt, and calls from an older attempt are refused from then on.
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
/** A renewed lease is as long as the one before: a process with short leases wants its runs released soon after a crash. */
export const leaseAgain = ({ lease_ms }: Mailbox, now: string): string => timestampOf(Date.parse(now) + (lease_ms ?? limits.leaseMsDefault))

export const isHeldBy = (mailbox: Mailbox, worker: string | null, now: string): boolean =>
  !isFree(mailbox, now) && mailbox.worker === worker
/** A time further ahead than the longest lease was written before the clock was set back, so it counts as past. */
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

/** Notifies the channel of messages that were held back while the run waited for a place. */
const rungLate = (before: Mailbox, now: string): Change[] =>
  before.messages.filter(({ number }) => number >= (before.waits?.from ?? Infinity)).flatMap(({ number }) => rung(before, number, now))

/** Gives the run its place and hands over the messages that were held back, like an answer. */
export function admitRun(mailbox: Mailbox, room: Room, now: string): Change[] {
  const next = reserveAnswerTime({ ...withPlace(mailbox, room, now), due: now }, now)
  return [put(Mailbox, next.id, next), ...rungLate(mailbox, now)]
}

/** A run stopped while it waits for a place gets the held-back messages first, then the stop. */
export function stopRun(mailbox: Mailbox | null, body: Body, now: string): Change[] {
  return mailbox === null ? [] : [...rungLate(mailbox, now), ...postMessage(withoutPlace(mailbox), 'block', body, now)]
}

/**
 * Drops the oldest steering messages, which can still be read in the steering log. Messages about ended child tasks are kept: they are not
 * in the log.
 */
function dropOldest(messages: Message[]): Message[] {
  const steers = messages.filter(({ kind, body }) => kind === 'steer' && (body as { intent?: string }).intent !== 'child_ended')
  const dropped = steers.slice(0, Math.max(0, steers.length - limits.messagesPerRunMax))
  return dropped.length === 0 ? messages : messages.filter((message) => !dropped.includes(message))
}

/** An agent that does not pull its messages is notified by a channel of the outbox, in the order of the run. */
function rung({ id: run_id, reach, agent_id }: Mailbox, number: number, now: string): Change[] {
  // Another harness is notified by its own protocol.
  if (reach === 'pull' || reach === 'hcp') return []
  // An ACP agent of the operator is one of its programs.
  const channel = reach === 'acp' ? 'process' : reach
  const id = deliveryId(channel, run_id, String(number).padStart(9, '0'))
  return [put(Delivery, id, { id, channel, lane: run_id, due: now, attempt: 0, body: { agent_id, run_id, number }, error: null })]
}

/**
 * An agent that asks a question has read the messages up to that point; steering messages can still be unread. No process has to hold the
 * run until the answer arrives, so a process that dies in between blocks no other.
 */
export function answeredByAsking(mailbox: Mailbox | null, now: string): Change[] {
  if (mailbox === null) return []
  const messages = mailbox.messages.filter(({ kind }) => kind === 'steer')
  return [...rungLate({ ...mailbox, messages }, now), putMailbox({ ...withoutPlace(mailbox), until: null, messages })]
}

/** Any process can take the answer, but the process that asked has priority for a moment, because its handler waits for it. */
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

/** Deletes the mailbox of an ended run once its last message is settled. */
export function ackMailbox(mailbox: Mailbox, number: number, isOver: boolean): Change {
  const next = settleMessages(mailbox, number)
  return next.messages.length === 0 && isOver ? put(Mailbox, mailbox.id, null) : putMailbox(next)
}

/** Stores the mailbox. It keeps its due time while it has new messages; otherwise it is due at the end of the lease. */
export function putMailbox(mailbox: Mailbox): Change {
  const isNew = mailbox.messages.some(({ number }) => number > mailbox.handed)
  return put(Mailbox, mailbox.id, { ...mailbox, due: isNew ? mailbox.due : (mailbox.until ?? mailbox.due) })
}

/** A receiver has accepted a message of the run, so the run waits for no process. */
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
 * Marks a message as delivered by a push channel, one at a time. A message that an agent acts on begins an attempt, so the latest one
 * counts.
 */
export function pushMessage(mailbox: Mailbox, { number, kind }: Message, until: string): Mailbox {
  const attempt = kind === 'run' || kind === 'resume' ? mailbox.attempt + 1 : mailbox.attempt
  return { ...mailbox, worker: mailbox.reach, until, attempt, handed: Math.max(mailbox.handed, number), due: until }
}

export function extendLease(mailbox: Mailbox, until: string): Mailbox {
  return { ...mailbox, until: mailbox.until !== null && mailbox.until > until ? mailbox.until : until }
}

/** Releases the lease. Another process can take the run immediately and gets all its messages. */
export function releaseMailbox(mailbox: Mailbox, now: string): Mailbox {
  return { ...mailbox, worker: null, until: null, handed: 0, due: now }
}

const FORGET = 'delegation/run.forget'

/** After a run has ended: a message to the process that works on it, and its notes, which are kept for a while. */
export function closeMailbox(mailbox: Mailbox | null, memos: number, word: Body | null, now: string): Change[] {
  if (mailbox === null) return []
  // A run that was never taken or sent has no process to notify.
  const isTold = word !== null && (mailbox.attempt > 0 || mailbox.reach !== 'pull')
  const rest = isTold ? postMessage({ ...withoutPlace(mailbox), messages: [] }, 'cancel', word, now) : [put(Mailbox, mailbox.id, null)]
  return memos > 0 || isTold ? [...rest, forgetErrand(mailbox.id, timestampOf(Date.parse(now) + limits.memoMs))] : rest
}
export const forgetErrandId = (run_id: string): string => `forget/${run_id}`
export const forgetErrand = (run_id: string, at: string): Change => errand(forgetErrandId(run_id), at, FORGET, { run_id })
