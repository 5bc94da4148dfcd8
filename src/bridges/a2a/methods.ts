// The methods of A2A as calls of operations: with the caller's credential and without rules of the bridge.
import { canonical } from '#kernel/log/canonical-json.ts'
import { sha256 } from '#kernel/log/hash-chain.ts'
import { limits } from '#kernel/limits.ts'
import type { Task } from '#protocols/collaboration/schema.ts'
import type { Run } from '#protocols/delegation/schema.ts'
import { A2aError } from './failures.ts'
import { saidIn, type Said } from './parts.ts'
import { contextOf, findWork, isEnded, isOfDoor, isRunId, statusIn, viewOf, type A2aTask, type Door, type Found } from './task-view.ts'
import { refuseTarget, setPush } from './push-configs.ts'
import { requestIn, requests, type Message } from './wire.ts'

/** A caller's door, with the projects in which it and the agent are. */
export type Entrance = Door & {
  readonly projects: readonly string[]
  /** Notifications are posted to public addresses over https alone. */
  readonly isPublicOnly: boolean
}

/**
 * The idempotency key of a message: a repeated message changes nothing and gets the same task. Some clients use an id for several messages, so
 * the content counts as well.
 */
const keyOf = ({ agent_id }: Door, message: Message): string => `a2a-${sha256(`${agent_id} ${canonical(message)}`)}`

/** The project of new work: the tenant, or the project that caller and agent share. */
function projectOf({ projects }: Entrance, tenant: string | undefined): string {
  if (tenant === undefined || tenant === '') {
    if (projects.length === 1 || projects.includes('project_default')) return projects.length === 1 ? projects[0]! : 'project_default'
    if (projects.length > 1)
      throw new A2aError('INVALID_PARAMS', `name one of your projects as tenant: ${projects.join(', ')}`, { field: 'tenant' })
  } else if (projects.includes(tenant)) return tenant
  throw new A2aError('PERMISSION_DENIED', 'your credential gives no work to this agent: you share no such project with it')
}

async function create(door: Entrance, tenant: string | undefined, message: Message, content: Said): Promise<string> {
  const key = keyOf(door, message)
  const project_id = projectOf(door, tenant)
  // The same message again must be the same input, so a name that the server chooses follows from the message.
  const context_id = message.contextId || `ctx_${sha256(`${door.actor.id} ${key}`).slice(0, 32)}`
  if (content.text.trim() === '')
    throw new A2aError('INVALID_PARAMS', 'message.parts must have text: it becomes the goal', { field: 'message.parts' })
  if (door.actor.kind === 'agent') {
    const a2a = { context_id, message_id: message.messageId, parts: message.parts }
    const input = { goal: content.text, inputs: content.files, a2a }
    const { run } = (await door.call('delegation/agent.delegate', { to_agent: door.agent_id, project_id, input }, key)) as { run: Run }
    return run.id
  }
  const origin = { protocol: 'a2a', context_id, message_id: message.messageId }
  const spec = { goal: content.text, ...(content.files.length > 0 ? { inputs: content.files } : {}) }
  const { task } = (await door.call('collaboration/task.create', { project_id, type: 'a2a', spec, origin }, key)) as { task: Task }
  await door.call('collaboration/task.assign', { task_id: task.id, assignee: door.agent_id }, `${key}-assign`)
  return task.id
}

/** A message to existing work. While people decide, it is a comment for the agent; it never answers their question. */
async function amend(door: Entrance, found: Found, message: Message, { text, files }: Said): Promise<string> {
  const { contextId } = message
  if (contextId && contextId !== contextOf(found))
    throw new A2aError('INVALID_PARAMS', 'message.contextId is not the context of the task', { field: 'message.contextId' })
  const { state } = await statusIn(door, found)
  if (isEnded(state)) throw new A2aError('UNSUPPORTED_OPERATION', 'the task has ended: send a message without taskId for a new one')
  const comment = [text, ...files.map(({ uri }) => uri)].filter((word) => word !== '').join('\n\n')
  const key = keyOf(door, message)
  if (found.kind === 'run') {
    await door.call('delegation/agent.steer', { run_id: found.run.id, text: comment }, key)
    return found.run.id
  }
  await door.call('collaboration/task.amend', { task_id: found.task.id, text: comment, intent: 'clarify' }, key)
  return found.task.id
}

export type Sent = { readonly id: string; readonly historyLength: number | undefined; readonly waits: boolean }

export async function sendMessage(door: Entrance, params: unknown): Promise<Sent> {
  const { tenant, message, configuration = {} } = requestIn(requests.SendMessage, params)
  const { taskPushNotificationConfig: push } = configuration
  // Before there is a task that a wrong address would leave behind.
  if (push !== undefined) refuseTarget(door, push, 'configuration.taskPushNotificationConfig.url')
  const said = saidIn(message.parts)
  const { taskId } = message
  const id = taskId ? await amend(door, await findWork(door, taskId), message, said) : await create(door, tenant, message, said)
  if (push !== undefined) await setPush(door, id, push)
  return { id, historyLength: configuration.historyLength, waits: configuration.returnImmediately !== true }
}

