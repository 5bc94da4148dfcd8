// The ends of a session that was executed here: completed, failed, out of time.
import type { Artifact } from '../schema.ts'
import {
  changeState,
  emitClosed,
  endedDuration,
  moveSession,
  sealedOf,
  sendToCaller,
  type MaybeSealed,
  type SessionWork,
} from './session-work.ts'
import { endAbort } from './acceptance.ts'

export type Failure = {
  readonly error_code: string
  readonly error_message: string
  readonly error_details?: MaybeSealed
  readonly partial_outputs?: MaybeSealed
  readonly artifacts?: readonly Artifact[]
}

/** The summary of a session in figures, computed here and not by the agent. */
export function summaryOf({ session, cursor, context }: SessionWork): Record<string, unknown> {
  return {
    duration: endedDuration(session.accepted_at ?? session.created_at, context.now),
    steps_executed: cursor.steps,
    checkpoints_created: cursor.checkpoints,
    risk_events: cursor.risk_events,
    warnings: cursor.warnings,
  }
}

export function complete(work: SessionWork, outputs: MaybeSealed, artifacts: readonly Artifact[]): void {
  // Work that ends during an abort counts as aborted (C11).
  if (work.session.state === 'ABORTING') return endAbort(work, 'completed_while_aborting')
  if (work.session.state === 'PAUSED') changeState(work, 'RUNNING', 'resumed')
  const execution_summary = summaryOf(work)
  moveSession(work, 'COMPLETED', {
    reason: 'completed',
    outputs: outputs.plain,
    outputs_valid: true,
    artifacts: [...artifacts],
    execution_summary,
    sealed: sealedOf({ outputs }),
  })
  sendToCaller(work, 'task_completed', { artifacts, execution_summary }, { outputs })
  emitClosed(work)
}

const NOTHING: MaybeSealed = { plain: null, sealed: null }

export function fail(work: SessionWork, failure: Failure, reason = failure.error_code): void {
  if (work.session.state === 'ABORTING') return endAbort(work, 'failed_while_aborting')
  // C11: no edge leads from PAUSED to FAILED.
  if (work.session.state === 'PAUSED') changeState(work, 'RUNNING', reason)
  const execution_summary = summaryOf(work)
  const { error_code, error_message, partial_outputs = NOTHING, artifacts = [] } = failure
  const details = failure.error_details ?? {
    plain: { last_checkpoint: work.cursor.last_checkpoint, recoverable: work.cursor.snapshot !== null },
    sealed: null,
  }
  const retryable = work.cursor.snapshot !== null || error_code === 'resource_unavailable' || error_code === 'timeout'
  moveSession(work, 'FAILED', {
    reason,
    error: { error_code, error_message },
    error_details: details.plain,
    partial_outputs: partial_outputs.plain,
    artifacts: [...artifacts],
    execution_summary,
    sealed: sealedOf({ partial_outputs, error_details: details }),
  })
  sendToCaller(
    work,
    'task_failed',
    { error_code, error_message, retryable, artifacts, execution_summary },
    { error_details: details, partial_outputs },
  )
  emitClosed(work)
}
