// The port of runs: the part of agents' work and cards that other protocols can read.
import type { Read } from '../declare/operation.ts'

export type KnownRun = {
  readonly agent_id: string
  readonly project_id: string
  readonly correlation_id: string
  readonly root_task_id: string | null
  readonly continues: string | null
}
/** The runs that a task has now. */
export type KnownWork = { readonly root_run: string | null; readonly current_run: string | null; readonly last_run: string }
export type KnownCard = { readonly reach: string; readonly available: boolean; readonly concurrency: number | null }

export type Runs = {
  run(read: Read, id: string): Promise<KnownRun | null>
  work(read: Read, task_id: string): Promise<KnownWork | null>
  card(read: Read, agent_id: string): Promise<KnownCard | null>
  /** How many runs of an agent are being worked on. */
  running(read: Read, agent_id: string): Promise<number>
  /** The attempt that a run is in; null: it has no messages. */
  attempt(read: Read, run_id: string): Promise<number | null>
}
