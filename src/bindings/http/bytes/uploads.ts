// Uploads: PUT streams bytes into the blob store, then calls the upload operation. The query carries the rest of the input.
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import type { Held } from '#kernel/ports/blobs.ts'
import { changedNothing, Refusal } from '#kernel/declare/errors.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { limits } from '#kernel/limits.ts'
import { handlerOf, type Ask } from '../../shared/handle.ts'
import { optionsOf } from '../../shared/call-options.ts'
import { idempotencyKeyIn } from '../browser/browser-guard.ts'
import { createByteSlots, queryIn, type ByteStore, type Query, type Slots } from './shared.ts'
import { liftBodyDeadline } from '../connections/body-deadline.ts'
import type { Serving } from '../operations.ts'
import { TransportRefusal, type Reply } from '../responses.ts'
import type { Exchange, Route } from '../router.ts'

export const uploadSlots = (): Slots => createByteSlots(limits.uploadsPerActorMax, limits.uploadsMax, 'uploads')

/** `requestMs`: how long a client can send less than `limits.uploadProgressBytesMin`. */
export function uploadRoutes({ kernel, guard, authenticate, failing, meter }: Serving, receiving: Receiving): Route[] {
  return kernel.protocols.flatMap((protocol) =>
    protocol.operations.flatMap((op): Route[] => {
      if (op.kind !== 'command' || !op.upload) return []
      const name = `${protocol.name}/${op.name}`
      const path = `/v1/${name}`
      const handle = handlerOf<Exchange, Reply, Query>({
        credential: ({ request }) => guard.credentialOf(request.headers, true),
        authenticate: (credential) => authenticate(credential),
        input({ request }) {
          refuseOtherThanOctets(request.headers)
          return queryIn(request.url!, op)
        },
        options: ({ request }) => optionsOf(idempotencyKeyIn(request.headers)),
        async call(ask, exchange) {
          return { status: 200, body: JSON.stringify(await receiveBytes(receiving, name, ask, exchange)) }
        },
        failed: failing(path),
        done: meter(name, true),
      })
      return [{ method: 'PUT', path, body: 'own', answer: handle }]
    }),
  )
}

export type Receiving = ByteStore & { readonly kernel: Kernel; readonly requestMs: number; readonly slots: Slots }

/** Receives the body of an upload. The operation is checked first, so that refused uploads store nothing. */
export async function receiveBytes(
  { kernel, blobs, bytesMax, requestMs, slots }: Receiving,
  operation: string,
  { input, caller, actor, options }: Pick<Ask<object>, 'input' | 'caller' | 'actor' | 'options'>,
  { request: raw, response }: Pick<Exchange, 'request' | 'response'>,
): Promise<unknown> {
  const announced = announcedBy(raw.headers, input as Query)
  if (announced.size !== undefined && announced.size > bytesMax)
    throw new Refusal('TOO_LARGE', `at most ${bytesMax} bytes are accepted`, { max: bytesMax })
  await kernel.check(operation, input, caller, options)
  const leave = slots.enter(actor.id)
  try {
    liftBodyDeadline(raw)
    if (raw.headers.expect !== undefined) response.writeContinue()
    const held = await blobs.put(chunksOf(raw, requestMs), announced, bytesMax)
    return await refer(held, (received) => kernel.call(operation, input, caller, { ...options, received }))
  } catch (error) {
    // The rest of the body is read and discarded within the usual deadline, so that the client can read the answer.
    liftBodyDeadline(raw, requestMs)
    raw.resume()
    throw error
  } finally {
    leave()
  }
}

/** Holds the bytes until a document refers to them, or the call fails. */
async function refer<T>(held: Held, call: (received: { checksum: string; size: number }) => Promise<T>): Promise<T> {
  try {
    return await call({ checksum: held.checksum, size: held.size })
  } catch (error) {
    if (changedNothing(error)) await held.discard()
    throw error
  } finally {
    held.release()
  }
}

function refuseOtherThanOctets(headers: IncomingHttpHeaders): void {
  if (headers['content-type']?.split(';')[0]!.trim().toLowerCase() !== 'application/octet-stream')
    throw new TransportRefusal(415, 'INVALID_REQUEST', 'the body must be application/octet-stream')
  if (headers['content-encoding'] !== undefined)
    throw new TransportRefusal(415, 'INVALID_REQUEST', 'the bytes are taken as they are: leave Content-Encoding out')
}

function announcedBy(headers: IncomingHttpHeaders, { checksum, size }: Query): { checksum?: string; size?: number } {
  const length = headers['content-length'] === undefined ? undefined : Number(headers['content-length'])
  if (typeof size === 'number' && length !== undefined && size !== length)
    throw new Refusal('INVALID_REQUEST', `size is ${size}, but Content-Length says ${length}`, { field: 'size' })
  const known = length ?? (typeof size === 'number' ? size : undefined)
  return { ...(typeof checksum === 'string' ? { checksum } : {}), ...(known === undefined ? {} : { size: known }) }
}

const wakers = ['end', 'error', 'close'] as const
/** Bytes that are buffered while the store writes. */
const AHEAD_BYTES = 512 * 1024

/** The body in chunks, while the client keeps sending. The server's own writing time does not count against the client. */
async function* chunksOf(raw: IncomingMessage, idleMs: number): AsyncIterable<Uint8Array> {
  const came: Buffer[] = []
  let ahead = 0
  let wake = (): void => undefined
  const ring = (): void => wake()
  const take = (chunk: Buffer): void => {
    came.push(chunk)
    ahead += chunk.length
    if (ahead >= AHEAD_BYTES) raw.pause()
    wake()
  }
  for (const event of wakers) raw.on(event, ring)
  raw.on('data', take)
  try {
    for (let waitedMs = 0, bytes = 0; ;) {
      const chunk = came.shift()
      if (chunk !== undefined) {
        bytes += chunk.length
        ahead -= chunk.length
        if (bytes >= limits.uploadProgressBytesMin) bytes = waitedMs = 0
        yield chunk
        release(chunk)
        if (came.length === 0) raw.resume()
        continue
      }
      if (raw.readableEnded) return
      if (raw.destroyed) throw new Refusal('INVALID_REQUEST', 'the upload ended early')
      if (waitedMs >= idleMs) throw new TransportRefusal(408, 'INVALID_REQUEST', 'the bytes arrive too slowly')
      const began = performance.now()
      const { promise, resolve } = Promise.withResolvers<void>()
      wake = resolve
      const timer = setTimeout(resolve, idleMs - waitedMs)
      await promise
      clearTimeout(timer)
      waitedMs += performance.now() - began
    }
  } finally {
    // The caller decides whether the rest is discarded.
    raw.pause()
    raw.off('data', take)
    for (const event of wakers) raw.off(event, ring)
  }
}

/** Frees memory that Node allocated for this chunk alone. Leaving it to the garbage collector costs more than the hashing. */
function release({ buffer, byteLength }: Buffer): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0)
}
