// Projects of a list: the named project, the default one, or all projects of the caller.
import { Refusal } from './errors.ts'
import { limits } from '../limits.ts'
import type { Actor } from './access.ts'
import type { Listed, ListPage, Read } from './operation.ts'
import { t, type AnyDoc, type Part } from './schema.ts'

const DEFAULT_PROJECT = 'project_default'

/** The fields of every list over projects. */
export const projectInput = {
  project_id: t.Optional(t.String({ minLength: 1, maxLength: limits.idCharsMax })),
  all_projects: t.Optional(
    t.Boolean({ description: `every project that you are in instead of one, at most ${limits.projectsPerListMax}; not with project_id` }),
  ),
}
/** The field in the answers of these lists. */
export const moreProjects = {
  more_projects: t.Optional(t.Integer({ description: 'projects of yours that this answer leaves out: all_projects takes them in' })),
}

type InProjects = { readonly project_id?: string | undefined; readonly all_projects?: boolean | undefined }
export type Projects = { readonly ids: readonly string[]; readonly more: { readonly more_projects?: number } }

/** The projects of a list, and how many of the caller's projects it leaves out if the call names none. A foreign project does not exist. */
export async function projectsFor(read: Read, { project_id, all_projects = false }: InProjects, actor: Actor): Promise<Projects> {
  if (project_id !== undefined) {
    if (all_projects) throw new Refusal('INVALID_REQUEST', 'give project_id or all_projects, not both', { field: 'all_projects' })
    if (actor.projects !== 'all' && !actor.projects.has(project_id)) throw new Refusal('NOT_FOUND', `there is no project ${project_id}`)
    return { ids: [project_id], more: {} }
  }
  const projects =
    actor.projects === 'all' ? await read.ports.names.projects(read, limits.projectsPerSubjectMax) : [...actor.projects.keys()]
  if (!all_projects && actor.projects !== 'all' && !actor.projects.has(DEFAULT_PROJECT))
    throw new Refusal('NOT_FOUND', `there is no project ${DEFAULT_PROJECT} for you: name project_id, or set all_projects`)
  const ids = all_projects ? projects.toSorted().slice(0, limits.projectsPerListMax) : [DEFAULT_PROJECT]
  return { ids, more: leftOut(projects.filter((id) => !ids.includes(id)).length) }
}
export const leftOut = (count: number): Projects['more'] => (count === 0 ? {} : { more_projects: count })

type Range = { readonly index: string; readonly prefixes: readonly (readonly Part[])[] }
/** One page out of several indexes whose rows have the same format after their prefixes. */
export async function listIn(read: Read, doc: AnyDoc, ranges: readonly Range[], page: ListPage): Promise<Listed[]> {
  const nonEmpty = ranges.filter(({ prefixes }) => prefixes.length > 0)
  const found = await Promise.all(nonEmpty.map(({ index, prefixes }) => read.list(doc, index, prefixes, page)))
  if (found.length < 2) return found[0] ?? []
  const sorted = found.flat().toSorted((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0))
  const merged = sorted.filter(({ at }, i) => at !== sorted[i - 1]?.at)
  return (page.reverse === true ? merged.reverse() : merged).slice(0, page.limit)
}
