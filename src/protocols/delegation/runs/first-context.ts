// The context that a new run begins with: every amendment of its task so far, and the person who answers for its agents. An agent never
// works for itself through others.
import { Refusal } from '#kernel/declare/errors.ts'
import { limits } from '#kernel/limits.ts'
import type { Read } from '#kernel/declare/operation.ts'
import { kindOf } from '#kernel/declare/schema.ts'
import { Run, taskDoc } from '../schema.ts'
import { isActive } from '../states.ts'

type Amendment = { readonly id: string; readonly text: string; readonly intent: string; readonly by: string; readonly at: string }

/** The steering log of a task, oldest first. The task is read with it: an amendment that comes meanwhile changes that. */
export async function amendmentsOf(read: Read, task_id: string | null): Promise<Amendment[]> {
  const task = task_id === null ? null : ((await read.raw(taskDoc(), task_id)) as { amendments: number } | null)
  if (task_id === null || task === null || task.amendments === 0) return []
  const kind = kindOf('collaboration.amendment/')
  const listed = await read.list(kind, 'task', [[task_id]], { limit: limits.amendmentsPerTaskMax })
  const found = (await Promise.all(listed.map(({ id }) => read.raw(kind, id)))) as (Amendment | null)[]
  return found.filter((one) => one !== null).map(({ id, text, intent, by, at }) => ({ id, text, intent, by, at }))
}

type EndedPart = { readonly task_id: string; readonly outcome: string }
type Part = { readonly state: string; readonly outcome: string | null }

/** The tasks below that have ended, and how: a part may end while no run of the task is there to be told. */
export async function endedPartsOf(read: Read, task_id: string | null): Promise<EndedPart[]> {
  const task = task_id === null ? null : ((await read.raw(taskDoc(), task_id)) as { children: readonly string[] } | null)
  const ended: EndedPart[] = []
  for (const id of task?.children ?? []) {
    const part = (await read.raw(taskDoc(), id)) as Part | null
    if (part?.state === 'completed' || part?.state === 'rejected') ended.push({ task_id: id, outcome: part.outcome ?? part.state })
  }
  return ended
}

export async function ownersOf(read: Read, agents: readonly string[]): Promise<string[]> {
  const found = await Promise.all([...new Set(agents)].map((id) => read.subject(id)))
  return [...new Set(found.flatMap((subject) => subject?.owner ?? []))]
}

/** An agent that waits for the work already, here or through a task above, is not given it. */
export async function refuseCycle(read: Read, parent: Run | null, agent_id: string): Promise<void> {
  if (parent === null) return
  const above = [...parent.chain, { run_id: parent.id, agent_id: parent.agent_id }].filter((one) => one.agent_id === agent_id)
  for (const { run_id } of above) {
    const run = await read.raw(Run, run_id)
    if (run !== null && isActive(run.state))
      throw new Refusal('DELEGATION_REFUSED', `${agent_id} waits for this work itself (${run_id}): delegate it to another agent`, {
        run_id,
      })
  }
}
