// The draft's HTTP binding (HXP 0.1, 5.1 and 5.3): from a bare request to an answer, for every path below /hxp.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { whenRead, type BridgeHost, type MakeBridge } from '#bindings/http/mount.ts'
import { callerOf, idempotencyKeyIn } from '#bindings/http/browser/browser-guard.ts'
import type { Done } from '#bindings/http/operations.ts'
import { askedBy } from '#bindings/http/connections/turn-batching.ts'
import type { Actor } from '#kernel/declare/access.ts'
import { decode } from '#kernel/codec/strict-json.ts'
import type { CallOptions } from '#kernel/kernel.ts'
import { limits } from '#kernel/limits.ts'
import { isProjectKey } from '#protocols/execution/access.ts'
import { failureAnswer, notASocket, notFound, notForMethod, notJson, send, tooLarge, wrongKind, type Answer } from './responses.ts'
import { visible } from '#protocols/execution/answering/shown-request.ts'
import { harmless } from '#protocols/execution/asking/hostile-text.ts'
import { ignoredIn, understood } from './ignored-fields.ts'
import { isForeign } from './foreign-pages.ts'
import { answerOf, type Route } from './route.ts'
import { routesOf, type Found } from './routes.ts'
import { createSockets, socketIdIn } from './sockets/index.ts'
import { createTickets } from './sockets/tickets.ts'

const PATH = '/hxp'
const NO_OPTIONS: CallOptions = {}

export const hxp = (): MakeBridge => (host) => {
  const tickets = createTickets(host.kernel.now)
  const find = routesOf({ host, tickets })
  const serve = serverOf(host)
  const sockets = createSockets(host, tickets)
  const about = answerOf(200, aboutServer(host.version))

  function answer(request: IncomingMessage, response: ServerResponse): void {
    const reply = (made: Answer): void => send(request, response, host.headersFor(request), made, host.unsent)
    const refused = host.refusalOf(request)
    if (refused) return reply(failureAnswer(refused, false))
    const url = request.url!
    const mark = url.indexOf('?')
    const path = withoutSlashes(mark === -1 ? url : url.slice(0, mark))
    const method = request.method!
    if (path === PATH) return reply(method === 'GET' || method === 'HEAD' ? about : elsewise(method, 'GET'))
    const found = find(path)
    if (found === null) return reply(socketIdIn(url) === null ? notFound(`there is nothing at ${path.slice(0, 200)}`) : notASocket)
    const route = found.methods[(method === 'HEAD' ? 'GET' : method) as 'GET']
    if (!route) return reply(elsewise(method, Object.keys(found.methods).join(', ')))
    const query = mark === -1 ? '' : url.slice(mark + 1)
    const go = (body: Buffer | undefined): void =>
      void serve(route, found, query, body, request, response).then(reply, (error: unknown) => {
        host.bug(error)
        response.destroy()
      })
    if (method === 'GET' || method === 'HEAD' || route.bytes) return go(undefined)
    whenRead(request, limits.bodyBytesMax, (body) => (body === null ? reply(tooLarge(limits.bodyBytesMax)) : go(body)))
  }
  return { path: PATH, answer, isSocket: ({ url }) => socketIdIn(url!) !== null, upgrade: sockets.upgrade, stop: sockets.stop }
}

/** Never rejects but by a bug of its own. */
function serverOf(host: BridgeHost) {
  const { guard, authenticate } = host
  const meters = new Map<Route, Done>()
  const meterOf = (route: Route): Done => {
    const found = meters.get(route) ?? host.meter(route.operation, route.changes)
    meters.set(route, found)
    return found
  }
  return async (
    route: Route,
    { id, isObject }: Found,
    query: string,
    bytes: Buffer | undefined,
    request: IncomingMessage,
    response: ServerResponse,
  ): Promise<Answer> => {
    const began = performance.now()
    const done = meterOf(route)
    const { headers } = request
    let isPage = false
    try {
      const credential = guard.credentialOf(headers, route.changes)
      const asked = authenticate(credential)
      const actor = asked instanceof Promise ? await asked : asked
      isPage = actor.kind === 'human' && isForeign(headers, guard)
      askedBy(response, actor.id)
      if (!isOfKind(route.who, actor)) {
        done('UNAUTHORIZED', began)
        return wrongKind(route.who as 'agent' | 'human')
      }
      if (bytes !== undefined && !isJson(headers['content-type'])) {
        done('INVALID_REQUEST', began)
        return notJson
      }
      const { body, ignored } = understood(host.kernel, route.operation, bytes === undefined ? {} : decode(bytes))
      const key = route.changes ? idempotencyKeyIn(headers) : undefined
      const options = key === undefined ? NO_OPTIONS : { key }
      const caller = callerOf(authenticate, credential, actor)
      const made = await route.run({ request, response, id, query, body, credential, actor, caller, options, isPage })
      done('OK', began)
      return forReader(ignored.length === 0 ? made : { ...made, headers: [...made.headers, 'HXP-Ignored', ignoredIn(ignored)] }, isPage)
    } catch (error) {
      const failure = host.failed(error, request.url!.split('?', 1)[0]!)
      done(failure.code, began)
      return forReader(failureAnswer(failure, isObject), isPage)
    }
  }
}

/** To a page of another origin everything that an agent may have written is given in a form that it cannot take for markup. */
const forReader = (answer: Answer, isPage: boolean): Answer =>
  isPage ? { ...answer, text: JSON.stringify(visible(JSON.parse(answer.text), harmless)) } : answer

const isOfKind = (who: Route['who'], actor: Actor): boolean =>
  who === 'anyone' || actor.kind === who || (who === 'agent' && isProjectKey(actor))

/** Without a word about it, it is taken for what it has to be. */
const isJson = (type: string | undefined): boolean => type === undefined || /^application\/json *(;|$)/i.test(type)

function withoutSlashes(path: string): string {
  let end = path.length
  while (end > 1 && path.charCodeAt(end - 1) === 47) end--
  return end === path.length ? path : path.slice(0, end)
}

const elsewise = (method: string, allow: string): Answer =>
  method === 'OPTIONS' ? answerOf(200, { allow }, ['allow', allow]) : notForMethod(method, allow)

const aboutServer = (version: string) => ({
  name: 'countersign',
  version,
  protocol: 'hxp',
  protocol_version: '0.1',
  base_url: '/hxp/v1',
  endpoints: { agent: '/hxp/v1/requests', human: '/hxp/v1/inbox', admin: '/hxp/v1/delegation/rules' },
  actions: ['DECIDE', 'APPROVE', 'PROVIDE'],
})
