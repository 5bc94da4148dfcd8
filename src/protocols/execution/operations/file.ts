// Files as answers (HXP 0.1, 2: PROVIDE with input_type file): sent before the answer names one, fetched by readers of the request.
import { hasRoomForBytes, moveBytes, readSums, type Holding, type Sums } from '#kernel/ports/stored-bytes.ts'
import { AnnouncedSize, checkAnnounced, hasExpired, hasPlainName } from '#kernel/ports/uploads.ts'
import { casUri, Checksum, FileName, MediaType } from '#kernel/ports/blobs.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { image } from '#kernel/declare/facts.ts'
import { anyone, system } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, query, rule } from '#kernel/declare/operation.ts'
import { nullable, t } from '#kernel/declare/schema.ts'
import { fact } from '../events.ts'
import { File, FILE_VERSION, FileReference, referenceTo } from '../answering/file.ts'
import type { ProvidePayload } from '../actions/provide.ts'
import { answerer, chief, isNotLate, isUnresolved, poolMember, requestOf, type OfRequest } from '../access.ts'
import { Id } from '../schema.ts'

const filePayload = ({ request }: OfRequest): ProvidePayload | null => {
  const payload = request.payload as Partial<ProvidePayload>
  return payload.input_type === 'file' ? (payload as ProvidePayload) : null
}
const boundOf = (state: OfRequest): number => filePayload(state)?.validation?.max_bytes ?? limits.blobBytesMax

/** `image/*` accepts every image. Parameters after the type, such as a charset, are ignored. */
function isTaken(wanted: readonly string[] | undefined, media_type: string | undefined): boolean {
  if (wanted === undefined) return true
  const [type = ''] = (media_type ?? '').toLowerCase().split(';')
  const [family] = type.trim().split('/')
  return wanted.some((pattern) => pattern === type.trim() || pattern === `${family}/*`)
}

type Adding = OfRequest & {
  readonly held: number
  readonly open: number
  readonly sums: Sums
  readonly stored: null
  readonly holder: Omit<Holding, 'size'>
}
type AddInput = { readonly name: string; readonly media_type?: string; readonly size?: number }

const add = command({
  name: 'file.add',
  summary: 'Send a file for a request that asks for one; the answer then names it. A file that no answer names within a day is forgotten.',
  draft: 'ours: HXP 0.1 has input_type file, but no way to send one',
  upload: true,
  input: t.Object({
    request_id: Id,
    name: FileName,
    media_type: t.Optional(MediaType),
    checksum: t.Optional(Checksum),
    size: t.Optional(AnnouncedSize),
  }),
  output: FileReference,
  callers: [answerer, poolMember, chief],
  requires: [
    isNotLate,
    isUnresolved,
    rule<Adding>(
      'PRECONDITION_FAILED',
      'the request asks for a file',
      (state) => filePayload(state) !== null,
      'the request does not ask for a file',
    ),
    hasPlainName('INVALID_REQUEST'),
    rule<Adding, AddInput>(
      'INVALID_RESULT',
      'media_type must be one that the request accepts',
      (state, { media_type }) => isTaken(filePayload(state)!.validation?.media_types, media_type),
      'the request asks for files of other types (see validation.media_types)',
    ),
    rule<Adding, AddInput>(
      'TOO_LARGE',
      'the file is not larger than the request allows',
      (state, { size = 0 }) => size <= boundOf(state),
      'the file is larger than the request allows (validation.max_bytes)',
    ),
    // The bound itself is checked at the commit; here it saves sending bytes that could not be kept.
    rule<Adding>(
      'QUOTA_EXCEEDED',
      `a request takes at most ${limits.filesPerRequestMax} files, and a person has at most ${limits.uploadsOpenMax} that no answer names`,
      ({ held, open }) => held < limits.filesPerRequestMax && open < limits.uploadsOpenMax,
      `the request has ${limits.filesPerRequestMax} files, or you have ${limits.uploadsOpenMax} that no answer names: answer with them, or wait until they are forgotten`,
    ),
    hasRoomForBytes,
  ],
  audit: 'file.added',
  async load(read, { request_id }, { actor }): Promise<Adding> {
    const state = await requestOf(read, request_id)
    const [held, open] = await Promise.all([read.count(File, 'request', [request_id]), read.count(File, 'open', [actor.id])])
    const holder = { by: actor.id, project_id: state.request.project_id }
    return { ...state, held, open, stored: null, holder, sums: await readSums(read, [holder]) }
  },
  decide(state, { name, media_type = null, ...announced }, { actor, now, newId, received }) {
    const { checksum, size } = received!
    checkAnnounced('INVALID_REQUEST', announced, { checksum, size })
    const max = boundOf(state)
    if (size > max) throw new Refusal('TOO_LARGE', `the request takes at most ${max} bytes`, { max })
    const { id: request_id, project_id } = state.request
    const file: File = {
      id: newId('art'),
      version: FILE_VERSION,
      request_id,
      project_id,
      name,
      media_type,
      size,
      checksum,
      by: actor.id,
      at: now,
      state: 'open',
    }
    return {
      facts: [fact('file.added', [image(File, file)])],
      puts: moveBytes(state.sums, null, { ...state.holder, size }),
      atMost: [
        { doc: File, index: 'request', prefix: [request_id], max: limits.filesPerRequestMax, message: 'the request has too many files' },
        { doc: File, index: 'open', prefix: [actor.id], max: limits.uploadsOpenMax, message: 'too many files that no answer names' },
      ],
      output: referenceTo(file),
    }
  },
  example: {
    given: 'asked_for_file',
    as: 'alice',
    input: ({ request }) => ({
      request_id: request.id,
      name: 'hello.txt',
      media_type: 'text/plain',
      checksum: 'sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824',
      size: 5,
    }),
    bytes: 'hello',
  },
})

