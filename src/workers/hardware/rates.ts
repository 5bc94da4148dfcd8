// Rates of tools (HACP hardware draft, 12): a token bucket for each session and tool. A bucket that is full again is forgotten.
import { setBounded } from '#kernel/codec/bounded-map.ts'
import { usualRate, type Rate } from '#protocols/hardware/daemon/policy.ts'

export type Rates = {
  /** 0: there was a token, and it is taken. Otherwise the milliseconds until there is one. */
  take(session_id: string, tool: string, rate: Rate | undefined): number
}
const BUCKETS_MAX = 10_000

export function createRates(now: () => number): Rates {
  const buckets = new Map<string, { tokens: number; at: number }>()
  return {
    take(session_id, tool, rate = usualRate) {
      const name = `${session_id} ${tool}`
      const at = now()
      const bucket = buckets.get(name)
      // A clock that steps back refills nothing.
      const passed = bucket ? Math.max(0, at - bucket.at) : 0
      const tokens = bucket ? Math.min(rate.burst, bucket.tokens + (passed * rate.per_second) / 1_000) : rate.burst
      buckets.delete(name)
      setBounded(buckets, name, { tokens: tokens >= 1 ? tokens - 1 : tokens, at }, BUCKETS_MAX)
      return tokens >= 1 ? 0 : Math.max(1, Math.ceil(((1 - tokens) * 1_000) / rate.per_second))
    },
  }
}
