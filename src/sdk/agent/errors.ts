// Errors that end a handler.
import type { Output } from '../client.ts'
import { NotApproved, type Answer } from '../await-answer.ts'

export type Resolution = NonNullable<Output<'collaboration/checkpoint.get'>['checkpoint']['resolution']>

/**
 * A person rejected the request. If that ended the task (`isFinal`), the handler can clean up, and its outcome is not reported.
 * Otherwise the task continues, and a handler that does not catch this error fails its run.
 */
export class Rejected extends NotApproved {
  override name = 'Rejected'
  readonly checkpoint_id: string
  readonly resolution: Resolution
  readonly isFinal: boolean
  constructor(checkpoint_id: string, resolution: Resolution, isFinal = true, answer: Answer<'rejected'> | null = null) {
    super(resolution.comment ?? null, answer)
    this.checkpoint_id = checkpoint_id
    this.resolution = resolution
    this.isFinal = isFinal
  }
}

/**
 * cancelled: the run was ended; handed_off: it continues elsewhere; stale: another process has taken it; stopping: this process
 * ends, and the next one resumes the run; done: the handler has returned.
 */
export type EndReason = 'cancelled' | 'handed_off' | 'stale' | 'stopping' | 'done'

/** The reason of `run.signal`, which every further call of the run throws too. */
export class Ended extends Error {
  override name = 'Ended'
  readonly reason: EndReason
  constructor(reason: EndReason, message?: string | null) {
    super(message ?? `the run is over here: ${reason}`)
    this.reason = reason
  }
}

/** The run that was delegated has ended without a result. */
export class DelegationFailed extends Error {
  override name = 'DelegationFailed'
  readonly run_id: string
  readonly reason: string | null
  constructor(run_id: string, reason: string | null, error: string | null) {
    super(error ?? `the delegated run ended: ${reason ?? 'no reason given'}`)
    this.run_id = run_id
    this.reason = reason
  }
}
