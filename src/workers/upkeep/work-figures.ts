// Figures of the work for /metrics: open items, tasks, runs and failed deliveries. Facts of this and of other servers
// keep them up to date; documents that were there before are read once, when the figures are first asked for.
import { END, idIn, keyOf, prefixOf } from '#kernel/declare/schema.ts'
import type { Kernel } from '#kernel/kernel.ts'
import type { Key, Sealed, Value } from '#kernel/log/store.ts'
import { isTerminal } from '#protocols/collaboration/states.ts'
import { Task } from '#protocols/collaboration/schema.ts'
import { Run } from '#protocols/delegation/schema.ts'
import { isActive } from '#protocols/delegation/states.ts'
import { asksOf } from '#protocols/execution/inbox/item.ts'
import { isOpen, Request } from '#protocols/execution/schema.ts'
import { counter, gauge, labelsOf } from './metric-lines.ts'
import { readSound } from './sound-documents.ts'

const PAGE = 500

type Family = 'items' | 'tasks' | 'runs'
const kinds: readonly (readonly [string, Family])[] = [
  [keyOf(Request, ''), 'items'],
  [keyOf(Task, ''), 'tasks'],
  [keyOf(Run, ''), 'runs'],
]
const familyOf = (key: Key): Family | null => kinds.find(([prefix]) => key.startsWith(prefix))?.[1] ?? null

/** `[project, state]` and the id: the index entry tells whether a document has ended, so it is not read. */
const stateIn = (entry: string): string => entry.split('\0').at(-2)!
const sources = [
  { kind: Request, family: 'items', index: 'open', counts: () => true },
  { kind: Task, family: 'tasks', index: 'state', counts: (entry: string) => !isTerminal(stateIn(entry)) },
  { kind: Run, family: 'runs', index: 'project', counts: (entry: string) => isActive(stateIn(entry)) },
] as const

type Open = { readonly labels: string; readonly since: number | null }

export type WorkFigures = {
  lines(): Promise<string[]>
  /** Counts a failed attempt to deliver something. */
  failed(kind: string): void
  stop(): void
}

export function keepWorkFigures({ store, tail, now }: Kernel, agentsConnected: () => number): WorkFigures {
  const families = { items: new Map<Key, Open>(), tasks: new Map<Key, Open>(), runs: new Map<Key, Open>() }
  /** Keys that facts have updated while older documents are still being read. */
  const updated = new Set<Key>()
  const failures = new Map<string, number>()
  let loading: Promise<void> | null = null
  let isLoaded = false

  function take(key: Key, value: Value): void {
    const family = familyOf(key)
    if (family === null || loading === null) return
    const open = openOf(family, value)
    if (open === null) families[family].delete(key)
    else families[family].set(key, open)
    if (!isLoaded) updated.add(key)
  }

  const leave = tail.follow(
    (facts: readonly Sealed[]) => {
      for (const { fact } of facts) for (const { key, value } of fact.images) take(key, value)
    },
    (hint) => hint.keys === 'all' || hint.keys.some((key) => familyOf(key) !== null),
  )

  async function load(): Promise<void> {
    for (const { kind, family, index, counts } of sources)
      for (let after = prefixOf(kind, index, []); ;) {
        const entries = await store.scan(after, prefixOf(kind, index, []) + END, PAGE)
        const keys = [...new Set(entries.filter(counts).map((entry) => keyOf(kind, idIn(entry))))]
        for (const { value } of await readSound(store, keys)) {
          const key = keyOf(kind, (value as { id: string }).id)
          const open = updated.has(key) ? null : openOf(family, value)
          if (open !== null) families[family].set(key, open)
        }
        if (entries.length < PAGE) break
        after = entries.at(-1)!
      }
    isLoaded = true
    updated.clear()
  }

  async function lines(): Promise<string[]> {
    await (loading ??= load().catch((error: unknown) => {
      loading = null
      for (const family of Object.values(families)) family.clear()
      updated.clear()
      throw error
    }))
    let oldest = now()
    for (const { since } of families.items.values()) oldest = Math.min(oldest, since ?? oldest)
    return [
      ...gauge('countersign_items_open', 'Open items of all inboxes.', talliedIn(families.items)),
      ...gauge('countersign_item_oldest_seconds', 'Age of the oldest open item.', [['', (now() - oldest) / 1_000]]),
      ...gauge('countersign_tasks', 'Tasks that have not ended, by state.', talliedIn(families.tasks)),
      ...gauge('countersign_runs', 'Runs that have not ended, by state.', talliedIn(families.runs)),
      ...gauge('countersign_agents_connected', 'Agents that called or listened within the last moments.', [['', agentsConnected()]]),
      ...counter('countersign_deliveries_failed_total', 'Failed attempts to deliver, by kind.', 'kind', failures),
    ]
  }

  return { lines, failed: (kind) => void failures.set(kind, (failures.get(kind) ?? 0) + 1), stop: leave }
}

/** The labels that a document counts under now; null: it has ended. */
function openOf(family: Family, value: Value): Open | null {
  if (family === 'items') {
    const request = value as Request
    if (!isOpen(request)) return null
    const kind = asksOf(request)
    const labels = labelsOf({ kind, risk: request.risk ?? 'none', project: request.project_id })
    return { labels, since: Date.parse(request.created_at) }
  }
  const { state, project_id } = value as Task | Run
  const counts = family === 'tasks' ? !isTerminal(state) : isActive(state)
  return counts ? { labels: labelsOf({ state, project: project_id }), since: null } : null
}

function talliedIn(family: ReadonlyMap<Key, Open>): [string, number][] {
  const tally = new Map<string, number>()
  for (const { labels } of family.values()) tally.set(labels, (tally.get(labels) ?? 0) + 1)
  return [...tally].sort(([one], [other]) => (one < other ? -1 : 1))
}
