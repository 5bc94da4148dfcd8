// Signing in and out with a browser: a one-time link becomes a cookie. A link that another site leads to, or that would replace the session of
// another person, asks first.
import type { IncomingMessage } from 'node:http'
import { decode } from '#kernel/codec/strict-json.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import type { Actor } from '#kernel/declare/access.ts'
import { cookieIn, isForeignSite, personIn, type BrowserGuard } from './browser-guard.ts'
import { addressOf, browserOf } from './user-agent.ts'
import type { Authenticate } from '../../shared/credentials.ts'
import type { Reply } from '../responses.ts'
import type { Exchange, Route } from '../router.ts'
import { idTokenCookieName, issuerRoutes, type Device, type IssuerLogin } from './issuer-login.ts'
import { ownPath } from './own-path.ts'
import { badLinkPage, homePage, leadOnPage, noLinksPage, pageHeaders, signInPage } from './pages.ts'

export type { Device } from './issuer-login.ts'
export type Opened = { readonly session: string; readonly expiresAt: string }

/** How one-time links become sessions, and how sessions end. */
export type Logins = {
  /** Refuses with UNAUTHENTICATED. */
  open(token: string, device: Device): Promise<Opened>
  close(session: string): Promise<void>
  /** The person whom a link signs in, without redeeming it; null: the link is not valid. */
  whoseLink?(token: string): Promise<string | null>
  /** The name of a person. */
  nameOf?(id: string): Promise<string>
  /** Whether the device of this session is remembered. */
  isRemembered?(session: string): Promise<boolean>
  /** Opens a session for the person of a key, if the page was opened for that person; otherwise refuses with a message. */
  openByKey?(key: string, device: Device, person: string | undefined): Promise<Opened>
  /** Whether links can be mailed. */
  readonly mails?: boolean
  /** Mails a link to the person with this confirmed address, if there is one. False: too many links were requested from there. */
  mailLink?(address: string, from: string, request_id: string | null): boolean
  /** How many items wait for this person's answer; null: unknown. */
  waiting?(actor: Actor): Promise<number | null>
  /** Sign-in with the issuer, if there is one. */
  readonly issuer?: IssuerLogin | null
  /** Login links, mailed links and typed keys are off. */
  readonly linksOff?: boolean
  /** For how many days a device can be remembered; null: it cannot be. */
  readonly rememberDays?: number | null
}

type Signing = {
  readonly guard: BrowserGuard
  readonly logins: Logins
  readonly secure: boolean
  readonly proxied: boolean
  now(): number
  readonly authenticate: Authenticate
}

const isUnauthenticated = (error: unknown): boolean => error instanceof Refusal && error.code === 'UNAUTHENTICATED'
/** A token that this server never issued can have any shape. */
const isBadLink = (error: unknown): boolean => isUnauthenticated(error) || (error instanceof Refusal && error.code === 'INVALID_REQUEST')

/** A link as it was opened. */
type Link = { readonly token: string; readonly next: string; readonly asks: boolean }
function linkIn({ url }: IncomingMessage): Link {
  const { searchParams } = new URL(url!, 'http://localhost')
  return { token: searchParams.get('token') ?? '', next: ownPath(searchParams.get('next')), asks: searchParams.has('ask') }
}

