// Times at which a request is due, each with the operation that is called then.
import { timestampOf } from '#kernel/ports/clock.ts'
import { limits } from '#kernel/limits.ts'
import type { Request } from './schema.ts'

export const secondsAfter = (at: string, seconds: number): string => timestampOf(Date.parse(at) + seconds * 1_000)

/** The time of the next reminder. It counts from the last one, so that a server that was down does not catch up. */
export const remindedNext = ({ remind_seconds, reminders = 0, reminded_at, created_at }: Request): string | null =>
  remind_seconds === undefined || reminders >= limits.remindersMax ? null : secondsAfter(reminded_at ?? created_at, remind_seconds)

/** The time of the requested escalation; null: none is pending. */
export const escalatedNext = ({ escalation, created_at }: Request): string | null =>
  escalation === undefined || escalation.at !== undefined ? null : secondsAfter(created_at, escalation.after_seconds)

/** The earliest end of its snoozes. */
const wakesNext = ({ snoozed }: Request): string | null =>
  snoozed === undefined ? null : snoozed.reduce((first, { until }) => (until < first ? until : first), snoozed[0]!.until)

/** Every due time of a request, and the operation that is called then. */
const times: readonly (readonly [call: string, at: (request: Request) => string | null])[] = [
  // A question of another protocol has a timer there.
  ['request.expire', ({ kind, overdue, expires_at }) => (overdue || kind !== 'request' ? null : expires_at)],
  ['request.unclaim', ({ claimed_until }) => claimed_until ?? null],
  ['request.remind', remindedNext],
  ['request.escalate', escalatedNext],
  ['request.wake', wakesNext],
]

export function timesOf(request: Request): { at: string; call: string; input: object }[] {
  const due: { at: string; call: string; input: object }[] = []
  if (request.status !== 'pending' && request.status !== 'assigned') return due
  for (const [call, atOf] of times) {
    const at = atOf(request)
    if (at !== null) due.push({ at, call: `execution/${call}`, input: { request_id: request.id } })
  }
  return due
}
