// The browser guard. Another site must not be able to speak for a person through their browser: the Host is one of ours (DNS rebinding),
// and with a cookie the page is ours as well (CSRF).
import type { IncomingHttpHeaders } from 'node:http'
import { Refusal } from '#kernel/declare/errors.ts'
import type { Credential } from '../../shared/credentials.ts'
import { idempotencyKeyOf } from '../../shared/idempotency-key.ts'

export type Guard = {
  readonly cookieName: string
  /** The host that the client asked for, or undefined where it is none of ours. */
  hostOf(headers: IncomingHttpHeaders): string | undefined
  /** Bearer key or session cookie, or UNAUTHENTICATED. With a cookie, what changes something must say from which page it comes. */
  credentialOf(headers: IncomingHttpHeaders, changes?: boolean): Credential
  sessionOf(headers: IncomingHttpHeaders): string | undefined
  /** Refuses a request that another site made. */
  refuseForeign(headers: IncomingHttpHeaders): void
}

export type GuardOptions = {
  /** Names besides those of the loopback. */
  readonly hosts: readonly string[]
  /** A proxy in front ends TLS and tells the host that it was asked for. */
  readonly proxied: boolean
  /** The cookie travels over TLS. */
  readonly secure: boolean
}

const loopbackNames = ['localhost', '127.0.0.1', '[::1]']

export function createGuard({ hosts, proxied, secure }: GuardOptions): Guard {
  const allowed = new Set([...loopbackNames, ...hosts.map((host) => host.toLowerCase())])
  // A cookie with the prefix __Host- must be Secure, which plain HTTP on the loopback is not.
  const cookieName = secure ? '__Host-countersign' : 'countersign'
  const askedFor = (headers: IncomingHttpHeaders): string | undefined => {
    const forwarded = proxied ? headers['x-forwarded-host'] : undefined
    return typeof forwarded === 'string' ? forwarded.split(',')[0]!.trim() : headers.host
  }

  function refuseForeign(headers: IncomingHttpHeaders): void {
    const site = headers['sec-fetch-site']
    const isForeignSite = site !== undefined && site !== 'same-origin' && site !== 'none'
    const { origin } = headers
    const isForeignOrigin = origin !== undefined && origin.slice(origin.indexOf('://') + 3) !== askedFor(headers)
    if (isForeignSite || isForeignOrigin) throw new Refusal('UNAUTHORIZED', 'a page of another site may not act with your session')
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
      refuseForeign(headers)
      // Every browser names one of them with what it posts.
      if (changes && headers.origin === undefined && headers['sec-fetch-site'] === undefined)
        throw new Refusal('UNAUTHORIZED', 'with a session, a change must carry Origin or Sec-Fetch-Site; programs use an API key')
      return { kind: 'session', token }
    },
    sessionOf,
    refuseForeign,
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
