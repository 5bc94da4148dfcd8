// Bytes uploaded for a task. They are kept if an artifact names them, and expire after a while otherwise.
import { checksumIn, isCasUri } from '#kernel/ports/blobs.ts'
import { expiryOf, storedBy, uploadIndexes } from '#kernel/ports/uploads.ts'
import { image } from '#kernel/declare/facts.ts'
import type { Read } from '#kernel/declare/operation.ts'
import { doc, either, nullable, t, type Static } from '#kernel/declare/schema.ts'
import { Checksum, Id, MediaType, FileName, Task, Timestamp } from '../schema.ts'

export const Upload = doc(
  'collaboration.upload',
  t.Object({
    id: t.String({ maxLength: 200 }), // `${task_id}/${checksum}`
    task_id: Id,
    project_id: Id,
    root_task_id: Id,
    checksum: Checksum,
    size: t.Integer({ minimum: 0 }),
    media_type: nullable(MediaType),
    name: nullable(FileName),
    by: Id,
    at: Timestamp,
    state: either('open', 'committed', 'expired'), // open: no artifact names it yet
  }),
  {
    scopeOf: (upload) => upload.project_id,
    taskOf: (upload) => upload.task_id,
    rootOf: (upload) => upload.root_task_id,
    within: (upload) => ({ doc: Task, id: upload.task_id }),
    indexes: { ...uploadIndexes, task: storedBy((upload) => upload.task_id) },
    due: (upload) => [
      { at: expiryOf(upload), call: 'collaboration/upload.expire', input: { task_id: upload.task_id, checksum: upload.checksum } },
    ],
  },
)
export type Upload = Static<typeof Upload.schema>
export const uploadId = (task_id: string, checksum: string): string => `${task_id}/${checksum}`

/** The upload that a cas: URI names, if its bytes were sent for this task and are here. */
export async function uploadFor(read: Read, task_id: string, uri: string): Promise<Upload | null> {
  const checksum = isCasUri(uri) ? checksumIn(uri) : null
  const upload = checksum === null ? null : await read.maybe(Upload, uploadId(task_id, checksum))
  if (upload === null || upload.state === 'expired') return null
  return (await read.blob(upload.checksum))?.size === upload.size ? upload : null
}

/** The change that a commit makes to the upload that it names: from now on it stays. */
export const commitUpload = (upload: Upload | null): ReturnType<typeof image>[] =>
  upload?.state === 'open' ? [image(Upload, { ...upload, state: 'committed' })] : []
