// Frames of ACP: one JSON object a line. The proxy passes on what it parsed, not the bytes it got, so neither side can find a question in a
// line in which the proxy found none.
import { createLineReader } from '#kernel/codec/line-reader.ts'
import { decode, isObject } from '#kernel/codec/strict-json.ts'
import { limits } from '#kernel/limits.ts'

export type Fields = Readonly<Record<string, unknown>>
export type Id = string | number
export type Frame = {
  readonly id?: Id | null
  readonly method?: string
  readonly params?: unknown
  readonly result?: unknown
  readonly error?: unknown
  /** The strict decoder refuses it: repeated keys, deep nesting and the like. Nothing in it can allow a call. */
  readonly isOdd: boolean
}
export type Source = AsyncIterable<Uint8Array>

export const isId = (value: unknown): value is Id => typeof value === 'string' || typeof value === 'number'
export const fieldsIn = (value: unknown): Fields => (isObject(value) ? value : {})
export const textIn = (fields: unknown, name: string): string | null => {
  const value = fieldsIn(fields)[name]
  return typeof value === 'string' ? value : null
}

/** null: no frame. */
export function frameIn(line: Uint8Array): Frame | null {
  let value: unknown
  let isOdd = false
  try {
    value = decode(line)
  } catch {
    isOdd = true
    try {
      value = JSON.parse(Buffer.from(line).toString()) as unknown
    } catch {
      return null
    }
  }
  if (!isObject(value)) return null
  const { id, method } = value
  if (id !== undefined && id !== null && !isId(id)) return null
  if (method === undefined ? !isId(id) : typeof method !== 'string') return null
  return { ...(value as Omit<Frame, 'isOdd'>), isOdd }
}

/** Reads frames until the end. false: a line was too long, and nothing after it is read. */
export async function readFrames(source: Source, take: (frame: Frame) => Promise<void> | void, noise: () => void): Promise<boolean> {
  const lines = createLineReader(limits.acpLineBytesMax)
  for await (const part of source) {
    lines.push(part)
    for (let line = lines.next(); line !== null; line = lines.next()) {
      if (line.length === 0) continue
      const frame = frameIn(line)
      if (frame === null) noise()
      else await take(frame)
    }
    if (lines.tooLong) return false
  }
  return true
}
