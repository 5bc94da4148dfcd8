// A receiver of webhooks that notes what comes and answers as it is told, and the check of a signature by other means than ours.
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'

export type Got = { readonly headers: IncomingMessage['headers']; readonly text: string; readonly body: any }
export type Answer = (got: Got, response: ServerResponse, count: number) => void
export const answering =
  (status: number): Answer =>
  (_, response) =>
    void response.writeHead(status).end()

export type Receiver = { readonly url: string; readonly got: Got[]; answerWith(next: Answer): void }

export async function receiver(t: Pick<TestContext, 'after'>, answer: Answer = answering(204)): Promise<Receiver> {
  const got: Got[] = []
  let how = answer
  const server = createServer((request, response) => {
    const parts: Buffer[] = []
    request.on('data', (part: Buffer) => parts.push(part))
    request.on('end', () => {
      const text = Buffer.concat(parts).toString()
      const one = { headers: request.headers, text, body: JSON.parse(text) as unknown }
      got.push(one)
      how(one, response, got.length)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`, got, answerWith: (next) => (how = next) }
}

/** Standard Webhooks as its text says, with another implementation of HMAC. */
export async function isSigned(secret: string, { headers, text }: Got): Promise<boolean> {
  const bytesIn = (base64: string) => Uint8Array.from(atob(base64), (char) => char.charCodeAt(0))
  const key = await crypto.subtle.importKey('raw', bytesIn(secret.slice('whsec_'.length)), { name: 'HMAC', hash: 'SHA-256' }, false, [
    'verify',
  ])
  const said = new TextEncoder().encode(`${String(headers['webhook-id'])}.${String(headers['webhook-timestamp'])}.${text}`)
  const checks = String(headers['webhook-signature'])
    .split(' ')
    .map((one) => one.split(',') as [string, string])
    .map(async ([version, value]) => version === 'v1' && crypto.subtle.verify('HMAC', key, bytesIn(value), said))
  return (await Promise.all(checks)).includes(true)
}

export async function until<T>(look: () => Promise<T | false | undefined | null> | T | false | undefined | null): Promise<T> {
  for (let i = 0; i < 1_000; i++) {
    const found = await look()
    if (found) return found
    await new Promise((done) => setTimeout(done, 10))
  }
  throw new Error('it did not come to be')
}
