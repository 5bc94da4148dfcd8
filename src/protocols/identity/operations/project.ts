// Projects: the scope of visibility, of `seq` and of the chain. Documents outside of an actor's projects are reported as not found.
import { Refusal } from '#kernel/declare/errors.ts'
import { image } from '#kernel/declare/facts.ts'
import { anyone, type Actor, type ProjectRole } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, query, rule, type Read, freshProof } from '#kernel/declare/operation.ts'
import { cursorOf, nextCursor, pageInput, pageSize, placeOf } from '#kernel/declare/paging.ts'
import { t } from '#kernel/declare/schema.ts'
import { fact } from '../events.ts'
import { administrators, projectOwner, shownTo } from '../access.ts'
import { Agent, DEFAULT_PROJECT, MemberId, Name, Project, ProjectId, ProjectRole as RoleIn, User } from '../schema.ts'

const Role = { ...RoleIn, description: 'an owner administers the project, a member works in it, a viewer reads it; member by default' }

const add = command({
  name: 'project.add',
  summary: 'Create a project. A person who creates one owns it.',
  draft: 'ours: identity is the host’s (HACP 0.1.0, Scope)',
  input: t.Object({ id: t.Optional(ProjectId), name: Name }),
  output: t.Object({ project: Project.schema }),
  callers: administrators,
  requires: [],
  isStep: true,
  audit: 'project.added',
  async load(read, { id }, { actor }) {
    return {
      taken: id !== undefined && (await read.raw(Project, id)) !== null,
      creator: actor.kind === 'human' ? await read(User, actor.id) : null,
    }
  },
  decide({ taken, creator }, { id, name }, { now, newId }) {
    if (taken) throw new Refusal('CONFLICT', `there is a project ${id} already`)
    const project: Project = { id: id ?? newId('project'), name, created_at: now }
    const joined = creator && image(User, { ...creator, projects: withRole(creator.projects, project.id, 'owner') })
    return { facts: [fact('project.added', joined ? [image(Project, project), joined] : [image(Project, project)])], output: { project } }
  },
  example: { given: 'empty', as: 'admin', input: { id: 'project_blue', name: 'Blue' } },
})

type Memberships = User['projects']
function withRole(projects: Memberships, project_id: string, role: ProjectRole | null): Memberships {
  const others = projects.filter((membership) => membership.project_id !== project_id)
  return role === null ? others : [...others, { project_id, role }]
}

const get = query({
  name: 'project.get',
  summary: 'Fetch one project.',
  draft: 'ours: identity',
  input: t.Object({ project_id: ProjectId }),
  output: t.Object({ project: Project.schema }),
  callers: [anyone],
  load: async (read, { project_id }) => ({ project: await read(Project, project_id) }),
  view: ({ project }) => ({ project }),
  example: { given: 'empty', as: 'alice', input: { project_id: DEFAULT_PROJECT } },
})

const list = query({
  name: 'project.list',
  summary: 'List the projects that you are in.',
  draft: 'ours: identity',
  input: t.Object({ ...pageInput }),
  output: t.Object({ items: t.Array(Project.schema), next_cursor: nextCursor }),
  callers: [anyone],
  async load(read, input, { actor }) {
    const place = placeOf('project.list', input)
    const limit = pageSize(input)
    const ids =
      actor.projects === 'all' || actor.owner
        ? (await read.list(Project, 'all', [[]], { after: place, limit })).map(({ id }) => id)
        : [...actor.projects.keys()]
            .sort()
            .filter((id) => place === undefined || id > place)
            .slice(0, limit)
    return { ids, projects: await Promise.all(ids.map((id) => read.maybe(Project, id))) }
  },
  view({ ids, projects }, input) {
    const last = ids.length === pageSize(input) ? ids.at(-1) : undefined
    return { items: projects.filter((project) => project !== null), next_cursor: last ? cursorOf('project.list', input, last) : null }
  },
  example: { given: 'empty', as: 'alice', input: {} },
})

type Joining = { readonly project: Project; readonly member: User | Agent }
const memberOutput = t.Object({ member: t.Union([User.schema, Agent.schema]) })

function moveMember({ project, member }: Joining, action: 'project.joined' | 'project.left', role: ProjectRole | null, actor: Actor) {
  const next = { ...member, projects: withRole(member.projects, project.id, role) }
  const imaged = next.kind === 'human' ? image(User, next) : image(Agent, next)
  return {
    facts: [fact(action, [imaged], { detail: { project_id: project.id, ...(role ? { role } : {}) } })],
    output: { member: shownTo(actor, next) },
  }
}

const join = command({
  name: 'project.join',
  summary: 'Put a person or an agent into a project, or change their role in it.',
  draft: 'ours: identity',
  input: t.Object({ project_id: ProjectId, subject: MemberId, role: t.Optional(Role) }),
  output: memberOutput,
  callers: [...administrators, projectOwner],
  requires: [
    freshProof(),
    rule<Joining>(
      'PRECONDITION_FAILED',
      `a subject is in at most ${limits.projectsPerSubjectMax} projects`,
      ({ member }) => member.projects.length < limits.projectsPerSubjectMax,
      `the subject is in ${limits.projectsPerSubjectMax} projects, which is the most: take it out of one first`,
    ),
    rule<Joining, { role?: string }>(
      'PRECONDITION_FAILED',
      'agents have the role member',
      ({ member }, { role = 'member' }) => member.kind === 'human' || role === 'member',
      'only people own or view projects: give an agent the role member',
    ),
  ],
  isStep: true,
  audit: 'project.joined',
  load: async (read, { project_id, subject }) => ({ project: await read(Project, project_id), member: await memberOf(read, subject) }),
  decide: (state, { role = 'member' }, { actor }) => moveMember(state, 'project.joined', role, actor),
  example: { given: 'empty', as: 'admin', input: { project_id: DEFAULT_PROJECT, subject: 'user_mallory' } },
})

const leave = command({
  name: 'project.leave',
  summary: 'Take a person or an agent out of a project.',
  draft: 'ours: identity',
  input: t.Object({ project_id: ProjectId, subject: MemberId }),
  output: memberOutput,
  callers: [...administrators, projectOwner],
  requires: [
    rule<Joining>(
      'PRECONDITION_FAILED',
      'the subject is in the project',
      ({ project, member }) => member.projects.some((m) => m.project_id === project.id),
      'the subject is not in the project',
      ({ project, member }) =>
        'by_groups' in member && member.by_groups?.some((one) => one.project_id === project.id) === true
          ? 'the person is in the project by a group of an issuer: change that, or group.unlink takes the group out'
          : 'the subject is not in the project',
    ),
  ],
  isStep: true,
  audit: 'project.left',
  load: async (read, { project_id, subject }) => ({ project: await read(Project, project_id), member: await memberOf(read, subject) }),
  decide: (state, _, { actor }) => moveMember(state, 'project.left', null, actor),
  example: { given: 'empty', as: 'admin', input: { project_id: DEFAULT_PROJECT, subject: 'user_bob' } },
})

async function memberOf(read: Read, id: string): Promise<User | Agent> {
  // An actor who can add members can name any registered subject, even one that they cannot see yet.
  const member = id.startsWith('user_') ? await read.raw(User, id) : await read.raw(Agent, id)
  if (!member) throw new Refusal('NOT_FOUND', `there is no ${id.startsWith('user_') ? 'user' : 'agent'} ${id}`)
  return member
}

export const projectOperations = [add, get, list, join, leave]
