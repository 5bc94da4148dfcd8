// Bytes over HTTP, for the operations that are marked so: PUT streams them into the blob store before the operation is called, GET
// and HEAD answer those that the operation names. The rest of the input stands in the query.
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import { bytesIn, checksumIn, isDataUri, type Blobs, type ByteRange, type Held } from '#kernel/ports/blobs.ts'
import { Damaged, Refusal } from '#kernel/declare/errors.ts'
import type { Actor } from '#kernel/declare/access.ts'
import type { Caller, Kernel } from '#kernel/kernel.ts'
import { limits } from '#kernel/limits.ts'
import type { Operation } from '#kernel/declare/operation.ts'
import { TransportRefusal } from './responses.ts'
import { takesItsTime } from './connections/body-deadline.ts'
import { idempotencyKeyIn } from './browser/browser-guard.ts'

/** What a binding needs to carry bytes. */
export type ByteStore = { readonly blobs: Blobs; readonly bytesMax: number }

export type Body = string | Buffer | Readable
export type Work = (request: FastifyRequest, reply: FastifyReply, caller: Caller, actor: Actor) => Promise<Body>

type Carrying = ByteStore & {
  readonly kernel: Kernel
  /** How long a sender may bring less than `limits.uploadProgressBytesMin`, and how long a reader may read nothing. */
  readonly bounds: { readonly requestMs: number; readonly readMs: number }
  /** The handler around the work: credential, figures, failures. */
  handler(operation: string, changes: boolean, work: Work): (request: FastifyRequest, reply: FastifyReply) => Promise<Body | FastifyReply>
}
type Query = Record<string, unknown>

export const uploadSlots = (): Slots => createSlots(limits.uploadsPerActorMax, limits.uploadsMax, 'uploads')

export function registerBytes(app: FastifyInstance, carrying: Carrying, uploads: Slots): void {
  const downloads = createSlots(limits.downloadsPerActorMax, limits.downloadsMax, 'downloads')
  // In a scope of its own: nobody parses these bodies.
  void app.register((scope, _, done) => {
    scope.removeAllContentTypeParsers()
    scope.addContentTypeParser('*', (_request, _payload, parsed) => parsed(null, undefined))
    for (const protocol of carrying.kernel.protocols) {
      for (const op of protocol.operations) {
        const name = `${protocol.name}/${op.name}`
        if (op.kind === 'command' && op.upload) scope.put(`/v1/${name}`, carrying.handler(name, true, taking(carrying, name, op, uploads)))
        if (op.kind === 'query' && op.download) {
          const handler = carrying.handler(name, false, giving(carrying, name, op, downloads))
          scope.route({ method: ['GET', 'HEAD'], url: `/v1/${name}`, exposeHeadRoute: false, handler })
        }
      }
    }
    done()
  })
}

// --- Upload ----------------------------------------------------------------------------------------------------------------

const taking = ({ bounds, ...carrying }: Carrying, name: string, op: Operation, slots: Slots): Work =>
  async function take({ raw, url }, reply, caller, { id }) {
    refuseOtherThanOctets(raw.headers)
    const receiving = { ...carrying, slots, requestMs: bounds.requestMs }
    return JSON.stringify(await receiveBytes(receiving, name, queryIn(url, op), raw, reply.raw, caller, id))
  }

type Receiving = ByteStore & { readonly kernel: Kernel; readonly requestMs: number; readonly slots: Slots }

/** The body of a request for an operation that takes bytes: first it is asked whether it could be done at all. */
export async function receiveBytes(
  { kernel, blobs, bytesMax, requestMs, slots }: Receiving,
  operation: string,
  input: object,
  raw: IncomingMessage,
  response: ServerResponse,
  caller: Caller,
  actor: string,
): Promise<unknown> {
  const announced = announcedBy(raw.headers, input as Query)
  if (announced.size !== undefined && announced.size > bytesMax)
    throw new Refusal('TOO_LARGE', `at most ${bytesMax} bytes are taken at once`, { max: bytesMax })
  const key = idempotencyKeyIn(raw.headers)
  const options = key === undefined ? {} : { key }
  await kernel.check(operation, input, caller, options)
  const leave = slots.enter(actor)
  try {
    takesItsTime(raw)
    if (raw.headers.expect !== undefined) response.writeContinue()
    const held = await blobs.put(paced(raw, requestMs), announced, bytesMax)
    return await refer(held, (received) => kernel.call(operation, input, caller, { ...options, received }))
  } catch (error) {
    // What still comes is read and thrown away for as long as any body may take, so that the sender gets to read the answer.
    takesItsTime(raw, requestMs)
    raw.resume()
    throw error
  } finally {
    leave()
  }
}

