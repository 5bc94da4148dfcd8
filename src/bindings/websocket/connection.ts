// One WebSocket connection: the frames it sends and gets, and how it ends. Frames are taken one after the other.
import type { Duplex } from 'node:stream'
import type { RawData, WebSocket } from 'ws'
import { Refusal, type Fault } from '#kernel/declare/errors.ts'
import { refusedJson } from '#kernel/codec/refused-json.ts'
import { decode, isObject } from '#kernel/codec/strict-json.ts'
import { limits } from '#kernel/limits.ts'
import { createRateLimit } from '#kernel/codec/rate-limit.ts'
import { nullable, parse, t, type Static } from '#kernel/declare/schema.ts'
import type { Ending, Hub, Portion, Sink, Subscription } from '../live/hub.ts'
import { failureOf, internalFailure } from '../http/responses.ts'
import type { UnsentAnswers } from '../shared/unsent-answers.ts'
import type { Identified } from '../shared/credentials.ts'
import type { SocketBounds } from './index.ts'

const ID_CHARS_MAX = 64
const Id = t.String({ minLength: 1, maxLength: ID_CHARS_MAX })
const commands = {
  ticket: t.String({ maxLength: 200 }),
  subscribe: t.Object({
    stream: t.String({ maxLength: 200 }),
    input: t.Optional(t.Unknown()),
    after: t.Optional(nullable(t.String({ maxLength: 200 }))),
    id: Id,
  }),
  unsubscribe: t.Object({ id: Id }),
}
type Subscribe = Static<(typeof commands)['subscribe']>

/** RFC 6455 leaves 4000 to 4999 to us; the last digits are the matching HTTP status. */
const closings = { unauthenticated: 4401, forbidden: 4403, slow: 4008, tooMany: 1008, stopping: 1001, failed: 1011, notText: 1003 } as const
/** A reason has at most 123 bytes. */
const REASON_CHARS = 120
/** Responses queued for a client that sends requests but does not read. */
const ANSWERS_BYTES_MAX = 256 * 1024

/** The id in a refused frame, so that the client can match the refusal. */
function idIn(frame: Uint8Array): { readonly id?: string } {
  const refused = refusedJson(frame)
  const [name] = isObject(refused?.value) ? Object.keys(refused.value) : []
  const held = name === undefined ? undefined : (refused!.value as Record<string, unknown>)[name]
  if (!isObject(held) || refused!.repeatsId(name)) return {}
  const { id } = held
  return typeof id === 'string' && id.length <= ID_CHARS_MAX ? { id } : {}
}

export type Connection = {
  beat(): void
  stop(): void
}

type ConnectionOptions = {
  readonly hub: Hub
  readonly codes: Readonly<Record<string, Fault>>
  readonly bounds: SocketBounds
  readonly unsent: UnsentAnswers
  redeem(ticket: string): Promise<Identified>
  bug(error: unknown): void
  /** The client has authenticated, or disconnected without authenticating. */
  known(): void
  left(connection: Connection): void
}

