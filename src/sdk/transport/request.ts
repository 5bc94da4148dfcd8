// One request over HTTP, and the interpretation of its response.
import { CountersignError, invalidAnswer, networkError, timeoutError } from '../errors.ts'
import type { Retry } from './transport.ts'

export type Requested = {
  readonly method: 'GET' | 'POST' | 'PUT'
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string | Blob | ReadableStream | undefined
  readonly signal?: AbortSignal | undefined
  /** Until the answer begins; null: as long as it takes. */
  readonly timeoutMs: number | null
}

/** One attempt: resolves with an answer of status 2xx or throws a CountersignError. */
export type Request = (path: string, request: Requested) => Promise<Response>
export type Http = {
  readonly request: Request
  readonly retry: Retry
  readonly base: string
  /** The headers that every request has. */
  headers(): Readonly<Record<string, string>>
}

/** The error that fetch threw, in our words. */
export function failureOf(error: unknown, signal: AbortSignal | undefined, afterMs: number | null): unknown {
  if (afterMs !== null) return timeoutError(afterMs)
  if (signal?.aborted) return signal.reason
  if (error instanceof CountersignError) return error
  return networkError(`the server could not be reached: ${reasonIn(error)}`, error)
}

/** fetch throws "fetch failed" and hides the reason in `cause`. */
function reasonIn(error: unknown): string {
  const { message, cause } = error as { message?: string; cause?: { message?: string; code?: string } }
  return cause?.code ?? cause?.message ?? message ?? String(error)
}

export async function jsonIn(answer: Response): Promise<unknown> {
  let text: string
  try {
    text = await answer.text()
  } catch (error) {
    throw networkError(`the answer was cut: ${reasonIn(error)}`, error)
  }
  try {
    return JSON.parse(text) as unknown
  } catch {
    throw invalidAnswer(answer.status, 'the answer is not JSON')
  }
}

/** Statuses that a proxy answers in the server's place. */
const passing = new Set([408, 429, 502, 503, 504])

export async function refusalIn(answer: Response): Promise<CountersignError> {
  const { status } = answer
  const text = await answer.text().catch(() => '')
  return refusalOf(status, answer.headers.get('retry-after'), text)
}

export function refusalOf(status: number, retryAfter: string | null, text: string): CountersignError {
  const fault = errorIn(text)
  // A 408 with the server's own code means that the request cannot succeed any more.
  const retryable = passing.has(status) && !(fault && status === 408)
  const seconds = retryAfter !== null && /^\d{1,6}$/.test(retryAfter) ? Number(retryAfter) : null
  const retryAfterMs = seconds === null ? null : seconds * 1_000
  if (fault) return new CountersignError({ ...fault, status, retryable, retryAfterMs })
  const message = `the server answered ${status}, and not in its own words: is there a proxy in between?`
  return new CountersignError({ code: retryable ? 'UNAVAILABLE' : 'INVALID_ANSWER', status, message, retryable, retryAfterMs })
}

function errorIn(text: string): { code: string; message: string; details: Record<string, unknown> } | null {
  try {
    const { code, message, details } = (JSON.parse(text) as { error: Record<string, unknown> }).error
    if (typeof code !== 'string' || typeof message !== 'string') return null
    return { code, message, details: (details ?? {}) as Record<string, unknown> }
  } catch {
    return null
  }
}
