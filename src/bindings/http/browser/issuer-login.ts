// Signing in at an issuer with a browser: the redirect there, the callback, and the notice that a session there has ended. The state that protects a sign-in
// is in a cookie of the browser that began it, so no server stores it, and no other browser can complete it.
import { randomBytes } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { decode } from '#kernel/codec/strict-json.ts'
import { kernelCodes, Refusal } from '#kernel/declare/errors.ts'
import { limits } from '#kernel/limits.ts'
import { failureOf, type Reply } from '../responses.ts'
import type { Exchange, Route } from '../router.ts'
import { cookieIn, isForeignSite, type BrowserGuard } from './browser-guard.ts'
import { ownPath } from './own-path.ts'
import { commandLinePage, leadOnPage, notSignedInPage, pageHeaders } from './pages.ts'
import { addressOf, browserOf } from './user-agent.ts'

export type Device = { readonly browser: string; readonly address: string; readonly remember: boolean }
export type Entered = { readonly session: string | null; readonly sessionId: string; readonly expiresAt: string; readonly idToken: string }

/** The options of a sign-in from the page or the command line. */
export type Wish = {
  /** The issuer asks the person to sign in even if they already are. */
  readonly fresh: boolean
  readonly remember: boolean
  /** The person for whom the page was opened; an account of another person is refused. */
  readonly person: string | undefined
  /** The SHA-256 of the secret of the command line that is signed in. */
  readonly digest: string | undefined
}

/** Sign-in at the issuer, behind this binding. */
export type IssuerLogin = {
  /** The host of the issuer, as people know it. */
  readonly host: string
  /** The public address of this server. */
  origin(): string
  /** The address at the issuer. `secret`: belongs to this sign-in; all its protections derive from it. */
  begin(secret: string, fresh: boolean): Promise<string>
  /** `query`: as the issuer sent the browser back. Refuses in words. */
  finish(query: string, secret: string, wish: Wish, device: Device): Promise<Entered>
  /** A sign-in on another device: a code and an address. */
  beginDevice(from: string): Promise<object>
  /** null: the person has not answered yet. */
  finishDevice(code: string, device: Device): Promise<(Entered & { readonly person: string }) | 'pending' | 'slow_down'>
  /** Where this session signs out at the issuer; null: nowhere. */
  signOutAt(session: string, idToken: string | undefined): Promise<string | null>
  /** Ends sessions that the issuer reports as ended. Refuses a token that is not genuine. */
  loggedOut(token: string): Promise<void>
  /** Whether this network address is allowed another return from the issuer. */
  admits(address: string): boolean
}

type Signing = {
  readonly guard: BrowserGuard
  readonly issuer: IssuerLogin
  readonly secure: boolean
  readonly proxied: boolean
  now(): number
  /** The cookie of a session that was opened. */
  sessionCookie(request: IncomingMessage, opened: { readonly session: string; readonly expiresAt: string }): Promise<string>
}

const CALLBACK = '/login/oidc/callback'
/** In the address of the second of two steps, so that no browser is sent in circles. */
const HOP = 'hop'

type Terminal = { readonly port: number; readonly digest: string; readonly state: string; readonly machine: string }
type Begun = {
  readonly secret: string
  readonly at: number
  readonly next: string
  readonly fresh: boolean
  readonly remember: boolean
  readonly person: string | undefined
  readonly terminal: Terminal | undefined
}

/** The token of the identity goes back to the issuer at the sign-out: in the browser of its person, and never to any other server. */
export const idTokenCookieName = (secure: boolean): string => (secure ? '__Secure-countersign-id' : 'countersign-id')
const ID_TOKEN_CHARS_MAX = 3_500

export function issuerRoutes(signing: Signing): Route[] {
  const { issuer, guard, proxied } = signing
  const bytesMax = 2 * limits.tokenCharsMax
  return [
    { method: 'GET', path: '/login/oidc', head: false, answer: (exchange) => begin(exchange, signing) },
    { method: 'POST', path: '/login/oidc', body: 'form', bytesMax, answer: (exchange) => beginAsked(exchange, signing) },
    { method: 'GET', path: CALLBACK, head: false, answer: (exchange) => comeBack(exchange, signing) },
    { method: 'POST', path: '/login/oidc/backchannel', body: 'form', bytesMax, answer: (exchange) => hearLogout(exchange, issuer) },
    {
      method: 'POST',
      path: '/login/oidc/device',
      body: 'json',
      bytesMax,
      async answer({ request }) {
        guard.refuseForeign(request.headers)
        return { status: 200, body: JSON.stringify(await issuer.beginDevice(addressOf(request, proxied))) }
      },
    },
    { method: 'POST', path: '/login/oidc/device/token', body: 'json', bytesMax, answer: (exchange) => askDevice(exchange, signing) },
  ]
}

