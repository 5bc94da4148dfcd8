// The anchor: the last seal of the record that this server has seen, in a file outside of the database. A database that was put back to an
// earlier state has valid seals, and lacks this one.
import { rmSync } from 'node:fs'
import type { Difference } from '#kernel/log/hash-chain.ts'
import type { Clock } from '#kernel/ports/clock.ts'
import type { Store } from '#kernel/log/store.ts'
import { runLoop } from '#workers/loop.ts'
import type { Worker, WorkerLog } from '#workers/worker.ts'
import { readText, writeAtomically } from './small-files.ts'

export type Anchor = {
  /** The name of the key that the record is sealed with. */
  readonly key: string
  readonly position: number
  readonly tag: string
  /** The operator restored a backup: the next start takes the record as it is, and says so on it. */
  readonly accepted?: true
}

export type AnchorFile = {
  readonly path: string
  /** Null: there is none that can be read. */
  read(): Promise<Anchor | null>
  write(anchor: Anchor): Promise<void>
  remove(): void
}

export function anchorFile(path: string): AnchorFile {
  return {
    path,
    async read() {
      try {
        const { key, position, tag, accepted } = JSON.parse((await readText(path)) ?? 'null') as Anchor
        const isAnchor = typeof key === 'string' && Number.isSafeInteger(position) && typeof tag === 'string'
        return isAnchor ? { key, position, tag, ...(accepted === true ? { accepted } : {}) } : null
      } catch {
        return null
      }
    },
    write: (anchor) => writeAtomically(path, `${JSON.stringify(anchor)}\n`),
    remove: () => rmSync(path, { force: true }),
  }
}

/** How the record lacks what this server has seen, or null. */
export async function differenceFromAnchor(store: Store, { key, position, tag }: Anchor, serverKey: string): Promise<Difference | null> {
  const wrong = (what: string): Difference => ({ scope: 'all', seq: position, what })
  if (key !== serverKey) return wrong(`its key is ${serverKey}, and this server has seen a record under the key ${key}`)
  const [seal] = await store.seals(position - 1, 1)
  if (seal?.last === position && seal.tag === tag) return null
  const last = await store.position()
  return wrong(
    last < position
      ? `it ends at position ${last}, and this server has seen position ${position}: it was put back to an earlier state`
      : `the seal of position ${position} is not the one that this server has seen`,
  )
}

const WRITE_MS = 5_000

/** Writes the anchor again and again, and at a stop. */
export function keepAnchor(store: Store, file: AnchorFile, key: string, clock: Clock, log: WorkerLog): Worker {
  let written = ''
  async function write(): Promise<void> {
    const { position, tag } = store.sealed()
    if (position === 0 || tag === written) return
    await file.write({ key, position, tag })
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
