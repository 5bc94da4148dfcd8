// A policy: the tools that a client can use, their highest risk, and their rates. The operator writes it; it cannot be changed
// over the wire.
import type { Tool } from './tools.ts'
import { patternMatches } from './tools.ts'

export type Rate = { readonly per_second: number; readonly burst: number }

export type Policy = {
  readonly name: string
  readonly tools: readonly string[]
  readonly max_risk_level: number
  /** The highest cap that `constraints.max_risk_level` can set. */
  readonly relax_to: number
  /** True: a person can approve steps above the cap. */
  readonly approvals: boolean
  readonly read: readonly string[]
  readonly write: readonly string[]
  readonly file_bytes_max: number
  readonly rate: Readonly<Record<string, Rate>>
  readonly queue: number
  readonly concurrent: number
  readonly sessions: number
  readonly idle_seconds: number
  readonly lock_wait_ms: number
  readonly approval_seconds: number
}

export const policyDefaults: Omit<Policy, 'name'> = {
  tools: [],
  max_risk_level: 2,
  relax_to: 2,
  approvals: false,
  read: [],
  write: [],
  file_bytes_max: 524_288,
  rate: {},
  queue: 64,
  concurrent: 4,
  sessions: 64,
  idle_seconds: 300,
  lock_wait_ms: 1_000,
  approval_seconds: 3_600,
}
export const usualRate: Rate = { per_second: 100, burst: 200 }

/** No pattern allows a tool with personal data: the operator names it. */
export const allowsTool = ({ tools }: Policy, tool: Tool): boolean =>
  tools.some((pattern) => (tool.personal ? pattern === tool.name : patternMatches(pattern, tool.name)))

/** The flags of the policy's tools, and the flags of every session. */
export function flagsOf(policy: Policy, tools: Iterable<Tool>): string[] {
  const flags = new Set<string>()
  for (const tool of tools) if (allowsTool(policy, tool)) flags.add(tool.flag)
  return [...flags, 'CAP_STREAMING_TASK_EVENTS', 'CAP_ATTEST']
}

/** W4: the lower of both; above the session's own cap only as far as the policy lets it be relaxed. */
export function capFor(policy: Policy, constraint: number | undefined): { readonly cap: number; readonly byClient: boolean } {
  const { max_risk_level, relax_to } = policy
  if (constraint === undefined) return { cap: max_risk_level, byClient: false }
  if (constraint <= max_risk_level) return { cap: constraint, byClient: constraint < max_risk_level }
  return { cap: Math.min(constraint, Math.max(relax_to, max_risk_level)), byClient: false }
}

/** Checks only the text of a path: absolute, normalized, and under a listed folder. The path guard checks the file system. */
export function isUnder(path: string, folders: readonly string[]): boolean {
  if (!path.startsWith('/') || path.includes('\0') || (path.includes('..') && path.split('/').includes('..'))) return false
  if (path === '/proc' || path.startsWith('/proc/')) return false
  return folders.some((folder) => folder === '/' || path === folder || path.startsWith(`${folder}/`))
}
