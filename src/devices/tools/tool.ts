// The interface of a tool, built-in or plug-in: its description, its target on the board, the value that it changes, and its code.
import { Refusal } from '#kernel/declare/errors.ts'
import type { Value } from '#kernel/log/store.ts'
import type { Policy } from '#protocols/hardware/daemon/policy.ts'
import { boardTools, procTools, type Tool } from '#protocols/hardware/daemon/tools.ts'
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
/** `undo` reverts the step when its task is rolled back. */
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
  /** The session that set each output. Its end returns the output to its safe state. */
  readonly setBy: Map<number, string>
  readonly programs: ReadonlyMap<string, Program>
}
export type Program = { readonly argv: readonly string[]; readonly takesArgs: boolean }

export type Execute = (bench: Bench, acting: Acting) => Promise<Done> | Done

/** `resource`: locked by the step; null: it is shared (W16). `target`: for people. `raised`: the risk of this target, if the profile names one. */
export type Target = { readonly resource: string | null; readonly target: string; readonly raised?: number }

export type DeviceTool = {
  readonly tool: Tool
  /** Throws if this board has no such target. */
  target(args: Value, bench: Bench): Target
  /** The resource of a tool that only its own code knows. */
  resource?(args: Value): Promise<string | null>
  /** The value that the step would change, shown to the people who approve it and read again before acting. Throws if it cannot be read. */
  before?(args: Value, bench: Bench, policy: Policy | null): unknown
  readonly execute: Execute
}

const described = new Map([...boardTools, ...procTools].map((tool) => [tool.name, tool]))

/** A tool of the daemon itself. Without `target` it applies to the whole device. */
export function builtIn(name: string, parts: Execute | (Partial<DeviceTool> & Pick<DeviceTool, 'execute'>)): DeviceTool {
  const target = (): Target => ({ resource: null, target: name })
  return { tool: described.get(name)!, target, ...(typeof parts === 'function' ? { execute: parts } : parts) }
}

export const invalidArgument = (field: string, message: string): Refusal => new Refusal('INVALID_PARAMS', message, { field })

/** Resolves after the time, or as soon as it is asked to yield; true: the time has passed. */
export function pause(ms: number, signal: AbortSignal): Promise<boolean> {
  return new Promise((done) => {
    if (signal.aborted) return done(false)
    const finish = (): void => {
      clearTimeout(timer)
      done(false)
    }
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', finish)
      done(true)
    }, ms)
    signal.addEventListener('abort', finish, { once: true })
  })
}