export async function getTask(door: Door, params: unknown): Promise<A2aTask> {
  const { id, historyLength } = requestIn(requests.GetTask, params)
  return viewOf(door, await findWork(door, id), { historyLength, artifacts: true })
}

export async function cancelTask(door: Door, params: unknown): Promise<A2aTask> {
  const { id } = requestIn(requests.CancelTask, params)
  const found = await findWork(door, id)
  if (isEnded((await statusIn(door, found)).state)) throw new A2aError('TASK_NOT_CANCELABLE', 'the task has ended', { taskId: id })
  await (isRunId(id) ? door.call('delegation/agent.cancel', { run_id: id }) : door.call('collaboration/task.cancel', { task_id: id }))
  return viewOf(door, await findWork(door, id), { artifacts: true })
}

type Page<T> = { readonly items: readonly T[]; readonly next_cursor: string | null }
async function pagesOf<T>(door: Door, operation: string, input: object, keeps: (item: T) => boolean): Promise<T[]> {
  const kept: T[] = []
  for (let cursor: string | null = null; ;) {
    const page = (await door.call(operation, { ...input, limit: limits.pageMax, ...(cursor ? { cursor } : {}) })) as Page<T>
    kept.push(...page.items.filter(keeps))
    cursor = page.next_cursor
    if (cursor === null || kept.length >= limits.a2aTasksMax) return kept.slice(0, limits.a2aTasksMax)
  }
}

/** The caller's own work at this endpoint. */
async function allWork(door: Door): Promise<Found[]> {
  if (door.actor.kind === 'agent') {
    const runs = await pagesOf<Run>(door, 'delegation/run.list', { agent_id: door.agent_id }, () => true)
    const found = await Promise.all(runs.map(({ id }) => findWork(door, id).catch((error: unknown) => nothingIf(error))))
    return found.filter((one) => one !== null)
  }
  const input = { type: 'a2a', principal: door.actor.id, all_projects: true, order: 'newest' }
  const tasks = await pagesOf<Task>(door, 'collaboration/task.list', input, (task) => isOfDoor(door, task))
  return tasks.map((task) => ({ kind: 'task', task }))
}
function nothingIf(error: unknown): null {
  if (error instanceof A2aError) return null
  throw error
}

/** Newest change first, then newest id; a page begins after the last entry of the page before. */
const placeOf = ({ status, id }: A2aTask): string => `${status.timestamp} ${id}`
const tokenOf = (task: A2aTask): string => Buffer.from(placeOf(task)).toString('base64url')
function placeIn(token: string): string {
  const place = Buffer.from(token, 'base64url').toString()
  if (/^\d{4}-[0-9T:.Z-]+ (task|run)_\w+$/.test(place)) return place
  throw new A2aError('INVALID_PARAMS', 'pageToken is not from this server', { field: 'pageToken' })
}

export async function listTasks(door: Door, params: unknown): Promise<object> {
  const { contextId, status = 'TASK_STATE_UNSPECIFIED', pageSize = 50, pageToken, ...asked } = requestIn(requests.ListTasks, params)
  const { historyLength = 0, statusTimestampAfter, includeArtifacts = false } = asked
  const after = statusTimestampAfter === undefined ? null : Date.parse(statusTimestampAfter)
  if (after !== null && Number.isNaN(after))
    throw new A2aError('INVALID_PARAMS', 'statusTimestampAfter must be an RFC 3339 time', { field: 'statusTimestampAfter' })
  const before = pageToken ? placeIn(pageToken) : null
  const work = (await allWork(door)).filter((found) => !contextId || contextOf(found) === contextId)
  const seen = await Promise.all(
    work.map(async (found) => ({ found, task: await viewOf(door, found, { historyLength: 0, artifacts: false }) })),
  )
  const fitting = seen
    .filter(({ task }) => status === 'TASK_STATE_UNSPECIFIED' || task.status.state === status)
    .filter(({ task }) => after === null || Date.parse(task.status.timestamp) >= after)
    .toSorted((a, b) => (placeOf(a.task) < placeOf(b.task) ? 1 : -1))
  const rest = before === null ? fitting : fitting.filter(({ task }) => placeOf(task) < before)
  const page = rest.slice(0, pageSize)
  const tasks = await Promise.all(page.map(({ found }) => viewOf(door, found, { historyLength, artifacts: includeArtifacts })))
  const nextPageToken = rest.length > pageSize ? tokenOf(page.at(-1)!.task) : ''
  return { tasks, nextPageToken, pageSize, totalSize: fitting.length }
}
