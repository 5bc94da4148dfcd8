// The real clock and real chance. Everything else is given these and asks nobody.
import { randomBytes } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import type { Clock, Entropy } from '#kernel/clock.ts'

export const realClock: Clock = {
  now: Date.now,
  // An aborted sleep is over, not an error.
  sleep: (ms, signal) => wait(ms, undefined, { signal }).catch(() => undefined),
}

export const realEntropy: Entropy = (count) => randomBytes(count)
