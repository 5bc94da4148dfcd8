// Tokens of an OAuth or OpenID Connect issuer: checks signature, audience and validity period. A token proves a subject of that issuer; the
// identity documents map the subject to a person. Every refused token gets the same response.
import { setBounded } from '#kernel/codec/bounded-map.ts'
import type { JWTPayload, JWTVerifyGetKey, JWTVerifyOptions } from 'jose'
import { timestampOf } from '#kernel/ports/clock.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { decode } from '#kernel/codec/strict-json.ts'
import { limits } from '#kernel/limits.ts'
import { noValidCredential, type Claims } from '#protocols/identity/authenticate.ts'
import type { IssuerSettings } from '../settings/config.ts'
import { createIssuerKeys, usualBounds, type KeySetBounds } from './issuer-keys.ts'
import type { Logger } from '../log.ts'

export type Issuer = {
  /** Refuses with UNAUTHENTICATED, or with BUSY if it cannot be checked because the issuer cannot be reached. */
  verify(token: string, resource?: string): Promise<Claims>
  /** Verifies a token from a flow at the issuer and returns its claims. Throws if it is not genuine, or not for this audience. */
  claimsOf(token: string, expected: Expected): Promise<JWTPayload>
}
/** `insists`: the issuer itself has just sent the token, so a key that is unknown is asked for immediately. */
export type Expected = { readonly audience: string; readonly types: readonly string[]; readonly insists: boolean }

export type IssuerOptions = {
  readonly log: Pick<Logger, 'debug' | 'warn'>
  now(): number
  readonly bounds?: Partial<KeySetBounds>
}

/** Signatures that only the holder of a private key can make. With the others, a server that can check could also sign. */
export const ALGORITHMS = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA', 'Ed25519']
/** The token types that identify a person. A logout token, for example, has another type. */
const TYPES = new Set(['jwt', 'at+jwt'])

export const isJwt = (token: string): boolean => token.length <= limits.tokenCharsMax && /^[\w-]+\.[\w-]+\.[\w-]*$/.test(token)

/** The library is loaded only if an issuer is configured. */
export async function createIssuer({ url, jwks, audience }: IssuerSettings, { now, log, bounds }: IssuerOptions): Promise<Issuer> {
  const { jwtVerify, createLocalJWKSet, errors } = await import('jose')
  const keySet = createIssuerKeys({ url, jwks }, createLocalJWKSet, { ...usualBounds, ...bounds }, log)
  // A token that was verified with these keys need not be verified again; with other keys it must be.
  let known = { keys: null as JWTVerifyGetKey | null, tokens: new Map<string, Claims>() }

  async function verifyToken(token: string, keys: JWTVerifyGetKey, resource: string | undefined): Promise<Claims> {
    const options: JWTVerifyOptions = {
      algorithms: ALGORITHMS,
      issuer: url,
      audience: resource === undefined ? audience : [audience, resource],
      requiredClaims: ['exp', 'sub'],
      clockTolerance: limits.tokenSkewMs / 1_000,
      currentDate: new Date(now()),
    }
    const { payload } = await jwtVerify(token, keys, options)
    const { sub, exp } = payload as { sub: unknown; exp: number }
    if (typeof sub !== 'string' || sub === '' || sub.length > limits.subCharsMax) throw noValidCredential()
    const endMs = Math.min(exp * 1_000 + limits.tokenSkewMs, now() + limits.durationMsMax)
    return { issuer: url, sub, until: timestampOf(Math.trunc(endMs)) }
  }

  function remember(name: string, keys: JWTVerifyGetKey, claims: Claims): Claims {
    if (known.keys !== keys) known = { keys, tokens: new Map() }
    setBounded(known.tokens, name, claims, limits.tokensKnownMax)
    return claims
  }

  async function claimsIn(token: string, resource: string | undefined): Promise<Claims> {
    // Check locally before asking the issuer: most invalid tokens are recognizable on their own.
    refuseOthers(token, url)
    const keys = await keySet.current()
    // A token for one resource does not count for the whole server.
    const name = resource === undefined ? token : `${resource} ${token}`
    const found = known.keys === keys ? known.tokens.get(name) : undefined
    if (found) return found
    try {
      return remember(name, keys, await verifyToken(token, keys, resource))
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey)) throw error
    }
    // An unknown key: the issuer may have changed its keys.
    const newer = await keySet.renewed()
    if (newer === keys) throw noValidCredential()
    return remember(name, newer, await verifyToken(token, newer, resource))
  }

  async function claimsOf(token: string, { audience: whose, types, insists }: Expected): Promise<JWTPayload> {
    const check = async (keys: JWTVerifyGetKey): Promise<JWTPayload> => {
      const options = {
        algorithms: ALGORITHMS,
        issuer: url,
        audience: whose,
        requiredClaims: ['iat'],
        maxTokenAge: limits.oidcFlowMs / 1_000,
      }
      const verified = await jwtVerify(token, keys, {
        ...options,
        clockTolerance: limits.tokenSkewMs / 1_000,
        currentDate: new Date(now()),
      })
      const type = verified.protectedHeader.typ?.toLowerCase().replace(/^application\//, '')
      if (type !== undefined && !types.includes(type)) throw new Error(`the token is of the type ${type}`)
      return verified.payload
    }
    const keys = await keySet.current()
    try {
      return await check(keys)
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey)) throw error
    }
    return check(await keySet.renewed(insists))
  }

  return {
    claimsOf,
    async verify(token, resource) {
      try {
        const claims = await claimsIn(token, resource)
        if (Date.parse(claims.until) <= now()) throw noValidCredential()
        return claims
      } catch (error) {
        if (error instanceof Refusal && error.code === 'BUSY') throw error
        log.debug({ reason: reasonIn(error) }, 'a token was refused')
        throw noValidCredential()
      }
    },
  }
}

const reasonIn = (error: unknown): string => (error as { code?: string }).code ?? String(error)

/** Reads the unverified token: enough to refuse a token that is for another server. */
function refuseOthers(token: string, issuer: string): void {
  const [header, payload] = token.split('.').map((part, i) => (i < 2 ? decode(Buffer.from(part, 'base64url')) : null)) as [Said, Said]
  const { alg, typ } = header ?? {}
  if (!ALGORITHMS.includes(alg as string) || payload?.['iss'] !== issuer) throw noValidCredential()
  if (typ !== undefined && !(typeof typ === 'string' && TYPES.has(typ.toLowerCase().replace(/^application\//, ''))))
    throw noValidCredential()
}
type Said = Readonly<Record<string, unknown>> | null
