// Answers that a receipt holds by reference: files and secrets, whose content is kept elsewhere. They are prepared while the request is
// read, because sealing takes time and looking for bytes does too.
import { Refusal } from '#kernel/declare/errors.ts'
import { image } from '#kernel/declare/facts.ts'
import type { Change, Context, Made, Read } from '#kernel/declare/operation.ts'
import type { Value } from '#kernel/log/store.ts'
import { File, FILE_VERSION, fileTimer, referenceTo } from './file.ts'
import type { ProvidePayload } from '../asking/payload.ts'
import { resultOf, type FileResult, type Resolution, type Result } from './result.ts'
import { isOpen, type Request } from '../schema.ts'
import { commitmentTo, keptSecret, type Secret, type SecretReference } from './secret.ts'

/** The reference that stands in the receipt, and what is written along with it. */
export type Given = { readonly result: Value; readonly images: Made['images']; readonly puts: readonly Change[] }
type Answer = { readonly result: unknown; readonly reason?: string | null | undefined }

/** null: the answer stands in the receipt as it is, or it is none; deciding says which. */
export async function givenFor(read: Read, request: Request, answer: Answer, context: Context): Promise<Given | null> {
  if (request.action !== 'PROVIDE' || !isOpen(request) || context.actor.kind !== 'human') return null
  const { input_type, sensitive } = request.payload as ProvidePayload
  if (input_type !== 'file' && sensitive !== true) return null
  const said = validOf(request, answer)
  if (said === null) return null
  return input_type === 'file' ? fileFor(read, request, said.result as FileResult) : secretFor(read, request, said.result, context)
}

function validOf({ action, payload }: Request, { result, reason = null }: Answer): Resolution | null {
  try {
    return resultOf(action, payload, { result, reason })
  } catch (error) {
    if (error instanceof Refusal) return null
    throw error
  }
}

async function fileFor(read: Read, request: Request, { artifact_id, version }: FileResult): Promise<Given | null> {
  const file = await read.maybe(File, artifact_id)
  if (file === null || file.request_id !== request.id || file.state !== 'open' || (version ?? FILE_VERSION) !== FILE_VERSION) return null
  if ((await read.blob(file.checksum))?.size !== file.size) return null
  const kept: File = { ...file, state: 'kept' }
  return { result: referenceTo(kept), images: [image(File, kept)], puts: [fileTimer(kept)] }
}

async function secretFor(read: Read, { id, requester, project_id }: Request, value: Result, context: Context): Promise<Given> {
  const { now, newId } = context
  const key = (await read.subject(requester))?.sealKey ?? null
  const to = key === null ? 'server' : 'agent'
  const salt = context.secret()
  const sealed = await sealedWith(context, { value, salt }, key)
  const secret: Secret = { id: newId('sec'), request_id: id, requester, project_id, sealed, to, at: now }
  const result: SecretReference = { secret_id: secret.id, commitment: commitmentTo(value, salt), sealed_to: to }
  return { result, images: [], puts: keptSecret(secret) }
}

/** What cannot be sealed is not taken; why is nothing to be told, since it may quote what it failed on. */
async function sealedWith({ notary }: Context, what: object, key: Value | null): Promise<string> {
  try {
    return await notary.seal(JSON.stringify(what), key)
  } catch {
    throw new Refusal('UNAVAILABLE', 'the answer could not be sealed: nothing was changed')
  }
}

/** The answer as the receipt holds it. */
export function heldAs(request: Request, given: Given | null, answer: Resolution): { readonly result: unknown; readonly reason?: string } {
  if (given !== null) return { ...answer, result: given.result }
  const { input_type, sensitive } = request.payload as Partial<ProvidePayload>
  if (sensitive === true) throw new Error('a secret was not sealed')
  if (input_type === 'file') throw new Refusal('INVALID_RESULT', 'result names no file that was added to this request', { field: 'result' })
  return answer
}

/** What was said at the checkpoint of a request, as its receipt holds it. Only here a secret is sealed and a file is kept. */
export function answeredElsewhere({ kind, action, payload }: Request, { result, reason = null }: Answer): unknown {
  if (kind !== 'request') return result
  const { input_type, sensitive } = payload as Partial<ProvidePayload>
  if (sensitive === true || input_type === 'file')
    throw new Refusal('PRECONDITION_FAILED', 'a secret or a file is given as the answer to the request itself, with request.resolve')
  return resultOf(action, payload, { result, reason }).result
}
