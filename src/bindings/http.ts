// The HTTP binding: every command and query of the kernel is a POST. It knows no protocol by name and nothing of what it carries.
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import type { RequestListener } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { administrator, installationOwner, type Actor } from '#kernel/identity.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { limits } from '#kernel/limits.ts'
import { absence, failureOf, internalFailure, prepare, securityHeaders, transportFailure, type Failure } from './http/answers.ts'
import { boundArrival, refuseSocket, watchArrivals } from './http/arrival.ts'
import { registerBytes, type Body, type ByteStore, type Work } from './http/bytes.ts'
import { registerDocuments, type Documents } from './http/documents.ts'
import { callerOf, createGuard, isLocal, type Credential } from './http/guard.ts'
import { isSocketRequest, registerLive, type Live, type LiveOptions } from './http/live.ts'
import { registerLogin, type Logins } from './http/login.ts'
import { createMetrics, type Metrics } from './http/metrics.ts'
import { operationsOf, plainListener, type Done, type Plain, type Run } from './http/operations.ts'
import { openapiOf } from './openapi.ts'

export type HttpLog = {
  readonly level: string
  debug(fields: object, words: string): void
  error(fields: object, words: string): void
}

/** What a test may shrink. */
export type HttpBounds = {
  readonly requestMs: number
  readonly connections: number
  readonly stopMs: number
  readonly keepAliveMs: number
  readonly readMs: number
  readonly stuckMs: number
}
const usualBounds: HttpBounds = {
  requestMs: limits.requestMsMax,
  connections: limits.connectionsMax,
  stopMs: limits.stopMsMax - 1_000, // the workers and the store stop after it
  readMs: limits.downloadIdleMsMax,
  keepAliveMs: 72_000, // longer than the 60 s of the usual proxies, so that the proxy is the one who closes
  stuckMs: 120_000, // a client that takes no answer for this long holds memory, not a conversation
}
const HEALTH_MEMORY_MS = 10_000

export type HttpOptions = {
  readonly kernel: Kernel
  authenticate(credential: Credential): Promise<Actor>
  readonly logins: Logins
  readonly log: HttpLog
  readonly version: string
  /** Host names besides those of the loopback. */
  readonly hosts: readonly string[]
  /** A proxy that ends TLS stands in front and is trusted. */
  readonly proxied: boolean
  /** What /health tells besides the status. */
  health(): object
  /** Where bytes go and come from; without it none are carried. */
  readonly bytes?: ByteStore
  /** What anybody may read. */
  readonly documents?: Documents
  /** Where live streams are found besides their operations, and who may open sockets. */
  readonly live?: LiveOptions
  /** Shared with other bindings, whose calls are then in /metrics too. */
  readonly metrics?: Metrics
  readonly bounds?: Partial<HttpBounds>
}

export type HttpServer = {
  listen(port: number, host: string): Promise<number>
  /** Accepts nothing new, finishes what is under way, and ends within its bound. */
  stop(): Promise<void>
}

type State = HttpOptions & {
  /** On every answer. */
  readonly headers: Readonly<Record<string, string>>
  readonly guard: ReturnType<typeof createGuard>
  readonly metrics: Metrics
  readonly sockets: Set<Socket>
  stopping: boolean
  /** When a call was last refused because the store could not write; 0: it can. */
  unwritableAt: number
}

