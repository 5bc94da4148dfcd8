// Fields of an input that nothing here knows, each with its place and the known name that is nearest to it. Words that somebody sent and
// nobody will read are a loss: our own API refuses them, and a draft's own wire, which must tolerate them, can at least name them.
import { Refusal } from './errors.ts'
import { branchFor, type SchemaNode, type TSchema } from './schema.ts'
import { distanceOf } from '../codec/spelling.ts'

export type UnknownField = {
  /** Such as `spec`, `acceptance_criteria`, `0`, `txt`. */
  readonly path: readonly string[]
  /** The known names of the same object. */
  readonly known: readonly string[]
}

/** Names that the server itself adds to an object when it shows it: sent back, they are no mistake and mean nothing. */
export const withAdded = <S extends TSchema>(schema: S, ...names: string[]): S => Object.assign(schema, { 'x-added': names })

/**
 * Nothing inside an open object is unknown: it belongs to its sender. Each is looked for only when it is asked for: a body may hold many.
 * Most bodies hold none, and that is found out first without making anything (looking itself made 16 KB for each request of an agent).
 */
export const unknownFields = (schema: TSchema, value: unknown): Iterable<UnknownField> =>
  holdsUnknown(schema, value) ? look(schema, value, []) : NONE
const NONE: readonly UnknownField[] = []

function holdsUnknown(node: SchemaNode, value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (node.anyOf) return holdsUnknown(branchFor(node.anyOf, value), value)
  if (Array.isArray(value)) {
    if (node.items) for (let i = 0; i < value.length; i++) if (holdsUnknown(node.items, value[i])) return true
    return false
  }
  const { properties } = node
  if (!properties || node.additionalProperties === true) return false
  for (const name in value) {
    const inner = Object.hasOwn(properties, name) ? properties[name] : undefined
    if (
      inner ? holdsUnknown(inner, (value as Record<string, unknown>)[name]) : Object.hasOwn(value, name) && !node['x-added']?.includes(name)
    )
      return true
  }
  return false
}

/** Refuses the first of them by name; nothing has changed then. */
export function refuseUnknown(fields: Iterable<UnknownField>): void {
  if (fields === NONE) return
  const [first] = fields
  if (!first) return
  const field = first.path.join('.')
  const place = first.path
    .slice(0, -1)
    .map((step) => `${step}.`)
    .join('')
  const nearest = nearestOf(first)
  const hint = nearest === null ? '' : `; did you mean ${place}${nearest}?`
  throw new Refusal('INVALID_REQUEST', `${field} is not a field here${hint}`, {
    field,
    ...(nearest === null ? {} : { nearest: place + nearest }),
  })
}

function* look(node: SchemaNode, value: unknown, path: readonly string[]): Iterable<UnknownField> {
  if (typeof value !== 'object' || value === null) return
  if (node.anyOf) return yield* look(branchFor(node.anyOf, value), value, path)
  if (Array.isArray(value)) {
    if (node.items) for (let i = 0; i < value.length; i++) yield* look(node.items, value[i], [...path, String(i)])
    return
  }
  const { properties } = node
  if (!properties || node.additionalProperties === true) return
  for (const name of Object.keys(value)) {
    const inner = Object.hasOwn(properties, name) ? properties[name] : undefined
    if (inner) yield* look(inner, (value as Record<string, unknown>)[name], [...path, name])
    else if (!node['x-added']?.includes(name)) yield { path: [...path, name], known: Object.keys(properties) }
  }
}

/** The known name that is nearest; null: none is near. A third of the letters may differ, two at least: `deadlin`, `maxDuration` and `critera` are near, `colour` and `goal` are not. */
export function nearestOf({ path, known }: UnknownField): string | null {
  const name = path.at(-1)!
  const plain = (word: string): string => word.toLowerCase().replaceAll(/[_-]/g, '')
  const target = plain(name).slice(0, LETTERS_MAX)
  let best: { word: string; distance: number } | null = null
  for (const word of known) {
    const distance = distanceOf(target, plain(word))
    if (best === null || distance < best.distance) best = { word, distance }
  }
  return best !== null && best.distance <= Math.max(2, Math.floor(best.word.length / 3)) && best.distance < target.length ? best.word : null
}
/** No known name is longer. */
const LETTERS_MAX = 64
