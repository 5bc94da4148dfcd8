// A body arrives in a bounded time, or the socket is let go. Node's own bound cannot be lifted for one request, and an upload takes
// as long as it takes.
import { STATUS_CODES, type IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { limits } from '#kernel/limits.ts'
import { rawAnswer, transportFailure } from './answers.ts'

const arriving = new WeakMap<IncomingMessage, { timer: NodeJS.Timeout }>()

export function boundArrival(raw: IncomingMessage, ms: number): void {
  if (raw.headers['content-length'] === undefined && raw.headers['transfer-encoding'] === undefined) return
  const arrival = { timer: timerFor(raw, ms) }
  arriving.set(raw, arrival)
  raw.once('end', () => clearTimeout(arrival.timer))
}

/** From here on another part watches over the body; or, with a time, nobody else does any more. */
export function takesItsTime(raw: IncomingMessage, ms?: number): void {
  const arrival = arriving.get(raw)
  if (!arrival) return
  clearTimeout(arrival.timer)
  if (ms !== undefined && !raw.complete) arrival.timer = timerFor(raw, ms)
}

/** While something is done for the caller, the silence of its socket is ours. */
export async function patiently<T>({ socket }: IncomingMessage, stuckMs: number, work: () => Promise<T>): Promise<T> {
  socket.setTimeout(0)
  try {
    return await work()
  } finally {
    socket.setTimeout(stuckMs)
  }
}

const timerFor = (raw: IncomingMessage, ms: number): NodeJS.Timeout =>
  setTimeout(() => {
    if (!raw.complete && !raw.socket.destroyed) refuseSocket(tooLate, raw.socket)
  }, ms).unref()

const tooLate = Object.assign(new Error('too late'), { code: 'ERR_HTTP_REQUEST_TIMEOUT' })

/** Bytes that are no request, too many headers, or nothing at all for too long. */
export function refuseSocket(error: Error & { code?: string }, socket: Socket): void {
  // Writing into an answer that has begun would garble it.
  const begun = (socket as { _httpMessage?: { _headerSent?: boolean } | null })._httpMessage?._headerSent === true
  if (error.code === 'ECONNRESET' || !socket.writable || begun) {
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
