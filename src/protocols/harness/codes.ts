// Error codes of this protocol: refusals to the agent that executes a session. The codes of the gate go out in messages, not as refusals.
import type { Fault } from '#kernel/declare/errors.ts'

export const codes = {
  SAFETY_VIOLATION: 'conflict',
  INVALID_OUTPUT: 'unfit',
} as const satisfies Record<string, Fault>