const pageOf = (status: number, body: string, cookies: readonly string[] = []): Reply => ({
  status,
  headers: { ...pageHeaders, ...(cookies.length > 0 ? { 'set-cookie': cookies } : {}) },
  body,
})

const paramsOf = ({ url }: IncomingMessage): URLSearchParams => new URL(url!, 'http://localhost').searchParams

/** A program of this machine that waits for a sign-in; undefined: a browser signs in for itself. */
function terminalIn(params: URLSearchParams): Terminal | undefined {
  const port = params.get('port')
  if (port === null) return undefined
  const [digest, state, machine] = ['digest', 'state', 'machine'].map((name) => params.get(name) ?? '') as [string, string, string]
  const isFit = /^\d{1,5}$/.test(port) && Number(port) > 0 && Number(port) < 65_536
  if (!isFit || !/^[\w-]{43}$/.test(digest) || !/^[\w-]{16,64}$/.test(state) || !/^[\w .:-]{1,100}$/.test(machine))
    throw new Refusal('INVALID_REQUEST', 'port, digest, state and machine must be those of a program that waits for this sign-in')
  return { port: Number(port), digest, state, machine }
}

const flowCookieName = (secure: boolean): string => (secure ? '__Host-countersign-oidc' : 'countersign-oidc')
const flowCookie = (value: string, seconds: number, secure: boolean): string =>
  `${flowCookieName(secure)}=${value}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Lax${secure ? '; Secure' : ''}`

function begunIn({ headers }: IncomingMessage, secure: boolean, nowMs: number): Begun | null {
  const text = cookieIn(headers.cookie, flowCookieName(secure))
  if (text === undefined) return null
  try {
    const { secret, at, next = '/', fresh, remember, person, terminal } = decode(Buffer.from(text, 'base64url')) as Partial<Begun>
    if (typeof secret !== 'string' || !/^[\w-]{43}$/.test(secret) || typeof at !== 'number' || Math.abs(nowMs - at) >= limits.oidcFlowMs)
      return null
    return {
      secret,
      at,
      next: ownPath(next),
      fresh: fresh === true,
      remember: remember === true,
      person: typeof person === 'string' ? person : undefined,
      terminal: terminal && terminalIn(new URLSearchParams({ ...terminal, port: String(terminal.port) })),
    }
  } catch {
    return null
  }
}

async function wayOut({ request }: Exchange, { issuer, secure, now }: Signing): Promise<{ readonly to: string; readonly cookie: string }> {
  const params = paramsOf(request)
  const person = params.get('person') ?? undefined
  const begun: Begun = {
    secret: randomBytes(32).toString('base64url'),
    at: now(),
    next: ownPath(params.get('next')),
    fresh: params.has('fresh'),
    remember: params.has('remember'),
    person: person !== undefined && person.length <= limits.idCharsMax ? person : undefined,
    terminal: terminalIn(params),
  }
  const to = await issuer.begin(begun.secret, begun.fresh)
  const value = Buffer.from(JSON.stringify(begun)).toString('base64url')
  return { to, cookie: flowCookie(value, limits.oidcFlowMs / 1_000, secure) }
}

const refusalPage = (error: unknown, { issuer }: Signing, cookies: readonly string[] = []): Reply => {
  const failure = failureOf(error, kernelCodes)
  if (failure === null) throw error
  return pageOf(failure.status, notSignedInPage(failure.message, issuer.host), cookies)
}

async function begin(exchange: Exchange, signing: Signing): Promise<Reply> {
  const { request } = exchange
  const { issuer, guard } = signing
  try {
    // The issuer sends the browser back to the public address: the cookie has to be there.
    const publicUrl = new URL(issuer.origin())
    const params = paramsOf(request)
    if (guard.hostOf(request.headers) !== publicUrl.host && !params.has(HOP)) {
      params.set(HOP, '1')
      return { status: 303, headers: { location: `${publicUrl.origin}/login/oidc?${params.toString()}` }, body: '' }
    }
    const terminal = terminalIn(params)
    // A link of another page must not sign a program in: its person confirms first.
    if (terminal !== undefined) return pageOf(200, commandLinePage(terminal.machine, issuer.host))
    const { to, cookie } = await wayOut(exchange, signing)
    return { status: 303, headers: { location: to, 'set-cookie': cookie }, body: '' }
  } catch (error) {
    return refusalPage(error, signing)
  }
}

async function beginAsked(exchange: Exchange, signing: Signing): Promise<Reply> {
  signing.guard.refuseForeign(exchange.request.headers, true)
  try {
    const { to, cookie } = await wayOut(exchange, signing)
    // A form must not redirect to another site; a page can.
    return pageOf(200, leadOnPage(to), [cookie])
  } catch (error) {
    return refusalPage(error, signing)
  }
}

