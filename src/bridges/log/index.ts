// The log for its readers: its checkpoint, tiles (C2SP tlog-tiles) and policy below `/log`, and the page that verifies bundles at `/verify`. They
// hold hashes and code alone, so they are open unless the operator closes them; then owners and administrators read them.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { administrator, installationOwner } from '#kernel/declare/access.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { tileAt } from '#kernel/log/tree/tiles.ts'
import { documentGiver } from '#bindings/http/public-documents.ts'
import { endAnswer } from '#bindings/http/connections/ending.ts'
import type { Bridge, BridgeHost, MakeBridge } from '#bindings/http/mount.ts'
import { replyOf, transportFailure, type Reply } from '#bindings/http/responses.ts'
import type { OpenLog } from '#workers/log/record-log.ts'

const LOG_PATH = '/log'
const VERIFY_PATH = '/verify'
const TEXT = 'text/plain; charset=utf-8'

export type SharedLog = Pick<OpenLog, 'checkpoint' | 'tile'> & { policy(): string }

type Content = { readonly bytes: Buffer; readonly headers: Readonly<Record<string, string>> }
/** `path`: below the path of the bridge, without a slash at its beginning. Null: there is nothing. */
type ContentAt = (path: string) => Promise<Content | null>
type Served = { readonly path: string; readonly isPublic: boolean; readonly contentAt: ContentAt }

/** `served` null: this server keeps no log. */
export const log = (served: SharedLog | null, isPublic: boolean): MakeBridge =>
  documentBridge({ path: LOG_PATH, isPublic, contentAt: async (path) => served && logContentAt(served, path) })

/** `page` null: it was not built. */
export const verifyPage = (page: Buffer | null, isPublic: boolean): MakeBridge =>
  documentBridge({
    path: VERIFY_PATH,
    isPublic,
    contentAt: (path) => Promise.resolve(page === null || path !== '' ? null : pageContent(page)),
  })

const documentBridge =
  (served: Served): MakeBridge =>
  (host): Bridge => {
    const give = documentGiver(host.unsent)
    return {
      path: served.path,
      answer(request, response) {
        request.resume()
        void replyTo(host, give, served, request, response)
          .catch((error: unknown) => replyOf(host.failed(error, served.path)))
          .then((reply) => send(host, request, response, reply))
      },
      isSocket: () => false,
      upgrade: (_, socket) => socket.destroy(),
      stop: () => undefined,
    }
  }

async function replyTo(
  host: BridgeHost,
  give: ReturnType<typeof documentGiver>,
  { path: base, isPublic, contentAt }: Served,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<Reply> {
  const refused = host.refusalOf(request)
  if (refused) return replyOf(refused)
  if (request.method !== 'GET' && request.method !== 'HEAD')
    return replyOf(
      transportFailure(405, 'INVALID_REQUEST', `${request.method} is not possible here; use GET, HEAD`, { allow: 'GET, HEAD' }),
    )
  if (!isPublic) {
    const actor = await host.authenticate(host.guard.credentialOf(request.headers))
    if (!administrator.is(actor, null) && !installationOwner.is(actor, null))
      throw new Refusal('UNAUTHORIZED', 'only an owner of the installation or an administrator can read this')
  }
  const [path = ''] = request.url!.slice(base.length + 1).split('?', 1)
  const found = await contentAt(path)
  if (!found) return replyOf(transportFailure(404, 'NOT_FOUND', `there is nothing at ${base}/${path.slice(0, 200)}`))
  const shared = isPublic ? { 'access-control-allow-origin': '*', 'cross-origin-resource-policy': 'cross-origin' } : {}
  return give({ request, response, path, body: undefined }, found.bytes, { ...found.headers, ...shared })
}

const textOf = (text: string): Content => ({ bytes: Buffer.from(text), headers: { 'content-type': TEXT, 'cache-control': 'no-cache' } })

async function logContentAt(served: SharedLog, path: string): Promise<Content | null> {
  if (path === 'policy') return textOf(served.policy())
  if (path === 'checkpoint') {
    const note = await served.checkpoint()
    return note === null ? null : textOf(note)
  }
  const tile = tileAt(path)
  const bytes = tile && (await served.tile(tile))
  if (!bytes) return null
  // A tile never changes: what it holds is below a signed root.
  const headers = { 'content-type': 'application/octet-stream', 'cache-control': 'public, max-age=31536000, immutable' }
  return { bytes: Buffer.from(bytes), headers }
}

function pageContent(page: Buffer): Content {
  // The page names its own policy, which lets it load and send nothing.
  const [, policy = "default-src 'none'"] = /content-security-policy" content="([^"]+)"/.exec(page.toString()) ?? []
  const csp = `${policy}; frame-ancestors 'none'`
  return {
    bytes: page,
    headers: { 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-cache', 'content-security-policy': csp },
  }
}

function send(host: BridgeHost, request: IncomingMessage, response: ServerResponse, { status, headers = {}, body }: Reply): void {
  const shared = host.headersFor(request)
  const rest = shared.flatMap((name, i) => (i % 2 === 0 && headers[name.toLowerCase()] === undefined ? [name, shared[i + 1]!] : []))
  const bytes = Buffer.isBuffer(body) ? body : Buffer.from(typeof body === 'string' ? body : '')
  response.writeHead(status, [...rest, ...Object.entries(headers).flat(), 'content-length', String(bytes.length)] as string[])
  endAnswer(response, request.method === 'HEAD' ? undefined : bytes, host.unsent)
}
