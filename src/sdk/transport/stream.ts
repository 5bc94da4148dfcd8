// Streams as async iterators. The cursor is saved after every item, so nothing is lost when a connection breaks or when the server restarts
// or drops a slow reader: the next connection continues after the last item.
import { createLineReader } from '#kernel/codec/line-reader.ts'
import { CountersignError, networkError } from '../errors.ts'
import type { Http } from './request.ts'
import { backoffOf, pause, type Followed, type FollowOptions } from './transport.ts'

/** The server sends something, at least a heartbeat, every 15 s. */
const SILENCE_MS = 45_000
/** A connection that has lasted this long counts as healthy, even without any events. */
const STEADY_MS = 10_000
const LINE_BYTES_MAX = 64 * 1024 * 1024

/** One connection: yields items until it ends. Calls `moved` once the server follows, and when the cursor moves without an item. */
export type Connect = (after: string | null, signal: AbortSignal, moved: (cursor: string | null) => void) => AsyncIterable<Followed>

export const eventsOf =
  (http: Http, operation: string, input: object): Connect =>
  (cursor, gone, moved) =>
    connection(http, operation, input, cursor, gone, moved)

export async function* resumeStream(
  retry: Http['retry'],
  { after = null, signal, onOpen, onBreak }: FollowOptions,
  connect: Connect,
): AsyncIterable<Followed> {
  let cursor = after
  let connected = false
  for (let failures = 0; !signal?.aborted;) {
    const leaving = new AbortController()
    const gone = signal ? AbortSignal.any([signal, leaving.signal]) : leaving.signal
    let isOpen = false
    let openedAt = 0
    const moveTo = (place: string | null): void => {
      cursor = place ?? cursor
      if (!isOpen) onOpen?.()
      if (!isOpen) openedAt = Date.now()
      isOpen = true
      connected = true
    }
    try {
      for await (const followed of connect(cursor, gone, moveTo)) {
        moveTo(followed.cursor)
        failures = 0
        yield followed
      }
    } catch (error) {
      if (signal?.aborted) return
      // After a first connection the stream waits for the server, however long it is away.
      const isHopeless = !(error instanceof CountersignError) || !error.retryable || (!connected && failures + 1 >= retry.attempts)
      if (isHopeless) throw error
      await pause(error.retryAfterMs ?? 0, signal)
    } finally {
      leaving.abort()
      // A stream that opens and fails immediately keeps backing off; only a steady connection resets the count.
      if (isOpen && Date.now() - openedAt > STEADY_MS) failures = 0
      if (isOpen && !signal?.aborted) onBreak?.()
    }
    await pause(backoffOf(retry, ++failures), signal)
  }
}

type Event = { readonly id: string | null; readonly type: string; readonly data: string | null }

async function* connection(
  { request }: Http,
  operation: string,
  input: object,
  after: string | null,
  signal: AbortSignal,
  moved: (cursor: string | null) => void,
): AsyncIterable<Followed> {
  const query = queryOf(after === null ? input : { ...input, after })
  const silent = new AbortController()
  const both = AbortSignal.any([signal, silent.signal])
  const answer = await request(`${operation}${query}`, {
    method: 'GET',
    headers: { accept: 'text/event-stream' },
    signal: both,
    timeoutMs: SILENCE_MS,
  })
  let watch = setTimeout(() => silent.abort(), SILENCE_MS)
  const resetSilence = (): void => {
    clearTimeout(watch)
    watch = setTimeout(() => silent.abort(), SILENCE_MS)
  }
  try {
    for await (const { id, type, data } of eventsIn(answer, resetSilence)) {
      if (data === null) {
        if (id !== null) moved(id)
        continue
      }
      if (type === 'slow' || type === 'stopping') {
        if (id !== null) moved(id)
        return
      }
      if (type === 'error') throw endOf(data)
      yield { cursor: id ?? after ?? '', item: JSON.parse(data) as unknown }
    }
  } finally {
    clearTimeout(watch)
  }
}

function endOf(data: string): CountersignError {
  const { code, message } = JSON.parse(data) as { code: string; message: string }
  return new CountersignError({ code, status: null, message, retryable: code === 'INTERNAL' || code === 'UNAVAILABLE' })
}

export function queryOf(input: object): string {
  const pairs = Object.entries(input).filter(([, value]) => value !== undefined)
  return pairs.length === 0 ? '' : `?${new URLSearchParams(pairs.map(([name, value]) => [name, String(value)])).toString()}`
}

/** Server-sent events of a response body; `data` is null for a block that only moves the cursor or is a heartbeat. */
async function* eventsIn(answer: Response, heard: () => void): AsyncIterable<Event> {
  const lines = createLineReader(LINE_BYTES_MAX)
  const text = new TextDecoder()
  let event: { id: string | null; type: string; data: string | null } = { id: null, type: 'message', data: null }
  const reader = answer.body!.getReader()
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      heard()
      lines.push(value)
      for (let line = lines.next(); line !== null; line = lines.next()) {
        const fieldLine = text.decode(line)
        if (fieldLine === '' || fieldLine === '\r') {
          yield event
          event = { id: null, type: 'message', data: null }
        } else take(event, fieldLine)
      }
      if (lines.tooLong) throw networkError('the server sent a line without an end')
    }
  } catch (error) {
    throw error instanceof CountersignError ? error : networkError('the stream broke', error)
  } finally {
    await reader.cancel().catch(() => undefined)
  }
}

function take(event: { id: string | null; type: string; data: string | null }, line: string): void {
  const [, field, value = ''] = /^([a-z]+)(?:: ?(.*?))?\r?$/s.exec(line) ?? []
  if (field === 'id') event.id = value
  else if (field === 'event') event.type = value
  else if (field === 'data') event.data = event.data === null ? value : `${event.data}\n${value}`
}
