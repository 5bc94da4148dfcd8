// Streams over WebSocket: JSON text frames, many subscriptions on one socket. A program opens a socket with a key, our own
// pages with a ticket. Cookies are ignored, because any page can make a browser send them.
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { WebSocketServer, type WebSocket } from 'ws'
import type { Fault } from '#kernel/declare/errors.ts'
import { limits } from '#kernel/limits.ts'
import type { Hub } from '../live/hub.ts'
import { failureOf, internalFailure, rawAnswer, transportFailure, type Failure } from '../http/responses.ts'
import type { BrowserGuard } from '../http/browser/browser-guard.ts'
import type { Credential, Identified } from '../shared/credentials.ts'
import { STATUS_CODES } from '../http/connections/node-http.ts'
import type { UnsentAnswers } from '../shared/unsent-answers.ts'
import { createPerActorCounter } from '../shared/per-actor.ts'
import { createConnection, type Connection } from './connection.ts'

export const SOCKET_PATH = '/v1/ws'

export type SocketBounds = {
  readonly sockets: number
  readonly perSocket: number
  /** Silent sockets have not authenticated yet. */
  readonly silentMs: number
  readonly silentPerAddress: number
  readonly beatMs: number
  readonly lingerMs: number
  readonly commandsPerMinute: number
}
const usualBounds: SocketBounds = {
  sockets: limits.socketsMax,
  perSocket: limits.streamsPerSocketMax,
  silentMs: limits.socketSilentMs,
  silentPerAddress: limits.socketsSilentPerAddressMax,
  beatMs: limits.streamBeatMs,
  lingerMs: limits.streamLingerMs,
  commandsPerMinute: limits.socketCommandsPerMinute,
}

export type SocketOptions = {
  readonly hub: Hub
  readonly guard: BrowserGuard
  readonly codes: Readonly<Record<string, Fault>>
  /** Origins of pages in addition to our own. */
  readonly origins: readonly string[]
  readonly bounds?: Partial<SocketBounds> | undefined
  readonly unsent: UnsentAnswers
  identify(credential: Credential): Promise<Identified>
  /** Redeems a ticket once, or refuses it. */
  redeem(ticket: string): Promise<Identified>
  isStopping(): boolean
  bug(error: unknown): void
}

export type WebSockets = {
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void
  stop(): void
}

export function createWebSockets(options: SocketOptions): WebSockets {
  const { guard, codes, bug } = options
  const bounds: SocketBounds = { ...usualBounds, ...options.bounds }
  const server = new WebSocketServer({
    noServer: true,
    maxPayload: limits.socketFrameBytesMax,
    // A compressed frame of a few bytes can expand to megabytes.
    perMessageDeflate: false,
    clientTracking: false,
  })
  const connections = new Set<Connection>()
  const silent = createPerActorCounter()

  /** Null: the request is accepted. The Origin is checked before the credential, so that a foreign page learns nothing about it. */
  function refusalOf({ headers }: IncomingMessage, address: string): Failure | null {
    const host = guard.hostOf(headers)
    if (host === undefined) return transportFailure(421, 'INVALID_REQUEST', 'this server does not serve that host name: --hosts adds it')
    const { origin } = headers
    if (origin !== undefined && guard.isForeignOrigin(headers) && !options.origins.includes(origin))
      return transportFailure(403, 'UNAUTHORIZED', 'pages of this origin may not open a socket here (see --origins)')
    if (options.isStopping()) return transportFailure(503, 'UNAVAILABLE', 'the server is stopping', { 'retry-after': '1' })
    if (connections.size >= bounds.sockets)
      return transportFailure(503, 'BUSY', `${bounds.sockets} sockets are open, the maximum: retry later`, { 'retry-after': '5' })
    const isSilent = headers.authorization === undefined
    if (isSilent && silent.of(address) >= bounds.silentPerAddress)
      return transportFailure(429, 'QUOTA_EXCEEDED', 'too many sockets of this address have not authenticated yet', { 'retry-after': '5' })
    return null
  }

  /** Identifies the client by its header or by the ticket in the URL; null: its first frame must carry the credential. */
  async function identifiedIn({ headers, url }: IncomingMessage): Promise<Identified | null> {
    if (headers.authorization !== undefined) return options.identify(guard.credentialOf(headers))
    const ticket = new URL(url ?? '', 'http://localhost').searchParams.get('ticket')
    return ticket === null ? null : options.redeem(ticket)
  }

  async function admit(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const address = request.socket.remoteAddress ?? ''
    const refused = refusalOf(request, address)
    if (refused) return answer(socket, refused)
    const identified = await identifiedIn(request)
    if (options.isStopping()) return answer(socket, transportFailure(503, 'UNAVAILABLE', 'the server is stopping'))
    server.handleUpgrade(request, socket, head, (ws: WebSocket) => {
      const known = identified === null ? silent.enter(address) : (): void => undefined
      const forget = (ended: Connection): void => void connections.delete(ended)
      connections.add(createConnection(ws, socket, identified, { ...options, bounds, known, left: forget }))
    })
  }

  const beat = setInterval(() => {
    for (const connection of connections) connection.beat()
  }, bounds.beatMs)

  return {
    upgrade(request, socket, head) {
      socket.on('error', () => socket.destroy())
      admit(request, socket, head).catch((error: unknown) => {
        const failure = failureOf(error, codes)
        if (!failure) bug(error)
        answer(socket, failure ?? internalFailure)
      })
    },
    stop() {
      clearInterval(beat)
      for (const connection of connections) connection.stop()
    },
  }
}

function answer(socket: Duplex, failure: Failure): void {
  if (socket.writable) socket.end(rawAnswer(failure, STATUS_CODES[failure.status]!), () => socket.destroy())
  else socket.destroy()
}