export function createConnection(ws: WebSocket, socket: Duplex, first: Identified | null, options: ConnectionOptions): Connection {
  const { hub, codes, bounds, unsent, bug } = options
  const subscriptions = new Map<string, Subscription | null>() // null: it is opening
  const meter = createRateLimit(bounds.commandsPerMinute, () => performance.now())
  const queue: Uint8Array[] = []
  let identified = first
  let busy = false
  let alive = true
  let isOver = false
  let farewell = 'the server is stopping'
  let linger: NodeJS.Timeout | undefined

  const say = (message: object, taken?: () => void): void => ws.send(JSON.stringify(message), taken)

  function leave(): void {
    isOver = true
    for (const subscription of subscriptions.values()) subscription?.close()
    subscriptions.clear()
  }

  function close(code: number, reason: string): void {
    if (isOver) return
    leave()
    ws.close(code, reason.slice(0, REASON_CHARS))
    linger = setTimeout(() => ws.terminate(), bounds.lingerMs)
  }

  const silence = setTimeout(() => close(closings.unauthenticated, 'authenticate within a few seconds'), bounds.silentMs)
  function onMessage(): void {
    clearTimeout(silence)
    if (first === null) options.known()
  }
  if (first !== null) clearTimeout(silence)

  function errorOf(error: unknown): object {
    const failure = failureOf(error, codes)
    if (!failure) bug(error)
    const { code, message, details } = failure ?? internalFailure
    return { code, message, details }
  }

  async function obey(command: unknown): Promise<void> {
    const [name, more] = Object.keys(command as object)
    if (name === undefined || more !== undefined || !Object.hasOwn(commands, name))
      throw new Refusal('INVALID_REQUEST', `a frame must be a JSON object with one of: ${Object.keys(commands).join(', ')}`)
    const value = (command as Record<string, unknown>)[name]
    if (name === 'ticket') return comeWith(parse(commands.ticket, value))
    if (identified === null) throw new Refusal('UNAUTHENTICATED', 'send {"ticket": "..."} first')
    if (name === 'subscribe') return subscribe(parse(commands.subscribe, value), identified)
    unsubscribe(parse(commands.unsubscribe, value).id)
  }

  async function comeWith(ticket: string): Promise<void> {
    if (identified !== null) throw new Refusal('INVALID_REQUEST', 'this connection is authenticated already')
    const found = await options.redeem(ticket)
    const { id } = await found.caller()
    if (isOver) return
    identified = found
    onMessage()
    say({ authenticated: id })
  }

  async function subscribe({ stream, input = {}, after = null, id }: Subscribe, { who, caller }: Identified): Promise<void> {
    if (subscriptions.has(id)) return say({ id, error: errorOf(new Refusal('CONFLICT', 'there is a subscription with this id already')) })
    if (subscriptions.size >= bounds.perSocket)
      return say({ id, error: errorOf(new Refusal('QUOTA_EXCEEDED', `a socket has at most ${bounds.perSocket} subscriptions`)) })
    subscriptions.set(id, null)
    try {
      const subscription = await hub.subscribe({ name: stream, input, after, who, caller }, (cursor, actor) => sinkOf(id, cursor, actor))
      if (isOver) subscription.close()
      else subscriptions.set(id, subscription)
    } catch (error) {
      subscriptions.delete(id)
      const failure = errorOf(error) as { code: string; message: string }
      if (failure.code === 'UNAUTHENTICATED') return close(closings.unauthenticated, failure.message)
      say({ id, error: failure })
    }
  }

  function unsubscribe(id: string): void {
    const subscription = subscriptions.get(id)
    if (!subscription) return say({ id, error: errorOf(new Refusal('NOT_FOUND', 'there is no subscription with this id')) })
    const cursor = subscription.cursor()
    subscription.close()
    subscriptions.delete(id)
    say({ id, cursor, unsubscribed: true })
  }

  function sinkOf(id: string, first: string, actor: string): Sink {
    let sent = first
    say({ id, cursor: first, items: [] })
    return {
      send(portion, taken) {
        sent = portion.cursor
        const text = textOf(id, portion)
        ws.send(text, { binary: false }, () => {
          unsent.release(socket, text.length)
          taken()
        })
        if (socket.writableLength > 0) unsent.hold(socket, actor, text.length)
      },
      beat(cursor) {
        if (cursor !== sent) say({ id, cursor, items: [] })
        sent = cursor
      },
      end: (ending, cursor) => lose(id, ending, cursor),
    }
  }

  /** A fault of the server or its store: a retry might succeed. */
  const isOurFault = (code: string): boolean => codes[code] === 'internal' || codes[code] === 'busy'

  function lose(id: string, { reason, code, message }: Ending, cursor: string): void {
    subscriptions.delete(id)
    if (reason === 'slow') return close(closings.slow, cursor)
    if (reason === 'stopping') {
      farewell = cursor
      return say({ id, cursor, items: [] })
    }
    say({ id, cursor, error: { code, message, details: {} } })
    if (code === 'UNAUTHENTICATED') close(closings.unauthenticated, message)
    // Other subscriptions on this socket continue.
    else if (subscriptions.size === 0) close(isOurFault(code) ? closings.failed : closings.forbidden, message)
  }

  async function work(): Promise<void> {
    busy = true
    for (let frame = queue.shift(); frame !== undefined && !isOver; frame = queue.shift()) {
      try {
        if (!meter.take('')) return close(closings.tooMany, `at most ${bounds.commandsPerMinute} frames a minute`)
        const command = decode(frame)
        if (typeof command !== 'object' || command === null) throw new Refusal('INVALID_REQUEST', 'a frame must be a JSON object')
        await obey(command)
      } catch (error) {
        const failure = errorOf(error) as { code: string; message: string }
        say({ ...idIn(frame), error: failure })
        if (failure.code === 'UNAUTHENTICATED') close(closings.unauthenticated, failure.message)
      }
      if (ws.bufferedAmount > ANSWERS_BYTES_MAX && subscriptions.size === 0) close(closings.slow, '')
    }
    queue.length = 0
    busy = false
    ws.resume()
  }

  const connection: Connection = {
    beat() {
      if (!alive) return ws.terminate()
      alive = false
      if (ws.readyState === ws.OPEN) ws.ping()
    },
    stop() {
      close(closings.stopping, farewell)
      clearTimeout(linger)
      linger = setTimeout(() => ws.terminate(), Math.min(bounds.lingerMs, limits.streamStopMs))
    },
  }

  ws.on('message', (data: RawData, isBinary: boolean) => {
    if (isBinary) return close(closings.notText, 'frames are text')
    queue.push(data as Buffer)
    // Messages that arrive while we work wait in the sender's buffers.
    ws.pause()
    if (!busy) void work()
  })
  ws.on('pong', () => (alive = true))
  // Invalid frames: the library closes the socket with the standard code.
  ws.on('error', () => undefined)
  ws.on('close', () => {
    clearTimeout(silence)
    clearTimeout(linger)
    if (first === null && identified === null) options.known()
    leave()
    options.left(connection)
  })
  return connection
}

/** One text for all clients whose subscription has the same id. */
function textOf(id: string, { cursor, entries, memo }: Portion): Buffer {
  const name = `ws ${id}`
  let text = memo.get(name)
  if (!text) {
    let tail = memo.get('ws')
    if (!tail) {
      const parts = entries.flatMap(({ written }, i) => (i === 0 ? [written.json] : [COMMA, written.json]))
      // A client can stop within a portion and later continue after the last item that it got.
      const each = entries.length > 1 ? `],"cursors":${JSON.stringify(entries.map((entry) => entry.cursor))}}` : ']}'
      memo.set('ws', (tail = Buffer.concat([Buffer.from(`,"cursor":"${cursor}","items":[`), ...parts, Buffer.from(each)])))
    }
    memo.set(name, (text = Buffer.concat([Buffer.from(`{"id":${JSON.stringify(id)}`), tail])))
  }
  return text
}
const COMMA = Buffer.from(',')
