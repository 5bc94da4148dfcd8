// Signed checkpoints of the audit: at least every thousand lines and at a stop, so that a file that was cut off is found out.
import { SYSTEM } from '#kernel/declare/access.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { limits } from '#kernel/limits.ts'
import type { Worker, WorkerLog } from '#workers/worker.ts'
import type { AuditFile } from './audit-file.ts'
import type { DeviceKey } from './device-key.ts'

/** Well below the promised number: lines are added while a checkpoint is written. */
const EVERY = limits.auditCheckpointLines / 4

export type Checkpoints = Worker & { now(): Promise<void> }

export function runCheckpoints(kernel: Kernel, device_id: string, key: DeviceKey, audit: AuditFile, log: WorkerLog): Checkpoints {
  let last = 0
  let underWay: Promise<void> | null = null
  async function checkpoint(): Promise<void> {
    const { seq, hash } = audit.head()
    await kernel.call('hardware/audit.checkpoint', { jws: key.sign({ device_id, seq, hash }) }, SYSTEM)
    last = audit.stats.lines
  }
  const leave = kernel.store.subscribe(() => {
    if (underWay !== null || audit.stats.lines - last < EVERY) return
    underWay = checkpoint()
      .catch((error: unknown) =>
        log.warn({ error: String(error) }, 'a checkpoint of the audit could not be written; the next one is tried soon'),
      )
      .finally(() => (underWay = null))
  })
  return {
    now: checkpoint,
    async stop() {
      leave()
      await underWay
    },
  }
}
