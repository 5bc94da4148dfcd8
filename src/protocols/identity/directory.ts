// What other protocols may know about people and agents, behind the kernel's port: protocols never import one another.
import type { Directory } from '#kernel/reader.ts'
import { Agent, User } from './schema.ts'

export const directory: Directory = async (read, id) => {
  const found = id.startsWith('user_') ? await read.raw(User, id) : id.startsWith('agent_') ? await read.raw(Agent, id) : null
  if (!found) return null
  return {
    id,
    kind: found.kind,
    disabled: found.disabled,
    owner: found.kind === 'agent' ? found.owner : null,
    sealKey: found.kind === 'agent' ? (found.seal_key ?? null) : null,
    projects: new Map(found.projects.map(({ project_id, role }) => [project_id, role])),
  }
}
