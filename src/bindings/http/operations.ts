// The operations themselves. Most of what a server does all day is a small JSON body for one of them: such a request is answered
// without the framework, which would look at everything in it once more. Whatever is not plain goes the long way and is refused there.
import type { IncomingHttpHeaders, IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Actor } from '#kernel/declare/access.ts'
import { decode } from '#kernel/codec/strict-json.ts'
import type { CallOptions, Kernel } from '#kernel/kernel.ts'
import { limits } from '#kernel/limits.ts'
import type { Operation } from '#kernel/declare/operation.ts'
import { answerText } from '#kernel/call/answer-texts.ts'
import { bodyOf, type Failure } from './responses.ts'
import { patiently } from './connections/body-deadline.ts'
import { callerOf, idempotencyKeyIn, type Credential, type Guard } from './browser/browser-guard.ts'
import { askedBy, endSoon, gatherAnswers, withOthers } from './connections/turn-batching.ts'
import type { Unsent } from '../shared/unsent-answers.ts'

export type Answer = { readonly text: string; readonly failure: null } | { readonly text: null; readonly failure: Failure }
/** Never rejects. `body`: as it came; none is an empty object. Where the response closes early, a call that waits ends. */
export type Run = (headers: IncomingHttpHeaders, body: Buffer | undefined, response: ServerResponse) => Promise<Answer>

export type Done = (code: string, began: number) => void
export type Serving = {
  readonly kernel: Kernel
  readonly guard: Guard
  authenticate(credential: Credential): Actor | Promise<Actor>
  failed(error: unknown, path: string): Failure
  /** Who is told of every answer to the operation. */
  meter(operation: string, changes: boolean): Done
  /** After this long in silence a connection is let go, except while something is done for it. */
  readonly stuckMs: number
}

const NO_OPTIONS: CallOptions = {}

/** Each operation by its path. */
export function operationsOf(serving: Serving): Map<string, Run> {
  const runs = new Map<string, Run>()
  for (const protocol of serving.kernel.protocols) {
    for (const op of protocol.operations) {
      if (op.kind === 'stream') continue
      const name = `${protocol.name}/${op.name}`
      runs.set(`/v1/${name}`, runOf(name, op, serving))
    }
  }
  return runs
}

function runOf(name: string, op: Operation, { kernel, guard, authenticate, failed, meter, stuckMs }: Serving): Run {
  const changes = op.kind === 'command'
  const done = meter(name, changes)
  const waits = op.kind === 'command' && op.waits !== undefined
  const acts = op.kind === 'command' && op.effect !== undefined
  const textOf = op.kind === 'query' ? answerText : JSON.stringify
  return async (headers, body, response) => {
    const began = performance.now()
    try {
      const credential = guard.credentialOf(headers, changes)
      const asked = authenticate(credential)
      const actor = asked instanceof Promise ? await asked : asked
      askedBy(response, actor.id)
      const key = idempotencyKeyIn(headers)
      const input = body === undefined || body === null || body.length === 0 ? {} : decode(body)
      const caller = callerOf(authenticate, credential, actor)
      const options = waits ? { key, signal: goneWith(response) } : key === undefined ? NO_OPTIONS : { key }
      const call = (): Promise<unknown> => kernel.call(name, input, caller, options)
      const text = textOf(acts ? await patiently(response.req, stuckMs, call) : await call())
      done('OK', began)
      return { text, failure: null }
    } catch (error) {
      const failure = failed(error, `/v1/${name}`)
      done(failure.code, began)
      return { text: null, failure }
    }
  }
}

/** Aborts when the client goes away. */
function goneWith(response: ServerResponse): AbortSignal {
  const gone = new AbortController()
  if (response.destroyed) gone.abort()
  else response.once('close', () => gone.abort())
  return gone.signal
}

export type Plain = {
  readonly runs: ReadonlyMap<string, Run>
  /** On every answer. */
  readonly headers: Readonly<Record<string, string>>
  /** Whether a request may be taken at all; what may not is refused on the long way. */
  isWelcome(headers: IncomingHttpHeaders): boolean
  bound(raw: IncomingMessage): void
  readonly unsent: Unsent
}

/** Answers plain requests; all others go to `otherwise`. */
export function plainListener({ runs, headers, isWelcome, bound, unsent }: Plain, otherwise: RequestListener): RequestListener {
  const fixed = Object.entries(headers).flat()
  return (raw, response) => {
    const run = raw.method === 'POST' ? runs.get(raw.url!) : undefined
    const size = run && sizeOf(raw.headers)
    if (!run || size === undefined || !isWelcome(raw.headers)) return otherwise(raw, response)
    gatherAnswers()
    bound(raw)
    let parts: Buffer | Buffer[] | undefined
    raw.on('data', (part: Buffer) => {
      if (parts === undefined) parts = part
      else if (Array.isArray(parts)) parts.push(part)
      else parts = [parts, part]
    })
    raw.on('end', () => {
      const body = Array.isArray(parts) ? Buffer.concat(parts, size) : parts
      withOthers(
        () =>
          void run(raw.headers, body, response)
            .then((answer) => send(response, fixed, answer, unsent))
            .catch(() => response.destroy()),
      )
    })
  }
}

/** The length of a body that is small, whole and JSON; undefined for every other one. */
function sizeOf(headers: IncomingHttpHeaders): number | undefined {
  if (headers['content-type'] !== 'application/json' || headers['transfer-encoding'] !== undefined || headers.expect !== undefined) return
  const size = Number(headers['content-length'])
  return size > 0 && size <= limits.bodyBytesMax ? size : undefined
}

export function send(response: ServerResponse, fixed: readonly string[], { text, failure }: Answer, unsent: Unsent): void {
  const body = text ?? bodyOf(failure)
  const more = failure === null ? [] : Object.entries(failure.headers).flat()
  response.writeHead(failure?.status ?? 200, [...fixed, ...more, 'content-length', String(Buffer.byteLength(body))])
  endSoon(response, body, unsent)
}
