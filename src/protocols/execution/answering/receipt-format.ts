// The format of a receipt and the check of its signature. Nothing here needs a server: the SDK runs it in browsers, with the signature
// checked by the means of its surroundings. Every input may be hostile; it is judged, never believed.
import { canonical } from '#kernel/log/canonical-json.ts'
import { bytesOf } from '#kernel/signing/base64url.ts'
import { decodeText } from '#kernel/codec/strict-json.ts'
import type { Signature } from '#kernel/signing/assertion.ts'
import { limits } from '#kernel/limits.ts'

/** The reason in the receipt of a request that a person declined begins with this; their own words follow. */
export const DECLINED = 'declined: '

/** The text whose digest stands for an answer where a passkey signs it. */
export const answerSigned = ({
  result,
  reason = null,
}: {
  readonly result: unknown
  readonly reason?: string | null | undefined
}): string => canonical({ reason, result: result ?? null })

/** A secret that the person sealed, as it is signed: its receipt adds where it is kept. */
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
  /** SHA-256 of the request and of what the person was shown, in base64url. */
  readonly request_digest: string
  readonly shown_digest: string | null
  readonly status: string
  readonly result?: unknown
  /** A stand-in for a result that must not be written down. */
  readonly result_ref?: unknown
  readonly reason?: string | null
  /** The details as the person approved them, where they edited them first. */
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

/** `unsigned`: what older signatures left out. `fields`: those that the signature contradicts, or says nothing about. */
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

/** Taken apart, and not yet believed: `signed` is what the signature must be over. */
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
  // Nothing else is ever tried: a signature must not choose how it is checked.
  if (header['alg'] !== RECEIPT_ALGORITHM) return doubt('wrong_algorithm', `the signature is not ${RECEIPT_ALGORITHM}`)
  const { kid, typ } = header
  if (!isText(kid) || typ !== RECEIPT_TYPE || Object.keys(header).length !== 3)
    return doubt('not_a_receipt', 'the signature is not that of a receipt')
  if (signature.length !== SIGNATURE_BYTES) return doubt('bad_signature', `an ${RECEIPT_ALGORITHM} signature has ${SIGNATURE_BYTES} bytes`)
  return { ok: true, kid, signed: `${parts[0]}.${parts[1]}`, signature }
}

/** The claims of a signature that was found to be good; null: it is one over something else. */
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

/** Fields of the receipt that are called otherwise where they are signed, or have no name there. */
const named: Readonly<Record<string, (claims: Claims, kid: string, signature: unknown) => unknown>> = {
  receipt_id: ({ jti }) => jti,
  key_id: (_, kid) => kid,
  // A second name for the proof itself.
  jws: (_, __, signature) => signature,
  result: (claims) => (claims.result === undefined ? claims.result_ref : claims.result),
  // A name if the request was routed to a person, a pseudonym if a pool or a quorum answered.
  completed_by: ({ completed_by, decided_by }) => completed_by ?? decided_by.sub,
}
/** Without these it is no receipt; those that are signed and missing were taken away. */
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

/** X30: the whole of it, the origin alone, or the installation alone. */
function isFrom(iss: string, issuer: string): boolean {
  const mark = iss.lastIndexOf('#')
  return issuer === iss || (mark !== -1 && (issuer === iss.slice(0, mark) || issuer === iss.slice(mark + 1)))
}

function agrees(field: string, receipt: Fields, claims: Claims, kid: string): boolean {
  const signed = (Object.hasOwn(named, field) ? named[field]!(claims, kid, receipt['signature']) : (claims as Fields)[field]) ?? null
  const shown = receipt[field] ?? null
  // The receipt may omit `completed_by` if the server itself decided.
  if (field === 'completed_by' && claims.decided_by.kind === 'system' && shown === null) return true
  return canonical(signed) === canonical(shown)
}

/** A receipt, wherever it was put: the answer that it came in may be given as a whole. */
export function receiptIn(value: unknown): Fields | null {
  if (!isFields(value)) return null
  const receipt = isFields(value['receipt']) && !Object.hasOwn(value, 'signature') ? value['receipt'] : value
  return Object.keys(receipt).length <= limits.keysPerObjectMax ? receipt : null
}

/** A retired key must not have signed what happened after it was retired; the server may notice a rotation this much later. */
const NOTICE_MS = 60_000

export function isAfter(until: unknown, { completed_at }: Claims): boolean {
  return isText(until) && Date.parse(completed_at) > Date.parse(until) + NOTICE_MS
}
