// What people provide does not always stand in the receipt itself: of a file and of a secret it holds a reference, and what they are is
// kept elsewhere. It is prepared while the request is read, because sealing takes time and looking for bytes does too.
import { Refusal } from '#kernel/errors.ts'
import { image } from '#kernel/facts.ts'
import type { Change, Context, Made, Read } from '#kernel/operation.ts'
import type { Value } from '#kernel/store.ts'
import { File, FILE_VERSION, fileTimer, referenceTo } from './file.ts'
import type { ProvidePayload } from './payload.ts'
import { resultOf, type FileResult, type Resolution } from './results.ts'
import { isOpen, type Request } from './schema.ts'

/** The reference that stands in the receipt, and what is written along with it. */
export type Given = { readonly result: Value; readonly images: Made['images']; readonly puts: readonly Change[] }
type Answer = { readonly result: unknown; readonly reason?: string | null | undefined }

/** null: the answer stands in the receipt as it is, or it is none; deciding says which. */
export async function givenFor(read: Read, request: Request, answer: Answer, context: Context): Promise<Given | null> {
  if (request.action !== 'PROVIDE' || !isOpen(request) || context.actor.kind !== 'human') return null
  const { input_type } = request.payload as ProvidePayload
  const said = input_type === 'file' ? validOf(request, answer) : null
  return said === null ? null : fileFor(read, request, said.result as FileResult)
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

/** The answer as the receipt holds it. */
export function heldAs(request: Request, given: Given | null, answer: Resolution): { readonly result: unknown; readonly reason?: string } {
  if (given !== null) return { ...answer, result: given.result }
  if ((request.payload as Partial<ProvidePayload>).input_type === 'file')
    throw new Refusal('INVALID_RESULT', 'result names no file that was added to this request', { field: 'result' })
  return answer
}
