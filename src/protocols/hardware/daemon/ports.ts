// The daemon's ports: all knowledge for the daemon's decisions that is in no document. The app puts it together from the policies, the
// board and the runner.
import type { Value } from '#kernel/log/store.ts'
import type { Policy } from './policy.ts'
import type { Tool } from './tools.ts'

/** A step with a checked tool and checked arguments. */
export type ParsedStep = {
  readonly tool: Tool
  /** The parsed arguments, without fields that the schema does not name. */
  readonly args: Value
  /** The greater of the tool's and the target's (W29). */
  readonly risk_level: number
  /** The resource that it locks, such as `gpio:17`; null: nothing. */
  readonly resource: string | null
  /** In words, for people: `line 24 HEATER`. */
  readonly target: string
}

/** A receipt that was checked against the keys: its claims, or the reason of its rejection. */
export type ReceiptVerdict = { readonly ok: true; readonly claims: Value } | { readonly ok: false; readonly message: string }

export type DaemonPorts = {
  readonly device_id: string
  /** The policy of a principal as it is now; null: it no longer has one. */
  policyOf(principal: string): Policy | null
  toolNamed(name: string): Tool | undefined
  tools(): Iterable<Tool>
  /** The target of a call on this board. Throws if the board has no such target. */
  targetOf(tool: Tool, args: Value): Pick<ParsedStep, 'risk_level' | 'resource' | 'target'>
  /** The resource of a step of a plug-in, which only the plug-in knows. */
  resourceOf(tool: Tool, args: Value): Promise<string | null>
  /** Why the last of these steps, after the ones before it, would leave the envelope; null: it stays inside. */
  objectionTo(steps: readonly ParsedStep[]): Promise<string | null>
  /** Takes a token of a session's rate for a tool and returns 0, or returns the milliseconds until one is available. */
  take(session_id: string, policy: Policy, tool: string): number
  /** The session whose running task holds a resource; null: none does. */
  holderOf(resource: string): string | null
  /** The value that a step would change, for the people who approve it; null if there is none. */
  valueBefore(step: ParsedStep, policy: Policy): Promise<unknown>
  /** Checks a receipt and the request that it answers, offline. */
  verify(receipt: unknown, request: unknown): Promise<ReceiptVerdict>
  /** True: the daemon can ask people itself, so a task can wait for them. */
  isLinked(): boolean
}

export const principalOf = (policy: string, subject: string | null): string =>
  subject === null ? `policy:${policy}` : `policy:${policy}/${subject}`
