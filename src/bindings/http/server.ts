// Node's HTTP server with our bounds: the time for a head, a handshake and silence, and the number of connections.
import type { IncomingMessage, RequestListener, Server } from 'node:http'
import { createServer, type AddressInfo, type Server as NetServer, type Socket } from 'node:net'
import { limits } from '#kernel/limits.ts'
import { refuseSocket } from './connections/body-deadline.ts'
import type { HttpBounds } from './connections/bounds.ts'
import { createPlainServer, createTlsServer } from './connections/node-http.ts'
import { inTurn } from './connections/pipelining.ts'
import { tlsServerOptions, type Tls } from './connections/tls.ts'

export type ServerParts = {
  readonly tls: Tls | undefined
  readonly bounds: HttpBounds
  readonly sockets: Set<Socket>
  /** Requests with an `Expect` header that the server cannot meet. */
  readonly unmet: WeakSet<IncomingMessage>
  /** Whether this request can be upgraded to a WebSocket. Otherwise the upgrade is ignored and the request is answered normally. */
  isSocket(request: IncomingMessage): boolean
  readonly listener: RequestListener
}

export function createNodeServer({ tls, bounds, sockets, unmet, isSocket, listener }: ServerParts): Server {
  const options = {
    maxHeaderSize: limits.headerBytesMax,
    headersTimeout: bounds.requestMs,
    requestTimeout: 0, // bodies are bounded one by one
    keepAliveTimeout: bounds.keepAliveMs,
    connectionsCheckingInterval: Math.min(1_000, bounds.requestMs / 2),
    requireHostHeader: false, // Node would answer without a body
    shouldUpgradeCallback: isSocket,
  }
  const server: Server = tls ? createTlsServer({ ...options, ...tlsServerOptions(tls, bounds.requestMs) }) : createPlainServer(options)
  server.setTimeout(bounds.stuckMs)
  server.maxConnections = bounds.connections
  server.on(tls ? 'secureConnection' : 'connection', (socket: Socket) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  })
  server.on('clientError', refuseSocket)
  server.on('request', inTurn(listener))
  // A client that waits for 100-continue is answered once the upload was accepted or refused.
  server.on('checkContinue', (request: IncomingMessage, response) => {
    if (request.method !== 'PUT') response.writeContinue()
    server.emit('request', request, response)
  })
  // Node would answer without a body. Only Node knows which HTTP versions support Expect.
  server.on('checkExpectation', (request: IncomingMessage, response) => {
    unmet.add(request)
    server.emit('request', request, response)
  })
  return server
}

/** `at`: a port, or an open listener to take over. */
export async function listenOn(server: Server, at: number | NetServer, host: string): Promise<number> {
  await startListening(server, at, host)
  const taken = (server.address() as AddressInfo).port
  // This name is two addresses.
  if (host === 'localhost') {
    const second = createServer((socket) => server.emit('connection', socket))
    server.once('close', () => second.close())
    // Not every machine has IPv6.
    await startListening(second, taken, '::1').catch(() => undefined)
  }
  return taken
}

export function startListening(server: NetServer, at: number | NetServer, host: string): Promise<void> {
  return new Promise((done, failed) => {
    const ready = (): void => {
      server.off('error', failed)
      done()
    }
    server.once('error', failed)
    if (typeof at === 'number') server.listen(at, host === 'localhost' ? '127.0.0.1' : host, ready)
    else server.listen(at, ready)
  })
}
