// Flags of a command, made from the schema of its input, and read back into one: every field has a flag, nested ones by their path, and what a flag cannot say well is
// JSON. Knows no operation by name.
import { usage } from '../exit-codes.ts'
import { fieldHelp } from './field-help.ts'

type Node = {
  readonly type?: string
  readonly enum?: readonly string[]
  readonly const?: unknown
  readonly properties?: Readonly<Record<string, Node>>
  readonly required?: readonly string[]
  readonly items?: Node
  readonly anyOf?: readonly Node[]
  readonly description?: string
}

export type Shape = {
  readonly kind: 'text' | 'integer' | 'number' | 'switch' | 'json' | 'record'
  readonly choices: readonly string[] | null
  /** May be given several times. */
  readonly many: boolean
  /** One value is passed as it is, several become a list. */
  readonly loose: boolean
  readonly nullable: boolean
  /** The fields of a record. */
  readonly keys: readonly string[]
  /** Without a name it takes all words that are left. */
  readonly rest?: boolean
}

export type Flag = {
  readonly name: string
  /** One letter that stands for the name. */
  readonly short?: string
  /** Other names that are understood and not shown. */
  readonly also: readonly string[]
  /** The place of the value in the input; null: only the command uses it. */
  readonly path: readonly string[] | null
  readonly shape: Shape
  readonly required: boolean
  readonly placeholder: string
  readonly help: string
}

const plain: Shape = { kind: 'text', choices: null, many: false, loose: false, nullable: false, keys: [] }

/** A flag of the command itself. */
export const flag = (name: string, placeholder: string | null, words: string, shape: Partial<Shape> = {}): Flag => ({
  name,
  also: [],
  path: null,
  shape: { ...plain, kind: placeholder === null ? 'switch' : 'text', ...shape },
  required: false,
  placeholder: placeholder ?? '',
  help: words,
})

/** Its name if it needs no flag. */
export const fieldOf = ({ path, name }: Flag): string => path?.at(-1) ?? name

export const kebab = (name: string): string => name.replaceAll('_', '-')

/** Shorter words for long names. */
const shorter: Readonly<Record<string, string>> = { acceptance_criteria: 'criteria' }

/** Other words for names that every command takes already (`globalFlags`), so that these are no other names for the field either. */
const instead: Readonly<Record<string, string>> = { data: 'event-data' }

const isRefused = ({ type, anyOf, description }: Node): boolean =>
  type === undefined && anyOf === undefined && description?.startsWith('refused') === true

export function flagsOf(schema: object): Flag[] {
  const found = walk(schema, [], true, true)
  const taken = new Map<string, number>()
  for (const { name } of found) taken.set(name, (taken.get(name) ?? 0) + 1)
  // A short name that two fields would share belongs to the outer one.
  return found.map((flag_) =>
    taken.get(flag_.name) === 1 || flag_.path!.length === 1 ? flag_ : { ...flag_, name: dottedPath(flag_.path!), also: [] },
  )
}

const dottedPath = (path: readonly string[]): string => path.map(kebab).join('.')

function walk(node: Node, path: readonly string[], isRequired: boolean, isShort: boolean): Flag[] {
  return Object.entries(node.properties ?? {}).flatMap(([field, inner]) => {
    if (isRefused(inner)) return []
    const here = [...path, field]
    const required = isRequired && node.required?.includes(field) === true
    const bare = bareOf(inner)
    // Flags for fields of a required object have the short name of the field; those of an optional object have the whole path.
    if (hasFields(bare)) return walk(bare, here, required, path.length === 0 ? required : isShort)
    const name = isShort ? kebab(instead[field] ?? shorter[field] ?? field) : dottedPath(here)
    const also = isShort ? [kebab(field), dottedPath(here)].filter((other) => other !== name && instead[other] === undefined) : []
    const shape = shapeOf(inner)
    const placeholder = placeholderOf(field, bare.description ?? '', shape)
    return [{ name, also: [...new Set(also)], path: here, shape, required, placeholder, help: helpOf(field, inner, shape) }]
  })
}

const hasFields = ({ properties }: Node): boolean => properties !== undefined && Object.keys(properties).length > 0

/** The schema without `null`, which an optional field can also accept. */
function bareOf(node: Node): Node {
  const others = node.anyOf?.filter(({ type }) => type !== 'null')
  return others?.length === 1 ? { ...others[0]!, ...(node.description === undefined ? {} : { description: node.description }) } : node
}

function shapeOf(node: Node): Shape {
  const nullable = node.anyOf?.some(({ type }) => type === 'null') === true
  const bare = bareOf(node)
  const listed = bare.anyOf?.find(({ type }) => type === 'array')
  if (listed) return { ...shapeOf(listed), loose: true, nullable }
  if (bare.type === 'array') return { ...shapeOf(bare.items!), many: true, nullable }
  const branches = bare.anyOf ?? [bare]
  if (branches.every(hasFields)) {
    return { ...plain, kind: 'record', keys: [...new Set(branches.flatMap(({ properties }) => Object.keys(properties!)))], nullable }
  }
  if (bare.enum) return { ...plain, choices: bare.enum, nullable }
  if (bare.type === 'integer' || bare.type === 'number') return { ...plain, kind: bare.type, nullable }
  if (bare.type === 'boolean') return { ...plain, kind: 'switch', nullable }
  return { ...plain, kind: bare.type === 'string' ? 'text' : 'json', nullable }
}

