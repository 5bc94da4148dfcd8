// Bridges: wires that a draft defines, on our HTTP server. All paths at and below a bridge's path belong to the bridge: it gets the raw
// request and answers in its own format. The parts that all answers share are given to it here.
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Kernel } from '#kernel/kernel.ts'
import type { Hub } from '../live/hub.ts'
import type { UnsentAnswers } from '../shared/unsent-answers.ts'
import type { Failure } from './responses.ts'
import type { BrowserGuard } from './browser/browser-guard.ts'
import type { Authenticate } from '../shared/credentials.ts'
import type { LiveOptions } from './live-routes.ts'
import type { Ask, Done } from '../shared/handle.ts'

export type BridgeHost = {
  readonly kernel: Kernel
  readonly guard: BrowserGuard
  readonly version: string
  /** The public address of this server, if the operator configured one. */
  readonly origin?: string | undefined
  /** A proxy in front terminates TLS. */
  readonly proxied: boolean
  /** Live streams, for any number of subscribers. */
  readonly hub: Hub
  /** Streams: who can open sockets, how tickets are redeemed, and bounds that tests shrink. */
  readonly live: LiveOptions
  /** Development only: pages of any origin are allowed. */
  readonly anyOrigin: boolean
  readonly authenticate: Authenticate
  /** The headers of every response to this request, as alternating names and values. No other code adds headers. */
  headersFor(request: IncomingMessage): readonly string[]
  /** Why the request is refused up front; null: it is accepted. */
  refusalOf(request: IncomingMessage): Failure | null
  /** Any exception as a response; unexpected errors are logged. */
  failed(error: unknown, path: string): Failure
  /** Counts every answer to an operation. */
  meter(operation: string, changes: boolean): Done<{ readonly request: IncomingMessage }>
  bug(error: unknown): void
  /** Responses that clients have not read yet. */
  readonly unsent: UnsentAnswers
  /** Streams the body into the blob store for an upload operation, then calls the operation. */
  receive(
    operation: string,
    ask: Pick<Ask<object>, 'input' | 'caller' | 'actor' | 'options'>,
    exchange: { readonly request: IncomingMessage; readonly response: ServerResponse },
  ): Promise<unknown>
}

export type Bridge = {
  /** Such as /toy, without a slash at its end. */
  readonly path: string
  /** Headers of its answers that a page of another origin can read. */
  readonly exposes?: readonly string[]
  answer(request: IncomingMessage, response: ServerResponse): void
  /** Whether this request can be upgraded to a WebSocket. Otherwise the upgrade is ignored and the request is answered normally. */
  isSocket(request: IncomingMessage): boolean
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void
  stop(): void
}
export type MakeBridge = (host: BridgeHost) => Bridge

export type Bridges = {
  /** The bridge that an address belongs to. */
  at(url: string): Bridge | undefined
  /** Headers that pages of other origins can read. */
  readonly exposed: readonly string[]
  isSocket(request: IncomingMessage): boolean
  attach(server: Server): void
  stop(): void
}

export function mountBridges(makers: readonly MakeBridge[], host: BridgeHost): Bridges {
  const bridges = makers.map((make) => make(host))
  const at = (url: string): Bridge | undefined => bridges.find(({ path }) => isBelow(path, url))
  return {
    at,
    exposed: bridges.flatMap(({ exposes = [] }) => exposes),
    isSocket: (request) => request.headers.upgrade?.toLowerCase() === 'websocket' && at(request.url!)?.isSocket(request) === true,
    attach(server) {
      server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => at(request.url!)?.upgrade(request, socket, head))
    },
    stop: () => bridges.forEach((bridge) => bridge.stop()),
  }
}

const SLASH = 47
const QUESTION_MARK = 63
function isBelow(path: string, url: string): boolean {
  if (!url.startsWith(path)) return false
  const next = url.charCodeAt(path.length)
  return Number.isNaN(next) || next === SLASH || next === QUESTION_MARK
}
