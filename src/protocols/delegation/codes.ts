// The draft's five error codes (AAP 0.1.0, Errors) and what class of refusal each is.
import type { Fault } from '#kernel/declare/errors.ts'

export const codes = {
  AGENT_NOT_FOUND: 'missing',
  CAPABILITY_NOT_SUPPORTED: 'conflict',
  DELEGATION_REFUSED: 'conflict',
  RUN_NOT_FOUND: 'missing',
  INVALID_TRANSITION: 'conflict',
} as const satisfies Record<string, Fault>
