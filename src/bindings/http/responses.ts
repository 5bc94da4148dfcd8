// Headers of answers and the one shape of an error. This is the only place that maps a class of refusal to an HTTP status.
import type { Readable } from 'node:stream'
import { Refusal, statuses, type Fault } from '#kernel/declare/errors.ts'

const JSON_TYPE = 'application/json; charset=utf-8'

/** On every response. Responses are for the caller only: no caching, no framing, no sniffing, no referrer. */
export const securityHeaders = {
  'content-type': JSON_TYPE,
  'cache-control': 'no-store',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
} as const

export type Failure = {
  readonly status: number
  readonly code: string
  readonly message: string
  readonly details: Readonly<Record<string, unknown>>
  readonly headers: Readonly<Record<string, string>>
}

/** An answer. Its headers override the common ones, and can include a length. `body` null: no body. */
export type Reply = {
  readonly status: number
  readonly headers?: Readonly<Record<string, string | readonly string[]>>
  readonly body: string | Buffer | Readable | null
}

export const replyOf = (failure: Failure): Reply => ({ status: failure.status, headers: failure.headers, body: bodyOf(failure) })

export const bodyOf = ({ code, message, details }: Pick<Failure, 'code' | 'message' | 'details'>): string =>
  JSON.stringify({ error: { code, message, details } })

/** A thrown refusal that carries its HTTP status. */
export class TransportRefusal extends Error {
  override name = 'TransportRefusal'
  readonly failure: Failure
  constructor(...failure: Parameters<typeof transportFailure>) {
    super(failure[2])
    this.failure = transportFailure(...failure)
  }
}

/** A refusal as a response; null for any other error, which is a bug. */
export function failureOf(error: unknown, codes: Readonly<Record<string, Fault>>): Failure | null {
  if (error instanceof TransportRefusal) return error.failure
  if (!(error instanceof Refusal)) return null
  const fault = codes[error.code]
  if (fault === undefined || fault === 'internal') return null
  const { code, message, details = {} } = error
  return { status: statuses[fault], code, message, details, headers: headersOf(fault, details) }
}

export const internalFailure: Failure = {
  status: statuses.internal,
  code: 'INTERNAL',
  message: 'an internal error occurred; it was logged',
  details: {},
  headers: {},
}

type Failing = {
  readonly kernel: { readonly codes: Readonly<Record<string, Fault>> }
  readonly log: { error(fields: object, message: string): void }
}
/** Any exception as a response. An unexpected error is logged with its cause; the response omits the cause. */
export function errorResponse(error: unknown, path: string, { kernel, log }: Failing): Failure {
  const refusal = failureOf(error, kernel.codes)
  if (refusal) return refusal
  log.error({ err: error, path }, 'a request failed')
  return internalFailure
}

/** A refusal that exists only in this binding, with its HTTP status. */
export const transportFailure = (status: number, code: string, message: string, headers: Failure['headers'] = {}): Failure => ({
  status,
  code,
  message,
  details: {},
  headers,
})

function headersOf(fault: Fault, details: Readonly<Record<string, unknown>>): Record<string, string> {
  if (fault === 'unauthenticated') return { 'www-authenticate': 'Bearer realm="countersign"' }
  if (fault !== 'quota' && fault !== 'busy') return {}
  const seconds = typeof details['retry_after'] === 'number' ? details['retry_after'] : fault === 'quota' ? 60 : 1
  return { 'retry-after': String(Math.ceil(seconds)) }
}

/** A refusal for a socket without a readable request. The path is unknown, so the body carries the message in both formats. */
export function rawAnswer({ status, code, message, details }: Failure, reason: string): string {
  const body = bodyOf({ code, message, details }).replace(/\}$/, `,"message":${JSON.stringify(message)}}`)
  const headers = Object.entries({ ...securityHeaders, 'content-length': Buffer.byteLength(body), connection: 'close' })
  return `HTTP/1.1 ${status} ${reason}\r\n${headers.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n${body}`
}
