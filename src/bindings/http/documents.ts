// What anybody may read without a credential, such as public keys.
import type { FastifyInstance } from 'fastify'

/** By path; each is made anew when it is asked for. */
export type Documents = ReadonlyMap<string, () => object>

/** Pages of other sites may read it too: there is nothing in it that one may not know. Kept for a minute, so that a change is seen soon. */
const headers = {
  'cache-control': 'public, max-age=60',
  'access-control-allow-origin': '*',
  'cross-origin-resource-policy': 'cross-origin',
} as const

export function registerDocuments(app: FastifyInstance, documents: Documents = new Map()): void {
  for (const [path, document] of documents) app.get(path, (_, reply) => reply.headers(headers).send(JSON.stringify(document())))
}
