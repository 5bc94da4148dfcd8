// TCP and WebSocket with mutual TLS: the subject of the client's certificate selects its policy.
import type { Logger } from '../server/log.ts'
import type { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer as createHttps } from 'node:https'
import type { AddressInfo, Server } from 'node:net'
import { PassThrough, Writable } from 'node:stream'
import { createServer as createTls, TLSSocket, type TlsOptions } from 'node:tls'
import type { HacpServer } from '#bridges/hacp/index.ts'
import { limits } from '#kernel/limits.ts'
import { readTls } from '../server/tls.ts'
import { ConfigError } from '../server/settings/config.ts'
import { StartError } from '../server/start-error.ts'
import { startListening, STALL_MS, tame, type Listening } from './listeners.ts'
import type { Address, DeviceConfig } from './settings.ts'

/** The whole subject, as RFC 4514 writes it: the last part first. */
export const subjectOf = (certificate: X509Certificate): string => certificate.subject.split('\n').toReversed().join(',')

function tlsOptions(tls: NonNullable<DeviceConfig['tls']>, log: Log): TlsOptions {
  const { cert, key } = readTls({ cert: tls.cert, key: tls.key }, Date.now(), log)
  let trusted: string
  try {
    trusted = readFileSync(tls.clientCa, 'utf8')
  } catch (error) {
    throw new ConfigError(`the certificates of --tls-client-ca cannot be read: ${(error as Error).message}`)
  }
  if (!trusted.includes('-----BEGIN CERTIFICATE-----')) throw new ConfigError(`${tls.clientCa} holds no certificate in PEM`)
  // The same file has the revocation lists that the authority publishes.
  const crl = trusted.match(/-----BEGIN X509 CRL-----[^]+?-----END X509 CRL-----/g)
  return {
    cert,
    key,
    ca: trusted,
    ...(crl ? { crl } : {}),
    requestCert: true,
    rejectUnauthorized: true,
    minVersion: 'TLSv1.2',
    handshakeTimeout: STALL_MS,
  }
}

type Mapped = (subject: string) => string
type Log = Pick<Logger, 'warn'>

const subjectIn = (socket: TLSSocket): string => {
  const certificate = socket.getPeerX509Certificate()
  return certificate ? subjectOf(certificate) : ''
}
const shownAddress = (server: Server): string => {
  const { address, port, family } = server.address() as AddressInfo
  return family === 'IPv6' ? `[${address}]:${port}` : `${address}:${port}`
}
async function onAddress(server: Server, where: Address, flag: string): Promise<void> {
  await startListening(server, where).catch((error: Error) => {
    throw new StartError(`cannot listen on ${where.host}:${where.port}: ${error.message} (see --${flag})`)
  })
}

export async function listenTls(
  hacp: HacpServer,
  where: Address,
  tls: NonNullable<DeviceConfig['tls']>,
  policyOf: Mapped,
  log: Log,
): Promise<Listening> {
  const server = createTls(tlsOptions(tls, log), (socket) => {
    tame(socket)
    const subject = subjectIn(socket)
    hacp.accept({ input: socket, output: socket, destroy: () => socket.destroy() }, policyOf(subject), subject)
  })
  server.on('tlsClientError', (error) => log.warn({ error: error.message }, 'a client without a good certificate was turned away'))
  await onAddress(server, where, 'listen')
  return { address: shownAddress(server), stop: () => Promise.resolve(server.close()) }
}

/** One text frame is one document: for the lines of the connection it gets an end, and loses the ends inside it. */
function lineOf(frame: string): string {
  if (!frame.includes('\n')) return `${frame}\n`
  try {
    JSON.parse(frame)
  } catch {
    // Line ends inside a string would become spaces: invalid JSON must stay invalid.
    return '{\n'
  }
  return `${frame.replaceAll('\n', ' ')}\n`
}

export async function listenWss(
  hacp: HacpServer,
  where: Address,
  tls: NonNullable<DeviceConfig['tls']>,
  policyOf: Mapped,
  log: Log,
): Promise<Listening> {
  const { WebSocketServer } = await import('ws')
  const server = createHttps(tlsOptions(tls, log), (_, response) => response.writeHead(426, { upgrade: 'websocket' }).end())
  server.on('tlsClientError', (error) => log.warn({ error: error.message }, 'a client without a good certificate was turned away'))
  const sockets = new WebSocketServer({
    noServer: true,
    // A slightly too long document gets an error; beyond that the frame is refused.
    maxPayload: 2 * limits.deviceLineBytesMax,
    handleProtocols: (offered) => (offered.has('hacp') ? 'hacp' : false),
  })
  server.on('upgrade', (request, raw, head) => {
    raw.on('error', () => undefined)
    const offered = request.headers['sec-websocket-protocol'] ?? ''
    if (URL.parse(request.url ?? '/', 'https://device')?.pathname !== '/hacp' || !/(?:^|,)\s*hacp\s*(?:,|$)/.test(offered))
      return void raw.end('HTTP/1.1 404 Not Found\r\nconnection: close\r\n\r\n')
    if (!(raw instanceof TLSSocket)) return void raw.destroy()
    const subject = subjectIn(raw)
    sockets.handleUpgrade(request, raw, head, (socket) => {
      const input = new PassThrough()
      socket.on('message', (frame: Buffer, isBinary) => {
        if (isBinary) socket.close(1003, 'text frames only')
        else if (!input.write(lineOf(frame.toString('utf8')))) {
          socket.pause()
          input.once('drain', () => socket.resume())
        }
      })
      socket.on('close', () => input.end()).on('error', () => socket.terminate())
      const output = new Writable({
        decodeStrings: false,
        write(text: string, _, done) {
          const lines = text.split('\n').filter((line) => line !== '')
          // The next is taken when these have left.
          for (const [i, line] of lines.entries()) socket.send(line, i === lines.length - 1 ? () => done() : undefined)
          if (lines.length === 0) done()
        },
        final(done) {
          socket.close(1000)
          done()
        },
      })
      socket.on('close', () => output.destroy())
      hacp.accept({ input, output, destroy: () => socket.terminate() }, policyOf(subject), subject)
    })
  })
  await onAddress(server, where, 'wss')
  return { address: shownAddress(server), stop: () => Promise.resolve(server.close()) }
}
