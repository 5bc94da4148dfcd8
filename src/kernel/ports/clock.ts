// The ports of time and randomness. The server passes the real ones, tests and the simulator pass their own.
import { repeatedTimestamp } from '../codec/repeated-timestamps.ts'

export type Clock = {
  /** Milliseconds since the epoch. It can step in either direction at any time. */
  now(): number
  /** Resolves after `ms`, or immediately when the signal aborts. Never used for more than a minute. */
  sleep(ms: number, signal: AbortSignal): Promise<void>
}

/** `count` random bytes. */
export type Entropy = (count: number) => Uint8Array

/** RFC 3339, in UTC, with milliseconds. */
export const timestampOf = repeatedTimestamp
