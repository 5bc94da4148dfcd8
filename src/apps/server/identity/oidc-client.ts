// The client of the issuer (OpenID Connect): the start of a sign-in, its return, and the sign-out. `openid-client` makes the requests
// and checks state, nonce, `iss` and PKCE; signatures are checked with the same keys as those of all other tokens.
import type { Configuration, CustomFetchOptions } from 'openid-client'
import { definedFields } from '#kernel/codec/strict-json.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { limits } from '#kernel/limits.ts'
import { isSafeUrl, type OidcSettings } from '../settings/config.ts'
import type { Logger } from '../log.ts'
import type { Issuer } from './issuer.ts'

/** The secrets that protect a sign-in. Only the browser that began it has them. */
export type Flow = { readonly state: string; readonly nonce: string; readonly verifier: string }
/** The issuer's statements about the person who signed in there. */
export type Identity = {
  readonly sub: string
  readonly name: string | undefined
  readonly groups: readonly string[]
  readonly sid: string | undefined
  /** When the person last signed in at the issuer; null: it does not say. */
  readonly authMs: number | null
  readonly idToken: string
}
export type DeviceFlow = {
  readonly device_code: string
  readonly user_code: string
  readonly verification_uri: string
  readonly verification_uri_complete?: string
  readonly expires_in: number
  readonly interval: number
}
export type LoggedOut = { readonly sub: string | undefined; readonly sid: string | undefined; readonly issuedMs: number }

export type OidcClient = {
  /** The address at the issuer to which the browser goes. */
  begin(flow: Flow, redirectUri: string, fresh: boolean): Promise<URL>
  /** The person who signed in; `current` is the address to which the issuer sent the browser back. */
  finish(current: URL, flow: Flow): Promise<Identity>
  beginDevice(): Promise<DeviceFlow>
  /** null: the person has not answered yet. */
  finishDevice(code: string): Promise<Identity | 'pending' | 'slow_down'>
  /** The address for signing out at the issuer; null: the issuer has none. */
  signOutAt(idToken: string | undefined, back: string): Promise<string | null>
  /** Reads a notice of the issuer that sessions have ended. */
  readLogout(token: string): Promise<LoggedOut>
}

type Library = typeof import('openid-client')
type Parts = { readonly issuer: Issuer; readonly log: Pick<Logger, 'warn'>; now(): number }

const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code'
const LOGOUT_EVENT = 'http://schemas.openid.net/event/backchannel-logout'
/** How long after a failure the issuer is asked again. */
const RETRY_MS = 1_000

const unavailable = (host: string, why: string): Refusal =>
  new Refusal('BUSY', `sign-in with ${host} is not possible now: ${why}`, { retry_after: RETRY_MS / 1_000 })
const refusalOf = (message: string): Refusal => new Refusal('UNAUTHENTICATED', message)

