// Routes for agents: create, get, list and cancel requests. People can get them, too.
import type { IncomingMessage } from 'node:http'
import type { BridgeHost } from '#bindings/http/mount.ts'
import { abortOnClose } from '#bindings/shared/call-options.ts'
import { isObject } from '#kernel/codec/strict-json.ts'
import type { HttpAnswer } from './responses.ts'
import { agentPageIn, offsetIn, waitIn } from './query-string.ts'
import { repeatedPoll } from './repeated-polls.ts'
import { aboutRequest, answerOf, type Ask, type Methods, type Parts, type Route } from './route.ts'
import { shapeFor, shapeOf, statusOf, type Got } from './request-json.ts'

export function requestRoutes({ host, tickets }: Parts) {
  const { kernel } = host

  const create: Route = {
    who: 'agent',
    operation: 'execution/request.create',
    changes: true,
    async run({ request: raw, body, caller, options, credential }) {
      const { request, receipt } = (await kernel.call('execution/request.create', body, caller, options)) as Got
      const { id, status, created_at, expires_at } = request
      const ws_url = `${socketHostOf(raw, host)}/hxp/ws/${id}?ticket=${tickets.issue(id, credential)}`
      const created = { request_id: id, status, created_at, expires_at, poll_url: `/hxp/v1/requests/${id}`, ws_url }
      // A grant or rule has already decided the request: there is nothing to wait for.
      return aboutRequest(201, receipt ? { ...created, receipt } : created, request)
    },
  }

  const get: Route = {
    who: 'anyone',
    operation: 'execution/request.get',
    changes: false,
    async run({ id, query, caller, actor, response, isPage }) {
      const wait = waitIn(query)
      const got = (await (wait === 0
        ? kernel.call('execution/request.get', { request_id: id }, caller)
        : kernel.call('execution/request.await', { request_id: id, wait }, caller, { signal: abortOnClose(response) }))) as Got
      const anew = (): HttpAnswer => aboutRequest(200, shapeFor(actor, got, isPage), got.request)
      return got.receipt || isPage ? anew() : repeatedPoll(got.request, anew)
    },
  }

  const list: Route = {
    who: 'agent',
    operation: 'execution/request.list',
    changes: false,
    async run({ query, caller, actor }) {
      const input = { newest: true, limit: LIST_USUAL, ...agentPageIn(query, ['status', 'project_id'], actor) }
      const { items, total, next_cursor } = await pageAfter(offsetIn(query), input, (pageInput) =>
        kernel.call('execution/request.list', pageInput, caller),
      )
      const requests = (items as Got['request'][]).map((request) => shapeOf({ request }))
      return answerOf(200, { requests, total, ...(next_cursor === null ? {} : { next_cursor }) })
    },
  }

  const cancel: Route = {
    who: 'agent',
    operation: 'execution/request.cancel',
    changes: true,
    async run({ id, body, caller, options }) {
      const { request, receipt } = (await kernel.call('execution/request.cancel', about(id, body), caller, options)) as Got
      return aboutRequest(200, { request_id: request.id, status: statusOf(request), receipt }, request)
    },
  }

  // X7: the secret can be taken only once.
  const secret: Route = {
    who: 'agent',
    operation: 'execution/secret.take',
    changes: true,
    run: async ({ id, caller, options }) => answerOf(200, await kernel.call('execution/secret.take', { request_id: id }, caller, options)),
  }

  const whole: Methods = { GET: list, POST: create }
  const single: Methods = { GET: get, DELETE: cancel }
  return { whole, one: single, cancel: { POST: cancel } satisfies Methods, secret: { POST: secret } satisfies Methods }
}

/** As the published OpenAPI has it. */
const LIST_USUAL = 20

/** The path names the request; a different id in the body is ignored. */
export const about = (request_id: string, body: Ask['body'], more: object = {}): unknown =>
  isObject(body) ? { ...body, ...more, request_id } : body

export type Page = { readonly next_cursor: string | null } & Readonly<Record<string, unknown>>

/** A page of a list, by cursor or by offset. */
export async function pageAfter(
  offset: number,
  input: Record<string, unknown>,
  call: (input: Record<string, unknown>) => Promise<unknown>,
): Promise<Page> {
  let cursor = input['cursor']
  for (let left = offset; left > 0;) {
    const limit = Math.min(left, SKIP)
    const page = (await call({ ...input, limit, ...(cursor === undefined ? {} : { cursor }) })) as Page
    if (page.next_cursor === null) return { ...page, items: [], requests: [] }
    cursor = page.next_cursor
    left -= limit
  }
  return (await call({ ...input, ...(cursor === undefined ? {} : { cursor }) })) as Page
}
const SKIP = 200

/** The configured origin, stable across retries; without one, the host that the client used, over TLS if the connection or proxy has it. */
function socketHostOf({ headers, socket }: IncomingMessage, { guard, proxied, origin }: BridgeHost): string {
  if (origin !== undefined) return origin.replace(/^http/, 'ws')
  const isSecure = proxied || (socket as { encrypted?: boolean }).encrypted === true
  return `${isSecure ? 'wss' : 'ws'}://${guard.hostOf(headers)}`
}
