// People: added by an administrator, switched off rather than deleted, because the record names them for ever.
import { Refusal } from '#kernel/declare/errors.ts'
import { image } from '#kernel/declare/facts.ts'
import { anyone } from '#kernel/declare/access.ts'
import { command, query, freshProof } from '#kernel/declare/operation.ts'
import { nextCursor, pageIn, pageInput, pageOf } from '#kernel/declare/paging.ts'
import { t } from '#kernel/declare/schema.ts'
import { fact } from '../events.ts'
import { administrators, seenProjects, shownTo } from '../access.ts'
import { DEFAULT_PROJECT, InstallationRole, Name, Project, ProjectId, User, UserId } from '../schema.ts'

const Role = {
  ...InstallationRole,
  description:
    'in the installation: an owner administers it, an auditor reads every project and changes nothing, a member has their projects',
}

const add = command({
  name: 'user.add',
  summary: 'Register a person.',
  draft: 'ours: identity is the host’s (HACP 0.1.0, Scope)',
  input: t.Object({
    id: t.Optional(UserId),
    name: Name,
    role: t.Optional(Role),
    project_id: t.Optional(
      t.Union([ProjectId, t.Null()], { description: 'the project to join as a member; project_default by default, null for none' }),
    ),
  }),
  output: t.Object({ user: User.schema }),
  callers: administrators,
  requires: [freshProof()],
  isStep: true,
  audit: 'user.added',
  async load(read, { id, project_id = DEFAULT_PROJECT }) {
    if (project_id !== null) await read(Project, project_id)
    return { taken: id !== undefined && (await read.raw(User, id)) !== null }
  },
  decide({ taken }, { id, name, role = 'member', project_id = DEFAULT_PROJECT }, { now, newId }) {
    if (taken) throw new Refusal('CONFLICT', `there is a user ${id} already`)
    const projects = project_id === null ? [] : [{ project_id, role: 'member' as const }]
    const user: User = { id: id ?? newId('user'), kind: 'human', name, role, projects, acts_for: [], disabled: false, created_at: now }
    return { facts: [fact('user.added', [image(User, user)])], output: { user } }
  },
  example: { given: 'empty', as: 'admin', input: { id: 'user_nora', name: 'Nora' } },
})

const get = query({
  name: 'user.get',
  summary: 'Fetch one person.',
  draft: 'ours: identity',
  input: t.Object({ user_id: UserId }),
  output: t.Object({ user: User.schema }),
  callers: [anyone],
  load: async (read, { user_id }) => ({ user: await read(User, user_id) }),
  view: ({ user }, _, { actor }) => ({ user: shownTo(actor, user) }),
  example: { given: 'empty', as: 'alice', input: { user_id: 'user_alice' } },
})

const list = query({
  name: 'user.list',
  summary: 'List the people of a project, or of the installation.',
  draft: 'ours: identity',
  input: t.Object({ project_id: t.Optional(ProjectId), ...pageInput }),
  output: t.Object({ items: t.Array(User.schema), next_cursor: nextCursor }),
  callers: [anyone],
  async load(read, input, { actor }) {
    const { project_id } = input
    if (project_id !== undefined) await read(Project, project_id)
    const projects = project_id === undefined ? seenProjects(actor) : [project_id]
    const [name, prefixes] = projects === null ? ['all', [[]]] : ['project', projects.map((id) => [id])]
    const listed = await read.list(User, name, prefixes, pageIn('user.list', input))
    return { listed, users: await Promise.all(listed.map(({ id }) => read.maybe(User, id))) }
  },
  view({ listed, users }, input, { actor }) {
    const seen = users.filter((user) => user !== null).map((user) => shownTo(actor, user))
    return pageOf('user.list', input, listed, seen)
  },
  example: { given: 'empty', as: 'alice', input: { project_id: DEFAULT_PROJECT } },
})

const update = command({
  name: 'user.update',
  summary: 'Rename a person, change their role, or switch them off and on.',
  draft: 'ours: identity',
  input: t.Object({
    user_id: UserId,
    name: t.Optional(Name),
    role: t.Optional(Role),
    disabled: t.Optional(t.Boolean()),
  }),
  output: t.Object({ user: User.schema }),
  callers: administrators,
  requires: [freshProof()],
  isStep: true,
  audit: 'user.updated',
  load: async (read, { user_id }) => ({ user: await read(User, user_id) }),
  decide({ user }, { user_id: _, ...changes }) {
    const next: User = { ...user, ...changes }
    return { facts: [fact('user.updated', [image(User, next)])], output: { user: next } }
  },
  example: { given: 'empty', as: 'admin', input: { user_id: 'user_bob', name: 'Bob B.' } },
})

export const userOperations = [add, get, list, update]
