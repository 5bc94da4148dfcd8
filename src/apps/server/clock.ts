// The real clock and real chance. Everything else is given these.
import { randomFillSync } from 'node:crypto'
import type { Clock, Entropy } from '#kernel/ports/clock.ts'

export const realClock: Clock = {
  now: Date.now,
  // An aborted sleep is over, not an error: a worker is woken by every commit, and each error would come with a stack.
  sleep: (ms, signal) =>
    new Promise((done) => {
      if (signal.aborted) return done()
      const over = (): void => {
        clearTimeout(timer)
        signal.removeEventListener('abort', over)
        done()
      }
      const timer = setTimeout(over, ms)
      signal.addEventListener('abort', over)
    }),
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
