// JSON-RPC over a Unix socket, for Node on the server's own machine (`countersign/node`). One connection for calls, and one for each
// stream: a slow reader of a stream must not hold up its own calls.
import { connect, type Socket } from 'node:net'
import { createLineReader } from '#kernel/codec/line-reader.ts'
import { closedError, CountersignError, invalidAnswer, networkError, statusOf, timeoutError } from '../errors.ts'
import { createArrivals } from './arrivals.ts'
import { resumeStream, type Connect } from './stream.ts'
import { newKey, withRetries, usualRetry, type Followed, type Retry, type RetryOptions, type Transport } from './transport.ts'

export type SocketTransportOptions = RetryOptions & {
  /** Such as data/countersign.sock. */
  readonly path: string
  readonly key?: string | undefined
}

const LINE_BYTES_MAX = 256 * 1024 * 1024
/** Items that wait for their reader; beyond it the socket is not read. */
const ITEMS_MAX = 256

export function socketTransport({ path, key, ...rest }: SocketTransportOptions): Transport {
  const retry: Retry = { ...usualRetry, ...rest }
  let shared: Promise<Connection> | null = null
  const open = new Set<Connection>()
  let closed = false

  async function openConnection(): Promise<Connection> {
    if (closed) throw closedError()
    const connection = await connectTo(path, (gone) => open.delete(gone))
    open.add(connection)
    try {
      if (key !== undefined) await connection.request('rpc.authenticate', { token: key }, undefined, retry.timeoutMs)
      return connection
    } catch (error) {
      connection.close()
      throw error
    }
  }

  function sharedConnection(): Promise<Connection> {
    shared ??= openConnection().then(
      (connection) => {
        connection.onGone(() => (shared = null))
        return connection
      },
      (error: unknown) => {
        shared = null
        throw error
      },
    )
    return shared
  }

  const streamOf = (operation: string, input: object): Connect =>
    async function* (after, signal, moved) {
      const connection = await openConnection()
      const leave = (): void => connection.close()
      signal.addEventListener('abort', leave)
      try {
        const begun = await connection.request('rpc.follow', { stream: operation, input, after }, signal, retry.timeoutMs)
        moved((begun as { cursor: string | null }).cursor)
        yield* connection.items()
      } finally {
        signal.removeEventListener('abort', leave)
        connection.close()
      }
    }

  return {
    where: path,
    call: (operation, input, { idempotencyKey = newKey(), signal, timeoutMs = retry.timeoutMs } = {}) =>
      withRetries(retry, signal, async () => {
        const connection = await sharedConnection()
        const meta = idempotencyKey === null ? {} : { _meta: { idempotency_key: idempotencyKey } }
        return connection.request(operation, { ...input, ...meta }, signal, timeoutMs)
      }),
    follow: (operation, input, options = {}) => resumeStream(retry, options, streamOf(operation, input)),
    close() {
      closed = true
      for (const connection of open) connection.close()
      return Promise.resolve()
    },
  }
}

type Connection = {
  request(method: string, params: object, signal: AbortSignal | undefined, timeoutMs: number): Promise<unknown>
  /** The items of the stream of this connection, until its end. */
  items(): AsyncIterable<Followed>
  onGone(gone: () => void): void
  close(): void
}

type Message = {
  readonly id?: number | null
  readonly result?: unknown
  readonly error?: RpcError
  readonly method?: string
  readonly params?: { readonly cursor?: string; readonly item?: unknown; readonly error?: RpcError | null }
}
type RpcError = {
  readonly message: string
  readonly data: { readonly code: string; readonly fault: string; readonly details: Record<string, unknown> }
}

function connectTo(path: string, gone: (connection: Connection) => void): Promise<Connection> {
  return new Promise((done, failed) => {
    const socket = connect(path)
    socket.once('error', (error: NodeJS.ErrnoException) => failed(networkError(`no server answers at ${path}: ${error.code}`, error)))
    socket.once('connect', () => {
      const connection = connectionOn(socket)
      connection.onGone(() => gone(connection))
      done(connection)
    })
  })
}

function connectionOn(socket: Socket): Connection {
  const waiting = new Map<number, { done(result: unknown): void; failed(error: unknown): void }>()
  const items = createItems(socket)
  const leaving: (() => void)[] = []
  const lines = createLineReader(LINE_BYTES_MAX)
  const decoder = new TextDecoder()
  let lastId = 0

  function take(message: Message): void {
    if (message.method === 'rpc.item') return items.push({ cursor: message.params!.cursor!, item: message.params!.item })
    if (message.method === 'rpc.end')
      return items.end(message.params?.error ? refusalOf(message.params.error) : networkError('the stream ended'))
    const pending = typeof message.id === 'number' ? waiting.get(message.id) : undefined
    if (!pending) {
      // The server speaks of the connection as a whole and then closes it.
      if (message.error) abandon(refusalOf(message.error))
      return
    }
    waiting.delete(message.id!)
    if (message.error) pending.failed(refusalOf(message.error))
    else pending.done(message.result)
  }

  function abandon(error: CountersignError): void {
    socket.destroy()
    for (const pending of waiting.values()) pending.failed(error)
    waiting.clear()
    items.end(error)
    for (const leave of leaving.splice(0)) leave()
  }

  socket.on('data', (chunk) => {
    lines.push(chunk as Buffer)
    try {
      for (let line = lines.next(); line !== null; line = lines.next()) take(JSON.parse(decoder.decode(line)) as Message)
    } catch {
      abandon(invalidAnswer(null, 'the answer is not JSON'))
    }
    if (lines.tooLong) abandon(invalidAnswer(null, 'the answer is too long'))
  })
  socket.on('error', () => undefined)
  socket.on('close', () => abandon(networkError('the connection was closed')))

  return {
    request(method, params, signal, timeoutMs) {
      return new Promise((resolve, reject) => {
        const id = ++lastId
        const settle = <T>(use: (value: T) => void) => {
          return (value: T): void => {
            clearTimeout(timer)
            signal?.removeEventListener('abort', abort)
            waiting.delete(id)
            use(value)
          }
        }
        const failed = settle(reject)
        const abort = (): void => failed(signal!.reason)
        const timer = setTimeout(() => failed(timeoutError(timeoutMs)), timeoutMs)
        if (socket.destroyed) return failed(networkError('the connection was closed'))
        if (signal?.aborted) return abort()
        signal?.addEventListener('abort', abort)
        waiting.set(id, { done: settle(resolve), failed })
        socket.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`)
      })
    },
    items: items.all,
    onGone: (leave) => void (socket.destroyed ? leave() : leaving.push(leave)),
    close: () => abandon(networkError('the connection was closed')),
  }
}

/** A queue of received items; the socket pauses when it is long. */
function createItems(socket: Socket): { push(item: Followed): void; end(error: CountersignError): void; all(): AsyncIterable<Followed> } {
  const items = createArrivals<Followed>()
  return {
    push(item) {
      items.push(item)
      if (items.waiting >= ITEMS_MAX) socket.pause()
    },
    end: items.end,
    async *all() {
      for await (const item of items.all()) {
        yield item
        if (items.waiting === 0) socket.resume()
      }
    },
  }
}

function refusalOf({ message, data: { code, fault, details } }: RpcError): CountersignError {
  const seconds = details['retry_after']
  return new CountersignError({
    code,
    status: statusOf(fault),
    message,
    details,
    retryable: fault === 'quota' || fault === 'busy',
    retryAfterMs: typeof seconds === 'number' ? seconds * 1_000 : null,
  })
}
