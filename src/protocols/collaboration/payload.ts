// The bytes of an artifact: hashed by the server wherever the server can see them.
import { sha256Hex } from '#kernel/chain.ts'
import { Refusal } from '#kernel/errors.ts'
import { limits } from '#kernel/limits.ts'
import { t, type Static } from '#kernel/schema.ts'
import { Checksum, PayloadKind, type ArtifactVersion } from './schema.ts'

export const PayloadInput = t.Object({
  kind: PayloadKind,
  uri: t.String({ minLength: 1, maxLength: limits.uriCharsMax, description: 'a data: URI with the bytes, or for kind ref where they are' }),
  checksum: t.Optional(Checksum),
  size: t.Optional(t.Integer({ minimum: 0 })),
})

const wrong = (words: string, field: string): never => {
  throw new Refusal('INVALID_SPEC', words, { field: `payload.${field}` })
}

/** What is stored: checksum and size as computed, or, for bytes that were never seen, as claimed and marked so. */
export function payloadOf({ kind, uri, checksum, size }: Static<typeof PayloadInput>): ArtifactVersion['payload'] {
  if (!uri.startsWith('data:')) {
    if (kind !== 'ref') wrong(`a payload of kind ${kind} carries its bytes in a data: URI`, 'uri')
    if (!/^[a-z][a-z0-9+.-]*:\S+$/i.test(uri)) wrong('uri is not a URI', 'uri')
    if (checksum === undefined || size === undefined) wrong('a ref needs checksum and size', checksum === undefined ? 'checksum' : 'size')
    return { kind, uri, checksum: checksum!, size: size!, verified: false }
  }
  const bytes = bytesOf(uri)
  if (bytes.length > limits.inlineBytesMax) wrong(`inline bytes are at most ${limits.inlineBytesMax}`, 'uri')
  const computed = `sha256:${sha256Hex(bytes)}`
  if (checksum !== undefined && checksum !== computed) wrong('checksum does not match the bytes', 'checksum')
  if (size !== undefined && size !== bytes.length) wrong(`size does not match the bytes: there are ${bytes.length}`, 'size')
  return { kind, uri, checksum: computed, size: bytes.length, verified: true }
}

/** RFC 2397. */
function bytesOf(uri: string): Buffer {
  const comma = uri.indexOf(',')
  if (comma === -1) return wrong('a data: URI has a comma before its data', 'uri')
  const data = uri.slice(comma + 1)
  if (/;base64$/i.test(uri.slice(0, comma))) {
    const bytes = Buffer.from(data, 'base64')
    // A lenient decoder would skip what it does not know and hash something else than was sent.
    if (bytes.toString('base64').replace(/=+$/, '') !== data.replace(/=+$/, '')) wrong('the data is not valid base64', 'uri')
    return bytes
  }
  if (!/^(?:%[0-9a-f]{2}|[\x20-\x24\x26-\x7e])*$/i.test(data)) wrong('the data is not percent-encoded', 'uri')
  return Buffer.from(
    data.replaceAll(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
    'latin1',
  )
}
