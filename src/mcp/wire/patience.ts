// The patience of a gate: how long it holds a call that waits for a person, by the name and the capabilities of the client (docs/gate.md, "Waiting").
export type Patience =
  /** The client accepts a task and fetches it later. */
  | { readonly way: 'task' }
  /** Held until the request ends; null: unbounded. */
  | { readonly way: 'hold'; readonly ms: number | null }
  /** Held in rounds: each ends with `input_required`, and the client calls again by itself. */
  | { readonly way: 'rounds'; readonly ms: number; readonly rounds: number }

export type Asker = {
  readonly isModern: boolean
  readonly name: string
  readonly hasProgressToken: boolean
  readonly takesTasks: boolean
}

/** Clients that restart their timeout with each progress notification. */
const COUNT_PROGRESS: ReadonlySet<string> = new Set(['claude-code', 'opencode'])
/** Clients cut a silent call after 60 s unless this table says otherwise. */
const USUAL_MS = 45_000
const OWN_MS: Readonly<Record<string, number>> = {
  /** Codex cuts after 5 minutes. */
  'codex-mcp-client': 4 * 60_000,
  /** The usual name of Python's client, which cuts after 5 s. */
  mcp: 4_000,
}
/** Clients give up after 10 rounds. */
const ROUNDS_MAX = 8

export function patienceOf({ isModern, name, hasProgressToken, takesTasks }: Asker, holdMs: number | null): Patience {
  if (takesTasks) return { way: 'task' }
  if (hasProgressToken && COUNT_PROGRESS.has(name)) return { way: 'hold', ms: holdMs }
  const usual = Object.hasOwn(OWN_MS, name) ? OWN_MS[name]! : USUAL_MS
  const ms = holdMs === null ? usual : Math.min(usual, holdMs)
  return isModern ? { way: 'rounds', ms, rounds: ROUNDS_MAX } : { way: 'hold', ms }
}
