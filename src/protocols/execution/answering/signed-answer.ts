// The part of an answer that a passkey signs. A verifier computes the digest of the answer again from the receipt, apart from secrets that this server sealed:
// those have a digest that only this server can compute, so that no reader finds the secret by trying.
import type { Context } from '#kernel/declare/operation.ts'
import { canonical } from '#kernel/log/canonical-json.ts'
import { sha256 } from '#kernel/log/hash-chain.ts'
import type { Covered } from '#kernel/ports/passkeys.ts'
import { isSecret } from '../actions/provide.ts'
import { namedOption } from '../mirror/ids.ts'
import type { Request } from '../schema.ts'
import { resultOf } from './result.ts'
import { answerSigned, type SealedByPerson } from './receipt-format.ts'
import { requestDigest, shownDigest, type Surface } from './shown-request.ts'
import { sealedAnswer, type OpenedAnswer } from './sealed-answers.ts'

type Answer = {
  readonly result?: unknown
  readonly sealed?: string | undefined
  readonly reason?: string | null | undefined
  readonly edited?: unknown
  readonly surface?: Surface | undefined
}

export const coveredIn = (request: Request, given: OpenedAnswer | null, answer: Answer, context: Context): Covered => ({
  subject_digest: requestDigest(request),
  shown_digest: shownDigest(request, answer.surface),
  result_digest: resultDigest(request, given, answer, context),
  edited: answer.edited,
})

function resultDigest(
  request: Request,
  given: OpenedAnswer | null,
  { result, sealed, reason = null }: Answer,
  { notary }: Context,
): string {
  if (sealed !== undefined) {
    const reference: SealedByPerson = { commitment: sha256(sealed), sealed_by: 'person', sealed_to: 'agent' }
    return sha256(answerSigned({ ...sealedAnswer(reason), result: reference }))
  }
  const answer = resultOf(request.action, request.payload, { result: namedOption(request, result), reason })
  // The reference of a file is fixed; a secret gets a new one at each call.
  if (isSecret(request.payload)) return notary.commit(canonical(answer))
  return sha256(answerSigned(given === null ? answer : { ...answer, result: given.result }))
}
