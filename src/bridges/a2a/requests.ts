// The two wires of A2A as one call: a method with its parameters, by JSON-RPC or by the paths of HTTP+JSON (9 and 11 of the specification).
import type { IncomingMessage } from 'node:http'
import { Refusal } from '#kernel/declare/errors.ts'
import { decode, isObject } from '#kernel/codec/strict-json.ts'
import { A2aError, type Id } from './failures.ts'
import { requests } from './wire.ts'

export type Wire = { readonly type: string }
export const JSON_RPC: Wire = { type: 'application/json' }
export const REST: Wire = { type: 'application/a2a+json' }

export const streamed = { SendStreamingMessage: 'SendMessage', SubscribeToTask: 'SubscribeToTask' } as const
export type Method = keyof typeof requests | keyof typeof streamed
export type Call = { readonly id: Id; readonly method: Method; readonly params: unknown }

type Asked = {
  readonly request: IncomingMessage
  readonly path: string
  readonly query: URLSearchParams
  readonly body: Buffer | undefined
  id: Id
}

const isMethod = (name: string): name is Method => Object.hasOwn(requests, name) || Object.hasOwn(streamed, name)

function refuseType({ headers }: IncomingMessage): void {
  const type = headers['content-type']
  if (type === undefined || /^ *application\/(a2a\+)?json *(;|$)/i.test(type)) return
  throw new A2aError('CONTENT_TYPE_NOT_SUPPORTED', 'a body is application/json or application/a2a+json')
}

function bodyIn({ request, body }: Asked): unknown {
  refuseType(request)
  if (body === undefined || body.length === 0) return undefined
  try {
    return decode(body)
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    throw new A2aError('PARSE_ERROR', error.message)
  }
}

const idIn = (id: unknown): Id => (typeof id === 'string' || Number.isSafeInteger(id) ? (id as Id) : null)

export function rpcCallOf(asked: Asked): Call {
  if (asked.request.method !== 'POST') throw new A2aError('INVALID_REQUEST', 'POST a request of JSON-RPC')
  const message = bodyIn(asked)
  if (message === undefined) throw new A2aError('PARSE_ERROR', 'the body is empty')
  if (Array.isArray(message)) throw new A2aError('INVALID_REQUEST', 'A2A has no batches: send one request')
  if (!isObject(message)) throw new A2aError('INVALID_REQUEST', 'a request is an object')
  const { jsonrpc, id, method, params = {} } = message
  // Every refusal of it is answered under its id.
  asked.id = idIn(id)
  if (jsonrpc !== '2.0') throw new A2aError('INVALID_REQUEST', 'jsonrpc must be "2.0"')
  if (asked.id === null) throw new A2aError('INVALID_REQUEST', 'id must be a string or an integer')
  if (typeof method !== 'string') throw new A2aError('INVALID_REQUEST', 'method must be a string')
  if (!isMethod(method)) throw new A2aError('METHOD_NOT_FOUND', `there is no method ${JSON.stringify(method.slice(0, 100))}`)
  return { id: asked.id, method, params }
}

/** By HTTP method and path: the method of A2A, and the names of the fields that are in the path. */
const routes: readonly (readonly [verb: string, path: RegExp, method: Method, ...fields: string[]])[] = [
  ['POST', /^\/message:send$/, 'SendMessage'],
  ['POST', /^\/message:stream$/, 'SendStreamingMessage'],
  ['GET', /^\/tasks$/, 'ListTasks'],
  ['GET', /^\/extendedAgentCard$/, 'GetExtendedAgentCard'],
  ['POST', /^\/tasks\/([^/:]+):cancel$/, 'CancelTask', 'id'],
  ['GET', /^\/tasks\/([^/:]+):subscribe$/, 'SubscribeToTask', 'id'],
  ['POST', /^\/tasks\/([^/:]+):subscribe$/, 'SubscribeToTask', 'id'],
  ['GET', /^\/tasks\/([^/:]+)$/, 'GetTask', 'id'],
  ['POST', /^\/tasks\/([^/:]+)\/pushNotificationConfigs$/, 'CreateTaskPushNotificationConfig', 'taskId'],
  ['GET', /^\/tasks\/([^/:]+)\/pushNotificationConfigs$/, 'ListTaskPushNotificationConfigs', 'taskId'],
  ['GET', /^\/tasks\/([^/:]+)\/pushNotificationConfigs\/([^/:]+)$/, 'GetTaskPushNotificationConfig', 'taskId', 'id'],
  ['DELETE', /^\/tasks\/([^/:]+)\/pushNotificationConfigs\/([^/:]+)$/, 'DeleteTaskPushNotificationConfig', 'taskId', 'id'],
]

export function restCallOf(asked: Asked): Call {
  const { request, path, query } = asked
  const here = routes.filter(([, pattern]) => pattern.test(path))
  if (here.length === 0) throw new A2aError('METHOD_NOT_FOUND', `there is nothing at ${path.slice(0, 200)}`)
  const route = here.find(([verb]) => verb === request.method)
  if (!route) {
    const allow = here.map(([verb]) => verb).join(', ')
    throw new A2aError('METHOD_NOT_FOUND', `${request.method} is not possible here; use ${allow}`, {}, { allow })
  }
  const [verb, pattern, method, ...fields] = route
  const given = verb === 'POST' ? (bodyIn(asked) ?? {}) : paramsIn(query)
  if (!isObject(given)) throw new A2aError('INVALID_PARAMS', 'the body must be an object')
  const found = pattern.exec(path)!
  const named = Object.fromEntries(fields.map((name, i) => [name, textIn(found[i + 1]!)]))
  return { id: null, method, params: { ...given, ...named } }
}

function textIn(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    throw new A2aError('INVALID_PARAMS', 'the path cannot be read')
  }
}

const numbers = new Set(['historyLength', 'pageSize'])
function paramsIn(query: URLSearchParams): Record<string, unknown> {
  const given: Record<string, unknown> = {}
  for (const [name, text] of query) {
    if (name === 'A2A-Version') continue
    if (Object.hasOwn(given, name))
      throw new A2aError('INVALID_PARAMS', `${name.slice(0, 100)} is given twice`, { field: name.slice(0, 100) })
    given[name] = numbers.has(name) && /^-?\d{1,15}$/.test(text) ? Number(text) : /^(true|false)$/.test(text) ? text === 'true' : text
  }
  return given
}
