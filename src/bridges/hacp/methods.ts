// The methods of the wire, under the draft's bare names. Each passes only its declared fields to the kernel; unknown fields are ignored
// (W26, W40).
import { Refusal } from '#kernel/declare/errors.ts'
import type { Actor } from '#kernel/declare/access.ts'
import type { Command, Query } from '#kernel/declare/operation.ts'
import { parse, t } from '#kernel/declare/schema.ts'
import { limits } from '#kernel/limits.ts'
import { timestampOf } from '#kernel/ports/clock.ts'
import { Id, NamedTask, type TaskEvent } from '#protocols/hardware/daemon/schema.ts'
import type { Caller, Hacp } from './index.ts'

/** `applied`: called when the effect is applied, possibly before the response. */
export type Run = (caller: Caller, params: object, applied: () => void) => Promise<unknown>
/** Methods that change something: the connection reads its next message after their effect. */
export const changing: ReadonlySet<string> = new Set(['session.open', 'session.close', 'task.submit', 'task.cancel'])

const Nonce = t.Object({ session_id: Id, nonce: t.String({ minLength: 1, maxLength: 128 }) })
const Key = t.Object({ idempotency_key: t.Optional(t.String({ minLength: 1, maxLength: limits.idempotencyKeyCharsMax })) })
const Subscribing = t.Object({ session_id: Id, task_id: NamedTask })

/** How long a close waits until the tools of its session have stopped. The session is closed in any case. */
const RELEASE_MS = 4_000

export function methodsOf(hacp: Hacp): Map<string, Run> {
  const { kernel, sessions, events, options } = hacp
  const inputs = new Map(kernel.protocols.flatMap(({ operations }) => operations.map((op) => [op.name, op as Command | Query])))

  /** Calls the operation with only the fields that it declares. */
  const call = (name: string, params: object, actor: Actor, key?: string): Promise<unknown> =>
    kernel.call(`hardware/${name}`, parse(inputs.get(name)!.input, params), actor, key === undefined ? {} : { key })

  function refuseUnaudited(): void {
    const message = options.audit.amiss()
    if (message !== null) throw new Refusal('AUDIT_UNAVAILABLE', `${message}: nothing runs until that is fixed`)
  }
  /** A method of a session: refuses a session that this connection must not use. */
  const inSession =
    (run: Run): Run =>
    (caller, params, applied) => {
      const { session_id } = params as { session_id?: unknown }
      if (typeof session_id !== 'string')
        throw new Refusal('INVALID_PARAMS', 'session_id is required', { field: 'session_id', reason: 'session_id must be a text' })
      sessions.use(session_id, caller.actor.id, caller.connection)
      return run(caller, params, applied)
    }
  const operationCall = (name: string, changes: boolean): Run =>
    inSession((caller, params) => {
      if (changes) refuseUnaudited()
      return call(name, params, caller.actor)
    })

  const open: Run = async (caller, params) => {
    refuseUnaudited()
    const opened = (await call('session.open', params, caller.actor)) as { session_id: string }
    sessions.opened(opened.session_id, caller.actor.id, caller.connection, options.idleMsOf(caller.policy))
    return opened
  }

  const close: Run = inSession(async (caller, params, applied) => {
    refuseUnaudited()
    const { session_id } = params as { session_id: string }
    const answer = await call('session.close', params, caller.actor)
    sessions.closed(session_id)
    applied()
    await Promise.race([options.released(session_id), new Promise((done) => setTimeout(done, RELEASE_MS).unref())])
    return answer
  })

  const submit: Run = inSession((caller, params) => {
    refuseUnaudited()
    const { idempotency_key } = parse(Key, params)
    return call('task.submit', params, caller.actor, idempotency_key)
  })

  const subscribe: Run = inSession(async (caller, params) => {
    const { session_id, task_id } = parse(Subscribing, params)
    const subscription = events.begin(task_id, caller.connection)
    try {
      const { events: past } = (await kernel.call('hardware/task.events', { session_id, task_id }, caller.actor)) as { events: TaskEvent[] }
      // The response must precede the events.
      process.nextTick(subscription.go, past)
    } catch (error) {
      subscription.end()
      throw error
    }
    return { ok: true }
  })

  const attest: Run = inSession(async (caller, params) => {
    const { session_id, nonce } = parse(Nonce, params)
    await kernel.call('hardware/session.check', { session_id }, caller.actor)
    const { device_id, version, key, audit } = options
    const jws = key.sign({ v: 1, device_id, nonce, at: timestampOf(kernel.now()), version, audit: audit.head() })
    return { jwk: key.jwk, jws }
  })

  return new Map<string, Run>([
    ['session.open', open],
    ['session.close', close],
    ['tool.list', operationCall('tool.list', false)],
    ['task.submit', submit],
    ['task.get', operationCall('task.get', false)],
    ['task.cancel', operationCall('task.cancel', true)],
    ['task.history', operationCall('task.history', false)],
    ['task.events', subscribe],
    ['task.events.subscribe', subscribe],
    ['attest.device', attest],
  ])
}
