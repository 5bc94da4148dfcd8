// The schema of configuration files, made from the inputs of the operations that a file stands for. The server publishes it, the command line checks
// with it.
import { limits } from '#kernel/limits.ts'
import { t, type TSchema } from '#kernel/declare/schema.ts'
import { protocols } from '#protocols/index.ts'
import { ConfigName } from '#protocols/identity/schema.ts'

type Fields = Readonly<Record<string, TSchema>>

/** The fields of an operation's input without some; none where this version has no such operation. */
function fieldsOf(operation: string, ...without: readonly string[]): Fields {
  const [protocol, name] = operation.split('/')
  const op = protocols.find((one) => one.name === protocol)?.operations.find((one) => one.name === name)
  const { properties = {} } = (op?.input ?? {}) as { readonly properties?: Fields }
  return Object.fromEntries(Object.entries(properties).filter(([field]) => !without.includes(field)))
}
/** A field of an operation's input that a file must or can give. */
function fieldOf(operation: string, field: string): TSchema {
  const found = fieldsOf(operation)[field]
  if (found === undefined) throw new Error(`${operation} has no field ${field}`)
  return found
}

const disabled = fieldOf('identity/user.update', 'disabled')
const Person = t.Object({ ...fieldsOf('identity/user.add', 'id', 'project_id'), disabled })
const Agent = t.Object({ ...fieldsOf('identity/agent.add', 'id', 'project_id'), disabled })
const Policy = t.Object(fieldsOf('execution/policy.set', 'project_id', 'installation', 'assertion'))
const Group = t.Object(linkable(fieldsOf('execution/group.set', 'project_id', 'name')))

/** Where groups can be linked to groups of issuers, a group has members, links or both. */
function linkable(fields: Fields): Fields {
  const link = fieldsOf('identity/group.link', 'project_id', 'name')
  if (Object.keys(link).length === 0) return fields
  const linked = t.Optional(t.Array(t.Object(link), { maxItems: limits.pageMax, description: 'groups of issuers whose people are in it' }))
  return { ...Object.fromEntries(Object.entries(fields).map(([name, schema]) => [name, t.Optional(schema)])), linked }
}

const Channel = t.Object({
  endpoint: { ...fieldOf('execution/channel.update', 'endpoint') }, // required
  types: fieldOf('execution/channel.update', 'types'),
})
const Role = fieldOf('identity/project.join', 'role')

/** Entries by their name. `key`: the pattern of the names. */
const entriesOf = (key: TSchema, value: TSchema, description: string): TSchema =>
  t.Optional(
    t.Object(
      {},
      { description, patternProperties: { [(key as { pattern?: string }).pattern ?? '^.+$']: value }, additionalProperties: false },
    ),
  )
const withDescription = (schema: TSchema, description: string): TSchema => t.Optional({ ...schema, description })

const Project = t.Object({
  name: t.Optional(fieldOf('identity/project.add', 'name')),
  members: entriesOf(fieldOf('identity/project.join', 'subject'), Role, 'the role of each person and agent, by id'),
  groups: entriesOf(fieldOf('execution/group.set', 'name'), Group, 'names for several people of the project'),
  policy: withDescription(Policy, 'the rules of the project; a part that is left out stays as it is'),
  channels: entriesOf(fieldOf('execution/channel.add', 'label'), Channel, 'event channels by label; the server makes the secret of each'),
})

const User = fieldOf('identity/user.add', 'id')
const AgentName = fieldOf('identity/agent.add', 'id')
const ProjectName = fieldOf('identity/project.add', 'id')

/** Closed at every depth, so that an editor finds what `apply` refuses. An open object stays open. */
function close(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(close)
  if (typeof node !== 'object' || node === null) return node
  const closed = Object.fromEntries(Object.entries(node).map(([name, inner]) => [name, close(inner)]))
  return 'properties' in node && !('additionalProperties' in node) ? { ...closed, additionalProperties: false } : closed
}

export const configSchema = close(
  t.Object(
    {
      name: withDescription(ConfigName, 'the name by which the server remembers what the file has set; `default` where it is left out'),
      people: entriesOf(User, Person, 'people by id'),
      agents: entriesOf(AgentName, Agent, 'agents by id'),
      policy: withDescription(Policy, 'the rules of the installation; a part that is left out stays as it is'),
      projects: entriesOf(ProjectName, Project, 'projects by id'),
    },
    { $schema: 'https://json-schema.org/draft/2020-12/schema', title: 'A configuration of Countersign' },
  ),
) as TSchema
