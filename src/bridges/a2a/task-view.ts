// A2A tasks as views: a task of a person, or a run that an agent delegated. The state follows the table in docs/a2a.md.
import { limits } from '#kernel/limits.ts'
import type { ArtifactVersion, Checkpoint, Task } from '#protocols/collaboration/schema.ts'
import { delegatorOf, type Run } from '#protocols/delegation/schema.ts'
import { A2aError } from './failures.ts'
import { partOf, partOfResult } from './parts.ts'
import type { TaskState } from './wire.ts'

/** The caller at the door of one agent. */
export type Door = {
  readonly agent_id: string
  readonly actor: { readonly id: string; readonly kind: string }
  /** The address of this server. */
  readonly origin: string
  call(operation: string, input: object, key?: string): Promise<unknown>
}
export type Wanted = { readonly historyLength?: number | undefined; readonly artifacts: boolean }

export type A2aMessage = { readonly messageId: string; readonly role: 'ROLE_USER' | 'ROLE_AGENT'; readonly parts: readonly object[] }
export type A2aArtifact = { readonly artifactId: string; readonly parts: readonly object[] }
export type A2aStatus = { readonly state: TaskState; readonly timestamp: string; readonly message?: A2aMessage }
export type A2aTask = {
  readonly id: string
  readonly contextId: string
  readonly status: A2aStatus
  readonly artifacts?: readonly A2aArtifact[]
  readonly history?: readonly A2aMessage[]
}

const ended = new Set<TaskState>(['TASK_STATE_COMPLETED', 'TASK_STATE_FAILED', 'TASK_STATE_CANCELED', 'TASK_STATE_REJECTED'])
export const isEnded = (state: TaskState): boolean => ended.has(state)
/** The agent waits for an answer. */
export const isInterrupted = (state: TaskState): boolean => state === 'TASK_STATE_INPUT_REQUIRED' || state === 'TASK_STATE_AUTH_REQUIRED'

export const notFound = (id: string): A2aError => new A2aError('TASK_NOT_FOUND', `there is no task ${id}`, { taskId: id })

/** The work of a caller: a task of a person, or a run of an agent. Its id shows which. */
export type Found =
  | { readonly kind: 'task'; readonly task: Task }
  | { readonly kind: 'run'; readonly run: Run; readonly message: FirstMessage }
type FirstMessage = { readonly context_id: string; readonly message_id: string; readonly parts: readonly object[] }

export const isRunId = (id: string): boolean => id.startsWith('run_')

/** The caller's own work that came over A2A. All other work is reported as absent. */
export async function findWork(door: Door, id: string): Promise<Found> {
  if (isRunId(id)) {
    const { run, request } = (await door.call('delegation/run.get', { run_id: id })) as { run: Run; request: { input: object } }
    const message = (request.input as { a2a?: FirstMessage }).a2a
    if (message === undefined || run.agent_id !== door.agent_id || delegatorOf(run) !== door.actor.id) throw notFound(id)
    return { kind: 'run', run, message }
  }
  const { task } = (await door.call('collaboration/task.get', { task_id: id })) as { task: Task }
  if (!isOfDoor(door, task)) throw notFound(id)
  return { kind: 'task', task }
}
/** The caller's own: a reviewer or an owner of the project reads the task elsewhere. */
export const isOfDoor = ({ agent_id, actor }: Pick<Door, 'agent_id' | 'actor'>, { origin, executors, ownership }: Task): boolean =>
  origin?.protocol === 'a2a' && ownership.principal === actor.id && (executors.length === 0 || executors[0] === agent_id)

export const contextOf = (found: Found): string => (found.kind === 'task' ? found.task.origin!.context_id : found.message.context_id)

const agentMessage = (messageId: string, text: string): A2aMessage => ({ messageId, role: 'ROLE_AGENT', parts: [{ text }] })
const latest = (...times: readonly (string | null | undefined)[]): string => times.reduce<string>((a, b) => (b && b > a ? b : a), '')

const settled: Readonly<Partial<Record<Task['state'], TaskState>>> = {
  created: 'TASK_STATE_SUBMITTED',
  assigned: 'TASK_STATE_SUBMITTED',
  blocked: 'TASK_STATE_AUTH_REQUIRED',
  rejected: 'TASK_STATE_REJECTED',
}

/** The state of a task with the agent's message. Runs are read only if the task does not determine the state. */
async function statusOfTask(door: Door, task: Task): Promise<A2aStatus> {
  const at = latest(task.created_at, task.ownership.chain.at(-1)?.at)
  const runs = async (state: 'running' | 'failed'): Promise<Run[]> =>
    ((await door.call('delegation/run.list', { task_id: task.id, state })) as { items: Run[] }).items
  if (task.state === 'in_progress' || task.state === 'assigned') {
    const run = (await runs('running')).at(-1)
    if (run !== undefined && run.asked !== undefined) return statusOfRunning(run, at)
    return task.state === 'assigned' || run === undefined
      ? { state: task.state === 'assigned' ? 'TASK_STATE_SUBMITTED' : 'TASK_STATE_WORKING', timestamp: at }
      : statusOfRunning(run, at)
  }
  if (task.state === 'blocked') return { state: 'TASK_STATE_AUTH_REQUIRED', timestamp: at, ...(await questionOf(door, task)) }
  if (task.state !== 'completed') return { state: settled[task.state] ?? 'TASK_STATE_WORKING', timestamp: at }
  if (task.outcome === 'accepted') return { state: 'TASK_STATE_COMPLETED', timestamp: at }
  if (task.outcome === 'cancelled') return { state: 'TASK_STATE_CANCELED', timestamp: at }
  // A person ended it at a question. If the question was about a run that failed, the work has failed.
  const failed = (await runs('failed')).findLast(({ reason }) => reason === 'failed' || reason === 'unreachable')
  if (failed === undefined) return { state: 'TASK_STATE_REJECTED', timestamp: at, ...reasonOf(task) }
  return { state: 'TASK_STATE_FAILED', timestamp: at, message: agentMessage(`${failed.id}-failed`, failed.error ?? 'the agent failed') }
}

