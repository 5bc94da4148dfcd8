// The keys that pushes are signed with (RFC 8292). A subscription is created with one key and accepts only its signatures, so earlier keys stay.
import { generateKeyPairSync } from 'node:crypto'
import { limits } from '#kernel/limits.ts'

type Jwk = { readonly kty: 'EC'; readonly crv: 'P-256'; readonly x: string; readonly y: string; readonly d: string }
/** `key`: the public half as browsers take it, 65 bytes in base64url. */
export type PushKey = { readonly key: string; readonly created_at: string; readonly jwk: Jwk }
export type PushRing = { readonly v: 1; readonly current: PushKey; readonly earlier: readonly PushKey[] }

const publicOf = ({ x, y }: Jwk): string =>
  Buffer.concat([Buffer.from([4]), Buffer.from(x, 'base64url'), Buffer.from(y, 'base64url')]).toString('base64url')

function newKey(at: string): PushKey {
  const { x, y, d } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' }).privateKey.export({ format: 'jwk' })
  const jwk = { kty: 'EC', crv: 'P-256', x: x!, y: y!, d: d! } as const
  return { key: publicOf(jwk), created_at: at, jwk }
}
export const newPushRing = (at: string): PushRing => ({ v: 1, current: newKey(at), earlier: [] })

/** New subscriptions use the new key; earlier ones are served until they end. */
export function rotatePushRing({ current, earlier }: PushRing, now: string): PushRing {
  if (earlier.length + 2 > limits.signingKeysMax) throw new RangeError(`there are ${limits.signingKeysMax} keys already`)
  return { v: 1, current: newKey(now), earlier: [current, ...earlier] }
}

/** Parses a stored ring; throws a message for people if it is invalid. */
export function pushRingFrom(text: string): PushRing {
  const ring = JSON.parse(text) as PushRing
  const isKey = (key: PushKey): boolean => typeof key?.jwk?.d === 'string' && publicOf(key.jwk) === key.key
  if (ring?.v !== 1 || !Array.isArray(ring.earlier) || ![ring.current, ...ring.earlier].every(isKey))
    throw new TypeError('it is no ring of push keys')
  return ring
}
/** The key that a subscription was created with; null if that key is gone and the subscription cannot be served. */
export const pushKeyNamed = ({ current, earlier }: PushRing, key: string): PushKey | null =>
  [current, ...earlier].find((candidate) => candidate.key === key) ?? null
