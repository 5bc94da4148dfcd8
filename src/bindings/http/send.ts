// Sending an answer on its connection, with the common headers, and counting the bytes that its client has not read.
import type { ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import type { UnsentAnswers } from '../shared/unsent-answers.ts'
import { endSoon } from './connections/turn-batching.ts'
import type { Failure, Reply } from './responses.ts'
import { replyOf } from './responses.ts'

export type Sender = (response: ServerResponse, reply: Reply) => void

/** `headers`: on every answer. `failed`: a stream that broke before its first byte was sent. */
export function createSender(
  headers: Readonly<Record<string, string>>,
  unsent: UnsentAnswers,
  failed: (error: unknown, path: string) => Failure,
): Sender {
  const fixed = Object.entries(headers).flat()

  function send(response: ServerResponse, reply: Reply): void {
    const { status, body } = reply
    if (body instanceof Readable) return sendStream(response, reply, body)
    const size = body === null ? undefined : String(typeof body === 'string' ? Buffer.byteLength(body) : body.length)
    if (reply.headers === undefined && size !== undefined) response.writeHead(status, [...fixed, 'content-length', size])
    else response.writeHead(status, { ...headers, ...(size === undefined ? {} : { 'content-length': size }), ...reply.headers })
    endSoon(response, response.req.method === 'HEAD' || body === null ? undefined : body, unsent)
  }

  function sendStream(response: ServerResponse, { status, headers: replyHeaders }: Reply, body: Readable): void {
    response.statusCode = status
    for (const [name, value] of Object.entries({ ...headers, ...replyHeaders })) response.setHeader(name, value)
    response.once('close', () => body.destroy())
    body.on('error', (error) => {
      if (response.headersSent) return void response.destroy()
      for (const name of response.getHeaderNames()) response.removeHeader(name)
      send(response, replyOf(failed(error, response.req.url!.split('?', 1)[0]!)))
    })
    // The head goes out with the first byte.
    body.pipe(response)
  }
  return send
}
