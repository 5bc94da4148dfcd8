// The context that a new run begins with: every amendment of its task so far, and the person responsible for its agents. An agent never
// works for itself through others.
import { Refusal } from '#kernel/declare/errors.ts'
import type { Read } from '#kernel/declare/operation.ts'
import type { KnownAmendment } from '#kernel/ports/tasks.ts'
import { Run } from '../schema.ts'
import { isActive } from '../states.ts'

/** The steering log of a task, oldest first. */
export async function amendmentsOf(read: Read, task_id: string | null): Promise<KnownAmendment[]> {
  const found = task_id === null ? [] : await read.ports.tasks.amendments(read, task_id)
  return found.map(({ id, text, intent, by, at }) => ({ id, text, intent, by, at }))
}

type EndedPart = { readonly task_id: string; readonly outcome: string }

/** Ended child tasks and their outcomes: a child can end while the task has no run to notify. */
export async function endedPartsOf(read: Read, task_id: string | null): Promise<EndedPart[]> {
  const { tasks } = read.ports
  const task = task_id === null ? null : await tasks.task(read, task_id)
  const ended: EndedPart[] = []
  for (const id of task?.children ?? []) {
    const part = await tasks.task(read, id)
    if (part?.state === 'completed' || part?.state === 'rejected') ended.push({ task_id: id, outcome: part.outcome ?? part.state })
  }
  return ended
}

export async function ownersOf(read: Read, agents: readonly string[]): Promise<string[]> {
  const found = await Promise.all([...new Set(agents)].map((id) => read.subject(id)))
  return [...new Set(found.flatMap((subject) => subject?.owner ?? []))]
}

/** Refuses to give work to an agent that already waits for it, here or through a task above. */
export async function refuseCycle(read: Read, parent: Run | null, agent_id: string): Promise<void> {
  if (parent === null) return
  const above = [...parent.chain, { run_id: parent.id, agent_id: parent.agent_id }].filter((run) => run.agent_id === agent_id)
  for (const { run_id } of above) {
    const run = await read.raw(Run, run_id)
    if (run !== null && isActive(run.state))
      throw new Refusal('DELEGATION_REFUSED', `${agent_id} waits for this work itself (${run_id}): delegate it to another agent`, {
        run_id,
      })
  }
}
