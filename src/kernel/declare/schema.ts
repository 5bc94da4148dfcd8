// The only file that runs the schema library, and the declaration of a document kind: its shape, its indexes, who may see it.
import type { Static, TEnum, TObject, TProperties, TSchema } from 'typebox'
import { Compile } from 'typebox/schema'
import { Refusal } from './errors.ts'
import type { Actor } from './access.ts'
import { t } from './schema-builders.ts'

export { t }
export type { Static, TSchema }

/** One of these words. */
export const either = <L extends string[]>(...values: L): TEnum<L> => t.Enum([...values])
export const nullable = <S extends TSchema>(schema: S) => t.Union([schema, t.Null()])

/** An invalid value at or below this place is refused with this code instead of INVALID_REQUEST. */
export const refusedAs = <S extends TSchema>(code: string, schema: S): S => ({ ...schema, 'x-refusal': code })

/** The fields of a document that an audience sees: the schema of its answers, and the function that makes them. */
export type View<P extends TProperties, F extends keyof P> = {
  readonly schema: TObject<Pick<P, F>>
  readonly of: (value: Static<TObject<P>>) => Static<TObject<Pick<P, F>>>
}
/** A view by allow-list: a new field of the document is hidden until it is listed. */
export function pick<P extends TProperties, const F extends keyof P & string>(
  { properties }: TObject<P>,
  fields: readonly F[],
): View<P, F> {
  const listed = Object.fromEntries(fields.map((field) => [field, properties[field]])) as Pick<P, F>
  return {
    schema: t.Object(listed),
    of(value) {
      const view: Record<string, unknown> = {}
      for (const field of fields) {
        const held = (value as Readonly<Record<string, unknown>>)[field]
        if (held !== undefined) view[field] = held
      }
      return view as Static<TObject<Pick<P, F>>>
    },
  }
}

export type Part = string | number

/**
 * From a document to its rows in the index: none, one or several. The id is appended by the kernel. `counted`: how many
 * leading parts of a row make a prefix whose entries are counted, so that a batch can bound them; 0 counts nothing. `isTally`: the rows
 * are counted as a whole and have no entries.
 */
export type Index<V> = { rows(value: V): readonly (readonly Part[])[]; readonly counted: number; readonly isTally: boolean }
export const index = <V>(rows: Index<V>['rows'], counted = 0): Index<V> => ({ rows, counted, isTally: false })
/** For rows that are only counted. The kind must be described by facts: the examination counts its images. */
export const tally = <V>(rows: Index<V>['rows']): Index<V> => ({ rows, counted: 0, isTally: true })

/** A call that the system makes about a document at a time, if the document is unchanged by then. */
export type Due = { readonly at: string; readonly call: string; readonly input: object }
type Times = { readonly at: string | null; readonly call: string; readonly input: object }

/**
 * The earliest; of two at the same time, the first in the list. The call at that time changes the document, and the next time follows.
 */
function firstOf(times: readonly Times[]): Due | null {
  let first: Due | null = null
  for (const time of times) if (time.at !== null && (first === null || time.at < first.at)) first = time as Due
  return first
}

/** A stored document kind. Nothing that grows without bound is inside a document. */
export type Doc<S extends TSchema = TSchema> = {
  readonly kind: string // `${protocol}.${noun}`
  readonly noun: string
  readonly schema: S
  readonly indexes: Readonly<Record<string, Index<Static<S>>>>
  /** The project (or `system`, or `org`) that the document belongs to: its chain and its visibility. */
  scopeOf(value: Static<S>): string
  taskOf(value: Static<S>): string | null
  rootOf(value: Static<S>): string | null
  /** Whether an actor in its scope can see it. */
  visibleTo(value: Static<S>, actor: Actor): boolean
  /** Whether an actor outside of its scope can see it. */
  reaches(value: Static<S>, actor: Actor): boolean
  /** The document whose readers are the readers of this one; null: `visibleTo` decides. */
  within(value: Static<S>): { readonly doc: AnyDoc; readonly id: string } | null
  /** The id that this state of the document concerns: calls that wait for it look again. */
  wakes(value: Static<S>): string | null
  /** The first of its times; null: it waits for none. */
  due(value: Static<S>): Due | null
  /** The text that a search finds it by; null: it is not searched. */
  readonly text: Searched<Static<S>> | null
  /** The part of it that an agent is shown, also in the record. */
  forAgents(value: Static<S>): object
  /** The field that counts its changes, from 0, one for each batch; null: nothing counts them. */
  readonly counter: string | null
}
/**
 * `of`: the text that is searched, null if it is not searched for; `group`: documents of one group share further searchable words, such as their author;
 * `index`: an index that has an entry for each document with a text.
 */
