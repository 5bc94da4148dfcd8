// The part of an answer at a task that a passkey signs. Its receipt is that of the item in the inbox, so the digests are the item's.
import { canonical } from '#kernel/log/canonical-json.ts'
import { sha256 } from '#kernel/log/hash-chain.ts'
import type { Risk } from '#kernel/policy/gate-policy.ts'
import type { Covered, Signable } from '#kernel/ports/passkeys.ts'
import type { Signature } from '#kernel/signing/assertion.ts'
import type { AnsweredItem } from '#kernel/ports/requests.ts'

type Answer = {
  readonly project_id: string
  /** The id of what is answered, for a question without an item. */
  readonly about: object
  readonly item: AnsweredItem | null
  /** Counts if the item has no risk of its own. */
  readonly risk: Risk
  readonly word: string
  readonly answer: object
}

export const signableAnswer = ({ project_id, about, item, risk, word, answer }: Answer): Signable => ({
  project_id,
  risk: item?.risk ?? risk,
  toSign(): Covered {
    const said = { word, digest: sha256(canonical(answer)) }
    const digests = item?.digests() ?? { subject_digest: sha256(canonical(about)), shown_digest: null }
    return { ...digests, result_digest: sha256(canonical(said)), said }
  },
})

/** For the detail of a fact. */
export const signedIn = (signature: Signature | null): { readonly assertion?: Signature } =>
  signature === null ? {} : { assertion: signature }
