// The calls that bring an item of a configuration about, change it or take it away.
import { isObject } from '#kernel/codec/strict-json.ts'
import { groupOf, INSTALLATION, usualOf, type Fields, type Item, type Kind } from './items.ts'

export type Step = { readonly call: string; readonly input: Record<string, unknown> }
/** `changed`: the fields that differ, with their new values. `there`: the item as it is on the server. */
type Calls = {
  add(item: Item): Step[]
  change(item: Item, changed: Fields, there: Item): Step[]
  /** Nothing is called for what cannot be removed, or is off already. */
  remove(there: Item): Step[]
}

const step = (call: string, input: Record<string, unknown>): Step => ({ call, input })
const scopeOf = ({ part }: Item): object => (part === INSTALLATION ? { installation: true } : { project_id: part })

const callsOf = (noun: 'user' | 'agent'): Calls => {
  const updateOf = (item: Item, fields: Fields): Step => step(`identity/${noun}.update`, { [`${noun}_id`]: item.name, ...fields })
  return {
    add(item) {
      const { disabled, ...fields } = item.fields
      const added = step(`identity/${noun}.add`, { id: item.name, ...fields, project_id: null })
      return disabled === true ? [added, updateOf(item, { disabled })] : [added]
    },
    change: (item, changed) => [updateOf(item, changed)],
    remove: (there) => (there.fields['disabled'] === true ? [] : [updateOf(there, { disabled: true })]),
  }
}

const setRole = ({ part, name, fields }: Item): Step[] => [
  step('identity/project.join', { project_id: part, subject: name, role: fields['role'] }),
]
const setGroup = ({ part, name, fields }: Item): Step[] => [step('execution/group.set', { project_id: part, name, ...fields })]
const setPolicy = (item: Item, value: unknown): Step[] => [step('execution/policy.set', { ...scopeOf(item), [item.name]: value })]
const noneOf = (field: string, value: unknown): unknown => (field === 'gate' ? { version: 1, rules: [] } : usualOf(field, value))

export const calls: Readonly<Record<Kind, Calls>> = {
  person: callsOf('user'),
  agent: callsOf('agent'),
  project: {
    add: ({ part, fields }) => [step('identity/project.add', { id: part, name: fields['name'] ?? part })],
    change: () => [],
    remove: () => [],
  },
  member: {
    add: setRole,
    change: setRole,
    remove: ({ part, name }) => [step('identity/project.leave', { project_id: part, subject: name })],
  },
  group: {
    add: setGroup,
    change: setGroup,
    remove: ({ part, name }) => [step('execution/group.remove', { project_id: part, name })],
  },
  link: {
    add: (item) => [step('identity/group.link', { project_id: item.part, name: groupOf(item), ...item.fields })],
    change: (item) => [step('identity/group.link', { project_id: item.part, name: groupOf(item), ...item.fields })],
    remove(there) {
      const { issuer, claim } = there.fields
      return [step('identity/group.unlink', { project_id: there.part, name: groupOf(there), issuer, claim })]
    },
  },
  policy: {
    add: (item) => setPolicy(item, item.fields['value']),
    change: (item) => setPolicy(item, item.fields['value']),
    remove: (there) => setPolicy(there, noneOf(there.name, there.fields['value'])),
  },
  channel: {
    add: ({ part, name, fields }) => [step('execution/channel.add', { project_id: part, kind: 'events', label: name, ...fields })],
    change: (_, changed, there) => [step('execution/channel.update', { channel_id: there.id, ...changed })],
    remove: (there) => [step('execution/channel.remove', { channel_id: there.id })],
  },
}

/** Fields that no operation changes later. */
const FIXED: Readonly<Partial<Record<Kind, readonly string[]>>> = { project: ['name'], agent: ['owner'] }
export const isFixed = (kind: Kind, field: string): boolean => FIXED[kind]?.includes(field) === true

/** Whether the value is a list of ids, for the texts of a table. */
export const shownValue = (value: unknown): string =>
  Array.isArray(value) && value.every((one) => typeof one === 'string')
    ? value.join(', ')
    : isObject(value) || Array.isArray(value)
      ? JSON.stringify(value)
      : String(value)
