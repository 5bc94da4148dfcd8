// The draft's error codes (HACP 0.1.0, Errors) and what class of refusal each is. The codes that the kernel shares with the draft
// (PRECONDITION_FAILED, UNAUTHORIZED, NOT_FOUND, CONFLICT) are in the kernel's own table.
import type { Fault } from '#kernel/declare/errors.ts'

export const codes = {
  INVALID_SPEC: 'invalid',
  IMMUTABLE_VIOLATION: 'conflict',
  DEADLINE_EXCEEDED: 'conflict',
  CHECKPOINT_EXPIRED: 'gone',
  // HLP: no version of the wire that both sides have.
  VERSION_UNSUPPORTED: 'conflict',
  // Ours, and of execution: no person could decide on what the task will ask.
  NO_RECIPIENT: 'conflict',
} as const satisfies Record<string, Fault>
