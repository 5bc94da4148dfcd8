// Rates of tools (HACP hardware draft, 12): a token bucket for each session and tool. Beyond the bound the least recently used one is dropped.
import { setBounded } from '#kernel/codec/bounded-map.ts'
import { tokensIn, type Bucket } from '#kernel/codec/rate-limit.ts'
import { usualRate, type Rate } from '#protocols/hardware/daemon/policy.ts'

export type Rates = {
  /** Takes a token and returns 0, or returns the milliseconds until one is available. */
  take(session_id: string, tool: string, rate: Rate | undefined): number
}
const BUCKETS_MAX = 10_000

export function createRates(now: () => number): Rates {
  const buckets = new Map<string, Bucket>()
  return {
    take(session_id, tool, rate = usualRate) {
      const name = `${session_id} ${tool}`
      const at = now()
      const tokens = tokensIn(buckets.get(name), at, rate.burst, rate.per_second, 1_000)
      buckets.delete(name)
      setBounded(buckets, name, { tokens: tokens >= 1 ? tokens - 1 : tokens, at }, BUCKETS_MAX)
      return tokens >= 1 ? 0 : Math.max(1, Math.ceil(((1 - tokens) * 1_000) / rate.per_second))
    },
  }
}
