// Statuses and words of the draft (HXP 0.1, 5.3), and the one shape of an error: error, message, details.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { TransportRefusal, type Failure } from '#bindings/http/responses.ts'
import { endSoon } from '#bindings/http/connections/turn-batching.ts'
import { STATUS_CODES } from '#bindings/http/connections/node-http.ts'
import type { UnsentAnswers } from '#bindings/shared/unsent-answers.ts'

export type HttpAnswer = { readonly status: number; readonly text: string; readonly headers: readonly string[] }

/** Error words of the draft for our codes. Every other code is lower-cased. */
const names: Readonly<Record<string, string>> = {
  UNAUTHENTICATED: 'unauthorized',
  QUOTA_EXCEEDED: 'rate_limited',
  BUSY: 'unavailable',
}
const wordOf = (code: string): string => names[code] ?? code.toLowerCase()

const ASK_FOR_CREDENTIAL = ['www-authenticate', 'Bearer realm="countersign"'] as const

/**
 * The draft knows no 403: a credential that does not fit the route is 401, and a resource without access does not exist for
 * them. `isObject`: the call was about one thing that its path names.
 */
export function failureAnswer(failure: Failure, isObject: boolean): HttpAnswer {
  const { code, message, details } = failure
  if (code !== 'UNAUTHORIZED' || failure.status !== 403)
    return errorAnswer(failure.status, wordOf(code), message, details, Object.entries(failure.headers).flat())
  return isObject
    ? errorAnswer(404, 'not_found', 'it does not exist, or you have no access to it', {}, [])
    : errorAnswer(401, 'unauthorized', message, details, ASK_FOR_CREDENTIAL)
}

export function errorAnswer(
  status: number,
  error: string,
  message: string,
  details: Readonly<Record<string, unknown>>,
  headers: readonly string[],
): HttpAnswer {
  return { status, text: JSON.stringify({ error, message, details }), headers }
}

export const wrongKind = (kind: 'agent' | 'human'): TransportRefusal =>
  new TransportRefusal(
    401,
    'UNAUTHORIZED',
    kind === 'agent' ? 'this is for agents: an API key of an agent is required' : 'this is for people: the token of a person is required',
    { 'www-authenticate': ASK_FOR_CREDENTIAL[1] },
  )
export const notJson = (): TransportRefusal => new TransportRefusal(415, 'INVALID_REQUEST', 'the body must be application/json')
export const notFound = (message: string): HttpAnswer => errorAnswer(404, 'not_found', message, {}, [])
export const tooLarge = (bytesMax: number): HttpAnswer => errorAnswer(413, 'too_large', `a body has at most ${bytesMax} bytes`, {}, [])
export const notForMethod = (method: string, allow: string): HttpAnswer =>
  errorAnswer(405, 'method_not_allowed', `${method} is not possible here; use ${allow}`, {}, ['allow', allow])
export const notASocket: HttpAnswer = errorAnswer(426, 'upgrade_required', 'this address is for WebSockets', {}, [
  'connection',
  'upgrade',
  'upgrade',
  'websocket',
])
export const foreignPage: HttpAnswer = errorAnswer(
  403,
  'unauthorized',
  'pages of this origin may not open a socket here (see --origins)',
  {},
  [],
)

export function send(
  request: IncomingMessage,
  response: ServerResponse,
  fixed: readonly string[],
  { status, text, headers }: HttpAnswer,
  unsent: UnsentAnswers,
): void {
  response.writeHead(status, [...fixed, ...headers, 'content-length', String(Buffer.byteLength(text))])
  endSoon(response, request.method === 'HEAD' ? undefined : text, unsent)
}

/** On a socket that was not taken. */
export function sendRaw(socket: Duplex, fixed: readonly string[], { status, text, headers }: HttpAnswer): void {
  if (!socket.writable) return void socket.destroy()
  const all = [...fixed, ...headers, 'content-length', String(Buffer.byteLength(text)), 'connection', 'close']
  let head = `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n`
  for (let i = 0; i < all.length; i += 2) head += `${all[i]}: ${all[i + 1]}\r\n`
  socket.end(`${head}\r\n${text}`, () => socket.destroy())
}
