// Time and chance are inputs. The server passes the real ones, tests and the simulator pass their own.

export type Clock = {
  /** Milliseconds since the epoch. It may step in either direction at any time. */
  now(): number
  /** Resolves after `ms`, or at once when the signal aborts. Never used for more than a minute. */
  sleep(ms: number, signal: AbortSignal): Promise<void>
}

/** `count` random bytes. */
export type Entropy = (count: number) => Uint8Array

// Many calls share a millisecond, and writing it costs more than reading a document.
let written = { ms: Number.NaN, text: '' }
export function timestampOf(ms: number): string {
  if (written.ms !== ms) written = { ms, text: new Date(ms).toISOString() }
  return written.text
}
