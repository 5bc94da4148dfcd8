// Denials in the audit (W6, W41): each session and code gets a limited number of lines a minute; further ones share one line with a count.
import { setBounded } from '#kernel/codec/bounded-map.ts'
import { limits } from '#kernel/limits.ts'

export type Denial = {
  readonly code: string
  readonly method: string
  readonly tool?: string
  readonly policy: string
  readonly session_id?: string
  readonly count?: number
}
type Window = { readonly from: number; count: number; last: Denial | null }

export type Denials = {
  /** `whose`: the session, or the connection without one. Resolves when its audit line, if it gets one, is written. */
  note(whose: string, denial: Denial): Promise<unknown> | null
  /** Writes the counted denials whose minute has ended. */
  sweep(): void
}

const MINUTE_MS = 60_000
const WINDOWS_MAX = 10_000

export function createDenials(now: () => number, record: (denial: Denial) => Promise<unknown>): Denials {
  const windows = new Map<string, Window>()
  const settle = ({ count, last }: Window): void => {
    const beyond = count - limits.deviceDenialsPerMinute
    if (last && beyond > 0) void record({ ...last, count: beyond })
  }
  return {
    note(whose, denial) {
      const name = `${whose} ${denial.code}`
      const at = now()
      let window = windows.get(name)
      if (!window || at - window.from >= MINUTE_MS) {
        if (window) settle(window)
        setBounded(windows, name, (window = { from: at, count: 0, last: null }), WINDOWS_MAX)
      }
      window.count++
      window.last = denial
      return window.count <= limits.deviceDenialsPerMinute ? record(denial) : null
    },
    sweep() {
      for (const [name, window] of windows) {
        if (now() - window.from < MINUTE_MS) continue
        settle(window)
        windows.delete(name)
      }
    },
  }
}
