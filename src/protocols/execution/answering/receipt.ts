// The end of a request: its receipt (HXP 0.1, 4), and the signature over it.
import { SYSTEM_ID } from '#kernel/declare/access.ts'
import type { Context, Read } from '#kernel/declare/operation.ts'
import type { Basis } from '#kernel/log/store.ts'
import type { Signature } from '#kernel/signing/assertion.ts'
import { nullable, t, type Static } from '#kernel/declare/schema.ts'
import { canonical } from '#kernel/log/canonical-json.ts'
import { sha256 } from '#kernel/log/hash-chain.ts'
import { SignatureFields } from '#kernel/signing/input.ts'
import { requestDigest, shownDigest, type Surface } from './shown-request.ts'
import { DECLINED } from './receipt-format.ts'
import { resultText } from './result.ts'
import { Id, poolOf, Request, Timestamp, type EndedRequest, type Receipt } from '../schema.ts'

export type Ending = {
  readonly status: Receipt['status']
  readonly result: unknown
  readonly reason?: string | undefined
  /** A person would not answer: the request is declined, and its receipt says `failed`. */
  readonly declined?: true
  /** The person who decided; null: no person did. */
  readonly by: string | null
  readonly via?: string | null | undefined
  readonly basis: Basis
  /** The whole details, if the person edited them before they approved (X33). */
  readonly edited?: Readonly<Record<string, unknown>> | undefined
  /** Where the person saw it. */
  readonly surface?: Surface | undefined
  /** The person's own signature, by passkey. */
  readonly signature?: Signature | null | undefined
  /** The name in the receipt if no person completed the request: `system:fallback`. */
  readonly as?: string
}

/**
 * The pseudonym of a person: the same throughout a pool, different in every vote. Other receipts show the plain pseudonym beside the name,
 * so pools and votes never use that one.
 */
function nameIn({ id, role, project_id, quorum }: Request, who: string, { pseudonym }: Context['notary']): string {
  if (quorum !== undefined) return pseudonym(`${id} ${who}`)
  return pseudonym(role === 'pool' ? `${poolOf(project_id)} ${who}` : who)
}

/** The request with its receipt. From here on it never changes. */
export function endedWith(
  request: Request,
  ending: Ending,
  { now, newId, notary }: Pick<Context, 'now' | 'newId' | 'notary'>,
): EndedRequest {
  const { status, result, reason, by, via = null, basis } = ending
  const who = by ?? ending.as ?? 'system'
  const from = Date.parse(request.assigned_at ?? request.created_at)
  const receipt: Receipt = {
    receipt_id: newId('rcp'),
    status,
    result,
    ...(reason === undefined ? {} : { reason: ending.declined ? DECLINED + reason : reason }),
    // In a vote, the name of the last voter would reveal one of the pseudonyms.
    completed_by: by !== null && (request.role === 'pool' || request.quorum !== undefined) ? nameIn(request, by, notary) : who,
    completed_at: now,
    duration_seconds: Math.max(0, Math.floor((Date.parse(now) - from) / 1_000)),
    // 4.2, literally: request_id + result + completed_at + server_secret.
    evidence_hash: notary.evidence(`${request.id}${resultText(result)}${now}`),
    by: by ?? SYSTEM_ID,
    via,
    iss: notary.issuer(),
    basis,
    request_digest: requestDigest(request),
    shown_digest: shownDigest(request, ending.surface),
    ...(ending.edited === undefined ? {} : { edited: ending.edited }),
    ...(ending.signature ? { assertion: ending.signature } : {}),
  }
  const { snoozed: _, claimed_until: __, ...rest } = request
  return { ...rest, status: ending.declined ? 'declined' : status, receipt }
}

/** The draft's receipt with its signature. */
export const SignedReceipt = t.Object({
  request_id: Id,
  status: t.String(),
  result: t.Unknown(),
  reason: t.Optional(t.String()),
  edited: t.Optional(t.Object({}, { additionalProperties: true, description: 'ours: the details as the person approved them' })),
  completed_by: t.String(),
  completed_at: Timestamp,
  duration_seconds: t.Integer(),
  evidence_hash: t.String(),
  // Ours, from here on.
  receipt_id: Id,
  basis: t.Object({ kind: t.String(), id: t.String() }),
  assertion: t.Optional(SignatureFields),
  assertion_digest: t.Optional(
    t.String({ description: 'SHA-256 of the canonical JSON of the assertion, where the person is named by a pseudonym' }),
  ),
  key_id: nullable(t.String()),
  signature: nullable(t.String()), // a compact JWS; null only inside the batch that makes it
})
export type SignedReceipt = Static<typeof SignedReceipt>

