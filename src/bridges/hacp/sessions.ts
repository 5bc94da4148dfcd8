// Sessions of the wire and their connections (W19): a session belongs to the connection that opened it. After that connection has closed, it
// belongs to the first connection of the same principal that names it. Idle sessions end; a session with a running or waiting task is not idle.
import type { Connection } from '#bindings/jsonrpc/connection.ts'
import { invalidSession } from '#protocols/hardware/daemon/operations/session.ts'
import type { Failure } from './failures.ts'

type Held = { readonly principal: string; connection: Connection<Failure> | null; usedAt: number; readonly idleMs: number }

export type Sessions = {
  opened(session_id: string, principal: string, connection: Connection<Failure>, idleMs: number): void
  /** Refuses other principals as if the session were unknown. */
  use(session_id: unknown, principal: string, connection: Connection<Failure>): void
  closed(session_id: string): void
  /** The sessions of the connection wait until another connection takes them over. */
  disconnected(connection: Connection<Failure>): void
  idle(now: number): string[]
  all(): string[]
}

export function createSessions(now: () => number, hasWork: (session_id: string) => boolean): Sessions {
  const held = new Map<string, Held>()
  return {
    opened: (session_id, principal, connection, idleMs) =>
      void held.set(session_id, { principal, connection: connection.state === 'closed' ? null : connection, usedAt: now(), idleMs }),
    use(session_id, principal, connection) {
      const found = typeof session_id === 'string' ? held.get(session_id) : undefined
      if (found?.principal !== principal || (found.connection !== null && found.connection !== connection)) throw invalidSession()
      found.connection = connection
      found.usedAt = now()
    },
    closed: (session_id) => void held.delete(session_id),
    disconnected(connection) {
      for (const session of held.values()) {
        if (session.connection !== connection) continue
        session.connection = null
        session.usedAt = now()
      }
    },
    idle(at) {
      const found: string[] = []
      for (const [session_id, session] of held) {
        if (hasWork(session_id)) session.usedAt = at
        else if (at - session.usedAt > session.idleMs) found.push(session_id)
      }
      return found
    },
    all: () => [...held.keys()],
  }
}