const reasonOf = ({ id, outcome_reason }: Task): Pick<A2aStatus, 'message'> =>
  outcome_reason === null || outcome_reason === '' ? {} : { message: agentMessage(`${id}-rejected`, outcome_reason) }

/** People decide here: the caller gets the question, and a note that its messages are no answer. */
async function questionOf(door: Door, { pending_checkpoint }: Task): Promise<Pick<A2aStatus, 'message'>> {
  if (pending_checkpoint === null) return {}
  const { checkpoint } = (await door.call('collaboration/checkpoint.get', { checkpoint_id: pending_checkpoint })) as {
    checkpoint: Checkpoint
  }
  return { message: agentMessage(checkpoint.id, `A person decides here: ${checkpoint.prompt}`) }
}

function statusOfRunning({ id, asked, progress, started_at }: Run, since = ''): A2aStatus {
  const timestamp = latest(since, started_at, asked?.at, progress?.at)
  if (asked !== undefined)
    return { state: 'TASK_STATE_INPUT_REQUIRED', timestamp, message: agentMessage(`${id}-${asked.at}`, asked.message) }
  const report = progress?.message ? { message: agentMessage(`${id}-${progress.at}`, progress.message) } : {}
  return { state: 'TASK_STATE_WORKING', timestamp, ...report }
}

function statusOfRun(run: Run): A2aStatus {
  const at = latest(run.created_at, run.started_at, run.ended_at)
  if (run.state === 'running')
    return run.started_at === null && run.asked === undefined ? { state: 'TASK_STATE_SUBMITTED', timestamp: at } : statusOfRunning(run, at)
  if (run.state === 'blocked') return { state: 'TASK_STATE_AUTH_REQUIRED', timestamp: at }
  if (run.state === 'completed') return { state: 'TASK_STATE_COMPLETED', timestamp: at }
  const state = run.reason === 'cancelled' ? 'TASK_STATE_CANCELED' : run.reason === 'refused' ? 'TASK_STATE_REJECTED' : 'TASK_STATE_FAILED'
  return { state, timestamp: at, ...(run.error ? { message: agentMessage(`${run.id}-ended`, run.error) } : {}) }
}

export const statusIn = (door: Door, found: Found): Promise<A2aStatus> | A2aStatus =>
  found.kind === 'task' ? statusOfTask(door, found.task) : statusOfRun(found.run)

/** The newest version of each artifact, without plans, which only reviewers see. */
async function artifactsOf(door: Door, found: Found): Promise<A2aArtifact[]> {
  if (found.kind === 'run') {
    const { id, result } = found.run
    return result === null || result === undefined ? [] : [{ artifactId: `${id}-result`, parts: [partOfResult(result)] }]
  }
  const read = async (artifact_id: string): Promise<ArtifactVersion> =>
    ((await door.call('collaboration/artifact.get', { artifact_id, limit: 1 })) as { artifact: ArtifactVersion }).artifact
  const versions = await Promise.all(found.task.artifacts.map(read))
  return versions
    .filter(({ kind }) => kind === 'deliverable')
    .map(({ id, type, version, payload }) => {
      const query = new URLSearchParams({ artifact_id: id, version })
      const part = partOf(payload, type, () => `${door.origin}/v1/collaboration/artifact.download?${query.toString()}`)
      return { artifactId: id, name: type, parts: [part], metadata: { version } }
    })
}

type Steering = { readonly items: readonly { readonly id: string; readonly text: string }[]; readonly next_cursor: string | null }

/** The first message and those after it, oldest first; of many the newest. */
async function historyOf(door: Door, found: Found, most: number): Promise<A2aMessage[]> {
  if (found.kind === 'run') return [{ messageId: found.message.message_id, role: 'ROLE_USER', parts: found.message.parts }]
  const { task } = found
  const files = task.spec.inputs.flatMap(({ id, uri }) => (uri === undefined ? [] : [{ url: uri, filename: id }]))
  const first: A2aMessage = { messageId: task.origin!.message_id, role: 'ROLE_USER', parts: [{ text: task.spec.goal }, ...files] }
  const later: A2aMessage[] = []
  for (let cursor: string | null = null; task.amendments > 0;) {
    const page = (await door.call('collaboration/task.steering', { task_id: task.id, ...(cursor ? { cursor } : {}) })) as Steering
    for (const { id, text } of page.items) later.push({ messageId: id, role: 'ROLE_USER', parts: [{ text }] })
    if (later.length > most) later.splice(0, later.length - most)
    cursor = page.next_cursor
    if (cursor === null) break
  }
  return [first, ...later].slice(-most)
}

export async function viewOf(door: Door, found: Found, { historyLength, artifacts }: Wanted): Promise<A2aTask> {
  const id = found.kind === 'task' ? found.task.id : found.run.id
  const contextId = contextOf(found)
  const most = Math.min(historyLength ?? limits.a2aHistoryMax, limits.a2aHistoryMax)
  const [status, delivered, history] = await Promise.all([
    statusIn(door, found),
    artifacts ? artifactsOf(door, found) : [],
    most === 0 ? [] : historyOf(door, found, most),
  ])
  return {
    id,
    contextId,
    status,
    ...(delivered.length > 0 ? { artifacts: delivered } : {}),
    ...(history.length > 0 ? { history: history.map((entry) => ({ ...entry, taskId: id, contextId })) } : {}),
  }
}
