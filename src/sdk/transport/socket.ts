// Streams over one WebSocket for everything that a client follows. A browser opens at most six connections to a server, and each event
// stream would occupy one; calls stay on HTTP. A ticket opens the socket, so that no key is in a URL.
import { CountersignError, closedError, networkError } from '../errors.ts'
import { createArrivals } from './arrivals.ts'
import type { Connect } from './stream.ts'
import type { Followed } from './transport.ts'

type Frame = {
  readonly id?: string
  readonly cursor?: string
  readonly items?: readonly unknown[]
  /** The cursor of each item, if there are several. */
  readonly cursors?: readonly string[]
  readonly authenticated?: string
  readonly error?: { readonly code: string; readonly message: string; readonly details?: Readonly<Record<string, unknown>> }
}
type Reader = { take(frame: Frame): void; end(error: CountersignError): void }
type Line = {
  subscribe(stream: string, input: object, after: string | null, reader: Reader): () => void
  close(): void
  readonly isOver: boolean
}

const AUTHENTICATED_MS = 10_000
const passing = new Set(['INTERNAL', 'UNAVAILABLE', 'BUSY', 'QUOTA_EXCEEDED'])
const refusalIn = ({ code, message, details }: NonNullable<Frame['error']>): CountersignError =>
  new CountersignError({ code, status: null, message, details, retryable: passing.has(code) })

/** Our close codes that a retry cannot fix. They end with the digits of an HTTP status. */
const closings: Readonly<Record<number, string>> = { 4401: 'UNAUTHENTICATED', 4403: 'UNAUTHORIZED' }

function openLine(address: string, ticket: string, failed: (error: CountersignError) => void): Promise<Line> {
  const socket = new WebSocket(address)
  const readers = new Map<string, Reader>()
  const { promise, resolve, reject } = Promise.withResolvers<Line>()
  let isOver = false
  let last = 0
  function end(error: CountersignError): void {
    if (isOver) return
    isOver = true
    clearTimeout(timer)
    socket.close()
    reject(error)
    for (const reader of readers.values()) reader.end(error)
    readers.clear()
    failed(error)
  }
  const timer = setTimeout(() => end(networkError('the server did not let the socket in')), AUTHENTICATED_MS)
  const say = (message: object): void => socket.send(JSON.stringify(message))
  const line: Line = {
    get isOver() {
      return isOver
    },
    subscribe(stream, input, after, reader) {
      const id = String(++last)
      readers.set(id, reader)
      say({ subscribe: { stream, input, id, after } })
      return () => {
        if (readers.delete(id) && !isOver && socket.readyState === WebSocket.OPEN) say({ unsubscribe: { id } })
      }
    },
    close: () => end(closedError()),
  }
  socket.addEventListener('open', () => say({ ticket }))
  socket.addEventListener('message', ({ data }) => {
    const frame = JSON.parse(String(data)) as Frame
    if (frame.authenticated !== undefined) {
      clearTimeout(timer)
      return resolve(line)
    }
    const reader = frame.id === undefined ? undefined : readers.get(frame.id)
    // The server has ended the subscription: there is nothing to unsubscribe.
    if (frame.error && frame.id !== undefined) readers.delete(frame.id)
    if (reader) reader.take(frame)
    else if (frame.id === undefined && frame.error) end(refusalIn(frame.error))
  })
  socket.addEventListener('error', () => end(networkError('the socket broke')))
  socket.addEventListener('close', ({ code, reason }) => {
    const final = closings[code]
    end(
      final === undefined
        ? networkError('the socket was closed')
        : new CountersignError({ code: final, status: code - 4000, message: reason, retryable: false }),
    )
  })
  return promise
}

/** A queue of received items of one subscription. */
function createQueue(moved: (cursor: string | null) => void): Reader & { all(before: string | null): AsyncIterable<Followed> } {
  const frames = createArrivals<Frame>()
  return {
    take: frames.push,
    end: frames.end,
    async *all(before) {
      let place = before ?? ''
      for await (const { cursor = place, items = [], cursors = [cursor], error } of frames.all()) {
        for (const [i, item] of items.entries()) yield { cursor: cursors[i]!, item }
        place = cursor
        if (items.length === 0) moved(cursor)
        if (error) throw refusalIn(error)
      }
    },
  }
}

export type SocketStreams = {
  streamOf(operation: string, input: object): Connect
  /** Sockets fail although calls succeed: probably a proxy does not forward them. */
  isBlocked(): boolean
  close(): void
}

/** The server's limit of streams per socket. The next stream opens another socket. */
const CARRIED_MAX = 32
type Shared = { readonly line: Promise<Line>; carried: number }
/** Consecutive failed openings until sockets count as blocked. After that, each new connection tries once more. */
const BLOCKED_AFTER = 2

/** `ticket`: asks for one with the credential of the calls. */
export function socketStreams(base: string, ticket: () => Promise<string>): SocketStreams {
  const address = `${base.replace(/^http/, 'ws')}/v1/ws`
  let shared: Shared[] = []
  let isClosed = false
  let failed = 0
  async function openTicketLine(gone: () => void): Promise<Line> {
    const token = await ticket()
    failed++
    const line = await openLine(address, token, gone)
    failed = 0
    return line
  }
  function open(): Shared {
    const opened: Shared = { line: openTicketLine(forgetLine), carried: 0 }
    function forgetLine(): void {
      shared = shared.filter((entry) => entry !== opened)
    }
    opened.line.catch(forgetLine)
    shared = [...shared, opened]
    return opened
  }
  return {
    streamOf: (operation, input) =>
      async function* (after, signal, moved) {
        if (isClosed) throw closedError()
        const socket = shared.find(({ carried }) => carried < CARRIED_MAX) ?? open()
        const queue = createQueue(moved)
        const leave = (): void => queue.end(closedError())
        let unsubscribe: (() => void) | null = null
        socket.carried++
        signal.addEventListener('abort', leave)
        try {
          unsubscribe = (await socket.line).subscribe(operation, input, after, queue)
          if (signal.aborted) return
          yield* queue.all(after)
        } finally {
          socket.carried--
          signal.removeEventListener('abort', leave)
          unsubscribe?.()
        }
      },
    isBlocked() {
      if (failed < BLOCKED_AFTER) return false
      failed = BLOCKED_AFTER - 1
      return true
    },
    close() {
      isClosed = true
      for (const { line } of shared) void line.then((found) => found.close()).catch(() => undefined)
    },
  }
}
