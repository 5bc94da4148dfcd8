// The port of presence: the time at which each agent last called and each key was last used. It would be a fact for every call, so it is
// kept beside the record, outside the kernel.
import { timestampOf } from './clock.ts'
import { limits } from '../limits.ts'

export type Presence = {
  /** An agent has called, or a key was accepted. */
  heard(id: string): void
  /** It listens from now on, until what is returned is called. */
  listens(agent_id: string): () => void
  /** In milliseconds; null: never, as far as is known. */
  lastSeen(id: string): number | null
}

/** The known presence of an agent. `connected`: null if it is not tracked. */
export type Seen = { readonly last_seen: string | null; readonly connected: boolean | null }

/** A waiting call ends within a minute, and streams are polled twice a second, so a present agent has been seen within this time. */
export function seenBy(presence: Presence | undefined, id: string, now: number): Seen {
  if (presence === undefined) return { last_seen: null, connected: null }
  const at = presence.lastSeen(id)
  return { last_seen: at === null ? null : timestampOf(at), connected: at !== null && now - at <= limits.connectedMs }
}
