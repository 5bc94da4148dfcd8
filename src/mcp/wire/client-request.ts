// One request of an MCP client, in one form for both revisions of MCP. Capabilities apply to this request alone.
import type { Implementation, ProgressToken, Server, ServerContext } from '@modelcontextprotocol/server'
import { definedFields, isObject } from '#kernel/codec/strict-json.ts'
import type { Asker } from './patience.ts'
import { TASKS } from './tasks.ts'

export type Result = Record<string, unknown>

export type ClientRequest = Asker & {
  readonly clientVersion: string
  /** The connection that the request came on. */
  readonly session: object
  /** The capabilities of the client, in the form of 2026-07-28. */
  readonly capabilities: Result
  /** The keys of `_meta` that are passed on. */
  readonly trace: Result
  readonly progressToken: ProgressToken | undefined
  readonly signal: AbortSignal
  readonly state: string | undefined
  readonly inputResponses: Result | undefined
  /** Whether the client accepts this request from a server. */
  takes(method: string): boolean
  notify(notification: { method: string; params: Result }): Promise<void>
}

const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities'
const CLIENT_INFO = 'io.modelcontextprotocol/clientInfo'

type ClientCapabilities = {
  readonly elicitation?: unknown
  readonly sampling?: unknown
  readonly roots?: unknown
  readonly extensions?: Readonly<Record<string, unknown>>
}
/** The capability that a client needs for a request from a server. */
const CAPABILITY_OF: Readonly<Record<string, 'elicitation' | 'sampling' | 'roots'>> = {
  'elicitation/create': 'elicitation',
  'sampling/createMessage': 'sampling',
  'roots/list': 'roots',
}

/** Keeps only the names that the protocol defines: capabilities are claims of the client. */
function capabilitiesIn({ elicitation, sampling, roots }: ClientCapabilities): Result {
  const pickNames = (value: unknown, names: readonly string[]): Result =>
    Object.fromEntries(names.filter((name) => isObject(value) && value[name] !== undefined).map((name) => [name, {}]))
  const modes = pickNames(elicitation, ['form', 'url'])
  return definedFields({
    elicitation: elicitation === undefined ? undefined : Object.keys(modes).length === 0 ? { form: {} } : modes,
    sampling: sampling === undefined ? undefined : pickNames(sampling, ['tools', 'context']),
    roots: roots === undefined ? undefined : {},
  })
}

/** Keys of `_meta` that are passed on: they carry a trace. Progress has its own token. */
const TRACE_KEYS = ['traceparent', 'tracestate', 'baggage']
export const traceIn = (meta: object | undefined): Result =>
  Object.fromEntries(Object.entries(meta ?? {}).filter(([key]) => TRACE_KEYS.includes(key)))

export function requestOf(server: Server, isModern: boolean, { mcpReq }: ServerContext): ClientRequest {
  const envelope = (mcpReq.envelope ?? {}) as Record<string, unknown>
  const claims = ((isModern ? envelope[CAPABILITIES] : server.getClientCapabilities()) ?? {}) as ClientCapabilities
  const info = ((isModern ? envelope[CLIENT_INFO] : server.getClientVersion()) ?? {}) as Partial<Implementation>
  const progressToken = mcpReq._meta?.progressToken
  const state = mcpReq.requestState<unknown>()
  return {
    isModern,
    name: typeof info.name === 'string' ? info.name : '',
    clientVersion: typeof info.version === 'string' ? info.version : '',
    hasProgressToken: progressToken !== undefined,
    progressToken,
    takesTasks: isModern && claims.extensions?.[TASKS] !== undefined,
    session: server,
    capabilities: capabilitiesIn(claims),
    trace: traceIn(mcpReq._meta),
    takes: (method) => Object.hasOwn(CAPABILITY_OF, method) && claims[CAPABILITY_OF[method]!] !== undefined,
    state: typeof state === 'string' ? state : undefined,
    inputResponses: mcpReq.inputResponses,
    signal: mcpReq.signal,
    notify: (notification) => mcpReq.notify(notification),
  }
}

const PROGRESS_MS = 10_000
/** Tells a waiting client that its call is alive; the returned function ends that. */
export function tellProgress(message: string, { progressToken, notify }: ClientRequest): () => void {
  if (progressToken === undefined) return () => undefined
  let progress = 0
  const tell = (): void =>
    void notify({ method: 'notifications/progress', params: { progressToken, progress: ++progress, message } }).catch(() => undefined)
  tell()
  const timer = setInterval(tell, PROGRESS_MS)
  return () => clearInterval(timer)
}
