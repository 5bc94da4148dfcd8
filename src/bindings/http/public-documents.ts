// Public documents, readable without a credential: public keys, the description of the API. Each text stands in memory once, however many
// clients have not read it yet.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { OutgoingHttpHeaders } from 'node:http'
import { limits } from '#kernel/limits.ts'
import { createMeter } from '#kernel/codec/rate-limit.ts'
import type { Unsent } from '../shared/unsent-answers.ts'
import { prepare, transportFailure } from './responses.ts'
import { endSoon, nobodyAt } from './connections/turn-batching.ts'

/** By path; each is made anew when it is asked for. */
export type Documents = ReadonlyMap<string, () => object>

/** Pages of other sites may read it too: there is nothing in it that one may not know. Kept for a minute, so that a change is seen soon. */
const headers = {
  'cache-control': 'public, max-age=60',
  'access-control-allow-origin': '*',
  'cross-origin-resource-policy': 'cross-origin',
} as const

export function registerDocuments(app: FastifyInstance, sendDocument: SendDocument, documents: Documents = new Map()): void {
  for (const [path, document] of documents) {
    const bytesOf = bytesOnce()
    app.get(path, (request, reply) => sendDocument(request, reply.headers(headers), bytesOf(JSON.stringify(document()))))
  }
}

/** The bytes of a text; the same ones as before where the text is the same. */
function bytesOnce(): (text: string) => Buffer {
  let known = { text: '', bytes: Buffer.alloc(0) }
  return (text) => {
    if (text !== known.text) known = { text, bytes: Buffer.from(text) }
    return known.bytes
  }
}

export type SendDocument = (request: FastifyRequest, reply: FastifyReply, bytes: Buffer) => unknown

/** Sends bytes that stand in memory anyway; who reads them without end, or not at all, is refused. */
export function documentSender(unsent: Unsent): SendDocument {
  const meter = createMeter(limits.publicBytesPerMinute, () => performance.now())
  const tooMuch = transportFailure(429, 'QUOTA_EXCEEDED', 'this address has asked for too many documents', { 'retry-after': '10' })
  return (request, reply, bytes) => {
    const { raw } = reply
    const who = nobodyAt(request.raw.socket)
    if (!meter.take(who) || !unsent.hasRoom(who)) return prepare(reply, tooMuch)
    meter.charge(who, bytes.length)
    reply.hijack()
    raw.writeHead(200, { ...(reply.getHeaders() as OutgoingHttpHeaders), 'content-length': bytes.length })
    endSoon(raw, request.method === 'HEAD' ? undefined : bytes, unsent)
    return reply
  }
}
