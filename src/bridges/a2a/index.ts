// `/a2a/<agent_id>`: A2A 1.0 for other systems, by JSON-RPC and by HTTP+JSON. The card is public, everything else needs a credential.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { liftBodyDeadline } from '#bindings/http/connections/body-deadline.ts'
import { setActor } from '#bindings/http/connections/ending.ts'
import type { Bridge, BridgeHost, MakeBridge } from '#bindings/http/mount.ts'
import { whenRead } from '#bindings/http/request-body.ts'
import type { Failure } from '#bindings/http/responses.ts'
import { abortOnClose } from '#bindings/shared/call-options.ts'
import { handlerOf } from '#bindings/shared/handle.ts'
import { setBounded } from '#kernel/codec/bounded-map.ts'
import { isIn, SYSTEM } from '#kernel/declare/access.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { limits } from '#kernel/limits.ts'
import { sha256 } from '#kernel/log/hash-chain.ts'
import type { Card } from '#protocols/delegation/schema.ts'
import { agentCardOf, PROTOCOL_VERSION, type SignCard } from './card.ts'
import { serveMethod, type Exchange } from './calls.ts'
import { A2aError, errorOf, restErrorOf, rpcErrorOf, rpcStatusOf, statusOf } from './failures.ts'
import type { Entrance } from './methods.ts'
import { JSON_RPC, REST, restCallOf, rpcCallOf, type Call, type Wire } from './requests.ts'

const PATH = '/a2a'
const CARD = '/.well-known/agent-card.json'
const ADDRESS = /^\/a2a\/([A-Za-z0-9_.-]{1,80})(\/.*)?$/
const CARDS_MAX = 1_000

type HttpAnswer = { readonly status: number; readonly headers: readonly string[]; readonly text: string }
const answerOf = (status: number, type: string, body: object, headers: readonly string[] = []): HttpAnswer => ({
  status,
  headers: ['content-type', type, ...headers],
  text: JSON.stringify(body),
})

export type A2aOptions = {
  /** Push notifications are posted to public addresses over https alone. */
  readonly isPublicOnly: boolean
}

export const a2a =
  (sign: SignCard, options: A2aOptions): MakeBridge =>
  (host) => {
    const cards = new Map<string, string>()
    const serve = serverOf(host, options)

    function answer(request: IncomingMessage, response: ServerResponse): void {
      const [address = '', query] = request.url!.split('?', 2)
      const [, agent_id, rest = ''] = ADDRESS.exec(address) ?? []
      const wire: Wire = rest === '' || rest === '/' ? JSON_RPC : REST
      const reply = (sent: HttpAnswer): void => send(host, request, response, sent)
      const refuse = (error: A2aError): void => reply(failureAnswer(error, wire, null))
      const refused = refusalOf(host, request, rest === CARD)
      if (refused) return refuse(errorOf(refused))
      if (agent_id === undefined) return refuse(new A2aError('AGENT_NOT_FOUND', `agents are at ${PATH}/<agent_id>`))
      if (rest === CARD) return void showCard(request, agent_id).then(reply, (error: unknown) => refuse(a2aErrorOf(host, error)))
      whenRead(request, limits.bodyBytesMax, (body) => {
        if (body === null) return refuse(new A2aError('INVALID_REQUEST', `a request has at most ${limits.bodyBytesMax} bytes`))
        liftBodyDeadline(request)
        request.socket.setTimeout(0)
        void serve({ request, response, wire, agent_id, path: rest, query: new URLSearchParams(query), body, id: null }).then(
          (answer) => answer !== null && reply(answer),
          (error: unknown) => {
            host.bug(error)
            response.destroy()
          },
        )
      })
    }

    async function showCard(request: IncomingMessage, agent_id: string): Promise<HttpAnswer> {
      if (request.method !== 'GET' && request.method !== 'HEAD') throw new A2aError('UNSUPPORTED_OPERATION', 'GET the agent card')
      const card = await servedCard(host, agent_id)
      const signText = (text: string): ReturnType<SignCard> => {
        const stored = JSON.parse(cards.get(text) ?? 'null') as ReturnType<SignCard> | null
        if (stored !== null) return stored
        const fresh = sign(text)
        setBounded(cards, text, JSON.stringify(fresh), CARDS_MAX)
        return fresh
      }
      const text = agentCardOf(card, originOf(host, request), host.version, signText)
      const reply = answerOf(200, 'application/json', text, [
        'cache-control',
        `public, max-age=${limits.a2aCardSecondsMax}`,
        'last-modified',
        new Date(card.updated_at).toUTCString(),
      ])
      const etag = `"${sha256(reply.text)}"`
      const isKnown = request.headers['if-none-match'] === etag
      return { ...reply, status: isKnown ? 304 : 200, headers: [...reply.headers, 'etag', etag], text: isKnown ? '' : reply.text }
    }
    return { path: PATH, answer, isSocket: () => false, upgrade: (_, socket) => socket.destroy(), stop: () => undefined } satisfies Bridge
  }

/** Other agents get the same answer as missing ones. */
async function servedCard({ kernel }: BridgeHost, agent_id: string): Promise<Card> {
  const absent = new A2aError('AGENT_NOT_FOUND', `there is no agent ${agent_id} for A2A here`)
  try {
    const { card } = (await kernel.call('delegation/agent.card', { agent_id }, SYSTEM)) as { card: Card }
    if (card.a2a !== true || card.disabled || !card.available) throw absent
    return card
  } catch (error) {
    throw error instanceof Refusal && error.code === 'AGENT_NOT_FOUND' ? absent : error
  }
}