export type Searched<V> = { of(value: V): string | null; group(value: V): string; readonly index: string }
// oxlint-disable-next-line typescript/no-explicit-any -- a kind of any shape; its functions take what its own schema describes
export type AnyDoc = Doc<any>

type DocOptions<S extends TSchema> = {
  /** The noun in refusals, if it differs from the name of the kind. */
  readonly noun?: string
  readonly indexes?: Readonly<Record<string, Index<Static<S>>>>
  readonly scopeOf: (value: Static<S>) => string
  readonly taskOf?: (value: Static<S>) => string | null
  readonly rootOf?: (value: Static<S>) => string | null
  readonly visibleTo?: (value: Static<S>, actor: Actor) => boolean
  readonly reaches?: (value: Static<S>, actor: Actor) => boolean
  readonly within?: (value: Static<S>) => { readonly doc: AnyDoc; readonly id: string } | null
  readonly wakes?: (value: Static<S>) => string | null
  /** The calls that the system makes about it, each at its time; `at` null: not now. */
  readonly due?: (value: Static<S>) => readonly Times[]
  readonly text?: Searched<Static<S>>
  readonly forAgents?: (value: Static<S>) => object
  readonly counter?: string
}

const kinds = new Map<string, AnyDoc>()

export function doc<S extends TSchema>(kind: string, schema: S, options: DocOptions<S>): Doc<S> {
  if (kinds.has(kind)) throw new Error(`there are two document kinds ${kind}`)
  const noValue = (): null => null
  const declared: Doc<S> = {
    kind,
    noun: options.noun ?? kind.slice(kind.indexOf('.') + 1),
    schema,
    indexes: options.indexes ?? {},
    scopeOf: options.scopeOf,
    taskOf: options.taskOf ?? noValue,
    rootOf: options.rootOf ?? options.taskOf ?? noValue,
    visibleTo: options.visibleTo ?? (() => true),
    reaches: options.reaches ?? (() => false),
    within: options.within ?? noValue,
    wakes: options.wakes ?? noValue,
    due: options.due === undefined ? noValue : (value) => firstOf(options.due!(value)),
    text: options.text ?? null,
    forAgents: options.forAgents ?? ((value) => value),
    counter: options.counter ?? null,
  }
  kinds.set(kind, declared)
  return declared
}

export function kindOf(key: string): AnyDoc {
  const found = kinds.get(key.slice(0, key.indexOf('/')))
  if (!found) throw new Error(`no document kind for ${key}`)
  return found
}
export const kindsKnown = (): readonly AnyDoc[] => [...kinds.values()]
export const keyOf = (kind: { readonly kind: string }, id: string): string => `${kind.kind}/${id}`
export const idOf = (key: string): string => key.slice(key.indexOf('/') + 1)

// Entries compare as bytes in every store. NUL cannot occur in a part: every input that holds one is refused.
const SEPARATOR = '\0'
/** Greater than every character that a part may begin with. */
export const END = '\u{10FFFF}'
const partOf = (part: Part): string => (typeof part === 'number' ? String(part).padStart(16, '0') : part)
/** Of the first `count` parts. */
export const prefixOf = (kind: { readonly kind: string }, name: string, parts: readonly Part[], count = parts.length): string =>
  restOf(`${kind.kind}.${name}${SEPARATOR}`, parts, 0, count)
function restOf(prefix: string, parts: readonly Part[], from: number, to = parts.length): string {
  let whole = prefix
  for (let i = from; i < to; i++) whole += partOf(parts[i]!) + SEPARATOR
  return whole
}
/** The index of all due documents, across kinds; in place of an id its entries have the whole key. */
export const DUE = '~due'
export const duePrefix = `${DUE}${SEPARATOR}`
const dueEntry = (at: string, key: string): string => `${duePrefix}${at}${SEPARATOR}${key}`
/** After every entry that is due at this time, before every later one. */
export const dueUntil = (now: string): string => `${duePrefix}${now}\u{1}`
export const dueIn = (entry: string): string => entry.slice(duePrefix.length, entry.indexOf(SEPARATOR, duePrefix.length))
export const idIn = (entry: string): string => entry.slice(entry.lastIndexOf(SEPARATOR) + 1)

