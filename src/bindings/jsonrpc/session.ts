// A session: one connection of the JSON-RPC binding, with the credential that it has shown and the streams that it follows.
import { Refusal } from '#kernel/declare/errors.ts'
import type { Actor } from '#kernel/declare/access.ts'
import type { Kernel } from '#kernel/kernel.ts'
import type { Authenticate, Credential } from '../shared/credentials.ts'
import { openConnection, send, type Connection, type Peer, type Wire } from './connection.ts'
import { answerTo } from './requests.ts'
import { endLine, type Failure, type Id } from './responses.ts'

/** One request. `id` undefined: a notification, which is not answered. */
export type Called = {
  readonly session: RpcSession
  readonly id: Id | undefined
  readonly params: object
  /** The parts of `params`, once it was looked into. */
  parts: Parts | null
}
export type Parts = { readonly input: object; readonly credential: Credential | undefined; readonly key: string | undefined }

/** The line that answers a request, null for a notification. Never rejects. */
export type Method = (called: Called) => Promise<string | null>

export type Shared = {
  readonly kernel: Kernel
  readonly authenticate: Authenticate
  readonly log: { error(fields: object, message: string): void }
  readonly wire: Wire<Failure>
  readonly followsMax: number
  readonly methods: ReadonlyMap<string, Method>
}

export type RpcSession = {
  readonly shared: Shared
  readonly connection: Connection<Failure>
  readonly follows: Map<number, AbortController>
  lastFollow: number
  credential: Credential | null
  /** Pending rpc.authenticate; calls sent right after it wait for it. */
  authenticating: Promise<unknown> | null
  /** The actor of the connection's credential, cached for the calls of one batch. */
  identified: Actor | Promise<Actor> | null
  /** This connection has presented a valid credential. */
  known: boolean
  /** The last caller: unread responses of this connection count against it. */
  actor: string
}

export function openSession(shared: Shared, peer: Peer, closed: () => void): RpcSession {
  const follows = new Map<number, AbortController>()
  const session: RpcSession = {
    shared,
    connection: openConnection(shared.wire, peer, {
      answer: (message, say) => answerTo(session, message, say),
      actor: () => session.actor,
      draining(why) {
        for (const [id, stop] of follows) {
          stop.abort()
          send(session.connection, endLine(id, why))
        }
      },
      closed() {
        for (const stop of follows.values()) stop.abort()
        closed()
      },
    }),
    follows,
    lastFollow: 0,
    credential: null,
    authenticating: null,
    identified: null,
    known: false,
    actor: '',
  }
  return session
}

/** The credential of the connection; a call right after rpc.authenticate waits for its outcome. */
export function credentialOf(session: RpcSession): Credential | Promise<Credential> {
  return session.authenticating?.then(() => shownBy(session)) ?? shownBy(session)
}

function shownBy({ credential }: RpcSession): Credential {
  if (credential !== null) return credential
  throw new Refusal('UNAUTHENTICATED', 'call rpc.authenticate with a token first, or put one into params._meta')
}

/** Authenticates every attempt of a call and every batch of a stream, so that a revoked credential stops working immediately. */
export function actorOf(session: RpcSession, credential: Credential): Actor | Promise<Actor> {
  if (credential !== session.credential) return identify(session, credential)
  return session.identified ?? identifiedNow(session, credential)
}

function identify(session: RpcSession, credential: Credential): Actor | Promise<Actor> {
  const asked = session.shared.authenticate(credential)
  if (asked instanceof Promise) return identifiedLater(session, asked)
  session.known = true
  session.actor = asked.id
  return asked
}

async function identifiedLater(session: RpcSession, asked: Promise<Actor>): Promise<Actor> {
  const actor = await asked
  session.known = true
  session.actor = actor.id
  return actor
}

/** Calls that arrive in one batch share one authentication: nothing can be revoked between the first and the last. */
function identifiedNow(session: RpcSession, credential: Credential): Actor | Promise<Actor> {
  process.nextTick(forget, session)
  const asking = identify(session, credential)
  session.identified = asking
  return asking
}
const forget = (session: RpcSession): void => {
  session.identified = null
}
