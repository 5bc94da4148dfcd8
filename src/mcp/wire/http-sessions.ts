// MCP over Streamable HTTP, for any MCP server of this project. Clients of 2026-07-28 have no session; earlier ones get one with `initialize`, so that
// the server can ask them questions while a call runs. A session belongs to the actor that opened it.
import { randomUUID } from 'node:crypto'
import {
  createMcpHandler,
  isLegacyRequest,
  WebStandardStreamableHTTPServerTransport,
  type AuthInfo,
  type McpHttpHandler,
  type Server,
} from '@modelcontextprotocol/server'

/** Makes the server of one session, or of one request of a client without sessions. */
export type MakeServer = (isModern: boolean, authInfo?: AuthInfo) => Server | Promise<Server>

type OpenSession = { readonly transport: WebStandardStreamableHTTPServerTransport; readonly server: Server }

/** The sessions of one actor. */
export type HttpSessions = {
  /** The body is decoded already. */
  fetch(request: Request, body: unknown, authInfo?: AuthInfo): Promise<Response>
  /** Sends a notification that concerns no single request to every client, or to the clients of one family. */
  notify(method: string, params: Record<string, unknown>, isModern?: boolean): void
  size(): number
  close(): Promise<void>
}

export type HttpSessionsOptions = {
  readonly serverOf: MakeServer
  /** The least recently used session ends. */
  readonly sessionsMax: number
  readonly log: { debug(fields: object, message: string): void }
}

const SESSION_HEADER = 'mcp-session-id'

export function openHttpSessions({ serverOf, sessionsMax, log }: HttpSessionsOptions): HttpSessions {
  const sessions = new Map<string, OpenSession>()
  const modern = createMcpHandler(({ authInfo }) => serverOf(true, authInfo), {
    legacy: 'reject',
    onerror: (error) => log.debug({ error: error.message }, 'an MCP client sent an invalid message'),
  })

  async function open(authInfo: AuthInfo | undefined): Promise<OpenSession> {
    const server = await serverOf(false, authInfo)
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized(id) {
        sessions.set(id, session)
        const [oldest] = sessions
        if (sessions.size > sessionsMax && oldest) void oldest[1].server.close().catch(() => undefined)
      },
    })
    const session = { transport, server }
    await server.connect(transport)
    server.onclose = () => void sessions.delete(transport.sessionId ?? '')
    return session
  }

  async function fetchLegacy(request: Request, body: unknown, authInfo: AuthInfo | undefined): Promise<Response> {
    const id = request.headers.get(SESSION_HEADER)
    const known = id === null ? undefined : sessions.get(id)
    if (id !== null && !known) return refusalOf(404, -32_001, 'the session has ended: initialize again')
    const session = known ?? (await open(authInfo))
    if (id !== null && known) {
      sessions.delete(id)
      sessions.set(id, known)
    }
    return session.transport.handleRequest(request, optionsOf(body, authInfo))
  }

  return {
    async fetch(request, body, authInfo) {
      if (Array.isArray(body)) return refusalOf(400, -32_600, 'MCP has no batches: send one message')
      const isLegacy = await isLegacyRequest(request, body)
      return isLegacy ? fetchLegacy(request, body, authInfo) : modern.fetch(request, optionsOf(body, authInfo))
    },
    notify(method, params, isModern) {
      if (isModern !== true) for (const { server } of sessions.values()) void server.notification({ method, params }).catch(() => undefined)
      if (isModern !== false) tellListeners(modern, method, params)
    },
    size: () => sessions.size,
    async close() {
      await Promise.all([...sessions.values()].map(({ server }) => server.close().catch(() => undefined)))
      await modern.close()
    },
  }
}

const refusalOf = (status: number, code: number, message: string): Response =>
  Response.json({ jsonrpc: '2.0', id: null, error: { code, message } }, { status })

const optionsOf = (body: unknown, authInfo: AuthInfo | undefined) => ({
  ...(body === undefined ? {} : { parsedBody: body }),
  ...(authInfo === undefined ? {} : { authInfo }),
})

function tellListeners({ notify }: McpHttpHandler, method: string, { uri }: Record<string, unknown>): void {
  if (method === 'notifications/tools/list_changed') notify.toolsChanged()
  else if (method === 'notifications/prompts/list_changed') notify.promptsChanged()
  else if (method === 'notifications/resources/list_changed') notify.resourcesChanged()
  else if (method === 'notifications/resources/updated' && typeof uri === 'string') notify.resourceUpdated(uri)
}

export type Place = { readonly sessions: HttpSessions; close(): Promise<void> }

/** One entry for each actor. Beyond the bound, the least recently used entry without a request in flight is closed. */
export function placesByActor<P extends Place>(actorsMax: number) {
  const places = new Map<string, { readonly place: P; inFlight: number }>()

  function entryOf(actor: string, open: () => P): { readonly place: P; inFlight: number } {
    const entry = places.get(actor) ?? { place: open(), inFlight: 0 }
    places.delete(actor)
    places.set(actor, entry)
    const idle = places.size <= actorsMax ? undefined : [...places].find(([id, { inFlight }]) => inFlight === 0 && id !== actor)
    if (idle) {
      places.delete(idle[0])
      void idle[1].place.close()
    }
    return entry
  }

  return {
    /** Serves a request in the entry of its actor. */
    use(actor: string, open: () => P, request: Request, serve: (place: P) => Promise<Response>): Promise<Response> {
      const entry = entryOf(actor, open)
      entry.inFlight++
      request.signal.addEventListener('abort', () => entry.inFlight--, { once: true })
      return serve(entry.place)
    },
    async close() {
      await Promise.all([...places.values()].map(({ place }) => place.close()))
      places.clear()
    },
  }
}
