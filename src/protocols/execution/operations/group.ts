// Groups: names for several people of a project, so that an agent can say whom to turn to without knowing who is on duty.
import { Refusal } from '#kernel/declare/errors.ts'
import { image } from '#kernel/declare/facts.ts'
import { anyone, heldBy, installationOwner, isIn, ownsProject, role, type Actor } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, query, rule, type Bound } from '#kernel/declare/operation.ts'
import { leftOut, moreProjects, projectInput, projectsFor } from '#kernel/declare/projects.ts'
import { t } from '#kernel/declare/schema.ts'
import { fact } from '../events.ts'
import { isPersonOf } from '../asking/recipients.ts'
import { Id } from '../schema.ts'
import { Group, groupId, GroupName } from '../asking/preferences.ts'

type OfProject = { readonly project_id: string }
const projectOwner = heldBy(
  'an owner of the project',
  role<OfProject>('project owner', (actor, { project_id }) => actor.kind === 'human' && ownsProject(actor, project_id)),
)
const keepers = [projectOwner, installationOwner]

function projectFor(actor: Actor, project_id = 'project_default'): string {
  if (!isIn(actor, project_id)) throw new Refusal('NOT_FOUND', `there is no project ${project_id}`)
  return project_id
}
const boundOf = (project_id: string): Bound => ({
  doc: Group,
  index: 'project',
  prefix: [project_id],
  max: limits.groupsPerProjectMax,
  message: `a project has at most ${limits.groupsPerProjectMax} groups`,
})

const set = command({
  name: 'group.set',
  summary: 'Set the members of a group of a project.',
  draft: 'ours: whom to escalate to',
  input: t.Object({
    project_id: t.Optional(Id),
    name: GroupName,
    members: t.Array(Id, { minItems: 1, maxItems: limits.groupMembersMax, uniqueItems: true }),
  }),
  output: t.Object({ group: Group.schema }),
  callers: keepers,
  requires: [],
  isStep: true,
  audit: 'group.set',
  async load(read, { name, members, ...input }, { actor }) {
    const project_id = projectFor(actor, input.project_id)
    await read.maybe(Group, groupId(project_id, name))
    const strangers: string[] = []
    for (const id of members) if (!(await isPersonOf(read, id, project_id))) strangers.push(id)
    return { project_id, strangers }
  },
  decide({ project_id, strangers }, { name, members }, { now }) {
    if (strangers.length > 0)
      throw new Refusal('NOT_FOUND', `there is no active person ${strangers[0]} in this project`, { field: 'members' })
    const group: Group = { id: groupId(project_id, name), project_id, name, members, updated_at: now, removed_at: null }
    return { facts: [fact('group.set', [image(Group, group)])], atMost: [boundOf(project_id)], output: { group } }
  },
  example: { given: 'empty', as: 'owner', input: { name: 'on-call', members: ['user_rita', 'user_bob'] } },
})

const list = query({
  name: 'group.list',
  summary: 'List the groups of a project.',
  draft: 'ours: whom to escalate to',
  input: t.Object(projectInput),
  output: t.Object({ items: t.Array(Group.schema), ...moreProjects }),
  callers: [anyone],
  async load(read, input, { actor }) {
    const { ids, more } = await projectsFor(read, input, actor)
    const items: Group[] = []
    let looked = 0
    // Whole projects, until one answer is full.
    for (; looked < ids.length && items.length < limits.pageMax; looked++) {
      const listed = await read.list(Group, 'project', [[ids[looked]!]], { limit: limits.groupsPerProjectMax })
      const found = await Promise.all(listed.map(({ id }) => read.maybe(Group, id)))
      items.push(...found.filter((group) => group !== null))
    }
    return { items, ...leftOut((more.more_projects ?? 0) + ids.length - looked) }
  },
  view: (found) => found,
  example: { given: 'grouped', as: 'devin', input: {} },
})

const remove = command({
  name: 'group.remove',
  summary: 'Remove a group of a project. Later escalations to it reach nobody.',
  draft: 'ours: whom to escalate to',
  input: t.Object({ project_id: t.Optional(Id), name: GroupName }),
  output: t.Object({ group: Group.schema }),
  callers: keepers,
  requires: [
    rule<OfProject & { group: Group | null }>(
      'NOT_FOUND',
      'the project has this group',
      ({ group }) => group?.removed_at === null,
      'the project has no such group',
    ),
  ],
  isStep: true,
  audit: 'group.removed',
  async load(read, { name, ...input }, { actor }) {
    const project_id = projectFor(actor, input.project_id)
    return { project_id, group: await read.maybe(Group, groupId(project_id, name)) }
  },
  decide({ group: there }, _, { now }) {
    const group: Group = { ...there!, members: [], updated_at: now, removed_at: now }
    return { facts: [fact('group.removed', [image(Group, group)])], output: { group } }
  },
  example: { given: 'grouped', as: 'owner', input: { name: 'on-call' } },
})

export const groupOperations = [set, list, remove]
