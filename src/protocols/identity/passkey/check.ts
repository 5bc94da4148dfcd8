// The check of a signature against the enrolments: the challenge was made for this call of this person, the device is theirs and counts,
// and its counter has not decreased.
import { Refusal } from '#kernel/declare/errors.ts'
import { put } from '#kernel/declare/facts.ts'
import type { Context, Read } from '#kernel/declare/operation.ts'
import { sha256 } from '#kernel/log/hash-chain.ts'
import type { Covered, Signing } from '#kernel/ports/passkeys.ts'
import { challengeText, checkAssertion, clientDataIn } from '#kernel/signing/assertion.ts'
import type { Assertion } from '#kernel/signing/input.ts'
import { Challenge, counts, Passkey, passkeyIdOf, PasskeyUse } from './documents.ts'

export const refuseAssertion = (message: string): never => {
  throw new Refusal('ASSERTION_INVALID', `assertion: ${message}`, { field: 'assertion' })
}

export const challengeFor = (operation: string, { subject_digest, shown_digest, result_digest, edited }: Covered, nonce: string): string =>
  sha256(challengeText({ operation, subject_digest, shown_digest, result_digest, edited: edited ?? null, nonce }))

const DIGEST = /^[A-Za-z0-9_-]{43}$/
/** The open challenge that a browser names in its client data. */
export async function challengeIn(read: Read, client: string, operation: string, { actor, now }: Context): Promise<Challenge> {
  const named = clientDataIn(client)?.challenge ?? ''
  const challenge = DIGEST.test(named) ? await read.raw(Challenge, named) : null
  if (challenge?.user_id !== actor.id || challenge.operation !== operation || challenge.expires_at <= now)
    return refuseAssertion('its challenge was used before, has expired, or was made for another call or person: ask for a new one')
  return challenge
}

async function keyFor(read: Read, { id }: Assertion, { actor, now }: Context): Promise<Passkey> {
  const passkey = await read.raw(Passkey, passkeyIdOf(id))
  if (passkey?.user_id !== actor.id) return refuseAssertion('its passkey is not one of yours')
  if (passkey.removed_at !== null && passkey.removed_at <= now) return refuseAssertion('its passkey was removed')
  return counts(passkey, now) ? passkey : refuseAssertion(`its passkey counts from ${passkey.counted_from} on`)
}

export const signing: Signing = {
  async checked(read, operation, about, assertion, context) {
    const { now, passkeys } = context
    const { clientDataJSON, authenticatorData, signature } = assertion.response
    const { id: challenge, nonce } = await challengeIn(read, clientDataJSON, operation, context)
    if (assertion.nonce !== undefined && assertion.nonce !== nonce) refuseAssertion('its nonce is not that of its challenge')
    if (challengeFor(operation, about, nonce) !== challenge)
      refuseAssertion('it signs another answer, or the item has changed since: look at it again')
    const passkey = await keyFor(read, assertion, context)
    const proof = { credential_id: assertion.id, client_data_json: clientDataJSON, authenticator_data: authenticatorData, signature }
    const { origins } = passkeys.party()
    const found = await checkAssertion(proof, { challenge, key: passkey, origins }, passkeys)
    if (found.problem !== null) return refuseAssertion(found.problem)
    const before = (await read.raw(PasskeyUse, passkey.id))?.counter ?? 0
    // Many devices have no counter: theirs stays at zero.
    if ((before > 0 || found.counter > 0) && found.counter <= before)
      refuseAssertion('the counter of its device went back: the device may have been copied')
    const { subject_digest, shown_digest, result_digest, said } = about
    const covered = { operation, subject_digest, shown_digest, result_digest, ...(said === undefined ? {} : { said }), nonce }
    return {
      signature: { ...covered, ...proof },
      changes: [put(Challenge, challenge, null), put(PasskeyUse, passkey.id, { id: passkey.id, counter: found.counter, used_at: now })],
    }
  },
}
