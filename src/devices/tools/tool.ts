// The interface of a tool: the things that it is given when it acts, and its answer.
import type { Value } from '#kernel/log/store.ts'
import type { Policy } from '#protocols/hardware/daemon/policy.ts'
import type { Envelope } from '../envelope.ts'
import type { Board } from '../port.ts'
import type { PathGuard } from '../path-guard.ts'

export type Acting = {
  readonly args: Value
  readonly session_id: string
  readonly policy: Policy
  /** Asked to yield. A transaction under way runs to its end. */
  readonly signal: AbortSignal
}
/** `undo` takes back what was done, for a task that is rolled back. */
export type Done = { readonly result: Value; readonly undo?: () => void }

export type Bench = {
  readonly board: Board
  readonly envelope: Envelope
  readonly device_id: string
  readonly dataFolder: string
  readonly startedAt: number
  /** A line by number or name. */
  lineOf(name: unknown): number
  guardOf(policy: Policy): PathGuard
  /** The session that has set an output is the one whose end brings it back to its safe state. */
  readonly setBy: Map<number, string>
  readonly programs: ReadonlyMap<string, Program>
}
export type Program = { readonly argv: readonly string[]; readonly takesArgs: boolean }

export type Execute = (bench: Bench, acting: Acting) => Promise<Done> | Done

/** Resolves after the time, or at once when asked to yield; true: it was the time. */
export function pause(ms: number, signal: AbortSignal): Promise<boolean> {
  return new Promise((done) => {
    if (signal.aborted) return done(false)
    const over = (): void => {
      clearTimeout(timer)
      done(false)
    }
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', over)
      done(true)
    }, ms)
    signal.addEventListener('abort', over, { once: true })
  })
}
