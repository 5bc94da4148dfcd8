// The signed note of C2SP: a text with signature lines, and the verifier keys that the lines are checked with.
import { base64Of, bytesOfBase64, hexOf, isSameBytes } from './base64.ts'
import { limits } from '../../limits.ts'
import type { Hashing } from './asking.ts'

/** A note, a checkpoint, a key or a policy that cannot be read. The message is a sentence for its reader. */
export class Unreadable extends Error {
  override name = 'Unreadable'
}

/** Ed25519 over the text, as logs sign. */
export const LOG_KEY = 1
/** Ed25519 over the text with a time, as witnesses sign. */
export const COSIGNATURE_KEY = 4
export type KeyType = typeof LOG_KEY | typeof COSIGNATURE_KEY

const KEY_BYTES = 32
const ID_BYTES = 4
const utf8 = new TextEncoder()

export type VerifierKey = {
  readonly name: string
  readonly type: KeyType
  /** 8 characters of hex. */
  readonly id: string
  readonly key: Uint8Array
  /** `<name>+<id>+<base64>` */
  readonly text: string
}

/** Also the rule for the names of logs and witnesses: no spaces, no plus, no control characters. */
export const isKeyName = (name: string): boolean =>
  name.length > 0 && name.length <= limits.logNameCharsMax && !/[\s+\p{Cc}\p{Z}]/u.test(name)

export function* verifierKey(name: string, type: KeyType, key: Uint8Array): Hashing<VerifierKey> {
  if (!isKeyName(name)) throw new Unreadable(`${JSON.stringify(name)} is not a name of a key: it has spaces, "+" or too many characters`)
  const typed = new Uint8Array([type, ...key])
  const hash = yield new Uint8Array([...utf8.encode(`${name}\n`), ...typed])
  const id = hexOf(hash.subarray(0, ID_BYTES))
  return { name, type, id, key, text: `${name}+${id}+${base64Of(typed)}` }
}

export function* verifierKeyIn(text: string): Hashing<VerifierKey> {
  const [, name, id, base64] = /^([^+\s]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/=]+)$/.exec(text) ?? []
  const bytes = base64 === undefined ? null : bytesOfBase64(base64)
  if (name === undefined || bytes === null)
    throw new Unreadable(`${short(text)} is not a verifier key: one is <name>+<8 characters of hex>+<base64>`)
  const [type] = bytes
  if (type !== LOG_KEY && type !== COSIGNATURE_KEY)
    throw new Unreadable(`the key ${name} has type ${type}: types 1 and 4 (Ed25519) are supported`)
  if (bytes.length !== 1 + KEY_BYTES) throw new Unreadable(`the key ${name} has ${bytes.length - 1} bytes instead of ${KEY_BYTES}`)
  const found = yield* verifierKey(name, type, bytes.subarray(1))
  if (found.id !== id) throw new Unreadable(`the key ${name} has the id ${found.id}, not ${id}: a character of it was changed`)
  return found
}
const short = (text: string): string => JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}…` : text)

export type SignatureLine = {
  readonly name: string
  readonly id: string
  readonly signature: Uint8Array
  /** The line as it was, with its end. */
  readonly line: string
}
/** `text`: what is signed, with its last line end. */
export type Note = { readonly text: string; readonly signatures: readonly SignatureLine[] }

/** Whether a text has characters below U+0020 other than line ends and those of `allowed`. */
export const hasControls = (text: string, allowed = ''): boolean =>
  Array.from(text).some((character) => character < ' ' && character !== '\n' && !allowed.includes(character))

export function noteIn(text: string): Note {
  if (text.length > limits.logNoteCharsMax) throw new Unreadable(`the note has over ${limits.logNoteCharsMax} characters`)
  // The last empty line: the text can have others.
  const cut = text.lastIndexOf('\n\n')
  if (cut < 1 || !text.endsWith('\n') || text.endsWith('\n\n'))
    throw new Unreadable('it is not a signed note: a text, an empty line, signature lines')
  if (hasControls(text)) throw new Unreadable('the note has control characters')
  if (!text.isWellFormed()) throw new Unreadable('the note is not valid UTF-8')
  const signatures = signatureLines(text.slice(cut + 2))
  return { text: text.slice(0, cut + 1), signatures }
}

/** Lines as a note ends with, and as a witness answers with. */
export function signatureLines(text: string): SignatureLine[] {
  if (!text.endsWith('\n')) throw new Unreadable('the last signature line has no end')
  const lines = text.slice(0, -1).split('\n')
  if (lines.length > limits.logSignaturesMax) throw new Unreadable(`the note has over ${limits.logSignaturesMax} signature lines`)
  return lines.map(signatureIn)
}

function signatureIn(line: string): SignatureLine {
  const [, name, base64] = /^\u2014 (\S+) (\S+)$/.exec(line) ?? []
  const bytes = base64 === undefined ? null : bytesOfBase64(base64)
  if (name === undefined || !isKeyName(name) || bytes === null || bytes.length <= ID_BYTES)
    throw new Unreadable('a signature line of the note cannot be read')
  return { name, id: hexOf(bytes.subarray(0, ID_BYTES)), signature: bytes.subarray(ID_BYTES), line: `${line}\n` }
}

export function signatureLine({ name, id }: Pick<VerifierKey, 'name' | 'id'>, signature: Uint8Array): string {
  const bytes = new Uint8Array([...Uint8Array.from(id.match(/../g)!, (two) => Number.parseInt(two, 16)), ...signature])
  return `\u2014 ${name} ${base64Of(bytes)}\n`
}

export const isSameKey = (a: VerifierKey, b: VerifierKey): boolean => isSameBytes(a.key, b.key)
