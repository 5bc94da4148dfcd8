// News from the server: the state of the connection, and the changed items. Changes that arrive together are handled together.
import type { InboxList } from './list.ts'

const GATHER_MS = 100

/** `attempt` runs the work and shows its error. */
export function createNews(items: InboxList, attempt: (work: () => Promise<void>) => Promise<void>): (request_id: string) => void {
  const changed = new Set<string>()
  let isGathering = false

  async function refreshChanged(): Promise<void> {
    while (changed.size > 0) {
      const ids = [...changed]
      changed.clear()
      const isKnown = (id: string): boolean => items.all.some(({ request_id }) => request_id === id)
      for (const id of ids.filter(isKnown)) await items.reload(id)
      if (!ids.every(isKnown)) await items.refresh()
      await items.recount()
    }
  }
  return (request_id) => {
    changed.add(request_id)
    if (isGathering) return
    isGathering = true
    setTimeout(() => void attempt(refreshChanged).finally(() => (isGathering = false)), GATHER_MS)
  }
}

export type Connection = {
  /** Since when the server is unreachable; null: it is reachable. */
  readonly awaySince: number | null
  /** Sets the state of the stream or of calls. Returns whether it was connected before. */
  lost(of: 'stream' | 'calls', isLost: boolean): boolean
}

export function createConnection(now: () => number): Connection {
  const away = { stream: false, calls: false }
  let since: number | null = null
  return {
    get awaySince() {
      return since
    },
    lost(of, isLost) {
      const was = away[of]
      away[of] = isLost
      since = away.stream || away.calls ? (since ?? now()) : null
      return !was
    },
  }
}