export function entriesOf(kind: AnyDoc, id: string, value: object | null): { entry: string; counted: string | null }[] {
  const entries: { entry: string; counted: string | null }[] = []
  if (value === null) return entries
  const due = kind.due(value)
  if (due !== null) entries.push({ entry: dueEntry(due.at, keyOf(kind, id)), counted: null })
  for (const name in kind.indexes) {
    const { rows, counted, isTally } = kind.indexes[name]!
    if (isTally) continue
    for (const row of rows(value)) {
      const prefix = counted > 0 ? prefixOf(kind, name, row, counted) : null
      entries.push({ entry: (prefix === null ? prefixOf(kind, name, row) : restOf(prefix, row, counted)) + id, counted: prefix })
    }
  }
  return entries
}

/** The prefixes under which a document is counted without an entry. */
export function talliesOf(kind: AnyDoc, value: object | null): string[] {
  const tallies: string[] = []
  if (value === null) return tallies
  for (const name in kind.indexes) {
    const { rows, isTally } = kind.indexes[name]!
    if (isTally) for (const row of rows(value)) tallies.push(prefixOf(kind, name, row))
  }
  return tallies
}
export const hasTallies = (kind: AnyDoc): boolean => Object.values(kind.indexes).some(({ isTally }) => isTally)
/** Whether the count under this prefix is a tally of the kind. */
export const isTallyOf = (kind: AnyDoc, prefix: string): boolean =>
  kind.indexes[prefix.slice(kind.kind.length + 1, prefix.indexOf(SEPARATOR))]?.isTally === true

/** Whether a document like this has this entry in the index of that name. */
export const holdsEntry = (kind: AnyDoc, name: string, id: string, value: object, entry: string): boolean =>
  kind.indexes[name]!.rows(value).some((row) => prefixOf(kind, name, row) + id === entry)

type Compiled = { check(value: unknown): boolean; problem(value: unknown): Refusal; clean(value: unknown): unknown }
const compiled = new WeakMap<TSchema, Compiled>()

function compile(schema: TSchema): Compiled {
  let found = compiled.get(schema)
  if (!found) {
    const validator = Compile(schema)
    found = {
      check: (value) => validator.Check(value),
      problem: (value) => problemOf(schema, validator.Errors(value)[1]),
      clean: cleanerOf(schema),
    }
    compiled.set(schema, found)
  }
  return found
}

/** The value without the fields that the schema does not know, or a refusal that names the place. */
export function parse<S extends TSchema>(schema: S, value: unknown): Static<S> {
  const { check, problem, clean } = compile(schema)
  if (!check(value)) throw problem(value)
  return clean(value) as Static<S>
}

export const matches = (schema: TSchema, value: unknown): boolean => compile(schema).check(value)

/** For our own answers: a mismatch is a bug. */
export function assertMatches(schema: TSchema, value: unknown, what: string): void {
  const { check, problem } = compile(schema)
  if (!check(value)) throw new Error(`${what} does not match its schema: ${problem(value).message}`)
}

type Problem = { keyword: string; schemaPath: string; instancePath: string; message: string; params: object }

function problemOf(schema: TSchema, problems: Problem[]): Refusal {
  // The shortest path is the clearest: a failed union also lists the failures of each branch.
  const first = ofTheType(ofTheKind(besidesNull(problems))).toSorted((a, b) => depthOf(a) - depthOf(b))[0]
  if (!first) return new Refusal('INVALID_REQUEST', 'the input does not match its schema')
  const missing = first.keyword === 'required' ? (first.params as { requiredProperties: string[] }).requiredProperties[0] : undefined
  const path = missing === undefined ? first.instancePath : `${first.instancePath}/${missing}`
  const place = path === '' ? 'the input' : path.slice(1).replaceAll('/', '.')
  const { code, node } = schemaAt(schema, path)
  const [, form] = FORM.exec(first.schemaPath) ?? []
  const message =
    missing === undefined ? messageOf(first, (form === undefined ? undefined : node?.anyOf?.[Number(form)]) ?? node) : 'is required'
  return new Refusal(code, `${place} ${message}`, { field: path === '' ? null : place })
}
/** For a nullable value the problem of the value counts, not that it is not null. */
function besidesNull(problems: Problem[]): Problem[] {
  const isNull = ({ schemaPath, params }: Problem): boolean => schemaPath.endsWith(SECOND) && (params as { type?: unknown }).type === 'null'
  const unions = new Set(problems.filter(isNull).map(({ schemaPath }) => schemaPath.slice(0, -SECOND.length)))
  return problems.filter((problem) => !isNull(problem) && !(problem.keyword === 'anyOf' && unions.has(problem.schemaPath)))
}
const SECOND = '/anyOf/1'
/** If a value names its kind, only the branch of that kind counts. */
function ofTheKind(problems: Problem[]): Problem[] {
  const branches = problems.map(({ schemaPath }) => /^(.*\/anyOf)\/\d+/.exec(schemaPath) ?? [])
  const isOther = (problem: Problem): boolean => /^(enum|const)$/.test(problem.keyword) && problem.instancePath.endsWith('/kind')
  const others = new Set(branches.filter((_, i) => isOther(problems[i]!)).map(([branch]) => branch))
  const unions = new Set(branches.filter(([branch]) => branch !== undefined && !others.has(branch)).map(([, union]) => union))
  return problems.filter((problem, i) => {
    const [branch, union] = branches[i]!
    return branch === undefined
      ? !(problem.keyword === 'anyOf' && unions.has(`${problem.schemaPath}/anyOf`))
      : !others.has(branch) || !unions.has(union)
  })
}
/** A form of a union. */
const FORM = /\/anyOf\/(\d+)$/
/** In a union of types, a value of one type gets the problem within that type, not "none of the others". */
function ofTheType(problems: Problem[]): Problem[] {
  const unionOf = ({ schemaPath }: Problem): string | null => (FORM.test(schemaPath) ? schemaPath.replace(FORM, '') : null)
  const fitting = new Set(problems.filter(({ keyword }) => keyword !== 'type').map(unionOf))
  return problems.filter((problem) => problem.keyword !== 'type' || unionOf(problem) === null || !fitting.has(unionOf(problem)))
}
const depthOf = (problem: Problem): number => problem.instancePath.split('/').length

