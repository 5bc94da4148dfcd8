// Invoking a capability for a run. The step name is the idempotency key, so a restarted handler gets the first result.
import type { Input, Output } from '../client.ts'
import { durationOf } from '../transport/retry.ts'
import type { RunState } from './run-state.ts'
import type { Steps } from './steps.ts'

type InvokeInput = Input<'delegation/capability.invoke'>
export type InvokeOptions = {
  /** The timeout: 30 s by default, at most 5 minutes. */
  readonly timeoutMs?: number
  /** Names the invocation, for handlers in which its place can differ between attempts. */
  readonly key?: string
}
/** The output of the capability; with `ok: false`, the reason why there is none. */
export type Invoked = Output<'delegation/capability.invoke'>

const USUAL_MS = 30_000
/** Added to the timeout of the capability. */
const ANSWER_MS = 15_000

export function createInvoke(
  job: RunState,
  steps: Steps,
): (ref: InvokeInput['ref'], input?: unknown, options?: InvokeOptions) => Promise<Invoked> {
  const { client, id: run_id, signal } = job
  return async (ref, input = {}, { timeoutMs = USUAL_MS, key } = {}) => {
    const invocation = { run_id, ref, input, timeout: durationOf(timeoutMs) }
    const options = { idempotencyKey: steps.keyOf('invoke', key), signal, timeoutMs: timeoutMs + ANSWER_MS }
    return job.effect(() => client.delegation.capability.invoke({ ...invocation, attempt: job.attempt }, options))
  }
}
