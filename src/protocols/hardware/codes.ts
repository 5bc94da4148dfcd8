// The error codes of hardware, and the class of refusal that each belongs to. The daemon's are the words of its wire in capital letters.
import type { Fault } from '#kernel/declare/errors.ts'

/** Of the server. */
export const codes = {
  DEVICE_REVOKED: 'gone',
  OUT_OF_ORDER: 'conflict',
} as const satisfies Record<string, Fault>

/** Of the daemon. */
export const daemonCodes = {
  SESSION_INVALID: 'missing',
  TASK_NOT_FOUND: 'missing',
  TOOL_NOT_FOUND: 'missing',
  TOOL_FAILED: 'internal',
  INVALID_PARAMS: 'invalid',
  NOT_ALLOWED: 'forbidden',
  PATH_DENIED: 'forbidden',
  ENVELOPE: 'forbidden',
  RISK_CAP: 'forbidden',
  APPROVAL_REQUIRED: 'forbidden',
  APPROVAL_INVALID: 'forbidden',
  APPROVAL_REJECTED: 'forbidden',
  APPROVAL_MISMATCH: 'forbidden',
  APPROVAL_EXPIRED: 'forbidden',
  APPROVAL_USED: 'forbidden',
  NOT_AUTHENTICATED: 'unauthenticated',
  RESOURCE_BUSY: 'busy',
  RATE_LIMITED: 'quota',
  QUEUE_FULL: 'quota',
  SESSIONS_FULL: 'quota',
  AUDIT_UNAVAILABLE: 'busy',
  STOPPED: 'conflict',
} as const satisfies Record<string, Fault>
