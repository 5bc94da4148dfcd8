// Errors of the SDK, the same for every transport.
import { statuses } from '#kernel/declare/errors.ts'

export type ErrorParts = {
  /** The server's code, or one of ours: NETWORK, TIMEOUT, INVALID_ANSWER, CLOSED, UNSUPPORTED. */
  readonly code: string
  /** The HTTP status, or the status of the same refusal over HTTP; null without an answer. */
  readonly status: number | null
  readonly message: string
  readonly details?: Readonly<Record<string, unknown>> | undefined
  /** The same call can succeed later, unchanged. */
  readonly retryable: boolean
  /** How long the server asks to wait. */
  readonly retryAfterMs?: number | null | undefined
  readonly cause?: unknown
}

export class CountersignError extends Error {
  override name = 'CountersignError'
  readonly code: string
  readonly status: number | null
  readonly details: Readonly<Record<string, unknown>>
  readonly retryable: boolean
  readonly retryAfterMs: number | null
  constructor({ code, status, message, details = {}, retryable, retryAfterMs = null, cause }: ErrorParts) {
    super(message, cause === undefined ? undefined : { cause })
    this.code = code
    this.status = status
    this.details = details
    this.retryable = retryable
    this.retryAfterMs = retryAfterMs
  }
}

export const networkError = (message: string, cause?: unknown): CountersignError =>
  new CountersignError({ code: 'NETWORK', status: null, message, retryable: true, cause })
export const timeoutError = (ms: number): CountersignError =>
  new CountersignError({ code: 'TIMEOUT', status: null, message: `no answer within ${ms} ms`, retryable: true })
export const closedError = (): CountersignError =>
  new CountersignError({ code: 'CLOSED', status: null, message: 'the client was closed', retryable: false })
export const invalidAnswer = (status: number | null, message: string): CountersignError =>
  new CountersignError({ code: 'INVALID_ANSWER', status, message, retryable: false })

/** The status of the same refusal over HTTP; null for a class that only a newer server knows. */
export const statusOf = (fault: string): number | null => (statuses as Readonly<Record<string, number>>)[fault] ?? null