export function createHttp(options: HttpOptions): HttpServer {
  const bounds = { ...usualBounds, ...options.bounds }
  const state: State = {
    ...options,
    headers: options.proxied ? { ...securityHeaders, 'strict-transport-security': 'max-age=31536000' } : securityHeaders,
    guard: createGuard(options),
    metrics: options.metrics ?? createMetrics(),
    sockets: new Set(),
    stopping: false,
    unwritableAt: 0,
  }
  const app = createApp(state, bounds)
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
    failed: (error, path) => failed(error, path, state),
    meter: (name, changes) => meterOf(name, changes, state),
    stuckMs: bounds.stuckMs,
  })
  registerOperations(app, runs, state)
  servePlainly(app, runs, state, bounds)
  if (state.bytes) {
    const handler = (name: string, changes: boolean, work: Work) => handlerOf(name, changes, state, work)
    registerBytes(app, { ...state.bytes, kernel: state.kernel, bounds, handler })
  }
  const live = registerLive(app, { ...state, isStopping: () => state.stopping })
  registerLogin(app, { ...state, secure: state.proxied, now: state.kernel.now })
  registerFigures(app, state, live)
  registerDocuments(app, state.documents)
  app.setNotFoundHandler((request, reply) => reply.send(prepare(reply, absence(request, allow))))
  return {
    async listen(port, host) {
      await app.listen({ port, host })
      return (app.server.address() as AddressInfo).port
    },
    stop() {
      state.stopping = true
      live.stop()
      return stop(app, state, bounds.stopMs).finally(arrivals.stop)
    },
  }
}

function createApp(state: State, bounds: HttpBounds): FastifyInstance {
  const app = fastify({
    logger: false,
    bodyLimit: limits.bodyBytesMax,
    keepAliveTimeout: bounds.keepAliveMs,
    connectionTimeout: bounds.stuckMs,
    return503OnClosing: false, // our own hook says it in our own words
    http: {
      maxHeaderSize: limits.headerBytesMax,
      headersTimeout: bounds.requestMs,
      requestTimeout: 0, // bodies are bounded one by one
      connectionsCheckingInterval: Math.min(1_000, bounds.requestMs / 2),
      requireHostHeader: false, // Node would answer without a body
      shouldUpgradeCallback: isSocketRequest,
    },
    frameworkErrors: (_, _request, reply) => {
      reply.headers(securityHeaders)
      void (reply as FastifyReply).send(prepare(reply, transportFailure(400, 'INVALID_REQUEST', 'the URL cannot be read')))
    },
    clientErrorHandler: refuseSocket,
  })
  app.server.maxConnections = bounds.connections
  app.server.on('connection', (socket) => {
    state.sockets.add(socket)
    socket.once('close', () => state.sockets.delete(socket))
  })
  app.addHook('onRequest', (request, reply, next) => {
    reply.headers(state.headers)
    boundArrival(request.raw, bounds.requestMs)
    const refused = refusalOf(request, state)
    if (refused) void reply.send(prepare(reply, refused))
    else next()
  })
  // Whoever asks before sending a large body is answered when it is known whether it is wanted.
  app.server.on('checkContinue', (incoming, outgoing) => {
    if (incoming.method !== 'PUT') outgoing.writeContinue()
    app.server.emit('request', incoming, outgoing)
  })
  // Raw bytes: they are decoded after the credential was checked, by the one decoder that all bindings share.
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_, body, done) => done(null, body))
  app.setErrorHandler((error, request, reply) => {
    // The framework asks to close the connection. Going on reading (within the time for a request) lets the client see the answer.
    reply.removeHeader('connection')
    return reply.headers(state.headers).send(prepare(reply, failed(error, request.url.split('?', 1)[0]!, state)))
  })
  return app
}

function refusalOf({ raw, url }: FastifyRequest, { guard, stopping }: State): Failure | null {
  if (guard.hostOf(raw.headers) === undefined) {
    return raw.headers.host === undefined
      ? transportFailure(400, 'INVALID_REQUEST', 'the Host header is missing')
      : transportFailure(421, 'INVALID_REQUEST', 'this server does not go by that host name (see --hosts)')
  }
  if (stopping && url !== '/health')
    return transportFailure(503, 'UNAVAILABLE', 'the server is stopping', { 'retry-after': '1', connection: 'close' })
  return null
}

