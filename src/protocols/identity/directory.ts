// The directory: the part of people and agents that other protocols can read, behind the kernel's port, since protocols never import one
// another.
import type { PeopleSought, Subject } from '#kernel/declare/access.ts'
import type { Read } from '#kernel/declare/operation.ts'
import { limits } from '#kernel/limits.ts'
import type { Directory, People } from '#kernel/call/reader.ts'
import { withLinksNow } from './groups.ts'
import { Agent, EVERYWHERE, GroupLink, membershipsOf, User } from './schema.ts'

export const directory: Directory = async (read, id) => {
  const found = id.startsWith('user_') ? await read.raw(User, id) : id.startsWith('agent_') ? await read.raw(Agent, id) : null
  if (found === null) return null
  return subjectOf(id, found.kind === 'human' ? await withLinksNow((link) => read.raw(GroupLink, link), found) : found)
}

function subjectOf(id: string, found: User | Agent): Subject {
  return {
    id,
    kind: found.kind,
    disabled: found.disabled,
    owner: found.kind === 'agent' ? found.owner : null,
    standsInFor:
      found.kind === 'human'
        ? found.acts_for.map(({ user_id, from, until, project_id }) => ({
            id: user_id,
            from,
            until,
            ...(project_id ? { project_id } : {}),
          }))
        : [],
    isChief: found.kind === 'human' && found.role === 'owner',
    ...(found.kind === 'human' && found.role === 'auditor' ? { isAuditor: true } : {}),
    sealKey: found.kind === 'agent' ? (found.seal_key ?? null) : null,
    projects: new Map(membershipsOf(found).map(({ project_id, role }) => [project_id, role])),
    ...(found.kind === 'human' && found.by_groups !== undefined
      ? { groups: new Set(found.by_groups.map(({ project_id, group }) => `${project_id}/${group}`)) }
      : {}),
  }
}

type Row = readonly [
  index: 'active' | 'owner' | 'substitute' | 'grouped',
  prefixes: readonly (readonly string[])[],
  after?: string | undefined,
  limit?: number,
]
/** Rows that show that a project has people, even if one of them leaves in the same call. */
const SOME = 10
function rowsOf(sought: Exclude<PeopleSought, { agentOwnersIn: string }>): Row {
  if ('someOf' in sought) return ['active', [[sought.someOf]], undefined, SOME]
  if ('ownersOf' in sought) return ['owner', [[sought.ownersOf]]]
  if ('chiefs' in sought) return ['owner', [[EVERYWHERE]]]
  if ('inGroup' in sought) return ['grouped', [[sought.of, sought.inGroup]]]
  const { substitutesOf, in: project_id, at } = sought
  // The index is sorted by end time, so reading from now on skips substitutions that have ended.
  return ['substitute', [project_id, EVERYWHERE].map((where) => [substitutesOf, where]), at]
}

/** The index shows the state before the call, so a person who changes in the same call is checked by the document. */
export const people: People = async (read, sought) => {
  if ('agentOwnersIn' in sought) return agentOwners(read, sought.agentOwnersIn)
  const [name, prefixes, after, limit = limits.peopleSoughtMax] = rowsOf(sought)
  const listed = await read.list(User, name, prefixes, { after, limit })
  const ids = [...new Set(listed.map(({ id }) => id))].sort()
  const found = await Promise.all(ids.map((id) => directory(read, id)))
  const isMeant = (subject: Subject): boolean => !('inGroup' in sought) || subject.groups?.has(`${sought.of}/${sought.inGroup}`) === true
  return found.filter((subject) => subject !== null && !subject.disabled && isMeant(subject)) as Subject[]
}

async function agentOwners(read: Read, project_id: string): Promise<readonly Subject[]> {
  const listed = await read.list(Agent, 'under', [[project_id]], { limit: limits.peopleSoughtMax })
  const agents = await Promise.all(listed.map(({ id }) => read.raw(Agent, id)))
  const owners = [...new Set(agents.flatMap((agent) => (agent === null || agent.disabled ? [] : [agent.owner])))]
  return (await Promise.all(owners.map((id) => directory(read, id)))).filter((one) => one !== null)
}
