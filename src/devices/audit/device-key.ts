// The key of a device: it signs checkpoints of the audit and answers to attestations. Made at the first start, never sent anywhere.
import { createPrivateKey, createPublicKey, generateKeyPairSync, sign, verify } from 'node:crypto'
import { canonical } from '#kernel/log/canonical-json.ts'
import { sha256 } from '#kernel/log/hash-chain.ts'

export type DeviceKey = {
  /** The public half, as others get it. */
  readonly jwk: {
    readonly kty: 'OKP'
    readonly crv: 'Ed25519'
    readonly x: string
    readonly kid: string
    readonly alg: string
    readonly use: string
  }
  sign(claims: object): string
}

export const newDeviceKey = (): JsonWebKey => generateKeyPairSync('ed25519').privateKey.export({ format: 'jwk' })

type JsonWebKey = { readonly kty?: string; readonly crv?: string; readonly x?: string; readonly d?: string }

const base64url = (text: string): string => Buffer.from(text).toString('base64url')

export function deviceKey(secret: JsonWebKey): DeviceKey {
  const key = createPrivateKey({ key: secret, format: 'jwk' })
  const { kty, crv, x } = createPublicKey(key).export({ format: 'jwk' }) as DeviceKey['jwk']
  // RFC 7638.
  const kid = sha256(canonical({ crv, kty, x }))
  const header = base64url(JSON.stringify({ alg: 'EdDSA', kid }))
  return {
    jwk: { kty, crv, x, kid, alg: 'EdDSA', use: 'sig' },
    sign(claims) {
      const signed = `${header}.${base64url(canonical(claims))}`
      return `${signed}.${sign(null, Buffer.from(signed), key).toString('base64url')}`
    },
  }
}

/** The claims of a signature of this device; null: it is not one. */
export function verifiedBy(jwk: JsonWebKey, jws: string): Record<string, unknown> | null {
  const [head = '', body = '', signature = ''] = jws.split('.')
  try {
    const key = createPublicKey({ key: { kty: jwk.kty!, crv: jwk.crv!, x: jwk.x! }, format: 'jwk' })
    if (!verify(null, Buffer.from(`${head}.${body}`), key, Buffer.from(signature, 'base64url'))) return null
    return JSON.parse(Buffer.from(body, 'base64url').toString()) as Record<string, unknown>
  } catch {
    return null
  }
}
