// The port of the blob store: bytes that are too large for a document, and their names. They are addressed by their content, so the same
// bytes are stored once and a name never means anything else.
import { Refusal } from '../declare/errors.ts'
import { t } from '../declare/schema.ts'
import { limits } from '../limits.ts'

export type Checksum = string
export const Checksum = t.String({ pattern: '^sha256:[0-9a-f]{64}$', description: 'sha256: and 64 hexadecimal digits' })
export const FileName = t.String({ minLength: 1, maxLength: limits.nameCharsMax, description: 'a file name without its path' })
export const MediaType = t.String({ maxLength: 200, pattern: '^[!-~]+/[ -~]+$', description: 'a media type such as text/plain' })

/** Bytes that this server has itself received, counted and hashed. */
export type Received = { readonly checksum: Checksum; readonly size: number }
/** The checksum and size that the sender announces. */
export type Announced = { readonly checksum?: Checksum | undefined; readonly size?: number | undefined }

/** Received bytes that are not removed until `release` or `discard` is called, so that a document can first refer to them. */
export type Held = Received & {
  release(): void
  /** Nothing refers to the bytes: they are removed immediately, unless they were stored before or were sent again since. */
  discard(): Promise<void>
}

/** First and last byte, both included. */
export type ByteRange = { readonly first: number; readonly last: number }
export type Stored = { readonly checksum: Checksum; readonly size: number; readonly at: number }

export interface Blobs {
  /** Resolves when the bytes are durable. Refused bytes leave nothing behind. A chunk is valid only until the next one is requested. */
  put(source: AsyncIterable<Uint8Array>, announced: Announced, bytesMax: number): Promise<Held>
  /**
   * null: there is no such blob. If the bytes do not match their checksum, the stream fails before the last byte, and the blob is set
   * aside.
   */
  open(checksum: Checksum, range?: ByteRange): Promise<AsyncIterable<Uint8Array> | null>
  size(checksum: Checksum): Promise<number | null>
  /** Reads the bytes and compares them with their name. */
  check(checksum: Checksum): Promise<'sound' | 'missing' | 'changed'>
  /** In the order of their names; `at` is when the bytes were last sent, in milliseconds. */
  list(after: Checksum | null, limit: number): Promise<Stored[]>
  /** Checks and removes in one step: no document can start to refer to the bytes in between. */
  remove(checksum: Checksum, isUnused: () => Promise<boolean>): Promise<boolean>
}

/** Control, direction-changing and invisible characters: `evil\u202Egnp.exe` must not be shown as `evilexe.png`. */
const DECEPTIVE = /[\p{Cc}\p{Bidi_Control}\p{Default_Ignorable_Code_Point}\u2800/\\]/u
/** Whether a file name is valid on every system and shown as it is. */
export const isPlainName = (name: string): boolean => !DECEPTIVE.test(name) && !/^\.*$/.test(name)

const CAS = 'cas:'
const CHECKSUM = /^sha256:[0-9a-f]{64}$/
export const isChecksum = (text: string): boolean => CHECKSUM.test(text)
export const casUri = (checksum: Checksum): string => CAS + checksum
export const isCasUri = (uri: string): boolean => uri.startsWith(CAS)
/** null: the URI names no content that could be here. */
export const checksumIn = (uri: string): Checksum | null =>
  isCasUri(uri) && isChecksum(uri.slice(CAS.length)) ? uri.slice(CAS.length) : null

export const isDataUri = (uri: string): boolean => uri.startsWith('data:')

/** The bytes of a data: URI (RFC 2397). `code`: the refusal of an unreadable one. */
export function bytesIn(uri: string, code: string, field: string): Buffer {
  const wrong = (message: string): never => {
    throw new Refusal(code, message, { field })
  }
  const comma = uri.indexOf(',')
  if (comma === -1) return wrong('a data: URI has a comma before its data')
  const data = uri.slice(comma + 1)
  if (/;base64$/i.test(uri.slice(0, comma))) {
    const bytes = Buffer.from(data, 'base64')
    // A lenient decoder would skip unknown characters and hash other bytes than were sent.
    if (bytes.toString('base64').replace(/=+$/, '') !== data.replace(/=+$/, '')) wrong('the data is not valid base64')
    return bytes
  }
  if (!/^(?:%[0-9a-f]{2}|[\x20-\x24\x26-\x7e])*$/i.test(data)) wrong('the data is not percent-encoded')
  return Buffer.from(
    data.replaceAll(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
    'latin1',
  )
}

/** `text/plain` by default (RFC 2397). */
export const mediaTypeIn = (uri: string): string => /^data:([^;,]+)/.exec(uri)?.[1] ?? 'text/plain'
