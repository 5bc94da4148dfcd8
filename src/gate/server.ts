// The MCP server that a client of a gate sees: the lists, resources and prompts of the upstream unchanged, its tools behind the gate.
import {
  ProtocolError,
  Server,
  type CallToolResult,
  type GetPromptResult,
  type ListResourcesResult,
  type ReadResourceResult,
} from '@modelcontextprotocol/server'
import { requestOf, traceIn, type Result } from '#mcp/wire/client-request.ts'
import { serveTasks, TASKS } from '#mcp/wire/tasks.ts'
import { callTool, getTask, readThrough, sortedTools, type Gate } from './gate.ts'
import { awaitTool, listedTools } from './tools.ts'

const passed: Readonly<Record<string, readonly string[]>> = {
  resources: ['resources/list', 'resources/templates/list'],
  prompts: ['prompts/list'],
  completions: ['completion/complete'],
  logging: ['logging/setLevel'],
}
const SUBSCRIPTIONS = ['resources/subscribe', 'resources/unsubscribe']

/** Without `_meta`, except the trace. */
function plainParams(params: Result | undefined): Result {
  const { _meta, ...rest } = params ?? {}
  const trace = traceIn(_meta as object | undefined)
  return Object.keys(trace).length === 0 ? rest : { ...rest, _meta: trace }
}

export async function serverOf(gate: Gate, isModern: boolean): Promise<Server> {
  const { client } = await gate.upstream.link()
  const can = client.getServerCapabilities() ?? {}
  const { tools, resources, prompts, completions, logging } = can
  const isLegacyUpstream = client.getProtocolEra() !== 'modern'
  const capabilities = {
    tools: { ...tools },
    ...(resources ? { resources: isLegacyUpstream && !isModern ? resources : { ...resources, subscribe: false } } : {}),
    ...(prompts ? { prompts } : {}),
    ...(completions ? { completions } : {}),
    ...(logging && isLegacyUpstream && !isModern ? { logging } : {}),
    ...(isModern ? { extensions: { [TASKS]: {} } } : {}),
  }
  const instructions = client.getInstructions()
  const info = client.getServerVersion() ?? { name: gate.settings.name, version: '0' }
  const server = new Server(info, { capabilities, ...(instructions === undefined ? {} : { instructions }) })
  server.setRequestHandler('tools/list', async () => {
    const listed = await listedTools(gate.port, gate.settings.name, await sortedTools(gate, true)).catch((error: unknown) => {
      throw new ProtocolError(INTERNAL, `cannot ask Countersign which tools to list: ${(error as Error).message}`)
    })
    return { tools: [...listed, awaitTool] }
  })
  server.setRequestHandler(
    'tools/call',
    ({ params }, context) =>
      callTool(gate, params.name, params.arguments ?? {}, requestOf(server, isModern, context)) as Promise<CallToolResult>,
  )
  for (const [capability, methods] of Object.entries(passed))
    if (Object.hasOwn(capabilities, capability))
      for (const method of [...methods, ...(capability === 'resources' && isLegacyUpstream && !isModern ? SUBSCRIPTIONS : [])])
        passOn(gate, server, method as 'resources/list')
  if (Object.hasOwn(capabilities, 'resources'))
    server.setRequestHandler(
      'resources/read',
      ({ params: { uri } }, context) =>
        readThrough(gate, { kind: 'resource', tool: uri, args: {} }, requestOf(server, isModern, context)) as Promise<ReadResourceResult>,
    )
  if (Object.hasOwn(capabilities, 'prompts'))
    server.setRequestHandler(
      'prompts/get',
      ({ params: { name, arguments: args = {} } }, context) =>
        readThrough(gate, { kind: 'prompt', tool: name, args }, requestOf(server, isModern, context)) as Promise<GetPromptResult>,
    )
  if (isModern)
    serveTasks(server, {
      get: (taskId, context) => getTask(gate, taskId, requestOf(server, true, context)),
      find: (taskId) => gate.port.get(taskId),
      cancel: (taskId) => gate.port.cancel(taskId),
    })
  return server
}
const INTERNAL = -32_603

function passOn(gate: Gate, server: Server, method: 'resources/list'): void {
  server.setRequestHandler(method, async ({ params }, { mcpReq }) => {
    const link = await gate.upstream.link()
    const { _meta, ...result } = await link.request(method, plainParams(params), { signal: mcpReq.signal })
    return result as ListResourcesResult
  })
}
