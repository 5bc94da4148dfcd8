// A listener that answers 503 while the server starts, so that a load balancer can tell a start from a crash. The server then takes over the
// open port without a gap.
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { AddressInfo, Server as NetServer } from 'node:net'
import { createPlainServer, createTlsServer } from './connections/node-http.ts'
import { refuseSocket } from './connections/body-deadline.ts'
import { tlsServerOptions, type Tls } from './connections/tls.ts'
import { startListening } from './server.ts'
import { bodyOf, securityHeaders } from './responses.ts'

export type Starting = {
  readonly port: number
  /** Returns the listening server, whose open port the next server takes over. */
  handOver(): NetServer
  stop(): void
}

const REASON = 'starting'
const REQUEST_MS = 5_000

export async function listenEarly(tls: Tls | undefined, port: number, host: string): Promise<Starting> {
  const options = { requireHostHeader: false, requestTimeout: REQUEST_MS, headersTimeout: REQUEST_MS }
  const server: Server = tls ? createTlsServer({ ...options, ...tlsServerOptions(tls, REQUEST_MS) }) : createPlainServer(options)
  server.on('request', answer)
  server.on('clientError', refuseSocket)
  // The client reconnects its WebSocket once the server is ready.
  server.on('upgrade', (_, socket) => socket.destroy())
  await startListening(server, port, host)
  let isGiven = false
  return {
    port: (server.address() as AddressInfo).port,
    handOver() {
      isGiven = true
      return server
    },
    stop() {
      // The server closes the socket once it was handed over.
      if (!isGiven) server.close()
      server.closeAllConnections()
    },
  }
}

function answer(request: IncomingMessage, response: ServerResponse): void {
  const body = bodyFor(request.url!)
  response.writeHead(503, { ...securityHeaders, 'retry-after': '1', 'content-length': Buffer.byteLength(body), connection: 'close' })
  response.end(body)
}

function bodyFor(url: string): string {
  if (url === '/ready') return JSON.stringify({ ready: false, reason: REASON })
  if (url === '/health') return JSON.stringify({ status: 'degraded', reason: REASON })
  return bodyOf({ code: 'UNAVAILABLE', message: 'the server is starting', details: { retry_after: 1 } })
}
