// Time and chance are inputs. The server passes the real ones, tests and the simulator pass their own.

export type Clock = {
  /** Milliseconds since the epoch. It may step in either direction at any time. */
  now(): number
  /** Resolves after `ms`, or at once when the signal aborts. Never used for more than a minute. */
  sleep(ms: number, signal: AbortSignal): Promise<void>
}

/** `count` random bytes. */
export type Entropy = (count: number) => Uint8Array

export const timestampOf = (ms: number): string => new Date(ms).toISOString()