/** Pages of other sites cannot act for a person. The card is public. */
function refusalOf(host: BridgeHost, request: IncomingMessage, isCard: boolean): Failure | null {
  const refused = host.refusalOf(request)
  if (refused || isCard || !host.guard.isForeignOrigin(request.headers)) return refused
  const message = 'a page of another origin cannot use A2A here'
  return { status: 403, code: 'UNAUTHORIZED', message, details: {}, headers: {} }
}

/** The configured address; without one, the host that the client used. */
function originOf({ origin, proxied, guard }: BridgeHost, { headers, socket }: IncomingMessage): string {
  if (origin !== undefined) return origin
  const isSecure = proxied || (socket as { encrypted?: boolean }).encrypted === true
  return `${isSecure ? 'https' : 'http'}://${guard.hostOf(headers)}`
}

function a2aErrorOf(host: BridgeHost, error: unknown, path = PATH): A2aError {
  return error instanceof A2aError ? error : errorOf(host.failed(error, path))
}

function failureAnswer(error: A2aError, wire: Wire, id: string | number | null): HttpAnswer {
  const headers = Object.entries(error.headers).flat()
  return wire === JSON_RPC
    ? answerOf(rpcStatusOf(error), wire.type, rpcErrorOf(id, error), headers)
    : answerOf(statusOf(error), wire.type, restErrorOf(error), headers)
}

function send(host: BridgeHost, request: IncomingMessage, response: ServerResponse, { status, headers, text }: HttpAnswer): void {
  if (response.destroyed || response.headersSent) return
  response.writeHead(status, headersWith(host, request, headers)).end(request.method === 'HEAD' ? '' : text)
}
/** These headers override the common ones. */
function headersWith(host: BridgeHost, request: IncomingMessage, headers: readonly string[]): string[] {
  const names = headers.filter((_, i) => i % 2 === 0)
  const common = host.headersFor(request)
  return [...common.filter((_, i) => !names.includes(common[i - (i % 2)]!.toLowerCase())), ...headers]
}

type Asked = Pick<Exchange, 'request' | 'response'> & {
  readonly wire: Wire
  readonly agent_id: string
  readonly path: string
  readonly query: URLSearchParams
  readonly body: Buffer | undefined
  id: string | number | null
}

function versionIn({ request, query }: Asked): void {
  const header = request.headers['a2a-version']
  const version = (typeof header === 'string' && header !== '' ? header : query.get('A2A-Version')) ?? '0.3'
  if (version === PROTOCOL_VERSION) return
  throw new A2aError('VERSION_NOT_SUPPORTED', `A2A ${version.slice(0, 20)} is not spoken here: send A2A-Version: ${PROTOCOL_VERSION}`, {
    supported: PROTOCOL_VERSION,
  })
}

function serverOf(host: BridgeHost, { isPublicOnly }: A2aOptions): (asked: Asked) => Promise<HttpAnswer | null> {
  const { kernel, guard, authenticate, live } = host
  const meters = { read: host.meter('collaboration/task.get', false), change: host.meter('collaboration/task.create', true) }
  return handlerOf<Asked, HttpAnswer | null, Call>({
    credential: ({ request }) => guard.credentialOf(request.headers, true),
    authenticate: (credential, _, since) => authenticate(credential, since),
    input(asked, actor) {
      setActor(asked.response, actor.id)
      versionIn(asked)
      const call = asked.wire === JSON_RPC ? rpcCallOf(asked) : restCallOf(asked)
      asked.id = call.id
      return call
    },
    options: ({ response }) => ({ signal: abortOnClose(response) }),
    async call({ actor, caller, credential, options, input: call }, asked) {
      const { request, response, wire, agent_id } = asked
      const card = await servedCard(host, agent_id)
      const again = live.recheck ?? authenticate
      let isFirst = true
      const door: Entrance = {
        agent_id,
        actor,
        projects: card.projects.filter((id) => isIn(actor, id)),
        origin: originOf(host, request),
        isPublicOnly,
        call(operation, input, key) {
          const as = isFirst ? caller : () => again(credential)
          isFirst = false
          return kernel.call(operation, input, as, key === undefined ? {} : { key })
        },
      }
      const exchange: Exchange = {
        request,
        response,
        wire,
        id: call.id,
        host,
        signal: options.signal!,
        headersWith: (headers) => headersWith(host, request, headers),
        identified: { who: sha256(`${credential.kind} ${credential.token}`), caller: () => again(credential) },
        errorOf: (error) => a2aErrorOf(host, error, request.url),
      }
      const result = await serveMethod(door, call, exchange)
      return result === null ? null : answerOf(200, wire.type, wire === JSON_RPC ? { jsonrpc: '2.0', id: call.id, result } : result)
    },
    failed(error, { request, wire, id }) {
      const failure = a2aErrorOf(host, error, request.url?.split('?', 1)[0])
      return { code: failure.reason, answer: failureAnswer(failure, wire, id) }
    },
    done: (code, began, answered) => meters[answered.request.request.method === 'POST' ? 'change' : 'read'](code, began, answered),
  })
}
