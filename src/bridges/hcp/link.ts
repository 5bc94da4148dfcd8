// The link to the broker: one connection, a publisher with confirms, and consumers that acknowledge by hand. The only file that knows the
// client library (docs/decisions/0020-rabbitmq-client.md says what it has to be careful about).
import { Connection, type AsyncMessage, type Consumer, type Publisher } from 'rabbitmq-client'
import type { Parcel, Properties } from '#protocols/harness/wire.ts'
import { commandQueue, eventQueue } from '#protocols/harness/envelope.ts'
import { queueOptions, topologyOf, type QueueKind, type TopologyMode } from './topology.ts'

export type LinkState = 'connecting' | 'connected' | 'blocked'
export type LinkTls = { readonly ca?: string | undefined; readonly cert?: string | undefined; readonly key?: string | undefined }
export type LinkLog = {
  info(fields: object, words: string): void
  warn(fields: object, words: string): void
}
export type LinkOptions = {
  readonly id: string
  readonly url: string
  readonly tls: LinkTls | null
  readonly topology: TopologyMode
  readonly queues: QueueKind
  readonly prefetch: number
  /** Whether our messages carry the broker's user, which it checks. */
  readonly sendsUser: boolean
  readonly log: LinkLog
}

/** A message as it came. Where its sender names no encoding, the library parses JSON by itself, and `body` is written anew from that. */
export type Arrived = {
  readonly queue: string
  readonly body: Buffer
  readonly properties: Properties
  readonly user_id: string | null
  readonly headers: Readonly<Record<string, unknown>>
}
/** Taken for good, or back to the queue. */
export type Verdict = 'ack' | 'requeue'
export type Handler = (arrived: Arrived) => Promise<Verdict>

/** No queue takes it: the broker confirms such a message as well, after it has sent it back. */
export class Unroutable extends Error {
  override name = 'Unroutable'
}

export type Link = {
  state(): LinkState
  consume(handler: Handler): void
  /** Resolves when the broker has it safely in a queue. */
  publish(parcel: Parcel): Promise<void>
  stop(): Promise<void>
}

const HEARTBEAT_SECONDS = 30
const [RETRY_LOW_MS, RETRY_HIGH_MS] = [1_000, 5_000]
/** Few frames for large messages. */
const FRAME_BYTES = 128 * 1024
const [ACK, REQUEUE] = [0, 1]

export function connect(options: LinkOptions): Link {
  const { id, url, tls, log } = options
  const connection = new Connection({
    url,
    ...(tls === null ? {} : { tls }),
    heartbeat: HEARTBEAT_SECONDS,
    retryLow: RETRY_LOW_MS,
    retryHigh: RETRY_HIGH_MS,
    frameMax: FRAME_BYTES,
    connectionName: `countersign ${id}`,
    noDelay: true,
  })
  let state: LinkState = 'connecting'
  // A process that hears no error of this library ends with it.
  connection.on('error', (error: unknown) => {
    state = 'connecting'
    log.warn({ error: wordsOf(error) }, 'the broker is not there; trying again')
  })
  connection.on('connection', () => {
    declare().then(
      () => {
        state = 'connected'
        log.info({ id }, 'connected to the broker')
      },
      (error: unknown) => log.warn({ error: wordsOf(error) }, 'queues could not be declared or checked'),
    )
  })
  connection.on('connection.blocked', (reason) => {
    state = 'blocked'
    log.warn({ reason }, 'the broker takes nothing at present')
  })
  connection.on('connection.unblocked', () => (state = 'connected'))

  async function declare(): Promise<void> {
    const { exchanges, queues, bindings } = topologyOf(id)
    const isCheck = options.topology === 'check'
    for (const exchange of exchanges) await connection.exchangeDeclare(isCheck ? { exchange: exchange.exchange, passive: true } : exchange)
    for (const queue of queues) await connection.queueDeclare(queueOptions(queue, options.topology, options.queues))
    if (!isCheck) for (const binding of bindings) await connection.queueBind(binding)
  }

  const returned = new Set<string>()
  const publisher: Publisher = connection.createPublisher({ confirm: true, maxAttempts: 1 })
  publisher.on('basic.return', (message) => returned.add(String(message.messageId)))
  const consumers: Consumer[] = []
  const user = decodeURIComponent(new URL(url).username)

  return {
    state: () => state,
    consume(handler) {
      const { exchanges, bindings } = topologyOf(id)
      for (const queue of [commandQueue(id), eventQueue(id)]) {
        const isCheck = options.topology === 'check'
        const consumer = connection.createConsumer(
          {
            queue,
            queueOptions: queueOptions(queue, options.topology, options.queues),
            ...(isCheck ? {} : { exchanges: [...exchanges], queueBindings: bindings.filter((one) => one.queue === queue) }),
            qos: { prefetchCount: options.prefetch },
            noAck: false,
            exclusive: false,
          },
          async (message) => ((await handler(arrivedIn(queue, message))) === 'ack' ? ACK : REQUEUE),
        )
        consumer.on('error', (error: unknown) => log.warn({ queue, error: wordsOf(error) }, 'a queue cannot be read; trying again'))
        consumers.push(consumer)
      }
    },
    async publish({ exchange, key, properties, headers, body }) {
      const { message_id, correlation_id, type, timestamp, content_type, content_encoding } = properties
      await publisher.send(
        {
          exchange,
          routingKey: key,
          mandatory: true,
          durable: true,
          ...(message_id === undefined ? {} : { messageId: message_id }),
          ...(correlation_id === undefined ? {} : { correlationId: correlation_id }),
          ...(type === undefined ? {} : { type }),
          ...(timestamp === undefined ? {} : { timestamp }),
          ...(content_type === undefined ? {} : { contentType: content_type }),
          ...(content_encoding === undefined ? {} : { contentEncoding: content_encoding }),
          ...(options.sendsUser ? { userId: user } : {}),
          ...(headers ? { headers } : {}),
        },
        body,
      )
      // The library resolves a confirm before it tells of the return that came ahead of it.
      await new Promise(setImmediate)
      if (message_id !== undefined && returned.delete(message_id)) throw new Unroutable(`no queue takes messages for ${key}`)
    },
    async stop() {
      await Promise.all(consumers.map((consumer) => consumer.close()))
      await publisher.close()
      await connection.close()
    },
  }
}

const wordsOf = (error: unknown): string => (error instanceof Error ? error.message : String(error)).slice(0, 300)

const bytesOf = (body: unknown): Buffer =>
  Buffer.isBuffer(body) ? body : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))

function arrivedIn(queue: string, message: AsyncMessage): Arrived {
  const { messageId, correlationId, type, timestamp, contentType, contentEncoding, userId, headers } = message
  return {
    queue,
    body: bytesOf(message.body),
    properties: {
      message_id: messageId,
      correlation_id: correlationId,
      type,
      timestamp,
      content_type: contentType,
      content_encoding: contentEncoding,
    },
    user_id: userId ?? null,
    headers: headers ?? {},
  }
}
