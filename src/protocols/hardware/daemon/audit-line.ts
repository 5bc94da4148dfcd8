// A line of the audit file, made from a fact of the record: the same fact and the same line before always give the same text (W35).
import { canonical } from '#kernel/log/canonical-json.ts'
import { sha256Hex } from '#kernel/log/hash-chain.ts'
import type { Value } from '#kernel/log/store.ts'

/** The parts of a fact that its audit line has. */
export type AuditedFact = { readonly seq: number; readonly at: string; readonly action: string; readonly detail: Value | null }

const PROTOCOL = 'hardware/'
/** The kernel's own record of a client that tried to access a resource of another one. */
const DENIED_BY_KERNEL = 'kernel/authorization.denied'

export function auditLine(device_id: string, { seq, at, action, detail }: AuditedFact, prev: string): string {
  const fields = action === DENIED_BY_KERNEL ? { code: 'not_allowed', method: detail?.['operation'] ?? '' } : detail
  const event = action.startsWith(PROTOCOL) ? action.slice(PROTOCOL.length) : 'denied'
  return canonical({ ...fields, device_id, event, prev, seq, ts: at, v: 1 })
}

/** `prev` of the line after this one. */
export const lineHash = (line: string): string => `sha256:${sha256Hex(line)}`

export const argsHash = (salt: string, args: unknown): string => `sha256:${sha256Hex(salt + canonical(args))}`
