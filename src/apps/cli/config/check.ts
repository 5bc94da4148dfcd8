// The check of a configuration before anything is asked of a server: unknown fields, wrong values, and, with the present state, unknown people, agents and
// groups. Every problem has its line.
import { Refusal } from '#kernel/declare/errors.ts'
import { isObject } from '#kernel/codec/strict-json.ts'
import { nearestOf } from '#kernel/declare/unknown-fields.ts'
import { parse, type SchemaNode } from '#kernel/declare/schema.ts'
import { limits } from '#kernel/limits.ts'
import { configSchema } from '../../config-schema.ts'
import { usage, type CliError } from '../exit-codes.ts'
import type { Place } from './document.ts'
import { INSTALLATION, type Item } from './items.ts'

export type Problem = { readonly path: string; readonly message: string }

const policyNode = (configSchema as SchemaNode).properties!['policy']!
/** The parts of a policy that a file can hold. */
export const policyFields: readonly string[] = Object.keys(policyNode.properties ?? {})

/** All unknown names, then the first wrong value. */
export function problemsIn(value: unknown): Problem[] {
  const unknown = [...unknownIn(configSchema, value, [])]
  if (unknown.length > 0) return unknown
  try {
    parse(configSchema, value)
    return []
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    const field = error.details?.['field']
    return [{ path: typeof field === 'string' ? field : '', message: error.message }]
  }
}

function* unknownIn(node: SchemaNode, value: unknown, path: readonly string[]): Iterable<Problem> {
  if (Array.isArray(value)) for (const [i, item] of value.entries()) yield* unknownIn(node.items ?? {}, item, [...path, String(i)])
  if (!isObject(value)) return
  const { properties, patternProperties } = node
  if (!properties && !patternProperties) return
  for (const [name, inner] of Object.entries(value)) {
    const at = [...path, name]
    const known = properties && Object.hasOwn(properties, name) ? properties[name] : nodeFor(name, patternProperties)
    if (known) yield* unknownIn(known, inner, at)
    else
      yield {
        path: at.join('.'),
        message: `${at.join('.')} ${patternProperties ? 'is not a possible name' : `is not a field here${hintFor(at, properties ?? {})}`}`,
      }
  }
}
const nodeFor = (name: string, patterns: SchemaNode['patternProperties'] = {}): SchemaNode | undefined =>
  Object.entries(patterns).find(([pattern]) => new RegExp(pattern).test(name))?.[1]
function hintFor(path: readonly string[], properties: object): string {
  const nearest = nearestOf({ path, known: Object.keys(properties) })
  return nearest === null ? '' : `; did you mean ${nearest}?`
}

// --- References ------------------------------------------------------------------------------------------------------------

export type Known = { readonly people: ReadonlySet<string>; readonly agents: ReadonlySet<string>; readonly groups: ReadonlySet<string> }

/** `groups`: as `part name`. */
export function strangersIn(items: readonly Item[], { people, agents, groups }: Known): Problem[] {
  const problems: Problem[] = []
  const member = (path: string, id: unknown): void => {
    const isAgent = String(id).startsWith('agent_')
    if (!(isAgent ? agents : people).has(String(id)))
      problems.push({ path, message: `there is no ${isAgent ? 'agent' : 'person'} ${String(id)}, neither in the file nor on the server` })
  }
  const each = (path: string, ids: unknown, look: (path: string, id: unknown) => void): void => {
    for (const [i, id] of (Array.isArray(ids) ? ids : []).entries()) look(`${path}.${i}`, id)
  }
  for (const { kind, name, part, path, fields } of items) {
    if (kind === 'agent') member(`${path}.owner`, fields['owner'])
    if (kind === 'member') member(path, name)
    if (kind === 'group') each(`${path}.members`, fields['members'], member)
    if (kind !== 'policy') continue
    const group = (at: string, id: unknown): void => {
      const isKnown =
        part === INSTALLATION ? [...groups].some((one) => one.endsWith(` ${String(id)}`)) : groups.has(`${part} ${String(id)}`)
      if (!isKnown) problems.push({ path: at, message: `there is no group ${String(id)}, neither in the file nor on the server` })
    }
    visit(fields['value'], path, (at, field, value) => {
      if (field === 'people') each(at, value, member)
      if (field === 'groups') each(at, value, group)
      if (field === 'agent_id') member(at, value)
    })
  }
  return problems
}

function visit(value: unknown, path: string, look: (path: string, field: string, value: unknown) => void): void {
  if (typeof value !== 'object' || value === null) return
  for (const [name, inner] of Object.entries(value)) {
    look(`${path}.${name}`, name, inner)
    // The conditions of a rule hold data of the caller's own.
    if (name !== 'when') visit(inner, `${path}.${name}`, look)
  }
}

export function refuseProblems(problems: readonly Problem[], placeOf: (path: string) => Place): void {
  if (problems.length > 0) throw problemsAt(problems, placeOf)
}

export function problemsAt(problems: readonly Problem[], placeOf: (path: string) => Place): CliError {
  const shown = problems.slice(0, limits.configProblemsMax).map(({ path, message }) => {
    const { file, line } = placeOf(path)
    return `${file}:${line}: ${message}`
  })
  const more = problems.length - shown.length
  const message = [...shown, ...(more > 0 ? [`and ${more} more`] : [])].join('\n')
  return usage(message, 'nothing was changed; the server publishes every field at /config.schema.json')
}
