// Answers that a receipt holds by reference: files and secrets, whose content is kept elsewhere. They are prepared while the request is
// read, because sealing and finding bytes take time.
import { canonical } from '#kernel/log/canonical-json.ts'
import { sha256 } from '#kernel/log/hash-chain.ts'
import { decodeText } from '#kernel/codec/strict-json.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { image, put } from '#kernel/declare/facts.ts'
import type { Change, Context, Made, Read } from '#kernel/declare/operation.ts'
import type { Value } from '#kernel/log/store.ts'
import { File, FILE_VERSION, referenceTo } from './file.ts'
import type { FileResult, Result } from '../actions/action.ts'
import { isSecret, type ProvidePayload } from '../actions/provide.ts'
import { resultOf, type Resolution } from './result.ts'
import { isOpen, type Request } from '../schema.ts'
import { commitmentTo, Secret, type SecretReference } from './secret.ts'

/** The reference for the receipt, and the documents written with it. */
export type OpenedAnswer = { readonly result: Value; readonly images: Made['images']; readonly puts: readonly Change[] }
type AnswerInput = { readonly result?: unknown; readonly sealed?: string | undefined; readonly reason?: string | null | undefined }

const refuseSeal = (message: string): never => {
  throw new Refusal('INVALID_REQUEST', `sealed ${message}`, { field: 'sealed' })
}
/** Refuses an answer sealed by the person that does not fit: it is stored unopened, so it must be sealed to the agent's current key. */
export function refuseOddSeal({ payload }: Request, { result, sealed }: AnswerInput, given: OpenedAnswer | null): void {
  if (sealed === undefined) return
  if (result !== undefined) refuseSeal('replaces result: send one of them')
  if (!isSecret(payload)) refuseSeal('is for secrets: the request asks for none')
  if (given === null)
    refuseSeal(
      'is not a compact JWE with ECDH-ES or ECDH-ES+A256KW, and A256GCM, for the present seal_key of the agent: fetch the item again',
    )
}
/** A sealed answer before it is stored by reference: only the person and the agent know its value. */
export function sealedAnswer(reason: string | null): Resolution {
  return reason === null || reason.trim() === '' ? { result: '' } : { result: '', reason }
}

/** RFC 7638. */
const thumbprintOf = ({ crv, kty, x }: Value): string => sha256(canonical({ crv, kty, x }))
const JWE = /^([A-Za-z0-9_-]{1,2000})\.[A-Za-z0-9_-]*\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*\.[A-Za-z0-9_-]+$/
const algorithms = new Set<unknown>(['ECDH-ES', 'ECDH-ES+A256KW'])
function isSealedFor(sealed: string, key: Value): boolean {
  const [, first] = JWE.exec(sealed) ?? []
  if (first === undefined) return false
  try {
    const { alg, enc, kid, epk } = decodeText(Buffer.from(first, 'base64url').toString()) as Readonly<Record<string, unknown>>
    const isForIt = kid === undefined || kid === (key['kid'] ?? thumbprintOf(key))
    // Without a key id at least the curve must match: the agent's key opens nothing else.
    return isForIt && algorithms.has(alg) && enc === 'A256GCM' && (epk as { crv?: unknown } | null | undefined)?.crv === key['crv']
  } catch {
    return false
  }
}

/** A file or secret, stored by reference. Null: the receipt contains the answer itself, or the answer is invalid, which `decide` refuses. */
export async function givenFor(read: Read, request: Request, answer: AnswerInput, context: Context): Promise<OpenedAnswer | null> {
  if (!isOpen(request) || context.actor.kind !== 'human') return null
  const { input_type, sensitive } = request.payload as Partial<ProvidePayload>
  if (input_type !== 'file' && sensitive !== true) return null
  if (answer.sealed !== undefined) return sensitive === true ? sealedByPerson(read, request, answer.sealed, context) : null
  const valid = validOf(request, answer)
  if (valid === null) return null
  return input_type === 'file' ? fileFor(read, request, valid.result as FileResult) : secretFor(read, request, valid.result, context)
}

function validOf({ action, payload }: Request, { result, reason = null }: AnswerInput): Resolution | null {
  try {
    return resultOf(action, payload, { result, reason })
  } catch (error) {
    if (error instanceof Refusal) return null
    throw error
  }
}

async function fileFor(read: Read, request: Request, { artifact_id, version }: FileResult): Promise<OpenedAnswer | null> {
  const file = await read.maybe(File, artifact_id)
  if (file === null || file.request_id !== request.id || file.state !== 'open' || (version ?? FILE_VERSION) !== FILE_VERSION) return null
  if ((await read.blob(file.checksum))?.size !== file.size) return null
  const used: File = { ...file, state: 'kept' }
  return { result: referenceTo(used), images: [image(File, used)], puts: [] }
}

async function secretFor(read: Read, { id, requester, project_id }: Request, value: Result, context: Context): Promise<OpenedAnswer> {
  const { now, newId } = context
  const key = (await read.subject(requester))?.sealKey ?? null
  const to = key === null ? 'server' : 'agent'
  const salt = context.secret()
  const sealed = await sealedWith(context, { value, salt }, key)
  const secret: Secret = { id: newId('sec'), request_id: id, requester, project_id, sealed, to, at: now }
  const result: SecretReference = { secret_id: secret.id, commitment: commitmentTo(value, salt), sealed_to: to }
  return { result, images: [], puts: [put(Secret, secret.id, secret)] }
}

/** The commitment covers the sealed text, because this server cannot decrypt it. */
async function sealedByPerson(
  read: Read,
  { id, requester, project_id }: Request,
  sealed: string,
  context: Context,
): Promise<OpenedAnswer | null> {
  const key = (await read.subject(requester))?.sealKey ?? null
  if (key === null || !isSealedFor(sealed, key)) return null
  const secret: Secret = { id: context.newId('sec'), request_id: id, requester, project_id, sealed, to: 'agent', at: context.now }
  const result: SecretReference = { secret_id: secret.id, commitment: sha256(sealed), sealed_to: 'agent', sealed_by: 'person' }
  return { result, images: [], puts: [put(Secret, secret.id, secret)] }
}

/** Refuses an answer that cannot be sealed. The refusal omits the cause, which might quote the secret. */
async function sealedWith({ notary }: Context, what: object, key: Value | null): Promise<string> {
  try {
    return await notary.seal(JSON.stringify(what), key)
  } catch {
    throw new Refusal('UNAVAILABLE', 'the answer could not be sealed: nothing was changed')
  }
}

/** The answer as the receipt holds it. */
export function heldAs(
  request: Request,
  given: OpenedAnswer | null,
  answer: Resolution,
): { readonly result: unknown; readonly reason?: string } {
  if (given !== null) return { ...answer, result: given.result }
  const { input_type, sensitive } = request.payload as Partial<ProvidePayload>
  if (sensitive === true) throw new Error('a secret was not sealed')
  if (input_type === 'file') throw new Refusal('INVALID_RESULT', 'result names no file that was added to this request', { field: 'result' })
  return answer
}

/** An answer given at the checkpoint of a request, in the form of the receipt: seals a secret and stores a file. */
export function answeredElsewhere({ kind, action, payload }: Request, { result, reason = null }: AnswerInput): unknown {
  if (kind !== 'request') return result
  const { input_type, sensitive } = payload as Partial<ProvidePayload>
  if (sensitive === true || input_type === 'file')
    throw new Refusal('PRECONDITION_FAILED', 'a secret or a file is given as the answer to the request itself, with request.resolve')
  return resultOf(action, payload, { result, reason }).result
}