const get = query({
  name: 'file.get',
  summary: 'Fetch the place and the name of a file; GET over HTTP answers the bytes themselves.',
  draft: 'ours: HXP 0.1 has input_type file, but no way to fetch one',
  download: true,
  input: t.Object({ artifact_id: Id }),
  output: t.Object({
    artifact_id: Id,
    version: t.String(),
    request_id: Id,
    uri: t.String(),
    checksum: Checksum,
    size: t.Integer(),
    media_type: nullable(MediaType),
    name: FileName,
  }),
  callers: [anyone],
  load: async (read, { artifact_id }) => ({ file: await read(File, artifact_id) }),
  view({ file: { id, version, request_id, checksum, size, media_type, name, state } }) {
    if (state === 'expired') throw new Refusal('GONE', 'no answer named this file in time: its bytes are gone')
    return { artifact_id: id, version, request_id, uri: casUri(checksum), checksum, size, media_type, name }
  },
  example: { given: 'given_file', as: 'devin', input: ({ artifact_id }) => ({ artifact_id }) },
})

const expire = command({
  name: 'file.expire',
  summary: 'Forget a file that no answer named in time; its bytes go when nothing else needs them. The system calls it.',
  draft: 'ours: bytes that nothing refers to',
  input: t.Object({ artifact_id: Id }),
  output: t.Object({ file: File.schema }),
  callers: [system],
  requires: [
    rule<{ file: File }>(
      'PRECONDITION_FAILED',
      'no answer names the file, and it has expired',
      ({ file }, _, { now }) => hasExpired(file, now),
      'the file is named by an answer, or its time is not over yet',
    ),
  ],
  audit: 'file.expired',
  async load(read, { artifact_id }) {
    const file = await read(File, artifact_id)
    return { file, sums: await readSums(read, [file]) }
  },
  decide({ file, sums }) {
    const next: File = { ...file, state: 'expired' }
    return { facts: [fact('file.expired', [image(File, next)])], puts: moveBytes(sums, file, null), output: { file: next } }
  },
  example: { given: 'file_forgotten', as: 'system', input: ({ artifact_id }) => ({ artifact_id }) },
})

export const fileOperations = [add, get, expire]
