// Failures in the words of A2A 1.0: a number for JSON-RPC, a status for HTTP+JSON, and the same ErrorInfo in both (5.4, 9.5, 11.6).
import type { Failure } from '#bindings/http/responses.ts'

/** By reason: the number, the HTTP status, and the word of google.rpc.Code for it. */
const kinds = {
  PARSE_ERROR: [-32_700, 400, 'INVALID_ARGUMENT'],
  INVALID_REQUEST: [-32_600, 400, 'INVALID_ARGUMENT'],
  METHOD_NOT_FOUND: [-32_601, 404, 'UNIMPLEMENTED'],
  INVALID_PARAMS: [-32_602, 400, 'INVALID_ARGUMENT'],
  INTERNAL_ERROR: [-32_603, 500, 'INTERNAL'],
  TASK_NOT_FOUND: [-32_001, 404, 'NOT_FOUND'],
  TASK_NOT_CANCELABLE: [-32_002, 400, 'FAILED_PRECONDITION'],
  PUSH_NOTIFICATION_NOT_SUPPORTED: [-32_003, 400, 'FAILED_PRECONDITION'],
  UNSUPPORTED_OPERATION: [-32_004, 400, 'FAILED_PRECONDITION'],
  CONTENT_TYPE_NOT_SUPPORTED: [-32_005, 400, 'INVALID_ARGUMENT'],
  EXTENDED_AGENT_CARD_NOT_CONFIGURED: [-32_007, 400, 'FAILED_PRECONDITION'],
  EXTENSION_SUPPORT_REQUIRED: [-32_008, 400, 'FAILED_PRECONDITION'],
  VERSION_NOT_SUPPORTED: [-32_009, 400, 'FAILED_PRECONDITION'],
  // Ours: A2A leaves the numbers of these to the server.
  UNAUTHENTICATED: [-32_050, 401, 'UNAUTHENTICATED'],
  PERMISSION_DENIED: [-32_051, 403, 'PERMISSION_DENIED'],
  CONFLICT: [-32_052, 409, 'ABORTED'],
  RESOURCE_EXHAUSTED: [-32_053, 429, 'RESOURCE_EXHAUSTED'],
  UNAVAILABLE: [-32_054, 503, 'UNAVAILABLE'],
  AGENT_NOT_FOUND: [-32_055, 404, 'NOT_FOUND'],
} as const satisfies Record<string, readonly [number, number, string]>
export type Reason = keyof typeof kinds

/** `metadata`: names and values for programs, as ErrorInfo has them. */
export class A2aError extends Error {
  override name = 'A2aError'
  readonly reason: Reason
  readonly metadata: Readonly<Record<string, string>>
  readonly headers: Readonly<Record<string, string>>
  constructor(reason: Reason, message: string, metadata: Record<string, string> = {}, headers: Record<string, string> = {}) {
    super(message)
    this.reason = reason
    this.metadata = metadata
    this.headers = headers
  }
}

const byStatus: Readonly<Record<number, Reason>> = {
  400: 'INVALID_PARAMS',
  401: 'UNAUTHENTICATED',
  403: 'PERMISSION_DENIED',
  404: 'TASK_NOT_FOUND',
  405: 'METHOD_NOT_FOUND',
  409: 'CONFLICT',
  413: 'INVALID_REQUEST',
  422: 'INVALID_PARAMS',
  429: 'RESOURCE_EXHAUSTED',
  503: 'UNAVAILABLE',
}
/** The state of the task does not allow it: A2A has one error for that. */
const outOfState = new Set(['PRECONDITION_FAILED', 'INVALID_TRANSITION'])

/** A refusal of an operation, as an A2A error. Programs can still read its own code. */
export function errorOf({ status, code, message, details, headers }: Failure): A2aError {
  const reason = outOfState.has(code) ? 'UNSUPPORTED_OPERATION' : (byStatus[status] ?? 'INTERNAL_ERROR')
  const { field } = details
  return new A2aError(reason, message, { code, ...(typeof field === 'string' ? { field } : {}) }, { ...headers })
}

const ERROR_INFO = 'type.googleapis.com/google.rpc.ErrorInfo'
const detailsOf = ({ reason, metadata }: A2aError) => [{ '@type': ERROR_INFO, reason, domain: 'a2a-protocol.org', metadata }]

export type Id = string | number | null
export const rpcErrorOf = (id: Id, error: A2aError) => ({
  jsonrpc: '2.0',
  id,
  error: { code: kinds[error.reason][0], message: error.message, data: detailsOf(error) },
})
export const restErrorOf = (error: A2aError) => {
  const [, code, status] = kinds[error.reason]
  return { error: { code, status, message: error.message, details: detailsOf(error) } }
}
export const statusOf = ({ reason }: A2aError): number => kinds[reason][1]
/** Over JSON-RPC a failure is an answer; only a missing right is one of HTTP as well. */
export const rpcStatusOf = (error: A2aError): number =>
  [401, 403, 429, 503].includes(statusOf(error)) || error.reason === 'AGENT_NOT_FOUND' ? statusOf(error) : 200