/** The bytes are held until something refers to them, or goes wrong. */
async function refer<T>(held: Held, call: (received: { checksum: string; size: number }) => Promise<T>): Promise<T> {
  try {
    return await call({ checksum: held.checksum, size: held.size })
  } catch (error) {
    // Only a refusal is certain to have changed nothing.
    if (error instanceof Refusal) await held.discard()
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
/** What may wait here while the store writes. */
const AHEAD_BYTES = 512 * 1024

/** The body, as long as it keeps coming. The time that we take to write is not the sender's. */
async function* paced(raw: IncomingMessage, idleMs: number): AsyncIterable<Uint8Array> {
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
      if (raw.destroyed) throw new Refusal('INVALID_REQUEST', 'the upload was cut')
      if (waitedMs >= idleMs) throw new TransportRefusal(408, 'INVALID_REQUEST', 'the bytes come too slowly')
      const began = performance.now()
      const { promise, resolve } = Promise.withResolvers<void>()
      wake = resolve
      const timer = setTimeout(resolve, idleMs - waitedMs)
      await promise
      clearTimeout(timer)
      waitedMs += performance.now() - began
    }
  } finally {
    // Whether the rest flows away is for others to say.
    raw.pause()
    raw.off('data', take)
    for (const event of wakers) raw.off(event, ring)
  }
}

/** Gives memory back at once that Node took for this chunk alone: left to the collector, it costs more than the hashing. */
function release({ buffer, byteLength }: Buffer): void {
  if (buffer instanceof ArrayBuffer && buffer.byteLength === byteLength) buffer.transfer(0)
}

// --- Download --------------------------------------------------------------------------------------------------------------

type Named = { readonly uri: string; readonly checksum: string; readonly size: number; readonly name: string }

const giving = ({ kernel, blobs, bounds: { readMs } }: Carrying, operation: string, op: Operation, slots: Slots): Work =>
  async function give({ raw, url, method }, reply, caller, actor) {
    const { uri, checksum, size, name } = (await kernel.call(operation, queryIn(url, op), caller)) as Named
    const etag = `"${checksum}"`
    const whole = { etag, 'accept-ranges': 'bytes', 'content-disposition': dispositionOf(name) }
    if (raw.headers['if-none-match']?.split(',').some((tag) => [etag, `W/${etag}`, '*'].includes(tag.trim()))) {
      reply.code(304).headers(whole)
      return ''
    }
    const range = rangeIn(raw.headers, size, etag)
    if (range === 'outside')
      throw new TransportRefusal(416, 'INVALID_REQUEST', `there are ${size} bytes`, { 'content-range': `bytes */${size}` })
    if (reply.raw.destroyed) throw gone()
    // Before a byte is read: reading and hashing are what is bounded.
    if (method !== 'HEAD' && !isDataUri(uri)) reply.raw.once('close', slots.enter(actor.id))
    const body = method === 'HEAD' ? '' : await bodyOf(kernel, blobs, uri, range)
    if (reply.raw.destroyed) {
      if (body instanceof Readable) body.destroy()
      throw gone()
    }
    reply.code(range ? 206 : 200).headers({
      ...whole,
      // Never what it says it is: nothing here may be shown as a page of ours.
      'content-type': 'application/octet-stream',
      'content-security-policy': "default-src 'none'; frame-ancestors 'none'; sandbox",
      'content-length': String(range ? range.last - range.first + 1 : size),
      ...(range ? { 'content-range': `bytes ${range.first}-${range.last}/${size}` } : {}),
    })
    if (!(body instanceof Readable)) return body
    // A reader that does not read holds a file open: not for long.
    reply.raw.setTimeout(readMs, () => reply.raw.destroy())
    // Where no byte was sent yet, a refusal follows, and these headers are not about it.
    return body.on('error', () => {
      for (const header of Object.keys(whole)) void reply.removeHeader(header)
    })
  }

