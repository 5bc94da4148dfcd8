// Live streams on the HTTP server: the hub, and the two ways to reach it.
import type { IncomingMessage, Server } from 'node:http'
import type { Duplex } from 'node:stream'
import { Refusal } from '#kernel/declare/errors.ts'
import type { Actor } from '#kernel/declare/access.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { limits } from '#kernel/limits.ts'
import { createHub, type Hub, type HubOptions, type StreamBounds } from '../live/hub.ts'
import type { UnsentAnswers } from '../shared/unsent-answers.ts'
import { createWebSockets, SOCKET_PATH, type SocketBounds } from '../websocket/index.ts'
import type { BrowserGuard } from './browser/browser-guard.ts'
import { identifiedBy, type Authenticate, type Credential, type Identified } from '../shared/credentials.ts'
import type { Failed } from '../shared/handle.ts'
import type { Reply } from './responses.ts'
import type { Route } from './router.ts'
import { sseRoutes } from './sse.ts'

export type LiveOptions = {
  /** Further paths, each mapped to its stream operation. */
  readonly aliases?: Readonly<Record<string, string>>
  /** Origins of pages that may open sockets, in addition to our own. */
  readonly origins?: readonly string[]
  /** Resolves a credential to its actor without counting as a use. */
  recheck?(credential: Credential): Actor | Promise<Actor>
  /** Redeems a ticket; the returned function re-authorizes the actor for as long as the socket is open. */
  redeem?(ticket: string): Promise<() => Promise<Actor>>
  readonly bounds?: Partial<StreamBounds & SocketBounds>
  readonly written?: HubOptions['written']
}

export type LiveRoutes = {
  readonly hub: Hub
  readonly routes: readonly Route[]
  attach(server: Server): void
  stop(): void
}

type Wiring = {
  readonly kernel: Kernel
  readonly guard: BrowserGuard
  readonly live?: LiveOptions | undefined
  readonly log: { error(fields: object, message: string): void }
  readonly unsent: UnsentAnswers
  /** Headers of every response. */
  readonly headers: Readonly<Record<string, string>>
  readonly authenticate: Authenticate
  failing(path: string): (error: unknown) => Failed<Reply>
  isStopping(): boolean
}

/** Any other `Upgrade` request is answered as if it had no `Upgrade` header. */
export const isSocketRequest = ({ url, headers }: IncomingMessage): boolean =>
  url?.split('?', 1)[0] === SOCKET_PATH && headers.upgrade?.toLowerCase() === 'websocket'

export function createLiveRoutes({
  kernel,
  guard,
  live = {},
  log,
  unsent,
  headers,
  authenticate,
  failing,
  isStopping,
}: Wiring): LiveRoutes {
  const { aliases = {}, origins = [], recheck = authenticate, bounds, written } = live
  const bug = (error: unknown): void => log.error({ err: error }, 'a stream failed')
  const hub = createHub({ kernel, bounds, written, bug })
  const lingerMs = bounds?.lingerMs ?? limits.streamLingerMs
  const sse = { protocols: kernel.protocols, guard, hub, headers, aliases, lingerMs, unsent, authenticate, recheck, failing }
  let tickets = 0
  const sockets = createWebSockets({
    hub,
    guard,
    codes: kernel.codes,
    origins,
    bounds,
    unsent,
    async identify(credential): Promise<Identified> {
      await authenticate(credential)
      return identifiedBy(recheck, credential)
    },
    async redeem(ticket): Promise<Identified> {
      if (!live.redeem) throw new Refusal('UNAUTHENTICATED', 'this server issues no tickets')
      return { who: `ticket ${++tickets}`, caller: await live.redeem(ticket) }
    },
    isStopping,
    bug,
  })
  return {
    hub,
    routes: sseRoutes(sse),
    attach(server) {
      server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
        if (isSocketRequest(request)) sockets.upgrade(request, socket, head)
      })
    },
    stop() {
      hub.stop()
      sockets.stop()
    },
  }
}
