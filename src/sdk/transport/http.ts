// The HTTP transport, on fetch alone: the same file serves Node and browsers. A signed-in browser needs no key.
import { closedError, timeoutError } from '../errors.ts'
import { failureOf, jsonIn, refusalIn, type Http, type Request } from './request.ts'
import { socketStreams } from './socket.ts'
import { eventsOf, resumeStream } from './stream.ts'
import { newKey, withRetries, usualRetry, type Retry, type RetryOptions, type Transport } from './transport.ts'
import { downloadBytes, uploadBytes } from './upload.ts'

export type HttpTransportOptions = RetryOptions & {
  /** The address of the server, such as http://127.0.0.1:3402. */
  readonly url: string
  /** An API key. Without one, the session cookie of the browser authenticates. */
  readonly key?: string | undefined
  readonly fetch?: typeof globalThis.fetch
  /** Further headers of every request; called for each. */
  readonly headers?: () => Readonly<Record<string, string>>
  /**
   * How streams are carried: `socket` (default), one WebSocket for all streams, or `events`, one connection per stream. A browser opens at
   * most six connections to a server. With a custom `fetch` the default is `events`, because a socket would bypass it.
   */
  readonly streams?: 'socket' | 'events'
}

export function httpTransport(options: HttpTransportOptions): Transport {
  const {
    url,
    key,
    fetch: send = (input, init) => globalThis.fetch(input, init),
    streams = usualStreams(options),
    headers: more,
    ...rest
  } = options
  const retry: Retry = { ...usualRetry, ...rest }
  const headers = (): Record<string, string> => ({ ...more?.(), ...(key === undefined ? {} : { authorization: `Bearer ${key}` }) })
  const base = url.replace(/\/+$/, '')
  const closing = new AbortController()

  const request: Request = async (path, { method, headers: requestHeaders, body, signal, timeoutMs }) => {
    const timeout = new AbortController()
    const timer = timeoutMs === null ? undefined : setTimeout(() => timeout.abort(), timeoutMs)
    const aborted = AbortSignal.any([timeout.signal, closing.signal, ...(signal ? [signal] : [])])
    let answer: Response
    try {
      const streams = body instanceof ReadableStream ? { duplex: 'half' as const } : {}
      const sent = {
        method,
        headers: { ...headers(), ...requestHeaders },
        signal: aborted,
        ...(body === undefined ? {} : { body }),
        ...streams,
      }
      answer = await send(`${base}/${path.startsWith('.well-known/') ? '' : 'v1/'}${path}`, {
        credentials: 'same-origin',
        redirect: 'error',
        ...sent,
      })
    } catch (error) {
      throw closing.signal.aborted ? closedError() : failureOf(error, signal, timeout.signal.aborted ? timeoutMs : null)
    } finally {
      clearTimeout(timer)
    }
    if (!answer.ok) throw await refusalIn(answer)
    return answer
  }

  const http: Http = { request, retry, base, headers }
  const sockets = streams === 'socket' ? socketStreams(base, ticket) : null
  async function ticket(): Promise<string> {
    const more = { method: 'POST', headers: { 'content-type': 'application/json' }, body: '{}', timeoutMs: retry.timeoutMs } as const
    return ((await jsonIn(await request('identity/ticket.issue', more))) as { ticket: string }).ticket
  }
  return {
    where: base,
    call(operation, input, { idempotencyKey = newKey(), signal, timeoutMs = retry.timeoutMs } = {}) {
      const body = JSON.stringify(input)
      const more = { 'content-type': 'application/json', ...(idempotencyKey === null ? {} : { 'idempotency-key': idempotencyKey }) }
      return withRetries(retry, signal, async () => {
        // The timeout covers the whole response, not only its headers.
        const timeout = AbortSignal.timeout(timeoutMs)
        const either = signal ? AbortSignal.any([signal, timeout]) : timeout
        try {
          return await jsonIn(await request(operation, { method: 'POST', headers: more, body, signal: either, timeoutMs: null }))
        } catch (error) {
          throw timeout.aborted && !signal?.aborted ? timeoutError(timeoutMs) : error
        }
      })
    },
    follow(operation, input, followOptions = {}) {
      const events = eventsOf(http, operation, input)
      const socket = sockets?.streamOf(operation, input) ?? events
      return resumeStream(retry, followOptions, (...place) => (sockets?.isBlocked() === true ? events : socket)(...place))
    },
    upload: (operation, input, bytes, uploadOptions = {}) => uploadBytes(http, operation, input, bytes, uploadOptions),
    download: (operation, input, bytesOptions = {}) => downloadBytes(http, operation, input, bytesOptions),
    keys: () =>
      withRetries(retry, undefined, async () =>
        jsonIn(await request('.well-known/jwks.json', { method: 'GET', timeoutMs: retry.timeoutMs })),
      ),
    close() {
      sockets?.close()
      closing.abort()
      return Promise.resolve()
    },
  }
}

const usualStreams = ({ fetch }: HttpTransportOptions): 'socket' | 'events' =>
  fetch === undefined && 'WebSocket' in globalThis ? 'socket' : 'events'
