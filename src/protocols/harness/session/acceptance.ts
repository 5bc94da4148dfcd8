// Acceptance of a submission: the token, the first messages, and the other answers that the gate gives.
import { canonical } from '#kernel/log/canonical-json.ts'
import { sha256 } from '#kernel/log/hash-chain.ts'
import { timestampOf } from '#kernel/ports/clock.ts'
import { durationMs } from '#kernel/codec/timestamps.ts'
import { limits } from '#kernel/limits.ts'
import type { Context } from '#kernel/declare/operation.ts'
import type { Capability, Rejection, Session, Submission } from '../schema.ts'
import { changeState, emitClosed, moveSession, emitEvent, sendToCaller, type Outgoing, type SessionWork } from './session-work.ts'

/** The shorter of the declared and the requested duration (C31). */
export function durationOf(asked: string | undefined, declared: string | undefined): { text: string; ms: number } {
  const all = [asked, declared]
    .filter((limit) => limit !== undefined)
    .map((text) => ({ text, ms: durationMs(text, 'INVALID_REQUEST', 'max_duration') }))
  const usual = { text: `PT${limits.harnessDurationMsDefault / 3_600_000}H`, ms: limits.harnessDurationMsDefault }
  return all.toSorted((a, b) => a.ms - b.ms)[0] ?? usual
}

export const envelopeHash = (envelope: unknown): string => sha256(canonical(envelope))

/** C10: within max_duration, bound to the caller, and to the agreed envelope. Signing takes time, so it happens in `load`. */
export async function tokenFor(
  session: Session,
  of: Capability,
  asked: string | undefined,
  { notary, now, newId }: Context,
): Promise<string> {
  const iat = Math.floor(Date.parse(now) / 1_000)
  const { ms } = durationOf(asked, of.capability.constraints?.max_duration)
  return notary.grant({
    iss: notary.issuer(),
    jti: newId('tok'),
    sub: session.caller_id,
    aud: session.callee_id,
    sid: session.session_id,
    cap: session.capability,
    risk: session.risk_level,
    data: session.data_classification,
    env_hash: envelopeHash(of.safety_envelope),
    iat,
    exp: iat + Math.floor(ms / 1_000),
  })
}

/** task_accepted, then session_created: the only two that carry the token. */
export function accept(work: SessionWork, of: Capability, constraints: Submission['constraints'], token: string): Outgoing {
  const { now } = work.context
  const { risk_level, data_classification } = work.session
  const { text, ms } = durationOf(constraints?.max_duration, of.capability.constraints?.max_duration)
  const acceptance = sendToCaller(work, 'task_accepted', {
    session_token: token,
    risk_level,
    data_classification,
    safety_envelope: of.safety_envelope,
    constraints: { max_duration: text, abort_timeout: of.abort_timeout },
  })
  const deadline = timestampOf(Date.parse(now) + ms)
  moveSession(work, 'RUNNING', { reason: null, waiting_for: null, accepted_at: now, deadline }, 'session.started')
  emitEvent(work, 'session_created', { state: 'RUNNING', risk_level }, { session_token: token })
  return acceptance
}

/** An immediate rejection sends task_rejected alone; a rejection after a wait also sends session_closed (C16). */
export function reject(work: SessionWork, rejection: Rejection, hasWaited: boolean): Outgoing {
  moveSession(work, 'REJECTED', { reason: rejection.reason_code, rejection }, 'session.rejected')
  const refusal = sendToCaller(work, 'task_rejected', { ...rejection })
  if (hasWaited) emitClosed(work)
  return refusal
}

/** C3: people are asked, and the caller sees it. */
export function wait(work: SessionWork, of: Capability): Outgoing {
  const { now } = work.context
  const deadline =
    of.approval_timeout === null
      ? null
      : timestampOf(Date.parse(now) + durationMs(of.approval_timeout, 'INVALID_REQUEST', 'approval_timeout'))
  work.session = { ...work.session, waiting_for: 'human', reason: 'awaiting_human', deadline }
  return emitEvent(work, 'state_changed', { from_state: 'PENDING', to_state: 'PENDING', reason: 'awaiting_human', deadline }, {}, true)
}

/** The caller aborts the session: immediately while it waits for people, after a bounded clean-up while it runs. */
export function beginAbort(work: SessionWork, of: Capability, reason: string): void {
  const { now } = work.context
  if (work.session.state === 'PENDING') {
    moveSession(work, 'ABORTED', { reason: 'aborted', abort_reason: reason })
    emitClosed(work)
    return
  }
  const deadline = timestampOf(Date.parse(now) + durationMs(of.abort_timeout, 'INVALID_REQUEST', 'abort_timeout'))
  changeState(work, 'ABORTING', 'aborted', { waiting_for: 'cleanup', abort_reason: reason, deadline })
}
export function endAbort(work: SessionWork, reason: string): void {
  moveSession(work, 'ABORTED', { reason })
  emitClosed(work)
}