/** Whatever was thrown, as an answer. What is not expected is logged with its cause and answered without it. */
function failed(error: unknown, path: string, state: State): Failure {
  const refusal = failureOf(error, state.kernel.codes)
  if (refusal) return refusal
  const status = (error as { statusCode?: number }).statusCode
  if (status === 413) return transportFailure(413, 'TOO_LARGE', `a body has at most ${limits.bodyBytesMax} bytes`)
  if (status === 415) return transportFailure(415, 'INVALID_REQUEST', 'the body must be application/json')
  if (status === 400) return transportFailure(400, 'INVALID_REQUEST', 'the body could not be read')
  state.log.error({ err: error, path }, 'a request failed')
  return internalFailure
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
  for (const [path, run] of runs) {
    app.post(path, async ({ raw, body }, reply) => {
      const { text, failure } = await run(raw.headers, body as Buffer | undefined, reply.raw)
      return text ?? prepare(reply.headers(state.headers), failure)
    })
  }
}

function servePlainly(app: FastifyInstance, runs: ReadonlyMap<string, Run>, state: State, { requestMs }: HttpBounds): void {
  const [framework] = app.server.listeners('request') as RequestListener[]
  app.server.removeAllListeners('request')
  const isWelcome: Plain['isWelcome'] = (headers) => !state.stopping && state.guard.hostOf(headers) !== undefined
  app.server.on(
    'request',
    plainListener({ runs, headers: state.headers, isWelcome, bound: (raw) => boundArrival(raw, requestMs) }, framework!),
  )
}

/** Around work that carries bytes: credential, figures, failures. */
function handlerOf(name: string, changes: boolean, state: State, work: Work) {
  const { guard, authenticate } = state
  const done = meterOf(name, changes, state)
  return async (request: FastifyRequest, reply: FastifyReply): Promise<Body> => {
    const began = performance.now()
    try {
      const credential = guard.credentialOf(request.raw.headers)
      const actor = await authenticate(credential)
      const body = await work(request, reply, callerOf(authenticate, credential, actor), actor)
      done('OK', began)
      return body
    } catch (error) {
      const failure = failed(error, `/v1/${name}`, state)
      done(failure.code, began)
      return prepare(reply.headers(state.headers), failure)
    }
  }
}

function noteUnwritable(state: State, at: number): void {
  // Once, not with every call that is refused for it.
  if (state.unwritableAt === 0) state.log.error({}, 'the store cannot write: what would change something is refused until it can')
  state.unwritableAt = at
}

function registerFigures(app: FastifyInstance, state: State, live: Live): void {
  const { kernel, metrics, guard } = state
  const description = JSON.stringify(openapiOf(kernel.protocols, state.version, state.live?.aliases))
  app.get('/openapi.json', (_, reply) => reply.send(description))

  app.get('/health', (_, reply) => {
    const writes = state.unwritableAt === 0 || performance.now() - state.unwritableAt > HEALTH_MEMORY_MS
    const status = state.stopping || !writes ? 'degraded' : 'ok'
    const why = state.stopping ? { reason: 'stopping' } : writes ? {} : { reason: 'the store cannot write' }
    return reply.code(status === 'ok' ? 200 : 503).send(JSON.stringify({ status, ...why, version: state.version, ...state.health() }))
  })

  app.get('/metrics', async ({ raw }, reply) => {
    if (!isLocal(raw.socket.remoteAddress, raw.headers, state.proxied)) {
      const actor = await state.authenticate(guard.credentialOf(raw.headers))
      if (!administrator.is(actor, null) && !installationOwner.is(actor, null)) {
        return prepare(reply, transportFailure(403, 'UNAUTHORIZED', 'the figures are for: administrator, owner'))
      }
    }
    reply.header('content-type', 'text/plain; version=0.0.4; charset=utf-8')
    return metrics.text(kernel, state.sockets.size, live.size())
  })
}

async function stop(app: FastifyInstance, state: State, stopMs: number): Promise<void> {
  const closing = app.close()
  // A connection that is kept alive becomes idle only when its answer is out.
  const sweep = setInterval(() => app.server.closeIdleConnections(), 20)
  const deadline = setTimeout(() => app.server.closeAllConnections(), stopMs)
  await closing
  clearInterval(sweep)
  clearTimeout(deadline)
  state.metrics.close()
}
