// The JSON-RPC binding: one JSON-RPC 2.0 message a line, over a Unix socket and over a pair of streams such as stdin and stdout.
// The same operations as over HTTP; it knows no protocol by name.
import { createServer, type Socket } from 'node:net'
import type { Readable, Writable } from 'node:stream'
import { limits } from '#kernel/limits.ts'
import { refusedLine } from './requests.ts'
import { failureLine, notJson, notRequest, tooLarge, unavailable, type Failure } from './responses.ts'
import type { CallMetrics } from '../shared/call-metrics.ts'
import { methodsOf } from './methods.ts'
import { close, drain, fail, type ConnectionBounds, type Wire } from './connection.ts'
import { openSession, type RpcSession, type Shared } from './session.ts'
import { createUnsentAnswers, type UnsentAnswers } from '../shared/unsent-answers.ts'

/** Bounds that tests shrink. */
export type JsonRpcBounds = ConnectionBounds & {
  readonly lineMs: number
  readonly stallMs: number
  readonly follows: number
  readonly connections: number
  readonly stopMs: number
}

const usualBounds: JsonRpcBounds = {
  lineBytes: limits.lineBytesMax,
  lineMs: limits.requestMsMax,
  stallMs: limits.requestMsMax,
  calls: limits.callsPerConnectionMax,
  follows: limits.followsPerConnectionMax,
  batch: limits.batchMax,
  unsentHigh: limits.unsentBytesHigh,
  unsentMax: limits.unsentBytesMax,
  connections: limits.rpcConnectionsMax,
  stopMs: limits.stopMsMax - 1_000, // the workers and the store stop after it
}

export type JsonRpcOptions = Pick<Shared, 'kernel' | 'authenticate' | 'log'> & {
  /** Counts the calls, as in other bindings. */
  readonly metrics?: Pick<CallMetrics, 'of'>
  /** Responses that clients have not read yet; shared with other bindings. */
  readonly unsent?: UnsentAnswers
  readonly bounds?: Partial<JsonRpcBounds>
}
const refusals: Wire<Failure>['refusals'] = {
  notJson,
  refused: refusedLine,
  tooLong: (bytesMax) => tooLarge(`a line has at most ${bytesMax} bytes`),
  badBatch: (callsMax) => notRequest(`a batch holds 1 to ${callsMax} calls`),
  line: (failure) => failureLine(null, failure),
}
const uncounted: Pick<CallMetrics, 'of'> = { of: () => ({ count() {} }) }

export type JsonRpcServer = {
  /** Listens on a path that does not exist yet. */
  listen(path: string): Promise<void>
  /** Serves one peer over two streams; resolves when it has ended its side and has its answers. */
  serve(input: Readable, output: Writable): Promise<void>
  /** Accepts nothing new, answers calls in flight, and ends within its bound. */
  stop(): Promise<void>
}

export function createJsonRpc({
  kernel,
  authenticate,
  log,
  metrics = uncounted,
  unsent = createUnsentAnswers(),
  bounds: given,
}: JsonRpcOptions): JsonRpcServer {
  const bounds = { ...usualBounds, ...given }
  const wire: Wire<Failure> = { bounds, unsent, refusals }
  const shared: Shared = { kernel, authenticate, log, wire, followsMax: bounds.follows, methods: methodsOf(kernel, metrics) }
  const sessions = new Set<RpcSession>()
  const sockets = new Set<RpcSession>()
  // Half open, so that a client that sends its calls and closes its side still gets the answers.
  const server = createServer({ allowHalfOpen: true }, accept)

  function accept(socket: Socket): void {
    if (sockets.size >= bounds.connections) {
      socket.on('error', () => undefined)
      socket.end(`${failureLine(null, unavailable(`there are ${bounds.connections} connections already`))}\n`, () => socket.destroy())
      return
    }
    const session = openSession(shared, { input: socket, output: socket, destroy: () => socket.destroy() }, () => {
      sessions.delete(session)
      sockets.delete(session)
    })
    sessions.add(session)
    sockets.add(session)
    // Node also counts the progress of writes: this fires only without any progress.
    socket.setTimeout(bounds.stallMs, () => {
      if (socket.writableLength > 0) close(session.connection)
    })
  }

  const sweep = setInterval(
    () => {
      const now = performance.now()
      for (const session of sessions) {
        const { connection, known } = session
        const { begunAt, openedAt, underWay } = connection
        const seconds = bounds.lineMs / 1_000
        if (begunAt !== null && now - begunAt > bounds.lineMs)
          fail(connection, notRequest(`a line must end within ${seconds} s of its beginning`))
        else if (!known && underWay === 0 && sockets.has(session) && now - openedAt > bounds.lineMs)
          fail(connection, notRequest(`the connection has not authenticated within ${seconds} s`))
      }
    },
    Math.min(1_000, bounds.lineMs / 2),
  )
  sweep.unref()

  return {
    listen: (path) =>
      new Promise((done, failed) => {
        server.once('error', failed)
        server.listen({ path }, () => {
          server.off('error', failed)
          done()
        })
      }),
    serve: (input, output) =>
      new Promise((done) => {
        const destroy = (): void => {
          input.destroy()
          output.destroy()
        }
        const session = openSession(shared, { input, output, destroy }, () => {
          sessions.delete(session)
          done()
        })
        sessions.add(session)
      }),
    async stop() {
      clearInterval(sweep)
      const closing = new Promise((done) => (server.listening ? server.close(done) : done(undefined)))
      const stopping = unavailable('the server is stopping')
      for (const { connection } of sessions) drain(connection, stopping)
      const deadline = setTimeout(() => sessions.forEach(({ connection }) => close(connection)), bounds.stopMs)
      while (sessions.size > 0) await new Promise((done) => setTimeout(done, 5))
      clearTimeout(deadline)
      await closing
    },
  }
}