async function comeBack({ request }: Exchange, signing: Signing): Promise<Reply> {
  const { issuer, secure, proxied, now } = signing
  const params = paramsOf(request)
  if (isForeignSite(request.headers) && !params.has(HOP)) {
    // Browsers keep our strict cookies back from a request that another site has caused: this page asks once more.
    params.set(HOP, '1')
    return pageOf(200, leadOnPage(`${CALLBACK}?${params.toString()}`))
  }
  params.delete(HOP)
  const begun = begunIn(request, secure, now())
  const over = [flowCookie('', 0, secure)]
  const address = addressOf(request, proxied)
  let terminal: Terminal | undefined
  try {
    if (begun === null || params.get('state') === null)
      throw new Refusal('INVALID_REQUEST', 'this browser has not begun this sign-in, or more than ten minutes ago')
    terminal = begun.terminal
    if (!issuer.admits(address)) throw new Refusal('QUOTA_EXCEEDED', 'too many sign-ins from this address: try again in a few minutes')
    const browser = terminal === undefined ? browserOf(request.headers['user-agent']) : `command line on ${terminal.machine}`
    const wish = { fresh: begun.fresh, remember: begun.remember, person: begun.person, digest: terminal?.digest }
    const entered = await issuer.finish(params.toString(), begun.secret, wish, { browser, address, remember: begun.remember })
    if (terminal !== undefined) return toTerminal(terminal, { session_id: entered.sessionId }, over)
    const session = await signing.sessionCookie(request, { session: entered.session!, expiresAt: entered.expiresAt })
    const cookies = [session, ...over, idTokenCookie(entered.idToken, secure)]
    return { status: 303, headers: { location: begun.next, 'set-cookie': cookies }, body: '' }
  } catch (error) {
    const failure = terminal === undefined ? null : failureOf(error, kernelCodes)
    return failure === null ? refusalPage(error, signing, over) : toTerminal(terminal!, { error: failure.message }, over)
  }
}

/** The program listens on this machine alone. The id of a session is not secret: the program has created the secret itself. */
function toTerminal({ port, state }: Terminal, fields: Record<string, string>, cookies: readonly string[]): Reply {
  const location = `http://127.0.0.1:${port}/?${new URLSearchParams({ ...fields, state }).toString()}`
  return { status: 303, headers: { location, 'set-cookie': cookies }, body: '' }
}

const idTokenCookie = (token: string, secure: boolean): string =>
  `${idTokenCookieName(secure)}=${token.length > ID_TOKEN_CHARS_MAX ? '' : token}; Path=/logout; Max-Age=${
    token.length > ID_TOKEN_CHARS_MAX ? 0 : limits.sessionMsMax / 1_000
  }; HttpOnly; SameSite=Strict${secure ? '; Secure' : ''}`

/** The answers are those of OpenID Connect Back-Channel Logout, section 2.8. */
async function hearLogout({ body }: Exchange, issuer: IssuerLogin): Promise<Reply> {
  const token = new URLSearchParams(body?.toString() ?? '').get('logout_token')
  try {
    if (token === null) throw new Refusal('INVALID_REQUEST', 'logout_token is missing')
    await issuer.loggedOut(token)
    return { status: 200, body: '{}' }
  } catch (error) {
    if (!(error instanceof Refusal) || !['INVALID_REQUEST', 'UNAUTHENTICATED'].includes(error.code)) throw error
    return { status: 400, body: JSON.stringify({ error: 'invalid_request', error_description: error.message }) }
  }
}

async function askDevice({ request, body }: Exchange, { issuer, guard, proxied }: Signing): Promise<Reply> {
  guard.refuseForeign(request.headers)
  const { device_code, machine } = (body === undefined ? {} : decode(body)) as { device_code?: unknown; machine?: unknown }
  if (typeof device_code !== 'string' || device_code === '' || device_code.length > limits.tokenCharsMax)
    throw new Refusal('INVALID_REQUEST', 'device_code must be the one that this sign-in began with', { field: 'device_code' })
  if (typeof machine !== 'string' || !/^[\w .:-]{1,100}$/.test(machine))
    throw new Refusal('INVALID_REQUEST', 'machine must be the name of the machine that signs in', { field: 'machine' })
  const address = addressOf(request, proxied)
  const entered = await issuer.finishDevice(device_code, { browser: `command line on ${machine}`, address, remember: false })
  if (typeof entered === 'string') return { status: 202, body: JSON.stringify({ status: entered }) }
  const { session, person, expiresAt } = entered
  return { status: 200, body: JSON.stringify({ token: session, user_id: person, expires_at: expiresAt }) }
}
