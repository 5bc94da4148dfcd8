// Unknown fields of an input, each with its path and the nearest known name. A silently ignored field hides a mistake of the client: our
// own API refuses such fields, and the wire of a draft, which must tolerate them, can at least report them.
import { Refusal } from './errors.ts'
import { branchFor, type SchemaNode, type TSchema } from './schema.ts'
import { distanceOf } from '../codec/spelling.ts'

export type UnknownField = {
  /** Such as `spec`, `acceptance_criteria`, `0`, `txt`. */
  readonly path: readonly string[]
  /** The known names of the same object. */
  readonly known: readonly string[]
}

/** Names that the server adds to an object when it shows it. A client can send them back; they are ignored. */
export const withAdded = <S extends TSchema>(schema: S, ...names: string[]): S => Object.assign(schema, { 'x-added': names })

/**
 * Fields of an open object are never unknown: they belong to the sender. The iterator is lazy, because a body can have many unknown fields.
 * Most bodies hold none, so a first pass checks that without allocating (the search itself allocated 16 KB per request of an agent).
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

/** Throws a refusal that names the first unknown field. */
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

/** The nearest known name; null: none is near. Up to a third of the letters can differ, or two: `deadlin` is near, `colour` is not. */
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
