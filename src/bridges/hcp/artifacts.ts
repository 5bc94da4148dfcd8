// Artifacts over HTTP: `hcp://{session_id}/artifacts/{name}` is GET /hcp/v1/sessions/{session_id}/artifacts/{name}, with the token of the
// session as a bearer token, or with the ticket of the artifact's url.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { SYSTEM } from '#kernel/declare/access.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { limits } from '#kernel/limits.ts'
import type { Bridge, MakeBridge } from '#bindings/http/mount.ts'

const PATH = '/hcp'
const ARTIFACT = /^\/hcp\/v1\/sessions\/([0-9a-f-]{36})\/artifacts\/([^/]+)$/
const MEDIA_TYPE = /^[A-Za-z0-9.+-]{1,80}\/[A-Za-z0-9.+-]{1,80}(; ?charset=[A-Za-z0-9-]{1,40})?$/

type Headers = Readonly<Record<string, string>>
export type ArtifactReply = { readonly status: number; readonly headers: Headers; readonly body: Buffer }

/** Browsers never render an artifact as a page of this server. */
const KEPT_APART: Headers = {
  'content-security-policy': "default-src 'none'; sandbox",
  'x-content-type-options': 'nosniff',
  'cache-control': 'private, no-store',
}
const say = (status: number, code: string, message: string, more: Headers = {}): ArtifactReply => ({
  status,
  headers: { 'content-type': 'application/json', 'cache-control': 'no-store', ...more },
  body: Buffer.from(JSON.stringify({ error: { code, message } })),
})

export async function artifactReply(kernel: Kernel, { method, url = '/', headers }: IncomingMessage): Promise<ArtifactReply> {
  const { pathname, searchParams } = new URL(url, 'http://localhost')
  const [, session_id, encoded] = ARTIFACT.exec(pathname) ?? []
  if (session_id === undefined || encoded === undefined)
    return say(404, 'NOT_FOUND', 'artifacts are at /hcp/v1/sessions/{session_id}/artifacts/{name}')
  if (method !== 'GET' && method !== 'HEAD')
    return say(405, 'METHOD_NOT_ALLOWED', `${method} is not possible here; use GET`, { allow: 'GET, HEAD' })
  const name = decodeName(encoded)
  if (name === null) return say(400, 'INVALID_REQUEST', 'the name of the artifact is not encoded as it should be')
  const token = /^Bearer +(\S+)$/i.exec(headers.authorization ?? '')?.[1]
  const [until, ticket] = [searchParams.get('until'), searchParams.get('ticket')]
  const access = token === undefined ? (until === null || ticket === null ? {} : { until, ticket }) : { token }
  try {
    const found = (await kernel.call('harness/harness.fetch', { session_id, name, ...access }, SYSTEM)) as Fetched
    return {
      status: 200,
      headers: {
        ...KEPT_APART,
        'content-type': MEDIA_TYPE.test(found.type) ? found.type : 'application/octet-stream',
        'content-disposition': `attachment; filename*=UTF-8''${encodeURIComponent(name).replaceAll("'", '%27')}`,
      },
      body: found.text === null ? Buffer.from(found.blob ?? '', 'base64') : Buffer.from(found.text),
    }
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    if (error.code === 'UNAUTHENTICATED') return say(401, error.code, error.message, { 'www-authenticate': 'Bearer realm="hcp"' })
    const status = { UNAUTHORIZED: 403, NOT_FOUND: 404, INVALID_REQUEST: 400 }[error.code]
    return say(status ?? 503, error.code, error.message)
  }
}
type Fetched = { readonly type: string; readonly text: string | null; readonly blob: string | null }

function decodeName(name: string): string | null {
  try {
    const text = decodeURIComponent(name)
    return text.length > limits.nameCharsMax ? null : text
  } catch {
    return null
  }
}

/** The headers of the reply override the common ones. */
export function writeReply(
  response: ServerResponse,
  { status, headers, body }: ArtifactReply,
  isHead: boolean,
  shared: readonly string[] = [],
): void {
  const rest = shared.flatMap((name, i) => (i % 2 === 0 && headers[name.toLowerCase()] === undefined ? [name, shared[i + 1]!] : []))
  response
    .writeHead(status, [...rest, ...Object.entries(headers).flat(), 'content-length', String(body.length)])
    .end(isHead ? undefined : body)
}

export const hcpArtifacts =
  (): MakeBridge =>
  (host): Bridge => ({
    path: PATH,
    answer(request, response) {
      request.resume()
      const refused = host.refusalOf(request)
      const reply =
        refused === null ? artifactReply(host.kernel, request) : Promise.resolve(say(refused.status, refused.code, refused.message))
      reply.then(
        (answer) => writeReply(response, answer, request.method === 'HEAD', host.headersFor(request)),
        (error: unknown) => {
          host.bug(error)
          response.destroy()
        },
      )
    },
    isSocket: () => false,
    upgrade: (_, socket) => socket.destroy(),
    stop: () => undefined,
  })