export function loginRoutes({ guard, logins, secure, proxied, now, authenticate }: Signing): Route[] {
  const cookie = (value: string, seconds: number): string =>
    `${guard.cookieName}=${value}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Strict${secure ? '; Secure' : ''}`
  const home = (cookieText: string, location = '/'): Reply => ({ status: 303, headers: { location, 'set-cookie': cookieText }, body: '' })
  const page = (status: number, text: string): Reply => ({ status, headers: pageHeaders, body: text })
  const named = async (id: string): Promise<{ id: string; name: string }> => ({ id, name: (await logins.nameOf?.(id)) ?? id })
  const deviceOf = (request: IncomingMessage, remember: boolean): Device => ({
    browser: browserOf(request.headers['user-agent']),
    address: addressOf(request, proxied),
    remember,
  })

  /** The person of the request's session; null: there is none. */
  async function whose({ headers }: IncomingMessage): Promise<Actor | null> {
    const session = guard.sessionOf(headers)
    if (session === undefined) return null
    try {
      return await authenticate({ kind: 'session', token: session })
    } catch (error) {
      if (isUnauthenticated(error)) return null
      throw error
    }
  }

  async function showHome({ request }: Exchange): Promise<Reply> {
    const actor = await whose(request)
    const waiting = actor === null ? null : ((await logins.waiting?.(actor)) ?? null)
    return page(200, homePage(actor === null ? null : { id: actor.id, waiting }, logins.issuer?.host))
  }

  /** The cookie of a new session. The former session of this browser ends. */
  async function sessionCookie(request: IncomingMessage, { session, expiresAt }: Opened): Promise<string> {
    const before = guard.sessionOf(request.headers)
    if (before !== undefined) await logins.close(before)
    return cookie(session, Math.max(0, Math.floor((Date.parse(expiresAt) - now()) / 1_000)))
  }

  /** A remembered device stays one when its person signs in again. */
  async function isRemembered({ headers }: IncomingMessage): Promise<boolean> {
    const session = guard.sessionOf(headers)
    return session !== undefined && (await logins.isRemembered?.(session)) === true
  }

  async function open(request: IncomingMessage, { token, next }: Link, remember: boolean): Promise<Reply> {
    try {
      return home(await sessionCookie(request, await logins.open(token, deviceOf(request, remember))), next)
    } catch (error) {
      if (!isBadLink(error)) throw error
      return page(401, badLinkPage())
    }
  }

  async function signIn({ request }: Exchange): Promise<Reply> {
    if (logins.linksOff) return page(403, noLinksPage(logins.issuer!.host))
    const link = linkIn(request)
    const person = await logins.whoseLink?.(link.token)
    if (person === null) return page(401, badLinkPage())
    const actor = await whose(request)
    const other = actor !== null && actor.id !== person ? await named(actor.id) : null
    if (person === undefined || (!link.asks && !isForeignSite(request.headers) && other === null))
      return open(request, link, actor !== null && actor.id === person && (await isRemembered(request)))
    return page(200, signInPage(await named(person), other, logins.rememberDays))
  }

  async function signInAsked({ request, body }: Exchange): Promise<Reply> {
    guard.refuseForeign(request.headers, true)
    return open(request, linkIn(request), new URLSearchParams(body?.toString() ?? '').has('remember'))
  }

  /** Refuses requests from pages of other sites, and sessions of anyone but the person our page was opened for. */
  async function checkedFields({ request, body }: Exchange): Promise<{ fields: Record<string, unknown>; person: string | undefined }> {
    guard.refuseForeign(request.headers, true)
    if (logins.linksOff) throw new Refusal('PRECONDITION_FAILED', `links and keys sign nobody in here: sign in with ${logins.issuer!.host}`)
    const fields = body === undefined ? null : decode(body)
    if (typeof fields !== 'object' || fields === null) throw new Refusal('INVALID_REQUEST', 'the body must be a JSON object')
    const person = personIn(request.headers)
    const actor = await whose(request)
    if (actor !== null && actor.id !== person)
      throw new Refusal('OTHER_PERSON', `this browser is signed in as ${(await named(actor.id)).name}: sign out there first`, {
        person: actor.id,
        name: (await named(actor.id)).name,
      })
    return { fields: fields as Record<string, unknown>, person }
  }

  async function signInByKey(exchange: Exchange): Promise<Reply> {
    const { fields, person } = await checkedFields(exchange)
    const { key, remember = false } = fields
    if (typeof key !== 'string' || typeof remember !== 'boolean')
      throw new Refusal('INVALID_REQUEST', 'key must be a text, and remember true or false', {
        field: typeof key === 'string' ? 'remember' : 'key',
      })
    if (!logins.openByKey) throw new Refusal('NOT_FOUND', 'this server opens no sessions by key')
    const { request } = exchange
    const opened = await logins.openByKey(key.trim(), deviceOf(request, remember || (await isRemembered(request))), person)
    const headers = { 'set-cookie': await sessionCookie(request, opened) }
    return { status: 200, headers, body: JSON.stringify({ expires_at: opened.expiresAt }) }
  }

  async function mailLink(exchange: Exchange): Promise<Reply> {
    const { fields } = await checkedFields(exchange)
    const { address, next } = fields
    if (typeof address !== 'string' || !/^[^\s@]{1,64}@[^\s@]{1,189}$/.test(address))
      throw new Refusal('INVALID_REQUEST', 'address must be an e-mail address such as name@example.com', { field: 'address' })
    if (logins.mails !== true || !logins.mailLink)
      throw new Refusal('PRECONDITION_FAILED', 'this server sends no mail: ask an owner for a link')
    const item = typeof next === 'string' ? (/^\/inbox\/(\w{1,100})$/.exec(next)?.[1] ?? null) : null
    if (!logins.mailLink(address, addressOf(exchange.request, proxied), item))
      throw new Refusal('QUOTA_EXCEEDED', 'too many links were asked for from this address: try again in a few minutes', {
        retry_after: 300,
      })
    // Every address gets this response, so it does not reveal who has an account.
    return { status: 202, body: JSON.stringify({ asked: true }) }
  }

  /** `further`: the address that ends the session at the issuer. The page asks for JSON, since its own script cannot follow there. */
  async function signOut({ request: { headers } }: Exchange): Promise<Reply> {
    const session = guard.sessionOf(headers)
    let further: string | null = null
    if (session !== undefined) {
      guard.refuseForeign(headers)
      further = (await logins.issuer?.signOutAt(session, cookieIn(headers.cookie, idTokenCookieName(secure)))) ?? null
      await logins.close(session)
    }
    const cookies = [
      cookie('', 0),
      ...(logins.issuer ? [`${idTokenCookieName(secure)}=; Path=/logout; Max-Age=0; HttpOnly${secure ? '; Secure' : ''}`] : []),
    ]
    if (headers.accept === 'application/json')
      return { status: 200, headers: { 'set-cookie': cookies }, body: JSON.stringify({ location: further ?? '/' }) }
    if (further === null) return { status: 303, headers: { location: '/', 'set-cookie': cookies }, body: '' }
    return { status: 200, headers: { ...pageHeaders, 'set-cookie': cookies }, body: leadOnPage(further) }
  }

  /** The ways to sign in here, for the page and the command line. */
  const ways = () => ({
    mail: logins.mails === true && logins.linksOff !== true,
    links: logins.linksOff !== true,
    issuer: logins.issuer?.host ?? null,
    remember_days: logins.rememberDays === undefined ? 30 : logins.rememberDays,
  })

  return [
    { method: 'GET', path: '/', answer: showHome },
    // A program that looks at a link before a person does (HEAD) must not use it up.
    { method: 'HEAD', path: '/login', answer: () => page(200, '') },
    { method: 'GET', path: '/login', answer: signIn },
    { method: 'POST', path: '/login', body: 'form', answer: signInAsked },
    { method: 'GET', path: '/login/ways', answer: () => ({ status: 200, body: JSON.stringify(ways()) }) },
    { method: 'POST', path: '/login/key', body: 'json', answer: signInByKey },
    { method: 'POST', path: '/login/mail', body: 'json', answer: mailLink },
    // A form sends no JSON, and its content does not matter.
    { method: 'POST', path: '/logout', body: 'ignored', answer: signOut },
    ...(logins.issuer ? issuerRoutes({ guard, secure, proxied, now, issuer: logins.issuer, sessionCookie }) : []),
  ]
}
