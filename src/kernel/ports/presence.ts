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

/** An agent as it is known to be there. `connected`: null where no track is kept of it. */
export type Seen = { readonly last_seen: string | null; readonly connected: boolean | null }

/** A call that waits is over within a minute, and a stream is asked about twice a second: an agent that is there was heard of lately. */
export function seenBy(presence: Presence | undefined, id: string, now: number): Seen {
  if (presence === undefined) return { last_seen: null, connected: null }
  const at = presence.lastSeen(id)
  return { last_seen: at === null ? null : timestampOf(at), connected: at !== null && now - at <= limits.connectedMs }
}
