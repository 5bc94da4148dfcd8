// The items of a configuration: each person, agent, project, member, group, part of a policy and channel by itself, so that two configurations can be
// compared.
import { isObject } from '#kernel/codec/strict-json.ts'

export const KINDS = ['person', 'agent', 'project', 'member', 'group', 'link', 'policy', 'channel'] as const
export type Kind = (typeof KINDS)[number]
export type Fields = Readonly<Record<string, unknown>>
export const INSTALLATION = 'installation'

/** `part`: the installation, or the id of a project. `path`: its place in a file. */
export type Item = {
  readonly part: string
  readonly kind: Kind
  readonly name: string
  readonly path: string
  readonly fields: Fields
  readonly id?: string
}
export const keyOf = ({ part, kind, name }: Pick<Item, 'part' | 'kind' | 'name'>): string => `${part} ${kind} ${name}`
/** How the server remembers that a file has set it. */
export const ownedAs = ({ kind, name }: Pick<Item, 'kind' | 'name'>): string => `${kind} ${name}`

/** The given fields come first, as in the file. */
const withUsual = (fields: Fields, usual: Fields): Fields => ({ ...fields, ...usual, ...fields })

type Entry = readonly [name: string, value: Fields]
const entriesIn = (value: unknown): Entry[] => (isObject(value) ? (Object.entries(value) as Entry[]) : [])

/** What a part of a policy is unless it was set; the rules of the gate have no such value. */
export function usualOf(field: string, value: unknown): unknown {
  if (field === 'defaults') return 'allow'
  if (field === 'gate') return undefined
  return Array.isArray(value) ? [] : 'off'
}
const policyItems = (part: string, path: string, policy: unknown): Item[] =>
  entriesIn(policy).map(([name, value]) => ({ part, kind: 'policy', name, path: `${path}.${name}`, fields: { value } }))

/** A group of an issuer that is linked to a group of a project, as an item of its own. */
export const linkItem = (part: string, group: string, path: string, fields: Fields): Item => ({
  part,
  kind: 'link',
  name: `${group} ${String(fields['issuer'])} ${String(fields['claim'])}`,
  path,
  fields: withUsual(fields, { role: 'member' }),
})

function groupItems(part: string, project: string, [name, { linked, ...fields }]: Entry): Item[] {
  const path = `${project}.groups.${name}`
  const links = (Array.isArray(linked) ? (linked as Fields[]) : []).map((link, i) => linkItem(part, name, `${path}.linked.${i}`, link))
  return [...(fields['members'] === undefined ? [] : [{ part, kind: 'group', name, path, fields } as const]), ...links]
}
/** The group that a link belongs to. */
export const groupOf = ({ name }: Item): string => name.slice(0, name.indexOf(' '))

function projectItems([part, { name, members, groups, policy, channels }]: Entry): Item[] {
  const path = `projects.${part}`
  return [
    { part, kind: 'project', name: part, path, fields: name === undefined ? {} : { name } },
    ...entriesIn(members).map(([id, role]): Item => ({ part, kind: 'member', name: id, path: `${path}.members.${id}`, fields: { role } })),
    ...entriesIn(groups).flatMap((group) => groupItems(part, path, group)),
    ...policyItems(part, `${path}.policy`, policy),
    ...entriesIn(channels).map(([id, fields]): Item => ({
      part,
      kind: 'channel',
      name: id,
      path: `${path}.channels.${id}`,
      fields: withUsual(fields, { types: [] }),
    })),
  ]
}

/** A field that is left out has its usual value. */
export const itemsOf = ({ people, agents, policy, projects }: Fields): Item[] => [
  ...entriesIn(people).map(([name, fields]): Item => ({
    part: INSTALLATION,
    kind: 'person',
    name,
    path: `people.${name}`,
    fields: withUsual(fields, { role: 'member', disabled: false }),
  })),
  ...entriesIn(agents).map(([name, fields]): Item => ({
    part: INSTALLATION,
    kind: 'agent',
    name,
    path: `agents.${name}`,
    fields: withUsual(fields, { description: '', disabled: false }),
  })),
  ...policyItems(INSTALLATION, 'policy', policy),
  ...entriesIn(projects).flatMap(projectItems),
]

const isUsual = (value: unknown): boolean =>
  value === undefined || value === false || value === '' || (Array.isArray(value) && value.length === 0)
/** The fields that say something. */
export const withoutUsual = (fields: Fields): Fields => Object.fromEntries(Object.entries(fields).filter(([, value]) => !isUsual(value)))

function groupsOf(groups: readonly Item[], links: readonly Item[]): Fields | undefined {
  const names = [...new Set([...groups.map(({ name }) => name), ...links.map(groupOf)])]
  const entries = names.map((name) => {
    const members = groups.find((group) => group.name === name)?.fields['members']
    return [name, withoutUsual({ members, linked: links.filter((link) => groupOf(link) === name).map(({ fields }) => fields) })] as const
  })
  return entries.length === 0 ? undefined : Object.fromEntries(entries)
}

/** The items as a file has them; fields with their usual values are left out. */
export function configOf(items: readonly Item[]): Fields {
  const of = (part: string, kind: Kind): readonly Item[] => items.filter((item) => item.part === part && item.kind === kind)
  const mapOf = (found: readonly Item[], value: (item: Item) => unknown): Fields | undefined =>
    found.length === 0 ? undefined : Object.fromEntries(found.map((item) => [item.name, value(item)]))
  const plain = ({ fields }: Item): Fields => withoutUsual(fields)
  const policyOf = (part: string): Fields | undefined => mapOf(of(part, 'policy'), ({ fields }) => fields['value'])
  const projects = items.filter(({ kind }) => kind === 'project')
  return withoutUsual({
    people: mapOf(of(INSTALLATION, 'person'), plain),
    agents: mapOf(of(INSTALLATION, 'agent'), plain),
    policy: policyOf(INSTALLATION),
    projects: mapOf(projects, ({ name, fields }) =>
      withoutUsual({
        ...fields,
        members: mapOf(of(name, 'member'), (item) => item.fields['role']),
        groups: groupsOf(of(name, 'group'), of(name, 'link')),
        policy: policyOf(name),
        channels: mapOf(of(name, 'channel'), plain),
      }),
    ),
  })
}
