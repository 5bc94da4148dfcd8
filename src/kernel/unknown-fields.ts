// Fields of an input that nothing here knows, each with its place and the known name that is nearest to it. Words that somebody sent and
// nobody will read are a loss: our own API refuses them, and a draft's own wire, which must tolerate them, can at least name them.
import { Refusal } from './errors.ts'
import { branchFor, type SchemaNode, type TSchema } from './schema.ts'
import { distanceOf } from './spelling.ts'

export type UnknownField = {
  /** Such as `spec.acceptance_criteria.0.txt`. */
  readonly path: string
  /** The known name of the same object that is nearest; null: none is near. */
  readonly nearest: string | null
}

/** Names that the server itself adds to an object when it shows it: sent back, they are no mistake and mean nothing. */
export const withAdded = <S extends TSchema>(schema: S, ...names: string[]): S => Object.assign(schema, { 'x-added': names })

/** Nothing inside an open object is unknown: it belongs to whoever sent it. */
export function unknownFields(schema: TSchema, value: unknown): UnknownField[] {
  const found: UnknownField[] = []
  look(schema, value, '', found)
  return found
}

/** Refuses the first of them by name; nothing has changed then. */
export function refuseUnknown([first]: readonly UnknownField[]): void {
  if (!first) return
  const { path, nearest } = first
  const place = path.slice(0, path.lastIndexOf('.') + 1)
  const hint = nearest === null ? '' : `; did you mean ${place}${nearest}?`
  throw new Refusal('INVALID_REQUEST', `${path} is not a field here${hint}`, {
    field: path,
    ...(nearest === null ? {} : { nearest: place + nearest }),
  })
}

function look(node: SchemaNode, value: unknown, path: string, found: UnknownField[]): void {
  if (typeof value !== 'object' || value === null) return
  if (node.anyOf) return look(branchFor(node.anyOf, value), value, path, found)
  if (Array.isArray(value)) {
    if (node.items) for (let i = 0; i < value.length; i++) look(node.items, value[i], `${path}${i}.`, found)
    return
  }
  const { properties } = node
  if (!properties || node.additionalProperties === true) return
  for (const name of Object.keys(value)) {
    const inner = Object.hasOwn(properties, name) ? properties[name] : undefined
    if (inner) look(inner, (value as Record<string, unknown>)[name], `${path}${name}.`, found)
    else if (!node['x-added']?.includes(name)) found.push({ path: path + name, nearest: nearestOf(name, Object.keys(properties)) })
  }
}

/** A third of the letters may differ, two at least: `deadlin`, `maxDuration` and `critera` are near, `colour` and `goal` are not. */
function nearestOf(name: string, known: readonly string[]): string | null {
  const plain = (word: string): string => word.toLowerCase().replaceAll(/[_-]/g, '')
  const wanted = plain(name).slice(0, LETTERS_MAX)
  let best: { word: string; distance: number } | null = null
  for (const word of known) {
    const distance = distanceOf(wanted, plain(word))
    if (best === null || distance < best.distance) best = { word, distance }
  }
  return best !== null && best.distance <= Math.max(2, Math.floor(best.word.length / 3)) && best.distance < wanted.length ? best.word : null
}
/** No known name is longer. */
const LETTERS_MAX = 64
