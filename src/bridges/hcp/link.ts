// The link to the broker: one connection, a publisher with confirms, and consumers that acknowledge by hand. The only file that knows the
// client library (docs/decisions/0020-rabbitmq-client.md says what it has to be careful about).
import { Connection, type AsyncMessage, type Consumer, type Publisher } from 'rabbitmq-client'
import { messageOf } from '#kernel/codec/cut-text.ts'
import { Unroutable, type Parcel, type Properties } from '#protocols/harness/message-decoder.ts'
import { commandQueue, DEAD, eventQueue } from '#protocols/harness/envelope.ts'
import { queueOptions, topologyOf, type QueueKind, type TopologyMode } from './topology.ts'

/** unbound: connected, but messages for this harness do not reach its queues; `problem` says why. */
export type LinkState = 'connecting' | 'connected' | 'blocked' | 'unbound'
export type LinkTls = { readonly ca?: string | undefined; readonly cert?: string | undefined; readonly key?: string | undefined }
export type LinkLog = {
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
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
  /** How often exchanges, queues and bindings are checked; 15 s by default. */
  readonly checkMs?: number
  readonly log: LinkLog
}

/** A received message. If the sender names no encoding, the library parses the JSON, and `body` is serialized again from the result. */
export type Arrived = {
  readonly queue: string
  readonly body: Buffer
  readonly properties: Properties
  readonly user_id: string | null
  readonly headers: Readonly<Record<string, unknown>>
}
/** Acknowledged, or returned to the queue. */
export type Verdict = 'ack' | 'requeue'
export type Handler = (arrived: Arrived) => Promise<Verdict>

