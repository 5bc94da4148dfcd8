// The key that signed the agent card of a remote agent (A2A 1.0, 8.4): its thumbprint, and the check of its signature.
import { createPublicKey, verify } from 'node:crypto'
import { canonical } from '#kernel/log/canonical-json.ts'
import { sha256 } from '#kernel/log/hash-chain.ts'
import { isObject } from '#kernel/codec/strict-json.ts'
import { RemoteError } from './remote-error.ts'

export const UNSIGNED = 'none'
type Fields = Readonly<Record<string, unknown>>

/** The supported algorithms; `none` is not a signature. */
const digests: Readonly<Record<string, string | null>> = { EdDSA: null, ES256: 'sha256', RS256: 'sha256' }

/**
 * `none` for a card without a signature; otherwise the thumbprint of the key. `keysAt` reads a key set; it must be of the card's own origin,
 * so that no other server can speak for it.
 */
export async function cardKeyOf(card: Fields, origin: string, keysAt: (url: string) => Promise<unknown>): Promise<string> {
  const { signatures, ...unsigned } = card
  if (!Array.isArray(signatures) || signatures.length === 0) return UNSIGNED
  const [signed] = signatures as readonly unknown[]
  if (!isObject(signed) || typeof signed['protected'] !== 'string' || typeof signed['signature'] !== 'string')
    throw new RemoteError('its agent card has a signature that is none', { isFatal: true })
  const header = headerIn(signed['protected'])
  const jku = typeof header['jku'] === 'string' ? header['jku'] : `${origin}/.well-known/jwks.json`
  if (URL.parse(jku)?.origin !== origin)
    throw new RemoteError(`its agent card names keys at another server than ${origin}`, { isFatal: true })
  const set = await keysAt(jku)
  const keys = isObject(set) && Array.isArray(set['keys']) ? set['keys'].filter(isObject) : []
  const jwk = keys.find(({ kid }) => kid === header['kid'])
  if (jwk === undefined)
    throw new RemoteError('the key of its agent card is not among the keys that its server publishes', { isFatal: true })
  const input = (text: string): Buffer => Buffer.from(`${String(signed['protected'])}.${Buffer.from(text).toString('base64url')}`)
  const signature = Buffer.from(signed['signature'], 'base64url')
  const digest = digests[String(header['alg'])]
  if (digest === undefined) throw new RemoteError(`its agent card is signed by ${String(header['alg']).slice(0, 20)}`, { isFatal: true })
  const isSigned = [unsigned, withoutDefaults(unsigned)].some((form) => isRight(jwk, digest, input(canonical(form)), signature))
  if (!isSigned) throw new RemoteError('the signature of its agent card is wrong', { isFatal: true })
  const { kty, crv, x, y, n, e } = jwk
  return `sha256:${sha256(canonical(Object.fromEntries(Object.entries({ kty, crv, x, y, n, e }).filter(([, value]) => value !== undefined))))}`
}

function isRight(jwk: Fields, digest: string | null, input: Buffer, signature: Buffer): boolean {
  try {
    const key = createPublicKey({ key: jwk, format: 'jwk' })
    return verify(digest, input, digest === null ? key : { key, dsaEncoding: 'ieee-p1363' }, signature)
  } catch {
    return false
  }
}

function headerIn(text: string): Fields {
  try {
    const header: unknown = JSON.parse(Buffer.from(text, 'base64url').toString())
    if (isObject(header)) return header
  } catch {
    // Below.
  }
  throw new RemoteError('its agent card has a signature that is none', { isFatal: true })
}

/** A card is signed without the fields that have their default (8.4.1). */
function withoutDefaults(value: Fields): Fields {
  const isDefault = (field: unknown): boolean =>
    field === null || field === '' || field === false || field === 0 || (Array.isArray(field) && field.length === 0)
  const kept = Object.entries(value).filter(([, field]) => !isDefault(field))
  return Object.fromEntries(kept.map(([name, field]) => [name, cleanValue(field)]))
}
const cleanValue = (field: unknown): unknown =>
  Array.isArray(field) ? field.map(cleanValue) : isObject(field) ? withoutDefaults(field) : field
