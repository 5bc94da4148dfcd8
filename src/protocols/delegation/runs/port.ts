// The kernel's port of runs and cards for other protocols.
import type { Runs } from '#kernel/ports/runs.ts'
import { Card, Mailbox, Run, Work } from '../schema.ts'

export const runs: Runs = {
  run: (read, id) => read.raw(Run, id),
  work: (read, task_id) => read.raw(Work, task_id),
  card: (read, agent_id) => read.raw(Card, agent_id),
  running: (read, agent_id) => read.count(Run, 'agent', [agent_id, 'running']),
  attempt: async (read, run_id) => (await read.raw(Mailbox, run_id))?.attempt ?? null,
}
