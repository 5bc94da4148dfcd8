// Signing in and out with a browser: a one-time link becomes a cookie.
import { Refusal } from '#kernel/declare/errors.ts'
import type { Actor } from '#kernel/declare/access.ts'
import type { Guard } from './browser-guard.ts'
import type { Authenticate } from '../../shared/credentials.ts'
import type { Reply } from '../responses.ts'
import type { Exchange, Route } from '../router.ts'
import { badLinkPage, homePage, pageHeaders } from './pages.ts'

/** How one-time links become sessions, and how sessions end. */
export type Logins = {
  /** Refuses with UNAUTHENTICATED. */
  open(token: string): Promise<{ readonly session: string; readonly expiresAt: string }>
  close(session: string): Promise<void>
  /** How many items wait for an answer of this person; null: that cannot be told. */
  waiting?(actor: Actor): Promise<number | null>
}

type Signing = {
  readonly guard: Guard
  readonly logins: Logins
  readonly secure: boolean
  now(): number
  readonly authenticate: Authenticate
}

const isUnauthenticated = (error: unknown): boolean => error instanceof Refusal && error.code === 'UNAUTHENTICATED'
/** A token that was never one of ours need not even have the right shape. */
const isBadLink = (error: unknown): boolean => isUnauthenticated(error) || (error instanceof Refusal && error.code === 'INVALID_REQUEST')

const NEXT_CHARS_MAX = 500
/** A path of this server, as a browser would read it; anything that leads elsewhere is the start page. */
export function ownPath(next: string | null): string {
  // A backslash is a slash to browsers, and two slashes are another host.
  if (next === null || next.length > NEXT_CHARS_MAX || !/^\/(?!\/)[!-~]*$/.test(next) || next.includes('\\')) return '/'
  const url = URL.parse(next, 'http://own.invalid')
  // Dots are gone now: what stood behind them may begin with two slashes.
  return url?.origin === 'http://own.invalid' && !url.pathname.startsWith('//') ? `${url.pathname}${url.search}` : '/'
}

export function loginRoutes({ guard, logins, secure, now, authenticate }: Signing): Route[] {
  const cookie = (value: string, seconds: number): string =>
    `${guard.cookieName}=${value}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Strict${secure ? '; Secure' : ''}`
  const home = (cookieText: string, location = '/'): Reply => ({ status: 303, headers: { location, 'set-cookie': cookieText }, body: '' })
  const page = (status: number, text: string): Reply => ({ status, headers: pageHeaders, body: text })

  async function whose(session: string): Promise<Actor | null> {
    try {
      return await authenticate({ kind: 'session', token: session })
    } catch (error) {
      if (isUnauthenticated(error)) return null
      throw error
    }
  }

  async function showHome({ request }: Exchange): Promise<Reply> {
    const session = guard.sessionOf(request.headers)
    const actor = session === undefined ? null : await whose(session)
    const waiting = actor === null ? null : ((await logins.waiting?.(actor)) ?? null)
    return page(200, homePage(actor === null ? null : { id: actor.id, waiting }))
  }

  async function signIn({ request }: Exchange): Promise<Reply> {
    const { searchParams } = new URL(request.url!, 'http://localhost')
    const token = searchParams.get('token') ?? ''
    const next = ownPath(searchParams.get('next'))
    try {
      const { session, expiresAt } = await logins.open(token)
      return home(cookie(session, Math.max(0, Math.floor((Date.parse(expiresAt) - now()) / 1_000))), next)
    } catch (error) {
      if (!isBadLink(error)) throw error
      return page(401, badLinkPage())
    }
  }

  async function signOut({ request }: Exchange): Promise<Reply> {
    const session = guard.sessionOf(request.headers)
    if (session !== undefined) {
      guard.refuseForeign(request.headers)
      await logins.close(session)
    }
    return home(cookie('', 0))
  }

  return [
    { method: 'GET', path: '/', answer: showHome },
    // A program that looks at a link before a person does (HEAD) must not use it up.
    { method: 'HEAD', path: '/login', answer: () => page(200, '') },
    { method: 'GET', path: '/login', answer: signIn },
    // A form sends no JSON, and what it sends does not matter.
    { method: 'POST', path: '/logout', body: 'ignored', answer: signOut },
  ]
}
