// The signing keys of receipts: the current one, and the public halves of former ones, so that old receipts verify.
import { createPrivateKey, createPublicKey, generateKeyPairSync } from 'node:crypto'
import { isObject } from '#kernel/codec/strict-json.ts'
import { canonical } from '#kernel/log/canonical-json.ts'
import { sha256 } from '#kernel/log/hash-chain.ts'
import { limits } from '#kernel/limits.ts'

type PublicJwk = { readonly kty: 'OKP'; readonly crv: 'Ed25519'; readonly x: string }
type SigningKey = { readonly kid: string; readonly created_at: string; readonly jwk: PublicJwk & { readonly d: string } }
type RetiredKey = { readonly kid: string; readonly created_at: string; readonly retired_at: string; readonly jwk: PublicJwk }
export type KeyRing = { readonly v: 1; readonly current: SigningKey; readonly retired: readonly RetiredKey[] }

/** RFC 7638: the name of a key is derived from the key itself. */
export const thumbprintOf = ({ kty, crv, x }: { readonly kty: string; readonly crv: string; readonly x: string }): string =>
  sha256(canonical({ crv, kty, x }))

function newKey(at: string): SigningKey {
  const { x, d } = generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' })
  const jwk = { kty: 'OKP', crv: 'Ed25519', x: x!, d: d! } as const
  return { kid: thumbprintOf(jwk), created_at: at, jwk }
}

export const newRing = (at: string): KeyRing => ({ v: 1, current: newKey(at), retired: [] })

/** A new key signs from now on. Only the public half of the previous key stays, so it can never sign again. */
export function rotateRing({ current, retired }: KeyRing, now: string): KeyRing {
  if (retired.length + 2 > limits.signingKeysMax)
    throw new RangeError(`there are ${limits.signingKeysMax} keys already, and all of them must stay published`)
  const { kid, created_at, jwk } = current
  // A clock that stepped back must not retire a key before it was made.
  const at = now > created_at ? now : created_at
  const { kty, crv, x } = jwk
  return { v: 1, current: newKey(at), retired: [{ kid, created_at, retired_at: at, jwk: { kty, crv, x } }, ...retired] }
}

/** The published public keys, newest first. */
export function jwksOf({ current, retired }: KeyRing): { readonly keys: readonly object[] } {
  const publicKeyView = (kid: string, { kty, crv, x }: PublicJwk, dates: object) => ({
    kty,
    crv,
    x,
    kid,
    use: 'sig',
    alg: 'EdDSA',
    ...dates,
  })
  return {
    keys: [
      publicKeyView(current.kid, current.jwk, { 'countersign:from': current.created_at }),
      ...retired.map(({ kid, jwk, created_at, retired_at }) =>
        publicKeyView(kid, jwk, { 'countersign:from': created_at, 'countersign:until': retired_at }),
      ),
    ],
  }
}

/** Parses a stored ring; throws a message for people if it is invalid. */
export function ringFrom(text: string): KeyRing {
  const read: unknown = JSON.parse(text)
  const { v, current, retired }: Partial<KeyRing> = isObject(read) ? read : {}
  if (v !== 1 || !isObject(current) || !Array.isArray(retired)) throw new TypeError('it is no key ring')
  if (!isPair(current.jwk)) throw new TypeError('it has no private key, or one whose halves do not fit')
  const all = [current, ...retired]
  if (!all.every(isNamed)) throw new TypeError('a key in it is not the one that its name says')
  if (retired.some(({ jwk: old, retired_at }) => 'd' in old || !isDate(retired_at)))
    throw new TypeError('a retired key in it has a private half or no date')
  if (new Set(all.map(({ kid }) => kid)).size !== all.length) throw new TypeError('a key is twice in it')
  return { v, current, retired }
}

const isDate = (value: unknown): boolean => typeof value === 'string' && !Number.isNaN(Date.parse(value))

/** A verifier has only `x`: a `d` that does not belong to it would make signatures that fail verification. */
function isPair(jwk: SigningKey['jwk']): boolean {
  try {
    return createPublicKey(createPrivateKey({ key: jwk, format: 'jwk' })).export({ format: 'jwk' }).x === jwk.x
  } catch {
    return false
  }
}

function isNamed(one: { readonly kid: string; readonly created_at: string; readonly jwk: PublicJwk }): boolean {
  if (!isObject(one) || !isObject(one.jwk) || !isDate(one.created_at)) return false
  const { kty, crv, x } = one.jwk
  return kty === 'OKP' && crv === 'Ed25519' && typeof x === 'string' && thumbprintOf(one.jwk) === one.kid
}
