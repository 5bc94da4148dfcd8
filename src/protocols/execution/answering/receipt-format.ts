// The format of a receipt and the check of its signature. Nothing here needs a server: the SDK runs it in browsers, with the signature
// checked with the caller's cryptography. Every input can be hostile and is never trusted.
import { canonical } from '#kernel/log/canonical-json.ts'
import { bytesOf } from '#kernel/signing/base64url.ts'
import { decodeText } from '#kernel/codec/strict-json.ts'
import type { Signature } from '#kernel/signing/assertion.ts'
import { limits } from '#kernel/limits.ts'

/** The prefix of the reason in the receipt of a declined request; the person's own reason follows. */
export const DECLINED = 'declined: '

/** The text whose digest a passkey signs as the answer. */
export const answerSigned = ({
  result,
  reason = null,
}: {
  readonly result: unknown
  readonly reason?: string | null | undefined
}): string => canonical({ reason, result: result ?? null })

/** The signed part of a secret that the person sealed. The receipt adds where it is stored. */
export type SealedByPerson = { readonly commitment: string; readonly sealed_by: 'person'; readonly sealed_to: 'agent' }

/** The signed claims: canonical JSON, the payload of a JWS. */
export type Claims = {
  /** 2: people have signed it themselves. */
  readonly v: 1 | 2
  readonly iss: string
  /** The agent that asked. */
  readonly aud: string
  readonly jti: string
  readonly request_id: string
  readonly action: string
  /** SHA-256 of the request and of its shown form, in base64url. */
  readonly request_digest: string
  readonly shown_digest: string | null
  readonly status: string
  readonly result?: unknown
  /** The reference in place of a result that must not be stored here. */
  readonly result_ref?: unknown
  readonly reason?: string | null
  /** The details as the person approved them, if they edited them first. */
  readonly edited?: unknown
  /** The person who decided (`sub` is a pseudonym), and how they proved their identity (`via`). */
  readonly completed_by?: string
  readonly decided_by: { readonly sub: string | null; readonly kind: string; readonly via: string | null }
  readonly created_at: string
  readonly completed_at: string
  /** Not in receipts from before it was signed. */
  readonly duration_seconds?: number
  readonly basis: { readonly kind: string; readonly id: string }
  /** The signature of the person, by passkey. */
  readonly assertion?: Signature
  /** Its digest, where the person is named by a pseudonym. */
  readonly assertion_digest?: string
  readonly evidence_hash: string
  /** Its place in the record. */
  readonly log: { readonly project_id: string; readonly seq: number; readonly hash: string }
}

export type Doubt =
  | 'not_a_receipt'
  | 'wrong_algorithm'
  | 'unknown_key'
  | 'retired_key'
  | 'bad_signature'
  | 'changed'
  | 'not_signed'
  | 'wrong_audience'
  | 'wrong_issuer'
  | 'wrong_request'
  | 'wrong_assertion'
  | 'unknown_passkey'
  | 'unsupported'

/** `unsigned`: fields that older signatures left out. `fields`: fields that the signature contradicts or does not cover. */
export type Verdict =
  | { readonly ok: true; readonly claims: Claims; readonly unsigned: readonly string[] }
  | { readonly ok: false; readonly reason: Doubt; readonly words: string; readonly fields: readonly string[] }

export const doubt = (reason: Doubt, message: string, fields: readonly string[] = []): Verdict & { readonly ok: false } => ({
  ok: false,
  reason,
  words: message,
  fields,
})

type Fields = Readonly<Record<string, unknown>>
const isFields = (value: unknown): value is Fields => typeof value === 'object' && value !== null && !Array.isArray(value)
const isText = (value: unknown): value is string => typeof value === 'string'

// --- The signature's form --------------------------------------------------------------------------------------------------

export const RECEIPT_TYPE = 'receipt+jwt'
export const RECEIPT_ALGORITHM = 'EdDSA'
const SIGNATURE_BYTES = 64
const HEADER_CHARS_MAX = 1_024

/** A parsed but unverified signature. `signed`: the text that the signature must cover. */
export type Jws = { readonly ok: true; readonly kid: string; readonly signed: string; readonly signature: Uint8Array<ArrayBuffer> }

export function jwsOf(text: unknown): Jws | (Verdict & { ok: false }) {
  if (!isText(text)) return doubt('not_a_receipt', 'it has no signature')
  if (text.length > limits.receiptCharsMax) return doubt('not_a_receipt', `a signature has at most ${limits.receiptCharsMax} characters`)
  const parts = text.split('.', 4)
  const signature = bytesOf(parts[2] ?? '')
  if (parts.length !== 3 || signature === null || parts[0]!.length > HEADER_CHARS_MAX)
    return doubt('not_a_receipt', 'the signature is not a compact JWS')
  const header = jsonOf(parts[0]!)
  if (!isFields(header)) return doubt('not_a_receipt', 'the signature has no header that can be read')
  // No other algorithm is ever tried: a signature must not choose how it is checked.
  if (header['alg'] !== RECEIPT_ALGORITHM) return doubt('wrong_algorithm', `the signature is not ${RECEIPT_ALGORITHM}`)
  const { kid, typ } = header
  if (!isText(kid) || typ !== RECEIPT_TYPE || Object.keys(header).length !== 3)
    return doubt('not_a_receipt', 'the signature is not that of a receipt')
  if (signature.length !== SIGNATURE_BYTES) return doubt('bad_signature', `an ${RECEIPT_ALGORITHM} signature has ${SIGNATURE_BYTES} bytes`)
  return { ok: true, kid, signed: `${parts[0]}.${parts[1]}`, signature }
}

