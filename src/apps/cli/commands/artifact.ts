// Artifacts and their bytes: small ones travel inside the call, large ones are uploaded first, with a progress bar.
import { openAsBlob } from 'node:fs'
import { open, rename, rm } from 'node:fs/promises'
import { basename, extname, resolve } from 'node:path'
import { bytesIn as bytesOfUri, isDataUri } from '#kernel/ports/blobs.ts'
import { limits } from '#kernel/limits.ts'
import type { Operation, Protocol } from '#kernel/declare/operation.ts'
import type { Artifact } from '#protocols/collaboration/schema.ts'
import { derivedSpec, inputFlags, inputOf } from '../derive/from-operation.ts'
import { CliError, exits, usage } from '../exit-codes.ts'
import { flag, type Flag, type FlagValues } from '../derive/flags.ts'
import { readInput, sizeOf } from '../input/read-input.ts'
import type { Remote } from '../remote/remote.ts'
import { show, writeJson } from '../output/render.ts'
import type { Context, Spec } from '../derive/command.ts'
import { barOf, bytesIn, startProgress, type Io } from '../terminal.ts'
import { escapeControl } from '../output/safe-text.ts'

/** A smaller file is sent along with the call. */
const INLINE_BYTES_MAX = 64 * 1024

const mediaTypes: Readonly<Record<string, string>> = {
  '.csv': 'text/csv',
  '.diff': 'text/x-diff',
  '.html': 'text/html',
  '.jpg': 'image/jpeg',
  '.json': 'application/json',
  '.md': 'text/markdown',
  '.patch': 'text/x-diff',
  '.pdf': 'application/pdf',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain',
  '.zip': 'application/zip',
}
const mediaTypeOf = (path: string): string => mediaTypes[extname(path).toLowerCase()] ?? 'application/octet-stream'

type Content = {
  readonly size: number
  readonly name: string | null
  readonly mediaType: string
  read(): Promise<Buffer>
  blob(): Promise<Blob>
}

async function contentAt(io: Io, path: string): Promise<Content> {
  if (path === '-') {
    const bytes = await readInput(io, '-', limits.blobBytesMax)
    const blob = (): Promise<Blob> => Promise.resolve(new Blob([new Uint8Array(bytes)]))
    return { size: bytes.length, name: null, mediaType: 'application/octet-stream', read: () => Promise.resolve(bytes), blob }
  }
  const { size, file } = await sizeOf(io, path)
  return { size, name: basename(file), mediaType: mediaTypeOf(file), read: () => readInput(io, path), blob: () => openAsBlob(file) }
}

const withoutInputFile = (flags: readonly Flag[]): Flag[] => flags.filter(({ name }) => name !== inputFlags[1]!.name)

/** An operation that takes bytes beside its input. */
export function uploadSpec(protocol: Protocol, op: Operation): Spec {
  const derived = derivedSpec(protocol, op)
  const spec: Spec = {
    ...derived,
    flags: [
      { ...flag('file', 'path', 'the bytes to send, - for standard input; required'), required: true },
      ...withoutInputFile(derived.flags),
    ],
    examples: ['countersign artifact upload task_1 --file report.pdf'],
    async run(context, given) {
      const path = given.get('file') as string | undefined
      if (path === undefined) throw usage('missing: --file <path>')
      const content = await contentAt(context.io, path)
      const withoutFile = new Map(given)
      if (content.name !== null && !withoutFile.has('name')) withoutFile.set('name', content.name)
      if (!withoutFile.has('media-type')) withoutFile.set('media-type', content.mediaType)
      withoutFile.delete('file')
      await show(context, op.name, await uploadContent(context, derived.operation!, await inputOf(context, op, spec, withoutFile), content))
    },
  }
  return spec
}

async function uploadContent({ io, remote }: Context, operation: string, input: object, content: Content): Promise<{ uri: string }> {
  const server = await remote()
  const progress = startProgress(io.err, 'uploading')
  try {
    return (await server.upload(operation, input, await content.blob(), (done, total) =>
      progress.say(`uploading ${barOf(done, total)}`),
    )) as { uri: string }
  } finally {
    progress.stop()
  }
}

/** A file as the answer to a request: sent before the answer names it. */
export async function sentFile(context: Context, request_id: string, path: string): Promise<unknown> {
  const content = await contentAt(context.io, path)
  const input = { request_id, name: content.name ?? 'file', media_type: content.mediaType }
  return uploadContent(context, 'execution/file.add', input, content)
}

