// Failures with the draft's numbers (HACP hardware draft, 6). Only this file maps a refusal to a number and a code. No number has a second
// meaning.
import { Refusal } from '#kernel/declare/errors.ts'

export type Id = string | number | null
export type Failure = {
  readonly code: number
  readonly message: string
  readonly data: Readonly<Record<string, unknown>> & { readonly code: string }
}

const PARSE = -32_700
const REQUEST = -32_600
const METHOD = -32_601
const PARAMS = -32_602
const INTERNAL = -32_603
const SESSION = -32_000
const TASK = -32_001
const TOOL = -32_002
const DENIED = -32_003
const BUSY = -32_004
const RATE = -32_005
const FULL = -32_006
const AUDIT = -32_007
const KEY = -32_008
const FAILED = -32_009

/** By the code of a refusal: its number, its word, and the draft's words for it. */
const table: Readonly<Record<string, readonly [code: number, word: string, message: string]>> = {
  INVALID_REQUEST: [PARAMS, 'invalid_params', 'Invalid params'],
  INVALID_PARAMS: [PARAMS, 'invalid_params', 'Invalid params'],
  SESSION_INVALID: [SESSION, 'session_invalid', 'Session invalid'],
  TASK_NOT_FOUND: [TASK, 'task_not_found', 'Task not found'],
  TOOL_FAILED: [FAILED, 'tool_failed', 'Tool failed'],
  TOOL_NOT_FOUND: [TOOL, 'tool_not_found', 'Tool not found'],
  NOT_ALLOWED: [DENIED, 'not_allowed', 'Permission denied'],
  PATH_DENIED: [DENIED, 'path_denied', 'Permission denied'],
  ENVELOPE: [DENIED, 'envelope', 'Permission denied'],
  RISK_CAP: [DENIED, 'risk_cap', 'Permission denied'],
  APPROVAL_REQUIRED: [DENIED, 'approval_required', 'Permission denied'],
  APPROVAL_INVALID: [DENIED, 'approval_invalid', 'Permission denied'],
  APPROVAL_REJECTED: [DENIED, 'approval_rejected', 'Permission denied'],
  APPROVAL_MISMATCH: [DENIED, 'approval_mismatch', 'Permission denied'],
  APPROVAL_EXPIRED: [DENIED, 'approval_expired', 'Permission denied'],
  APPROVAL_USED: [DENIED, 'approval_used', 'Permission denied'],
  NOT_AUTHENTICATED: [DENIED, 'not_authenticated', 'Permission denied'],
  UNAUTHORIZED: [DENIED, 'not_allowed', 'Permission denied'],
  RESOURCE_BUSY: [BUSY, 'busy', 'Resource busy'],
  RATE_LIMITED: [RATE, 'rate_limited', 'Rate limited'],
  QUEUE_FULL: [FULL, 'queue_full', 'Queue full'],
  QUOTA_EXCEEDED: [FULL, 'queue_full', 'Queue full'],
  SESSIONS_FULL: [FULL, 'sessions_full', 'Too many sessions'],
  AUDIT_UNAVAILABLE: [AUDIT, 'audit_unavailable', 'The audit cannot be written'],
  BUSY: [FULL, 'queue_full', 'Queue full'],
  UNAVAILABLE: [AUDIT, 'audit_unavailable', 'The audit cannot be written'],
}

const failure = (code: number, word: string, message: string, reason: string): Failure => ({ code, message, data: { code: word, reason } })

export const notJson = (reason: string): Failure => failure(PARSE, 'parse_error', 'Parse error', reason)
export const notRequest = (reason: string): Failure => failure(REQUEST, 'invalid_request', 'Invalid Request', reason)
export const tooLarge = (bytesMax: number): Failure =>
  failure(REQUEST, 'too_large', 'Invalid Request', `a document has at most ${bytesMax} bytes`)
export const badBatch = (callsMax: number): Failure => notRequest(`a batch holds 1 to ${callsMax} calls`)
export const badParams = (reason: string): Failure => failure(PARAMS, 'invalid_params', 'Invalid params', reason)
export const noMethod = (name: string): Failure =>
  failure(METHOD, 'method_not_found', 'Method not found', `there is no method ${JSON.stringify(name.slice(0, 100))}`)
export const internal: Failure = failure(INTERNAL, 'internal', 'Internal error', 'an internal error occurred; it was logged')
export const connectionsFull = (limit: number): Failure => ({
  code: FULL,
  message: 'Too many connections',
  data: { code: 'sessions_full', reason: `there are ${limit} connections already`, limit },
})
export const stopping: Failure = failure(FULL, 'queue_full', 'Stopping', 'the daemon is stopping')

/** A refusal in wire format; null if the error is a bug and not a refusal. */
export function failureOf(error: unknown): Failure | null {
  if (!(error instanceof Refusal)) return null
  const { code, message, details = {} } = error
  if (code === 'CONFLICT' && details['reason'] === 'idempotency_key_reused')
    return failure(KEY, 'idempotency_mismatch', 'Idempotency key reused', 'the key was used before with another body')
  const known = table[code] ?? (code === 'CONFLICT' ? table['BUSY'] : undefined)
  if (!known) return null
  const [number, word, title] = known
  return { code: number, message: title, data: { reason: message, ...details, code: word } }
}

export const resultLine = (id: Id, result: unknown): string =>
  `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${JSON.stringify(result)}}`
export const failureLine = (id: Id, error: Failure): string => JSON.stringify({ jsonrpc: '2.0', id, error })
