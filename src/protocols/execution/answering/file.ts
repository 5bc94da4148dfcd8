// Files that people give as answers. One that the answer names stays; any other is forgotten after a while, and its bytes with it.
import { Checksum, FileName, MediaType } from '#kernel/ports/blobs.ts'
import { expiryOf, storedBy, uploadIndexes } from '#kernel/ports/uploads.ts'
import { doc, either, nullable, t, type Static } from '#kernel/declare/schema.ts'
import { Id, Request, Timestamp } from '../schema.ts'

/** The bytes of a file are immutable, so the first version is the only one. */
export const FILE_VERSION = 'v1'

export const File = doc(
  'execution.file',
  t.Object({
    id: Id,
    version: t.Literal(FILE_VERSION),
    request_id: Id,
    project_id: Id,
    name: FileName,
    media_type: nullable(MediaType),
    size: t.Integer({ minimum: 0 }),
    checksum: Checksum,
    by: Id,
    at: Timestamp,
    state: either('open', 'kept', 'expired'), // open: no answer names it yet
  }),
  {
    scopeOf: (file) => file.project_id,
    // Before it is part of an answer, only people see an uploaded file: neither the agent nor the key of its project does.
    visibleTo: (file, { kind }) => kind === 'human' || file.state === 'kept',
    within: (file) => ({ doc: Request, id: file.request_id }),
    indexes: { ...uploadIndexes, request: storedBy((file) => file.request_id) },
    due: (file) => [{ at: expiryOf(file), call: 'execution/file.expire', input: { artifact_id: file.id } }],
  },
)
export type File = Static<typeof File.schema>

/** X5: the reference to a file in the receipt. */
export const FileReference = t.Object({
  artifact_id: Id,
  version: t.String(),
  name: FileName,
  media_type: nullable(MediaType),
  size: t.Integer(),
  sha256: t.String({ description: '64 hexadecimal digits' }),
})
export const referenceTo = ({ id, version, name, media_type, size, checksum }: File): Static<typeof FileReference> => ({
  artifact_id: id,
  version,
  name,
  media_type,
  size,
  sha256: checksum.slice('sha256:'.length),
})
