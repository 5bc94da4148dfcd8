// One WebSocket connection: a sink of the hub. It only receives; frames from the client are ignored.
import type { Duplex } from 'node:stream'
import type { WebSocket } from 'ws'
import type { Ending, Portion, Sink } from '#bindings/live/hub.ts'
import type { UnsentAnswers } from '#bindings/shared/unsent-answers.ts'
import { limits } from '#kernel/limits.ts'
import { createRateLimit } from '#kernel/codec/rate-limit.ts'
import { changeIn } from '#protocols/execution/answering/request-events.ts'
import type { SignedReceipt } from '#protocols/execution/answering/receipt.ts'
import type { Request } from '#protocols/execution/schema.ts'
import { bytesOf, bytesOfEntry, framesOf, type Listening } from './frames.ts'

type Bounds = {
  readonly lingerMs: number
  readonly unsentBytes: number
  readonly framesPerMinute: number
}

export type Connection = Sink & {
  /** Sends the current state, then the newer events that arrived in the meantime. */
  begin(request: Request, version: number): Promise<void>
  beatSocket(): void
  fail(): void
}

type Parts = {
  readonly listening: Listening
  readonly actor: string
  readonly bounds: Bounds
  readonly unsent: UnsentAnswers
  /** The receipt of an ended request, fetched once for all subscribers. */
  receiptOf(id: string): Promise<SignedReceipt>
  onLeave(): void
}

/** RFC 6455 leaves 4000 to 4999 to us; the last digits are the matching HTTP status. */
const closings = {
  done: 1000,
  stopping: 1001,
  notText: 1003,
  tooMany: 1008,
  failed: 1011,
  slow: 4008,
  credential: 4401,
  request: 4403,
} as const

const LOST = 'you no longer have access to this request'

export function createConnection(
  ws: WebSocket,
  socket: Duplex,
  { listening, actor, bounds, unsent, receiptOf, onLeave }: Parts,
): Connection {
  const meter = createRateLimit(bounds.framesPerMinute, () => performance.now())
  const { promise: begun, resolve: letOn } = Promise.withResolvers<void>()
  /** The last sent version of the request; null if none was sent yet. */
  let sentVersion: number | null = null
  let alive = true
  let isOver = false
  let linger: NodeJS.Timeout | undefined

  function close(code: number, reason: string, lingerMs = bounds.lingerMs): void {
    if (isOver) return
    isOver = true
    ws.close(code, reason)
    linger = setTimeout(() => ws.terminate(), lingerMs)
  }

  /** Writes a finished frame to the socket, past the library: the frame was encoded once for all subscribers. */
  function write(bytes: Buffer, taken?: () => void): void {
    if (isOver || !socket.writable || bytes.length === 0) return taken?.()
    if (socket.writableLength + bytes.length > bounds.unsentBytes) return close(closings.slow, 'the client does not read its events', 1)
    socket.write(bytes, () => {
      unsent.release(socket, bytes.length)
      taken?.()
    })
    if (socket.writableLength > 0) unsent.hold(socket, actor, bytes.length)
  }

  /** Sends the last bytes and closes the socket. */
  async function finish(before: Request | null, after: Request): Promise<void> {
    const bytes = framesOf(before, after, await receiptOf(after.id), listening)
    socket.cork()
    write(bytes)
    close(closings.done, '')
    socket.uncork()
  }

  async function deliver(portion: Portion, taken: () => void): Promise<void> {
    for (const entry of portion.entries) {
      const { version, before, after } = changeIn(entry.fact)!
      if (version <= sentVersion!) continue
      sentVersion = version
      if (after.receipt) await finish(before, after)
      else write(bytesOfEntry(entry, listening))
    }
    taken()
  }

  /** Whether the portion is entirely new to this subscriber and does not end the request, as most are. */
  const isPlain = ({ entries }: Portion): boolean =>
    sentVersion !== null && changeIn(entries[0]!.fact)!.version > sentVersion && changeIn(entries.at(-1)!.fact)!.after.receipt === undefined

  function fail(): void {
    close(closings.failed, 'an internal error occurred; it was logged')
  }

  // Client frames are accepted and ignored, up to a limit.
  ws.on('message', (_, isBinary: boolean) => {
    if (isBinary) close(closings.notText, 'frames are text')
    else if (!meter.take('')) close(closings.tooMany, `at most ${bounds.framesPerMinute} frames a minute`)
  })
  ws.on('pong', () => (alive = true))
  // Malformed frames: the library closes the socket with the code that the standard names.
  ws.on('error', () => undefined)
  ws.on('close', () => {
    isOver = true
    clearTimeout(linger)
    onLeave()
  })

  return {
    async begin(request, version) {
      if (request.receipt) await finish(null, request)
      else write(framesOf(null, request, null, listening))
      sentVersion = version
      letOn()
    },
    send(portion, taken) {
      if (!isPlain(portion)) return void begun.then(() => deliver(portion, taken)).catch(fail)
      sentVersion = changeIn(portion.entries.at(-1)!.fact)!.version
      write(bytesOf(portion, listening), taken)
    },
    beat: () => undefined,
    end({ reason, code }: Ending) {
      if (reason === 'stopping') return close(closings.stopping, 'the server is stopping', Math.min(bounds.lingerMs, limits.streamStopMs))
      if (reason === 'slow') return close(closings.slow, 'the client does not read its events', 1)
      if (reason === 'failed') return fail()
      close(code === 'UNAUTHENTICATED' ? closings.credential : closings.request, LOST)
    },
    beatSocket() {
      if (!alive) return ws.terminate()
      alive = false
      if (ws.readyState === ws.OPEN) ws.ping()
    },
    fail,
  }
}
