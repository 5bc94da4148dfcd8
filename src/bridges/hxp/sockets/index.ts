// Sockets for one request each: /hxp/ws/{request_id} and /hxp/ws?request_id=. A client authenticates with a key in the header or a ticket
// in the URL. Cookies are ignored, because any page can make the browser send them.
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { WebSocketServer, type WebSocket } from 'ws'
import type { BridgeHost } from '#bindings/http/mount.ts'
import type { Sink } from '#bindings/live/hub.ts'
import { identifiedBy, type Identified } from '#bindings/shared/credentials.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { SYSTEM } from '#kernel/declare/access.ts'
import { keyOf } from '#kernel/declare/schema.ts'
import { limits } from '#kernel/limits.ts'
import type { SignedReceipt } from '#protocols/execution/answering/receipt.ts'
import { Request } from '#protocols/execution/schema.ts'
import { errorAnswer, failureAnswer, foreignPage, sendRaw, type HttpAnswer } from '../responses.ts'
import { createConnection, type Connection } from './connection.ts'
import { isForeign } from '../foreign-pages.ts'
import type { Tickets } from './tickets.ts'

export type Sockets = {
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void
  stop(): void
}

const address = /^\/hxp\/(?:v1\/)?ws\/?(?:\/([A-Za-z0-9_-]{1,80})\/?)?(?:\?|$)/
/** The request id in an address; empty: it has none; null: it is not the address of a socket. */
export function socketIdIn(url: string): string | null {
  const match = address.exec(url)
  return match && (match[1] ?? queryIn(url).get('request_id') ?? '')
}
const queryIn = (url: string): URLSearchParams => new URLSearchParams(url.includes('?') ? url.slice(url.indexOf('?') + 1) : '')

export function createSockets(host: BridgeHost, tickets: Tickets): Sockets {
  const { kernel, guard, hub, live, bug } = host
  const { origins = [], recheck = host.authenticate } = live
  const bounds = {
    sockets: live.bounds?.sockets ?? limits.socketsMax,
    beatMs: live.bounds?.beatMs ?? limits.streamBeatMs,
    lingerMs: live.bounds?.lingerMs ?? limits.streamLingerMs,
    unsentBytes: live.bounds?.unsentBytes ?? limits.streamUnsentBytesMax,
    framesPerMinute: live.bounds?.commandsPerMinute ?? limits.socketCommandsPerMinute,
  }
  const server = new WebSocketServer({
    noServer: true,
    // Clients send nothing here: small messages are accepted and ignored.
    maxPayload: 1_024,
    perMessageDeflate: false,
    clientTracking: false,
  })
  // The library would answer in HTML.
  server.on('wsClientError', (error, socket, request) =>
    sendRaw(socket, host.headersFor(request), errorAnswer(400, 'invalid_request', error.message, {}, [])),
  )
  const connections = new Set<Connection>()
  let stopped = false
  let redeemed = 0

  /** Null: the upgrade may proceed. Checks the Origin before the credential, so that a foreign page learns nothing about the credential. */
  function refusalOf(request: IncomingMessage): HttpAnswer | null {
    const refused = host.refusalOf(request)
    if (refused) return failureAnswer(refused, false)
    if (isForeign(request.headers, guard) && !host.anyOrigin && !origins.includes(request.headers.origin!)) return foreignPage
    if (stopped) return errorAnswer(503, 'unavailable', 'the server is stopping', {}, ['retry-after', '1'])
    return connections.size < bounds.sockets
      ? null
      : errorAnswer(503, 'unavailable', 'too many sockets are open: retry later', {}, ['retry-after', '5'])
  }

  async function identifiedIn({ headers, url }: IncomingMessage, id: string): Promise<Identified> {
    if (headers.authorization !== undefined) {
      const credential = guard.credentialOf(headers)
      await host.authenticate(credential)
      return identifiedBy(recheck, credential)
    }
    const ticket = queryIn(url!).get('ticket')
    if (ticket === null) throw new Refusal('UNAUTHENTICATED', 'a key in the header or a ticket in the address is required')
    const credential = await tickets.redeem(ticket, id)
    if (credential) return identifiedBy(recheck, credential)
    // Pages get theirs from identity/ticket.issue.
    if (!live.redeem) throw new Refusal('UNAUTHENTICATED', 'this ticket was used before, has expired, or never existed')
    return { who: `ticket ${++redeemed}`, caller: await live.redeem(ticket) }
  }

  const receiptOf = sharedFor(RECEIPT_MS, async (id: string) => {
    const { receipt } = (await kernel.call('execution/request.get', { request_id: id }, SYSTEM)) as { receipt: SignedReceipt }
    return receipt
  })

  async function admit(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const refused = refusalOf(request)
    if (refused) return sendRaw(socket, host.headersFor(request), refused)
    const id = socketIdIn(request.url!)!
    const { who, caller } = await identifiedIn(request, id)
    const { kind } = await caller()
    if (id === '') throw new Refusal('INVALID_REQUEST', 'request_id is required', { field: 'request_id' })
    const listening = kind !== 'human' ? 'agent' : isForeign(request.headers, guard) ? 'page' : 'person'
    const input = { request_id: id }
    const wish = { name: 'execution/request.follow', input, after: 'latest', who, caller, perActor: limits.bridgeSocketsPerActorMax }
    let opened: Connection | undefined
    let leave = (): void => undefined
    const subscription = await hub.subscribe(wish, (_, actor) => {
      const again = refusalOf(request)
      if (again) sendRaw(socket, host.headersFor(request), again)
      else
        server.handleUpgrade(request, socket, head, (ws: WebSocket) => {
          const onLeave = (): void => {
            if (opened) connections.delete(opened)
            leave()
          }
          opened = createConnection(ws, socket, { listening, actor, bounds, unsent: host.unsent, receiptOf, onLeave })
          connections.add(opened)
        })
      return opened ?? deaf
    })
    leave = subscription.close
    if (!opened) return subscription.close()
    await begin(opened, id)
  }

  /** Reads the state after subscribing, so that every change in between is in the state or in the stream. */
  async function begin(connection: Connection, id: string): Promise<void> {
    try {
      const [found] = await kernel.store.read([keyOf(Request, id)])
      await connection.begin(found!.value as Request, found!.version)
    } catch (error) {
      bug(error)
      connection.fail()
    }
  }

  const beat = setInterval(() => {
    for (const connection of connections) connection.beatSocket()
  }, bounds.beatMs)

  return {
    upgrade(request, socket, head) {
      socket.on('error', () => socket.destroy())
      admit(request, socket, head).catch((error: unknown) =>
        sendRaw(socket, host.headersFor(request), failureAnswer(host.failed(error, '/hxp/ws'), true)),
      )
    },
    stop() {
      stopped = true
      clearInterval(beat)
    },
  }
}

/** The sink after a failed handshake: there is no socket to send to. */
const deaf: Sink = { send: (_, taken) => taken(), beat: () => undefined, end: () => undefined }

const RECEIPT_MS = 1_000
/** Shares one query among callers that need the same within a moment. */
function sharedFor<T>(ms: number, ask: (id: string) => Promise<T>): (id: string) => Promise<T> {
  const asking = new Map<string, Promise<T>>()
  return (id) => {
    let asked = asking.get(id)
    if (!asked) {
      asking.set(id, (asked = ask(id)))
      setTimeout(() => asking.delete(id), ms).unref()
    }
    return asked
  }
}
