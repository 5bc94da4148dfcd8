// The checkpoint of C2SP: a signed note of a log's name, size and root, with the cosignatures of its witnesses.
import { base64Of, bytesOfBase64 } from './base64.ts'
import type { Asking } from './asking.ts'
import { COSIGNATURE_KEY, isKeyName, noteIn, signatureLine, Unreadable, type SignatureLine, type VerifierKey } from './note.ts'
import type { TreeHead } from './proofs.ts'
import { HASH_BYTES } from './tree.ts'

export type Checkpoint = TreeHead & { readonly origin: string }

const utf8 = new TextEncoder()

/** The three lines that are signed. */
export const checkpointText = ({ origin, size, root }: Checkpoint): string => `${origin}\n${size}\n${base64Of(root)}\n`

export function checkpointIn(text: string): Checkpoint {
  const [origin, size, root, ...more] = text.slice(0, -1).split('\n')
  if (!text.endsWith('\n') || origin === undefined || size === undefined || root === undefined)
    throw new Unreadable('a checkpoint has three lines: name, size, root')
  if (more.length > 0) throw new Unreadable('the checkpoint has extension lines, which no log of this kind signs')
  if (!isKeyName(origin)) throw new Unreadable('the checkpoint has no usable name of a log in its first line')
  if (!/^(0|[1-9]\d{0,15})$/.test(size) || !Number.isSafeInteger(Number(size)))
    throw new Unreadable('the second line of the checkpoint is not a size')
  const bytes = bytesOfBase64(root)
  if (bytes?.length !== HASH_BYTES) throw new Unreadable('the third line of the checkpoint is not a hash')
  return { origin, size: Number(size), root: bytes }
}

/** The bytes that a witness signs: by this time it had seen no larger tree of the log. */
const cosignedBytes = (text: string, seconds: number): Uint8Array => utf8.encode(`cosignature/v1\ntime ${seconds}\n${text}`)
const TIME_BYTES = 8
export const SIGNATURE_BYTES = 64

export type SignBytes = (bytes: Uint8Array) => Uint8Array

export const signCheckpoint = (key: VerifierKey, text: string, sign: SignBytes): string => signatureLine(key, sign(utf8.encode(text)))

export function cosign(key: VerifierKey, text: string, seconds: number, sign: SignBytes): string {
  const bytes = new Uint8Array(TIME_BYTES + SIGNATURE_BYTES)
  new DataView(bytes.buffer).setBigUint64(0, BigInt(seconds))
  bytes.set(sign(cosignedBytes(text, seconds)), TIME_BYTES)
  return signatureLine(key, bytes)
}

/** A signature to be verified, with Ed25519. */
export type Claim = { readonly key: Uint8Array; readonly message: Uint8Array; readonly signature: Uint8Array }
/** `time`: of a cosignature, in seconds. */
export type Signed = { readonly key: VerifierKey; readonly time: number | null; readonly line: string }

/** Null: the line is too short or too long for a signature of this key. */
function claimOf(key: VerifierKey, text: string, { signature }: SignatureLine): (Claim & { readonly time: number | null }) | null {
  if (key.type !== COSIGNATURE_KEY)
    return signature.length === SIGNATURE_BYTES ? { key: key.key, message: utf8.encode(text), signature, time: null } : null
  if (signature.length !== TIME_BYTES + SIGNATURE_BYTES) return null
  const time = Number(new DataView(signature.buffer, signature.byteOffset).getBigUint64(0))
  if (!Number.isSafeInteger(time)) return null
  return { key: key.key, message: cosignedBytes(text, time), signature: signature.subarray(TIME_BYTES), time }
}

/** Verifies the signatures of the given keys and ignores all others. A bad signature of a given key refuses the whole note. */
export function* signaturesOf(
  text: string,
  lines: readonly SignatureLine[],
  keys: readonly VerifierKey[],
): Asking<Claim, boolean, readonly Signed[]> {
  const signed: Signed[] = []
  for (const line of lines) {
    const key = keys.find(({ name, id }) => name === line.name && id === line.id)
    if (key === undefined) continue
    const claim = claimOf(key, text, line)
    if (claim === null || !(yield claim)) throw new Unreadable(`the signature of ${line.name} is not one of its key over this checkpoint`)
    signed.push({ key, time: claim.time, line: line.line })
  }
  return signed
}

export type OpenCheckpoint = Checkpoint & {
  /** The signed text. */
  readonly text: string
  readonly signed: readonly Signed[]
}

export function* openCheckpoint(note: string, keys: readonly VerifierKey[]): Asking<Claim, boolean, OpenCheckpoint> {
  const { text, signatures } = noteIn(note)
  return { ...checkpointIn(text), text, signed: yield* signaturesOf(text, signatures, keys) }
}
