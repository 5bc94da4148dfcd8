// Answers that are secrets. The request, its receipt and the record hold a commitment only; the answer itself is sealed, handed over
// once and erased. A commitment without its salt says nothing, not even how long the secret is.
import { timestampOf } from '#kernel/ports/clock.ts'
import { sha256 } from '#kernel/log/hash-chain.ts'
import { limits } from '#kernel/limits.ts'
import { doc, either, t, type Static } from '#kernel/declare/schema.ts'
import type { Result } from '../actions/action.ts'
import { resultText } from './result.ts'
import { Id, Request, Timestamp } from '../schema.ts'

export const SealedTo = either('agent', 'server')

/** An answer sealed to a key of the agent, so that this server cannot open it, or under a server key kept outside the database. */
export const Secret = doc(
  'execution.secret',
  t.Object({ id: Id, request_id: Id, requester: Id, project_id: Id, sealed: t.String(), to: SealedTo, at: Timestamp }),
  {
    scopeOf: (secret) => secret.project_id,
    visibleTo: () => false,
    due: (secret) => [{ at: secretExpiry(secret), call: 'execution/secret.expire', input: { request_id: secret.request_id } }],
  },
)
export type Secret = Static<typeof Secret.schema>

/** The recorded end of an erased secret. */
export const SecretEnd = doc(
  'execution.secret_end',
  t.Object({ id: Id, request_id: Id, project_id: Id, sealed_to: SealedTo, state: either('taken', 'expired'), at: Timestamp }),
  { noun: 'secret', scopeOf: (end) => end.project_id, within: (end) => ({ doc: Request, id: end.request_id }) },
)
export type SecretEnd = Static<typeof SecretEnd.schema>

/** The receipt's word in place of the answer. */
export const SecretReference = t.Object({
  secret_id: Id,
  commitment: t.String(),
  sealed_to: SealedTo,
  sealed_by: t.Optional(either('person')), // the commitment is the SHA-256 of the text that the person sealed
})
export type SecretReference = Static<typeof SecretReference>

/** With the value and the salt, any reader can check that the receipt is about this value. */
export const commitmentTo = (value: Result, salt: string): string => sha256(`${salt}${resultText(value)}`)

export function secretIn({ receipt, payload }: Request): SecretReference | null {
  const isSecret = receipt?.status === 'completed' && (payload as { sensitive?: boolean }).sensitive === true
  return isSecret ? (receipt.result as SecretReference) : null
}

export const secretExpiry = ({ at }: { readonly at: string }): string => timestampOf(Date.parse(at) + limits.secretMs)
