// The bytes of artifacts: sent before a commit names them, fetched by readers of the artifact.
import { hasRoomForBytes, moveBytes, readSums, type Holding, type Sums } from '#kernel/ports/stored-bytes.ts'
import { AnnouncedSize, checkAnnounced, hasExpired, hasPlainName } from '#kernel/ports/uploads.ts'
import { casUri, mediaTypeIn, isDataUri } from '#kernel/ports/blobs.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { image } from '#kernel/declare/facts.ts'
import { anyone, system } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, query, rule } from '#kernel/declare/operation.ts'
import { nullable, t } from '#kernel/declare/schema.ts'
import { fact } from '../events.ts'
import { executor, isActive, isFreeToChange, isInTime, principal, reviewer } from '../access.ts'
import { Checksum, FileName, Id, MediaType, Task } from '../schema.ts'
import { Upload, uploadId } from '../artifact/uploads.ts'
import { versionFor } from '../artifact/versions.ts'

type Uploading = {
  readonly task: Task
  readonly known: Upload | null
  readonly open: number
  readonly ofTask: number
  readonly sums: Sums
  /** The holding of these bytes if they are stored already, and the account that they will count against. */
  readonly stored: Holding | null
  readonly holder: Omit<Holding, 'size'>
}

const upload = command({
  name: 'artifact.upload',
  summary:
    'Send bytes for a task; the cas: URI in the answer then goes into a payload. Bytes that no artifact names within a day are forgotten.',
  draft: 'ours: HACP 0.1.0 leaves open how the bytes of an artifact come to the server',
  upload: true,
  input: t.Object({
    task_id: Id,
    checksum: t.Optional(Checksum),
    size: t.Optional(AnnouncedSize),
    media_type: t.Optional(MediaType),
    name: t.Optional(FileName),
  }),
  output: t.Object({ uri: t.String(), checksum: Checksum, size: t.Integer() }),
  callers: [executor, principal, reviewer],
  requires: [
    isActive,
    isInTime,
    isFreeToChange,
    hasPlainName('INVALID_SPEC'),
    // The commit enforces the bound. Checking here avoids an upload that could not be stored.
    rule<Uploading>(
      'QUOTA_EXCEEDED',
      `a task keeps at most ${limits.uploadsPerTaskMax} uploads, and an actor has at most ${limits.uploadsOpenMax} that no artifact names`,
      ({ known, open, ofTask }) => known !== null || (open < limits.uploadsOpenMax && ofTask < limits.uploadsPerTaskMax),
      `the task keeps ${limits.uploadsPerTaskMax} uploads, or you have ${limits.uploadsOpenMax} that no artifact names: commit an artifact with them, or wait until they are forgotten`,
    ),
    hasRoomForBytes,
  ],
  audit: 'artifact.uploaded',
  async load(read, { task_id }, { actor, received }): Promise<Uploading> {
    const task = await read(Task, task_id)
    const known = received ? await read.maybe(Upload, uploadId(task_id, received.checksum)) : null
    const [open, ofTask] = await Promise.all([read.count(Upload, 'open', [actor.id]), read.count(Upload, 'task', [task_id])])
    const holder = { task_id, by: actor.id, project_id: task.project_id }
    const stored = known === null || known.state === 'expired' ? null : known
    return { task, known, open, ofTask, stored, holder, sums: await readSums(read, [holder, stored]) }
  },
  decide({ task, known, sums, stored, holder }, { media_type = null, name = null, ...announced }, { actor, now, received }) {
    const { checksum, size } = received!
    checkAnnounced('INVALID_SPEC', announced, { checksum, size })
    const { id: task_id, project_id, root_task_id } = task
    const id = uploadId(task_id, checksum)
    const state = known?.state === 'committed' ? 'committed' : 'open'
    const upload: Upload = { id, task_id, project_id, root_task_id, checksum, size, media_type, name, by: actor.id, at: now, state }
    return {
      facts: [fact('artifact.uploaded', [image(Upload, upload)])],
      puts: moveBytes(sums, stored, { ...holder, size }),
      atMost: [
        { doc: Upload, index: 'task', prefix: [task_id], max: limits.uploadsPerTaskMax, message: 'the task keeps too many uploads' },
        { doc: Upload, index: 'open', prefix: [actor.id], max: limits.uploadsOpenMax, message: 'too many uploads that no artifact names' },
      ],
      output: { uri: casUri(checksum), checksum, size },
    }
  },
  example: {
    given: 'in_progress',
    as: 'devin',
    input: ({ task }) => ({
      task_id: task.id,
      checksum: 'sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824',
      size: 5,
      media_type: 'text/plain',
      name: 'hello.txt',
    }),
    bytes: 'hello',
  },
})

const download = query({
  name: 'artifact.download',
  summary: 'Fetch the place and the name of the bytes of an artifact; GET over HTTP answers the bytes themselves.',
  draft: 'ours: HACP 0.1.0 leaves open how the bytes of an artifact leave the server',
  download: true,
  input: t.Object({ artifact_id: Id, version: t.Optional(t.String({ minLength: 1, maxLength: 40 })) }),
  output: t.Object({
    uri: t.String(),
    checksum: Checksum,
    size: t.Integer(),
    media_type: nullable(t.String()),
    name: t.String(),
    verified: t.Boolean(),
  }),
  callers: [anyone],
  load: async (read, asked, { actor }) => ({ found: await versionFor(read, asked, actor) }),
  view({ found: { artifact_id, version, payload } }) {
    const { uri, checksum, size, verified, name = `${artifact_id}-${version}`, media_type } = payload
    // The server never fetches bytes from other places.
    if (!verified) throw new Refusal('PRECONDITION_FAILED', 'the bytes of this ref were never uploaded here', { uri })
    return { uri, checksum, size, media_type: media_type ?? (isDataUri(uri) ? mediaTypeIn(uri) : null), name, verified }
  },
  example: { given: 'review_ready', as: 'alice', input: ({ artifact }) => ({ artifact_id: artifact.id, version: 'v1' }) },
})

const expire = command({
  name: 'upload.expire',
  summary: 'Forget an upload that no artifact named in time; its bytes go when nothing else needs them.',
  draft: 'ours: bytes that nothing refers to',
  input: t.Object({ task_id: Id, checksum: Checksum }),
  output: t.Object({ upload: Upload.schema }),
  callers: [system],
  requires: [
    rule<{ upload: Upload }>(
      'PRECONDITION_FAILED',
      'no artifact names the upload, and it has expired',
      ({ upload }, _, { now }) => hasExpired(upload, now),
      'the upload is named by an artifact, or its time is not over yet',
    ),
  ],
  audit: 'artifact.upload_expired',
  async load(read, { task_id, checksum }) {
    const found = await read(Upload, uploadId(task_id, checksum))
    return { upload: found, sums: await readSums(read, [found]) }
  },
  decide({ upload: known, sums }) {
    const next: Upload = { ...known, state: 'expired' }
    return {
      facts: [fact('artifact.upload_expired', [image(Upload, next)])],
      puts: moveBytes(sums, known, null),
      output: { upload: next },
    }
  },
  example: { given: 'upload_forgotten', as: 'system', input: ({ task, checksum }) => ({ task_id: task.id, checksum }) },
})

export const blobOperations = [upload, download, expire]
