// The keys that pushes are signed with (RFC 8292). A subscription is made with one key and takes only what that one signs, so earlier keys stay.
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

/** New subscriptions are made with a new key; those before are served until they end. */
export function rotatePushRing({ current, earlier }: PushRing, now: string): PushRing {
  if (earlier.length + 2 > limits.signingKeysMax) throw new RangeError(`there are ${limits.signingKeysMax} keys already`)
  return { v: 1, current: newKey(now), earlier: [current, ...earlier] }
}

/** A ring as it was written; throws, in words, where it is anything else. */
export function pushRingFrom(text: string): PushRing {
  const ring = JSON.parse(text) as PushRing
  const isKey = (one: PushKey): boolean => typeof one?.jwk?.d === 'string' && publicOf(one.jwk) === one.key
  if (ring?.v !== 1 || !Array.isArray(ring.earlier) || ![ring.current, ...ring.earlier].every(isKey))
    throw new TypeError('it is no ring of push keys')
  return ring
}
/** The key that a subscription was made with; one that is not there any more cannot be served. */
export const pushKeyNamed = ({ current, earlier }: PushRing, key: string): PushKey | null =>
  [current, ...earlier].find((one) => one.key === key) ?? null
