// Lines out of bytes that arrive in chunks of any size. Each byte is examined one time and copied at most a constant number of times.
// Joining strings would cost the square of the line.

const LF = 10
const FIRST_BYTES = 1_024

export type LineReader = {
  /** Adds the next chunk; unread bytes of earlier chunks are kept. */
  push(chunk: Uint8Array): void
  /** The next line without its LF; null: more bytes are needed. */
  next(): Uint8Array | null
  /** Bytes of the incomplete line. */
  readonly begun: number
  /** The incomplete line exceeds the limit; no further lines are returned. */
  readonly tooLong: boolean
}

export function createLineReader(bytesMax: number): LineReader {
  let chunk: Uint8Array | null = null
  let from = 0
  // The beginning of the current line, from earlier chunks. It grows by doubling and is handed over with its line.
  let held: Uint8Array | null = null
  let used = 0
  let tooLong = false

  function hold(bytes: Uint8Array): void {
    if (held === null || used + bytes.length > held.length) {
      const grown = new Uint8Array(Math.min(bytesMax, Math.max(FIRST_BYTES, 2 * (used + bytes.length))))
      if (held) grown.set(held.subarray(0, used))
      held = grown
    }
    held.set(bytes, used)
    used += bytes.length
  }

  function take(end: number): Uint8Array {
    const rest = chunk!.subarray(from, end)
    from = end + 1
    if (used === 0) return rest
    hold(rest)
    const line = held!.subarray(0, used)
    held = null
    used = 0
    return line
  }

  return {
    push(bytes) {
      const rest = chunk?.subarray(from)
      chunk = rest?.length ? joinBytes(rest, bytes) : bytes
      from = 0
    },
    next() {
      if (chunk === null || tooLong) return null
      const end = chunk.indexOf(LF, from)
      const size = used + (end === -1 ? chunk.length : end) - from
      if (size > bytesMax) {
        tooLong = true
        held = null
        chunk = null
        return null
      }
      if (end !== -1) return take(end)
      if (from < chunk.length) hold(chunk.subarray(from))
      chunk = null
      return null
    },
    get begun() {
      return used
    },
    get tooLong() {
      return tooLong
    },
  }
}

function joinBytes(a: Uint8Array, b: Uint8Array): Uint8Array {
  const both = new Uint8Array(a.length + b.length)
  both.set(a)
  both.set(b, a.length)
  return both
}
