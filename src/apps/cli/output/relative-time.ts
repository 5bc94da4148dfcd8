// Times for people: how long ago, or how long until then. Programs get the timestamps unchanged.

const units = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
] as const
/** Times that are further away are shown as dates. */
const RELATIVE_MS_MAX = 30 * 86_400_000
const NOW_MS = 1_000

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/
export const isTime = (text: string): boolean => TIME.test(text)

/** For a table: `3m ago`, `in 2h`, `now`; a date if it is more than a month away. */
export function agoOf(text: string, now: number): string {
  const ms = Date.parse(text) - now
  const distance = Math.abs(ms)
  if (Number.isNaN(ms) || distance > RELATIVE_MS_MAX) return text.slice(0, 10)
  const unit = units.find(([, size]) => distance >= size)
  if (unit === undefined || distance < NOW_MS) return 'now'
  const message = `${Math.floor(distance / unit[1])}${unit[0]}`
  return ms < 0 ? `${message} ago` : `in ${message}`
}

/** For the record: exact to the second, in UTC. */
export const exactly = (text: string): string => `${text.slice(0, 10)} ${text.slice(11, 19)}Z`
