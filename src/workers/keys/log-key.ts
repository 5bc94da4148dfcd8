// The key of the log: it signs checkpoints and nothing else. Its name is the origin of the log, so the same key under another origin is another
// verifier key.
import { createPrivateKey, createPublicKey, sign, verify } from 'node:crypto'
import { answerNow } from '#kernel/log/tree/asking.ts'
import { openCheckpoint, signCheckpoint, type Claim, type OpenCheckpoint } from '#kernel/log/tree/checkpoint.ts'
import { LOG_KEY, verifierKey, verifierKeyIn, type KeyType, type VerifierKey } from '#kernel/log/tree/note.ts'
import { policyIn, type Policy } from '#kernel/log/tree/policy.ts'
import { sha256Bytes } from '#kernel/log/hash-chain.ts'
import type { KeyRing } from './key-ring.ts'

export type LogKey = {
  /** The present key and the earlier ones. */
  readonly keys: readonly [VerifierKey, ...VerifierKey[]]
  /** The signature line under a checkpoint. */
  sign(text: string): string
}

export function logKeyOf({ current, retired }: KeyRing, origin: string): LogKey {
  const keyOf = ({ x }: { readonly x: string }): VerifierKey => nodeKey(origin, LOG_KEY, Buffer.from(x, 'base64url'))
  const key = keyOf(current.jwk)
  const secret = createPrivateKey({ key: current.jwk, format: 'jwk' })
  return {
    keys: [key, ...retired.map(({ jwk }) => keyOf(jwk))],
    sign: (text) => signCheckpoint(key, text, (bytes) => sign(null, bytes, secret)),
  }
}

export const nodeKey = (name: string, type: KeyType, key: Uint8Array): VerifierKey => answerNow(verifierKey(name, type, key), sha256Bytes)
export const nodeKeyIn = (text: string): VerifierKey => answerNow(verifierKeyIn(text), sha256Bytes)
export const nodePolicyIn = (text: string): Policy => answerNow(policyIn(text), sha256Bytes)

export function isSignedBy({ key, message, signature }: Claim): boolean {
  const jwk = { kty: 'OKP', crv: 'Ed25519', x: Buffer.from(key).toString('base64url') }
  try {
    return verify(null, message, createPublicKey({ key: jwk, format: 'jwk' }), signature)
  } catch {
    return false
  }
}

/** Throws Unreadable for a note that is no checkpoint, and for a bad signature of one of these keys. */
export const nodeCheckpointIn = (note: string, keys: readonly VerifierKey[]): OpenCheckpoint =>
  answerNow(openCheckpoint(note, keys), isSignedBy)
