// Who may administer whom. Reads as: the administrator, an owner of this installation, or whoever the thing belongs to.
import { administrator, installationOwner, ownsProject, role, system } from '#kernel/identity.ts'
import { Refusal } from '#kernel/errors.ts'
import type { Read } from '#kernel/operation.ts'
import { ADMIN_SERVICE, Agent, Project, User } from './schema.ts'

export const administrators = [system, administrator, installationOwner]

type OfSubject = { readonly subject: Subject }
/** An agent's owner, a project's owner, or the person themself. */
export const keeper = role<OfSubject>('keeper', (actor, { subject }) => {
  if (actor.kind !== 'human') return false
  if (subject.kind === 'agent') return subject.owner === actor.id
  if (subject.kind === 'project') return ownsProject(actor, subject.id)
  return subject.kind === 'human' && subject.id === actor.id
})

type OfProject = { readonly project: { readonly id: string } }
export const projectOwner = role<OfProject>(
  'project owner',
  (actor, { project }) => actor.kind === 'human' && ownsProject(actor, project.id),
)
export const projectMember = role<OfProject>(
  'project member',
  (actor, { project }) => actor.projects !== 'all' && actor.projects.has(project.id),
)

export type Subject =
  | { readonly kind: 'human' | 'project' | 'service'; readonly id: string; readonly disabled: boolean }
  | { readonly kind: 'agent'; readonly id: string; readonly owner: string; readonly disabled: boolean }

/** Whom a key speaks for. */
export async function subjectOf(read: Read, id: string): Promise<Subject> {
  if (id === ADMIN_SERVICE) return { kind: 'service', id, disabled: false }
  if (id.startsWith('user_')) return { kind: 'human', id, disabled: (await read(User, id)).disabled }
  if (id.startsWith('project_')) return { kind: 'project', id: (await read(Project, id)).id, disabled: false }
  if (!id.startsWith('agent_')) throw new Refusal('NOT_FOUND', `there is no subject ${id}`)
  const { owner, disabled } = await read(Agent, id)
  return { kind: 'agent', id, owner, disabled }
}
