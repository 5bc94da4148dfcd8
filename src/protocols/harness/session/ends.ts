// The ends of a session that was executed here: completed, failed, out of time.
import type { Artifact } from '../schema.ts'
import { change, close, endedDuration, move, sealedOf, tell, type Confided, type Script } from './speech.ts'
import { endAbort } from './acceptance.ts'

export type Failure = {
  readonly error_code: string
  readonly error_message: string
  readonly error_details?: Confided
  readonly partial_outputs?: Confided
  readonly artifacts?: readonly Artifact[]
}

/** How it went, in figures: filled here, whatever the agent says. */
export function summaryOf({ session, cursor, context }: Script): Record<string, unknown> {
  return {
    duration: endedDuration(session.accepted_at ?? session.created_at, context.now),
    steps_executed: cursor.steps,
    checkpoints_created: cursor.checkpoints,
    risk_events: cursor.risk_events,
    warnings: cursor.warnings,
  }
}

export function complete(script: Script, outputs: Confided, artifacts: readonly Artifact[]): void {
  // Work that comes to its end while it is aborted is aborted (C11).
  if (script.session.state === 'ABORTING') return endAbort(script, 'completed_while_aborting')
  if (script.session.state === 'PAUSED') change(script, 'RUNNING', 'resumed')
  const execution_summary = summaryOf(script)
  move(script, 'COMPLETED', {
    reason: 'completed',
    outputs: outputs.plain,
    outputs_valid: true,
    artifacts: [...artifacts],
    execution_summary,
    sealed: sealedOf({ outputs }),
  })
  tell(script, 'task_completed', { artifacts, execution_summary }, { outputs })
  close(script)
}

const NOTHING: Confided = { plain: null, sealed: null }

export function fail(script: Script, failure: Failure, reason = failure.error_code): void {
  if (script.session.state === 'ABORTING') return endAbort(script, 'failed_while_aborting')
  // C11: no edge leads from PAUSED to FAILED.
  if (script.session.state === 'PAUSED') change(script, 'RUNNING', reason)
  const execution_summary = summaryOf(script)
  const { error_code, error_message, partial_outputs = NOTHING, artifacts = [] } = failure
  const details = failure.error_details ?? {
    plain: { last_checkpoint: script.cursor.last_checkpoint, recoverable: script.cursor.snapshot !== null },
    sealed: null,
  }
  const retryable = script.cursor.snapshot !== null || error_code === 'resource_unavailable' || error_code === 'timeout'
  move(script, 'FAILED', {
    reason,
    error: { error_code, error_message },
    error_details: details.plain,
    partial_outputs: partial_outputs.plain,
    artifacts: [...artifacts],
    execution_summary,
    sealed: sealedOf({ partial_outputs, error_details: details }),
  })
  tell(
    script,
    'task_failed',
    { error_code, error_message, retryable, artifacts, execution_summary },
    { error_details: details, partial_outputs },
  )
  close(script)
}
