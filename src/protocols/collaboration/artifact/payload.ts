// The bytes of an artifact: hashed by the server wherever the server can see them.
import { bytesIn, isCasUri, isDataUri } from '#kernel/ports/blobs.ts'
import { sha256Hex } from '#kernel/log/hash-chain.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { limits } from '#kernel/limits.ts'
import { t, type Static } from '#kernel/declare/schema.ts'
import { withAdded } from '#kernel/declare/unknown-fields.ts'
import { Checksum, PayloadKind, type ArtifactVersion } from '../schema.ts'
import type { Upload } from './uploads.ts'

/** `verified`, the name and the media type are set by the server. */
export const PayloadInput = withAdded(
  t.Object({
    kind: PayloadKind,
    uri: t.String({
      minLength: 1,
      maxLength: limits.uriCharsMax,
      description: 'a data: URI with the bytes, the cas: URI that artifact.upload returned, or for kind ref the address of the bytes',
    }),
    checksum: t.Optional(Checksum),
    size: t.Optional(t.Integer({ minimum: 0 })),
  }),
  'verified',
  'name',
  'media_type',
)
type PayloadInput = Static<typeof PayloadInput>
type Payload = ArtifactVersion['payload']

const wrong = (message: string, field: string): never => {
  throw new Refusal('INVALID_SPEC', message, { field: `payload.${field}` })
}

/** The stored payload: with computed checksum and size, or, for bytes elsewhere, with claimed ones marked as such. */
export function payloadOf(input: PayloadInput, upload: Upload | null): Payload {
  if (isDataUri(input.uri)) return inlinePayload(input)
  return isCasUri(input.uri) ? uploadedPayload(input, upload) : referencePayload(input)
}

function inlinePayload({ kind, uri, ...claimed }: PayloadInput): Payload {
  const bytes = bytesIn(uri, 'INVALID_SPEC', 'payload.uri')
  if (bytes.length > limits.inlineBytesMax)
    wrong(`inline bytes are at most ${limits.inlineBytesMax}; send more with artifact.upload`, 'uri')
  const checksum = `sha256:${sha256Hex(bytes)}`
  refuseFalseClaims(claimed, checksum, bytes.length)
  return { kind, uri, checksum, size: bytes.length, verified: true }
}

function uploadedPayload({ kind, uri, ...claimed }: PayloadInput, upload: Upload | null): Payload {
  if (!upload) return wrong('these bytes were not uploaded for this task: send them with artifact.upload first', 'uri')
  const { checksum, size, name, media_type } = upload
  refuseFalseClaims(claimed, checksum, size)
  return { kind, uri, checksum, size, verified: true, ...(name === null ? {} : { name }), ...(media_type === null ? {} : { media_type }) }
}

function refuseFalseClaims(claimed: Pick<PayloadInput, 'checksum' | 'size'>, checksum: string, size: number): void {
  if (claimed.checksum !== undefined && claimed.checksum !== checksum) wrong('checksum does not match the bytes', 'checksum')
  if (claimed.size !== undefined && claimed.size !== size) wrong(`size does not match the bytes: there are ${size}`, 'size')
}

function referencePayload({ kind, uri, checksum, size }: PayloadInput): Payload {
  if (kind !== 'ref') wrong(`a payload of kind ${kind} carries its bytes in a data: URI or names uploaded ones by a cas: URI`, 'uri')
  if (!/^[a-z][a-z0-9+.-]*:\S+$/i.test(uri)) wrong('uri is not a URI', 'uri')
  if (checksum === undefined || size === undefined) wrong('a ref needs checksum and size', checksum === undefined ? 'checksum' : 'size')
  return { kind, uri, checksum: checksum!, size: size!, verified: false }
}
