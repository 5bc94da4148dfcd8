// A transport without a network: the kernel of this process. Inputs and answers are copied, as on every other transport, so that no caller
// holds a reference to a document of the store.
import { Refusal } from '#kernel/declare/errors.ts'
import type { Caller, Kernel } from '#kernel/kernel.ts'
import { lastPlace } from '#kernel/log/streams.ts'
import { closedError, CountersignError, statusOf } from '../errors.ts'
import { newKey, withRetries, usualRetry, type Followed, type FollowOptions, type Transport } from './transport.ts'

const copy = (value: unknown): unknown => (value === undefined ? null : (JSON.parse(JSON.stringify(value)) as unknown))

/** Calls as `caller`: an actor, or a function that resolves the actor again for every call. */
export function localTransport(kernel: Kernel, caller: Caller): Transport {
  const closing = new AbortController()
  const untilClosed = (signal: AbortSignal | undefined): AbortSignal =>
    signal ? AbortSignal.any([signal, closing.signal]) : closing.signal

  function failureOf(error: unknown): unknown {
    if (!(error instanceof Refusal)) return error
    const { code, message, details } = error
    const fault = kernel.codes[code] ?? 'internal'
    const seconds = details?.['retry_after']
    const retryAfterMs = typeof seconds === 'number' ? seconds * 1_000 : null
    const retryable = fault === 'quota' || fault === 'busy'
    return new CountersignError({ code, status: statusOf(fault), message, details, retryable, retryAfterMs })
  }

  async function* follow(operation: string, input: object, { after = null, signal, onOpen }: FollowOptions): AsyncIterable<Followed> {
    try {
      const { of } = await kernel.admit(operation, input, caller)
      const place = after === null ? null : after === 'latest' ? await lastPlace(kernel.store, of) : Number(after)
      onOpen?.()
      for await (const { place: at, item } of kernel.follow(operation, input, caller, { after: place, signal: untilClosed(signal) }))
        yield { cursor: String(at), item: copy(item) }
    } catch (error) {
      throw failureOf(error)
    }
  }

  return {
    call: (operation, input, { idempotencyKey = newKey(), signal } = {}) =>
      withRetries(usualRetry, signal, async () => {
        if (closing.signal.aborted) throw closedError()
        try {
          return copy(await kernel.call(operation, copy(input), caller, { key: idempotencyKey ?? undefined, signal: untilClosed(signal) }))
        } catch (error) {
          throw failureOf(error)
        }
      }),
    follow: (operation, input, options = {}) => follow(operation, input, options),
    close() {
      closing.abort()
      return Promise.resolve()
    },
  }
}
