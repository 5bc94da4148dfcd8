// Findings: differences from the record. Each is logged and kept over a restart, and as long as there is one the server reports itself
// degraded.
import type { Found } from '#kernel/log/store.ts'
import type { WorkerLog } from '../worker.ts'

/** The stored findings at most; the log has all of them. */
const KEPT_MAX = 1_000

export type FindingsFile = { read(): Promise<readonly Found[]>; write(found: readonly Found[]): Promise<void> }
export type Findings = {
  add(difference: Found): void
  all(): readonly Found[]
  /** Replaces all findings by those of a whole round. */
  replace(differences: readonly Found[]): Promise<void>
  save(): Promise<void>
}

export async function openFindings(file: FindingsFile, log: WorkerLog): Promise<Findings> {
  let kept = new Map<string, Found>()
  let saved = ''
  const idOf = ({ what, how }: Found): string => `${what}: ${how}`
  function add(difference: Found): void {
    const id = idOf(difference)
    if (kept.has(id) || kept.size >= KEPT_MAX) return
    kept.set(id, difference)
    log.error({ what: difference.what }, `this differs from the record: ${id}`)
  }
  async function save(): Promise<void> {
    const text = JSON.stringify([...kept.values()])
    if (text === saved) return
    await file.write([...kept.values()]).catch((error: unknown) => log.warn({ error: String(error) }, 'could not save the findings'))
    saved = text
  }
  for (const difference of await file.read()) add(difference)
  saved = JSON.stringify([...kept.values()])
  return {
    add,
    all: () => [...kept.values()],
    save,
    async replace(differences) {
      const before = kept
      kept = new Map()
      for (const difference of differences) {
        const id = idOf(difference)
        if (before.has(id)) kept.set(id, difference)
        else add(difference)
      }
      await save()
    },
  }
}
