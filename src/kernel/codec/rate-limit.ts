// A token bucket per name, refilled evenly over a minute. Bounded: a name that is full again is forgotten.
import { setBounded } from './bounded-map.ts'

const MINUTE_MS = 60_000
const NAMES_MAX = 100_000

export type Bucket = { readonly tokens: number; readonly at: number }
/** The tokens of a bucket by now, which gets `refill` of them in `everyMs`; one that is not known is full. A clock that steps back refills nothing and takes nothing away. */
export const tokensIn = (bucket: Bucket | undefined, at: number, full: number, refill: number, everyMs: number): number =>
  bucket ? Math.min(full, bucket.tokens + (Math.max(0, at - bucket.at) * refill) / everyMs) : full

export type RateLimit = {
  /** One token, where there is one. */
  take(name: string): boolean
  /** So many more, whether they are there or not: what is missing is paid back before the next one is given. */
  charge(name: string, tokens: number): void
  /** How many there are; below nothing where more was charged. */
  left(name: string): number
  /** Whether more was charged than there was. */
  owes(name: string): boolean
  /** How long until there is a token again. */
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
      // One answer may cost more than a minute brings, but no name owes more than a minute.
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

/** Beyond so many lines a minute under one name the rest are counted, and the next line says how many there were. */
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
