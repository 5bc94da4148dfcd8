// Figures of a shared database for /metrics: how long commits and barriers take, what others did, and how often an outcome was unknown.
import type { Leases } from '#workers/leases.ts'
import { createHistogram, gauge, labelsOf, type Histogram } from '#workers/upkeep/metric-lines.ts'

const BOUNDS_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5]

export type DatabaseFigures = {
  readonly commit: Histogram
  readonly barrier: Histogram
  unknown(): void
  lines(foreign: number): string[]
}

export function createDatabaseFigures(): DatabaseFigures {
  const commit = createHistogram(BOUNDS_SECONDS)
  const barrier = createHistogram(BOUNDS_SECONDS)
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
      ...counter('countersign_foreign_groups_total', 'Groups of other servers that this server was notified of.', foreign),
      ...counter('countersign_unknown_outcomes_total', 'Commits whose connection was lost before their answer.', unknown),
    ],
  }
}

export const releaseLines = (version: string, store: string): string[] =>
  gauge('countersign_info', 'The release that these figures are of.', [[labelsOf({ version, store }), 1]])

/** The name of this server, and its duties for all servers: 1 if it holds the lease. */
export const nodeLines = (node: string, { names, duty }: Pick<Leases, 'names' | 'duty'>): string[] => [
  ...gauge('countersign_node', 'The server that these figures are of.', [[`{node="${node}"}`, 1]]),
  ...(names.length === 0
    ? []
    : gauge(
        'countersign_lease',
        'Whether this server holds the lease.',
        names.map((name) => [`{name="${name}"}`, duty(name).holds() ? 1 : 0]),
      )),
]

/** How far this server has verified the record, and whether it found a difference. */
export const recordLines = (position: number, isChanged: boolean): string[] => [
  ...gauge('countersign_record_verified_position', 'Position up to which this server has verified the record.', [['', position]]),
  ...gauge('countersign_record_changed', 'Whether a difference from the record was found.', [['', isChanged ? 1 : 0]]),
]

const counter = (name: string, help: string, value: number): string[] => [
  `# HELP ${name} ${help}`,
  `# TYPE ${name} counter`,
  `${name} ${value}`,
]
