// Kept checkpoints: all cosigned ones of an hour, one a minute for 31 days, one an hour for good.
const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const DAYS_31 = 31 * 24 * HOUR

/** Those of these times, in milliseconds, that are not kept: the first of each minute or hour is. */
export function toForget(times: readonly number[], now: number): number[] {
  const seen = new Set<string>()
  return times
    .toSorted((a, b) => a - b)
    .filter((at) => {
      const age = now - at
      if (age <= HOUR) return false
      const span = age <= DAYS_31 ? MINUTE : HOUR
      const slot = `${span} ${Math.floor(at / span)}`
      if (seen.has(slot)) return true
      seen.add(slot)
      return false
    })
}
