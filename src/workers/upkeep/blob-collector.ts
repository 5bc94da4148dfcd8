// The blob collector: it removes unreferenced bytes, such as uploads that were refused, forgotten, or never followed by their call.
import type { Blobs, Stored } from '#kernel/ports/blobs.ts'
import type { Clock } from '#kernel/ports/clock.ts'
import { limits } from '#kernel/limits.ts'
import { prefixOf, type AnyDoc } from '#kernel/declare/schema.ts'
import type { Store } from '#kernel/log/store.ts'
import { Upload } from '#protocols/collaboration/artifact/uploads.ts'
import { File } from '#protocols/execution/answering/file.ts'
import { ALONE, type Duty } from '../leases.ts'
import { runLoop } from '../loop.ts'
import { SLEEP_MS_MAX, type Worker, type WorkerLog } from '../worker.ts'

/** Six hours, counted in sleeps and not by the clock: a clock that steps back must not stop the collecting. */
const EVERY_MS = 360 * SLEEP_MS_MAX
const SLICE = 100
/** The rest between two slices: collecting must not delay other work. */
const REST_MS = 20

export function runBlobCollector(store: Store, blobs: Blobs, clock: Clock, log: WorkerLog, duty: Duty = ALONE): Worker {
  return runLoop({
    name: 'collector',
    clock,
    log,
    duty,
    failed: 'could not remove unreferenced bytes',
    failedMs: EVERY_MS,
    async turn(signal) {
      const removed = await collect(store, blobs, clock, signal)
      if (removed > 0) log.info({ removed }, 'removed unreferenced bytes')
      return EVERY_MS
    },
  })
}

/** One round over all bytes; returns the number of removed blobs. */
export async function collect(store: Store, blobs: Blobs, clock: Clock, signal: AbortSignal): Promise<number> {
  const isHeldBy = async (holder: AnyDoc, checksum: string): Promise<boolean> =>
    (await store.count(prefixOf(holder, 'held', [checksum]))) > 0
  const isUnused = async (checksum: string): Promise<boolean> => {
    // Another server might have added a reference since.
    await store.fresh()
    return !(await isHeldBy(Upload, checksum)) && !(await isHeldBy(File, checksum))
  }
  let removed = 0
  let slice: Stored[] = []
  do {
    slice = await blobs.list(slice.at(-1)?.checksum ?? null, SLICE)
    // The age skips new uploads. References are checked again while none can be added.
    const old = slice.filter(({ at }) => at < clock.now() - limits.uploadMs)
    for (const { checksum } of old) {
      if (signal.aborted) return removed
      if (await isUnused(checksum)) removed += Number(await blobs.remove(checksum, () => isUnused(checksum)))
    }
    if (slice.length === SLICE) await clock.sleep(REST_MS, signal)
  } while (slice.length === SLICE && !signal.aborted)
  return removed
}
