// Names of people, agents and projects, behind the kernel's port.
import type { Names } from '#kernel/ports/names.ts'
import { Agent, Project, User } from './schema.ts'

export const names: Names = {
  async named(read, id) {
    if (id.startsWith('agent_')) return read.raw(Agent, id)
    const kind = id.startsWith('user_') ? User : id.startsWith('project_') ? Project : null
    const found = kind === null ? null : await read.raw(kind, id)
    return found && { name: found.name, created_at: found.created_at, owner: null }
  },
  async projects(read, limit) {
    return (await read.list(Project, 'all', [[]], { limit })).map(({ id }) => id)
  },
}
