// Laws of parents and children, of agents that are gone, and of the first context of a run, written down a second time.
import type { Fail, Record as FactRecord, SeenFact } from './record.ts'

const TASK = 'collaboration.task/'
const AMENDMENT = 'collaboration.amendment/'
const CHECKPOINT = 'collaboration.checkpoint/'
const RUN = 'delegation.run/'
const atWork = new Set(['created', 'assigned', 'in_progress', 'blocked'])
const isOver = ({ state }: any): boolean => state === 'completed' || state === 'rejected'

/** Whether a task above has ended; a new attempt comes after the rejected task that it names. */
export function hasEndedAbove(record: FactRecord, task: any): boolean {
  for (let below = task; below.parent_task !== null;) {
    const above = record.docs.get(`${TASK}${below.parent_task}`)!.value
    if (isOver(above) && !(above.state === 'rejected' && below.new_attempt === true)) return true
    below = above
  }
  return false
}

export type FamilyLaws = { judge(fact: SeenFact): void; judgeGroup(): void; judgeEnd(): void }

export function createFamilyLaws(record: FactRecord, fail: Fail): FamilyLaws {
  /** Tasks at work, by their root. */
  const active = new Map<string, Set<string>>()
  const said = new Map<string, string[]>()
  /** Interrupts that came with one of a task above. */
  const brought = new Set<string>()
  let answered = new Set<string>()
  let touched = new Set<string>()

  function judge({ line, images }: SeenFact): void {
    for (const { key, before, after } of images) {
      if (key.startsWith(AMENDMENT)) said.set(after.task_id, [...(said.get(after.task_id) ?? []), after.id])
      if (key.startsWith('delegation.request/')) judgeRequest(after)
      if (key.startsWith(CHECKPOINT)) judgeInterrupt(before, after)
      if (!key.startsWith(TASK)) continue
      if (before === null && after.new_attempt && record.docs.get(`${TASK}${after.parent_task}`)?.value.state !== 'rejected')
        fail(`${line.action}: ${after.id} is called a new attempt, and its parent was not rejected`)
      const tasks = active.get(after.root_task_id) ?? new Set()
      active.set(after.root_task_id, tasks)
      if (atWork.has(after.state)) tasks.add(after.id)
      else tasks.delete(after.id)
      touched.add(after.root_task_id)
      if (after.depth > 3) fail(`${line.action} on ${after.id}: delegated ${after.depth} deep`)
    }
  }

  /** An interrupt of a task stops all who work on parts of it; its answer lets them continue. */
  function judgeInterrupt(before: any, { id, kind, task_id, root_task_id, state, resolution, brings = [] }: any): void {
    for (const one of brings as string[]) brought.add(one)
    if (state === 'resolved' && resolution.action !== 'reject') for (const one of brings as string[]) answered.add(one)
    if (before !== null || kind !== 'interrupt' || brought.has(id)) return
    const atWorkBelow = [...(active.get(root_task_id) ?? [])].filter((one) => {
      const task = record.docs.get(`${TASK}${one}`)!.value
      return task.state === 'in_progress' && isBelow(task, task_id)
    })
    if (atWorkBelow.length !== brings.length) fail(`${id} stops ${brings.length} parts, and ${atWorkBelow.join()} are at work`)
  }
  function isBelow({ parent_task }: any, above: string): boolean {
    return parent_task !== null && (parent_task === above || isBelow(record.docs.get(`${TASK}${parent_task}`)!.value, above))
  }

  function judgeRequest({ id, task_id, context }: any): void {
    const had = ((context?.amendments ?? []) as { id: string }[]).map((one) => one.id)
    if (task_id !== null && had.join() !== (said.get(task_id) ?? []).join()) fail(`${id} begins without all that was said about ${task_id}`)
  }

  return {
    judge,
    judgeGroup() {
      for (const root of touched)
        for (const id of active.get(root) ?? []) {
          const task = record.docs.get(`${TASK}${id}`)!.value
          if (hasEndedAbove(record, task)) fail(`${id} is ${task.state} under a task that has ended`)
        }
      touched = new Set()
      for (const id of answered)
        if (record.docs.get(CHECKPOINT + id)!.value.state === 'pending') fail(`${id} waits, and what it came with was answered`)
      answered = new Set()
    },
    judgeEnd() {
      for (const [key, { value }] of record.docs) {
        if (!key.startsWith(RUN) || (value.state !== 'running' && value.state !== 'blocked')) continue
        const { disabled, projects } = record.docs.get(`identity.agent/${value.agent_id}`)!.value
        const isThere = projects.some(({ project_id }: { project_id: string }) => project_id === value.project_id)
        if (disabled || !isThere) fail(`${value.id} is ${value.state}, and ${value.agent_id} is gone`)
      }
    },
  }
}
