// Versions of artifacts for their readers: the readers of the task that made them, and the executor of a task whose spec names
// them as inputs, for as long as it is the executor.
import { Refusal } from '#kernel/declare/errors.ts'
import type { Actor } from '#kernel/declare/access.ts'
import type { Read } from '#kernel/declare/operation.ts'
import { ArtifactHead, ArtifactVersion, Task, versionId } from '../schema.ts'

/** The version if the actor can read it; otherwise null. */
export async function readableVersion(read: Read, artifact_id: string, version: string, actor: Actor): Promise<ArtifactVersion | null> {
  const id = versionId(artifact_id, version)
  // Check the inputs first: otherwise a permitted read by the executor would be recorded as a refused access.
  return (await isInputOf(read, id, actor)) ? read.raw(ArtifactVersion, id) : read.maybe(ArtifactVersion, id)
}

type Asked = { readonly artifact_id: string; readonly version?: string | undefined }
/** The requested version, or the newest one. Only readers of its task learn which version is the newest. */
export async function versionFor(read: Read, asked: Asked, actor: Actor): Promise<ArtifactVersion> {
  const { artifact_id, version = (await read(ArtifactHead, artifact_id)).version } = asked
  const found = await readableVersion(read, artifact_id, version, actor)
  if (found) return found
  await read(ArtifactHead, artifact_id)
  throw new Refusal('NOT_FOUND', `there is no version ${version} of ${artifact_id}`)
}

/** A task and its inputs are in one project, so checking one task that names the version is enough. */
async function isInputOf(read: Read, version_id: string, actor: Actor): Promise<boolean> {
  const [listed] = await read.list(Task, 'input', [[actor.id, version_id]], { limit: 1 })
  const task = listed ? await read.maybe(Task, listed.id) : null
  return task !== null && task.executor === actor.id
}