/** An operation whose payload may come from a file. */
export function committingSpec(protocol: Protocol, op: Operation): Spec {
  const derived = derivedSpec(protocol, op)
  const isOfPayload = ({ path }: Flag): boolean => path?.[0] === 'payload'
  const flagNameOf = (field: string): string => derived.flags.find(({ path }) => path?.join('.') === `payload.${field}`)!.name
  const fileFlag = flag(
    'file',
    'path',
    `the content, - for standard input: up to ${bytesIn(INLINE_BYTES_MAX)} inline, more is uploaded first`,
  )
  return {
    ...derived,
    flags: [
      fileFlag,
      ...withoutInputFile(derived.flags).map((flag_) =>
        isOfPayload(flag_) || flag_.path?.[0] === 'parent_version' ? { ...flag_, required: false } : flag_,
      ),
    ],
    examples: [
      `countersign ${derived.path.join(' ')} ${derived.positionals[0]!.path![0] === 'task_id' ? 'task_1' : 'art_1 --task-id task_1'} --file patch.diff --type patch`,
      ...derived.examples,
    ],
    async run(context, given) {
      const path = given.get('file') as string | undefined
      const filled = new Map(given)
      filled.delete('file')
      if (!filled.has('parent-version') && filled.has('artifact-id'))
        filled.set('parent-version', await newestOf(context, filled.get('artifact-id') as string))
      if (path !== undefined)
        for (const [field, value] of await payloadFrom(context, path, given))
          if (!filled.has(flagNameOf(field))) filled.set(flagNameOf(field), value)
      return derived.run(context, filled)
    },
  }
}

async function newestOf({ remote }: Context, artifact_id: string): Promise<string> {
  const { artifact } = await (await remote()).call('collaboration/artifact.get', { artifact_id })
  return artifact.version
}

async function payloadFrom(context: Context, path: string, given: FlagValues): Promise<[string, string][]> {
  const content = await contentAt(context.io, path)
  if (content.size <= INLINE_BYTES_MAX) {
    const uri = `data:${content.mediaType};base64,${(await content.read()).toString('base64')}`
    return [
      ['kind', 'inline'],
      ['uri', uri],
    ]
  }
  const task_id = given.get('task-id') as string | undefined
  if (task_id === undefined) throw usage('missing: <task_id>')
  const about = { task_id, media_type: content.mediaType, ...(content.name === null ? {} : { name: content.name }) }
  const { uri } = await uploadContent(context, 'collaboration/artifact.upload', about, content)
  return [
    ['kind', 'blob'],
    ['uri', uri],
  ]
}

/** An operation whose answer names bytes: they go into a file, or to standard output. */
export function downloadSpec(protocol: Protocol, op: Operation): Spec {
  const derived = derivedSpec(protocol, op)
  const spec: Spec = {
    ...derived,
    flags: [
      flag('output', 'path', 'the output file; by default the uploaded name, - for standard output'),
      flag('force', null, 'overwrite an existing file'),
      ...derived.flags,
    ],
    examples: ['countersign artifact download art_1', 'countersign artifact download art_1 --version v1 --output - | less'],
    async run(context, given) {
      const input = await inputOf(context, op, spec, given)
      const { bytes, name, checksum } = await downloadArtifact(context, derived.operation!, input)
      const output = (given.get('output') as string | undefined) ?? safeName(name ?? String(input['artifact_id']))
      if (output === '-') return void context.io.out.write(bytes)
      const file = resolve(context.io.cwd, output)
      await writeWhole(file, bytes, given.get('force') === true)
      if (context.json) writeJson(context, { file, size: bytes.length, checksum })
      else context.io.out.write(`${escapeControl(output)}  ${bytesIn(bytes.length)}  ${checksum}\n`)
    },
  }
  return spec
}

async function downloadArtifact({ io, remote }: Context, operation: string, input: object) {
  const server = await remote()
  const progress = startProgress(io.err, 'downloading')
  try {
    return await server.download(operation, input, (done, total) => progress.say(`downloading ${barOf(done, total)}`))
  } finally {
    progress.stop()
  }
}

/** A file name that cannot leave this folder, hide the file or look like a flag. */
export const safeName = (name: string): string =>
  basename(name)
    .replaceAll(/[^\p{L}\p{N}._ -]/gu, '_')
    .replace(/^[.-]+/, '_')
    .slice(0, 200) || 'artifact'

/** Writes the whole file or nothing. */
async function writeWhole(file: string, bytes: Uint8Array, isForced: boolean): Promise<void> {
  const temporary = `${file}.part`
  try {
    // Reserve the name first: an existing file is never overwritten, even by two concurrent writers.
    if (!isForced) await (await open(file, 'wx')).close()
    const handle = await open(temporary, 'w')
    await handle.writeFile(bytes)
    await handle.close()
    await rename(temporary, file)
  } catch (error) {
    await rm(temporary, { force: true })
    const { code, message } = error as NodeJS.ErrnoException
    if (code === 'EEXIST') throw usage(`${file} is there already`, 'overwrite it with --force, or give another --output')
    throw new CliError(exits.refused, 'FILE', `${file} cannot be written: ${message}`)
  }
}

/** The bytes of one version, wherever they are; null for a ref that was never uploaded. */
export async function bytesOf(remote: Remote, artifact: Artifact): Promise<Uint8Array | null> {
  const { uri, verified } = artifact.payload
  if (isDataUri(uri)) return bytesOfUri(uri, 'INVALID_ANSWER', 'payload.uri')
  if (!verified) return null
  const input = { artifact_id: artifact.id, version: artifact.version }
  return (await remote.download('collaboration/artifact.download', input, () => undefined)).bytes
}
