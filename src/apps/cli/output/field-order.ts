// Answers in the order of their schemas. A server that has just started has read its documents from the disk, where their fields
// are in alphabetical order: the text that people read must not depend on that.
import type { Operation, Protocol } from '#kernel/declare/operation.ts'

type Node = {
  readonly properties?: Readonly<Record<string, Node>>
  readonly items?: Node
  readonly anyOf?: readonly Node[]
}
const isValue = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value)

export function orderFields(value: unknown, schema: Node | undefined): unknown {
  if (schema === undefined) return value
  if (Array.isArray(value)) {
    const items = schema.items ?? schema.anyOf?.find((branch) => branch.items)?.items
    return value.map((item) => orderFields(item, items))
  }
  if (!isValue(value)) return value
  const properties = fieldsFor(value, schema)
  const known = Object.keys(properties).filter((field) => Object.hasOwn(value, field))
  const others = Object.keys(value).filter((field) => !Object.hasOwn(properties, field))
  return Object.fromEntries([...known, ...others].map((field) => [field, orderFields(value[field], properties[field])]))
}

/** The properties of the form that fits the value, if there are several forms. */
function fieldsFor(value: Record<string, unknown>, { anyOf, properties = {} }: Node): Readonly<Record<string, Node>> {
  const forms = (anyOf ?? []).map((branch) => branch.properties ?? {})
  return forms.find((form) => Object.keys(value).every((field) => Object.hasOwn(form, field))) ?? forms[0] ?? properties
}

export function outputsOf(protocols: readonly Protocol[]): ReadonlyMap<string, Operation['output']> {
  return new Map(protocols.flatMap(({ name, operations }) => operations.map((op) => [`${name}/${op.name}`, op.output] as const)))
}
