// Groups: names for several people of a project, so that an agent can say whom to turn to without knowing who is on duty.
import { Refusal } from '#kernel/declare/errors.ts'
import { image } from '#kernel/declare/facts.ts'
import { anyone, heldBy, installationOwner, isIn, ownsProject, role, type Actor } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, query, rule, type Bound, type Read } from '#kernel/declare/operation.ts'
import { leftOut, moreProjects, projectInput, projectsFor } from '#kernel/declare/projects.ts'
import { either, t, type Static } from '#kernel/declare/schema.ts'
import { fact } from '../events.ts'
import { isPersonOf } from '../asking/recipients.ts'
import { GroupName, Id } from '../schema.ts'
import { Group, groupId } from '../asking/preferences.ts'

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

const ListedGroup = t.Object({
  ...Group.schema.properties,
  linked: t.Array(t.Object({ issuer: t.String(), claim: t.String(), role: either('owner', 'member', 'viewer') }), {
    description: 'groups of issuers whose people are in it by their sign-in (group.link); for people alone',
  }),
  by_sign_in: t.Array(Id, { description: 'the people whom these groups put into it' }),
})
type ListedGroup = Static<typeof ListedGroup>

/** The groups of a project by name: those with members of their own, and those that issuers fill. */
async function listedIn(read: Read, project_id: string, groups: readonly Group[], actor: Actor): Promise<ListedGroup[]> {
  const links = Map.groupBy(await read.ports.names.groupLinks(read, project_id), ({ name }) => name)
  const known = new Map(groups.map((group) => [group.name, group]))
  const empty = (name: string, at: string): Group => ({
    id: groupId(project_id, name),
    project_id,
    name,
    members: [],
    updated_at: at,
    removed_at: null,
  })
  const isShown = actor.kind !== 'agent'
  return Promise.all(
    [...new Set([...known.keys(), ...links.keys()])].toSorted().map(async (name) => {
      const linked = links.get(name) ?? []
      const people = linked.length === 0 ? [] : await read.people({ inGroup: name, of: project_id })
      return {
        ...(known.get(name) ?? empty(name, linked[0]!.at)),
        linked: isShown ? linked.map(({ issuer, claim, role }) => ({ issuer, claim, role })) : [],
        by_sign_in: people.map(({ id }) => id),
      }
    }),
  )
}

const list = query({
  name: 'group.list',
  summary: 'List the groups of a project.',
  draft: 'ours: whom to escalate to',
  input: t.Object(projectInput),
  output: t.Object({ items: t.Array(ListedGroup), ...moreProjects }),
  callers: [anyone],
  async load(read, input, { actor }) {
    const { ids, more } = await projectsFor(read, input, actor)
    const items: ListedGroup[] = []
    let looked = 0
    // Whole projects, until one answer is full.
    for (; looked < ids.length && items.length < limits.pageMax; looked++) {
      const listed = await read.list(Group, 'project', [[ids[looked]!]], { limit: limits.groupsPerProjectMax })
      const found = await Promise.all(listed.map(({ id }) => read.maybe(Group, id)))
      items.push(
        ...(await listedIn(
          read,
          ids[looked]!,
          found.filter((group) => group !== null),
          actor,
        )),
      )
    }
    return { items, ...leftOut((more.more_projects ?? 0) + ids.length - looked) }
  },
  view: (found) => found,
  example: { given: 'grouped', as: 'devin', input: {} },
})

const remove = command({
  name: 'group.remove',
  summary: 'Remove a group of a project. Escalations and rules for approvals then reach only the people whom issuers put into it.',
  draft: 'ours: whom to escalate to',
  input: t.Object({ project_id: t.Optional(Id), name: GroupName }),
  output: t.Object({ group: Group.schema }),
  callers: keepers,
  requires: [
    rule<OfProject & { group: Group | null }>(
      'NOT_FOUND',
      'the project has this group',
      ({ group }) => group?.removed_at === null,
      'the project has no such group with members of its own: group.unlink takes out the groups of issuers',
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
