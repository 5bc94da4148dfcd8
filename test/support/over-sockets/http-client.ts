// A client that sends exactly what it is told, also what no well-behaved client would.
import { request, type Agent, type OutgoingHttpHeaders } from 'node:http'
import { request as requestSecurely, type Agent as SecureAgent } from 'node:https'
import { connect } from 'node:net'

export type Answer = {
  readonly status: number
  readonly headers: Record<string, string | string[] | undefined>
  readonly text: string
  readonly json: any
}
export type Sent = {
  readonly method?: string
  readonly headers?: OutgoingHttpHeaders
  readonly body?: string | Uint8Array
  readonly agent?: Agent | SecureAgent
  /** Speak TLS, and trust this certificate alone. */
  readonly ca?: string
}

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** One request, on a connection of its own where no agent keeps one. */
export function send(port: number, path: string, { method = 'POST', headers = {}, body, agent, ca }: Sent = {}): Promise<Answer> {
  return new Promise((done, failed) => {
    const options = { host: '127.0.0.1', port, path, method, headers, agent: agent ?? false }
    const outgoing = (ca === undefined ? request(options) : requestSecurely({ ...options, ca, servername: 'localhost' })).on(
      'response',
      (incoming) => {
        const chunks: Buffer[] = []
        incoming.on('data', (chunk: Buffer) => chunks.push(chunk))
        incoming.on('error', failed)
        incoming.on('end', () => {
          const text = Buffer.concat(chunks).toString()
          done({ status: incoming.statusCode!, headers: incoming.headers, text, json: parsed(text) })
        })
      },
    )
    outgoing.on('error', failed)
    outgoing.end(body)
  })
}

/** Bytes on a socket; resolves with everything that came back when the server closed it. */
export function sendBytes(port: number, bytes: string | Uint8Array): Promise<string> {
  return new Promise((done, failed) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(bytes))
    const chunks: Buffer[] = []
    socket.on('data', (chunk: Buffer) => chunks.push(chunk))
    socket.on('error', failed)
    socket.on('close', () => done(Buffer.concat(chunks).toString()))
  })
}
