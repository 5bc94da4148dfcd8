// The requests of A2A 1.0 in the JSON of its protocol buffers, as far as this server uses them. Other fields are ignored.
import { Refusal } from '#kernel/declare/errors.ts'
import { either, parse, t, type Static, type TSchema } from '#kernel/declare/schema.ts'
import { isObject } from '#kernel/codec/strict-json.ts'
import { limits } from '#kernel/limits.ts'
import { A2aError } from './failures.ts'

const Open = t.Object({}, { additionalProperties: true })
const Name = t.String({ minLength: 1, maxLength: limits.a2aIdCharsMax })
const MaybeName = t.Optional(t.String({ maxLength: limits.a2aIdCharsMax }))
const Tenant = { tenant: MaybeName }
const HistoryLength = t.Optional(t.Integer({ minimum: 0, maximum: 2 ** 31 - 1 }))

const Part = t.Object({
  text: t.Optional(t.String()),
  raw: t.Optional(t.String()),
  url: t.Optional(t.String({ maxLength: limits.a2aUrlCharsMax })),
  data: t.Optional(t.Unknown()),
  filename: t.Optional(t.String({ maxLength: limits.nameCharsMax })),
  mediaType: t.Optional(t.String({ maxLength: 200 })),
})
export type Part = Static<typeof Part>
const Message = t.Object({
  messageId: Name,
  contextId: MaybeName,
  taskId: MaybeName,
  role: either('ROLE_USER'),
  parts: t.Array(Part, { minItems: 1, maxItems: limits.a2aPartsMax }),
  metadata: t.Optional(Open),
})
export type Message = Static<typeof Message>
const Url = t.String({ minLength: 1, maxLength: limits.a2aUrlCharsMax })
const PushConfig = t.Object({
  ...Tenant,
  id: MaybeName,
  taskId: MaybeName,
  url: Url,
  token: t.Optional(t.String({ maxLength: limits.a2aTokenCharsMax })),
  authentication: t.Optional(
    t.Object({
      scheme: t.String({ minLength: 1, maxLength: 40 }),
      credentials: t.Optional(t.String({ maxLength: limits.a2aTokenCharsMax })),
    }),
  ),
})
export type PushConfig = Static<typeof PushConfig>

export const taskStates = [
  'TASK_STATE_SUBMITTED',
  'TASK_STATE_WORKING',
  'TASK_STATE_COMPLETED',
  'TASK_STATE_FAILED',
  'TASK_STATE_CANCELED',
  'TASK_STATE_INPUT_REQUIRED',
  'TASK_STATE_REJECTED',
  'TASK_STATE_AUTH_REQUIRED',
] as const
export type TaskState = (typeof taskStates)[number]

const TaskName = t.Object({ ...Tenant, id: Name })
const ConfigName = t.Object({ ...Tenant, taskId: Name, id: Name })
export const requests = {
  SendMessage: t.Object({
    ...Tenant,
    message: Message,
    configuration: t.Optional(
      t.Object({
        historyLength: HistoryLength,
        returnImmediately: t.Optional(t.Boolean()),
        taskPushNotificationConfig: t.Optional(PushConfig),
      }),
    ),
  }),
  GetTask: t.Object({ ...Tenant, id: Name, historyLength: HistoryLength }),
  ListTasks: t.Object({
    ...Tenant,
    contextId: MaybeName,
    status: t.Optional(either('TASK_STATE_UNSPECIFIED', ...taskStates)),
    pageSize: t.Optional(t.Integer({ minimum: 1, maximum: limits.pageMax })),
    pageToken: t.Optional(t.String({ maxLength: 400 })),
    historyLength: HistoryLength,
    statusTimestampAfter: t.Optional(t.String({ maxLength: 40 })),
    includeArtifacts: t.Optional(t.Boolean()),
  }),
  CancelTask: TaskName,
  SubscribeToTask: TaskName,
  CreateTaskPushNotificationConfig: PushConfig,
  GetTaskPushNotificationConfig: ConfigName,
  DeleteTaskPushNotificationConfig: ConfigName,
  ListTaskPushNotificationConfigs: t.Object({
    ...Tenant,
    taskId: Name,
    pageSize: t.Optional(t.Integer({ minimum: 0 })),
    pageToken: MaybeName,
  }),
  GetExtendedAgentCard: t.Object(Tenant),
} as const satisfies Record<string, TSchema>

/** The request, or a failure that names the field. */
export function requestIn<S extends TSchema>(schema: S, params: unknown): Static<S> {
  if (!isObject(params)) throw new A2aError('INVALID_PARAMS', 'params must be an object')
  try {
    return parse(schema, withoutNulls(params))
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    const { field } = error.details ?? {}
    throw new A2aError('INVALID_PARAMS', error.message, typeof field === 'string' ? { field } : {})
  }
}

/** In the JSON of protocol buffers, null means an absent field. The data of a part is left unchanged. */
function withoutNulls(value: Record<string, unknown>): Record<string, unknown> {
  const kept = Object.entries(value).filter(([, field]) => field !== null)
  return Object.fromEntries(kept.map(([name, field]) => [name, name === 'data' || name === 'metadata' ? field : cleanValue(field)]))
}
const cleanValue = (value: unknown): unknown =>
  Array.isArray(value) ? value.map(cleanValue) : isObject(value) ? withoutNulls(value) : value
