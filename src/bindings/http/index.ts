// The HTTP binding: every command and query of the kernel is a POST. It knows no protocol by name and does not interpret payloads. A
// request passes one pipeline: CORS, bridges, host and stop checks, route, body, response.
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Server as NetServer, Socket } from 'node:net'
import { isAway, Refusal } from '#kernel/declare/errors.ts'
import type { Kernel } from '#kernel/kernel.ts'
import type { Hub } from '../live/hub.ts'
import { createCallMetrics, type CallMetrics } from '../shared/call-metrics.ts'
import { forItsPerson, type Authenticate } from '../shared/credentials.ts'
import type { Done, Failed } from '../shared/handle.ts'
import { createUnsentAnswers, type UnsentAnswers } from '../shared/unsent-answers.ts'
import { createBrowserGuard } from './browser/browser-guard.ts'
import { withCors, type CorsOptions } from './browser/cors.ts'
import { loginRoutes, type Logins } from './browser/login.ts'
import { createPage, type PageFiles } from './browser/page.ts'
import { addressOf } from './browser/user-agent.ts'
import type { ByteStore } from './bytes/shared.ts'
import { boundArrival, hostFailure, watchArrivals } from './connections/body-deadline.ts'
import { usualBounds, type HttpBounds } from './connections/bounds.ts'
import { stop } from './connections/stopping.ts'
import { renewTls, watchHandshakes, type Tls } from './connections/tls.ts'
import { gatherAnswers } from './connections/turn-batching.ts'
import { downloadRoutes } from './bytes/downloads.ts'
import { createLiveRoutes, isSocketRequest, type LiveOptions } from './live-routes.ts'
import { mountBridges, type Bridges, type MakeBridge } from './mount.ts'
import { operationRoutes, type Serving } from './operations.ts'
import { documentGiver, documentRoutes, type Documents } from './public-documents.ts'
import { withBody } from './request-body.ts'
import { errorResponse, replyOf, securityHeaders, transportFailure, type Failure, type Reply } from './responses.ts'
import { createRouter, isRoute, type Otherwise, type Route, type Router } from './router.ts'
import { createSender, type Sender } from './send.ts'
import { createNodeServer, listenOn } from './server.ts'
import { statusRoutes } from './status-routes.ts'
import { receiveBytes, uploadRoutes, uploadSlots, type Receiving } from './bytes/uploads.ts'

export type { HttpBounds } from './connections/bounds.ts'

export type HttpLog = {
  readonly level: string
  debug(fields: object, message: string): void
  error(fields: object, message: string): void
}

export type HttpOptions = {
  readonly kernel: Kernel
  readonly authenticate: Authenticate
  readonly logins: Logins
  readonly log: HttpLog
  readonly version: string
  /** Allowed host names in addition to the loopback names. */
  readonly hosts: readonly string[]
  /** A trusted proxy in front terminates TLS. */
  readonly proxied: boolean
  /** The public address of this server, if the operator configured one. */
  readonly origin?: string | undefined
  /** The certificate to speak TLS with; without it the server speaks plain HTTP. */
  readonly tls?: Tls | undefined
  /** Paths that pages of other origins can use; without it there are none. */
  readonly cors?: CorsOptions | undefined
  /** The fields of /health in addition to the status. */
  health(): object
  /** Why a load balancer should send requests to another server; null: this one is ready. */
  unready?(): string | null
  /** Why writes are known to fail at the moment; null: no known reason. */
  amiss?(): string | null
  /** The store of uploads and downloads; without it there are none. */
  readonly bytes?: ByteStore
  /** Documents that are readable without a credential. */
  readonly documents?: Documents
  /** Further paths of live streams, and the origins that may open sockets. */
  readonly live?: LiveOptions
  /** Further routes, and the fallback for a GET without a route: files and pages of an application. */
  readonly routes?: readonly Route[]
  readonly otherwise?: Otherwise
  /** Wires that a draft defines, each below its own path. */
  readonly bridges?: readonly MakeBridge[]
  /** The page in the browser; null: it was not built, or it is switched off. */
  readonly page?: PageFiles | null
  /** Shared with other bindings, whose calls are then in /metrics too. */
  readonly metrics?: CallMetrics
  /** Responses that clients have not read yet; shared with other bindings. */
  readonly unsent?: UnsentAnswers
  readonly bounds?: Partial<HttpBounds>
}

