// Public documents, readable without a credential: public keys, the API description. Each text is in memory once, no matter how many
// clients have not read it yet.
import { limits } from '#kernel/limits.ts'
import { createRateLimit } from '#kernel/codec/rate-limit.ts'
import type { UnsentAnswers } from '../shared/unsent-answers.ts'
import { nobodyAt } from './connections/ending.ts'
import { replyOf, transportFailure, type Reply } from './responses.ts'
import type { Exchange, Route } from './router.ts'

/** By path; each document is built on request. */
export type Documents = ReadonlyMap<string, () => object>

/** Pages of other sites can read the documents too: they have no secrets. Cached for a minute, so that a change is visible soon. */
const headers = {
  'cache-control': 'public, max-age=60',
  'access-control-allow-origin': '*',
  'cross-origin-resource-policy': 'cross-origin',
} as const

export function documentRoutes(giveDocument: GiveDocument, documents: Documents = new Map()): Route[] {
  return [...documents].map(([path, document]) => {
    const bytesOf = bytesOnce()
    return { method: 'GET', path, answer: (exchange) => giveDocument(exchange, bytesOf(JSON.stringify(document())), headers) }
  })
}

/** The bytes of a text; cached until the text changes. */
function bytesOnce(): (text: string) => Buffer {
  let known = { text: '', bytes: Buffer.alloc(0) }
  return (text) => {
    if (text !== known.text) known = { text, bytes: Buffer.from(text) }
    return known.bytes
  }
}

export type GiveDocument = (exchange: Exchange, bytes: Buffer, headers?: Reply['headers']) => Reply

/** Answers with bytes that are in memory. An address that requests too many, or does not read them, is refused. */
export function documentGiver(unsent: UnsentAnswers): GiveDocument {
  const meter = createRateLimit(limits.publicBytesPerMinute, () => performance.now())
  const tooMuch = transportFailure(429, 'QUOTA_EXCEEDED', 'this address has asked for too many documents', { 'retry-after': '10' })
  return ({ request }, bytes, headers = {}) => {
    const who = nobodyAt(request.socket)
    if (!meter.take(who) || !unsent.hasRoom(who)) return replyOf(tooMuch)
    meter.charge(who, bytes.length)
    return { status: 200, headers, body: bytes }
  }
}
