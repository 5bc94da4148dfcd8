// Uploads and downloads: hashed here and by the server, counted for a progress bar, and retried when the connection breaks.
import { CountersignError, invalidAnswer, networkError } from '../errors.ts'
import { jsonIn, refusalOf, type Http } from './request.ts'
import { queryOf } from './stream.ts'
import { newKey, withRetries, type BytesOptions, type Downloaded, type Progress, type UploadOptions } from './transport.ts'

const OCTETS = 'application/octet-stream'

export async function checksumOf(bytes: ArrayBuffer): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))
  return `sha256:${Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('')}`
}

export async function uploadBytes(
  http: Http,
  operation: string,
  input: object,
  bytes: Blob,
  { signal, onProgress, idempotencyKey = newKey() }: UploadOptions,
): Promise<unknown> {
  const checksum = await checksumOf(await bytes.arrayBuffer())
  const path = `${operation}${queryOf({ ...input, checksum, size: bytes.size })}`
  const headers = { 'content-type': OCTETS, 'idempotency-key': idempotencyKey }
  return withRetries(http.retry, signal, async () => {
    onProgress?.(0, bytes.size)
    const Xhr = xhrHere()
    if (onProgress && Xhr) return sendByXhr(new Xhr(), http, path, headers, bytes, signal, onProgress)
    const body = onProgress ? countedStream(bytes, onProgress) : bytes
    return jsonIn(await http.request(path, { method: 'PUT', headers, body, signal, timeoutMs: null }))
  })
}

const PIECE_BYTES = 64 * 1024

/** A stream that the network pulls piece by piece, so that the pulled bytes measure the upload progress. */
function countedStream(bytes: Blob, onProgress: Progress): ReadableStream {
  let done = 0
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        if (done === bytes.size) return controller.close()
        const piece = new Uint8Array(await bytes.slice(done, done + PIECE_BYTES).arrayBuffer())
        done += piece.length
        controller.enqueue(piece)
        onProgress(done, bytes.size)
      },
    },
    { highWaterMark: 0 },
  )
}

/** The part of XMLHttpRequest that is used here: this file is also compiled without browser types. */
type Xhr = {
  readonly upload: { onprogress: ((event: { loaded: number }) => void) | null }
  readonly status: number
  readonly responseText: string
  onload: (() => void) | null
  onerror: (() => void) | null
  onabort: (() => void) | null
  open(method: string, url: string): void
  setRequestHeader(name: string, value: string): void
  getResponseHeader(name: string): string | null
  send(body: Blob): void
  abort(): void
}
/** Undefined in Node, which has no XMLHttpRequest. */
const xhrHere = (): (new () => Xhr) | undefined => Reflect.get(globalThis, 'XMLHttpRequest') as (new () => Xhr) | undefined

/** Browsers report upload progress only through XMLHttpRequest: fetch cannot count, and over HTTP/1.1 cannot stream. */
function sendByXhr(
  xhr: Xhr,
  { base, headers: httpHeaders }: Http,
  path: string,
  headers: Readonly<Record<string, string>>,
  bytes: Blob,
  signal: AbortSignal | undefined,
  onProgress: Progress,
): Promise<unknown> {
  return new Promise((done, failed) => {
    const abort = (): void => xhr.abort()
    const onEnd = (settle: () => void) => (): void => {
      signal?.removeEventListener('abort', abort)
      settle()
    }
    xhr.open('PUT', `${base}/v1/${path}`)
    for (const [name, value] of Object.entries({ ...httpHeaders(), ...headers })) xhr.setRequestHeader(name, value)
    xhr.upload.onprogress = ({ loaded }) => onProgress(loaded, bytes.size)
    xhr.onload = onEnd(() => {
      if (xhr.status !== 200) return failed(refusalOf(xhr.status, xhr.getResponseHeader('retry-after'), xhr.responseText))
      try {
        done(JSON.parse(xhr.responseText))
      } catch {
        failed(invalidAnswer(xhr.status, 'the answer is not JSON'))
      }
    })
    xhr.onerror = onEnd(() => failed(networkError('the connection broke during the upload')))
    xhr.onabort = onEnd(() => failed(networkError('the upload was aborted')))
    signal?.addEventListener('abort', abort)
    xhr.send(bytes)
  })
}

/** The bytes received so far. The next attempt resumes after them if the content is unchanged. */
type Partial = { chunks: Uint8Array[]; done: number; etag: string | null }

export async function downloadBytes(
  http: Http,
  operation: string,
  input: object,
  { signal, onProgress }: BytesOptions,
): Promise<Downloaded> {
  const got: Partial = { chunks: [], done: 0, etag: null }
  const name = await withRetries(http.retry, signal, () => receive(http, `${operation}${queryOf(input)}`, got, signal, onProgress))
  const bytes = new Uint8Array(await new Blob(got.chunks as Uint8Array<ArrayBuffer>[]).arrayBuffer())
  const checksum = await checksumOf(bytes.buffer)
  if (got.etag !== null && got.etag !== `"${checksum}"`)
    throw new CountersignError({
      code: 'INVALID_ANSWER',
      status: 200,
      message: 'the downloaded bytes do not match the checksum of the server: download them again',
      retryable: false,
    })
  return { bytes, checksum, name }
}

async function receive(
  { request }: Http,
  path: string,
  got: Partial,
  signal: AbortSignal | undefined,
  onProgress: Progress | undefined,
): Promise<string | null> {
  const range: Record<string, string> = got.done > 0 && got.etag !== null ? { range: `bytes=${got.done}-`, 'if-range': got.etag } : {}
  const answer = await request(path, { method: 'GET', headers: range, signal, timeoutMs: null })
  if (answer.status !== 206) Object.assign(got, { chunks: [], done: 0, etag: answer.headers.get('etag') })
  const length = Number(answer.headers.get('content-length') ?? 0)
  const total = got.done + length
  const reader = answer.body?.getReader()
  try {
    for (;;) {
      const { done, value } = (await reader?.read()) ?? { done: true, value: undefined }
      if (done || value === undefined) break
      got.chunks.push(value)
      got.done += value.length
      onProgress?.(got.done, Math.max(total, got.done))
    }
  } catch (error) {
    throw signal?.aborted ? signal.reason : networkError('the connection broke during the download', error)
  }
  if (got.done < total) throw networkError('the download ended early')
  return nameIn(answer.headers.get('content-disposition'))
}

function nameIn(disposition: string | null): string | null {
  const exact = /filename\*=UTF-8''([^;]+)/i.exec(disposition ?? '')?.[1]
  try {
    return exact === undefined ? null : decodeURIComponent(exact)
  } catch {
    return null
  }
}
