// Receipt verification by any holder: offline, with the server's public keys, saved at any time.
import { canonical } from '#kernel/log/canonical-json.ts'
import { decodeText } from '#kernel/codec/strict-json.ts'
import { claimsOf, doubt, isAfter, judge, jwsOf, receiptIn, type Jws, type Verdict } from '#protocols/execution/answering/receipt-format.ts'
import { doubtAboutPerson, type EnrolledPasskey } from './receipt-signature.ts'
import { coveredBy } from '#protocols/execution/answering/request-digest.ts'

export type { EnrolledPasskey } from './receipt-signature.ts'
export type {
  Claims as ReceiptClaims,
  Doubt as ReceiptDoubt,
  Verdict as ReceiptVerdict,
} from '#protocols/execution/answering/receipt-format.ts'

export type VerifyOptions = {
  /** The keys that the server publishes at /.well-known/jwks.json. */
  readonly jwks: unknown
  /** The request as it was created. If given, its digest must equal the signed one. */
  readonly request?: unknown
  /** How a request is digested; by default as the server does. */
  readonly requestDigest?: (request: unknown) => string | Promise<string>
  /** The agent that it must be made out to, and the server that it must be from. */
  readonly audience?: string | undefined
  readonly issuer?: string | undefined
  /** The enrolments of people: then the signature of a person must be by one of these. Without them its digests are checked alone. */
  readonly passkeys?: readonly EnrolledPasskey[] | undefined
}

/**
 * Never throws and never uses the network: every defect of a receipt is returned as a reason with a message. Pass the receipt as its JSON
 * text to detect duplicate fields; a parsed object no longer has them.
 */
export async function verifyReceipt(receipt: unknown, options: VerifyOptions): Promise<Verdict> {
  try {
    return await verdictOf(receipt, options)
  } catch {
    // The value cannot be serialized as JSON: it is nested too deeply, or did not come from JSON.
    return doubt('not_a_receipt', 'it cannot be read')
  }
}

async function verdictOf(given: unknown, options: VerifyOptions): Promise<Verdict> {
  const read = typeof given === 'string' ? readIn(given) : { value: given }
  if ('reason' in read) return read
  const receipt = receiptIn(read.value)
  if (receipt === null) return doubt('not_a_receipt', 'it is not an object, or has too many fields')
  const jws = jwsOf(receipt['signature'])
  if (!jws.ok) return jws
  const key = keyIn(options.jwks, jws.kid)
  if (key === null) return doubt('unknown_key', 'the given keys do not include its signing key')
  const subtle = (globalThis.crypto as Crypto | undefined)?.subtle
  if (subtle === undefined) return doubt('unsupported', 'signatures cannot be checked here: a browser offers that to https pages only')
  const isGood = await checkSignature(subtle, key, jws)
  if (isGood === null) return doubt('unsupported', 'Ed25519 signatures cannot be checked here, or the key is none')
  if (!isGood) return doubt('bad_signature', 'the signature is not one of that key over this text')
  const claims = claimsOf(jws)
  if (claims === null) return doubt('not_a_receipt', 'the signed text is not a receipt')
  if (isAfter(key['countersign:until'], claims)) return doubt('retired_key', 'it is signed with a key that was retired before')
  const judged = judge(receipt, claims, jws.kid, options)
  const verdict = judged.ok ? ((await doubtAboutPerson(claims, options.passkeys)) ?? judged) : judged
  if (!verdict.ok || options.request === undefined) return verdict
  const digest = await Promise.resolve(options.request)
    .then(options.requestDigest ?? requestDigest)
    .catch(() => null)
  return digest === claims.request_digest ? verdict : doubt('wrong_request', 'it answers a request other than the given one')
}

function readIn(text: string): { readonly value: unknown } | (Verdict & { ok: false }) {
  try {
    return { value: decodeText(text) }
  } catch (error) {
    return doubt('not_a_receipt', `it cannot be read: ${(error as Error).message}`)
  }
}

/** Of a request as it was created, or as it was fetched since. */
const requestDigest = (request: unknown): Promise<string> =>
  canonicalDigest(coveredBy((request as { request?: object }).request ?? (request as object)))

/** SHA-256 of the canonical JSON of a value, in base64url. */
export const canonicalDigest = (value: unknown): Promise<string> => textDigest(canonical(value))

export async function textDigest(text: string): Promise<string> {
  const hash = await globalThis.crypto.subtle.digest('SHA-256', new TextEncoder().encode(text))
  return btoa(String.fromCharCode(...new Uint8Array(hash)))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replace('=', '')
}

type Key = Readonly<Record<string, unknown>> & { readonly x: string }

function keyIn(jwks: unknown, kid: string): Key | null {
  const keys = typeof jwks === 'object' && jwks !== null && 'keys' in jwks ? jwks.keys : null
  if (!Array.isArray(keys)) return null
  const found: unknown = keys.find((key: unknown) => typeof key === 'object' && key !== null && 'kid' in key && key.kid === kid)
  const { kty, crv, x } = (found ?? {}) as Record<string, unknown>
  return kty === 'OKP' && crv === 'Ed25519' && typeof x === 'string' ? (found as Key) : null
}

/** null: there is no answer to be had here. */
async function checkSignature(subtle: Crypto['subtle'], { x }: Key, { signed, signature }: Jws): Promise<boolean | null> {
  try {
    const key = await subtle.importKey('jwk', { kty: 'OKP', crv: 'Ed25519', x }, { name: 'Ed25519' }, false, ['verify'])
    return await subtle.verify({ name: 'Ed25519' }, key, signature, new TextEncoder().encode(signed))
  } catch {
    return null
  }
}
