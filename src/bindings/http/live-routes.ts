// Live streams on the HTTP server: the hub, and the two ways to reach it.
import type { FastifyInstance } from 'fastify'
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { sha256 } from '#kernel/log/hash-chain.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import type { Actor } from '#kernel/declare/access.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { limits } from '#kernel/limits.ts'
import { createHub, type HubOptions, type StreamBounds } from '../live/hub.ts'
import type { Unsent } from '../shared/unsent-answers.ts'
import { createSockets, SOCKET_PATH, type Identified, type SocketBounds } from '../websocket/index.ts'
import type { Credential, Guard } from './browser/browser-guard.ts'
import { registerSse } from './sse.ts'

export type LiveOptions = {
  /** Further paths: from a path to the stream operation that it stands for. */
  readonly aliases?: Readonly<Record<string, string>>
  /** Origins of pages that may open sockets, besides our own. */
  readonly origins?: readonly string[]
  /** Who a credential stands for, without counting as its use. */
  recheck?(credential: Credential): Actor | Promise<Actor>
  /** Uses a ticket up; what it answers is asked again for as long as the socket is open. */
  redeem?(ticket: string): Promise<() => Promise<Actor>>
  readonly bounds?: Partial<StreamBounds & SocketBounds>
  readonly written?: HubOptions['written']
}

export type Live = { size(): number; stop(): void }

type Wiring = {
  readonly kernel: Kernel
  readonly guard: Guard
  readonly live?: LiveOptions | undefined
  readonly log: { error(fields: object, words: string): void }
  readonly unsent: Unsent
  authenticate(credential: Credential): Actor | Promise<Actor>
  isStopping(): boolean
}

/** Everything else that asks for another protocol is answered as if it had not asked. */
export const isSocketRequest = ({ url, headers }: IncomingMessage): boolean =>
  url?.split('?', 1)[0] === SOCKET_PATH && headers.upgrade?.toLowerCase() === 'websocket'

export function registerLive(app: FastifyInstance, { kernel, guard, live = {}, log, unsent, authenticate, isStopping }: Wiring): Live {
  const { aliases = {}, origins = [], recheck = authenticate, bounds, written } = live
  const bug = (error: unknown): void => log.error({ err: error }, 'a stream failed')
  const hub = createHub({ kernel, bounds, written, bug })
  const lingerMs = bounds?.lingerMs ?? limits.streamLingerMs
  registerSse(app, { protocols: kernel.protocols, guard, hub, aliases, lingerMs, unsent, authenticate, recheck })
  let tickets = 0
  const sockets = createSockets({
    hub,
    guard,
    codes: kernel.codes,
    origins,
    bounds,
    unsent,
    async identify(credential): Promise<Identified> {
      await authenticate(credential)
      return { who: sha256(`${credential.kind} ${credential.token}`), caller: () => recheck(credential) }
    },
    async redeem(ticket): Promise<Identified> {
      if (!live.redeem) throw new Refusal('UNAUTHENTICATED', 'this server issues no tickets')
      return { who: `ticket ${++tickets}`, caller: await live.redeem(ticket) }
    },
    isStopping,
    bug,
  })
  app.server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    if (isSocketRequest(request)) sockets.upgrade(request, socket, head)
  })
  return {
    size: hub.size,
    stop() {
      hub.stop()
      sockets.stop()
    },
  }
}
