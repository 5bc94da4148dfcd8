// Pushes to a browser: a message that only the subscription can read (RFC 8291), signed by this server (RFC 8292).
import { createCipheriv, createECDH, createPrivateKey, hkdfSync, randomBytes, sign } from 'node:crypto'
import type { PushKey } from '../keys/push-keys.ts'

type Subscription = { readonly p256dh: string; readonly auth: string }
const bytes = (text: string): Buffer => Buffer.from(text, 'base64url')
const RECORD_BYTES = 4_096
/** The largest text of one record, without its header, tag and end mark. */
export const PUSH_BYTES_MAX = RECORD_BYTES - 16 - 4 - 1 - 65 - 16 - 1

const deriveKey = (key: Buffer, salt: Buffer, info: Buffer, length: number): Buffer =>
  Buffer.from(hkdfSync('sha256', key, salt, info, length))
const encodingInfo = (name: string): Buffer => Buffer.from(`Content-Encoding: ${name}\0`)

/** One record of `aes128gcm` (RFC 8188). Only test vectors pass `senderKey` and `salt`. */
export function encryptPush(text: string, { p256dh, auth }: Subscription, senderKey = ephemeral(), salt: Buffer = randomBytes(16)): Buffer {
  const theirs = bytes(p256dh)
  const public_ = senderKey.getPublicKey()
  const info = Buffer.concat([Buffer.from('WebPush: info\0'), theirs, public_])
  const secret = deriveKey(senderKey.computeSecret(theirs), bytes(auth), info, 32)
  const key = deriveKey(secret, salt, encodingInfo('aes128gcm'), 16)
  const nonce = deriveKey(secret, salt, encodingInfo('nonce'), 12)
  const cipher = createCipheriv('aes-128-gcm', key, nonce)
  const header = Buffer.alloc(21)
  salt.copy(header)
  header.writeUInt32BE(RECORD_BYTES, 16)
  header.writeUInt8(public_.length, 20)
  // 2: there is no record after this one.
  const sealed = Buffer.concat([cipher.update(Buffer.concat([Buffer.from(text), Buffer.from([2])])), cipher.final(), cipher.getAuthTag()])
  return Buffer.concat([header, public_, sealed])
}
function ephemeral() {
  const keyPair = createECDH('prime256v1')
  keyPair.generateKeys()
  return keyPair
}

const TOKEN_MS = 12 * 3_600_000
/** The sender's authorization for the push service: valid only for its origin, for half a day. */
export function vapidHeader(endpoint: string, { jwk, key }: PushKey, subject: string, nowMs: number): string {
  const part = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')
  const claims = { aud: new URL(endpoint).origin, exp: Math.floor((nowMs + TOKEN_MS) / 1_000), sub: subject }
  const text = `${part({ typ: 'JWT', alg: 'ES256' })}.${part(claims)}`
  const signature = sign('sha256', Buffer.from(text), { key: createPrivateKey({ key: jwk, format: 'jwk' }), dsaEncoding: 'ieee-p1363' })
  return `vapid t=${text}.${signature.toString('base64url')}, k=${key}`
}

const urgencies = { critical: 'high', high: 'high', normal: 'normal', low: 'low' } as const
const DAY_SECONDS = '86400'

export function pushHeaders(vapid: string, priority: unknown): Record<string, string> {
  const urgency = urgencies[priority as keyof typeof urgencies] ?? 'normal'
  return { authorization: vapid, 'content-encoding': 'aes128gcm', 'content-type': 'application/octet-stream', ttl: DAY_SECONDS, urgency }
}