export type HttpServer = {
  /** Listens on a port, or takes over an existing listener. */
  listen(at: number | NetServer, host: string): Promise<number>
  /** New connections use this certificate from now on. */
  renew(tls: Tls): void
  /** Accepts nothing new, finishes requests in flight, and ends within its bound. */
  stop(): Promise<void>
}

type State = HttpOptions & {
  /** Connections are encrypted, by our own TLS or by the proxy's. */
  readonly secure: boolean
  /** On every answer. */
  readonly headers: Readonly<Record<string, string>>
  readonly guard: ReturnType<typeof createBrowserGuard>
  readonly metrics: CallMetrics
  readonly unsent: UnsentAnswers
  readonly sockets: Set<Socket>
  /** Requests with an `Expect` header that the server cannot meet. */
  readonly unmet: WeakSet<IncomingMessage>
  stopping: boolean
  /** When a call was last refused because the store could not write; 0: it can. */
  unwritableAt: number
}

export function createHttp(options: HttpOptions): HttpServer {
  const bounds = { ...usualBounds, ...options.bounds }
  const secure = options.proxied || options.tls !== undefined
  const nameOf = (id: string): Promise<string> => options.logins.nameOf?.(id) ?? Promise.resolve(id)
  const state: State = {
    ...options,
    authenticate: forItsPerson(options.authenticate, nameOf),
    secure,
    headers: secure ? { ...securityHeaders, 'strict-transport-security': 'max-age=31536000' } : securityHeaders,
    guard: createBrowserGuard({ ...options, secure }),
    metrics: options.metrics ?? createCallMetrics(),
    unsent: options.unsent ?? createUnsentAnswers(),
    sockets: new Set(),
    unmet: new WeakSet(),
    stopping: false,
    unwritableAt: 0,
  }
  const failureOf = (error: unknown, path: string): Failure => errorResponse(error, path, state)
  const serving = servingOf(state, bounds, failureOf)
  const receiving = state.bytes && { ...state.bytes, kernel: state.kernel, slots: uploadSlots(), requestMs: bounds.requestMs }
  const live = createLiveRoutes({ ...state, failing: serving.failing, isStopping: () => state.stopping })
  const bridges = bridgesOf(state, live.hub, failureOf, receiving)
  const giveDocument = documentGiver(state.unsent)
  const router = createRouter(
    [
      ...operationRoutes(serving),
      ...(receiving
        ? [...uploadRoutes(serving, receiving), ...downloadRoutes(serving, { blobs: receiving.blobs, readMs: bounds.readMs })]
        : []),
      ...live.routes,
      ...loginRoutes({ ...state, now: state.kernel.now }),
      ...statusRoutes(state, live.hub.size, giveDocument),
      ...documentRoutes(giveDocument, state.documents),
      ...(state.routes ?? []),
    ],
    state.otherwise,
  )
  const listener = listenerOf(
    state,
    { router, bridges, send: createSender(state.headers, state.unsent, failureOf), failed: failureOf },
    bounds,
  )
  const isSocket = (request: IncomingMessage): boolean => isSocketRequest(request) || bridges.isSocket(request)
  const server = createNodeServer({ ...state, tls: state.tls, bounds, isSocket, listener })
  live.attach(server)
  bridges.attach(server)
  const handshakes = state.tls ? watchHandshakes(server) : null
  const arrivals = watchArrivals(state.sockets, bounds.requestMs)
  return {
    listen: (at, host) => listenOn(server, at, host),
    renew: (tls) => renewTls(server, tls),
    stop() {
      state.stopping = true
      live.stop()
      bridges.stop()
      return stop(server, { ...state, handshakes }, bounds.stopMs).finally(arrivals.stop)
    },
  }
}

function servingOf(state: State, { stuckMs }: HttpBounds, failed: Pipeline['failed']): Serving {
  const { kernel, guard, authenticate } = state
  const failureReplier =
    (path: string) =>
    (error: unknown): Failed<Reply> => {
      const failure = failed(error, path)
      return { code: failure.code, answer: replyOf(failure) }
    }
  return { kernel, guard, authenticate, failing: failureReplier, meter: (name, changes) => meterOf(name, changes, state), stuckMs }
}

