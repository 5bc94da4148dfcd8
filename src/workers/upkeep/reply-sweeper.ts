// Forgets remembered answers whose time is over, so that idempotency keys take a bounded space.
import type { Clock } from '#kernel/ports/clock.ts'
import { SYSTEM } from '#kernel/declare/access.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { SLEEP_MS_MAX, type Worker, type WorkerLog } from '../worker.ts'

/** An hour, counted in sleeps and not by the clock: one that steps back must not stop the sweeping. */
const SLEEPS = 60
/** Between two batches: sweeping must never be what others wait for. */
const REST_MS = 20

export function runSweeper(kernel: Kernel, clock: Clock, log: WorkerLog): Worker {
  const stopping = new AbortController()
  const { signal } = stopping

  async function sweep(): Promise<void> {
    for (let more = true; more && !signal.aborted;) {
      const swept = (await kernel.call('kernel/reply.forget', {}, SYSTEM)) as { forgotten: number; more: boolean }
      more = swept.more
      if (more) await clock.sleep(REST_MS, signal)
    }
  }

  async function loop(): Promise<void> {
    while (!signal.aborted) {
      // Whatever went wrong, the next hour brings the next attempt.
      await sweep().catch((error: unknown) => log.warn({ error: String(error) }, 'old answers could not be swept'))
      for (let i = 0; i < SLEEPS && !signal.aborted; i++) await clock.sleep(SLEEP_MS_MAX, signal)
    }
  }

  const running = loop()
  return {
    async stop() {
      stopping.abort()
      await running
    },
  }
}
