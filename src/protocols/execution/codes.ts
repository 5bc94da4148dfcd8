// Error codes for refusals that HXP 0.1, 5.3 names only by status, each with its class.
import type { Fault } from '#kernel/declare/errors.ts'

export const codes = {
  ALREADY_RESOLVED: 'conflict',
  ALREADY_CLAIMED: 'conflict',
  ALREADY_VOTED: 'conflict',
  TASK_BOUND: 'conflict',
  CHANGED: 'conflict',
  INBOX_ONLY: 'conflict',
  NO_RECIPIENT: 'conflict',
  EXPIRED: 'late',
  INVALID_RESULT: 'unfit',
  GONE: 'gone',
} as const satisfies Record<string, Fault>
