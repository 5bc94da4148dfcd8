// Our own MCP server: the operations as tools, questions to people that wait for the answer, resources and prompts.
import { randomUUID } from 'node:crypto'
import { ProtocolError, Server, type AuthInfo, type CallToolResult, type ServerContext, type Tool } from '@modelcontextprotocol/server'
import type { Protocol } from '#kernel/declare/operation.ts'
import { outputOf, refusalOf } from './answers.ts'
import { ask, askTools, awaitAnswer, AWAIT_TOOL, awaitTool, isAsk, taskNow, type HeldAsk } from './asks.ts'
import type { McpCaller } from './caller.ts'
import { promptNamed, prompts } from './prompts.ts'
import { asProtocolError, listResources, readResource, resourceTemplates } from './resources.ts'
import { toolsOf, type OfferedTool } from './tools.ts'
import { requestOf, type Result } from './wire/client-request.ts'
import { listed, named, withText } from './wire/params.ts'
import { stateSeal } from './wire/request-state.ts'
import { serveTasks, TASKS } from './wire/tasks.ts'

export type McpOptions = {
  readonly protocols: readonly Protocol[]
  readonly version: string
  /** Seals states that pass through the client. */
  readonly key: Uint8Array
}

/** The parts that all servers of this process share. */
export type Offer = McpOptions & {
  readonly tools: ReadonlyMap<string, OfferedTool>
  readonly listed: { readonly agents: readonly Tool[]; readonly others: readonly Tool[] }
}

export function offerOf(options: McpOptions): Offer {
  const tools = toolsOf(options.protocols)
  const all = [...tools.values()]
  return {
    ...options,
    tools,
    listed: {
      agents: [...askTools, awaitTool, ...all.filter(({ isForAgents }) => isForAgents).map(({ tool }) => tool)],
      others: all.filter(({ isReading }) => isReading).map(({ tool }) => tool),
    },
  }
}

/** An agent has the tools of its roles; a person or a service reads. */
export function toolFor({ tools }: Offer, name: string, { kind }: McpCaller): OfferedTool | undefined {
  const found = tools.get(name)
  return found && (kind === 'agent' ? found.isForAgents : found.isReading) ? found : undefined
}

const INSTRUCTIONS =
  'Countersign records work that people delegate to agents. People decide, and tools that decide do not exist. ' +
  'Before you do something that needs a yes, call ask_approve and act only on `approved`. An answer that is not there yet is found by the same call again.'

const INVALID_PARAMS = -32_602
type CallerOf = (context: ServerContext) => McpCaller

/** `callerOf`: the caller of each request; over HTTP each brings its own credential. */
export function serverOf(offer: Offer, isModern: boolean, first: McpCaller, callerOf: CallerOf): Server {
  const isAgent = first.kind === 'agent'
  const server = new Server(
    { name: 'countersign', title: 'Countersign', version: offer.version },
    {
      capabilities: {
        tools: {},
        resources: {},
        ...(isAgent ? { prompts: {} } : {}),
        ...(isModern && isAgent ? { extensions: { [TASKS]: {} } } : {}),
      },
      instructions: INSTRUCTIONS,
    },
  )
  // Request ids are unique within one session only.
  const scope = isModern ? undefined : randomUUID()
  server.setRequestHandler('tools/list', listed, () => ({ tools: [...(isAgent ? offer.listed.agents : offer.listed.others)] }))
  server.setRequestHandler('tools/call', ({ params }, context) => {
    const call = { name: params.name, args: params.arguments ?? {}, scope }
    return callTool(offer, server, isModern, call, { context, caller: callerOf(context) }) as Promise<CallToolResult>
  })
  server.setRequestHandler('resources/list', listed, ({ cursor }, context) => listResources(callerOf(context), cursor))
  server.setRequestHandler('resources/templates/list', listed, () => ({ resourceTemplates: [...resourceTemplates] }))
  server.setRequestHandler('resources/read', withText('uri'), ({ uri }, context) => readResource(callerOf(context), uri))
  if (isAgent) {
    server.setRequestHandler('prompts/list', listed, () => ({ prompts: [...prompts] }))
    server.setRequestHandler('prompts/get', named, ({ name, arguments: args }) => promptNamed(name, args))
  }
  if (isModern && isAgent) {
    const callFor = async (operation: string, request_id: string, context: ServerContext): Promise<unknown> =>
      callerOf(context)
        .call(operation, { request_id })
        .catch((error: unknown) => Promise.reject(asProtocolError(error)))
    serveTasks(server, {
      get: (taskId, context) => taskNow(callerOf(context), taskId).catch((error: unknown) => Promise.reject(asProtocolError(error))),
      find: (taskId, context) => callFor('execution/request.get', taskId, context),
      cancel: (taskId, context) => callFor('execution/request.cancel', taskId, context),
    })
  }
  return server
}

type ToolCall = { readonly name: string; readonly args: Result; readonly scope: string | undefined }

async function callTool(
  offer: Offer,
  server: Server,
  isModern: boolean,
  { name, args, scope }: ToolCall,
  { context, caller }: { readonly context: ServerContext; readonly caller: McpCaller },
): Promise<Result> {
  const isAgent = caller.kind === 'agent'
  const offered = toolFor(offer, name, caller)
  if (!offered && !(isAgent && (isAsk(name) || name === AWAIT_TOOL)))
    throw new ProtocolError(INVALID_PARAMS, `there is no tool ${JSON.stringify(name.slice(0, NAME_CHARS_SHOWN))} for you`)
  try {
    if (offered) return await callOperation(offered, args, caller, { id: context.mcpReq.id, scope, signal: context.mcpReq.signal })
    const request = requestOf(server, isModern, context)
    if (name === AWAIT_TOOL) return await awaitAnswer(caller, args, request)
    return await ask(caller, { name, args }, request, stateSeal<HeldAsk>(offer.key, caller.id))
  } catch (error) {
    if (error instanceof ProtocolError || context.mcpReq.signal.aborted) throw error
    return refusalOf(error)
  }
}
const NAME_CHARS_SHOWN = 100

type Once = { readonly id: string | number; readonly scope: string | undefined; readonly signal: AbortSignal }

/** A command has the key of its arguments; without one, the same request of the same session is one call. */
export async function callOperation(
  { operation, isReading }: OfferedTool,
  args: Result,
  caller: McpCaller,
  { id, scope, signal }: Once,
): Promise<CallToolResult> {
  if (isReading) return outputOf(await caller.call(operation, args, { signal }))
  const { idempotency_key, ...input } = args
  const requestKey = scope === undefined ? undefined : `mcp/${scope}/${JSON.stringify(id)}`
  const key = idempotency_key === undefined ? requestKey : keyIn(idempotency_key)
  return outputOf(await caller.call(operation, input, { signal, key }))
}

function keyIn(value: unknown): string {
  if (typeof value === 'string' && KEY.test(value)) return value
  const message = 'idempotency_key must be a text of 1 to 200 printable characters without spaces'
  throw Object.assign(new Error(message), { code: 'INVALID_REQUEST', status: 400, details: { field: 'idempotency_key' } })
}
const KEY = /^[\x21-\x7e]{1,200}$/

/** The place of the caller in a request over HTTP. */
export const asAuthInfo = (caller: McpCaller): AuthInfo => ({ token: '', clientId: caller.id, scopes: [], extra: { caller } })
export const callerIn = (authInfo: AuthInfo | undefined): McpCaller => authInfo!.extra!['caller'] as McpCaller
