// Announced bytes: incoming bytes are checked against the announced size and checksum, and against the limit for one upload.
import type { Announced, Received } from '#kernel/ports/blobs.ts'
import { Refusal } from '#kernel/declare/errors.ts'

export type Counting = {
  /** Refuses the first byte over the limit. */
  add(bytes: number): void
  /** Called after the last byte with the SHA-256 of all. Refuses bytes that differ from the announcement. */
  whole(hex: string): Received
}

export function countingOf({ checksum: expected, size: announced }: Announced, bytesMax: number): Counting {
  const most = Math.min(announced ?? bytesMax, bytesMax)
  let size = 0
  const tooMany = (): Refusal =>
    most === bytesMax
      ? new Refusal('TOO_LARGE', `at most ${bytesMax} bytes are accepted`, { max: bytesMax })
      : new Refusal('INVALID_REQUEST', `there are more than the ${announced} bytes that were announced`, { field: 'size' })
  if (announced !== undefined && announced > bytesMax) throw tooMany()
  return {
    add(bytes) {
      size += bytes
      if (size > most) throw tooMany()
    },
    whole(hex) {
      if (announced !== undefined && size < announced)
        throw new Refusal('INVALID_REQUEST', `${announced} bytes were announced, ${size} came`, { field: 'size' })
      const checksum = `sha256:${hex}`
      if (expected !== undefined && expected !== checksum)
        throw new Refusal('INVALID_REQUEST', `the bytes are ${checksum}, not what was announced`, { field: 'checksum' })
      return { checksum, size }
    },
  }
}
