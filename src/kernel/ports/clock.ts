// Time and chance are inputs. The server passes the real ones, tests and the simulator pass their own.

export type Clock = {
  /** Milliseconds since the epoch. It may step in either direction at any time. */
  now(): number
  /** Resolves after `ms`, or at once when the signal aborts. Never used for more than a minute. */
  sleep(ms: number, signal: AbortSignal): Promise<void>
}

/** `count` random bytes. */
export type Entropy = (count: number) => Uint8Array

// Many calls share a millisecond, and so do their deadlines; writing one costs more than reading a document.
type Written = { readonly ms: number; readonly text: string }
const NEVER: Written = { ms: Number.NaN, text: '' }
let last = NEVER
let before = NEVER
export function timestampOf(ms: number): string {
  if (last.ms === ms) return last.text
  const found = before.ms === ms ? before : { ms, text: new Date(ms).toISOString() }
  before = last
  last = found
  return found.text
}
