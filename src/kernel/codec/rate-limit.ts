// A token bucket per name, refilled evenly over a minute. Beyond the bound the least recently used bucket is dropped.
import { setBounded } from './bounded-map.ts'

const MINUTE_MS = 60_000
const NAMES_MAX = 100_000

export type Bucket = { readonly tokens: number; readonly at: number }
/** The tokens in a bucket at a time, refilled with `refill` tokens every `everyMs`. An unknown bucket is full. A clock that steps back changes nothing. */
export const tokensIn = (bucket: Bucket | undefined, at: number, full: number, refill: number, everyMs: number): number =>
  bucket ? Math.min(full, bucket.tokens + (Math.max(0, at - bucket.at) * refill) / everyMs) : full

export type RateLimit = {
  /** Takes a token; false if none is left. */
  take(name: string): boolean
  /** Takes tokens even if too few are left. The debt is paid back before `take` succeeds again. */
  charge(name: string, tokens: number): void
  /** The remaining tokens; negative for a debt. */
  left(name: string): number
  /** Whether the name has a debt. */
  owes(name: string): boolean
  /** Seconds until `take` succeeds. */
  seconds(name: string): number
}

export function createRateLimit(perMinute: number, now: () => number): RateLimit {
  const buckets = new Map<string, Bucket>()
  const tokensLeft = (name: string, at: number): number => tokensIn(buckets.get(name), at, perMinute, perMinute, MINUTE_MS)

  function keep(name: string, tokens: number, at: number): void {
    buckets.delete(name)
    setBounded(buckets, name, { tokens, at }, NAMES_MAX)
  }

  return {
    take(name) {
      const at = now()
      const tokens = tokensLeft(name, at)
      const allowed = tokens >= 1
      keep(name, allowed ? tokens - 1 : tokens, at)
      return allowed
    },
    charge(name, tokens) {
      const at = now()
      // An answer can cost more than a minute refills, but the debt is at most one minute.
      keep(name, Math.max(-perMinute, Math.min(perMinute, tokensLeft(name, at) - tokens)), at)
    },
    left: (name) => tokensLeft(name, now()),
    owes: (name) => tokensLeft(name, now()) < 0,
    seconds: (name) => Math.max(0, Math.ceil(((1 - tokensLeft(name, now())) * 60) / perMinute)),
  }
}

type Level = 'warn' | 'error'
type Log = Readonly<Record<Level, (fields: object, message: string) => void>>
export type BoundedLog = Readonly<Record<Level, (name: string, fields: object, message: string) => void>>

/** Logs at most `perMinute` lines a minute under one name. The rest are counted, and the next line has their number. */
export function boundedLog(log: Log, perMinute: number, now: () => number): BoundedLog {
  const meter = createRateLimit(perMinute, now)
  const unlogged = new Map<string, number>()
  const at =
    (level: Level) =>
    (name: string, fields: object, message: string): void => {
      const missed = unlogged.get(name) ?? 0
      if (!meter.take(name)) return setBounded(unlogged, name, missed + 1, NAMES_MAX)
      unlogged.delete(name)
      log[level](missed === 0 ? fields : { ...fields, unlogged: missed }, message)
    }
  return { warn: at('warn'), error: at('error') }
}
