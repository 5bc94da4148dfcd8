// The HTTP binding: every command and query of the kernel is a POST. It knows no protocol by name and nothing of what it carries.
import fastify, { type FastifyHttpOptions, type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import type { IncomingMessage, RequestListener, Server } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { Refusal } from '#kernel/declare/errors.ts'
import type { Actor } from '#kernel/declare/access.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { limits } from '#kernel/limits.ts'
import { absence, errorResponse, prepare, securityHeaders, transportFailure, type Failure } from './responses.ts'
import { usualBounds, type HttpBounds } from './connections/bounds.ts'
import { boundArrival, refuseSocket, watchArrivals, hostFailure } from './connections/body-deadline.ts'
import { createBridges, type Bridges, type MakeBridge } from './mount.ts'
import { receiveBytes, registerBytes, uploadSlots, type Body, type ByteStore, type Slots, type Work } from './bytes.ts'
import { withCors, type CorsOptions } from './browser/cors.ts'
import { registerFigures } from './status-routes.ts'
import { callerOf, createGuard, type Credential } from './browser/browser-guard.ts'
import { isSocketRequest, registerLive, type LiveOptions } from './live-routes.ts'
import { documentSender, registerDocuments, type Documents } from './public-documents.ts'
import { registerLogin, type Logins } from './browser/login.ts'
import { createMetrics, type Metrics } from '../shared/call-metrics.ts'
import { operationsOf, plainListener, send, type Done, type Plain, type Run } from './operations.ts'
import { inTurn } from './connections/pipelining.ts'
import { stop } from './connections/stopping.ts'
import { renewTls, tlsServerOptions, watchHandshakes, type Tls } from './connections/tls.ts'
import { createUnsent, type Unsent } from '../shared/unsent-answers.ts'

export type { HttpBounds } from './connections/bounds.ts'

export type HttpLog = {
  readonly level: string
  debug(fields: object, words: string): void
  error(fields: object, words: string): void
}

export type HttpOptions = {
  readonly kernel: Kernel
  authenticate(credential: Credential): Actor | Promise<Actor>
  readonly logins: Logins
  readonly log: HttpLog
  readonly version: string
  /** Host names besides those of the loopback. */
  readonly hosts: readonly string[]
  /** A proxy that ends TLS stands in front and is trusted. */
  readonly proxied: boolean
  /** Under which address others reach this server, where the operator says so. */
  readonly origin?: string | undefined
  /** The certificate to speak TLS with; without it the server speaks plain HTTP. */
  readonly tls?: Tls | undefined
  /** Paths that pages of other origins may use; without it there are none. */
  readonly cors?: CorsOptions | undefined
  /** What /health tells besides the status. */
  health(): object
  /** Why nothing can be written at the moment, where that is known before anybody tries; null: it can. */
  amiss?(): string | null
  /** Where bytes go and come from; without it none are carried. */
  readonly bytes?: ByteStore
  /** What anybody may read. */
  readonly documents?: Documents
  /** Where live streams are found besides their operations, and who may open sockets. */
  readonly live?: LiveOptions
  /** What others wrote about HTTP, each below a path of its own. */
  readonly bridges?: readonly MakeBridge[]
  /** Shared with other bindings, whose calls are then in /metrics too. */
  readonly metrics?: Metrics
  /** Answers that nobody has read yet; shared with other bindings. */
  readonly unsent?: Unsent
  readonly bounds?: Partial<HttpBounds>
}

export type HttpServer = {
  listen(port: number, host: string): Promise<number>
  /** From now on new connections are met with this certificate. */
  renew(tls: Tls): void
  /** Accepts nothing new, finishes what is under way, and ends within its bound. */
  stop(): Promise<void>
}

type State = HttpOptions & {
  /** Nobody between can read what is said: by TLS of our own, or of the proxy. */
  readonly secure: boolean
  /** On every answer. */
  readonly headers: Readonly<Record<string, string>>
  readonly guard: ReturnType<typeof createGuard>
  readonly metrics: Metrics
  readonly unsent: Unsent
  readonly sockets: Set<Socket>
  handshakes: ReturnType<typeof watchHandshakes> | null
  /** Requests that expect what nobody here can do. */
  readonly unmet: WeakSet<IncomingMessage>
  stopping: boolean
  /** When a call was last refused because the store could not write; 0: it can. */
  unwritableAt: number
}

export function createHttp(options: HttpOptions): HttpServer {
  const bounds = { ...usualBounds, ...options.bounds }
  const secure = options.proxied || options.tls !== undefined
  const state: State = {
    ...options,
    secure,
    headers: secure ? { ...securityHeaders, 'strict-transport-security': 'max-age=31536000' } : securityHeaders,
    guard: createGuard({ ...options, secure }),
    metrics: options.metrics ?? createMetrics(),
    unsent: options.unsent ?? createUnsent(),
    sockets: new Set(),
    handshakes: null,
    unmet: new WeakSet(),
    stopping: false,
    unwritableAt: 0,
  }
  const slots = uploadSlots()
  const bridges = bridgesOf(state, slots, bounds)
  const app = createApp(state, bridges, bounds)
  if (state.tls) state.handshakes = watchHandshakes(app.server)
  const arrivals = watchArrivals(state.sockets, bounds.requestMs)
  const allow = new Map<string, string>()
  app.addHook('onRoute', ({ url, method }) => {
    allow.set(
      url,
      [allow.get(url), method]
        .flat()
        .filter((name) => name !== undefined)
        .join(', '),
    )
  })
  const runs = operationsOf({
    ...state,
    failed: (error, path) => errorResponse(error, path, state),
    meter: (name, changes) => meterOf(name, changes, state),
    stuckMs: bounds.stuckMs,
  })
  registerOperations(app, runs, state)
  servePlainly(app, runs, bridges, state, (raw) => boundArrival(raw, bounds.requestMs))
  if (state.bytes) {
    const handler = (name: string, changes: boolean, work: Work) => handlerOf(name, changes, state, work)
    registerBytes(app, { ...state.bytes, kernel: state.kernel, bounds, handler }, slots)
  }
  const live = registerLive(app, { ...state, isStopping: () => state.stopping })
  registerLogin(app, { ...state, now: state.kernel.now })
  const sendDocument = documentSender(state.unsent)
  registerFigures(app, state, live, sendDocument)
  registerDocuments(app, sendDocument, state.documents)
  app.setNotFoundHandler((request, reply) => reply.send(prepare(reply, absence(request, allow))))
  return {
    async listen(port, host) {
      await app.listen({ port, host })
      return (app.server.address() as AddressInfo).port
    },
    renew: (tls) => renewTls(app.server, tls),
    stop() {
      state.stopping = true
      live.stop()
      bridges.stop()
      return stop(app, state, bounds.stopMs).finally(arrivals.stop)
    },
  }
}

function bridgesOf(state: State, slots: Slots, { requestMs }: HttpBounds): Bridges {
  const fixed = Object.entries(state.headers).flat()
  return createBridges(state.bridges ?? [], {
    ...state,
    live: state.live ?? {},
    anyOrigin: state.cors?.anyOrigin === true,
    headersFor: () => fixed,
    refusalOf: (request) => refusalOf(request, state),
    failed: (error, path) => errorResponse(error, path, state),
    meter: (name, changes) => meterOf(name, changes, state),
    bug: (error) => state.log.error({ err: error }, 'a bridge failed'),
    receive(...call) {
      if (!state.bytes) throw new Refusal('UNAVAILABLE', 'this path takes no bytes')
      return receiveBytes({ ...state.bytes, kernel: state.kernel, slots, requestMs }, ...call)
    },
  })
}

function createApp(state: State, bridges: Bridges, bounds: HttpBounds): FastifyInstance {
  const http = {
    maxHeaderSize: limits.headerBytesMax,
    headersTimeout: bounds.requestMs,
    requestTimeout: 0, // bodies are bounded one by one
    connectionsCheckingInterval: Math.min(1_000, bounds.requestMs / 2),
    requireHostHeader: false, // Node would answer without a body
    shouldUpgradeCallback: (request: IncomingMessage) => isSocketRequest(request) || bridges.isSocket(request),
  }
  const app = fastify({
    logger: false,
    bodyLimit: limits.bodyBytesMax,
    keepAliveTimeout: bounds.keepAliveMs,
    connectionTimeout: bounds.stuckMs,
    return503OnClosing: false, // our own hook says it in our own words
    ...(state.tls ? { https: { ...http, ...tlsServerOptions(state.tls, bounds.requestMs) } } : { http }),
    frameworkErrors: (_, _request, reply) => {
      reply.headers(securityHeaders)
      void (reply as FastifyReply).send(prepare(reply, transportFailure(400, 'INVALID_REQUEST', 'the URL cannot be read')))
    },
    clientErrorHandler: refuseSocket,
  } as FastifyHttpOptions<Server>)
  app.server.maxConnections = bounds.connections
  app.server.on(state.tls ? 'secureConnection' : 'connection', (socket: Socket) => {
    state.sockets.add(socket)
    socket.once('close', () => state.sockets.delete(socket))
  })
  app.addHook('onRequest', (request, reply, next) => {
    reply.headers(state.headers)
    boundArrival(request.raw, bounds.requestMs)
    const refused = refusalOf(request.raw, state)
    if (refused) void reply.send(prepare(reply, refused))
    else next()
  })
  // Whoever asks before sending a large body is answered when it is known whether it is wanted.
  app.server.on('checkContinue', (incoming, outgoing) => {
    if (incoming.method !== 'PUT') outgoing.writeContinue()
    app.server.emit('request', incoming, outgoing)
  })
  // Node would answer without a body. Only it knows which versions of HTTP may expect anything.
  app.server.on('checkExpectation', (incoming, outgoing) => {
    state.unmet.add(incoming)
    app.server.emit('request', incoming, outgoing)
  })
  // Raw bytes: they are decoded after the credential was checked, by the one decoder that all bindings share.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_, body, done) => done(null, body))
  app.setErrorHandler((error, request, reply) => {
    // The framework asks to close the connection. Going on reading (within the time for a request) lets the client see the answer.
    reply.removeHeader('connection')
    return reply.headers(state.headers).send(prepare(reply, errorResponse(error, request.url.split('?', 1)[0]!, state)))
  })
  return app
}

function refusalOf(request: IncomingMessage, { guard, stopping, unmet }: State): Failure | null {
  const { url } = request
  const unwelcome = hostFailure(request, guard)
  if (unwelcome) return unwelcome
  if (stopping && url !== '/health')
    return transportFailure(503, 'UNAVAILABLE', 'the server is stopping', { 'retry-after': '1', connection: 'close' })
  return unmet.has(request) ? transportFailure(417, 'INVALID_REQUEST', 'the Expect header may only say 100-continue') : null
}

function meterOf(name: string, changes: boolean, state: State): Done {
  const { log, metrics } = state
  const meter = metrics.of(name)
  return (code, began) => {
    const ms = performance.now() - began
    meter.count(code, ms)
    if (code === 'UNAVAILABLE') noteUnwritable(state, began)
    else if (changes && code === 'OK') state.unwritableAt = 0
    if (log.level === 'debug') log.debug({ operation: name, code, ms: Math.round(ms) }, 'call')
  }
}

function registerOperations(app: FastifyInstance, runs: ReadonlyMap<string, Run>, state: State): void {
  const fixed = Object.entries(state.headers).flat()
  for (const [path, run] of runs) {
    app.post(path, async ({ raw, body }, reply) => {
      const answer = await run(raw.headers, body as Buffer | undefined, reply.raw)
      send(reply.hijack().raw, fixed, answer, state.unsent)
    })
  }
}

function servePlainly(app: FastifyInstance, runs: ReadonlyMap<string, Run>, bridges: Bridges, state: State, bound: Plain['bound']): void {
  const [framework] = app.server.listeners('request') as RequestListener[]
  app.server.removeAllListeners('request')
  const { headers, guard, cors, unsent } = state
  const isOurs: Plain['isWelcome'] = (asked) => guard.hostOf(asked) !== undefined
  const isWelcome: Plain['isWelcome'] = (asked) => !state.stopping && isOurs(asked)
  const all = bridges.listener(bound, plainListener({ runs, headers, isWelcome, bound, unsent }, framework!))
  app.server.on('request', inTurn(cors ? withCors({ ...cors, headers, isWelcome: isOurs }, all) : all))
  bridges.attach(app.server)
}

/** Around work that carries bytes: credential, figures, failures. */
function handlerOf(name: string, changes: boolean, state: State, work: Work) {
  const { guard, authenticate } = state
  const done = meterOf(name, changes, state)
  return async (request: FastifyRequest, reply: FastifyReply): Promise<Body> => {
    const began = performance.now()
    try {
      const credential = guard.credentialOf(request.raw.headers, changes)
      const actor = await authenticate(credential)
      const body = await work(request, reply, callerOf(authenticate, credential, actor), actor)
      done('OK', began)
      return body
    } catch (error) {
      const failure = errorResponse(error, `/v1/${name}`, state)
      done(failure.code, began)
      return prepare(reply.headers(state.headers), failure)
    }
  }
}

function noteUnwritable(state: State, at: number): void {
  // Once, not with every call that is refused for it.
  if (state.unwritableAt === 0) state.log.error({}, 'the store cannot write: changes are refused until it can')
  state.unwritableAt = at
}