/** The claims under a verified signature; null: it signs something other than a receipt. */
export function claimsOf({ signed }: Jws): Claims | null {
  const claims = jsonOf(signed.slice(signed.indexOf('.') + 1))
  return isClaims(claims) ? claims : null
}

const VERSIONS: readonly unknown[] = [1, 2]
const texts = ['iss', 'aud', 'jti', 'request_id', 'action', 'request_digest', 'status', 'created_at', 'completed_at', 'evidence_hash']

function isClaims(value: unknown): value is Claims {
  if (!isFields(value) || !VERSIONS.includes(value['v']) || !texts.every((name) => isText(value[name]))) return false
  const { shown_digest, reason = null, decided_by, basis, log } = value
  if (![shown_digest, reason].every((held) => held === null || isText(held))) return false
  return (
    isFields(decided_by) &&
    isText(decided_by['kind']) &&
    isFields(basis) &&
    isText(basis['kind']) &&
    isFields(log) &&
    Number.isSafeInteger(log['seq'])
  )
}

function jsonOf(text: string): unknown {
  const bytes = bytesOf(text)
  if (bytes === null) return undefined
  try {
    return decodeText(new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes))
  } catch {
    return undefined
  }
}

// --- The receipt against what was signed -----------------------------------------------------------------------------------

export type Expected = { readonly audience?: string | undefined; readonly issuer?: string | undefined }

/** Fields of the receipt that have another name, or none, in the signed claims. */
const named: Readonly<Record<string, (claims: Claims, kid: string, signature: unknown) => unknown>> = {
  receipt_id: ({ jti }) => jti,
  key_id: (_, kid) => kid,
  // A second name for the proof itself.
  jws: (_, __, signature) => signature,
  result: (claims) => (claims.result === undefined ? claims.result_ref : claims.result),
  // A name if the request was routed to a person, a pseudonym if a pool or a quorum answered.
  completed_by: ({ completed_by, decided_by }) => completed_by ?? decided_by.sub,
}
/** Required fields of a receipt. A signed field that is missing was removed. */
const needed = ['request_id', 'status', 'completed_at', 'evidence_hash', 'receipt_id', 'key_id', 'result', 'reason', 'completed_by']

/** Signed in some receipts only. */
const signatures = ['assertion', 'assertion_digest']

/** The receipt as it was given against the claims of its good signature. */
export function judge(receipt: Fields, claims: Claims, kid: string, { audience, issuer }: Expected): Verdict {
  if (audience !== undefined && claims.aud !== audience)
    return doubt('wrong_audience', `it was made out to ${claims.aud}, not to ${audience}`)
  if (issuer !== undefined && !isFrom(claims.iss, issuer)) return doubt('wrong_issuer', `it is from ${claims.iss}, not from ${issuer}`)
  const fields = new Set([...Object.keys(receipt), ...needed, ...signatures.filter((field) => Object.hasOwn(claims, field))])
  fields.delete('signature')
  const [changed, unknown, unsigned]: [string[], string[], string[]] = [[], [], []]
  for (const field of fields) {
    const isSigned = Object.hasOwn(named, field) || Object.hasOwn(claims, field) || needed.includes(field)
    if (isSigned && !agrees(field, receipt, claims, kid)) changed.push(field)
    if (!isSigned) (once.includes(field) ? unsigned : unknown).push(field)
  }
  if (changed.length > 0) return doubt('changed', `not what was signed: ${changed.join(', ').slice(0, WORDS_MAX)}`, changed)
  // X31: readers take every field of a receipt for genuine, so unsigned fields are refused.
  if (unknown.length > 0)
    return doubt('not_signed', `not signed, and no part of a receipt: ${unknown.join(', ').slice(0, WORDS_MAX)}`, unknown)
  return { ok: true, claims, unsigned }
}
/** Fields that servers once did not sign. */
const once = ['duration_seconds']
const WORDS_MAX = 200

/** X30: matches the whole issuer, its origin, or its installation id. */
function isFrom(iss: string, issuer: string): boolean {
  const mark = iss.lastIndexOf('#')
  return issuer === iss || (mark !== -1 && (issuer === iss.slice(0, mark) || issuer === iss.slice(mark + 1)))
}

function agrees(field: string, receipt: Fields, claims: Claims, kid: string): boolean {
  const signed = (Object.hasOwn(named, field) ? named[field]!(claims, kid, receipt['signature']) : (claims as Fields)[field]) ?? null
  const shown = receipt[field] ?? null
  // The receipt can omit `completed_by` if the server itself decided.
  if (field === 'completed_by' && claims.decided_by.kind === 'system' && shown === null) return true
  return canonical(signed) === canonical(shown)
}

/** The receipt in a value: the receipt itself, or a whole answer that contains it. */
export function receiptIn(value: unknown): Fields | null {
  if (!isFields(value)) return null
  const receipt = isFields(value['receipt']) && !Object.hasOwn(value, 'signature') ? value['receipt'] : value
  return Object.keys(receipt).length <= limits.keysPerObjectMax ? receipt : null
}

/** A retired key must not sign later decisions, but a server can notice a rotation this much later. */
const NOTICE_MS = 60_000

export function isAfter(until: unknown, { completed_at }: Claims): boolean {
  return isText(until) && Date.parse(completed_at) > Date.parse(until) + NOTICE_MS
}
