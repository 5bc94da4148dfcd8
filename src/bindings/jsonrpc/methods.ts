// The methods: every command and query of the kernel under `<protocol>/<operation>`, and those of the connection itself under `rpc.`. No
// protocol is known by name.
import { Refusal } from '#kernel/declare/errors.ts'
import type { CallOptions, Kernel } from '#kernel/kernel.ts'
import { cursorOf, placeOf } from '#kernel/declare/paging.ts'
import type { Operation } from '#kernel/declare/operation.ts'
import { nullable, parse, t } from '#kernel/declare/schema.ts'
import type { FactsOf } from '#kernel/log/store.ts'
import { lastPlace } from '#kernel/log/streams.ts'
import { answerText } from '#kernel/call/answer-texts.ts'
import { isIdempotencyKey, IDEMPOTENCY_KEY_WORDS } from '../http/browser/browser-guard.ts'
import type { Metrics } from '../shared/call-metrics.ts'
import { endLine, itemLine } from './responses.ts'
import { callerOf } from './caller.ts'
import { explain } from './requests.ts'
import { goneWith, room, send, type Credential, type Method, type Session } from './connection.ts'

type Run = Method['run']

export function methodsOf(kernel: Kernel, metrics: Pick<Metrics, 'of'>): Map<string, Method> {
  const methods = new Map<string, Method>()
  const add = (name: string, run: Run, text: Method['text'] = JSON.stringify): unknown =>
    methods.set(name, { run, text, meter: metrics.of(name, 'jsonrpc') })
  add('rpc.authenticate', authenticate)
  add('rpc.follow', follow)
  add('rpc.unfollow', unfollow)
  for (const { name: protocol, operations } of kernel.protocols) {
    for (const op of operations) {
      if (op.kind === 'stream') continue
      const name = `${protocol}/${op.name}`
      add(name, operationOf(kernel, name, op), op.kind === 'query' ? answerText : JSON.stringify)
    }
  }
  return methods
}

const NO_OPTIONS: CallOptions = {}

function operationOf(kernel: Kernel, name: string, op: Operation): Run {
  const waits = op.kind === 'command' && op.waits !== undefined
  return (session, params) => {
    const more = waits ? { signal: goneWith(session) } : NO_OPTIONS
    if (!Object.hasOwn(params, '_meta')) return kernel.call(name, params, callerOf(session, undefined), more)
    const { input, credential, key } = partsOf(params)
    return kernel.call(name, input, callerOf(session, credential), key === undefined ? more : { ...more, key })
  }
}

type Parts = { readonly input: object; readonly credential: Credential | undefined; readonly key: string | undefined }

/** The input of the operation, and what a header would carry elsewhere. */
function partsOf(params: object): Parts {
  const { _meta: meta, ...input } = params as { _meta?: unknown }
  if (typeof meta !== 'object' || meta === null || Array.isArray(meta)) return refuse('_meta', 'must be an object')
  const { token, idempotency_key: key } = meta as Record<string, unknown>
  if (token !== undefined && typeof token !== 'string') return refuse('_meta.token', 'must be a string')
  if (key !== undefined && !isIdempotencyKey(key)) return refuse('_meta.idempotency_key', IDEMPOTENCY_KEY_WORDS)
  return { input, credential: token === undefined ? undefined : { kind: 'bearer', token }, key }
}

function refuse(field: string, words: string): never {
  throw new Refusal('INVALID_REQUEST', `${field} ${words}`, { field })
}

const AuthenticateInput = t.Object({ token: t.String() })

async function authenticate(session: Session, params: object): Promise<object> {
  const credential: Credential = { kind: 'bearer', token: parse(AuthenticateInput, params).token }
  // Who fails to become somebody else is nobody.
  session.credential = null
  session.identified = null
  const asking = Promise.resolve(session.shared.authenticate(credential))
  const settled = asking.then(
    () => void (session.credential = credential),
    () => undefined,
  )
  session.authenticating = settled
  void settled.then(() => {
    if (session.authenticating === settled) session.authenticating = null
  })
  const { id, kind } = await asking
  session.known = true
  return { actor: { id, kind } }
}

const FollowInput = t.Object({
  stream: t.String(),
  input: t.Optional(t.Object({})),
  after: t.Optional(nullable(t.String({ maxLength: 1_000 }))),
})

async function follow(session: Session, params: object): Promise<object> {
  const { shared, follows } = session
  const { kernel, bounds } = shared
  const { input: own, credential } = Object.hasOwn(params, '_meta') ? partsOf(params) : { input: params, credential: undefined }
  const { stream, after = null } = parse(FollowInput, own)
  // As it came: the stream's own schema decides what it knows.
  const { input = {} } = own as { input?: object }
  const caller = callerOf(session, credential)
  const admission = await kernel.admit(stream, input, caller)
  const question = { ...admission.input }
  const start = await startOf(kernel, stream, question, admission.of, after)
  if (follows.size >= bounds.follows) throw new Refusal('QUOTA_EXCEEDED', `a connection follows at most ${bounds.follows} streams`)
  if (session.state !== 'open') throw new Refusal('UNAVAILABLE', 'the connection is closing')
  const id = ++session.lastFollow
  const stop = new AbortController()
  follows.set(id, stop)
  const items = kernel.follow(stream, input, caller, { after: start, signal: stop.signal })
  void pump(session, id, stop.signal, items, (place) => cursorOf(stream, question, String(place)))
  // Whoever is cut off before the first item came goes on from here.
  return { id, cursor: start === null ? null : cursorOf(stream, question, String(start)) }
}

/** Cursors are the same as over HTTP, so that a stream can go on over either. */
async function startOf(kernel: Kernel, stream: string, question: object, of: FactsOf, after: string | null): Promise<number | null> {
  if (after === null) return null
  const last = await lastPlace(kernel.store, of)
  if (after === 'latest') return last
  const text = placeOf(stream, { ...question, cursor: after })!
  const place = /^\d{1,15}$/.test(text) ? Number(text) : Infinity
  if (place > last) throw new Refusal('INVALID_REQUEST', 'after is not a cursor of this stream', { field: 'after' })
  return place
}

type Items = ReturnType<Kernel['follow']>

async function pump(session: Session, id: number, signal: AbortSignal, items: Items, cursorAt: (place: number) => string): Promise<void> {
  try {
    // The answer that names the stream goes first.
    await new Promise((done) => setImmediate(done))
    for await (const { place, item } of items) {
      await room(session)
      if (signal.aborted) break
      send(session, itemLine(id, cursorAt(place), item))
    }
  } catch (error) {
    if (!signal.aborted) send(session, endLine(id, explain(session, error, 'rpc.follow')))
  } finally {
    session.follows.delete(id)
  }
}

const UnfollowInput = t.Object({ id: t.Integer() })

function unfollow(session: Session, params: object): Promise<object> {
  const { id } = parse(UnfollowInput, params)
  const stop = session.follows.get(id)
  if (!stop) return Promise.reject(new Refusal('NOT_FOUND', `this connection follows no stream ${id}`))
  stop.abort()
  session.follows.delete(id)
  return Promise.resolve({})
}
