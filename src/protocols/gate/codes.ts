// The error codes of the gate, and the class of refusal that each belongs to.
import type { Fault } from '#kernel/declare/errors.ts'

export const codes = {
  CALL_NOT_APPROVED: 'conflict',
  CALL_USED: 'conflict',
  CALL_MISMATCH: 'conflict',
  TOOL_CHANGED: 'conflict',
} as const satisfies Record<string, Fault>