function bridgesOf(state: State, hub: Hub, failed: Pipeline['failed'], receiving: Receiving | undefined): Bridges {
  const fixed = Object.entries(state.headers).flat()
  return mountBridges(state.bridges ?? [], {
    ...state,
    hub,
    live: state.live ?? {},
    anyOrigin: state.cors?.anyOrigin === true,
    headersFor: () => fixed,
    refusalOf: (request) => refusalOf(request, state),
    failed,
    meter: (name, changes) => meterOf(name, changes, state),
    bug: (error) => state.log.error({ err: error }, 'a bridge failed'),
    receive(...call) {
      if (!receiving) throw new Refusal('UNAVAILABLE', 'this path takes no bytes')
      return receiveBytes(receiving, ...call)
    },
  })
}

type Pipeline = {
  readonly router: Router
  readonly bridges: Bridges
  readonly send: Sender
  failed(error: unknown, path: string): Failure
}

function listenerOf(state: State, { router, bridges, send, failed }: Pipeline, { requestMs }: HttpBounds): RequestListener {
  const { cors, headers, guard } = state
  const page = state.page ? createPage(state.page, headers) : null

  async function answer(
    route: Route,
    request: IncomingMessage,
    response: ServerResponse,
    path: string,
    body: Buffer | undefined,
  ): Promise<void> {
    try {
      const reply = await route.answer({ request, response, path, body })
      if (reply !== null) send(response, reply)
    } catch (error) {
      if (response.headersSent) return void response.destroy()
      send(response, replyOf(failed(error, path)))
    }
  }

  function begin(request: IncomingMessage, response: ServerResponse): void {
    const url = request.url!
    const bridge = bridges.at(url)
    if (bridge) return bridge.answer(request, response)
    const refuse = (why: Failure): void => send(response, replyOf(why))
    const refused = refusalOf(request, state)
    if (refused) return refuse(refused)
    if (page?.(request, response) === true) return
    const path = router.pathOf(url)
    if (path === null) return refuse(transportFailure(400, 'INVALID_REQUEST', 'the URL cannot be read'))
    const found = router.find(path, request.method!)
    if (!isRoute(found)) return refuse(found)
    withBody(found, request, (body) => void answer(found, request, response, path, body), refuse)
  }

  const serve: RequestListener = (request, response) => {
    gatherAnswers()
    boundArrival(request, requestMs)
    try {
      begin(request, response)
    } catch (error) {
      // Nothing else would catch it, and one request would end the process.
      if (response.headersSent) return void response.destroy()
      send(response, replyOf(failed(error, request.url!)))
    }
  }
  const isOurs = (asked: IncomingMessage['headers']): boolean => guard.hostOf(asked) !== undefined
  return cors ? withCors({ ...cors, headers, exposed: bridges.exposed, isWelcome: isOurs }, serve) : serve
}

function refusalOf(request: IncomingMessage, { guard, stopping, unmet }: State): Failure | null {
  const { url } = request
  const unwelcome = hostFailure(request, guard)
  if (unwelcome) return unwelcome
  if (stopping && url !== '/health' && url !== '/ready')
    return transportFailure(503, 'UNAVAILABLE', 'the server is stopping', { 'retry-after': '1', connection: 'close' })
  return unmet.has(request) ? transportFailure(417, 'INVALID_REQUEST', 'the Expect header may only say 100-continue') : null
}

function meterOf(name: string, changes: boolean, state: State): Done<{ readonly request: IncomingMessage }> {
  const { log, metrics } = state
  const meter = metrics.of(name)
  return (code, began, { request: { request }, actor = null, error }) => {
    const ms = performance.now() - began
    meter.count(code, ms)
    if (isAway(error)) noteUnwritable(state, began)
    else if (changes && code === 'OK') state.unwritableAt = 0
    if (log.level !== 'debug') return
    const address = addressOf(request, state.proxied)
    log.debug({ operation: name, code, ms: Math.round(ms), request: requestIdOf(request.headers), actor, address }, 'call')
  }
}

const REQUEST_ID = /^[\w.:/=+-]{1,128}$/
/** The request id from the client or the proxy, so that its log lines can be found; otherwise a new one. */
function requestIdOf(headers: IncomingMessage['headers']): string {
  const id = headers['x-request-id']
  return typeof id === 'string' && REQUEST_ID.test(id) ? id : randomUUID()
}

function noteUnwritable(state: State, at: number): void {
  // Once, not with every call that is refused for it.
  if (state.unwritableAt === 0) state.log.error({}, 'the store cannot write: changes are refused until it can')
  state.unwritableAt = at
}
