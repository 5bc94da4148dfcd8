// Bridges: what others wrote about HTTP, on our server. Everything at and below a bridge's path is the bridge's alone: it gets the bare
// request, before the framework would look at it, and answers in its own words. What all answers share is given to it here.
import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Actor } from '#kernel/declare/access.ts'
import type { Caller, Kernel } from '#kernel/kernel.ts'
import type { Unsent } from '../shared/unsent-answers.ts'
import type { Failure } from './responses.ts'
import type { Credential, Guard } from './browser/browser-guard.ts'
import type { LiveOptions } from './live-routes.ts'
import type { Done } from './operations.ts'
import { gatherAnswers, withOthers } from './connections/turn-batching.ts'

export type BridgeHost = {
  readonly kernel: Kernel
  readonly guard: Guard
  readonly version: string
  /** Under which address others reach this server, where the operator says so. */
  readonly origin?: string | undefined
  /** A proxy that ends TLS stands in front. */
  readonly proxied: boolean
  /** Streams: who may open sockets, what a ticket is worth, and what a test may shrink. */
  readonly live: LiveOptions
  /** For development: whatever page asks. */
  readonly anyOrigin: boolean
  authenticate(credential: Credential): Actor | Promise<Actor>
  /** The headers of every answer to this request, names and values in turn. There is no other place where they come from. */
  headersFor(request: IncomingMessage): readonly string[]
  /** Why no request like this is taken at all; null: it may go on. */
  refusalOf(request: IncomingMessage): Failure | null
  /** Whatever was thrown, as an answer; what is not expected is logged. */
  failed(error: unknown, path: string): Failure
  /** Who is told of every answer to an operation. */
  meter(operation: string, changes: boolean): Done
  bug(error: unknown): void
  /** Answers that nobody has read yet. */
  readonly unsent: Unsent
  /** Takes the body as bytes for an operation that takes some, and calls it. */
  receive(
    operation: string,
    input: object,
    request: IncomingMessage,
    response: ServerResponse,
    caller: Caller,
    actor: string,
  ): Promise<unknown>
}

export type Bridge = {
  /** Such as /toy, without a slash at its end. */
  readonly path: string
  answer(request: IncomingMessage, response: ServerResponse): void
  /** Whether this may become a socket; what may not is answered as if it had not asked for one. */
  isSocket(request: IncomingMessage): boolean
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void
  stop(): void
}
export type MakeBridge = (host: BridgeHost) => Bridge

export type Bridges = {
  /** Takes what is a bridge's; all else goes to `otherwise`. */
  listener(bound: (request: IncomingMessage) => void, otherwise: RequestListener): RequestListener
  isSocket(request: IncomingMessage): boolean
  attach(server: Server): void
  stop(): void
}

export function createBridges(makers: readonly MakeBridge[], host: BridgeHost): Bridges {
  const bridges = makers.map((make) => make(host))
  const at = ({ url }: IncomingMessage): Bridge | undefined => bridges.find(({ path }) => url !== undefined && isBelow(path, url))
  return {
    listener: (bound, otherwise) =>
      bridges.length === 0
        ? otherwise
        : (request, response) => {
            const bridge = at(request)
            if (!bridge) return otherwise(request, response)
            gatherAnswers()
            bound(request)
            bridge.answer(request, response)
          },
    isSocket: (request) => request.headers.upgrade?.toLowerCase() === 'websocket' && at(request)?.isSocket(request) === true,
    attach(server) {
      server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => at(request)?.upgrade(request, socket, head))
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

/** The whole body, undefined where there is none; null: it is larger than it may be, and what is still to come is thrown away. */
export function whenRead(request: IncomingMessage, bytesMax: number, then: (body: Buffer | undefined | null) => void): void {
  const { 'content-length': length, 'transfer-encoding': encoding } = request.headers
  if (length === undefined && encoding === undefined) return then(undefined)
  if (Number(length) > bytesMax) return then(null)
  const parts: Buffer[] = []
  let size = 0
  request.on('data', (part: Buffer) => {
    if (size > bytesMax) return
    size += part.length
    if (size > bytesMax) then(null)
    else parts.push(part)
  })
  request.on('end', () => {
    if (size > bytesMax) return
    const body = parts.length === 1 ? parts[0]! : parts.length === 0 ? undefined : Buffer.concat(parts, size)
    withOthers(() => then(body))
  })
}
