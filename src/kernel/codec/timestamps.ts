// Times and durations as they come from outside: RFC 3339 in, UTC out; ISO 8601 durations of fixed length only.
import { timestampOf } from '../ports/clock.ts'
import { Refusal } from '../declare/errors.ts'
import { limits } from '../limits.ts'

const TIMESTAMP = /^(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)$/

/** Milliseconds since the epoch, or null if the text is not a valid time, such as February 30. */
export function parseTimestamp(text: string): number | null {
  const match = TIMESTAMP.exec(text)
  if (!match) return null
  const [, , month, day, hour, minute, second, , zone] = match
  const daysInMonth = new Date(Date.UTC(Number(match[1]), Number(month), 0)).getUTCDate()
  const isDate = Number(month) >= 1 && Number(month) <= 12 && Number(day) >= 1 && Number(day) <= daysInMonth
  // A leap second is written as :60; it is taken as the first instant after it.
  if (!isDate || Number(hour) > 23 || Number(minute) > 59 || Number(second) > 60) return null
  if (!/^z$/i.test(zone!) && (Number(zone!.slice(1, 3)) > 23 || Number(zone!.slice(4)) > 59)) return null
  const isLeap = second === '60'
  const plain = isLeap ? `${text.slice(0, 17)}59${text.slice(19)}` : text
  const ms = Date.parse(plain.toUpperCase())
  return Number.isNaN(ms) ? null : ms + (isLeap ? 1_000 : 0)
}

/** A time after now and within ten years, normalised to UTC. */
export function futureTimestamp(text: string, now: string, code: string, field: string): string {
  const ms = parseTimestamp(text)
  if (ms === null) throw new Refusal(code, `${field} must be an RFC 3339 time such as 2030-01-31T12:00:00Z`, { field })
  const nowMs = Date.parse(now)
  if (ms <= nowMs) throw new Refusal(code, `${field} is in the past`, { field })
  if (ms > nowMs + limits.durationMsMax) throw new Refusal(code, `${field} is more than ten years away`, { field })
  return new Date(ms).toISOString()
}

const SPANS = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1_000],
] as const

/** `3 minutes ago`, for a sentence. */
export function agoText(at: string, now: string): string {
  const ms = Date.parse(now) - Date.parse(at)
  const span = SPANS.find(([, size]) => ms >= size)
  if (span === undefined) return 'just now'
  const count = Math.floor(ms / span[1])
  return `${count} ${span[0]}${count === 1 ? '' : 's'} ago`
}

const DURATION = /^P(?:(\d{1,6})W|(?=\d|T\d)(?:(\d{1,6})D)?(?:T(?=\d)(?:(\d{1,8})H)?(?:(\d{1,9})M)?(?:(\d{1,10})(?:\.(\d{1,3}))?S)?)?)$/

/** Milliseconds of an ISO 8601 duration; years and months have no fixed length and are refused. */
export function durationMs(text: string, code: string, field: string): number {
  const match = DURATION.exec(text)
  if (!match)
    throw new Refusal(code, `${field} must be an ISO 8601 duration of weeks, days, hours, minutes or seconds, such as PT30M`, { field })
  const [, weeks, days, hours, minutes, seconds, fraction] = match
  const n = (part: string | undefined): number => Number(part ?? 0)
  const ms = ((((n(weeks) * 7 + n(days)) * 24 + n(hours)) * 60 + n(minutes)) * 60 + n(seconds)) * 1_000 + n(fraction?.padEnd(3, '0'))
  if (ms <= 0 || ms > limits.durationMsMax) throw new Refusal(code, `${field} must be a positive duration of at most ten years`, { field })
  return ms
}

/** The bound of a work's duration, and the time it has taken: only active work counts. */
export type TimeLimits = {
  readonly deadline: string | null
  readonly max_duration: string | null
  readonly active_ms: number
  readonly active_since: string | null
}

/** When max_duration will be spent if the work continues; already spent counts as now. */
export function activeUntil({ max_duration, active_ms, active_since }: Omit<TimeLimits, 'deadline'>, now: string): string | null {
  if (max_duration === null) return null
  const left = durationMs(max_duration, 'INVALID_SPEC', 'max_duration') - active_ms
  if (active_since !== null) return timestampOf(Date.parse(active_since) + left)
  return left > 0 ? null : now
}

/** Whether there is time left by the clock, whether or not a timer has noted the end of it. */
export function hasTime(work: TimeLimits, now: string): boolean {
  const until = activeUntil(work, now)
  return (work.deadline === null || now < work.deadline) && (until === null || now < until)
}
