// The loop of a worker: it takes its turn, rests, sleeps until it is woken or its time has come, retries after a failure,
// and does nothing while another server holds its lease. Its present activity is its state in /health.
import { messageOf } from '#kernel/codec/cut-text.ts'
import type { Clock } from '#kernel/ports/clock.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import type { Tail } from '#kernel/log/tail.ts'
import type { Hint } from '#kernel/log/store.ts'
import { ALONE, type Duty } from './leases.ts'
import { SLEEP_MS_MAX, type Worker, type WorkerLog, type WorkerState } from './worker.ts'

export type LoopOptions = {
  /** Names it in /health. */
  readonly name: string
  readonly clock: Clock
  readonly log: WorkerLog
  /** Does the pending work, and returns in how many milliseconds to look again. The signal aborts when the loop stops. */
  turn(signal: AbortSignal): Promise<number>
  /** Only the server that holds the duty runs turns. */
  readonly duty?: Duty
  /** A commit wakes the loop if `wants` returns true. */
  readonly tail?: Tail
  wants?(hint: Hint): boolean
  /** Milliseconds to sleep before the first turn. */
  readonly firstMs?: number
  /** Milliseconds to rest after each turn, even if it is woken. */
  readonly restMs?: number
  /** After a failure: the message to log, and the wait before the next attempt. */
  readonly failed: string
  readonly failedMs?: number
}

/** Whether an error is expected: the store is under load, or another server took over. Other errors need an operator's attention. */
export const isPassing = (error: unknown): boolean => error instanceof Refusal && ['BUSY', 'UNAVAILABLE', 'CONFLICT'].includes(error.code)

export type Loop = Worker & { wake(): void; readonly signal: AbortSignal }

export function runLoop(options: LoopOptions): Loop {
  const { name, clock, log, turn, duty = ALONE, tail, wants = () => true, firstMs = 0, restMs = 0, failed, failedMs = 1_000 } = options
  const stopping = new AbortController()
  const { signal } = stopping
  let waker = new AbortController()
  let woken = false
  let state: WorkerState = 'idle'

  function wake(): void {
    woken = true
    // With a reason, since without one an error with its stack is made for each.
    waker.abort('woken')
  }

  async function takeTurn(): Promise<number> {
    if (!duty.holds()) {
      state = 'standby'
      return SLEEP_MS_MAX
    }
    try {
      state = 'busy'
      const ms = await turn(signal)
      state = 'idle'
      return ms
    } catch (error) {
      state = 'failing'
      log[isPassing(error) ? 'warn' : 'error']({ worker: name, error: messageOf(error) }, failed)
      return failedMs
    }
  }

  /** Sleeps in portions: the clock might step, and the runtime fires very long timeouts immediately. */
  async function sleep(ms: number): Promise<void> {
    for (let left = ms; left > 0 && !woken && !signal.aborted; left -= SLEEP_MS_MAX) {
      waker = new AbortController()
      await clock.sleep(Math.min(left, SLEEP_MS_MAX), waker.signal)
    }
  }

  async function loop(): Promise<void> {
    await sleep(firstMs)
    while (!signal.aborted) {
      woken = false
      const ms = await takeTurn()
      // A known due time is kept, however often commits wake the loop before. A past due time does not skip the rest.
      const rest = ms > 0 ? Math.min(restMs, ms) : restMs
      if (rest > 0) await clock.sleep(rest, signal)
      await sleep(ms - rest)
    }
  }

  const unsubscribe = tail?.hear((hint) => void (wants(hint) && wake()))
  const leave = duty.onChange(wake)
  const running = loop()
  return {
    wake,
    signal,
    states: () => ({ [name]: state }),
    async stop() {
      unsubscribe?.()
      leave()
      stopping.abort()
      wake()
      await running
      state = 'stopped'
    },
  }
}
