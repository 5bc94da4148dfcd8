// The daemon's ports: everything that a decision of the daemon must know and that no document says. The app puts it together from the policies, the
// board and the runner.
import type { Value } from '#kernel/log/store.ts'
import type { Policy } from './policy.ts'
import type { Tool } from './tools.ts'

/** A step whose tool and arguments are known to be good. */
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

/** A receipt that was checked against the keys: its claims, or why it is not believed. */
export type ReceiptVerdict = { readonly ok: true; readonly claims: Value } | { readonly ok: false; readonly message: string }

export type DaemonPorts = {
  readonly device_id: string
  /** The policy of a principal as it is now; null: it has none any more. */
  policyOf(principal: string): Policy | null
  toolNamed(name: string): Tool | undefined
  tools(): Iterable<Tool>
  /** Its target on this board. Refused where the board has no such thing. */
  targetOf(tool: Tool, args: Value): Pick<ParsedStep, 'risk_level' | 'resource' | 'target'>
  /** The resource of a step whose tool alone knows it: a plug-in's. */
  resourceOf(tool: Tool, args: Value): Promise<string | null>
  /** Why the last of these steps, after the ones before it, would leave the envelope; null: it stays inside. */
  objectionTo(steps: readonly ParsedStep[]): Promise<string | null>
  /** One token of a session's rate for a tool; otherwise the milliseconds until there is one. */
  take(session_id: string, policy: Policy, tool: string): number
  /** The session whose running task holds a resource; null: none does. */
  holderOf(resource: string): string | null
  /** The value that a step would change, for the people who approve it; null where there is none. */
  valueBefore(step: ParsedStep, policy: Policy): Promise<unknown>
  /** Checks a receipt and the request that it answers, offline. */
  verify(receipt: unknown, request: unknown): Promise<ReceiptVerdict>
  /** It asks people itself: a task may wait for them. */
  isLinked(): boolean
}

export const principalOf = (policy: string, subject: string | null): string =>
  subject === null ? `policy:${policy}` : `policy:${policy}/${subject}`
