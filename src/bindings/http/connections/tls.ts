// TLS of the server itself: the certificate for connections, and the connections that never complete the handshake.
import type { Server } from 'node:http'
import type { Server as SecureServer, ServerOptions } from 'node:https'
import type { Socket } from 'node:net'

/** A certificate with its chain, and its key, both as PEM. */
export type Tls = { readonly cert: string; readonly key: string }

// TLS 1.0 and 1.1 are broken (RFC 8996).
const contextOf = ({ cert, key }: Tls) => ({ cert, key, minVersion: 'TLSv1.2' }) as const

/** `ms`: the time limit of the TLS handshake. */
export const tlsServerOptions = (tls: Tls, ms: number): ServerOptions => ({ ...contextOf(tls), handshakeTimeout: ms })

/** New connections get the new certificate, open ones keep theirs. Throws and keeps the old certificate if key and certificate do not match. */
export const renewTls = (server: Server, tls: Tls): void => (server as SecureServer).setSecureContext(contextOf(tls))

/** A connection in the TLS handshake is not an HTTP connection yet, so nothing else closes it at a stop. */
export function watchHandshakes(server: Server): { end(): void } {
  const under = new Map<string, Socket>()
  const nameOf = ({ remoteAddress, remotePort }: Socket): string => `${remoteAddress} ${remotePort}`
  server.on('connection', (socket) => {
    const name = nameOf(socket)
    under.set(name, socket)
    socket.once('close', () => {
      if (under.get(name) === socket) under.delete(name)
    })
  })
  server.on('secureConnection', (socket: Socket) => under.delete(nameOf(socket)))
  return {
    end() {
      for (const socket of under.values()) socket.destroy()
    },
  }
}
