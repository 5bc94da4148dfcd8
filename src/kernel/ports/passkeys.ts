// The ports of passkeys: the cryptography of the server, and the protocol that keeps enrolments. A person signs a call with a device of
// their own, so that not even the operator can forge the answer.
import { Refusal } from '../declare/errors.ts'
import type { Change, Context, Read } from '../declare/operation.ts'
import type { Risk } from '../policy/gate-policy.ts'
import type { AssertionCrypto, PasskeyJwk, SaidAnswer, Signature } from '../signing/assertion.ts'
import type { Assertion } from '../signing/input.ts'

/** Whether a call needs a signature, and the content that a person signs for it. */
export type Signable = {
  /** The project whose policy sets the risk from which a signature is needed; null: only the installation's policy. */
  readonly project_id: string | null
  /** `always` and `never` count before the policies. */
  readonly risk: Risk | 'always' | 'never'
  /** Computed only for a call that is signed. */
  toSign(): Covered
}
export type Covered = {
  readonly subject_digest: string
  readonly shown_digest: string | null
  readonly result_digest: string
  readonly edited?: unknown
  /** The content of `result_digest` if no receipt holds it: the word of the decision, and a digest of the whole decision. */
  readonly said?: SaidAnswer | undefined
}
/** With the whole name of the operation. */
export type NamedCovered = Covered & { readonly operation: string }

/** The site that passkeys are made for, and the pages that may ask for a signature. */
export type RelyingParty = { readonly id: string; readonly origins: readonly string[] }

export type NewCredential = {
  readonly credential_id: string
  readonly alg: number
  readonly jwk: PasskeyJwk
  /** The same key as the device sent it (COSE), in base64url. */
  readonly cose: string
  readonly counter: number
  readonly aaguid: string
}
export type Registration = {
  readonly id: string
  readonly client_data_json: string
  readonly attestation_object: string
  readonly challenge: string
}

/** The server's part: its address and the cryptography. */
export type Passkeys = AssertionCrypto & {
  party(): RelyingParty
  /** The credential in a registration; a text: why there is none. */
  credentialOf(registration: Registration): Promise<NewCredential | string>
}

/** The part of the protocol that keeps enrolments. */
export type Signing = {
  /** Checks an assertion about a call, and returns the changes that use it up. Refuses with ASSERTION_INVALID. */
  checked(
    read: Read,
    operation: string,
    covered: Covered,
    assertion: Assertion,
    context: Context,
  ): Promise<{ readonly signature: Signature; readonly changes: readonly Change[] }>
}

const absent = (): never => {
  throw new Refusal('UNAVAILABLE', 'this server checks no passkeys')
}
export const noPasskeys: Passkeys = { party: absent, credentialOf: absent, sha256: absent, isSigned: absent }
