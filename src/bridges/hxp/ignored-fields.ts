// Unknown fields of the draft's clients: ignored, as those clients expect, and named in a header (H31).
import { isObject } from '#kernel/codec/strict-json.ts'
import { isClaim } from '#kernel/declare/access.ts'
import type { Kernel } from '#kernel/kernel.ts'
import type { TSchema } from '#kernel/declare/schema.ts'
import { unknownFields } from '#kernel/declare/unknown-fields.ts'
import { Action } from '#protocols/execution/actions/index.ts'
import { payloadInput } from '#protocols/execution/asking/payload.ts'

type Fields = Readonly<Record<string, unknown>>

/** Many clients send omitted fields as null. A required field that is null is refused as missing. */
const withoutNulls = (body: Fields): Fields =>
  Object.values(body).includes(null)
    ? Object.fromEntries(Object.entries(body).filter(([name, value]) => value !== null || name === 'result'))
    : body

const schemas = new Map<string, TSchema>()
function inputOf({ protocols }: Kernel, operation: string): TSchema {
  const [protocol, name] = operation.split('/')
  const found =
    schemas.get(operation) ?? protocols.find((candidate) => candidate.name === protocol)!.operations.find((op) => op.name === name)!.input
  schemas.set(operation, found as TSchema)
  return found as TSchema
}

const create = 'execution/request.create'
/** Fields that the path or the bridge sets, regardless of the body. */
const OURS = ['request_id', 'surface']

/** The body without its unknown fields, and their names. A field that names the sender stays, because the kernel checks it. */
export function dropUnknownFields(
  kernel: Kernel,
  operation: string,
  raw: unknown,
): { readonly body: unknown; readonly ignored: readonly string[] } {
  if (!isObject(raw)) return { body: raw, ignored: [] }
  let body = withoutNulls(raw)
  const unknown = Array.from(unknownFields(inputOf(kernel, operation), body), ({ path }) => path)
  const { action, payload } = body
  if (operation === create && isObject(payload) && isAction(action))
    for (const { path } of unknownFields(payloadInput(action), { payload: withoutNulls(payload) })) unknown.push(path)
  const ignored = unknown.filter((path) => path.length > 1 || !isClaim(path[0]!))
  if (operation !== create && OURS.some((name) => Object.hasOwn(body, name)))
    body = Object.fromEntries(Object.entries(body).filter(([name]) => !OURS.includes(name)))
  return { body: ignored.length === 0 ? body : without(body, ignored), ignored: ignored.map((path) => path.join('.')) }
}
const isAction = (value: unknown): value is Action => Action.enum.includes(value as Action)

/** One copy without all of these fields. */
function without(body: Fields, paths: readonly (readonly string[])[]): Fields {
  const copy = structuredClone(body)
  for (const path of paths) {
    let holder: unknown = copy
    for (const step of path.slice(0, -1)) holder = (holder as Record<string, unknown> | undefined)?.[step]
    if (typeof holder === 'object' && holder !== null) delete (holder as Record<string, unknown>)[path.at(-1)!]
  }
  return copy
}

const NAMES_MAX = 20
const NAME_CHARS_MAX = 64
/** The names as the value of a header. */
export function ignoredIn(names: readonly string[]): string {
  const listed = names.slice(0, NAMES_MAX).map((name) => name.slice(0, NAME_CHARS_MAX).replaceAll(/[^\x21-\x2B\x2D-\x7E]/g, '?'))
  return names.length > NAMES_MAX ? `${listed.join(', ')}, ...` : listed.join(', ')
}