/** The library is loaded with the first sign-in. */
export function createOidcClient(settings: OidcSettings, { issuer, log, now }: Parts): OidcClient {
  const { host } = new URL(settings.url)
  let held: { readonly config: Configuration; readonly at: number } | null = null
  let failed: { readonly error: Refusal; readonly at: number } | null = null
  let asking: Promise<Configuration> | null = null
  const load = (): Promise<Library> => import('openid-client')

  async function discover(): Promise<Configuration> {
    const library = await load()
    const config = await library.discovery(new URL(settings.url), settings.clientId, {}, undefined, {
      [library.customFetch]: boundedFetch,
      timeout: limits.issuerMsMax / 1_000,
      ...(settings.url.startsWith('http:') ? { execute: [library.allowInsecureRequests] } : {}),
    })
    const described = config.serverMetadata()
    const unfit = unfitIn(described, settings.url)
    if (unfit !== null) throw new Unfit(unfit)
    const methods = described.token_endpoint_auth_methods_supported ?? ['client_secret_basic']
    const { secret, clientId } = settings
    const proof =
      secret === null
        ? library.None()
        : methods.includes('client_secret_basic')
          ? library.ClientSecretBasic(secret)
          : library.ClientSecretPost(secret)
    const ready = new library.Configuration(described, clientId, {}, proof)
    ready[library.customFetch] = boundedFetch
    ready.timeout = limits.issuerMsMax / 1_000
    if (settings.url.startsWith('http:')) library.allowInsecureRequests(ready)
    return ready
  }

  /** The issuer's own description of itself. Callers at the same time share one request. */
  function openConfig(): Promise<Configuration> {
    const at = performance.now()
    if (held !== null && at - held.at < limits.issuerFreshMs) return Promise.resolve(held.config)
    if (failed !== null && at - failed.at < RETRY_MS) return Promise.reject(failed.error)
    asking ??= discover()
      .then((config) => {
        held = { config, at: performance.now() }
        return config
      })
      .catch((error: unknown) => {
        const why = error instanceof Unfit ? error.message : `it cannot be reached (${reasonIn(error)})`
        log.warn({ issuer: settings.url }, `people cannot sign in with the issuer: ${why}`)
        // An older valid description is better than none.
        if (held !== null && !(error instanceof Unfit)) return held.config
        failed = { error: unavailable(host, why), at: performance.now() }
        throw failed.error
      })
      .finally(() => (asking = null))
    return asking
  }

  /** Requests of a sign-in. Their failures become messages: the issuer refuses, or its answer is missing or unreadable. */
  async function atIssuer<T>(work: (config: Configuration, library: Library) => Promise<T>): Promise<T> {
    const [config, library] = [await openConfig(), await load()]
    try {
      return await work(config, library)
    } catch (error) {
      if (error instanceof Refusal) throw error
      const { code } = error as { code?: string }
      log.warn({ issuer: settings.url, code, reason: reasonIn(error) }, 'a sign-in with the issuer was refused')
      if (error instanceof library.AuthorizationResponseError || error instanceof library.ResponseBodyError)
        throw refusalOf(`${host} has refused the sign-in: ${plainText(error.error)}`)
      if (isUnanswered(error)) throw unavailable(host, reasonIn(error))
      throw refusalOf(`the answer of ${host} is not valid, so nobody was signed in`)
    }
  }

  async function identityIn(idToken: string | undefined, nonce: string | null): Promise<Identity> {
    if (idToken === undefined) throw refusalOf(`${host} has sent no identity token: the scope openid is missing`)
    const claims = await issuer.claimsOf(idToken, { audience: settings.clientId, types: ['jwt'], insists: true })
    const { sub, name, preferred_username, email, sid, auth_time } = claims
    if (nonce !== null && claims['nonce'] !== nonce) throw new Error('the nonce does not belong to this sign-in')
    if (typeof sub !== 'string' || sub === '' || sub.length > limits.subCharsMax) throw new Error('the subject is missing or too long')
    return {
      sub,
      name: [name, preferred_username, email]
        .map(plainText)
        .find((text) => text !== '')
        ?.slice(0, limits.nameCharsMax),
      groups: groupsIn(claims[settings.groupsClaim], settings.groupsClaim),
      sid: typeof sid === 'string' && sid !== '' && sid.length <= limits.subCharsMax ? sid : undefined,
      authMs: typeof auth_time === 'number' && Number.isFinite(auth_time) ? auth_time * 1_000 : null,
      idToken,
    }
  }

  return {
    async begin({ state, nonce, verifier }, redirect_uri, fresh) {
      const [config, library] = [await openConfig(), await load()]
      return library.buildAuthorizationUrl(config, {
        redirect_uri,
        scope: settings.scopes,
        state,
        nonce,
        code_challenge: await library.calculatePKCECodeChallenge(verifier),
        code_challenge_method: 'S256',
        ...(fresh ? { max_age: '0' } : {}),
      })
    },
    finish: (current, { state, nonce, verifier }) =>
      atIssuer(async (config, library) => {
        const checks = { pkceCodeVerifier: verifier, expectedState: state, expectedNonce: nonce, idTokenExpected: true }
        const { id_token } = await library.authorizationCodeGrant(config, current, checks)
        return identityIn(id_token, nonce)
      }),
    beginDevice: () =>
      atIssuer(async (config, library) => {
        if (config.serverMetadata().device_authorization_endpoint === undefined)
          throw new Refusal('PRECONDITION_FAILED', `${host} has no device flow: open the address in a browser on this machine instead`)
        const begun = await library.initiateDeviceAuthorization(config, { scope: settings.scopes })
        const { device_code, user_code, verification_uri, verification_uri_complete, expires_in, interval = 5 } = begun
        return {
          device_code,
          user_code,
          verification_uri,
          expires_in,
          interval,
          ...(verification_uri_complete === undefined ? {} : { verification_uri_complete }),
        }
      }),
    finishDevice: (device_code) =>
      atIssuer(async (config, library) => {
        try {
          const { id_token } = await library.genericGrantRequest(config, DEVICE_GRANT, { device_code })
          return await identityIn(id_token, null)
        } catch (error) {
          const code = error instanceof library.ResponseBodyError ? error.error : null
          if (code === 'authorization_pending') return 'pending' as const
          if (code === 'slow_down') return 'slow_down' as const
          throw error
        }
      }),
    async signOutAt(idToken, back) {
      const config = await openConfig().catch(() => null)
      if (config?.serverMetadata().end_session_endpoint === undefined) return null
      const library = await load()
      const hint = idToken === undefined ? {} : { id_token_hint: idToken }
      return library.buildEndSessionUrl(config, { post_logout_redirect_uri: back, client_id: settings.clientId, ...hint }).href
    },
    async readLogout(token) {
      const claims = await issuer.claimsOf(token, { audience: settings.clientId, types: ['logout+jwt', 'jwt'], insists: false })
      const { sub, sid, iat = now() / 1_000, events, nonce } = claims
      if (typeof (events as Record<string, unknown> | undefined)?.[LOGOUT_EVENT] !== 'object')
        throw new Error('the token is for something else')
      if (nonce !== undefined) throw new Error('a logout token has no nonce')
      const isId = (id: unknown): id is string => typeof id === 'string' && id !== '' && id.length <= limits.subCharsMax
      const [who, which] = [isId(sub) ? sub : undefined, isId(sid) ? sid : undefined]
      if (who === undefined && which === undefined) throw new Error('the token names neither a subject nor a session')
      return { sub: who, sid: which, issuedMs: iat * 1_000 }
    },
  }
}

