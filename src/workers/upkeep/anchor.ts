// The keeper of the anchor: it writes the last durable seal to a file outside of the database, every few seconds and at a stop.
import type { Clock } from '#kernel/ports/clock.ts'
import type { Store } from '#kernel/log/store.ts'
import { runLoop } from '../loop.ts'
import type { Worker, WorkerLog } from '../worker.ts'

export type AnchorKeeping = {
  readonly path: string
  /** `key`: the name of the key that the record is sealed with. */
  write(anchor: { readonly key: string; readonly position: number; readonly tag: string }): Promise<void>
}

const WRITE_MS = 5_000

type Options = {
  readonly clock: Clock
  readonly log: WorkerLog
  /** Called after the first write of the anchor. */
  first(): void
}

export function keepAnchor(store: Store, file: AnchorKeeping, key: string, { clock, log, first }: Options): Worker {
  let written = ''
  async function write(): Promise<void> {
    const { position, tag } = store.sealed()
    if (position === 0 || tag === written) return
    await file.write({ key, position, tag })
    if (written === '') first()
    written = tag
  }
  const loop = runLoop({
    name: 'anchor',
    clock,
    log,
    failed: `${file.path} could not be written; trying again`,
    failedMs: WRITE_MS,
    async turn() {
      await write()
      return WRITE_MS
    },
  })
  return {
    ...loop,
    async stop() {
      await loop.stop()
      await write().catch((error: unknown) => log.warn({ error: String(error) }, `${file.path} could not be written`))
    },
  }
}
