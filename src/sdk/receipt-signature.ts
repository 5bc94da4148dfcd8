// The signature of a person in a receipt: it has to be over this very answer, and where their passkeys are known, by one of those.
import { canonical } from '#kernel/log/canonical-json.ts'
import { challengeText, checkAssertion, clientDataIn, type PasskeyKey } from '#kernel/signing/assertion.ts'
import { base64urlOf } from '#kernel/signing/base64url.ts'
import type { Signature } from '#kernel/signing/assertion.ts'
import { webCryptoOf } from '#kernel/signing/web-crypto.ts'
import { answerSigned, doubt, type Claims, type Verdict } from '#protocols/execution/answering/receipt-format.ts'

/** An enrolment, as the event `identity/passkey.added` holds it. */
export type EnrolledPasskey = PasskeyKey & { readonly credential_id: string }

type Doubted = Verdict & { ok: false }
const wrong = (message: string): Doubted => doubt('wrong_assertion', `the signature of the person does not hold: ${message}`, ['assertion'])

const surroundings = () => webCryptoOf(globalThis.crypto.subtle)
const digestOf = async (text: string): Promise<string> => base64urlOf(await surroundings().sha256(new TextEncoder().encode(text)))

/** null: nothing is wrong with it, or no person has signed. */
export async function doubtAboutPerson(claims: Claims, passkeys: readonly EnrolledPasskey[] | undefined): Promise<Doubted | null> {
  const { assertion, request_digest, shown_digest, edited = null } = claims
  if (assertion === undefined) return null
  const { operation, nonce, result_digest } = assertion
  if (assertion.subject_digest !== request_digest) return wrong('it is about another request')
  if (assertion.shown_digest !== shown_digest) return wrong('it is about another card')
  if (!(await isOverAnswer(claims, assertion))) return wrong('it is about another answer')
  const signed = { operation, subject_digest: request_digest, shown_digest, result_digest, edited, nonce }
  const challenge = await digestOf(challengeText(signed))
  const client = clientDataIn(assertion.client_data_json)
  if (client?.challenge !== challenge) return wrong('it signs something else')
  if (passkeys === undefined) return null
  const key = passkeys.find(({ credential_id }) => credential_id === assertion.credential_id)
  if (key === undefined) return doubt('unknown_passkey', 'the person signed with a passkey that is not among those given', ['assertion'])
  const { problem } = await checkAssertion(assertion, { challenge, key }, surroundings())
  return problem === null ? null : wrong(problem)
}

/** What a word at a task says in the inbox. Other answers have no words of their own there. */
const words: Readonly<Record<string, string>> = {
  approve: 'approved',
  reject: 'rejected',
  approved: 'approved',
  rejected: 'rejected',
  changes_requested: 'changes_requested',
}

async function isOverAnswer({ result, result_ref, reason }: Claims, { said, result_digest }: Signature): Promise<boolean> {
  if (said !== undefined) {
    const expected = words[said.word]
    const contradicts = expected !== undefined && ['approved', 'rejected'].includes(result as string) && result !== expected
    return !contradicts && (await digestOf(canonical({ digest: said.digest, word: said.word }))) === result_digest
  }
  const shown = result === undefined ? result_ref : result
  const { commitment, sealed_by, sealed_to } = (typeof shown === 'object' && shown !== null ? shown : {}) as Readonly<
    Record<string, unknown>
  >
  // The server alone can compute the digest of a secret that it sealed: readers would find the secret by trying.
  if (commitment !== undefined && sealed_by !== 'person') return true
  const answer = sealed_by === 'person' ? { commitment, sealed_by, sealed_to } : shown
  return (await digestOf(answerSigned({ result: answer, reason }))) === result_digest
}
