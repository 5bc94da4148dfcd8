// Retries across an outage: a call is retried until the server is back, however long that takes.
import { CountersignError } from '../errors.ts'
import { backoffOf, pause, usualRetry } from './transport.ts'

export const durationOf = (ms: number): string => `PT${ms / 1_000}S`

export const isRefusal = (error: unknown, ...codes: readonly string[]): error is CountersignError =>
  error instanceof CountersignError && codes.includes(error.code)

/** Ends with an answer, with a refusal that time does not change or that is `hopeless`, or with the reason of the signal. */
export async function persistently<T>(signal: AbortSignal, attempt: () => Promise<T>, ...hopeless: readonly string[]): Promise<T> {
  for (let failures = 1; ; failures++) {
    signal.throwIfAborted()
    try {
      return await attempt()
    } catch (error) {
      signal.throwIfAborted()
      if (!(error instanceof CountersignError) || !error.retryable || hopeless.includes(error.code)) throw error
      await pause(Math.max(backoffOf(usualRetry, failures), error.retryAfterMs ?? 0), signal)
    }
  }
}