class Unfit extends Error {}

type Described = {
  readonly issuer: string
  readonly authorization_endpoint?: string
  readonly token_endpoint?: string
  readonly jwks_uri?: string
  readonly response_types_supported?: readonly string[]
}
/** Why people cannot sign in with an issuer that describes itself like this; null: they can. */
function unfitIn(described: Described, url: string): string | null {
  if (described.issuer !== url) return `its description names the issuer ${JSON.stringify(described.issuer)}`
  for (const name of ['authorization_endpoint', 'token_endpoint', 'jwks_uri'] as const) {
    const value = described[name]
    if (typeof value !== 'string' || !isSafeUrl(value)) return `its description has no ${name} with https`
  }
  if (described.response_types_supported?.includes('code') === false) return 'its description has no authorization code flow'
  return null
}

/** Bounds every answer of the issuer, and follows no redirect. */
async function boundedFetch(url: string, { headers, method, body, signal }: CustomFetchOptions): Promise<Response> {
  const given = definedFields({ headers, method, body: body ?? undefined, signal: signal ?? undefined })
  const answer = await fetch(url, { ...given, redirect: 'manual' })
  const parts: Uint8Array<ArrayBuffer>[] = []
  let size = 0
  for await (const part of answer.body ?? []) {
    size += part.length
    if (size > limits.issuerBytesMax) throw new Unanswered(`it answered with more than ${limits.issuerBytesMax} bytes`)
    parts.push(part)
  }
  const { status } = answer
  return new Response(status === 204 || status === 304 ? null : Buffer.concat(parts), { status, headers: answer.headers })
}
class Unanswered extends Error {}

const isUnanswered = (error: unknown): boolean => {
  const { name, cause, code } = error as { name?: string; cause?: unknown; code?: string }
  if (error instanceof Unanswered || name === 'TimeoutError' || name === 'AbortError' || code === 'OAUTH_TIMEOUT') return true
  if (error instanceof TypeError && error.message === 'fetch failed') return true
  return cause !== undefined && cause !== error && cause instanceof Error && isUnanswered(cause)
}

/** fetch says "fetch failed" and hides the reason below. */
function reasonIn(error: unknown): string {
  const { message, cause } = error as { message?: string; cause?: { message?: string; code?: string } }
  return plainText(cause?.code ?? cause?.message ?? message ?? String(error))
}

/** A text of the issuer, fit for a page and a log. */
const plainText = (text: unknown): string =>
  typeof text === 'string'
    ? text
        .replaceAll(/[\p{C}\s]+/gu, ' ')
        .trim()
        .slice(0, limits.labelCharsMax)
    : ''

function groupsIn(claim: unknown, name: string): string[] {
  if (claim === undefined || claim === null) return []
  const list = typeof claim === 'string' ? [claim] : claim
  const { groupsClaimedMax: max, groupClaimCharsMax: charsMax } = limits
  if (!Array.isArray(list) || list.some((group) => typeof group !== 'string' || group === ''))
    throw new Refusal('UNAUTHORIZED', `the claim ${name} of the identity token is no list of texts`)
  if (list.length > max)
    throw new Refusal(
      'UNAUTHORIZED',
      `the claim ${name} of the identity token names ${list.length} groups, and at most ${max} are read: let the issuer send only the groups that matter here`,
    )
  const long = (list as string[]).find((group) => group.length > charsMax)
  if (long !== undefined)
    throw new Refusal('UNAUTHORIZED', `the claim ${name} of the identity token names a group of more than ${charsMax} characters`)
  return [...new Set(list as string[])]
}
