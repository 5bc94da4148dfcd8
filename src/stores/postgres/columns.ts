// Columns of a group in PostgreSQL's binary array format. In the text format each quote of a document would be escaped here and unescaped
// there.

const TEXT = 25
const BIGINT = 20
/** The header: dimensions, a flag for nulls, the type, the length, the first index. */
const HEAD_BYTES = 20
const NONE = -1

export type Column = {
  readonly values: readonly (string | number | null)[]
  toPostgres(): Buffer
}

export const texts = (values: readonly (string | null)[]): Column => ({ values, toPostgres: () => textArray(values) })
export const numbers = (values: readonly (number | null)[]): Column => ({ values, toPostgres: () => bigintArray(values) })

function begin(bytes: number, type: number, values: readonly unknown[]): Buffer {
  const all = Buffer.allocUnsafe(HEAD_BYTES + bytes)
  all.writeInt32BE(1, 0)
  all.writeInt32BE(values.includes(null) ? 1 : 0, 4)
  all.writeInt32BE(type, 8)
  all.writeInt32BE(values.length, 12)
  all.writeInt32BE(1, 16)
  return all
}

function textArray(values: readonly (string | null)[]): Buffer {
  const sizes = values.map((value) => (value === null ? NONE : Buffer.byteLength(value)))
  const all = begin(
    sizes.reduce((sum, size) => sum + 4 + Math.max(0, size), 0),
    TEXT,
    values,
  )
  let at = HEAD_BYTES
  for (const [i, value] of values.entries()) {
    at = all.writeInt32BE(sizes[i]!, at)
    if (value !== null) at += all.write(value, at)
  }
  return all
}

function bigintArray(values: readonly (number | null)[]): Buffer {
  const all = begin(
    values.reduce<number>((sum, value) => sum + (value === null ? 4 : 12), 0),
    BIGINT,
    values,
  )
  let at = HEAD_BYTES
  for (const value of values) {
    at = all.writeInt32BE(value === null ? NONE : 8, at)
    if (value === null) continue
    const high = Math.floor(value / 2 ** 32)
    at = all.writeInt32BE(high, at)
    at = all.writeUInt32BE(value - high * 2 ** 32, at)
  }
  return all
}
