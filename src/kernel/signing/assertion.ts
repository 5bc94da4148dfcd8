// A person's signature by passkey (WebAuthn): the signed content, and its check. Nothing here needs a server: the SDK checks the
// same assertion in a browser. The caller passes in hashes and signatures. Every input can be hostile.
import { base64urlOf, bytesOf } from './base64url.ts'
import { decodeText } from '../codec/strict-json.ts'
import { limits } from '../limits.ts'
import { canonical } from '../log/canonical-json.ts'

/** The content that the device signs: a call, its subject, the way that it was shown, and the answer. */
export type SignedCall = {
  readonly operation: string
  readonly subject_digest: string
  readonly shown_digest: string | null
  readonly result_digest: string
  /** The details as the person edited them. */
  readonly edited: unknown
  readonly nonce: string
}
/** The challenge is the SHA-256 of this text (RFC 8785), in base64url. */
export const challengeText = ({ operation, subject_digest, shown_digest, result_digest, edited, nonce }: SignedCall): string =>
  canonical({ operation, subject_digest, shown_digest, result_digest, edited: edited ?? null, nonce })

/** The four parts of an assertion, in base64url, as the browser gives them. */
export type AssertionProof = {
  readonly credential_id: string
  readonly client_data_json: string
  readonly authenticator_data: string
  readonly signature: string
}

export type SaidAnswer = { readonly word: string; readonly digest: string }
/** A checked assertion, as receipts and the record keep it. */
export type Signature = {
  readonly operation: string
  readonly subject_digest: string
  readonly shown_digest: string | null
  readonly result_digest: string
  readonly said?: SaidAnswer
  readonly nonce: string
  readonly credential_id: string
  readonly client_data_json: string
  readonly authenticator_data: string
  readonly signature: string
}

/** COSE numbers: ECDSA on P-256 with SHA-256, and Ed25519. */
export const ALGORITHMS = [-7, -8] as const
export type PasskeyJwk = { readonly kty: string; readonly crv: string; readonly x: string; readonly y?: string }
/** The part of an enrolment that checks assertions. */
export type PasskeyKey = { readonly alg: number; readonly jwk: PasskeyJwk; readonly rp_id: string }

export type AssertionCrypto = {
  sha256(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array>
  /** The signature of ES256 is 64 bytes, r and then s. */
  isSigned(key: PasskeyKey, bytes: Uint8Array<ArrayBuffer>, signature: Uint8Array<ArrayBuffer>): Promise<boolean>
}

export type CheckedAssertion = { readonly problem: string } | { readonly problem: null; readonly counter: number }
const wrong = (problem: string): CheckedAssertion => ({ problem })

type Expected = {
  readonly challenge: string
  readonly key: PasskeyKey
  /** Pages that are allowed to ask for a signature; undefined: any, for verifiers that do not know the server's pages. */
  readonly origins?: readonly string[] | undefined
}

/** The check of one assertion (WebAuthn, 7.2): its page, its device, the presence and verification of a person, and the signature. */
export async function checkAssertion(
  proof: AssertionProof,
  { challenge, key, origins }: Expected,
  { sha256, isSigned }: AssertionCrypto,
): Promise<CheckedAssertion> {
  const client = clientDataIn(proof.client_data_json)
  if (client === null) return wrong('its client data cannot be read')
  if (client.type !== 'webauthn.get') return wrong('it is not an assertion')
  if (client.challenge !== challenge) return wrong('it signs something else')
  if (origins !== undefined && !origins.includes(client.origin)) return wrong(`it was made on a page of ${client.origin}`)
  if (client.isFramed) return wrong('it was made in a frame of another page')
  const [clientBytes, data, signature] = [proof.client_data_json, proof.authenticator_data, proof.signature].map(bytesOf)
  if (!clientBytes || !data || !signature || data.length < DATA_BYTES_MIN) return wrong('it is not in base64url, or too short')
  const rp = await sha256(new TextEncoder().encode(key.rp_id))
  if (base64urlOf(rp) !== base64urlOf(data.subarray(0, HASH_BYTES))) return wrong(`it was made for another site than ${key.rp_id}`)
  const flags = data[HASH_BYTES]!
  if ((flags & PRESENT) === 0) return wrong('the device saw no person')
  if ((flags & VERIFIED) === 0) return wrong('the device has not verified the person')
  const raw = key.alg === ALGORITHMS[0] ? rawSignature(signature) : signature
  if (raw === null) return wrong('its signature is malformed')
  const hash = await sha256(clientBytes)
  const covered = new Uint8Array(data.length + hash.length)
  covered.set(data)
  covered.set(hash, data.length)
  if (!(await isSigned(key, covered, raw))) return wrong('its signature is not one of the enrolled key')
  return { problem: null, counter: new DataView(data.buffer).getUint32(HASH_BYTES + 1) }
}

/** WebAuthn, 6.1: the hash of the site, a byte of flags, four of the counter. */
const HASH_BYTES = 32
const DATA_BYTES_MIN = HASH_BYTES + 5
const [PRESENT, VERIFIED] = [1, 4]

type ClientData = { readonly type: unknown; readonly challenge: string; readonly origin: string; readonly isFramed: boolean }
/** Null: the text is not client data. */
export function clientDataIn(text: string): ClientData | null {
  const bytes = text.length > limits.assertionCharsMax ? null : bytesOf(text)
  if (bytes === null) return null
  try {
    const data = decodeText(new TextDecoder('utf-8', { fatal: true }).decode(bytes)) as Readonly<Record<string, unknown>> | null
    const { type, challenge, origin, crossOrigin, topOrigin } = data ?? {}
    if (typeof challenge !== 'string' || typeof origin !== 'string') return null
    return { type, challenge, origin, isFramed: crossOrigin === true || topOrigin !== undefined }
  } catch {
    return null
  }
}

const [SEQUENCE, INTEGER, POINT_BYTES] = [0x30, 0x02, 32]
/** An ECDSA signature in DER as r and s of 32 bytes each; null: it is not a canonical one. */
function rawSignature(der: Uint8Array): Uint8Array<ArrayBuffer> | null {
  if (der.length > MOST_DER_BYTES || der[0] !== SEQUENCE || der[1] !== der.length - 2) return null
  const raw = new Uint8Array(2 * POINT_BYTES)
  let at = 2
  for (const end of [POINT_BYTES, 2 * POINT_BYTES]) {
    const length = der[at + 1] ?? 0
    const number = der.subarray(at + 2, at + 2 + length)
    const isPadded = number[0] === 0 && number.length > 1
    const isShortest = !isPadded || (number[1]! & 0x80) !== 0
    const digits = isPadded ? number.subarray(1) : number
    if (der[at] !== INTEGER || length === 0 || number.length !== length || (number[0]! & 0x80) !== 0 || !isShortest) return null
    if (digits.length > POINT_BYTES) return null
    raw.set(digits, end - digits.length)
    at += 2 + length
  }
  return at === der.length ? raw : null
}
const MOST_DER_BYTES = 72
