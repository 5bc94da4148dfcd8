// A clock that a test moves by hand. Sleepers follow elapsed time; the wall clock can also step independently.
import type { Clock } from '#kernel/ports/clock.ts'

type Sleeper = { readonly at: number; wake(): void }

export type ManualClock = Clock & {
  /** Advances time and wakes the sleepers in order. */
  advance(ms: number): Promise<void>
  /** Steps the wall clock without waking any sleeper. */
  step(ms: number): void
  readonly longestSleepMs: number
  readonly sleeps: number
}

export function manualClock(start = Date.parse('2030-01-01T00:00:00.000Z')): ManualClock {
  let passed = 0
  let offset = start
  let longest = 0
  let count = 0
  const sleepers = new Set<Sleeper>()
  return {
    now: () => offset + passed,
    sleep(ms, signal) {
      longest = Math.max(longest, ms)
      count++
      return new Promise((done) => {
        const wake = (): void => {
          sleepers.delete(sleeper)
          signal.removeEventListener('abort', wake)
          done()
        }
        const sleeper = { at: passed + ms, wake }
        if (signal.aborted) return done()
        sleepers.add(sleeper)
        signal.addEventListener('abort', wake)
      })
    },
    async advance(ms) {
      const end = passed + ms
      await settled()
      for (;;) {
        const next = [...sleepers].toSorted((a, b) => a.at - b.at)[0]
        if (!next || next.at > end) break
        passed = Math.max(passed, next.at)
        next.wake()
        await settled()
      }
      passed = end
      await settled()
    },
    step(ms) {
      offset += ms
    },
    get longestSleepMs() {
      return longest
    },
    get sleeps() {
      return count
    },
  }
}

/** Lets everything run that can run without time passing. */
export async function settled(): Promise<void> {
  for (let i = 0; i < 12; i++) await new Promise((done) => setImmediate(done))
}
