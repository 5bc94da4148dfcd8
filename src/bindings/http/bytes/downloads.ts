// Downloads: GET and HEAD return the bytes that a download operation names. The query carries the operation's input.
import type { IncomingHttpHeaders } from 'node:http'
import { Readable } from 'node:stream'
import { bytesIn, checksumIn, isDataUri, type Blobs, type ByteRange } from '#kernel/ports/blobs.ts'
import { Damaged, Refusal } from '#kernel/declare/errors.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { limits } from '#kernel/limits.ts'
import { handlerOf, type Ask } from '../../shared/handle.ts'
import { optionsOf } from '../../shared/call-options.ts'
import { createByteSlots, queryIn, type Query, type Slots } from './shared.ts'
import type { Serving } from '../operations.ts'
import { TransportRefusal, type Reply } from '../responses.ts'
import type { Exchange, Route } from '../router.ts'

/** `readMs`: how long a reader can read nothing. */
type Giving = { readonly blobs: Blobs; readonly readMs: number }

export function downloadRoutes({ kernel, guard, authenticate, failing, meter }: Serving, giving: Giving): Route[] {
  const slots = createByteSlots(limits.downloadsPerActorMax, limits.downloadsMax, 'downloads')
  return kernel.protocols.flatMap((protocol) =>
    protocol.operations.flatMap((op): Route[] => {
      if (op.kind !== 'query' || !op.download) return []
      const name = `${protocol.name}/${op.name}`
      const path = `/v1/${name}`
      const handle = handlerOf<Exchange, Reply, Query>({
        credential: ({ request }) => guard.credentialOf(request.headers),
        authenticate: (credential) => authenticate(credential),
        input: ({ request }) => queryIn(request.url!, op),
        options: () => optionsOf(undefined),
        async call(ask, exchange) {
          const named = (await kernel.call(name, ask.input, ask.caller)) as Named
          return replyWith(named, ask, exchange, kernel, giving, slots)
        },
        failed: failing(path),
        done: meter(name, false),
      })
      return [{ method: 'GET', path, answer: handle }]
    }),
  )
}

type Named = { readonly uri: string; readonly checksum: string; readonly size: number; readonly name: string }

async function replyWith(
  { uri, checksum, size, name }: Named,
  { actor }: Ask,
  { request, response }: Exchange,
  kernel: Kernel,
  { blobs, readMs }: Giving,
  slots: Slots,
): Promise<Reply> {
  const { headers, method } = request
  const etag = `"${checksum}"`
  const whole = { etag, 'accept-ranges': 'bytes', 'content-disposition': dispositionOf(name) }
  if (headers['if-none-match']?.split(',').some((tag) => [etag, `W/${etag}`, '*'].includes(tag.trim())))
    return { status: 304, headers: whole, body: null }
  const range = rangeIn(headers, size, etag)
  if (range === 'outside')
    throw new TransportRefusal(416, 'INVALID_REQUEST', `there are ${size} bytes`, { 'content-range': `bytes */${size}` })
  if (response.destroyed) throw clientGoneRefusal()
  // Take the slot before the first byte is read: the slots bound reading and hashing.
  if (method !== 'HEAD' && !isDataUri(uri)) response.once('close', slots.enter(actor.id))
  const body = method === 'HEAD' ? null : await bodyOf(kernel, blobs, uri, range)
  if (response.destroyed) {
    if (body instanceof Readable) body.destroy()
    throw clientGoneRefusal()
  }
  const length = range ? range.last - range.first + 1 : size
  if (body !== null) kernel.charge(actor, Math.floor(length / limits.readUnitBytes))
  // A reader that does not read holds a file open: not for long.
  if (body instanceof Readable) response.setTimeout(readMs, () => response.destroy())
  return {
    status: range ? 206 : 200,
    headers: {
      ...whole,
      // Never serve the declared media type: a browser must not show a download as one of our pages.
      'content-type': 'application/octet-stream',
      'content-security-policy': "default-src 'none'; frame-ancestors 'none'; sandbox",
      'content-length': String(length),
      ...(range ? { 'content-range': `bytes ${range.first}-${range.last}/${size}` } : {}),
    },
    body,
  }
}

/** A refusal that ends the work and is never sent. Not UNAVAILABLE, which means that the store cannot write. */
const clientGoneRefusal = (): Refusal => new Refusal('BUSY', 'the client closed its connection before the bytes were read')

async function bodyOf({ store }: Kernel, blobs: Blobs, uri: string, range: ByteRange | null): Promise<Buffer | Readable> {
  if (isDataUri(uri)) {
    const bytes = bytesIn(uri, 'INTERNAL', 'uri')
    return range ? bytes.subarray(range.first, range.last + 1) : bytes
  }
  const reportDamage = (error: unknown): never => {
    if (error instanceof Damaged) store.report({ what: error.key, how: error.what })
    throw error
  }
  const stream = await blobs.open(checksumIn(uri) ?? '', range ?? undefined).catch(reportDamage)
  if (!stream) return reportDamage(new Damaged(uri, 'its bytes are not in the blob store, but a document refers to them'))
  const body = stream instanceof Readable ? stream : Readable.from(stream)
  // The response has begun, so no status can be sent: the client sees a broken response.
  return body.on('error', (error: unknown) => error instanceof Damaged && store.report({ what: error.key, how: error.what }))
}

/** One range (RFC 9110, 14.2). Several ranges, or an unreadable one, are ignored: the answer is the whole. */
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
