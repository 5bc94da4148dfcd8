// The directory: the part of people and agents that other protocols can read, behind the kernel's port, since protocols never import one
// another.
import type { PeopleSought, Subject } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import type { Directory, People } from '#kernel/call/reader.ts'
import { Agent, EVERYWHERE, User } from './schema.ts'

export const directory: Directory = async (read, id) => {
  const found = id.startsWith('user_') ? await read.raw(User, id) : id.startsWith('agent_') ? await read.raw(Agent, id) : null
  return found === null ? null : subjectOf(id, found)
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
    sealKey: found.kind === 'agent' ? (found.seal_key ?? null) : null,
    projects: new Map(found.projects.map(({ project_id, role }) => [project_id, role])),
  }
}

type Row = readonly [
  index: 'active' | 'owner' | 'substitute',
  prefixes: readonly (readonly string[])[],
  after?: string | undefined,
  limit?: number,
]
/** Rows that show that a project has people, even if one of them leaves in the same call. */
const SOME = 10
function rowsOf(sought: PeopleSought): Row {
  if ('someOf' in sought) return ['active', [[sought.someOf]], undefined, SOME]
  if ('ownersOf' in sought) return ['owner', [[sought.ownersOf]]]
  if ('chiefs' in sought) return ['owner', [[EVERYWHERE]]]
  const { substitutesOf, in: project_id, at } = sought
  // The index is sorted by end time, so reading from now on skips substitutions that have ended.
  return ['substitute', [project_id, EVERYWHERE].map((where) => [substitutesOf, where]), at]
}

/** The index shows the state before the call, so a person who changes in the same call is checked by the document. */
export const people: People = async (read, sought) => {
  const [name, prefixes, after, limit = limits.peopleSoughtMax] = rowsOf(sought)
  const listed = await read.list(User, name, prefixes, { after, limit })
  const ids = [...new Set(listed.map(({ id }) => id))].sort()
  const found = await Promise.all(ids.map((id) => directory(read, id)))
  return found.filter((subject) => subject !== null && !subject.disabled) as Subject[]
}