function messageOf(problem: Problem, node: SchemaNode | undefined): string {
  if (node?.enum) return `must be one of: ${node.enum.join(', ')}`
  if (problem.keyword === 'pattern' && node?.description) return `must be ${node.description}`
  if (problem.keyword === 'anyOf') return 'has none of the allowed forms'
  return problem.message
}

export type SchemaNode = {
  type?: string
  enum?: string[]
  description?: string
  properties?: Record<string, SchemaNode>
  patternProperties?: Record<string, SchemaNode>
  additionalProperties?: boolean | SchemaNode
  items?: SchemaNode
  anyOf?: SchemaNode[]
  'x-refusal'?: string
  'x-added'?: readonly string[]
}

function schemaAt(schema: TSchema, path: string): { code: string; node: SchemaNode | undefined } {
  let node: SchemaNode | undefined = schema
  let code = node['x-refusal'] ?? 'INVALID_REQUEST'
  for (const step of path.split('/').slice(1)) {
    const inside: SchemaNode | undefined = node?.anyOf?.find((branch) => branch.properties ?? branch.items) ?? node
    const entry = (): SchemaNode | undefined =>
      Object.entries(inside?.patternProperties ?? {}).find(([pattern]) => new RegExp(pattern).test(step))?.[1]
    node = inside?.properties && Object.hasOwn(inside.properties, step) ? inside.properties[step] : (inside?.items ?? entry())
    code = node?.['x-refusal'] ?? code
  }
  const enumeration = node?.anyOf?.find((branch) => branch.enum)
  return { code, node: enumeration ?? node }
}

/** Copies what the schema names and nothing else. If the schema does not describe the content of a value, all of it passes. */
function cleanerOf(schema: TSchema): (value: unknown) => unknown {
  const node = schema as SchemaNode
  if (node.anyOf) return unionCleanerOf(node.anyOf)
  // An open object belongs to its sender: nothing in it is dropped.
  if (node.properties && node.additionalProperties !== true) return objectCleanerOf(node.properties)
  if (node.items) {
    const clean = cleanerOf(node.items)
    return (value) => (value as unknown[]).map(clean)
  }
  return (value) => value
}

function objectCleanerOf(properties: Record<string, SchemaNode>): (value: unknown) => unknown {
  const cleaners = Object.entries(properties).map(([name, inner]) => [name, cleanerOf(inner as TSchema)] as const)
  return (value) => {
    const cleaned: Record<string, unknown> = {}
    for (const [name, clean] of cleaners) {
      // A property that every object inherits (`constructor`) is not a field that was sent.
      const held = Object.hasOwn(value as object, name) ? (value as Record<string, unknown>)[name] : undefined
      if (held !== undefined) cleaned[name] = clean(held)
    }
    return cleaned
  }
}

function unionCleanerOf(branches: SchemaNode[]): (value: unknown) => unknown {
  const branchCleaners = new Map(branches.map((branch) => [branch, cleanerOf(branch as TSchema)]))
  return (value) => branchCleaners.get(branchFor(branches, value))!(value)
}

/** The form that a value of a union has: the first that fits. */
export const branchFor = (branches: readonly SchemaNode[], value: unknown): SchemaNode =>
  branches.find((branch) => compile(branch as TSchema).check(value)) ?? branches[0]!
