// Laws of every run, written down a second time and apart from the code that is tested: how it moves, whose word it is, and that a task at
// work has exactly one run that its work is with.
import type { MemoryDisk } from '#stores/memory.ts'
import type { Fail, Record as FactRecord, SeenFact } from './record.ts'

const RUN = 'delegation.run/'
const TASK = 'collaboration.task/'

/** Which steps of a run's state each event may show; null: the run is new. */
const steps: Record<string, readonly (readonly [string | null, string])[]> = {
  'run.delegated': [[null, 'running']],
  'run.started': [['running', 'running']],
  'run.progress': [['running', 'running']],
  'run.asked': [['running', 'running']],
  'run.reported': [['running', 'running']],
  'run.steered': [
    ['running', 'running'],
    ['blocked', 'blocked'],
  ],
  'run.blocked': [
    ['running', 'blocked'],
    ['blocked', 'blocked'],
  ],
  'run.resumed': [['blocked', 'running']],
  'run.completed': [
    ['running', 'completed'],
    ['blocked', 'completed'],
  ],
  'run.failed': [
    ['running', 'failed'],
    ['blocked', 'failed'],
  ],
}
const neverChanges = [
  'agent_id',
  'correlation_id',
  'task_id',
  'root_task_id',
  'parent_run',
  'chain',
  'continues',
  'created_at',
  'delegable',
]
const isActive = ({ state }: any): boolean => state === 'running' || state === 'blocked'
const isAtWork = ({ state }: any): boolean => ['assigned', 'in_progress', 'blocked'].includes(state as string)

export type RunLaws = { judge(fact: SeenFact): void; judgeGroup(): void }
/** Whether anybody has ever said that a message of the run is done. */
export type Acknowledged = (run_id: string) => boolean

export function createRunLaws(disk: MemoryDisk, record: FactRecord, isAcknowledged: Acknowledged, fail: Fail): RunLaws {
  const asked = new Set<string>()
  const active = new Map<string, Set<string>>()
  let touched = new Set<string>()
  const docOf = (key: string): any => record.docs.get(key)?.value ?? null
  const checkpointOf = (id: unknown): any => docOf(`collaboration.checkpoint/${String(id)}`)

  function judge(fact: SeenFact): void {
    for (const { key, before, after } of fact.images) {
      if (key.startsWith(TASK)) touched.add(after.id)
      if (!key.startsWith(RUN)) continue
      judgeStep(fact, before, after)
      if (after.task_id !== null) touched.add(after.task_id)
      const runs = active.get(after.correlation_id) ?? new Set()
      active.set(after.correlation_id, runs)
      if (isActive(after)) runs.add(after.id)
      else runs.delete(after.id)
    }
  }

  function judgeStep({ line }: SeenFact, before: any, after: any): void {
    const action = line.action.slice('delegation/'.length)
    const what = `${line.action} on ${after.id}`
    if (action === 'run.blocked') asked.add(after.id)
    const from: string | null = before?.state ?? null
    if (!steps[action]?.some(([a, b]) => a === from && b === after.state)) fail(`${what} takes it from ${from} to ${after.state}`)
    for (const field of neverChanges)
      if (before !== null && JSON.stringify(before[field]) !== JSON.stringify(after[field])) fail(`${what} changes its ${field}`)
    const chain: any[] = after.chain
    const mine = action === 'run.delegated' ? chain.at(-1)?.agent_id : after.agent_id
    const isOthers = line.cause === null && line.actor.startsWith('agent_') && line.actor !== 'agent_system'
    if (isOthers && mine !== undefined && line.actor !== mine && line.actor !== chain.at(-1)?.agent_id) fail(`${what} by ${line.actor}`)
    // Under a task its depth counts, which a person sets back.
    if (after.task_id === null && chain.length > 3) fail(`${what}: delegated ${chain.length} deep`)
    const waits = after.state === 'blocked'
    if (waits && checkpointOf(after.checkpoint_id)?.state !== 'pending') fail(`${what}: it waits for ${after.checkpoint_id}`)
    if (action === 'run.completed' && from === 'blocked' && !isDeliveredByPerson(after)) fail(`${what}: it waited, and nobody delivered`)
    if (action === 'run.resumed') {
      const answered = checkpointOf(before.checkpoint_id)
      if (answered?.state !== 'resolved' || answered.resolution.action === 'reject') fail(`${what} without an answer that lets it go on`)
      if (line.actor !== 'agent_system') fail(`${what} by ${line.actor}: a run was resumed by somebody`)
    }
  }

  function isDeliveredByPerson({ task_id }: any): boolean {
    const { state, delivered } = docOf(`${TASK}${task_id}`)
    const version = docOf(`collaboration.artifact/${delivered?.artifact_id}@${delivered?.version}`)
    return state === 'review_ready' && version.provenance.actor.startsWith('user_')
  }

  function judgeGroup(): void {
    const all = touched
    touched = new Set()
    for (const task_id of all) {
      const task = docOf(`${TASK}${task_id}`)
      if (task !== null) judgeTask(task)
    }
  }

  /** Until somebody says that it is done, or asks its first question, a run can be given to the next process from its beginning. */
  function judgeMailbox({ id, state }: any): void {
    const stored = disk.docs.get(`delegation.mailbox/${id}`)
    if (!stored) return fail(`${id} is ${state} and cannot be told anything`)
    const { messages } = JSON.parse(stored.text) as { messages: { kind: string }[] }
    if (!asked.has(id) && !isAcknowledged(id) && messages[0]?.kind !== 'run') fail(`${id} is under way, and the word to work on it is gone`)
  }

  function judgeTask(task: any): void {
    const runs = [...(active.get(task.id) ?? [])].map((id) => docOf(`${RUN}${id}`))
    for (const run of runs) judgeMailbox(run)
    const roots = runs.filter(({ chain }) => chain.at(-1)?.correlation_id !== task.id)
    if (roots.length > 1) fail(`${task.id} has ${roots.length} active root runs`)
    if (!isAtWork(task) || !task.executor.startsWith('agent_')) {
      if (runs.length > 0) fail(`${task.id} is ${task.state} with ${task.executor}, and ${runs.length} runs are active`)
      return
    }
    const current = runs.find(({ id }) => id === docOf(`delegation.work/${task.id}`)?.current_run)
    const above = runs.filter((run) => run !== current)
    for (const run of above) if (run.state !== 'running') fail(`${run.id} waits for a delegate and is ${run.state}`)
    if (current === undefined) {
      // Its run has failed: the person is asked what to do.
      const asked = checkpointOf(task.pending_checkpoint)
      if (asked?.kind !== 'escalation' || asked.raised_by !== 'agent_system') fail(`${task.id} is ${task.state}, and nobody works on it`)
      return
    }
    if (current.agent_id !== task.executor) fail(`${task.id} is with ${task.executor}, its run with ${current.agent_id}`)
    if (current.state !== (task.state === 'blocked' ? 'blocked' : 'running')) fail(`${task.id} is ${task.state}, its run ${current.state}`)
    if (current.checkpoint_id !== task.pending_checkpoint) fail(`${task.id} waits for ${task.pending_checkpoint}, its run for another`)
    const known = new Set(current.chain.map(({ run_id }: any) => run_id))
    for (const run of above) if (!known.has(run.id)) fail(`${run.id} is active beside ${current.id}, not above it`)
  }

  return { judge, judgeGroup }
}
