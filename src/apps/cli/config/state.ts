// The present configuration of a server as items, read with the rights of the caller.
import { canonical } from '#kernel/log/canonical-json.ts'
import { limits } from '#kernel/limits.ts'
import type { Input, Output } from '#sdk/client.ts'
import { CliError } from '../exit-codes.ts'
import type { Remote } from '../remote/remote.ts'
import { INSTALLATION, keyOf, linkItem, usualOf, type Item } from './items.ts'
import { policyFields } from './check.ts'

type Lists = 'identity/user.list' | 'identity/agent.list' | 'identity/project.list' | 'identity/config.list'
type ItemOf<N extends Lists> = Output<N>['items'][number]
/** Projects that are read concurrently. */
const LANES = 8

/** All pages of a list. */
export async function listAll<N extends Lists>(remote: Remote, operation: N, input: Input<N>): Promise<ItemOf<N>[]> {
  const found: ItemOf<N>[] = []
  for (let page: { readonly limit: number; readonly cursor?: string } = { limit: limits.pageMax }; ;) {
    const { items, next_cursor }: Output<Lists> = await remote.call(operation, { ...input, ...page })
    found.push(...(items as ItemOf<N>[]))
    if (next_cursor === null) return found
    page = { limit: limits.pageMax, cursor: next_cursor }
  }
}

/** `ids`: the projects whose content is wanted; null: all that the caller sees. */
export type Wish = { readonly ids: readonly string[] | null; readonly wantsPolicy: boolean }
export type State = {
  readonly items: ReadonlyMap<string, Item>
  readonly people: ReadonlySet<string>
  readonly agents: ReadonlySet<string>
}

export async function readState(remote: Remote, { ids, wantsPolicy }: Wish): Promise<State> {
  const [people, agents, projects] = await Promise.all([
    listAll(remote, 'identity/user.list', {}),
    listAll(remote, 'identity/agent.list', {}),
    listAll(remote, 'identity/project.list', {}),
  ])
  const wanted = projects.filter(({ id }) => ids === null || ids.includes(id))
  const known = new Set(wanted.map(({ id }) => id))
  const items: Item[] = [
    ...people.map(({ id, name, role, disabled }) => itemOf(INSTALLATION, 'person', id, { name, role, disabled })),
    ...agents.map(({ id, name, owner, description, disabled }) =>
      itemOf(INSTALLATION, 'agent', id, { name, owner, description, disabled }),
    ),
    ...(wantsPolicy ? await policyOf(remote, INSTALLATION, { installation: true }) : []),
    ...wanted.map(({ id, name }) => itemOf(id, 'project', id, { name })),
    ...[...people, ...agents].flatMap(({ id, projects: memberships }) =>
      memberships
        .filter(({ project_id }) => known.has(project_id))
        .map(({ project_id, role }) => itemOf(project_id, 'member', id, { role })),
    ),
  ]
  const queue = [...known]
  const work = async (): Promise<void> => {
    for (let id = queue.shift(); id !== undefined; id = queue.shift()) items.push(...(await contentOf(remote, id)))
  }
  await Promise.all(Array.from({ length: LANES }, work))
  return {
    items: new Map(items.map((item) => [keyOf(item), item])),
    people: new Set(people.map(({ id }) => id)),
    agents: new Set(agents.map(({ id }) => id)),
  }
}

const itemOf = (part: string, kind: Item['kind'], name: string, fields: Item['fields']): Item => ({ part, kind, name, path: '', fields })

/** What only people in the project see; for others it is empty until they are in it. */
async function contentOf(remote: Remote, project_id: string): Promise<Item[]> {
  try {
    const [{ items: groups }, policy, channels] = await Promise.all([
      remote.call('execution/group.list', { project_id }),
      policyOf(remote, project_id, { project_id }),
      channelsOf(remote, project_id),
    ])
    return [...groups.flatMap((group) => groupItemsOf(project_id, group)), ...policy, ...channels]
  } catch (error) {
    if (error instanceof CliError && error.code === 'NOT_FOUND') return []
    throw error
  }
}

type ListedGroup = { readonly name: string; readonly members: readonly string[]; readonly linked?: readonly Item['fields'][] }
/** A group that issuers alone fill has no members of its own. */
const groupItemsOf = (project_id: string, { name, members, linked = [] }: ListedGroup): Item[] => [
  ...(members.length === 0 ? [] : [itemOf(project_id, 'group', name, { members })]),
  ...linked.map((link) => linkItem(project_id, name, '', link)),
]

/** Channels without a label are not part of a configuration. `id`: for the steps alone. */
async function channelsOf(remote: Remote, project_id: string): Promise<Item[]> {
  const { items } = await remote.call('execution/channel.list', { project_id }).catch((error: unknown) => {
    // Members do not see them.
    if (error instanceof CliError && error.code === 'UNAUTHORIZED') return { items: [] }
    throw error
  })
  return items
    .filter(({ label }) => label !== '')
    .map(({ id, label, endpoint, types = [] }) => ({ ...itemOf(project_id, 'channel', label, { endpoint, types }), id }))
}

async function policyOf(remote: Remote, part: string, scope: Input<'execution/policy.get'>): Promise<Item[]> {
  const { policy } = await remote.call('execution/policy.get', scope)
  return Object.entries(policy)
    .filter(
      ([field, value]) => policyFields.includes(field) && canonical({ value: usualOf(field, value) ?? null }) !== canonical({ value }),
    )
    .map(([field, value]) => itemOf(part, 'policy', field, { value }))
}
