// Cross-origin rules: the pages of other origins that can use a path. The headers are set before all other code sees the request, so
// that every answer has them, refusals included: a page that cannot read an error cannot show it. Cookies never cross origins.
import type { IncomingHttpHeaders, IncomingMessage, RequestListener, ServerResponse } from 'node:http'

export type CorsOptions = {
  /** Each with everything below it, such as /hxp. */
  readonly prefixes: readonly string[]
  readonly origins: readonly string[]
  /** Development only: any origin is allowed, including `null`. */
  readonly anyOrigin: boolean
}

export type Cors = CorsOptions & {
  /** On every answer. */
  readonly headers: Readonly<Record<string, string>>
  /** Headers that a page may read in addition to Retry-After. */
  readonly exposed: readonly string[]
  /** Whether CORS allows this request. A disallowed request is refused like any other, without these headers. */
  isWelcome(headers: IncomingHttpHeaders): boolean
}

const preflight = {
  'access-control-allow-methods': 'GET, POST, PUT, PATCH, DELETE',
  'access-control-allow-headers': 'authorization, content-type, idempotency-key',
  'access-control-max-age': '600',
} as const

/** Answers preflights for these paths and marks every other answer there; all requests but preflights go on to `next`. */
export function withCors({ prefixes, origins, anyOrigin, headers, exposed, isWelcome }: Cors, next: RequestListener): RequestListener {
  const allowed = {
    'access-control-expose-headers': [...exposed, 'Retry-After'].join(', '),
    // Pages of other origins must be able to read the resource.
    'cross-origin-resource-policy': 'cross-origin',
  }
  const known = new Set(origins)
  const isBelow = (url: string): boolean =>
    prefixes.some((prefix) => url.startsWith(prefix) && (url.length === prefix.length || '/?'.includes(url[prefix.length]!)))

  return (request, response) => {
    const { origin } = request.headers
    // Only pages send an Origin. No cache keeps an answer, so it needs no `vary`.
    if (origin === undefined || !isBelow(request.url ?? '') || !isWelcome(request.headers)) return next(request, response)
    const isAllowed = anyOrigin || known.has(origin)
    const corsHeaders: Record<string, string> = { vary: 'origin' }
    if (isAllowed) Object.assign(corsHeaders, allowed, { 'access-control-allow-origin': origin })
    if (isPreflight(request)) return answer(response, { ...headers, ...corsHeaders, ...(isAllowed ? preflight : {}) })
    mark(response, corsHeaders)
    return next(request, response)
  }
}

const isPreflight = ({ method, headers }: IncomingMessage): boolean =>
  method === 'OPTIONS' && headers['access-control-request-method'] !== undefined

function answer(response: ServerResponse, { 'content-type': _, ...headers }: Record<string, string>): void {
  response.writeHead(204, headers).end()
}

/** These headers override headers that other code writes later. */
function mark(response: ServerResponse, headers: Readonly<Record<string, string>>): void {
  const write = response.writeHead.bind(response) as (status: number, ...rest: unknown[]) => ServerResponse
  response.writeHead = (status: number, ...rest: unknown[]) => {
    const reason = typeof rest[0] === 'string' ? [rest[0]] : []
    for (const [name, value] of pairsIn(rest[reason.length])) response.setHeader(name, value)
    for (const [name, value] of Object.entries(headers)) response.setHeader(name, value)
    return write(status, ...reason)
  }
}

type Value = string | number | readonly string[]
function pairsIn(headers: unknown): [string, Value][] {
  if (!Array.isArray(headers)) return Object.entries((headers ?? {}) as Record<string, Value>)
  const flat = headers.flat() as Value[]
  return flat.flatMap((name, i) => (i % 2 === 0 ? [[String(name), flat[i + 1]!] as [string, Value]] : []))
}
