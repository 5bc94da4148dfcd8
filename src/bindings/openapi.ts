// The description of the HTTP API (OpenAPI 3.1), derived from the operations. Schemas are JSON Schema already; those in
// several places are named once.
import { isObject } from '#kernel/codec/strict-json.ts'
import { kernelCodes, statuses, type Fault } from '#kernel/declare/errors.ts'
import { limits } from '#kernel/limits.ts'
import type { Operation, Protocol, Stream } from '#kernel/declare/operation.ts'

type Json = Record<string, unknown>
type Served<O extends Operation = Operation> = { readonly protocol: Protocol; readonly op: O }
type Called = Exclude<Operation, { kind: 'stream' }>

/** `aliases`: further paths, from a path to its stream operation. */
export function openapiOf(protocols: readonly Protocol[], version: string, aliases: Readonly<Record<string, string>> = {}): Json {
  const served = protocols.flatMap((protocol) => protocol.operations.map((op): Served => ({ protocol, op })))
  const named = namedSchemas(served)
  const codes: Readonly<Record<string, Fault>> = Object.assign({}, kernelCodes, ...protocols.map((protocol) => protocol.codes))
  return {
    openapi: '3.1.0',
    info: {
      title: 'Countersign',
      version,
      description:
        'The control plane for work that people delegate to agents. Every operation is a POST with a JSON body; bytes go with PUT and come with GET; a stream is a GET that does not end.',
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    security: [{ key: [] }, { session: [] }],
    tags: protocols.map(({ name, title, version: own }) => ({ name, description: `${title} (version ${own})` })),
    paths: Object.fromEntries([
      ...served.map((operation) => [`/v1/${nameOf(operation)}`, methodsOf(operation, named)] as const),
      ...Object.entries(aliases).flatMap(([path, name]) =>
        aliasOf(
          path,
          served.find((operation) => nameOf(operation) === name),
          named,
        ),
      ),
    ]),
    components: {
      schemas: { Error: errorSchema(Object.keys(codes).sort()), ...named.components() },
      responses: Object.fromEntries(Object.keys(statuses).map((fault) => [fault, responseOf(fault as Fault, codes)])),
      parameters: { IdempotencyKey: idempotencyKey, After: after, LastEventId: lastEventId },
      securitySchemes: {
        key: { type: 'http', scheme: 'bearer', description: 'An API key' },
        session: {
          type: 'apiKey',
          in: 'cookie',
          name: 'countersign',
          description: 'The session of a browser; __Host-countersign behind a proxy with TLS',
        },
      },
    },
  }
}

const nameOf = ({ protocol, op }: Served): string => `${protocol.name}/${op.name}`
const isStream = (operation: Served): operation is Served<Stream> => operation.op.kind === 'stream'

function methodsOf(operation: Served, named: Named): Json {
  return isStream(operation) ? { get: streamOf(operation, named) } : calledOf(operation as Served<Called>, named)
}

/** Every command and query is a POST; bytes are sent with PUT and fetched with GET, with the input in the query. */
function calledOf(operation: Served<Called>, named: Named): Json {
  const { op } = operation
  const post = operationOf(operation, named)
  const { requestBody: _, operationId, responses, ...rest } = post as { requestBody: Json; operationId: string; responses: Json }
  const octets = { content: { 'application/octet-stream': {} } }
  const parameters = [...(((rest as Json)['parameters'] as Json[] | undefined) ?? []), ...queryOf(op.input)]
  if (op.kind === 'command' && op.upload)
    return { put: { ...rest, operationId, parameters, requestBody: { required: true, ...octets }, responses } }
  if (op.kind !== 'query' || !op.download) return { post }
  const bytes = { 200: { description: 'The bytes.', ...octets }, 206: { description: 'The part that Range asks for.', ...octets } }
  const get = { ...rest, operationId: `${operationId}.bytes`, parameters, responses: { ...responses, ...bytes } }
  const headResponse = { 200: { description: 'The answer of a GET, without the bytes.' } }
  return { post, get, head: { ...get, operationId: `${operationId}.bytes.head`, responses: { ...responses, ...headResponse } } }
}

/** A GET that does not end: server-sent events, with the input in the query. */
function streamOf({ protocol, op }: Served<Stream>, named: Named): Json {
  return {
    operationId: `${protocol.name}.${op.name}`,
    ...aboutOf(protocol, op),
    parameters: [...queryOf(op.input), ...['After', 'LastEventId'].map((parameter) => ({ $ref: `#/components/parameters/${parameter}` }))],
    responses: {
      200: {
        description: EVENTS,
        content: { 'text/event-stream': { schema: { type: 'string' }, 'x-event-data': named.use(op.output) } },
      },
      ...refusals,
    },
  }
}

const EVENTS =
  'Server-sent events, until either side closes. `id` is a cursor to continue from, `event` the action, `data` one JSON document on one line (x-event-data). ' +
  'A comment and a newer `id` come as heartbeats. The last event is `slow`, `stopping` or `error`, with code, message and cursor as its data.'

function aliasOf(path: string, operation: Served | undefined, named: Named): [string, Json][] {
  if (!operation || !isStream(operation)) return []
  return [[path, { get: { ...streamOf(operation, named), operationId: path.replace(/^\/v1\//, '').replaceAll('/', '.') } }]]
}

function queryOf(input: unknown): Json[] {
  const { properties = {}, required = [] } = input as { properties?: Json; required?: string[] }
  return Object.entries(properties).map(([name, schema]) => ({ name, in: 'query', required: required.includes(name), schema }))
}

/** The part of a description that is the same however an operation is reached. */
function aboutOf(protocol: Protocol, op: Operation): Json {
  const callers = op.callers.map((caller) => caller.name)
  return {
    tags: [protocol.name],
    summary: op.summary,
    description: `For: ${callers.join(', ')}. Draft: ${op.draft}.`,
    'x-callers': callers,
    'x-draft': op.draft,
  }
}

const refusals = Object.fromEntries(
  Object.entries(statuses).map(([fault, status]) => [status, { $ref: `#/components/responses/${fault}` }]),
)

function operationOf({ protocol, op }: Served<Called>, named: Named): Json {
  const isCommand = op.kind === 'command'
  const { input } = op.example
  return {
    operationId: `${protocol.name}.${op.name}`,
    ...aboutOf(protocol, op),
    ...(isCommand ? { parameters: [{ $ref: '#/components/parameters/IdempotencyKey' }] } : {}),
    requestBody: {
      required: ((op.input as { required?: string[] }).required ?? []).length > 0,
      content: { 'application/json': { schema: named.use(op.input), ...(typeof input === 'function' ? {} : { example: input }) } },
    },
    responses: {
      200: { description: 'Done.', content: { 'application/json': { schema: named.use(op.output) } } },
      ...refusals,
    },
    ...(isCommand
      ? {
          'x-audit': op.audit === null ? null : `${protocol.name}/${op.audit}`,
          'x-codes': [...new Set(op.requires.map((rule) => rule.code))].sort(),
        }
      : {}),
    ...(isCommand && op.once ? { 'x-shown-once': op.once } : {}),
  }
}

const idempotencyKey = {
  name: 'Idempotency-Key',
  in: 'header',
  description: 'The same key with the same body has one effect and one answer; with another body it is refused.',
  schema: { type: 'string', minLength: 1, maxLength: limits.idempotencyKeyCharsMax, pattern: '^[\\x21-\\x7e]+$' },
}

const after = {
  name: 'after',
  in: 'query',
  description: 'A cursor to continue after, or `latest` for new events alone; without it, every event from the first.',
  schema: { type: 'string' },
}
const lastEventId = {
  name: 'Last-Event-ID',
  in: 'header',
  description: 'The newest `id` that was received, as browsers send it when they connect again; it wins over `after`.',
  schema: { type: 'string' },
}

const errorSchema = (codes: readonly string[]): Json => ({
  type: 'object',
  required: ['error'],
  properties: {
    error: {
      type: 'object',
      required: ['code', 'message', 'details'],
      properties: { code: { enum: codes }, message: { type: 'string' }, details: { type: 'object' } },
    },
  },
})

function responseOf(fault: Fault, codes: Readonly<Record<string, Fault>>): Json {
  const codesOfFault = Object.keys(codes)
    .filter((code) => codes[code] === fault)
    .sort()
  const waits = fault === 'quota' || fault === 'busy'
  return {
    description: codesOfFault.join(', ') || fault,
    ...(waits ? { headers: { 'Retry-After': { description: 'Seconds to wait', schema: { type: 'integer' } } } } : {}),
    content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
  }
}

type Named = { use(schema: unknown): unknown; components(): Json }
/** Smaller schemas are easier to read inline. */
const NAMED_CHARS_MIN = 160

const isNameable = (schema: Json): boolean => schema['type'] === 'object' && isObject(schema['properties'])

/** Object schemas that occur more than once get the name of the field that holds them. */
function namedSchemas(served: readonly Served[]): Named {
  const found = new Map<string, { times: number; fields: Set<string>; protocol: string }>()
  const visit = (schema: unknown, field: string, protocol: string): void => {
    if (Array.isArray(schema)) for (const inner of schema) visit(inner, field, protocol)
    if (!isObject(schema)) return
    const text = isNameable(schema) && field !== '' ? JSON.stringify(schema) : ''
    if (text.length >= NAMED_CHARS_MIN) {
      const entry = found.get(text) ?? { times: 0, fields: new Set<string>(), protocol }
      entry.times++
      if (field !== 'items') entry.fields.add(field)
      found.set(text, entry)
    }
    for (const [key, inner] of Object.entries(schema)) {
      if (key === 'properties') for (const [name, property] of Object.entries(inner as Json)) visit(property, name, protocol)
      else visit(inner, field, protocol)
    }
  }
  // Outputs first: stored objects get the plain name, input-only objects the longer one.
  for (const { protocol, op } of served) visit(op.output, '', protocol.name)
  const answered = new Set(found.keys())
  for (const { protocol, op } of served) visit(op.input, '', protocol.name)

  const names = new Map<string, string>()
  const taken = new Set(['Error'])
  for (const [text, { times, fields, protocol }] of found) {
    const [field] = fields
    if (times < 2 || field === undefined) continue
    const longer = answered.has(text) ? pascal(`${protocol}_${field}`) : `${pascal(field)}Input`
    const candidates = [pascal(field), longer, ...Array.from({ length: 50 }, (_, i) => `${longer}${i + 2}`)]
    const name = candidates.find((candidate) => !taken.has(candidate))!
    taken.add(name)
    names.set(text, name)
  }

  const inner = (schema: unknown): unknown => {
    if (Array.isArray(schema)) return schema.map(inner)
    if (!isObject(schema)) return schema
    return Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, use(value)]))
  }
  const use = (schema: unknown): unknown => {
    const name = isObject(schema) && isNameable(schema) ? names.get(JSON.stringify(schema)) : undefined
    return name === undefined ? inner(schema) : { $ref: `#/components/schemas/${name}` }
  }
  const components = (): Json =>
    Object.fromEntries([...names].map(([text, name]) => [name, inner(JSON.parse(text))] as const).toSorted(([a], [b]) => (a < b ? -1 : 1)))
  return { use, components }
}

const pascal = (field: string): string =>
  field
    .split('_')
    .map((word) => word.charAt(0).toUpperCase() + word.slice(1))
    .join('')
