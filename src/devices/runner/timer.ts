// Timers on a clock, so that a test moves the time of the runner.
import type { Clock } from '#kernel/ports/clock.ts'
import { SLEEP_MS_MAX } from '#workers/worker.ts'

/** Calls `act` after the time, unless the returned function is called first. */
export function startTimer(clock: Clock, ms: number, act: () => void): () => void {
  const stopping = new AbortController()
  async function run(): Promise<void> {
    let left = ms
    do {
      await clock.sleep(Math.min(left, SLEEP_MS_MAX), stopping.signal)
      if (stopping.signal.aborted) return
      left -= SLEEP_MS_MAX
    } while (left > 0)
    act()
  }
  void run()
  return () => stopping.abort()
}

/** Calls `act` at this interval until the returned function is called. */
export function startInterval(clock: Clock, ms: number, act: () => void): () => void {
  let stop = (): void => undefined
  const next = (): void => {
    stop = startTimer(clock, ms, () => {
      next()
      act()
    })
  }
  next()
  return () => stop()
}
