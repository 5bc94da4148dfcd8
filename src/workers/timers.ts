// Timers are deliveries to ourselves: when one is due, the system calls an operation.
import type { Clock } from '#kernel/ports/clock.ts'
import { CALL_CHANNEL, type Delivery } from '#kernel/log/outbox-document.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { SYSTEM } from '#kernel/declare/access.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { runOutbox, type Channel } from './outbox.ts'
import { runDue } from './due-documents.ts'
import { isOvertaken } from './late-calls.ts'
import type { Worker, WorkerLog } from './worker.ts'

const BACKOFF_MS_MAX = 60_000
export const timers = (kernel: Kernel, log: WorkerLog): Channel => ({
  name: CALL_CHANNEL,
  ordered: false,
  window: 1,
  lanesMax: 64,
  backoffMs: (attempt) => Math.min(BACKOFF_MS_MAX, 100 * 2 ** attempt),
  async send({ id, body }: Delivery) {
    const { call, input } = body as { call: string; input: object }
    try {
      await kernel.call(call, input, { ...SYSTEM, basis: { kind: 'timer', id } })
    } catch (error) {
      if (!(error instanceof Refusal) || !isOvertaken(kernel, error)) throw error
      // The world has moved on (somebody answered first, the task is gone): there is nothing left to do.
      log.debug({ timer: id, call, code: error.code }, 'a timer came too late to matter')
    }
  },
})

/** Timers that are documents, and documents that are due themselves. */
export function runTimers(kernel: Kernel, clock: Clock, log: WorkerLog): Worker {
  const both = [runOutbox(kernel, timers(kernel, log), clock, log), runDue(kernel, clock, log)]
  return {
    async stop() {
      await Promise.all(both.map((worker) => worker.stop()))
    },
  }
}
