// The methods: every command and query of the kernel under `<protocol>/<operation>`, and those of the connection itself under `rpc.`. No
// protocol is known by name.
import { isObject } from '#kernel/codec/strict-json.ts'
import type { Actor } from '#kernel/declare/access.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { cursorOf, placeOf } from '#kernel/declare/paging.ts'
import type { Operation } from '#kernel/declare/operation.ts'
import { nullable, parse, t } from '#kernel/declare/schema.ts'
import type { FactsOf } from '#kernel/log/store.ts'
import { lastPlace } from '#kernel/log/streams.ts'
import type { CallMetrics } from '../shared/call-metrics.ts'
import type { Credential } from '../shared/credentials.ts'
import { handlerOf, type Done } from '../shared/handle.ts'
import { idempotencyKeyOf, optionsOf } from '../shared/call-options.ts'
import { endLine, itemLine } from './responses.ts'
import { explain, failureAnswer, lineOf } from './requests.ts'
import { goneWith, room, send } from './connection.ts'
import { actorOf, credentialOf, type Called, type Method, type Parts, type RpcSession } from './session.ts'

export function methodsOf(kernel: Kernel, metrics: Pick<CallMetrics, 'of'>): Map<string, Method> {
  const methods = new Map<string, Method>()
  const doneOf = (name: string): Done => {
    const meter = metrics.of(name, 'jsonrpc')
    return (code, began) => meter.count(code, performance.now() - began)
  }
  const add = (name: string, run: Run): unknown => methods.set(name, ownMethod(name, run, doneOf(name)))
  add('rpc.authenticate', authenticate)
  add('rpc.follow', follow)
  add('rpc.unfollow', unfollow)
  for (const { name: protocol, operations } of kernel.protocols) {
    for (const op of operations) {
      if (op.kind === 'stream') continue
      const name = `${protocol}/${op.name}`
      methods.set(name, operationOf(kernel, name, op, doneOf(name)))
    }
  }
  return methods
}

function operationOf(kernel: Kernel, name: string, op: Operation, done: Done): Method {
  const waits = op.kind === 'command' && op.waits !== undefined
  return handlerOf<Called, string | null, object>({
    credential: (called) => (called.parts = partsOf(called.params)).credential ?? credentialOf(called.session),
    authenticate: (credential, { session }) => actorOf(session, credential),
    input: ({ parts }) => parts!.input,
    options: ({ session, parts }) => optionsOf(parts!.key, waits ? goneWith(session.connection) : undefined),
    call: async ({ input, caller, options }, called) => lineOf(called, JSON.stringify(await kernel.call(name, input, caller, options))),
    failed: (error, called) => failureAnswer(error, called, name),
    done,
  })
}

type Run = (session: RpcSession, params: object) => object | Promise<object>

/** A method of the connection itself: it has no operation and handles its own credential. */
function ownMethod(name: string, run: Run, done: Done): Method {
  return async (called) => {
    const began = performance.now()
    try {
      const line = lineOf(called, JSON.stringify(await run(called.session, called.params)))
      done('OK', began, { request: called })
      return line
    } catch (error) {
      const { code, answer } = failureAnswer(error, called, name)
      done(code, began, { request: called, error })
      return answer
    }
  }
}

/** The input of the operation, and the fields that HTTP carries in headers. */
function partsOf(params: object): Parts {
  if (!Object.hasOwn(params, '_meta')) return { input: params, credential: undefined, key: undefined }
  const { _meta: meta, ...input } = params as { _meta?: unknown }
  if (!isObject(meta)) return refuse('_meta', 'must be an object')
  const { token, idempotency_key: key } = meta
  if (token !== undefined && typeof token !== 'string') return refuse('_meta.token', 'must be a string')
  const field = '_meta.idempotency_key'
  return { input, credential: token === undefined ? undefined : { kind: 'bearer', token }, key: idempotencyKeyOf(key, field, { field }) }
}

function refuse(field: string, message: string): never {
  throw new Refusal('INVALID_REQUEST', `${field} ${message}`, { field })
}

const AuthenticateInput = t.Object({ token: t.String() })

async function authenticate(session: RpcSession, params: object): Promise<object> {
  const credential: Credential = { kind: 'bearer', token: parse(AuthenticateInput, params).token }
  // After a failed rpc.authenticate, the connection has no actor.
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

async function follow(session: RpcSession, params: object): Promise<object> {
  const { shared, follows, connection } = session
  const { kernel, followsMax } = shared
  const { input: given, credential } = partsOf(params)
  const { stream, after = null } = parse(FollowInput, given)
  // Passed unchanged: the stream's given schema validates it.
  const { input = {} } = given as { input?: object }
  const caller = async (): Promise<Actor> => actorOf(session, credential ?? (await credentialOf(session)))
  const admission = await kernel.admit(stream, input, caller)
  const question = { ...admission.input }
  const start = await startOf(kernel, stream, question, admission.of, after)
  if (follows.size >= followsMax) throw new Refusal('QUOTA_EXCEEDED', `a connection follows at most ${followsMax} streams`)
  if (connection.state !== 'open') throw new Refusal('UNAVAILABLE', 'the connection is closing: open a new one')
  const id = ++session.lastFollow
  const stop = new AbortController()
  follows.set(id, stop)
  const items = kernel.follow(stream, input, caller, { after: start, signal: stop.signal })
  void pump(session, id, stop.signal, items, (place) => cursorOf(stream, question, String(place)))
  // A client that is disconnected before the first item resumes from here.
  return { id, cursor: start === null ? null : cursorOf(stream, question, String(start)) }
}

/** Cursors are the same as over HTTP, so that a client can resume a stream over either binding. */
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

async function pump(
  session: RpcSession,
  id: number,
  signal: AbortSignal,
  items: Items,
  cursorAt: (place: number) => string,
): Promise<void> {
  try {
    // The response with the stream's id must be sent first.
    await new Promise((done) => setImmediate(done))
    for await (const { place, item } of items) {
      await room(session.connection)
      if (signal.aborted) break
      send(session.connection, itemLine(id, cursorAt(place), item))
    }
  } catch (error) {
    if (!signal.aborted) send(session.connection, endLine(id, explain(session, error, 'rpc.follow')))
  } finally {
    session.follows.delete(id)
  }
}

const UnfollowInput = t.Object({ id: t.Integer() })

function unfollow(session: RpcSession, params: object): object {
  const { id } = parse(UnfollowInput, params)
  const stop = session.follows.get(id)
  if (!stop) throw new Refusal('NOT_FOUND', `this connection follows no stream ${id}`)
  stop.abort()
  session.follows.delete(id)
  return {}
}
