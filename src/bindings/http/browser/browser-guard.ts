// The browser guard. Another site must not be able to speak for a person through their browser: the Host is one of ours (DNS rebinding),
// and with a cookie the page is ours as well (CSRF).
import type { IncomingHttpHeaders } from 'node:http'
import { Refusal } from '#kernel/declare/errors.ts'
import type { Credential } from '../../shared/credentials.ts'
import { idempotencyKeyOf } from '../../shared/idempotency-key.ts'

export type BrowserGuard = {
  readonly cookieName: string
  /** The host that the client asked for, or undefined where it is none of ours. */
  hostOf(headers: IncomingHttpHeaders): string | undefined
  /** Bearer key or session cookie, or UNAUTHENTICATED. With a cookie, what changes something must say from which page it comes. */
  credentialOf(headers: IncomingHttpHeaders, changes?: boolean): Credential
  sessionOf(headers: IncomingHttpHeaders): string | undefined
  /** Refuses a request of another site; a change must also name the page that it comes from. */
  refuseForeign(headers: IncomingHttpHeaders, changes?: boolean): void
  /** Whether a request names a page of another origin; only pages send an Origin. */
  isForeignOrigin(headers: IncomingHttpHeaders): boolean
}

export type GuardOptions = {
  /** Names besides those of the loopback. */
  readonly hosts: readonly string[]
  /** A proxy in front ends TLS and tells the host that it was asked for. */
  readonly proxied: boolean
  /** The cookie travels over TLS. */
  readonly secure: boolean
}

/** The person whom a page was opened for. In a request, a session of another person is refused; in an answer, the session's own. */
export const PERSON_HEADER = 'countersign-person'

export function personIn(headers: IncomingHttpHeaders): string | undefined {
  const person = headers[PERSON_HEADER]
  return typeof person === 'string' ? person : undefined
}

/** Another site led here, by a link, a form or a script. Nobody leads where an address was typed or came from outside of the browser. */
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

  // Without its scheme, a page that somebody on the network has changed would count as ours.
  const scheme = secure ? 'https' : 'http'
  const isForeignOrigin = (headers: IncomingHttpHeaders): boolean =>
    headers.origin !== undefined && headers.origin !== `${scheme}://${askedFor(headers)}`

  function refuseForeign(headers: IncomingHttpHeaders, changes = false): void {
    if (isForeignSite(headers) || isForeignOrigin(headers))
      throw new Refusal('UNAUTHORIZED', 'a page of another site may not act with your session')
    // Every browser names its page with a POST. `none` says only that no page asked for it.
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

function cookieIn(header: string | undefined, name: string): string | undefined {
  for (const part of header?.split(';') ?? []) {
    const equals = part.indexOf('=')
    if (equals !== -1 && part.slice(0, equals).trim() === name) return part.slice(equals + 1).trim()
  }
  return undefined
}

export const idempotencyKeyIn = (headers: IncomingHttpHeaders): string | undefined =>
  idempotencyKeyOf(headers['idempotency-key'], 'Idempotency-Key')

/** A client on this machine that no proxy stands in front of. */
export function isLocal(address: string | undefined, headers: IncomingHttpHeaders, proxied: boolean): boolean {
  const isLoopback = address !== undefined && /^(127\.|::1$|::ffff:127\.)/.test(address)
  return isLoopback && !proxied && headers['x-forwarded-for'] === undefined && headers.forwarded === undefined
}
