// The run loop of the Agent SDK: each run that the mailbox loop takes is one call of the handler.
import type { Client } from '../client.ts'
import { createMailboxLoop, type Job, type MailboxLoop } from '../mailbox/mailbox-loop.ts'
import { newKey, type Transport } from '../transport/transport.ts'
import { isRefusal, persistently } from '../transport/retry.ts'
import { createRunState, type RunState } from './run-state.ts'
import type { Connection } from './connection.ts'
import { Ended } from './errors.ts'
import type { Handler, ServeOptions } from './serve.ts'
import { work } from './work.ts'

export type Settings = Required<Omit<ServeOptions, 'url' | 'key' | 'transport' | 'signals' | 'log'>>

/** A server that lets no call wait is not asked in a hurry. */
const AGAIN_MS = 500
/** How often the loop checks whether another process has taken a run that waits for a person. */
const LOOK_MS = 300_000
/** Grace period for aborted handlers before their runs are given back. */
const LEAVE_MS = 500

export function createRunLoop(
  agent_id: string,
  { client, transport, connection }: { readonly client: Client; readonly transport: Transport; readonly connection: Connection },
  handler: Handler,
  { graceMs: _, onError, ...settings }: Settings,
): MailboxLoop {
  const loop = createMailboxLoop({
    ...settings,
    agent_id,
    worker: newKey(),
    againMs: AGAIN_MS,
    leaveMs: LEAVE_MS,
    call: (operation, input, options = {}) =>
      operation === 'delegation/mailbox.take'
        ? persistently(options.signal ?? loop.stopping, () => connection.attempt(() => transport.call(operation, input, options)))
        : transport.call(operation, input, options),
    begin(item, slots) {
      const state = createRunState(client, item, slots)
      return jobOf(
        state,
        work(state, handler, slots, (error, run) => onError(error, run)),
      )
    },
    onTakeError: (error) => (isRefusal(error, 'CONFLICT') ? 'continue' : 'end'),
  })
  return loop
}

function jobOf(state: RunState, done: Promise<void>): Job {
  let lookedAt = 0
  return {
    get attempt() {
      return state.attempt
    },
    done,
    get isUnfinished() {
      const reason: unknown = state.signal.reason
      return reason instanceof Ended && reason.reason === 'stopping'
    },
    receive(item) {
      if (!state.signal.aborted && state.receive(item)) return true
      state.end('stale')
      return false
    },
    /** A run that waits for a person has nothing to redeliver: the process that takes it next gets the answer. */
    async mustBeHeld() {
      if (state.signal.aborted || state.isDelivered) return false
      if (state.waitsFor === null) return true
      if (performance.now() - lookedAt < LOOK_MS) return false
      lookedAt = performance.now()
      const { run } = await state.client.delegation.run.get({ run_id: state.id }, { signal: state.signal })
      return run.state !== 'blocked'
    },
    async lost() {
      if (!state.isDelivered && !state.signal.aborted) await state.lost()
    },
    leave() {
      if (state.waitsFor !== null) state.end('stopping')
    },
    stop() {
      if (!state.isDelivered) state.end('stopping')
    },
  }
}
