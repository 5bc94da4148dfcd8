// The project filter of lists: one project, or all projects of the reader. The choice is part of the address and applies to every list.
import { useEffect, useRef } from 'react'
import { useLocation, useSearch } from 'wouter'
import { useMe, useProjects } from '../server/names.ts'
import { Select } from './fields.tsx'
import { Icon } from './icon.tsx'
import { createStore } from './store.ts'

const KEPT = 'project'
const lastProject = createStore(localStorage.getItem(KEPT) ?? '')
function keep(project: string): void {
  localStorage.setItem(KEPT, project)
  lastProject.set(project)
}

/** `isWhole`: one reads all of it, as its owner, as a viewer or as an auditor. */
export type Mine = { readonly id: string; readonly name: string; readonly isWhole: boolean }
/** The projects that one is in, by name. */
export function useMyProjects(): readonly Mine[] {
  const me = useMe().data
  const named = useProjects().data
  // An auditor reads all of them.
  const its = me?.role === 'auditor' ? (named ?? []).map(({ id }) => ({ project_id: id, role: 'viewer' })) : (me?.projects ?? [])
  return its
    .map(({ project_id, role }) => ({
      id: project_id,
      name: named?.find(({ id }) => id === project_id)?.name ?? (project_id === 'project_default' ? 'Default' : project_id),
      isWhole: role !== 'member',
    }))
    .toSorted((one, other) => one.name.localeCompare(other.name))
}

export type Chosen = {
  readonly projects: readonly Mine[]
  /** Empty: all projects. */
  readonly project: string
  /** The input fields for the choice. */
  readonly input: { readonly project_id: string } | { readonly all_projects: true }
  /** Rows show their project: there are several, and none was chosen. */
  readonly isMixed: boolean
  nameOf(project_id: string): string
  choose(project: string): void
}
export function useProject(): Chosen {
  const projects = useMyProjects()
  const remembered = lastProject.use()
  const named = new URLSearchParams(useSearch()).get('project')
  const [path, go] = useLocation()
  // The inbox has its own filter and shows everything by default.
  const isInbox = path.startsWith('/inbox')
  const wanted = named ?? (isInbox ? '' : remembered)
  const project = projects.some(({ id }) => id === wanted) ? wanted : ''
  useEffect(() => {
    if (named !== null && named === project && !isInbox) keep(project)
  }, [named, project, isInbox])
  return {
    projects,
    project,
    input: project === '' ? { all_projects: true } : { project_id: project },
    isMixed: project === '' && projects.length > 1,
    nameOf: (id) => projects.find((project) => project.id === id)?.name ?? id,
    choose(next) {
      const params = new URLSearchParams(location.search)
      if (!isInbox) keep(next)
      if (!isInbox && !params.has('project')) return
      if (isInbox && next !== '') params.set('project', next)
      else params.delete('project')
      go(params.size === 0 ? path : `${path}?${params.toString()}`, { replace: true })
    },
  }
}

/** The filter of a list. With one project there is nothing to choose. */
export function ProjectFilter({ of: { projects, project, choose } }: { readonly of: Chosen }) {
  if (projects.length < 2) return null
  return (
    <Select
      compact
      label="Project"
      value={project}
      onValue={choose}
      options={[['', 'All projects'], ...projects.map(({ id, name }) => [id, name] as const)]}
    />
  )
}

export function ProjectChip({ of: { isMixed, nameOf }, id }: { readonly of: Chosen; readonly id: string }) {
  if (!isMixed) return null
  return (
    <span className="project-column" data-testid="project-name" title={id}>
      <bdi>{nameOf(id)}</bdi>
    </span>
  )
}

/** The project switch in the navigation: its choice applies to all lists. */
export function ProjectSwitch() {
  const { projects, project, choose, nameOf } = useProject()
  const menu = useRef<HTMLDetailsElement>(null)
  if (projects.length < 2) return null
  return (
    <details className="switcher" ref={menu} data-testid="project-switch">
      <summary>
        <Icon name="folder" />
        <span className="grow clip">{project === '' ? 'All projects' : nameOf(project)}</span>
        <Icon name="chevron" />
      </summary>
      <ul>
        {[{ id: '', name: 'All projects' }, ...projects].map(({ id, name }) => (
          <li key={id}>
            <button
              type="button"
              aria-current={id === project ? 'true' : undefined}
              onClick={() => {
                choose(id)
                menu.current!.open = false
              }}
            >
              <span className="grow clip">{name}</span>
              {id === project && <Icon name="check" />}
            </button>
          </li>
        ))}
      </ul>
    </details>
  )
}
