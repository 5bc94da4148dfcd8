// One request to a foreign address: bounded in time and in the size of the response, never redirected, and sent to exactly the address that
// was checked. Failure messages omit the endpoint, because people who must not see it read them.
import { lookup as resolve, type LookupAddress, type LookupOptions } from 'node:dns'
import type { ClientRequest, RequestOptions } from 'node:http'
import { request as requestHttps } from 'node:https'
import { isIP } from 'node:net'
import { limits } from '#kernel/limits.ts'
import { isPublic } from './address.ts'

// Not imported: see src/bindings/http/connections/node-http.ts.
const { request: requestHttp } = process.getBuiltinModule('node:http')

export type Posted = {
  readonly status: number | null
  readonly error: string | null
  readonly durationMs: number
  /** The other side did not answer in time. */
  readonly isLate?: boolean
  /** The media type of the answer. */
  readonly mediaType?: string | undefined
}
export type PostOptions = {
  /** Also allows loopback, private and link-local addresses, and plain HTTP. */
  readonly allowsPrivate: boolean
  readonly timeoutMs?: number
  readonly signal?: AbortSignal
  /** The resolver of host names; tests inject their own. */
  readonly resolve?: typeof resolve
}

const PRIVATE = 'its address is not a public one: the operator allows those with --webhook-private on'
const reasons: Readonly<Record<string, string>> = {
  PRIVATE,
  ECONNREFUSED: 'the connection was refused',
  ECONNRESET: 'the connection was cut',
  EPIPE: 'the connection was cut',
  EHOSTUNREACH: 'the host cannot be reached',
  ENETUNREACH: 'the network cannot be reached',
  ENOTFOUND: 'the name does not resolve',
  EAI_AGAIN: 'the name does not resolve at present',
  ETIMEDOUT: 'the connection timed out',
}
const messageFor = (code: string): string =>
  reasons[code] ?? (/CERT|SIGNATURE|TLS|SSL/.test(code) ? 'its certificate is not valid' : 'it does not answer in HTTP')
class PrivateAddress extends Error {
  readonly code = 'PRIVATE'
}

/** Resolves a name once, checks every address, and connects to one of them, so DNS rebinding has no effect. */
const checkedLookup =
  (find: typeof resolve) =>
  (host: string, options: LookupOptions, done: (error: Error | null, found: string | LookupAddress[], family?: number) => void): void =>
    find(host, { ...options, all: true }, (error, found) => {
      if (error) return done(error, [])
      if (found.length === 0 || found.some(({ address }) => !isPublic(address))) return done(new PrivateAddress(), [])
      return options.all ? done(null, found) : done(null, found[0]!.address, found[0]!.family)
    })

/** `text`: the body of the answer, up to `answerBytesMax`; `isCut`: there was more. `isForbidden`: the address is not allowed. */
export type Exchanged = Posted & { readonly text: string; readonly isCut: boolean; readonly isForbidden: boolean }
export type Sending = {
  readonly method: 'GET' | 'POST'
  readonly headers: Record<string, string>
  readonly body?: string | Buffer
  readonly answerBytesMax: number
}

export const post = (endpoint: string, headers: Record<string, string>, body: string | Buffer, options: PostOptions): Promise<Posted> =>
  exchange(endpoint, { method: 'POST', headers, body, answerBytesMax: limits.webhookAnswerBytesMax }, options)

export function exchange(endpoint: string, sending: Sending, options: PostOptions): Promise<Exchanged> {
  const { method, headers, body = '', answerBytesMax } = sending
  const { allowsPrivate, timeoutMs = limits.webhookMsMax } = options
  const began = performance.now()
  const { promise, resolve: done } = Promise.withResolvers<Exchanged>()
  const end: End = (status, error, { isLate = false, text = '', isCut = false, isForbidden = false, mediaType } = {}): void => {
    const durationMs = Math.round(performance.now() - began)
    done({ status, error, durationMs, ...(isLate ? { isLate } : {}), mediaType, text, isCut, isForbidden })
  }
  const url = URL.parse(endpoint)
  const host = url?.hostname.replace(/^\[|\]$/g, '') ?? ''
  if (!url || !['http:', 'https:'].includes(url.protocol)) end(null, 'its endpoint is no http or https address', { isForbidden: true })
  else if (!allowsPrivate && url.protocol !== 'https:')
    end(null, 'its endpoint is plain http: only https is used beyond this network', { isForbidden: true })
  else if (!allowsPrivate && isIP(host) !== 0 && !isPublic(host)) end(null, PRIVATE, { isForbidden: true })
  else {
    const request = url.protocol === 'https:' ? requestHttps : requestHttp
    const lookup = allowsPrivate ? {} : { lookup: checkedLookup(options.resolve ?? resolve) as RequestOptions['lookup'] }
    const length = String(Buffer.byteLength(body))
    const sent = request(url, {
      method,
      agent: false,
      maxHeaderSize: limits.headerBytesMax,
      headers: { ...headers, ...(method === 'GET' ? {} : { 'content-length': length }), connection: 'close' },
      ...lookup,
    })
    listen(sent, { timeoutMs, answerBytesMax, signal: options.signal }, end)
    sent.end(body)
  }
  return promise
}

type Rest = {
  readonly mediaType?: string | undefined
  readonly isLate?: boolean
  readonly text?: string
  readonly isCut?: boolean
  readonly isForbidden?: boolean
}
type End = (status: number | null, error: string | null, rest?: Rest) => void
type Bounds = { readonly timeoutMs: number; readonly answerBytesMax: number; readonly signal: AbortSignal | undefined }

function listen(sent: ClientRequest, { timeoutMs, answerBytesMax, signal }: Bounds, end: End): void {
  // The timeout covers the whole exchange, not idle time: a receiver that sends one byte a second is also too slow.
  const timer = setTimeout(() => finish(null, `no complete answer within ${timeoutMs / 1_000} s`, { isLate: true }), timeoutMs)
  const finish: End = (status, error, rest): void => {
    clearTimeout(timer)
    signal?.removeEventListener('abort', leave)
    end(status, error, rest)
    sent.destroy()
  }
  const leave = (): void => finish(null, 'the server was stopped')
  signal?.addEventListener('abort', leave)
  sent.on('error', ({ code = '' }: NodeJS.ErrnoException) => finish(null, messageFor(code), { isForbidden: code === 'PRIVATE' }))
  sent.on('response', (answer) => {
    const status = answer.statusCode ?? 0
    const mediaType = answer.headers['content-type']
    const parts: Buffer[] = []
    let bytes = 0
    const textOf = (): string => Buffer.concat(parts).toString('utf8')
    answer.on('data', (part: Buffer) => {
      bytes += part.length
      // The status is enough: do not wait for the rest.
      if (bytes > answerBytesMax) finish(status, errorFor(status), { text: textOf(), isCut: true, mediaType })
      else parts.push(part)
    })
    answer.on('end', () => finish(status, errorFor(status), { text: textOf(), mediaType }))
    answer.on('error', () => finish(status, errorFor(status)))
    answer.on('aborted', () => finish(null, 'the answer was cut'))
  })
}

function errorFor(status: number): string | null {
  if (status >= 200 && status < 300) return null
  return status >= 300 && status < 400 ? `it answered ${status}: redirects are not followed` : `it answered ${status}`
}
