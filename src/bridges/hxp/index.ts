// The draft's HTTP binding (HXP 0.1, 5.1 and 5.3): from a bare request to an answer, for every path below /hxp.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { BridgeHost, MakeBridge } from '#bindings/http/mount.ts'
import { idempotencyKeyIn } from '#bindings/http/browser/browser-guard.ts'
import { whenRead } from '#bindings/http/request-body.ts'
import { handlerOf, type Steps } from '#bindings/shared/handle.ts'
import { optionsOf } from '#bindings/shared/call-options.ts'
import { setActor } from '#bindings/http/connections/ending.ts'
import type { Actor } from '#kernel/declare/access.ts'
import { decode } from '#kernel/codec/strict-json.ts'
import { limits } from '#kernel/limits.ts'
import { actionNames } from '#protocols/execution/actions/index.ts'
import { isProjectKey } from '#protocols/execution/access.ts'
import { failureAnswer, notASocket, notFound, notForMethod, notJson, send, tooLarge, wrongKind, type HttpAnswer } from './responses.ts'
import { visible } from '#protocols/execution/answering/shown-request.ts'
import { harmless } from '#protocols/execution/asking/hostile-text.ts'
import { ignoredIn, dropUnknownFields } from './ignored-fields.ts'
import { isForeign } from './foreign-pages.ts'
import { answerOf, type Route } from './route.ts'
import { routesOf, type Found } from './routes.ts'
import { createSockets, socketIdIn } from './sockets/index.ts'
import { createSharedTickets } from './sockets/shared-tickets.ts'
import { createTickets } from './sockets/tickets.ts'

const PATH = '/hxp'

/** `secret` is the same on all servers of one database; null for a server alone. */
export const hxp =
  (secret: Uint8Array | null): MakeBridge =>
  (host) => {
    const { kernel } = host
    const tickets = secret && kernel.store.isShared ? createSharedTickets(kernel, secret) : createTickets(kernel.now)
    const find = routesOf({ host, tickets })
    const serve = serverOf(host)
    const sockets = createSockets(host, tickets)
    const about = answerOf(200, aboutServer(host.version))

    function answer(request: IncomingMessage, response: ServerResponse): void {
      const reply = (httpAnswer: HttpAnswer): void => send(request, response, host.headersFor(request), httpAnswer, host.unsent)
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
        void serve(route, { found, query, bytes: body, request, response, isPage: false, ignored: [] }).then(reply, (error: unknown) => {
          host.bug(error)
          response.destroy()
        })
      if (method === 'GET' || method === 'HEAD' || route.bytes) return go(undefined)
      whenRead(request, limits.bodyBytesMax, (body) => (body === null ? reply(tooLarge(limits.bodyBytesMax)) : go(body)))
    }
    return {
      path: PATH,
      exposes: ['HXP-Status', 'HXP-Request-Id', 'HXP-Ignored'],
      answer,
      isSocket: ({ url }) => socketIdIn(url!) !== null,
      upgrade: sockets.upgrade,
      stop: sockets.stop,
    }
  }

/** A request and its route. `isPage` and `ignored` are set when its body is read. */
type Routed = {
  readonly found: Found
  readonly query: string
  readonly bytes: Buffer | undefined
  readonly request: IncomingMessage
  readonly response: ServerResponse
  isPage: boolean
  ignored: readonly string[]
}

function serverOf(host: BridgeHost): (route: Route, routed: Routed) => Promise<HttpAnswer> {
  const handlers = new Map<Route, (routed: Routed) => Promise<HttpAnswer>>()
  return (route, routed) => {
    let handle = handlers.get(route)
    if (!handle) handlers.set(route, (handle = handlerOf(stepsOf(route, host))))
    return handle(routed)
  }
}

function stepsOf(route: Route, { kernel, guard, authenticate, failed, meter }: BridgeHost): Steps<Routed, HttpAnswer> {
  const { operation, changes, who } = route
  return {
    credential: ({ request }) => guard.credentialOf(request.headers, changes),
    since: kernel.store.barriers,
    authenticate: (credential, _, since) => authenticate(credential, since),
    input(routed, actor) {
      const { request, response, bytes } = routed
      routed.isPage = actor.kind === 'human' && isForeign(request.headers, guard)
      setActor(response, actor.id)
      if (!isOfKind(who, actor)) throw wrongKind(who as 'agent' | 'human')
      if (bytes === undefined) return {}
      if (!isJson(request.headers['content-type'])) throw notJson()
      const { body, ignored } = dropUnknownFields(kernel, operation, decode(bytes))
      routed.ignored = ignored
      return body
    },
    options: ({ request }) => optionsOf(changes ? idempotencyKeyIn(request.headers) : undefined),
    async call({ input: body, ...ask }, { request, response, found, query, isPage, ignored }) {
      const reply = await route.run({ ...ask, request, response, id: found.id, query, body, isPage })
      return forReader(ignored.length === 0 ? reply : { ...reply, headers: [...reply.headers, 'HXP-Ignored', ignoredIn(ignored)] }, isPage)
    },
    failed(error, { request, found, isPage }) {
      const failure = failed(error, request.url!.split('?', 1)[0]!)
      return { code: failure.code, answer: forReader(failureAnswer(failure, found.isObject), isPage) }
    },
    done: meter(operation, changes),
  }
}

/** For pages of other origins, text that can come from an agent is escaped, so that it cannot act as markup. */
const forReader = (answer: HttpAnswer, isPage: boolean): HttpAnswer =>
  isPage ? { ...answer, text: JSON.stringify(visible(JSON.parse(answer.text), harmless)) } : answer

const isOfKind = (who: Route['who'], actor: Actor): boolean =>
  who === 'anyone' || actor.kind === who || (who === 'agent' && isProjectKey(actor))

/** A body without a content type counts as JSON. */
const isJson = (type: string | undefined): boolean => type === undefined || /^application\/json *(;|$)/i.test(type)

function withoutSlashes(path: string): string {
  let end = path.length
  while (end > 1 && path.charCodeAt(end - 1) === 47) end--
  return end === path.length ? path : path.slice(0, end)
}

const elsewise = (method: string, allow: string): HttpAnswer =>
  method === 'OPTIONS' ? answerOf(200, { allow }, ['allow', allow]) : notForMethod(method, allow)

const aboutServer = (version: string) => ({
  name: 'countersign',
  version,
  protocol: 'hxp',
  protocol_version: '0.1',
  base_url: '/hxp/v1',
  endpoints: { agent: '/hxp/v1/requests', human: '/hxp/v1/inbox', admin: '/hxp/v1/delegation/rules' },
  actions: actionNames,
})
