// Our MCP server over Streamable HTTP, inside of the server.
import { randomBytes } from 'node:crypto'
import { limits } from '#kernel/limits.ts'
import type { McpCaller } from './caller.ts'
import { asAuthInfo, callerIn, offerOf, serverOf, type McpOptions } from './server.ts'
import { openHttpSessions, placesByActor, type Place } from './wire/http-sessions.ts'

export type HttpMcp = {
  /** The body is decoded already. */
  fetch(caller: McpCaller, request: Request, body: unknown): Promise<Response>
  close(): Promise<void>
}

export function mcpOverHttp(
  options: Omit<McpOptions, 'key'> & { readonly log: { debug(fields: object, message: string): void } },
): HttpMcp {
  const offer = offerOf({ ...options, key: randomBytes(32) })
  const places = placesByActor<Place>(limits.mcpActorsMax)
  function open(): Place {
    const sessions = openHttpSessions({
      serverOf: (isModern, authInfo) => serverOf(offer, isModern, callerIn(authInfo), (context) => callerIn(context.http?.authInfo)),
      sessionsMax: limits.mcpSessionsMax,
      log: options.log,
    })
    return { sessions, close: sessions.close }
  }
  return {
    fetch: (caller, request, body) =>
      places.use(caller.id, open, request, ({ sessions }) => sessions.fetch(request, body, asAuthInfo(caller))),
    close: places.close,
  }
}