function placeholderOf(field: string, description: string, { kind, choices }: Shape): string {
  if (choices) return 'word'
  if (kind !== 'text') return kind === 'record' ? 'k=v,...' : kind === 'switch' ? '' : kind === 'integer' ? 'number' : kind
  if (description.includes('RFC 3339') || /_at$|^deadline$|^from$|^until$/.test(field)) return 'time'
  if (description.includes('ISO 8601 duration')) return 'duration'
  return /(^|_)(id|by|to|task|actor|assignee|principal|owner|reviewers|user|person|substitute|subject)$/.test(field) ? 'id' : 'text'
}

function helpOf(field: string, node: Node, { many, keys, kind, nullable }: Shape): string {
  const bare = bareOf(node)
  const parts = [bare.description ?? bare.items?.description ?? fieldHelp[field] ?? '']
  if (kind === 'record') parts.push(`${keys.join(', ')}; or JSON`)
  if (kind === 'json' && !bare.description) parts.push('JSON; anything else is taken as text')
  if (many && !parts.some((part) => part.includes('repeat for more'))) parts.push('repeat for more')
  if (nullable) parts.push('the --no- form clears it')
  return parts.filter((part) => part !== '').join('; ')
}

/** Parses the value of one flag. The error message does not name the flag. */
export function valueFrom(text: string, shape: Shape): unknown {
  const { kind, choices, keys } = shape
  if (choices && !choices.includes(text)) throw new Error(`must be one of: ${choices.join(', ')}`)
  if (kind === 'integer' || kind === 'number') {
    const isNumber = kind === 'integer' ? /^-?\d{1,16}$/.test(text) : /^-?\d{1,16}(\.\d{1,16})?$/.test(text)
    if (!isNumber) throw new Error(kind === 'integer' ? 'must be a whole number' : 'must be a number')
    return Number(text)
  }
  if (kind === 'record') return text.trimStart().startsWith('{') ? jsonFrom(text) : recordFrom(text, keys)
  if (kind === 'json') return looseJsonFrom(text)
  return text
}

export function jsonFrom(text: string): unknown {
  try {
    return JSON.parse(text) as unknown
  } catch (error) {
    throw new Error(`is not JSON: ${(error as Error).message}`, { cause: error })
  }
}

/** The JSON object that a flag of a command holds; undefined: it was not given. */
export function objectIn(given: FlagValues, name: string): object | undefined {
  const text = given.get(name) as string | undefined
  if (text === undefined) return undefined
  let value: unknown
  try {
    value = jsonFrom(text)
  } catch (error) {
    throw usage(`--${name} ${(error as Error).message}`)
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw usage(`--${name} must be a JSON object`)
  return value
}

/** `5`, `true`, `{"a":1}` are JSON; `hello` is text; text that begins like an object, a list or a string must be valid JSON. */
function looseJsonFrom(text: string): unknown {
  if (/^\s*[[{"]/.test(text)) return jsonFrom(text)
  try {
    return JSON.parse(text) as unknown
  } catch {
    return text
  }
}

/** `id=a,label=Yes, please,risk=low`: a comma ends a value only before the next known key. */
function recordFrom(text: string, keys: readonly string[]): Record<string, string> {
  const record: Record<string, string> = {}
  const known = keys.join('|')
  for (const part of text.split(new RegExp(`,(?=(?:${known})=)`))) {
    const at = part.indexOf('=')
    const key = part.slice(0, Math.max(0, at))
    if (!keys.includes(key)) throw new Error(`must be key=value pairs of ${keys.join(', ')}, or JSON`)
    if (Object.hasOwn(record, key)) throw new Error(`names ${key} twice`)
    record[key] = part.slice(at + 1)
  }
  return record
}

export type FlagValues = ReadonlyMap<string, unknown>

/** Writes the given values into the input; they override existing values. */
export function inputFrom(flags: readonly Flag[], given: FlagValues, base: Record<string, unknown>): Record<string, unknown> {
  const input = structuredClone(base)
  for (const { name, path, shape } of flags) {
    const value = given.get(name)
    if (value === undefined || path === null) continue
    put(input, path, shape.loose && Array.isArray(value) && value.length === 1 ? value[0] : value, name)
  }
  return input
}

function put(input: Record<string, unknown>, path: readonly string[], value: unknown, name: string): void {
  let inner = input
  for (const step of path.slice(0, -1)) {
    const next = Object.hasOwn(inner, step) ? inner[step] : (inner[step] = {})
    if (typeof next !== 'object' || next === null || Array.isArray(next)) throw usage(`--${name} does not fit: ${step} is not an object`)
    inner = next as Record<string, unknown>
  }
  inner[path.at(-1)!] = value
}

export function isGiven(input: unknown, path: readonly string[]): boolean {
  let inner = input
  for (const step of path) {
    if (typeof inner !== 'object' || inner === null || !Object.hasOwn(inner, step)) return false
    inner = (inner as Record<string, unknown>)[step]
  }
  return inner !== undefined
}

/** The flag that sets the place which a refusal names. */
export const flagAt = (flags: readonly Flag[], field: string): Flag | undefined =>
  flags.find(({ path }) => path !== null && (path.join('.') === field || field.startsWith(`${path.join('.')}.`)))