/** An answer that is never sent; it ends the work. */
const gone = (): Refusal => new Refusal('UNAVAILABLE', 'the client closed its connection before the bytes were read')

async function bodyOf({ store }: Kernel, blobs: Blobs, uri: string, range: ByteRange | null): Promise<Body> {
  if (isDataUri(uri)) {
    const bytes = bytesIn(uri, 'INTERNAL', 'uri')
    return range ? bytes.subarray(range.first, range.last + 1) : bytes
  }
  const noted = (error: unknown): never => {
    if (error instanceof Damaged) store.report({ what: error.key, how: error.what })
    throw error
  }
  const stream = await blobs.open(checksumIn(uri) ?? '', range ?? undefined).catch(noted)
  if (!stream) return noted(new Damaged(uri, 'its bytes are not in the blob store, but a document refers to them'))
  const body = stream instanceof Readable ? stream : Readable.from(stream)
  // Whoever reads it sees the answer break off: it has begun, and no status can be sent any more.
  return body.on('error', (error: unknown) => error instanceof Damaged && store.report({ what: error.key, how: error.what }))
}

/** One range (RFC 9110, 14.2). Several, or what cannot be read, is as if none was asked for: the answer is the whole. */
function rangeIn({ range, 'if-range': ifRange }: IncomingHttpHeaders, size: number, etag: string): ByteRange | 'outside' | null {
  if (range === undefined || (ifRange !== undefined && ifRange !== etag)) return null
  const [, from = '', to = ''] = /^bytes= *(\d{0,15})-(\d{0,15}) *$/.exec(range) ?? []
  if (from === '' && to === '') return null
  const first = from === '' ? Math.max(0, size - Number(to)) : Number(from)
  const last = from === '' || to === '' ? size - 1 : Math.min(Number(to), size - 1)
  if (from !== '' && to !== '' && Number(to) < Number(from)) return null
  return first > last ? 'outside' : { first, last }
}

/** RFC 6266: a plain name for old readers, the true one in UTF-8. */
function dispositionOf(name: string): string {
  const plain = name.replaceAll(/[^\x20-\x7e]|["%\\]/g, '_')
  const exact = encodeURIComponent(name.toWellFormed()).replaceAll(/['()*]/g, (mark) => `%${mark.charCodeAt(0).toString(16).toUpperCase()}`)
  return `attachment; filename="${plain}"; filename*=UTF-8''${exact}`
}

// --- Both ------------------------------------------------------------------------------------------------------------------

/** The input as it stands in the query; the schema says what is a number. What is wrong is left for the kernel to refuse. */
function queryIn(url: string, op: Operation): Query {
  const { properties = {} } = op.input as { properties?: Record<string, { type?: string }> }
  const input: Query = {}
  for (const [name, text] of new URL(url, 'http://localhost').searchParams) {
    if (Object.hasOwn(input, name)) throw new Refusal('INVALID_REQUEST', `${name} is given twice`, { field: name })
    const type = Object.hasOwn(properties, name) ? properties[name]!.type : undefined
    const value = type === 'integer' && /^\d{1,15}$/.test(text) ? Number(text) : text
    Object.defineProperty(input, name, { value, enumerable: true })
  }
  return input
}

export type Slots = { enter(actor: string): () => void }
function createSlots(perActor: number, total: number, what: string): Slots {
  const counts = new Map<string, number>()
  let all = 0
  return {
    enter(actor) {
      const own = counts.get(actor) ?? 0
      if (own >= perActor) throw new Refusal('QUOTA_EXCEEDED', `at most ${perActor} ${what} at a time`, { retry_after: 1 })
      if (all >= total) throw new Refusal('BUSY', `there are too many ${what} at the moment`, { retry_after: 1 })
      counts.set(actor, own + 1)
      all++
      return () => {
        all--
        const left = counts.get(actor)! - 1
        if (left === 0) counts.delete(actor)
        else counts.set(actor, left)
      }
    },
  }
}
