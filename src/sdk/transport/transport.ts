// The interface of a transport, and the retries of all transports. Retries are safe: every attempt carries the same idempotency key, so the
// server executes the call once, even if a request or response was lost.
import { CountersignError } from '../errors.ts'

export type CallOptions = {
  /**
   * Created for each call by default. Pass your own to make a call repeatable even after a restart; null for a call that does
   * the same when it is repeated.
   */
  readonly idempotencyKey?: string | null
  readonly signal?: AbortSignal | undefined
  /** For one attempt. */
  readonly timeoutMs?: number
}
export type FollowOptions = {
  /** The cursor of the last seen item, or `latest` for new items only; by default from the first item. */
  readonly after?: string | null
  /** Ends the stream quietly. */
  readonly signal?: AbortSignal | undefined
  /** Each time the server begins to follow for us: an answer that is read after this and the stream leave no gap between them. */
  readonly onOpen?: (() => void) | undefined
  /** The connection is lost. The transport reconnects by itself and then calls `onOpen`. */
  readonly onBreak?: (() => void) | undefined
}
export type Followed<T = unknown> = { readonly cursor: string; readonly item: T }

export type Progress = (doneBytes: number, totalBytes: number) => void
export type BytesOptions = { readonly signal?: AbortSignal | undefined; readonly onProgress?: Progress | undefined }
export type UploadOptions = BytesOptions & { readonly idempotencyKey?: string }
export type Downloaded = { readonly bytes: Uint8Array<ArrayBuffer>; readonly checksum: string; readonly name: string | null }

export type Transport = {
  /** The server's address, for messages. */
  readonly where?: string
  call(operation: string, input: object, options?: CallOptions): Promise<unknown>
  follow(operation: string, input: object, options?: FollowOptions): AsyncIterable<Followed>
  /** Only on transports that carry bytes. */
  upload?(operation: string, input: object, bytes: Blob, options?: UploadOptions): Promise<unknown>
  download?(operation: string, input: object, options?: BytesOptions): Promise<Downloaded>
  /** The public keys of receipts, if the transport can read published keys. */
  keys?(): Promise<unknown>
  close(): Promise<void>
}

export type RetryOptions = {
  /** How often a call is sent at most. */
  readonly attempts?: number
  /** Waiting begins with this and doubles. */
  readonly backoffMs?: number
  /** A server that asks for a longer wait than this gets its way: the error is thrown, with `retryAfterMs`. */
  readonly waitMsMax?: number
  /** For one attempt of a call. */
  readonly timeoutMs?: number
}
export type Retry = Required<RetryOptions>
export const usualRetry: Retry = { attempts: 6, backoffMs: 100, waitMsMax: 10_000, timeoutMs: 30_000 }

export async function withRetries<T>(retry: Retry, signal: AbortSignal | undefined, attempt: () => Promise<T>): Promise<T> {
  for (let attempts = 1; ; attempts++) {
    try {
      signal?.throwIfAborted()
      return await attempt()
    } catch (error) {
      signal?.throwIfAborted()
      if (!(error instanceof CountersignError) || !error.retryable || attempts >= retry.attempts) throw error
      if ((error.retryAfterMs ?? 0) > retry.waitMsMax) throw error
      await pause(Math.max(backoffOf(retry, attempts), error.retryAfterMs ?? 0), signal)
    }
  }
}

/** Exponential backoff with jitter, so that clients that failed together do not retry together. */
export const backoffOf = ({ backoffMs, waitMsMax }: Retry, attempts: number): number =>
  Math.min(waitMsMax, backoffMs * 2 ** Math.min(attempts - 1, 20)) * (0.5 + Math.random() / 2)

/** Over early, without an error, when the signal aborts. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((done) => {
    if (signal?.aborted) return done()
    const over = (): void => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', over)
      done()
    }
    const timer = setTimeout(over, ms)
    signal?.addEventListener('abort', over)
  })
}

/** 128 random bits. `randomUUID` would need a secure context. */
export function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('')
}
