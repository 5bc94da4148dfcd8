// The browser guard. Another site must not be able to speak for a person through their browser: the Host is one of ours (DNS rebinding),
// and with a cookie the page is ours as well (CSRF).
import type { IncomingHttpHeaders } from 'node:http'
import { Refusal } from '#kernel/declare/errors.ts'
import type { Credential } from '../../shared/credentials.ts'
import { idempotencyKeyOf } from '../../shared/call-options.ts'

export type BrowserGuard = {
  readonly cookieName: string
  /** The requested host, or undefined if it is not one of ours. */
  hostOf(headers: IncomingHttpHeaders): string | undefined
  /** Bearer key or session cookie, or UNAUTHENTICATED. With a cookie, a change must name the page it comes from. */
  credentialOf(headers: IncomingHttpHeaders, changes?: boolean): Credential
  sessionOf(headers: IncomingHttpHeaders): string | undefined
  /** Refuses a request from another site; a change must also name the page it comes from. */
  refuseForeign(headers: IncomingHttpHeaders, changes?: boolean): void
  /** Whether a request comes from a page of another origin; only pages send an Origin. */
  isForeignOrigin(headers: IncomingHttpHeaders): boolean
}

export type GuardOptions = {
  /** Allowed host names in addition to the loopback names. */
  readonly hosts: readonly string[]
  /** A proxy in front terminates TLS and forwards the requested host. */
  readonly proxied: boolean
  /** The cookie is sent over TLS only. */
  readonly secure: boolean
}

/** The person a page was opened for. A request with another person's session is refused; a response names the session's person. */
export const PERSON_HEADER = 'countersign-person'

export function personIn(headers: IncomingHttpHeaders): string | undefined {
  const person = headers[PERSON_HEADER]
  return typeof person === 'string' ? person : undefined
}

/** The request comes from another site's link, form or script. A typed address, or one opened from outside the browser, is not foreign. */
export function isForeignSite(headers: IncomingHttpHeaders): boolean {
  const site = headers['sec-fetch-site']
  return site !== undefined && site !== 'same-origin' && site !== 'none'
}

const loopbackNames = ['localhost', '127.0.0.1', '[::1]']

export function createBrowserGuard({ hosts, proxied, secure }: GuardOptions): BrowserGuard {
  const allowed = new Set([...loopbackNames, ...hosts.map((host) => host.toLowerCase())])
  // A cookie with the prefix __Host- must be Secure, which plain HTTP on the loopback is not.
  const cookieName = secure ? '__Host-countersign' : 'countersign'
  const askedFor = (headers: IncomingHttpHeaders): string | undefined => {
    const forwarded = proxied ? headers['x-forwarded-host'] : undefined
    return typeof forwarded === 'string' ? forwarded.split(',')[0]!.trim() : headers.host
  }

  // Compare the scheme too: otherwise a plain HTTP page altered by an attacker on the network would count as ours.
  const scheme = secure ? 'https' : 'http'
  const isForeignOrigin = (headers: IncomingHttpHeaders): boolean =>
    headers.origin !== undefined && headers.origin !== `${scheme}://${askedFor(headers)}`

  function refuseForeign(headers: IncomingHttpHeaders, changes = false): void {
    if (isForeignSite(headers) || isForeignOrigin(headers))
      throw new Refusal('UNAUTHORIZED', 'a page of another site may not act with your session')
    // Every browser sends the page's origin with a POST. `none` only means that no page made the request.
    if (changes && headers.origin === undefined && headers['sec-fetch-site'] !== 'same-origin')
      throw new Refusal(
        'UNAUTHORIZED',
        'with a session, a change must carry Origin or Sec-Fetch-Site: same-origin; programs use an API key',
      )
  }

  const sessionOf = (headers: IncomingHttpHeaders): string | undefined => cookieIn(headers.cookie, cookieName)
  return {
    cookieName,
    hostOf(headers) {
      const host = askedFor(headers)
      return host !== undefined && allowed.has(nameIn(host)) ? host : undefined
    },
    credentialOf(headers, changes = false) {
      const { authorization } = headers
      if (authorization !== undefined) return { kind: 'bearer', token: bearerIn(authorization) }
      const token = sessionOf(headers)
      if (token === undefined) throw new Refusal('UNAUTHENTICATED', 'a valid API key or session is required')
      refuseForeign(headers, changes)
      const person = personIn(headers)
      return person === undefined ? { kind: 'session', token } : { kind: 'session', token, person }
    },
    sessionOf,
    refuseForeign,
    isForeignOrigin,
  }
}

/** The host without its port. */
function nameIn(host: string): string {
  const colon = host.lastIndexOf(':')
  return (colon > host.lastIndexOf(']') ? host.slice(0, colon) : host).toLowerCase()
}

function bearerIn(authorization: string): string {
  const match = /^bearer +(\S+)$/i.exec(authorization)
  if (!match) throw new Refusal('UNAUTHENTICATED', 'the Authorization header must read: Bearer <key>')
  return match[1]!
}

export function cookieIn(header: string | undefined, name: string): string | undefined {
  for (const part of header?.split(';') ?? []) {
    const equals = part.indexOf('=')
    if (equals !== -1 && part.slice(0, equals).trim() === name) return part.slice(equals + 1).trim()
  }
  return undefined
}

export const idempotencyKeyIn = (headers: IncomingHttpHeaders): string | undefined =>
  idempotencyKeyOf(headers['idempotency-key'], 'Idempotency-Key')

/** A client on this machine that connects directly, without a proxy. */
export function isLocal(address: string | undefined, headers: IncomingHttpHeaders, proxied: boolean): boolean {
  const isLoopback = address !== undefined && /^(127\.|::1$|::ffff:127\.)/.test(address)
  return isLoopback && !proxied && headers['x-forwarded-for'] === undefined && headers.forwarded === undefined
}
