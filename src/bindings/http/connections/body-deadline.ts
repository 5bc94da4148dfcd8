// The deadline of request bodies. A body arrives in a bounded time, or its socket is closed. Node's own bound cannot be lifted for one
// request, and an upload can take any time.
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { limits } from '#kernel/limits.ts'
import { rawAnswer, transportFailure, type Failure } from '../responses.ts'
import type { BrowserGuard } from '../browser/browser-guard.ts'
import { STATUS_CODES } from './node-http.ts'

/** The request that a connection is sending, and the deadline of its body. */
type Arrival = { raw: IncomingMessage | null; until: number }
const arrivals = new WeakMap<Socket, Arrival>()
/** Polling all connections costs less than a timer for each request. */
const LOOKS_PER_BOUND = 4
const LOOK_MS_MAX = 1_000

/** Closes connections whose body takes longer than `ms`. */
export function watchArrivals(sockets: ReadonlySet<Socket>, ms: number): { stop(): void } {
  const look = (): void => {
    const now = performance.now()
    for (const socket of sockets) {
      const arrival = arrivals.get(socket)
      if (!arrival?.raw || arrival.until > now) continue
      const { raw } = arrival
      arrival.raw = null
      if (!raw.complete && !socket.destroyed) refuseSocket(tooLate, socket)
    }
  }
  const timer = setInterval(look, Math.min(LOOK_MS_MAX, ms / LOOKS_PER_BOUND)).unref()
  return { stop: () => clearInterval(timer) }
}

export function boundArrival(raw: IncomingMessage, ms: number): void {
  const until = performance.now() + ms
  const arrival = arrivals.get(raw.socket)
  if (!arrival) arrivals.set(raw.socket, { raw, until })
  else {
    arrival.raw = raw
    arrival.until = until
  }
}

/** Lifts the body deadline while the caller enforces its own; `ms` sets a deadline again. */
export function liftBodyDeadline(raw: IncomingMessage, ms = Number.POSITIVE_INFINITY): void {
  const arrival = arrivals.get(raw.socket)
  if (arrival?.raw === raw) arrival.until = performance.now() + ms
}

/** Suspends the idle timeout of the socket while the server works: the silence is the server's, not the client's. */
export async function patiently<T>({ socket }: IncomingMessage, stuckMs: number, work: () => Promise<T>): Promise<T> {
  socket.setTimeout(0)
  try {
    return await work()
  } finally {
    socket.setTimeout(stuckMs)
  }
}

const tooLate = Object.assign(new Error('too late'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' })

/** Answers a socket error: bytes that are not a request, too many headers, or a request that took too long. */
export function refuseSocket(error: Error & { code?: string }, socket: Socket): void {
  // Writing into a response that has begun would corrupt it.
  const begun = (socket as { _httpMessage?: { _headerSent?: boolean } | null })._httpMessage?._headerSent === true
  // Before the TLS handshake is complete, no response can be sent.
  const isShaking = (socket as { secureConnecting?: boolean }).secureConnecting === true
  if (error.code === 'ECONNRESET' || !socket.writable || begun || isShaking) {
    socket.destroy()
    return
  }
  const failure =
    error.code === 'HPE_HEADER_OVERFLOW'
      ? transportFailure(431, 'TOO_LARGE', `the headers have at most ${limits.headerBytesMax} bytes`)
      : error.code === 'ERR_HTTP_REQUEST_TIMEOUT'
        ? transportFailure(408, 'INVALID_REQUEST', 'the request took too long to arrive')
        : transportFailure(400, 'INVALID_REQUEST', 'this is not HTTP')
  socket.end(rawAnswer(failure, STATUS_CODES[failure.status]!))
}

/** The refusal of a request that does not name exactly one host of this server. */
export function hostFailure({ headers, headersDistinct }: IncomingMessage, guard: BrowserGuard): Failure | null {
  if ((headersDistinct.host?.length ?? 0) > 1) return transportFailure(400, 'INVALID_REQUEST', 'there are two Host headers: send one')
  if (guard.hostOf(headers) !== undefined) return null
  return headers.host === undefined
    ? transportFailure(400, 'INVALID_REQUEST', 'the Host header is missing')
    : transportFailure(421, 'INVALID_REQUEST', 'this server does not serve that host name: --hosts adds it')
}
