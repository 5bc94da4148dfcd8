// Streams as server-sent events: every stream operation of the kernel is a GET that does not end.
import type { ServerResponse } from 'node:http'
import { Refusal } from '#kernel/declare/errors.ts'
import { decodeText } from '#kernel/codec/strict-json.ts'
import { limits } from '#kernel/limits.ts'
import type { Protocol } from '#kernel/declare/operation.ts'
import type { Hub, Portion, Sink } from '../live/hub.ts'
import { identifiedBy, type Authenticate } from '../shared/credentials.ts'
import { handlerOf, type Failed } from '../shared/handle.ts'
import { optionsOf } from '../shared/call-options.ts'
import type { UnsentAnswers } from '../shared/unsent-answers.ts'
import type { BrowserGuard } from './browser/browser-guard.ts'
import type { Reply } from './responses.ts'
import type { Exchange, Route } from './router.ts'

export type SseOptions = {
  readonly protocols: readonly Protocol[]
  readonly guard: BrowserGuard
  readonly hub: Hub
  /** On every answer. */
  readonly headers: Readonly<Record<string, string>>
  /** Further paths: from a path to its stream operation. */
  readonly aliases: Readonly<Record<string, string>>
  readonly lingerMs: number
  readonly unsent: UnsentAnswers
  readonly authenticate: Authenticate
  /** The same without counting as use: a page that is only open must not keep a session from ending. */
  readonly recheck: Authenticate
  failing(path: string): (error: unknown) => Failed<Reply>
}

export function sseRoutes(options: SseOptions): Route[] {
  const inputs = new Map<string, Properties>()
  for (const protocol of options.protocols) {
    for (const op of protocol.operations) {
      if (op.kind === 'stream') inputs.set(`${protocol.name}/${op.name}`, (op.input as { properties: Properties }).properties)
    }
  }
  const paths = [...[...inputs.keys()].map((name) => [`/v1/${name}`, name] as const), ...Object.entries(options.aliases)]
  return paths.map(([path, name]) => {
    const properties = inputs.get(name)
    if (!properties) throw new Error(`${path} stands for ${name}, which is not a stream operation`)
    return { method: 'GET', path, head: false, answer: answerOf(path, name, properties, options) }
  })
}

function answerOf(path: string, name: string, properties: Properties, options: SseOptions): Route['answer'] {
  const { guard, hub, authenticate, recheck, failing } = options
  return handlerOf<Exchange, Reply | null, Question>({
    credential: ({ request }) => guard.credentialOf(request.headers),
    authenticate: (credential) => authenticate(credential),
    input: ({ request }) => questionIn(request.url!, properties),
    options: () => optionsOf(undefined),
    async call({ credential, input: { input, after } }, { request, response }) {
      // A reconnecting browser names its last event in a header; its address still has the first place.
      const seen = request.headers['last-event-id']
      const from = typeof seen === 'string' && seen !== '' ? seen : after
      const wish = { name, input, after: from, ...identifiedBy(recheck, credential) }
      const subscription = await hub.subscribe(wish, (cursor, actor) => openSink(response, cursor, actor, options))
      response.once('close', subscription.close)
      if (response.destroyed || request.socket.destroyed) subscription.close()
      return null
    },
    failed: failing(path),
    // A stream is counted while it is open, not as a call.
    done: () => undefined,
  })
}

type Question = { readonly input: unknown; readonly after: string | null }
type Properties = Readonly<Record<string, { readonly type?: string }>>

/** The query as an input: texts, or numbers and booleans if the operation declares them. */
function questionIn(url: string, properties: Properties): Question {
  const fields: [string, unknown][] = []
  let after: string | null = null
  for (const [name, text] of new URL(url, 'http://localhost').searchParams) {
    if (name === 'after') {
      if (after !== null) throw new Refusal('INVALID_REQUEST', 'after is given twice', { field: 'after' })
      after = text
    } else fields.push([name, valueOf(text, properties[name]?.type)])
  }
  // Decode as JSON text: the strict decoder refuses duplicate names, NUL and lone surrogates.
  const text = `{${fields.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`).join()}}`
  return { input: decodeText(text), after }
}

function valueOf(text: string, type: string | undefined): unknown {
  if ((type === 'integer' || type === 'number') && /^-?\d{1,15}(\.\d{1,15})?$/.test(text)) return Number(text)
  if (type === 'boolean' && (text === 'true' || text === 'false')) return text === 'true'
  return text
}

/** The time that a client waits before it connects again. */
const RETRY_MS = 1_000

function openSink(raw: ServerResponse, cursor: string, actor: string, { headers, lingerMs, unsent }: SseOptions): Sink {
  // A disconnected client is detected by 'close'.
  raw.on('error', () => undefined)
  raw.shouldKeepAlive = false
  raw.writeHead(200, { ...headers, 'content-type': 'text/event-stream; charset=utf-8', 'x-accel-buffering': 'no' })
  raw.write(`retry: ${RETRY_MS}\nid: ${cursor}\n\n`)
  return {
    send(portion, taken) {
      const frames = framesOf(portion)
      const { socket } = raw.req
      raw.write(frames, () => {
        unsent.release(socket, frames.length)
        taken()
      })
      if (raw.writableLength > 0) unsent.hold(socket, actor, frames.length)
    },
    // Without data it is not an event, but it moves the cursor.
    beat: (place) => void raw.write(`: beat\nid: ${place}\n\n`),
    end({ reason, code, message }, place) {
      const event = reason === 'slow' || reason === 'stopping' ? reason : 'error'
      raw.end(`event: ${event}\nid: ${place}\ndata: ${JSON.stringify({ code, message, cursor: place })}\n\n`)
      destroyLater(raw, reason === 'stopping' ? Math.min(lingerMs, limits.streamStopMs) : lingerMs)
    },
  }
}

/** One text for all subscribers of these entries. */
function framesOf({ entries, memo }: Portion): Buffer {
  let frames = memo.get('sse')
  if (!frames) {
    const parts = entries.flatMap(({ cursor, written }) => [
      Buffer.from(`id: ${cursor}\nevent: ${written.action}\ndata: `),
      written.json,
      BLANK,
    ])
    memo.set('sse', (frames = Buffer.concat(parts)))
  }
  return frames
}
const BLANK = Buffer.from('\n\n')

function destroyLater(raw: ServerResponse, ms: number): void {
  const timer = setTimeout(() => raw.destroy(), ms)
  raw.once('close', () => clearTimeout(timer))
}
