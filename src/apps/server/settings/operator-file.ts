// A file of the operator that the server reads at its start, with a bound on its size.
import { readFileSync } from 'node:fs'

const FILE_BYTES_MAX = 1024 * 1024

export function bytesOfFile(path: string): Buffer {
  const bytes = readFileSync(path)
  if (bytes.length > FILE_BYTES_MAX) throw new Error(`it has ${bytes.length} bytes, and at most ${FILE_BYTES_MAX} are read`)
  return bytes
}
