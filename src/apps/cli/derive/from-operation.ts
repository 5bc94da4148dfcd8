// A command for every operation: words from its name, flags and help from its input, an example from its example.
import { Refusal } from '#kernel/declare/errors.ts'
import { limits } from '#kernel/limits.ts'
import type { Operation, Protocol } from '#kernel/declare/operation.ts'
import { parse } from '#kernel/declare/schema.ts'
import { CliError, exits, usage } from '../exit-codes.ts'
import { fieldOf, flag, flagAt, flagsOf, inputFrom, isGiven, jsonFrom, type Flag, type FlagValues } from './flags.ts'
import { positionals } from './columns.ts'
import { readInput } from '../input/read-input.ts'
import { sayMore } from '../output/notes.ts'
import { show } from '../output/render.ts'
import { allFlags, type Context, type Spec } from './command.ts'
import type { Remote } from '../remote/remote.ts'
import { shellQuote } from '../output/safe-text.ts'

export const inputFlags: readonly Flag[] = [
  flag('json-input', 'json', 'the whole input as one JSON object; flags come on top of it'),
  flag('file', 'path', 'the same from a file, or - for standard input'),
]
/** The most items that --all prints. */
const ALL_MAX = 10_000
export const allFlag = flag('all', null, 'every page, up to 10,000 items')

type Page = { readonly items: readonly unknown[]; readonly next_cursor: string | null }
/** All pages of a list as one response, with the other fields of the first page. */
export async function everyPage(remote: Remote, operation: string, input: Record<string, unknown>): Promise<Page> {
  const first = (await remote.callAny(operation, { limit: limits.pageMax, ...input })) as Page
  const items = [...first.items]
  let cursor = first.next_cursor
  while (cursor !== null && items.length < ALL_MAX) {
    const page = (await remote.callAny(operation, { limit: limits.pageMax, ...input, cursor })) as Page
    items.push(...page.items)
    cursor = page.next_cursor
  }
  return { ...first, items, next_cursor: cursor }
}
const isPaged = (op: Operation): boolean => {
  const has = (schema: object, field: string): boolean => Object.hasOwn((schema as { properties?: object }).properties ?? {}, field)
  return op.kind === 'query' && ['cursor', 'limit'].every((field) => has(op.input, field)) && has(op.output, 'next_cursor')
}

const keyFlag = flag('idempotency-key', 'text', 'makes a repeated call one call; made up for each call by default')

/** `task.create` is `task create`, whatever protocol it belongs to; unless a command without a server has those words. */
export const pathOf = (operation: string): string[] => {
  if (operation === 'receipt.verify') return ['receipt', 'verify-online']
  const [noun = '', ...verb] = operation.split('.')
  return [noun, verb.join('-').replaceAll('_', '-')]
}

/** Also true for some operations that people may call: one that only follows from another operation does nothing when called directly. */
const isForTheSystem = (op: Operation): boolean =>
  op.callers.every(({ name }) => name === 'system') || op.example.refused === 'PRECONDITION_FAILED'

export const keyIn = (given: FlagValues): { readonly key?: string } => {
  const key = given.get('idempotency-key') as string | undefined
  return key === undefined ? {} : { key }
}

export function derivedSpec(protocol: Protocol, op: Operation): Spec {
  const operation = `${protocol.name}/${op.name}`
  const found = flagsOf(op.input as object)
  const first = positionalsOf(op.name, found)
  const others = found.filter((flag) => !first.includes(flag))
  const spec: Spec = {
    path: pathOf(op.name),
    summary: isForTheSystem(op) ? `${op.summary} (the system only)` : op.summary,
    positionals: first,
    flags: [...others, ...(isPaged(op) ? [allFlag] : []), ...inputFlags, ...(op.kind === 'command' ? [keyFlag] : [])],
    examples: [],
    hidden: isForTheSystem(op),
    operation,
    isLocal: false,
    run: async (context, given) => {
      const input = await inputOf(context, op, spec, given)
      const remote = await context.remote()
      const waits = op.kind === 'command' && op.effect ? { timeoutMs: EFFECT_MS } : {}
      const answer: unknown =
        given.get('all') === true
          ? await everyPage(remote, operation, input)
          : await namingFlags(remote.callAny(operation, input, { ...keyIn(given), ...waits }), spec)
      await show(context, op.name, answer)
      sayMore(context, operation, input, answer)
      if (op.kind === 'command' && op.effect) refuseFailure(answer)
    },
  }
  return { ...spec, examples: [exampleOf(op, spec)] }
}

/** A field that the server refuses is named by its flag. */
async function namingFlags<T>(answer: Promise<T>, { positionals: first, flags }: Spec): Promise<T> {
  try {
    return await answer
  } catch (error) {
    if (!(error instanceof CliError) || error.code !== 'INVALID_REQUEST') throw error
    const message = messageWithFlag({ message: error.message, details: error.details }, [...first, ...flags], first)
    throw new CliError(error.exit, error.code, message, error.hint, error.details)
  }
}

/** The maximum duration of an effect, plus a margin. */
const EFFECT_MS = limits.invokeMsMax + 10_000

/** The call succeeded but its effect failed: the response is printed, and the exit code tells scripts. */
function refuseFailure(answer: unknown): void {
  const { ok, error } = answer as { ok?: unknown; error?: { code: string; message: string } | null }
  if (ok === false && error) throw new CliError(exits.refused, error.code, error.message)
}

