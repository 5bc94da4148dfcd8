// The sweeper of expired remembered answers, so that idempotency keys take bounded space.
import type { Clock } from '#kernel/ports/clock.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { ALONE, type Duty } from '../leases.ts'
import { runLoop } from '../loop.ts'
import { SLEEP_MS_MAX, type Worker, type WorkerLog } from '../worker.ts'

/** An hour, counted in sleeps and not by the clock: a clock that steps back must not stop the sweeping. */
const EVERY_MS = 60 * SLEEP_MS_MAX
/** The rest between two batches: sweeping must not delay other work. */
const REST_MS = 20

export function runReplySweeper(kernel: Kernel, clock: Clock, log: WorkerLog, duty: Duty = ALONE): Worker {
  return runLoop({
    name: 'sweeper',
    clock,
    log,
    duty,
    failed: 'could not remove old answers',
    failedMs: EVERY_MS,
    async turn(signal) {
      for (let more = true; more && !signal.aborted;) {
        const swept = (await kernel.call('kernel/reply.forget', {}, duty.as())) as { forgotten: number; more: boolean }
        more = swept.more
        if (more) await clock.sleep(REST_MS, signal)
      }
      return EVERY_MS
    },
  })
}
