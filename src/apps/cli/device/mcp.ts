// The daemon as an MCP server (HACP hardware draft, 10.1): its tools are listed unchanged, and a call is a task of one step. An error of the
// daemon is a JSON-RPC error with the same code and data; a failed step is a result with `isError` (W36). A long call reports its progress, and
// becomes an MCP task for clients that support tasks (W14).
import type { Socket } from 'node:net'
import {
  ProtocolError,
  Server,
  type CallToolResult,
  type ServerContext as Context,
  type StandardSchemaV1,
  type Tool,
} from '@modelcontextprotocol/server'
import { serveStdio, StdioServerTransport } from '@modelcontextprotocol/server/stdio'
import { createHacpClient, HacpError, type HacpClient, type HeardEvent, type ListedTool } from '#protocols/hardware/client.ts'
import type { ShownTask } from '#protocols/hardware/daemon/schema.ts'
import { version } from '../../version.ts'
import type { Io } from '../terminal.ts'

/** Maps a tool's risk to MCP annotations; `_meta` carries the whole tool, including unknown fields. */
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
  const message = step?.error ?? `the task is ${status}${code === undefined ? '' : ` (${code})`}`
  return { content: [{ type: 'text', text: step?.code === undefined ? message : `${step.code}: ${message}` }], isError: true, _meta }
}

const asProtocolError = (error: unknown): unknown =>
  error instanceof HacpError ? new ProtocolError(error.code, error.message, error.data) : error

type Asked = Context['mcpReq']

/** The extension of MCP 2026-07-28 with which a client accepts a handle instead of an answer and fetches the answer later. */
const TASKS = 'io.modelcontextprotocol/tasks'
const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities'
/** A client that supports handles gets one for an unfinished call after this time; other clients wait for the end. */
const WAIT_MS = 2_000
const POLL_MS = 500

const canTakeTasks = ({ envelope }: Asked): boolean => {
  const declared = (envelope as Record<string, { extensions?: Record<string, unknown> } | undefined> | undefined)?.[CAPABILITIES]
  return declared?.extensions?.[TASKS] !== undefined
}

const handleOf = ({ task_id, created_at, finished_at }: Pick<ShownTask, 'task_id' | 'created_at' | 'finished_at'>) => ({
  taskId: task_id,
  createdAt: created_at,
  lastUpdatedAt: finished_at ?? new Date().toISOString(),
  // The daemon keeps every task.
  ttlMs: null,
  pollIntervalMs: POLL_MS,
})

/** A failed step is an answer, too. Only a call that created no task is an error. */
function shownAsTask(task: ShownTask): Record<string, unknown> {
  if (task.finished_at === null) return { ...handleOf(task), status: 'working' }
  return task.status === 'CANCELLED'
    ? { ...handleOf(task), status: 'cancelled' }
    : { ...handleOf(task), status: 'completed', result: resultOf(task) }
}

const pause = (ms: number): { readonly over: Promise<null>; end(): void } => {
  const { promise: over, resolve } = Promise.withResolvers<null>()
  const timer = setTimeout(resolve, ms, null)
  return { over, end: () => clearTimeout(timer) }
}

/** Runs a tool as a task of one step, and reports its progress to clients that asked for it. */
async function callTool(client: HacpClient, session_id: string, name: string, args: object, asked: Asked): Promise<CallToolResult> {
  const token = asked._meta?.progressToken
  let eventCount = 0
  const onEvent = ({ phase }: HeardEvent): void => {
    if (token === undefined || phase === 'task_finish') return
    const params = { progressToken: token, progress: ++eventCount, message: `${name}: ${phase}` }
    void asked.notify({ method: 'notifications/progress', params }).catch(() => undefined)
  }
  const begun = Promise.withResolvers<string>()
  const options = { intent: `MCP: ${name}`, signal: asked.signal, started: begun.resolve, heard: onEvent }
  const running = client.run(session_id, name, args, options)
  if (!canTakeTasks(asked)) return resultOf(await running)
  const patience = pause(WAIT_MS)
  const done = await Promise.race([running, patience.over]).finally(patience.end)
  if (done !== null) return resultOf(done)
  running.catch(() => undefined)
  // A task with an id is stored by the daemon.
  const task = (await client.call('task.get', { session_id, task_id: await begun.promise })) as ShownTask
  return { resultType: 'task', ...handleOf(task), status: 'working' } as unknown as CallToolResult
}

