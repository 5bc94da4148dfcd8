// What was found to differ from the record while the server runs: each is told once in the log, and as long as there is one the server is not well.
import type { Found } from '#kernel/store.ts'
import type { WorkerLog } from './worker.ts'

/** As many as are kept; the log has all that were found before. */
const KEPT_MAX = 1_000

export type Findings = {
  add(difference: Found): void
  all(): readonly Found[]
  /** Only what a whole round found stays. */
  replace(differences: readonly Found[]): void
}

export function createFindings(log: WorkerLog): Findings {
  let kept = new Map<string, Found>()
  const idOf = ({ what, how }: Found): string => `${what}: ${how}`
  function add(difference: Found): void {
    const id = idOf(difference)
    if (kept.has(id) || kept.size >= KEPT_MAX) return
    kept.set(id, difference)
    log.error({ what: difference.what }, `differs from the record: ${id}`)
  }
  return {
    add,
    all: () => [...kept.values()],
    replace(differences) {
      const before = kept
      kept = new Map(differences.slice(0, KEPT_MAX).map((difference) => [idOf(difference), difference]))
      for (const [id, { what }] of kept) if (!before.has(id)) log.error({ what }, `differs from the record: ${id}`)
    },
  }
}
