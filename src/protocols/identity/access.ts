// Roles of administration: the administrator, an owner of this installation, or the person to whom a document belongs.
import { administrator, heldBy, installationOwner, isWhole, ownsProject, role, system, type Actor } from '#kernel/declare/access.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { rule, type Read } from '#kernel/declare/operation.ts'
import { ADMIN_SERVICE, Agent, Project, User } from './schema.ts'

export const administrators = [system, administrator, installationOwner]

/**
 * The projects whose members the actor can see; null means all. A list that read all members and filtered them afterwards would reveal
 * the hidden ones in its cursors.
 */
export const seenProjects = (actor: Actor): string[] | null =>
  actor.projects === 'all' || (actor.kind === 'human' && actor.owner === true) ? null : [...actor.projects.keys()]

type OfSubject = { readonly subject: Subject }
/** An agent's owner, a project's owner, or the person themself. */
export const keeper = heldBy(
  'the person it belongs to',
  role<OfSubject>('keeper', (actor, { subject }) => {
    if (actor.kind !== 'human' || !isWhole(actor)) return false
    if (subject.kind === 'agent') return subject.owner === actor.id
    if (subject.kind === 'project') return ownsProject(actor, subject.id)
    return subject.kind === 'human' && subject.id === actor.id
  }),
)

/** A credential that expires or is limited to one project must not issue one without these limits. */
export const mayPassOn = rule<unknown>(
  'UNAUTHORIZED',
  'your key is not a narrowed one: such a key issues no credentials',
  (_, __, { actor }) => !actor.narrowed,
  'a narrowed key cannot issue credentials: use a full key',
)

export const isActivePerson = rule<{ user: User }>(
  'PRECONDITION_FAILED',
  'the person is active',
  ({ user }) => !user.disabled,
  'the person is switched off: switch them on first',
)

type OfProject = { readonly project: { readonly id: string } }
export const projectOwner = heldBy(
  'an owner of the project',
  role<OfProject>('project owner', (actor, { project }) => actor.kind === 'human' && ownsProject(actor, project.id)),
)

export type Subject =
  | { readonly kind: 'human' | 'project' | 'service'; readonly id: string; readonly disabled: boolean }
  | { readonly kind: 'agent'; readonly id: string; readonly owner: string; readonly disabled: boolean }

export async function subjectOf(read: Read, id: string): Promise<Subject> {
  if (id === ADMIN_SERVICE) return { kind: 'service', id, disabled: false }
  if (id.startsWith('user_')) return { kind: 'human', id, disabled: (await read(User, id)).disabled }
  if (id.startsWith('project_')) return { kind: 'project', id: (await read(Project, id)).id, disabled: false }
  if (!id.startsWith('agent_')) throw new Refusal('NOT_FOUND', `there is no subject ${id}`)
  const { owner, disabled } = await read(Agent, id)
  return { kind: 'agent', id, owner, disabled }
}

/** A person or an agent as the actor sees them, with only the projects that the actor can see. */
export function shownTo<M extends User | Agent>(actor: Actor, member: M): M {
  if (actor.projects === 'all' || actor.owner || actor.id === member.id) return member
  const { projects } = actor
  const isSeen = ({ project_id }: { readonly project_id: string }): boolean => projects.has(project_id)
  const shown = { ...member, projects: member.projects.filter(isSeen) }
  if ('by_groups' in shown && shown.by_groups !== undefined) shown.by_groups = shown.by_groups.filter(isSeen)
  // Only the two people involved see a substitution.
  return 'acts_for' in shown ? { ...shown, acts_for: shown.acts_for.filter(({ user_id }) => user_id === actor.id) } : shown
}
