// Names of people, agents and projects, behind the kernel's port.
import type { Names } from '#kernel/ports/names.ts'
import { limits } from '#kernel/limits.ts'
import { Agent, GroupLink, KeyNames, Project, User } from './schema.ts'

export const names: Names = {
  async named(read, id) {
    if (id.startsWith('agent_')) return read.raw(Agent, id)
    const kind = id.startsWith('user_') ? User : id.startsWith('project_') ? Project : null
    const found = kind === null ? null : await read.raw(kind, id)
    return found && { name: found.name, created_at: found.created_at, owner: null }
  },
  async groupLinks(read, project_id) {
    const listed = await read.list(GroupLink, 'place', [[project_id]], { limit: limits.groupsPerProjectMax })
    const found = await Promise.all([...new Set(listed.map(({ id }) => id))].map((id) => read.raw(GroupLink, id)))
    return found.flatMap((link) =>
      link === null
        ? []
        : link.places
            .filter((one) => one.project_id === project_id)
            .map(({ name, role, at }) => ({ name, role, at, issuer: link.issuer, claim: link.claim })),
    )
  },
  async receiptKeys(read) {
    return (await read.raw(KeyNames, 'keys'))?.signing ?? []
  },
  async projects(read, limit) {
    return (await read.list(Project, 'all', [[]], { limit })).map(({ id }) => id)
  },
}
