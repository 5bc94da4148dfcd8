// A token bucket per name, refilled evenly over a minute. Bounded: a name that is full again is forgotten.

const MINUTE_MS = 60_000
const NAMES_MAX = 100_000

export type Meter = { take(name: string): boolean }

export function createMeter(perMinute: number, now: () => number): Meter {
  const buckets = new Map<string, { tokens: number; at: number }>()
  return {
    take(name) {
      const at = now()
      const bucket = buckets.get(name) ?? { tokens: perMinute, at }
      // A clock that steps back refills nothing and takes nothing away.
      const passed = Math.max(0, at - bucket.at)
      const tokens = Math.min(perMinute, bucket.tokens + (passed * perMinute) / MINUTE_MS)
      const allowed = tokens >= 1
      buckets.delete(name)
      buckets.set(name, { tokens: allowed ? tokens - 1 : tokens, at })
      if (buckets.size > NAMES_MAX) buckets.delete(buckets.keys().next().value!)
      return allowed
    },
  }
}
