// Readers of the record: who can read all of it, and the size of a portion.
import { Refusal } from '#kernel/declare/errors.ts'
import type { Read } from '#kernel/declare/operation.ts'
import { type Actor, forAgentsToo, heldBy, readsProject, role, SYSTEM_SCOPE } from '#kernel/declare/access.ts'

type OfProject = { readonly project_id: string | null }
/** The whole record of a project is for its owners; identity facts are for owners of the installation. */
export const recordKeeper = heldBy(
  'an owner of the project',
  role<OfProject>('project owner', (actor, { project_id }) => {
    if (project_id === null) return false
    return project_id === SYSTEM_SCOPE ? actor.kind === 'human' && actor.owner === true : readsProject(actor, project_id)
  }),
)
/** The record of one task is for its readers. Loading the task has already refused all others. */
export const taskReader = forAgentsToo(
  heldBy(
    'a reader of the named task',
    role<OfProject>('reader of the named task', (_, { project_id }) => project_id === null),
  ),
)

/** A foreign project is reported as not found. Identity facts are in a scope that all actors share; a role guards them. */
export function refuseForeignProject(project_id: string, actor: Actor): void {
  if (project_id !== SYSTEM_SCOPE && actor.projects !== 'all' && !actor.projects.has(project_id)) {
    throw new Refusal('NOT_FOUND', `there is no project ${project_id}`)
  }
}

/** The chain of a project that the actor is in, with its head. */
export async function chainOf(
  read: Read,
  { project_id = 'project_default' }: { readonly project_id?: string },
  { actor }: { readonly actor: Actor },
) {
  refuseForeignProject(project_id, actor)
  const { seq, hash } = await read.head(project_id)
  return { project_id, head: { seq, hash } }
}

/** Facts per read. The number is small because each fact includes its images. */
export const PORTION = 25

/** The position in the record that a cursor names. */
export function numberIn(place: string): number {
  const found = Number(place)
  if (!Number.isSafeInteger(found) || found < 0)
    throw new Refusal('INVALID_REQUEST', 'cursor must be the next_cursor of an answer: leave it out to begin at the start', {
      field: 'cursor',
    })
  return found
}
