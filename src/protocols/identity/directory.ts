// What other protocols may know about people and agents, behind the kernel's port: protocols never import one another.
import type { Subject } from '#kernel/identity.ts'
import type { Directory, People } from '#kernel/reader.ts'
import { Agent, User } from './schema.ts'

export const directory: Directory = async (read, id) => {
  const found = id.startsWith('user_') ? await read.raw(User, id) : id.startsWith('agent_') ? await read.raw(Agent, id) : null
  if (!found) return null
  let subject = subjects.get(found)
  if (!subject) subjects.set(found, (subject = subjectOf(id, found)))
  return subject
}

/** Every call asks for the same few, and a document never changes: there is another one then. */
const subjects = new WeakMap<User | Agent, Subject>()

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

const PAGE = 500

/** Asked for where the person who is meant cannot answer: seldom, so that no index of its own is kept for it. */
export const people: People = async (read, project_id) => {
  const found: Subject[] = []
  const [name, prefix] = project_id === null ? ['all', []] : ['project', [project_id]]
  for (let after: string | undefined; ;) {
    const listed = await read.list(User, name, [prefix], { after, limit: PAGE })
    const subjects = await Promise.all(listed.map(({ id }) => directory(read, id)))
    for (const subject of subjects) if (subject !== null && (project_id !== null || subject.isChief)) found.push(subject)
    if (listed.length < PAGE) return found
    after = listed.at(-1)!.at
  }
}