/** Finds tasks of earlier sessions with the same policy, too: a client can reconnect through another bridge. */
async function taskNamed(client: HacpClient, session_id: string, task_id: string): Promise<ShownTask> {
  try {
    return (await client.call('task.get', { session_id, task_id })) as ShownTask
  } catch (error) {
    const { tasks } = (await client.call('task.history', { session_id, limit: HISTORY })) as { tasks: ShownTask[] }
    const found = tasks.find((task) => task.task_id === task_id)
    if (found) return found
    throw error
  }
}
const HISTORY = 100

const Named: StandardSchemaV1<unknown, { readonly taskId: string }> = {
  '~standard': {
    version: 1,
    vendor: 'countersign',
    validate(value) {
      const { taskId } = value as { taskId?: unknown }
      return typeof taskId === 'string' ? { value: { taskId } } : { issues: [{ message: 'taskId must be a text' }] }
    },
  },
}
const ofTask = { params: Named }

function serverOf(client: HacpClient, session_id: string): Server {
  const server = new Server({ name: 'countersign-device', version }, { capabilities: { tools: {}, extensions: { [TASKS]: {} } } })
  const withErrorText = async <T>(work: Promise<T>): Promise<T> => {
    try {
      return await work
    } catch (error) {
      throw asProtocolError(error)
    }
  }
  server.setRequestHandler('tools/list', async () => ({ tools: (await client.tools(session_id)).map(toolOf) }))
  server.setRequestHandler('tools/call', ({ params }, { mcpReq }) =>
    withErrorText(callTool(client, session_id, params.name, params.arguments ?? {}, mcpReq)),
  )
  server.setRequestHandler('tasks/get', ofTask, ({ taskId }) => withErrorText(taskNamed(client, session_id, taskId).then(shownAsTask)))
  // Nothing of a device waits for the client's input.
  server.setRequestHandler('tasks/update', ofTask, ({ taskId }) => withErrorText(taskNamed(client, session_id, taskId).then(() => ({}))))
  server.setRequestHandler('tasks/cancel', ofTask, ({ taskId }) =>
    withErrorText(client.call('task.cancel', { session_id, task_id: taskId }).then(() => ({}))),
  )
  return server
}

/** Resolves when the client or the daemon has disconnected. */
export async function serveMcp(socket: Socket, io: Io): Promise<void> {
  const client = createHacpClient('countersign-mcp', version, (line) => void socket.write(line))
  socket.on('data', (bytes: Uint8Array) => client.receive(bytes))
  const gone = new Promise<void>((done) => socket.once('close', done).once('error', () => done()))
  void gone.then(() => client.ended('the daemon has closed the connection'))
  const { session_id } = await client.open()
  // Sessions end after five minutes without a call, so this keeps the session of a connected client open.
  const beat = setInterval(() => void client.tools(session_id).catch(() => undefined), BEAT_MS)
  const transport = new StdioServerTransport(io.input, io.out as NodeJS.WriteStream)
  const send = transport.send.bind(transport)
  transport.send = (message) => send(withoutTaskContent(message))
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
/**
 * Undoes two changes of the library: it replaces an error code that had another meaning in earlier revisions of MCP (here it is the daemon's,
 * W36), and it adds content to every answer, which the handle of a task must not have.
 */
function withoutTaskContent<M>(message: M): M {
  const { error, result } = message as { error?: { data?: { code?: unknown } }; result?: { resultType?: unknown; content?: unknown } }
  if (error?.data?.code === 'tool_not_found') return { ...message, error: { ...error, code: TOOL_NOT_FOUND } }
  if (result?.resultType !== 'task') return message
  const { content: _, ...handle } = result
  return { ...message, result: handle }
}
