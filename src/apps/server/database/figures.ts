// Figures of a shared database for /metrics: how long commits and barriers take, what others did, and how often an outcome was unknown.
import type { Leases } from '#workers/leases.ts'

const BOUNDS_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5]

type Histogram = { add(seconds: number): void; lines(name: string, help: string): string[] }

export type DatabaseFigures = {
  readonly commit: Histogram
  readonly barrier: Histogram
  unknown(): void
  lines(foreign: number): string[]
}

export function createDatabaseFigures(): DatabaseFigures {
  const commit = createHistogram()
  const barrier = createHistogram()
  let unknown = 0
  return {
    commit,
    barrier,
    unknown: () => void unknown++,
    lines: (foreign) => [
      ...commit.lines('countersign_commit_seconds', 'Time of a group, from its lock to its COMMIT.'),
      ...barrier.lines(
        'countersign_barrier_seconds',
        'Time of a read barrier: the question to the database what other servers have committed.',
      ),
      ...counter('countersign_foreign_groups_total', 'Groups of other servers that this one was told of.', foreign),
      ...counter('countersign_unknown_outcomes_total', 'Commits whose connection was lost before their answer.', unknown),
    ],
  }
}

/** Which server it is, and what it does for all: 1 where it holds the lease. */
export const nodeLines = (node: string, { names, duty }: Leases): string[] => [
  '# HELP countersign_node The server that these figures are of.',
  '# TYPE countersign_node gauge',
  `countersign_node{node="${node}"} 1`,
  ...(names.length === 0 ? [] : ['# HELP countersign_lease Whether this server holds the lease.', '# TYPE countersign_lease gauge']),
  ...names.map((name) => `countersign_lease{name="${name}"} ${duty(name).holds() ? 1 : 0}`),
]

const counter = (name: string, help: string, value: number): string[] => [
  `# HELP ${name} ${help}`,
  `# TYPE ${name} counter`,
  `${name} ${value}`,
]

function createHistogram(): Histogram {
  const buckets = BOUNDS_SECONDS.map(() => 0)
  let [sum, count] = [0, 0]
  return {
    add(seconds) {
      sum += seconds
      count++
      const at = BOUNDS_SECONDS.findIndex((bound) => seconds <= bound)
      if (at !== -1) buckets[at]!++
    },
    lines(name, help) {
      let below = 0
      return [
        `# HELP ${name} ${help}`,
        `# TYPE ${name} histogram`,
        ...buckets.map((n, i) => `${name}_bucket{le="${BOUNDS_SECONDS[i]}"} ${(below += n)}`),
        `${name}_bucket{le="+Inf"} ${count}`,
        `${name}_sum ${sum}`,
        `${name}_count ${count}`,
      ]
    },
  }
}
