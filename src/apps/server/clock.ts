// The real clock and real chance. Everything else is given these and asks nobody.
import { randomFillSync } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import type { Clock, Entropy } from '#kernel/ports/clock.ts'

export const realClock: Clock = {
  now: Date.now,
  // An aborted sleep is over, not an error.
  sleep: (ms, signal) => wait(ms, undefined, { signal }).catch(() => undefined),
}

// Asking for a few bytes at a time costs a hundred times what the bytes do.
let pool = Buffer.alloc(0)
const POOL_BYTES = 4_096
export const realEntropy: Entropy = (count) => {
  if (pool.length < count) pool = randomFillSync(Buffer.alloc(Math.max(POOL_BYTES, count)))
  const taken = pool.subarray(0, count)
  pool = pool.subarray(count)
  return taken
}
