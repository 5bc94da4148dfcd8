// The signature of one call: whether the policies need one, and the check of the one that was given. The kernel does it for every
// operation that declares `signs`, after its rules and before its decision.
import { Refusal } from '../declare/errors.ts'
import type { Change, Command, Context, Read } from '../declare/operation.ts'
import type { Signable } from '../ports/passkeys.ts'
import type { Signature } from './assertion.ts'
import type { Assertion } from './input.ts'

export type Given = { readonly signature: Signature | null; readonly changes: readonly Change[] }
const UNSIGNED: Given = { signature: null, changes: [] }

/** `name`: the operation with its protocol. A consequence of a signed call needs no signature of its own. */
export async function signatureFor(
  read: Read,
  name: string,
  { signs }: Pick<Command, 'signs'>,
  { state, input, context }: { readonly state: unknown; readonly input: unknown; readonly context: Context },
): Promise<Given> {
  if (signs === undefined || context.actor.kind === 'system') return UNSIGNED
  const { assertion } = input as { readonly assertion?: Assertion }
  const signable = signs(state, input, context)
  if (assertion !== undefined) return read.ports.passkeys.checked(read, name, signable.toSign(), assertion, context)
  if (await needsSignature(read, signable)) throw new Refusal('PASSKEY_REQUIRED', REQUIRED_WORDS, { operation: name })
  return UNSIGNED
}

async function needsSignature(read: Read, { project_id, risk }: Signable): Promise<boolean> {
  if (risk === 'always' || risk === 'never') return risk === 'always'
  const from = await read.ports.policies.passkeyFrom(read, project_id)
  return from !== null && risk >= from
}

const REQUIRED_WORDS =
  'this counts only with the signature of your passkey: answer it on the page of the inbox, or sign the challenge of passkey.challenge and send it as assertion'