const digestOf = (assertion: Signature): string => sha256(canonical(assertion))
/** The credential would tell who is behind a pseudonym: then the digest stands for it. */
function signedIn({ receipt }: Request): Pick<SignedReceipt, 'assertion' | 'assertion_digest'> {
  const { assertion, completed_by, by } = receipt!
  if (assertion === undefined) return {}
  return completed_by === by ? { assertion } : { assertion_digest: digestOf(assertion) }
}

export function receiptOf(request: Request): SignedReceipt {
  const { by: _, via: __, request_digest: ___, shown_digest: ____, iss: _____, assertion: ______, ...receipt } = request.receipt!
  // X29: the basis comes before the result, so that readers first learn that a default decided.
  const first = receipt.basis.kind === 'default' ? { basis: receipt.basis } : {}
  return { request_id: request.id, ...first, ...receipt, ...signedIn(request), key_id: null, signature: null }
}

/** Signs a receipt when it is returned, with the current key: its place in the record is known only after the commit. */
export async function signReceipt(request: Request, read: Read, { notary }: Pick<Context, 'notary'>): Promise<SignedReceipt> {
  const shown = receiptOf(request)
  const place = await read.place(Request, request.id)
  if (place === null) return shown
  const signature = await notary.attest(claimsOf(request, place, notary))
  return { ...shown, key_id: keyIn(signature), signature }
}

/** Adds the signed receipt of the recorded request to an output. */
export async function withReceipt<O extends { readonly request: { readonly id: string } }>(
  output: O,
  { read, context }: { readonly read: Read; readonly context: Context },
): Promise<O & { receipt: SignedReceipt }> {
  return { ...output, receipt: await signReceipt(await read(Request, output.request.id), read, context) }
}

const keyIn = (jws: string): string =>
  (JSON.parse(Buffer.from(jws.slice(0, jws.indexOf('.')), 'base64url').toString()) as { kid: string }).kid

type Place = { readonly scope: string; readonly seq: number; readonly hash: string }
function claimsOf(request: Request, { scope, seq, hash }: Place, notary: Context['notary']) {
  const { by, via, basis, result, reason, edited, status, receipt_id, completed_by, completed_at, duration_seconds, ...digests } =
    request.receipt!
  return {
    v: isSigned(request) ? 2 : 1,
    // Receipts from before have no name of their own.
    iss: digests.iss ?? 'countersign',
    aud: request.agent_id,
    jti: receipt_id,
    request_id: request.id,
    action: request.action,
    request_digest: digests.request_digest,
    shown_digest: digests.shown_digest,
    status,
    result: result ?? null,
    ...(reason === undefined ? {} : { reason }),
    ...(edited === undefined ? {} : { edited }),
    completed_by,
    decided_by: { sub: nameIn(request, by, notary), kind: by === SYSTEM_ID ? 'system' : 'human', via },
    created_at: request.created_at,
    completed_at,
    duration_seconds,
    basis,
    ...signedIn(request),
    ...votesOf(request, notary),
    evidence_hash: digests.evidence_hash,
    log: { project_id: scope, seq, hash },
  }
}

/** A person has signed it, or voted with a signature: such receipts have a version of their own. */
const isSigned = ({ receipt, votes = [] }: Request): boolean =>
  receipt!.assertion !== undefined || votes.some(({ assertion }) => assertion !== undefined)

const votesOf = (request: Request, notary: Context['notary']) =>
  request.quorum === undefined
    ? {}
    : {
        quorum: { n: request.quorum.n, of: request.quorum.of.length },
        votes: (request.votes ?? []).map(({ by, in_place_of, result, declined, at, shown_digest, assertion }) => ({
          sub: nameIn(request, by, notary),
          ...(in_place_of === undefined ? {} : { in_place_of: nameIn(request, in_place_of, notary) }),
          result,
          ...(declined ? { declined } : {}),
          at,
          shown_digest,
          ...(assertion === undefined ? {} : { assertion_digest: digestOf(assertion) }),
        })),
      }
