// A real MCP server for tests: over stdio when it is run, over Streamable HTTP when it is asked for. Its tools misbehave on purpose.
import { randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'
import { createMcpHandler, fromJsonSchema, McpServer } from '@modelcontextprotocol/server'
import { NodeStreamableHTTPServerTransport, toNodeHandler } from '@modelcontextprotocol/node'

const object = (properties: Record<string, unknown> = {}, required: readonly string[] = []) => ({
  type: 'object' as const,
  properties,
  required: [...required],
})
const schema = (properties?: Record<string, unknown>, required?: readonly string[]) => fromJsonSchema(object(properties, required) as never)
const text = (message: string) => ({ content: [{ type: 'text' as const, text: message }] })

/** How often each tool has run in this process. */
export const runs = new Map<string, number>()

export function createTestServer(tools = 0, version = '1.4.2'): McpServer {
  const server = new McpServer({ name: 'test-server', version })
  const tool = (name: string, more: object, work: (input: any) => any): void => {
    server.registerTool(
      name,
      { description: `The tool ${name}.`, inputSchema: schema(), ...more } as never,
      (async (input: any) => {
        runs.set(name, (runs.get(name) ?? 0) + 1)
        return work(input)
      }) as never,
    )
  }
  tool('echo', { title: 'Echo', inputSchema: schema({ message: { type: 'string', pattern: '^[a-z ]+$' } }, ['message']) }, ({ message }) =>
    text(message),
  )
  tool(
    'sum',
    {
      inputSchema: schema({ of: { type: 'array', items: { type: 'number' } } }, ['of']),
      outputSchema: schema({ total: { type: 'number' } }, ['total']),
    },
    ({ of }) => ({ ...text('done'), structuredContent: { total: of.reduce((a: number, b: number) => a + b, 0) } }),
  )
  tool('fails', {}, () => ({ ...text('the disk is on fire'), isError: true }))
  tool('hangs', {}, () => new Promise(() => undefined))
  tool('dies', {}, () => process.exit(1))
  tool('floods', {}, () => text('x'.repeat(400_000)))
  tool('environment', {}, () => text(JSON.stringify(process.env)))
  tool('grows', {}, () => {
    tool('grown', {}, () => text('I am new'))
    return text('one more')
  })
  for (let i = 0; i < tools; i++) tool(`tool-${String(i).padStart(4, '0')}`, {}, () => text(String(i)))
  return server
}

export type HttpMcp = { readonly url: string; close(): Promise<void> }

type Handler = (request: IncomingMessage, response: ServerResponse) => void

const stateless = (tools: number): Handler => {
  const handler = toNodeHandler(createMcpHandler(() => createTestServer(tools)))
  return (request, response) => void handler(request as never, response)
}

/** Behaves like servers of the older revisions: a request with an unknown session gets 404. */
function withSessions(): Handler {
  const sessions = new Map<string, NodeStreamableHTTPServerTransport>()
  return (request, response) => {
    const id = request.headers['mcp-session-id']
    const known = typeof id === 'string' ? sessions.get(id) : undefined
    if (known) return void known.handleRequest(request, response)
    if (id !== undefined) return void response.writeHead(404).end()
    const made = new NodeStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (session) => void sessions.set(session, made),
    })
    void createTestServer()
      .connect(made)
      .then(() => made.handleRequest(request, response))
  }
}

/** Closed with the test at the latest: a server left open by a failed test would keep its file from ending. */
export async function serveOverHttp(t: Pick<TestContext, 'after'>, tools = 0, port = 0, sessions = false): Promise<HttpMcp> {
  const http = createServer(sessions ? withSessions() : stateless(tools))
  await new Promise<void>((done) => http.listen(port, '127.0.0.1', done))
  const close = (): Promise<void> =>
    new Promise((done) => {
      http.close(() => done())
      http.closeAllConnections()
    })
  t.after(close)
  return { url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`, close }
}

if (import.meta.main) {
  const { StdioServerTransport } = await import('@modelcontextprotocol/server/stdio')
  await createTestServer(Number(process.argv[2] ?? 0)).connect(new StdioServerTransport())
}