export type Link = {
  state(): LinkState
  /** Why messages do not reach this harness, and what to do; null: they do. */
  problem(): string | null
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
const CHECK_MS = 15_000
/** The header of a probe to our own queue, which shows that the queue is bound. */
const PROBE = 'x-countersign-probe'
const PROBE_MS = 60_000

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
  const user = decodeURIComponent(new URL(url).username)
  let state: 'connecting' | 'connected' | 'blocked' = 'connecting'
  /** undefined: not checked yet. */
  let problem: string | null | undefined
  let checking: Promise<void> | null = null
  let handler: Handler | null = null
  const consumers: Consumer[] = []
  // Without a listener, an error of this library ends the process.
  connection.on('error', (error: unknown) => {
    state = 'connecting'
    log.warn({ error: messageOf(error) }, 'cannot reach the broker; retrying')
  })
  connection.on('connection', () => {
    problem = undefined
    void check()
  })
  connection.on('connection.blocked', (reason) => {
    state = 'blocked'
    log.warn({ reason }, 'the broker accepts no messages at present')
  })
  connection.on('connection.unblocked', () => (state = 'connected'))
  // A harness with the rights can delete an exchange with its bindings, and the broker sends no notice of it.
  const timer = setInterval(() => void check(), options.checkMs ?? CHECK_MS)
  timer.unref()

  const check = (): Promise<void> => (checking ??= ensureTopology().finally(() => (checking = null)))

  async function ensureTopology(): Promise<void> {
    if (!connection.ready) return
    const before = problem
    problem = await topologyProblem()
    if (!connection.ready) return
    if (state === 'connecting') state = 'connected'
    if (problem !== null && problem !== before) log.warn({ error: problem }, 'messages for this harness do not reach its queues')
    if (problem === null && before !== null)
      log.info({ id }, before === undefined ? 'connected to the broker' : 'bound at the broker again')
    if (problem === null) startConsumers()
  }

  async function topologyProblem(): Promise<string | null> {
    try {
      if (options.topology === 'check' || !(await declare())) await checkMade()
      return null
    } catch (error) {
      return messageOf(error)
    }
  }

  /** Declares missing exchanges and queues; idempotent. Returns false if this user lacks the permission and the operator declares them. */
  async function declare(): Promise<boolean> {
    const { exchanges, bindings } = topologyOf(id)
    try {
      // Declares commands first, each exchange with its queue: other harnesses can submit as soon as that queue is bound.
      for (const binding of bindings) {
        await connection.exchangeDeclare(exchanges.find(({ exchange }) => exchange === binding.exchange)!)
        await connection.queueDeclare(queueOptions(binding.queue, options.queues))
        await connection.queueBind(binding)
      }
      return true
    } catch (error) {
      if (isRefused(error)) return false
      throw error
    }
  }

  /** Checks that everything exists and that messages reach this harness's queues. Dead letters have no reader that could take a probe. */
  async function checkMade(): Promise<void> {
    const { exchanges, queues, bindings } = topologyOf(id)
    const remedy = `the operator makes it: countersign harness permissions ${id} --apply`
    const requireExisting = async (name: string, look: () => Promise<unknown>): Promise<void> => {
      await look().catch((error: unknown) => {
        throw isMissing(error) ? new Error(`there is no ${name} at the broker: ${remedy}`) : error
      })
    }
    for (const { exchange } of exchanges) await requireExisting(exchange, () => connection.exchangeDeclare({ exchange, passive: true }))
    for (const queue of queues) await requireExisting(queue, () => connection.queueDeclare({ queue, passive: true }))
    for (const { exchange, queue, routingKey } of bindings)
      if (exchange !== DEAD && !(await isRouted(exchange, routingKey.replace('#', 'probe'))))
        throw new Error(`${queue} is not bound to ${exchange}: ${remedy}`)
  }

  /** A user without the right to publish there gets no answer. On a separate channel, because a refused publish closes its channel. */
  async function isRouted(exchange: string, routingKey: string): Promise<boolean> {
    const prober = connection.createPublisher({ confirm: true, maxAttempts: 1 })
    let isReturned = false
    prober.on('basic.return', () => (isReturned = true))
    try {
      const headers = { [PROBE]: id }
      const envelope = { exchange, routingKey, mandatory: true, expiration: String(PROBE_MS), headers }
      await prober.send({ ...envelope, ...(options.sendsUser ? { userId: user } : {}) }, Buffer.alloc(0))
      await new Promise(setImmediate)
      return !isReturned
    } catch (error) {
      if (isRefused(error)) return true
      throw error
    } finally {
      await prober.close()
    }
  }
  const isProbe = ({ headers, user_id }: Arrived): boolean => headers[PROBE] === id && (user_id === user || !options.sendsUser)

  /** Starts reading once the queues exist; after that the library restarts by itself. */
  function startConsumers(): void {
    if (handler === null || consumers.length > 0) return
    const take = handler
    for (const queue of [commandQueue(id), eventQueue(id)]) {
      const consumer = connection.createConsumer(
        { queue, queueOptions: { passive: true }, qos: { prefetchCount: options.prefetch }, noAck: false, exclusive: false },
        async (message) => {
          const arrived = arrivedIn(queue, message)
          return isProbe(arrived) || (await take(arrived)) === 'ack' ? ACK : REQUEUE
        },
      )
      consumer.on('error', (error: unknown) => log.warn({ queue, error: messageOf(error) }, 'cannot read a queue; retrying'))
      consumers.push(consumer)
    }
  }

  const returned = new Set<string>()
  const publisher: Publisher = connection.createPublisher({ confirm: true, maxAttempts: 1 })
  publisher.on('basic.return', (message) => returned.add(String(message.messageId)))

  return {
    state: () => (state === 'connected' && problem !== null ? (problem === undefined ? 'connecting' : 'unbound') : state),
    problem: () => problem ?? null,
    consume(given) {
      handler = given
      if (problem === null) startConsumers()
    },
    async publish({ exchange, key, properties, headers, body }) {
      const { message_id, correlation_id, type, timestamp, content_type, content_encoding } = properties
      const sending = publisher.send(
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
      await sending.catch((error: unknown) => {
        // An exchange is missing, so declare it again before the next attempt.
        if (isMissing(error)) void check()
        throw error
      })
      // The library resolves a confirm before it emits the earlier return.
      await new Promise(setImmediate)
      if (message_id !== undefined && returned.delete(message_id)) throw new Unroutable(`no queue takes messages for ${key}`)
    },
    async stop() {
      clearInterval(timer)
      await checking
      await Promise.all(consumers.map((consumer) => consumer.close()))
      await publisher.close()
      await connection.close()
    },
  }
}

const codeOf = (error: unknown): unknown => (error as { code?: unknown } | null)?.code
const isRefused = (error: unknown): boolean => codeOf(error) === 'ACCESS_REFUSED'
const isMissing = (error: unknown): boolean => codeOf(error) === 'NOT_FOUND'

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
