// The text lines of a bundle out of its bytes, one at a time, so that a bundle may be larger than the memory.
import { limits } from '#kernel/limits.ts'
import { Broken } from './lines.ts'

/** What a `Blob` and a `File` have, in Node and in browsers alike. */
export type Bytes = {
  readonly size: number
  slice(from: number, to: number): Bytes
  stream(): ReadableStream<Uint8Array>
  arrayBuffer(): Promise<ArrayBuffer>
}
/** `bytes` without its line end. `isLast`: nothing follows. */
export type TextLine = { readonly at: number; readonly text: string; readonly bytes: Uint8Array; readonly isLast: boolean }

const LF = 10
/** The last line: a checkpoint of the largest size, with its escapes. */
const TAIL_BYTES = 4 * limits.logNoteCharsMax

const decoder = (): TextDecoder => new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function decodeLine(bytes: Uint8Array, at: number): string {
  try {
    return decoder().decode(bytes)
  } catch {
    throw new Broken(at, 'it is not valid UTF-8')
  }
}

/** The last line, which has to be known first: the proofs of all others lead to its checkpoint. */
export async function lastTextOf(bundle: Bytes): Promise<string> {
  if (bundle.size === 0) throw new Broken(null, 'it is empty')
  const head = new Uint8Array(await bundle.slice(0, 2).arrayBuffer())
  if (head[0] === 0x1f && head[1] === 0x8b) throw new Broken(null, 'it is compressed with gzip: unpack it first')
  const tail = new Uint8Array(await bundle.slice(Math.max(0, bundle.size - TAIL_BYTES), bundle.size).arrayBuffer())
  if (tail.at(-1) !== LF) throw new Broken(null, 'its last line has no end: it was cut off')
  const from = tail.lastIndexOf(LF, tail.length - 2) + 1
  if (from === 0 && bundle.size > tail.length) throw new Broken(null, 'its last line is too long for the end of a bundle')
  return decodeLine(tail.subarray(from, -1), 0)
}

export async function* linesOf(bundle: Bytes): AsyncGenerator<TextLine> {
  let [at, parts, held]: [number, Uint8Array[], number] = [0, [], 0]
  let read = 0
  const lineOf = (end: Uint8Array): TextLine => {
    const bytes = joinParts([...parts, end])
    ;[parts, held] = [[], 0]
    at++
    return { at, text: decodeLine(bytes, at), bytes, isLast: read === bundle.size }
  }
  for await (const chunk of chunksOf(bundle.stream())) {
    let from = 0
    for (let to = chunk.indexOf(LF); to !== -1; to = chunk.indexOf(LF, from)) {
      read += to + 1 - from + held
      const line = lineOf(chunk.subarray(from, to))
      from = to + 1
      yield line
    }
    held += chunk.length - from
    if (held > limits.bundleLineBytesMax) throw new Broken(at + 1, `it has over ${limits.bundleLineBytesMax} bytes`)
    // A copy: a reader of a file may use the same memory again.
    if (from < chunk.length) parts.push(chunk.slice(from))
  }
}

async function* chunksOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  const reader = stream.getReader()
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      yield value
    }
  } finally {
    await reader.cancel()
  }
}

function joinParts(parts: readonly Uint8Array[]): Uint8Array {
  if (parts.length === 1) return parts[0]!
  const bytes = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0))
  let at = 0
  for (const part of parts) {
    bytes.set(part, at)
    at += part.length
  }
  return bytes
}
