// The options of a call, for every binding: its idempotency key, and the signal that ends its waiting.
import type { ServerResponse } from 'node:http'
import { Refusal } from '#kernel/declare/errors.ts'
import type { CallOptions } from '#kernel/kernel.ts'
import { limits } from '#kernel/limits.ts'

/** `where`: the name under which the client sent it. */
export function idempotencyKeyOf(key: unknown, where: string, details?: Record<string, unknown>): string | undefined {
  if (key === undefined) return undefined
  if (typeof key === 'string' && key.length <= limits.idempotencyKeyCharsMax && /^[\x21-\x7e]+$/.test(key)) return key
  throw new Refusal('INVALID_REQUEST', `${where} must be 1 to ${limits.idempotencyKeyCharsMax} visible ASCII characters`, details)
}

const NO_OPTIONS: CallOptions = {}

/** The options of a call. `signal`: of a call that waits. */
export function optionsOf(key: string | undefined, signal?: AbortSignal): CallOptions {
  if (signal) return { key, signal }
  return key === undefined ? NO_OPTIONS : { key }
}

/** Aborts when the client disconnects before it got its response. */
export function abortOnClose(response: ServerResponse): AbortSignal {
  const gone = new AbortController()
  if (response.destroyed) gone.abort()
  else response.once('close', () => gone.abort())
  return gone.signal
}
