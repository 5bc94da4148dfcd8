// Quiet hours of a person by their local clock: across midnight, on some days of the week, and across the two changes
// of daylight saving. Only critical notices are sent then.
import { timestampOf } from '#kernel/ports/clock.ts'
import { t, type Static } from '#kernel/declare/schema.ts'

const TimeOfDay = t.String({ pattern: '^([01][0-9]|2[0-3]):[0-5][0-9]$', description: 'a time of day such as 22:00' })
const days: readonly string[] = ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun']
const day = days.join('|')
/** `offset_minutes` is for clocks without daylight saving; a zone includes it. */
export const QuietHours = t.Object({
  from: TimeOfDay,
  to: TimeOfDay,
  zone: t.Optional(t.String({ minLength: 1, maxLength: 64, description: 'the zone of your clock, such as Europe/Berlin' })),
  days: t.Optional(
    t.String({
      pattern: `^(${day})(-(${day}))?(,(${day})(-(${day}))?){0,6}$`,
      description: 'the days on which they begin, such as mon-fri or sat,sun; every day without it',
    }),
  ),
  offset_minutes: t.Optional(
    t.Integer({ minimum: -12 * 60, maximum: 14 * 60, description: 'in place of a zone: your clock from UTC, such as 60' }),
  ),
})
export type QuietHours = Static<typeof QuietHours>

const MINUTE_MS = 60_000
const DAY_MINUTES = 24 * 60
const minutesIn = (time: string): number => Number(time.slice(0, 2)) * 60 + Number(time.slice(3))

const clocks = new Map<string, Intl.DateTimeFormat>()
function clockIn(zone: string): Intl.DateTimeFormat | null {
  let clock = clocks.get(zone)
  if (clock === undefined) {
    try {
      clock = new Intl.DateTimeFormat('en-GB', {
        timeZone: zone,
        weekday: 'short',
        hour: '2-digit',
        minute: '2-digit',
        hourCycle: 'h23',
      })
    } catch {
      return null
    }
    if (clocks.size >= ZONES_MAX) clocks.clear()
    clocks.set(zone, clock)
  }
  return clock
}
const ZONES_MAX = 600

/** The message about invalid quiet hours; null: they are valid. */
export function quietProblem({ zone, offset_minutes, from, to }: QuietHours): string | null {
  if (zone === undefined && offset_minutes === undefined)
    return 'quiet_hours.zone is missing: the zone of your clock, such as Europe/Berlin'
  if (zone !== undefined && offset_minutes !== undefined) return 'quiet_hours takes a zone or offset_minutes, not both'
  if (zone !== undefined && clockIn(zone) === null) return `quiet_hours.zone: there is no zone ${zone}: give one such as Europe/Berlin`
  return from === to ? 'quiet_hours.to is the same as from: leave quiet_hours out for none' : null
}

type Wall = { readonly weekday: number; readonly minute: number }
function wallAt({ zone, offset_minutes = 0 }: QuietHours, ms: number): Wall {
  if (zone === undefined) {
    const minutes = Math.floor(ms / MINUTE_MS) + offset_minutes
    const whole = Math.floor(minutes / DAY_MINUTES)
    // The first of January 1970 was a Thursday.
    return { weekday: (((whole + 3) % 7) + 7) % 7, minute: minutes - whole * DAY_MINUTES }
  }
  const parts = Object.fromEntries(
    clockIn(zone)!
      .formatToParts(ms)
      .map(({ type, value }) => [type, value]),
  )
  return { weekday: days.indexOf(parts['weekday']!.toLowerCase()), minute: Number(parts['hour']) * 60 + Number(parts['minute']) }
}

function daysIn(text: string | undefined): ReadonlySet<number> {
  if (text === undefined) return new Set(days.keys())
  const found = new Set<number>()
  for (const range of text.split(',')) {
    const [first, last = first] = range.split('-').map((name) => days.indexOf(name)) as [number, number?]
    for (let at = first; ; at = (at + 1) % 7) {
      found.add(at)
      if (at === last) break
    }
  }
  return found
}

/** Local time decides: an hour that daylight saving skips or repeats counts as it is on the clock. */
function isQuiet(quiet: QuietHours, ms: number): boolean {
  const { weekday, minute } = wallAt(quiet, ms)
  const [from, to] = [minutesIn(quiet.from), minutesIn(quiet.to)]
  const begins = daysIn(quiet.days)
  const yesterday = (weekday + 6) % 7
  // Old documents can have an empty span.
  if (from === to) return false
  if (from < to) return begins.has(weekday) && from <= minute && minute < to
  return (begins.has(weekday) && minute >= from) || (begins.has(yesterday) && minute < to)
}

/** The most that a clock is turned; in some places it is half an hour. */
const TURNED_MS = 120 * MINUTE_MS

/** The end of the present quiet hours; null: it is not quiet. Daylight saving can shift the end, so it is searched minute by minute. */
export function quietUntil(quiet: QuietHours | undefined, now: string): string | null {
  if (quiet === undefined) return null
  const begin = Math.floor(Date.parse(now) / MINUTE_MS) * MINUTE_MS
  if (!isQuiet(quiet, begin)) return null
  const left = (minutesIn(quiet.to) - wallAt(quiet, begin).minute + DAY_MINUTES) % DAY_MINUTES
  let at = Math.max(begin, begin + left * MINUTE_MS - TURNED_MS)
  while (isQuiet(quiet, at)) at += MINUTE_MS
  return timestampOf(at)
}
