// Artifacts of a handler, delivered and read: small ones inside the call, larger ones by upload.
import type { Input, Output } from '../client.ts'
import { CountersignError } from '../errors.ts'
import type { RunState } from './run-state.ts'
import type { Steps } from './steps.ts'

type CommitInput = Input<'collaboration/artifact.commit'>
/** Text, bytes, or a payload as `collaboration/artifact.commit` takes it (such as a reference to bytes elsewhere). */
export type Content = string | Uint8Array<ArrayBuffer> | Blob | CommitInput['payload']
export type CommitOptions = Omit<CommitInput, 'task_id' | 'payload' | 'run_id' | 'attempt'> & {
  /** A file name: the bytes are then uploaded, however few they are. */
  readonly name?: string
  readonly media_type?: string
  /** Names the delivery, for handlers in which its place can differ between attempts. */
  readonly key?: string
}
export type Delivered = { readonly artifact_id: string; readonly version: string }

/** Beyond this they go by upload. The server takes 128 KiB in a call. */
const INLINE_BYTES_MAX = 96 * 1024

export function createCommit(job: RunState, steps: Steps): (content: Content, options?: CommitOptions) => Promise<Delivered> {
  const { client, signal } = job

  async function payloadOf(task_id: string, content: Content, { name, media_type }: CommitOptions): Promise<CommitInput['payload']> {
    if (typeof content === 'object' && 'kind' in content) return content
    const usual = typeof content === 'string' ? 'text/plain;charset=utf-8' : 'application/octet-stream'
    const blob = content instanceof Blob ? content : new Blob([content])
    const type = media_type ?? (blob.type === '' ? usual : blob.type)
    if (blob.size > INLINE_BYTES_MAX || name !== undefined) {
      const about = { task_id, media_type: type, ...(name === undefined ? {} : { name }) }
      const { uri, checksum, size } = await job.effect(() => client.upload('collaboration/artifact.upload', about, blob, { signal }))
      return { kind: 'blob', uri, checksum, size }
    }
    return { kind: 'inline', uri: `data:${type};base64,${base64Of(new Uint8Array(await blob.arrayBuffer()))}` }
  }

  return async (content, { key, name, media_type, ...commit } = {}) => {
    const { task_id } = job.item.run
    if (task_id === null) throw new TypeError('this run has no task: return the result instead')
    const about = { ...(name === undefined ? {} : { name }), ...(media_type === undefined ? {} : { media_type }) }
    const deliver = async (idempotencyKey: string): Promise<Delivered> => {
      const delivery = { ...commit, task_id, run_id: job.id, payload: await payloadOf(task_id, content, about) }
      const { artifact } = await job.effect(() =>
        client.collaboration.artifact.commit({ ...delivery, attempt: job.attempt }, { idempotencyKey, signal }),
      )
      return { artifact_id: artifact.id, version: artifact.version }
    }
    if (commit.final === false) return steps.once('commit', key, deliver)
    const delivered = await deliver(steps.keyOf('deliver', key))
    // The task is with its reviewers now, and the run has ended with it.
    job.isDelivered = true
    return delivered
  }
}

/** The bytes of an artifact that this agent can read. */
export async function openArtifact({ client, signal }: RunState, artifact_id: string, version?: string): Promise<Uint8Array<ArrayBuffer>> {
  const which = version === undefined ? { artifact_id } : { artifact_id, version }
  const { uri }: Output<'collaboration/artifact.download'> = await client.collaboration.artifact.download(which, { signal })
  const inline = /^data:[^,]*?(;base64)?,(.*)$/s.exec(uri)
  if (!inline) return (await client.download('collaboration/artifact.download', which, { signal })).bytes
  const [, isBase64, text] = inline
  const bytes = isBase64 === undefined ? new TextEncoder().encode(decodeURIComponent(text!)) : bytesOf(text!)
  if (bytes === null)
    throw new CountersignError({ code: 'INVALID_ANSWER', status: null, message: 'the bytes cannot be read', retryable: false })
  return bytes
}

// Encodes in portions, because the number of function arguments is limited.
const PORTION = 8_192
function base64Of(bytes: Uint8Array): string {
  let text = ''
  for (let i = 0; i < bytes.length; i += PORTION) text += String.fromCharCode(...bytes.subarray(i, i + PORTION))
  return btoa(text)
}
function bytesOf(base64: string): Uint8Array<ArrayBuffer> | null {
  try {
    return Uint8Array.from(atob(decodeURIComponent(base64)), (char) => char.charCodeAt(0))
  } catch {
    return null
  }
}
