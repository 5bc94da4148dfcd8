// The state of the inbox, which is its address: a tab, filters and a text. A link opens the same.
import type { Input } from '#sdk/index.ts'
import type { Risk, Row } from '../server/types.ts'

export const tabs = ['mine', 'unassigned', 'groups', 'all', 'snoozed', 'done'] as const
export type Tab = (typeof tabs)[number]
export type Filters = {
  readonly tab: Tab
  readonly agent: string
  readonly project: string
  readonly kind: string
  readonly risk: string
  readonly text: string
  readonly saved: string
}
const names = ['agent', 'project', 'kind', 'risk', 'text', 'saved'] as const

export function filtersIn(search: string): Filters {
  const params = new URLSearchParams(search)
  const tab = params.get('tab') as Tab | null
  const of = (name: string): string => params.get(name) ?? ''
  return {
    tab: tab !== null && tabs.includes(tab) ? tab : 'mine',
    agent: of('agent'),
    project: of('project'),
    kind: of('kind'),
    risk: of('risk'),
    text: of('text'),
    saved: of('saved'),
  }
}

export function searchOf(filters: Filters): string {
  const params = new URLSearchParams()
  if (filters.tab !== 'mine') params.set('tab', filters.tab)
  for (const name of names) if (filters[name] !== '') params.set(name, filters[name])
  const text = params.toString()
  return text === '' ? '' : `?${text}`
}
export const isFiltered = (filters: Filters): boolean => names.some((name) => filters[name] !== '')

export const kinds: readonly (readonly [string, string])[] = [
  ['approval', 'Approval'],
  ['choice', 'Choice'],
  ['input', 'Input'],
  ['verification', 'Verification'],
  ['escalation', 'Escalation'],
  ['interrupt', 'Interrupt'],
  ['review', 'Review'],
]

type Asked = Input<'execution/inbox.list'>
/** The filters as the input of the server, in which saved filters are stored too. */
export function queryOf({ tab, agent, project, kind, risk, text, saved }: Filters): Asked {
  return {
    ...(agent === '' ? {} : { agent_id: agent }),
    ...(project === '' ? {} : { project_id: project }),
    ...(kind === '' ? {} : { kind: kind as Row['kind'] }),
    ...(risk === '' ? {} : { risk: risk as Risk }),
    ...(text.trim() === '' ? {} : { text: text.trim() }),
    ...(saved === '' ? {} : { filter: saved }),
    ...(tab === 'done' ? { status: 'closed' as const } : {}),
    ...(tab === 'snoozed' ? { snoozed: true } : {}),
    ...(tab === 'unassigned' ? { unassigned: true } : {}),
  }
}

/** Filters that the server does not have. The tab Mine shows everything addressed to you, votes and substitutions included; `mine` in `inbox.count` counts only the items assigned to you. */
export function isIn(tab: Tab, { through }: Row): boolean {
  if (tab === 'mine') return through !== 'pool' && through !== 'undecided'
  return tab === 'groups' ? (through ?? '').startsWith('group:') : true
}
