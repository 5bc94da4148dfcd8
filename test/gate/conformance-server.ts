// The fixture of the conformance suite over HTTP, for clients of both families, and a way in for clients that cannot send a key.
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer, request as ask, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'
import { NodeStreamableHTTPServerTransport, toNodeHandler } from '@modelcontextprotocol/node'
import { createMcpHandler, isInitializeRequest, isLegacyRequest } from '@modelcontextprotocol/server'
import { openHttpSessions } from '#mcp/wire/http-sessions.ts'
import { fixtureServer } from './conformance-tools.ts'

const OWN_HOST = /^(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?$/

async function listen(t: TestContext, listener: RequestListener): Promise<string> {
  const server = createServer(listener)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://localhost:${(server.address() as AddressInfo).port}/mcp`
}

async function bodyOf(request: IncomingMessage): Promise<unknown> {
  const parts: Buffer[] = []
  for await (const part of request) parts.push(part as Buffer)
  try {
    return JSON.parse(Buffer.concat(parts).toString()) as unknown
  } catch {
    return undefined
  }
}

type Serve = (request: IncomingMessage, response: ServerResponse, body: unknown) => unknown

/** Answers only requests from this machine, as the suite wants it, with their bodies decoded. */
function listenHere(t: TestContext, serve: Serve): Promise<string> {
  return listen(t, (request, response) => {
    void (async () => {
      if (!OWN_HOST.test(request.headers.host ?? '') || !OWN_HOST.test(new URL(request.headers.origin ?? 'http://localhost').host))
        return response.writeHead(403).end()
      return serve(request, response, await bodyOf(request))
    })()
  })
}
const asLibraryRequest = (request: IncomingMessage) => Object.assign(request, { method: request.method!, url: request.url! })

/** The address of the fixture. */
export function startFixture(t: TestContext): Promise<string> {
  const sessions = new Map<string, NodeStreamableHTTPServerTransport>()
  const modern = createMcpHandler(() => fixtureServer(() => modern.notify), { legacy: 'reject' })
  const handleModern = toNodeHandler(modern)
  t.after(async () => {
    await Promise.all([...sessions.values()].map((session) => session.close()))
    await modern.close()
  })
  async function sessionFor(body: unknown): Promise<NodeStreamableHTTPServerTransport | undefined> {
    if (!isInitializeRequest(body)) return undefined
    const transport: NodeStreamableHTTPServerTransport = new NodeStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => void sessions.set(id, transport),
    })
    await fixtureServer(() => modern.notify).connect(transport)
    return transport
  }
  return listenHere(t, async (request, response, body) => {
    const headers = new Headers(
      Object.entries(request.headers).flatMap(([name, value]) => (typeof value === 'string' ? [[name, value]] : [])),
    )
    const text = body === undefined ? {} : { body: JSON.stringify(body) }
    const asked = new Request('http://localhost/mcp', { method: request.method!, headers, ...text })
    if (!(await isLegacyRequest(asked, body))) return handleModern(asLibraryRequest(request), response, body)
    const id = headers.get('mcp-session-id')
    const session = id === null ? await sessionFor(body) : sessions.get(id)
    return session ? session.handleRequest(request, response, body) : response.writeHead(id === null ? 400 : 404).end()
  })
}

/** The address of the fixture on the sessions of our own servers. */
export function startOnSessions(t: TestContext): Promise<string> {
  const notifier = {
    toolsChanged: () => sessions.notify('notifications/tools/list_changed', {}),
    promptsChanged: () => sessions.notify('notifications/prompts/list_changed', {}),
  }
  const sessions = openHttpSessions({
    serverOf: () => fixtureServer(() => notifier).server,
    sessionsMax: 100,
    log: { debug: () => undefined },
  })
  t.after(sessions.close)
  const handle = toNodeHandler({ fetch: (request, options) => sessions.fetch(request, options?.parsedBody) })
  return listenHere(t, (request, response, body) => handle(asLibraryRequest(request), response, body))
}

/** The address of a way to `url` that adds the key: the suite has no option for it. */
export function startDoor(t: TestContext, url: string, key: string): Promise<string> {
  const { host: target, port, pathname: path } = new URL(url)
  return listen(t, (request, response) => {
    const toTarget = (text: string | undefined): string | undefined => text?.replace(/(localhost|127\.0\.0\.1):\d+/, target)
    const headers = { ...request.headers, authorization: `Bearer ${key}`, host: toTarget(request.headers.host) }
    const origin = toTarget(request.headers.origin)
    const passed = ask({
      host: '127.0.0.1',
      port,
      path,
      method: request.method,
      headers: origin === undefined ? headers : { ...headers, origin },
    })
    passed.on('response', (answer) => answer.pipe(response.writeHead(answer.statusCode!, answer.headers)))
    passed.on('error', () => response.destroy())
    response.on('close', () => passed.destroy())
    request.pipe(passed)
  })
}
