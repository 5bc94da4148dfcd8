// Relative times by the server's clock. One timer updates all of them; screen readers get no update each second.
import { serverNow } from '../server/client.ts'
import { createStore } from './store.ts'

const currentSecond = createStore(0)
setInterval(() => currentSecond.set(Math.floor(serverNow() / 1_000)), 1_000)
/** Re-renders every `everySeconds`, so that most of the page does not render each second. */
export const useNow = (everySeconds = 1): number => {
  currentSecond.use((second) => Math.floor(second / everySeconds))
  return serverNow()
}

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

export function span(ms: number): string {
  const left = Math.abs(ms)
  if (left < MINUTE) return `${Math.max(0, Math.floor(left / 1_000))} s`
  if (left < HOUR) return `${Math.floor(left / MINUTE)} min`
  if (left < DAY) return `${Math.floor(left / HOUR)} h`
  return `${Math.floor(left / DAY)} d`
}

/** A span in full words, such as "7 minutes". */
export function longSpan(ms: number): string {
  const left = Math.abs(ms)
  const of = (unit: number, word: string): string => {
    const count = Math.floor(left / unit)
    return `${count} ${word}${count === 1 ? '' : 's'}`
  }
  if (left < MINUTE) return of(1_000, 'second')
  if (left < HOUR) return of(MINUTE, 'minute')
  return left < DAY ? of(HOUR, 'hour') : of(DAY, 'day')
}

const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' })
const seconds = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' })
const day = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' })
const whole = new Intl.DateTimeFormat('en-GB', {
  day: 'numeric',
  month: 'short',
  year: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
})
export const clockOf = (at: string | number): string => clock.format(new Date(at))
export const secondsOf = (at: string | number): string => seconds.format(new Date(at))
export const wholeTime = (at: string): string => `${whole.format(new Date(at))} (${at})`
export const dayOf = (at: string): string => day.format(new Date(at))
/** The time of today, or a date with the time. */
export function momentOf(at: string): string {
  const isToday = new Date(at).toDateString() === new Date(serverNow()).toDateString()
  return isToday ? clockOf(at) : `${dayOf(at)}, ${clockOf(at)}`
}

export function Ago({ at, word = 'ago' }: { readonly at: string; readonly word?: string }) {
  const ms = useNow(serverNow() - Date.parse(at) < MINUTE ? 1 : 15) - Date.parse(at)
  return (
    <time dateTime={at} title={wholeTime(at)}>
      {span(ms)}
      {word && ` ${word}`}
    </time>
  )
}

export type Deadline = { readonly text: string; readonly tone: '' | 'soon' | 'late' }
export function deadlineOf(expires_at: string | null, overdue: boolean, now: number): Deadline | null {
  if (expires_at === null) return null
  const left = Date.parse(expires_at) - now
  if (overdue || left <= 0) return { text: `${span(left)} overdue`, tone: 'late' }
  return { text: `${span(left)} left`, tone: left < HOUR ? 'soon' : '' }
}
