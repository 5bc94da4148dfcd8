// The real clock, real chance and the true load of the process. Everything else is given these.
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

/** From here on calls begin to wait for each other, and work in the background is felt. */
const BUSY_SHARE = 0.5
type Used = { readonly active: number; readonly idle: number }
/** Whether the event loop had work for most of the time since it was last asked. */
export function busyLoop(used: () => Used = () => performance.eventLoopUtilization()): () => boolean {
  let last = used()
  return () => {
    const now = used()
    const [active, idle] = [now.active - last.active, now.idle - last.idle]
    last = now
    return active > BUSY_SHARE * (active + idle)
  }
}

// A call for a few random bytes costs a hundred times as much as the bytes, so the bytes come from a pool.
let pool = Buffer.alloc(0)
const POOL_BYTES = 4_096
export const realEntropy: Entropy = (count) => {
  if (pool.length < count) pool = randomFillSync(Buffer.alloc(Math.max(POOL_BYTES, count)))
  const taken = pool.subarray(0, count)
  pool = pool.subarray(count)
  return taken
}
