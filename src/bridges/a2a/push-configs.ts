// Push notification configs of A2A as calls of operations: who hears of a task by posts to an address.
import { isHookAddress } from '#kernel/declare/webhook-address.ts'
import { A2aError } from './failures.ts'
import { findWork, type Door } from './task-view.ts'
import { requestIn, requests, type PushConfig } from './wire.ts'

type Push = { readonly id: string; readonly work_id: string; readonly endpoint: string; readonly token?: string; readonly scheme?: string }
const configOf = ({ id, work_id, endpoint, token, scheme }: Push): object => ({
  id,
  taskId: work_id,
  url: endpoint,
  ...(token === undefined ? {} : { token }),
  ...(scheme === undefined ? {} : { authentication: { scheme } }),
})

/** Whether the server posts to public addresses over https alone. */
type PublicOnly = { readonly isPublicOnly: boolean }
export function refuseTarget({ isPublicOnly }: PublicOnly, { url }: PushConfig, field: string): void {
  if (isHookAddress(url, isPublicOnly)) return
  throw new A2aError('INVALID_PARAMS', `${field} cannot be called: give an https address of the public Internet`, { field })
}

export async function setPush(door: Door, work_id: string, { id, url, token, authentication }: PushConfig): Promise<object> {
  const input = {
    work_id,
    to_agent: door.agent_id,
    endpoint: url,
    ...(id ? { id } : {}),
    ...(token ? { token } : {}),
    ...(authentication === undefined ? {} : { scheme: authentication.scheme }),
    ...(authentication?.credentials ? { credentials: authentication.credentials } : {}),
  }
  return configOf(((await door.call('delegation/push.set', input)) as { push: Push }).push)
}

export async function addPush(door: Door & PublicOnly, params: unknown): Promise<object> {
  const { taskId = '', ...config } = requestIn(requests.CreateTaskPushNotificationConfig, params)
  if (taskId === '') throw new A2aError('INVALID_PARAMS', 'taskId is required', { field: 'taskId' })
  refuseTarget(door, config, 'url')
  await findWork(door, taskId)
  return setPush(door, taskId, config)
}

export async function getPush(door: Door, params: unknown): Promise<object> {
  const { taskId: work_id, id } = requestIn(requests.GetTaskPushNotificationConfig, params)
  await findWork(door, work_id)
  return configOf(((await door.call('delegation/push.get', { work_id, id })) as { push: Push }).push)
}

/** All of them: a task has few. */
export async function listPushes(door: Door, params: unknown): Promise<object> {
  const { taskId: work_id } = requestIn(requests.ListTaskPushNotificationConfigs, params)
  await findWork(door, work_id)
  const { items } = (await door.call('delegation/push.list', { work_id })) as { items: Push[] }
  return { configs: items.map(configOf), nextPageToken: '' }
}

/** Deleting what is gone already changes nothing, so a client can repeat it. */
export async function deletePush(door: Door, params: unknown): Promise<object> {
  const { taskId: work_id, id } = requestIn(requests.DeleteTaskPushNotificationConfig, params)
  await findWork(door, work_id)
  const { items } = (await door.call('delegation/push.list', { work_id })) as { items: Push[] }
  if (items.some((one) => one.id === id)) await door.call('delegation/push.remove', { work_id, id })
  return {}
}
