// Tasks, artifacts and runs as resources: `countersign://task/<id>`. A list has everything that the caller can read, tasks first, then runs.
import {
  ProtocolError,
  ResourceNotFoundError,
  type ReadResourceResult,
  type Resource,
  type ResourceTemplateType,
} from '@modelcontextprotocol/server'
import { failureIn, type McpCaller } from './caller.ts'

const INVALID_PARAMS = -32_602
const JSON_TYPE = 'application/json'

type Kind = {
  readonly about: string
  readonly get: { readonly operation: string; readonly field: string }
  /** The operation that lists all of them; an artifact is found on its task. */
  readonly list?: { readonly operation: string; name(item: Listed): string }
}
type Listed = {
  readonly id?: string
  readonly run_id?: string
  readonly state?: string
  readonly spec?: { readonly goal?: string }
  readonly goal?: string
}

const kinds: Readonly<Record<string, Kind>> = {
  task: {
    about: 'A task: its goal, state, people, artifacts and open checkpoints.',
    get: { operation: 'collaboration/task.get', field: 'task_id' },
    list: { operation: 'collaboration/task.list', name: ({ spec, goal }) => spec?.goal ?? goal ?? 'a task' },
  },
  artifact: {
    about: 'An artifact with its versions, without the bytes.',
    get: { operation: 'collaboration/artifact.get', field: 'artifact_id' },
  },
  run: {
    about: "An agent's work on a task: its state, messages and result.",
    get: { operation: 'delegation/run.get', field: 'run_id' },
    list: { operation: 'delegation/run.list', name: ({ state }) => `a run (${state ?? 'unknown'})` },
  },
}
const listedKinds = Object.entries(kinds).flatMap(([kind, { list }]) => (list ? [{ kind, list }] : []))

const ADDRESS = /^countersign:\/\/([a-z]+)\/([A-Za-z0-9_-]{1,200})$/
const uriOf = (kind: string, id: string): string => `countersign://${kind}/${id}`

export const resourceTemplates: readonly ResourceTemplateType[] = Object.entries(kinds).map(([kind, { about }]) => ({
  name: kind,
  uriTemplate: `countersign://${kind}/{id}`,
  description: about,
  mimeType: JSON_TYPE,
}))

type Page = { readonly resources: Resource[]; readonly nextCursor?: string }

/** A cursor is the kind and the cursor of its list. */
export async function listResources(caller: McpCaller, cursor: string | undefined): Promise<Page> {
  const [kind = listedKinds[0]!.kind, ...rest] = cursor === undefined ? [] : cursor.split(':')
  const at = listedKinds.findIndex((listed) => listed.kind === kind)
  if (at === -1) throw new ProtocolError(INVALID_PARAMS, 'the cursor is not from this server: list again without it')
  const { list } = listedKinds[at]!
  const place = rest.join(':')
  const page = (await call(caller, list.operation, place === '' ? {} : { cursor: place })) as {
    items: readonly Listed[]
    next_cursor: string | null
  }
  const resources = page.items.map((item) => {
    const id = item.id ?? item.run_id ?? ''
    return { uri: uriOf(kind, id), name: id, title: list.name(item).slice(0, TITLE_CHARS_MAX), mimeType: JSON_TYPE }
  })
  const next = page.next_cursor === null ? listedKinds[at + 1]?.kind : `${kind}:${page.next_cursor}`
  return { resources, ...(next === undefined ? {} : { nextCursor: next }) }
}
const TITLE_CHARS_MAX = 200

export async function readResource(caller: McpCaller, uri: string): Promise<ReadResourceResult> {
  const [, kind = '', id = ''] = ADDRESS.exec(uri) ?? []
  const found = Object.hasOwn(kinds, kind) ? kinds[kind] : undefined
  if (!found) throw new ResourceNotFoundError(uri)
  try {
    const text = JSON.stringify(await caller.call(found.get.operation, { [found.get.field]: id }))
    return { contents: [{ uri, mimeType: JSON_TYPE, text }] }
  } catch (error) {
    const { status } = failureIn(error)
    if (status === 404) throw new ResourceNotFoundError(uri)
    throw asProtocolError(error)
  }
}

async function call(caller: McpCaller, operation: string, input: object): Promise<unknown> {
  try {
    return await caller.call(operation, input)
  } catch (error) {
    throw asProtocolError(error)
  }
}

const INTERNAL = -32_603
/** A refusal outside of tool calls. */
export function asProtocolError(error: unknown): ProtocolError {
  if (error instanceof ProtocolError) return error
  const { code, message, status, field } = failureIn(error)
  const isOurs = status === undefined || status >= 500
  return new ProtocolError(isOurs ? INTERNAL : INVALID_PARAMS, `${code}: ${message}`, { code, ...(field === undefined ? {} : { field }) })
}
