// The type of a route: its callers, its operation, and its answer.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { BridgeHost } from '#bindings/http/mount.ts'
import type { Credential } from '#bindings/shared/credentials.ts'
import type { Actor } from '#kernel/declare/access.ts'
import type { Caller, CallOptions } from '#kernel/kernel.ts'
import type { RequestView } from '#protocols/execution/view.ts'
import { statusOf } from './request-json.ts'
import type { HttpAnswer } from './responses.ts'
import type { Tickets } from './sockets/tickets.ts'

/** A call that is ready for its operation. */
export type Ask = {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  /** The id that the path names; empty if it names nothing. */
  readonly id: string
  /** The query string, without the question mark. */
  readonly query: string
  readonly body: unknown
  readonly credential: Credential
  readonly actor: Actor
  readonly caller: Caller
  /** With the idempotency key, if there is one. */
  readonly options: CallOptions
  /** The request comes from a page of another origin, on behalf of a person. */
  readonly isPage: boolean
}

export type Route = {
  /** The kind of credential that is accepted. `agent` includes the key of its project. */
  readonly who: 'agent' | 'human' | 'anyone'
  readonly operation: string
  readonly changes: boolean
  /** The route reads the body itself, as bytes. */
  readonly bytes?: boolean
  run(ask: Ask): Promise<HttpAnswer>
}
export type Methods = Readonly<Partial<Record<'GET' | 'POST' | 'PUT' | 'DELETE', Route>>>

export type Parts = {
  readonly host: BridgeHost
  readonly tickets: Tickets
}

export function answerOf(status: number, body: unknown, headers: readonly string[] = []): HttpAnswer {
  return { status, text: JSON.stringify(body), headers }
}
/** A response about one request, with the status also in the headers. */
export const aboutRequest = (status: number, body: object, request: Pick<RequestView, 'id' | 'status'>): HttpAnswer =>
  answerOf(status, body, ['HXP-Status', statusOf(request), 'HXP-Request-Id', request.id])
