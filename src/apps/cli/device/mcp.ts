// The daemon as an MCP server (HACP hardware draft, 10.1): its tools are listed as they are, and a call is a task of one step. An error of the
// daemon is a JSON-RPC error with the same code and data; a step that failed is a result with `isError` (W36).
import type { Socket } from 'node:net'
import { ProtocolError, Server, type CallToolResult, type Tool } from '@modelcontextprotocol/server'
import { serveStdio, StdioServerTransport } from '@modelcontextprotocol/server/stdio'
import { createHacpClient, HacpError, type HacpClient, type ListedTool } from '#protocols/hardware/client.ts'
import type { ShownTask } from '#protocols/hardware/daemon/schema.ts'
import { version } from '../../version.ts'
import type { Io } from '../terminal.ts'

/** The words for a client about a tool's risk; the whole tool stands in `_meta`, fields that nobody here knows included. */
function toolOf(tool: ListedTool): Tool {
  const { name, description, params_schema, risk_level, supports_rollback } = tool
  return {
    name,
    description,
    inputSchema: { ...params_schema, type: 'object' },
    annotations: {
      readOnlyHint: risk_level === 0,
      destructiveHint: risk_level >= 2 && !supports_rollback,
      idempotentHint: risk_level === 0,
      openWorldHint: true,
    },
    _meta: { hacp: tool },
  }
}

function resultOf({ status, code, steps, task_id }: ShownTask): CallToolResult {
  const [step] = steps
  const _meta = { hacp: { task_id, status, ...(step?.code === undefined ? {} : { code: step.code }) } }
  if (status === 'SUCCESS') {
    const result = step!.result ?? {}
    return { content: [{ type: 'text', text: JSON.stringify(result) }], structuredContent: result, _meta }
  }
  const words = step?.error ?? `the task is ${status}${code === undefined ? '' : ` (${code})`}`
  return { content: [{ type: 'text', text: step?.code === undefined ? words : `${step.code}: ${words}` }], isError: true, _meta }
}

const asProtocolError = (error: unknown): unknown =>
  error instanceof HacpError ? new ProtocolError(error.code, error.message, error.data) : error

function serverOf(client: HacpClient, session_id: string): Server {
  const server = new Server({ name: 'countersign-device', version }, { capabilities: { tools: {} } })
  server.setRequestHandler('tools/list', async () => ({ tools: (await client.tools(session_id)).map(toolOf) }))
  server.setRequestHandler('tools/call', async ({ params }, context) => {
    try {
      return resultOf(
        await client.run(session_id, params.name, params.arguments ?? {}, { intent: `MCP: ${params.name}`, signal: context.mcpReq.signal }),
      )
    } catch (error) {
      throw asProtocolError(error)
    }
  })
  return server
}

/** Resolves when the client has gone, or the daemon has. */
export async function serveMcp(socket: Socket, io: Io): Promise<void> {
  const client = createHacpClient('countersign-mcp', version, (line) => void socket.write(line))
  socket.on('data', (bytes: Uint8Array) => client.receive(bytes))
  const gone = new Promise<void>((done) => socket.once('close', done).once('error', () => done()))
  void gone.then(() => client.ended('the daemon has closed the connection'))
  const { session_id } = await client.open()
  // Sessions end when nobody speaks for five minutes; whoever has this open speaks through us.
  const beat = setInterval(() => void client.tools(session_id).catch(() => undefined), BEAT_MS)
  const transport = new StdioServerTransport(io.input, io.out as NodeJS.WriteStream)
  const send = transport.send.bind(transport)
  transport.send = (message) => send(withOwnCode(message))
  const serving = serveStdio(() => serverOf(client, session_id), { transport })
  await Promise.race([gone, new Promise<void>((done) => io.input.once('end', done).once('close', done))])
  clearInterval(beat)
  await serving.close()
  await Promise.race([client.call('session.close', { session_id }).catch(() => undefined), gone])
  socket.destroy()
  io.input.destroy()
}
const BEAT_MS = 60_000

const TOOL_NOT_FOUND = -32_002
/** The library writes this one number as another, because it once meant something else in MCP; here it means the daemon's (W36). */
function withOwnCode<M>(message: M): M {
  const { error } = message as { error?: { data?: { code?: unknown } } }
  return error?.data?.code === 'tool_not_found' ? { ...message, error: { ...error, code: TOOL_NOT_FOUND } } : message
}