function positionalsOf(name: string, flags: readonly Flag[]): Flag[] {
  const byField = (field: string): Flag[] => flags.filter(({ path }) => path!.length === 1 && path![0] === field)
  const listed = Object.hasOwn(positionals, name) ? positionals[name] : undefined
  if (listed) return listed.flatMap(byField)
  const ids = flags.filter(({ path, required }) => required && path!.length === 1 && path![0]!.endsWith('_id'))
  const ownId = ids.find(({ path }) => path![0] === `${name.split('.')[0]}_id`)
  return ownId ? [ownId] : ids.slice(0, 1)
}

/** The input from flags, JSON and file; errors name the flag of a missing or wrong field. */
export async function inputOf(
  { io }: Context,
  op: Operation,
  { positionals: first, flags }: Pick<Spec, 'positionals' | 'flags'>,
  given: FlagValues,
) {
  const all = allFlags({ positionals: first, flags })
  const base = await baseOf(io, given)
  const input = inputFrom(all, given, base)
  const missing = all.filter(({ path, required }) => required && path !== null && !isGiven(input, path))
  if (missing.length > 0) throw usage(`missing: ${missing.map((flag) => shownAs(flag, first)).join(', ')}`)
  try {
    return parse(op.input, input) as Record<string, unknown>
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    throw usage(messageWithFlag(error, all, first))
  }
}

export const shownAs = (flag: Flag, first: readonly Flag[]): string =>
  first.includes(flag) ? `<${fieldOf(flag)}>` : `--${flag.name}${flag.placeholder === '' ? '' : ` <${flag.placeholder}>`}`

/** `spec.goal must be ...` as `--goal must be ...`. */
function messageWithFlag({ message, details }: Pick<Refusal, 'message' | 'details'>, all: readonly Flag[], first: readonly Flag[]): string {
  const field = details?.['field']
  const found = typeof field === 'string' ? flagAt(all, field) : undefined
  if (!found || typeof field !== 'string' || !message.startsWith(field)) return message
  const name = first.includes(found) ? `<${fieldOf(found)}>` : `--${found.name}`
  return `${name}${message.slice(found.path!.join('.').length)}`
}

async function baseOf(io: Context['io'], given: FlagValues): Promise<Record<string, unknown>> {
  const file = given.get('file') as string | undefined
  const inline = given.get('json-input') as string | undefined
  if (file !== undefined && inline !== undefined) throw usage('give --json-input or --file, not both')
  const text = file === undefined ? inline : (await readInput(io, file)).toString()
  if (text === undefined) return {}
  const name = file === undefined ? '--json-input' : file === '-' ? 'standard input' : file
  let value: unknown
  try {
    value = jsonFrom(text)
  } catch (error) {
    throw usage(`${name} ${(error as Error).message}`)
  }
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw usage(`${name} must be a JSON object`)
  return value as Record<string, unknown>
}

// --- Examples --------------------------------------------------------------------------------------------------------------

const prefixes: Readonly<Record<string, string>> = { artifact: 'art', checkpoint: 'ckpt', issued: 'key', review: 'rev', session: 'sess' }

/** A placeholder for an answer of the steps of a scene. */
class Placeholder {
  readonly name: string
  constructor(name: string) {
    this.name = name
  }
}
const placeholder = (name: string): unknown =>
  new Proxy(new Placeholder(name), {
    get: (target, field) => (field === 'id' ? `${prefixes[name] ?? name}_1` : field === 'name' ? target.name : `${String(field)}_1`),
  })
const refs: Record<string, unknown> = new Proxy({}, { get: (_, name) => placeholder(String(name)) })

/** Complete answers of a scene, for inputs that need more than an id. */
const whole: Readonly<Record<string, unknown>> = {
  checksum: `sha256:${'0'.repeat(64)}`,
  receipt: { request_id: 'hxp_1', signature: '...' },
}

const fillPlaceholders = (value: unknown): unknown => {
  if (value instanceof Placeholder) return whole[value.name] ?? `${value.name}_1`
  if (Array.isArray(value)) return value.map(fillPlaceholders)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([field, inner]) => [field, fillPlaceholders(inner)]))
}

/** The input that the example of the operation sends. */
export function exampleInput({ example: { input } }: Operation): Record<string, unknown> {
  return fillPlaceholders(typeof input === 'function' ? input(refs) : input) as Record<string, unknown>
}

function exampleOf(op: Operation, target: Spec): string {
  return ['countersign', ...target.path, ...argvFor(exampleInput(op), target)].map(shellQuote).join(' ')
}

/** The words of a command line with this input. */
export function argvFor(input: Record<string, unknown>, target: Pick<Spec, 'positionals' | 'flags'>): string[] {
  const rest = structuredClone(input)
  const args = target.positionals.flatMap((positional) => {
    const value = valueAt(rest, positional.path!)
    return value === undefined ? [] : [textOf(value, positional.shape.kind)]
  })
  for (const { name, path, shape } of target.flags) {
    const value = path === null ? undefined : valueAt(rest, path)
    if (value === undefined) continue
    for (const item of shape.many && Array.isArray(value) ? value : [value]) {
      if (item === null && shape.kind !== 'json') args.push(`--no-${name}`)
      else if (shape.kind === 'switch') args.push(item === true ? `--${name}` : `--no-${name}`)
      else args.push(`--${name}`, textOf(item, shape.kind))
    }
  }
  return args
}

const textOf = (value: unknown, kind: string): string => (typeof value === 'string' && kind !== 'json' ? value : JSON.stringify(value))

function valueAt(input: Record<string, unknown>, path: readonly string[]): unknown {
  let inner: unknown = input
  for (const step of path) inner = typeof inner === 'object' && inner !== null ? (inner as Record<string, unknown>)[step] : undefined
  return inner
}
