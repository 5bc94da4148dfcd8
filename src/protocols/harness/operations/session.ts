// Transitions of sessions by the system: decisions of people, deadlines, started or ended runs, and the clean-up.
import { Delivery, deliveryId } from '#kernel/log/outbox-document.ts'
import { put } from '#kernel/declare/facts.ts'
import { system } from '#kernel/declare/access.ts'
import { timestampOf } from '#kernel/ports/clock.ts'
import { limits } from '#kernel/limits.ts'
import { command, rule, type Change } from '#kernel/declare/operation.ts'
import { either, t } from '#kernel/declare/schema.ts'
import { executedSession, harnessIn, sessionOf, whole, type OfSession } from '../access.ts'
import type { Payload } from '../envelope.ts'
import { Answer, answerId, Cursor, Id, Route, routeId, type Session, Snapshot, Words, type Rejection, type Submission } from '../schema.ts'
import { accept, endAbort, reject, tokenFor } from '../session/acceptance.ts'
import { drain } from '../session/answers.ts'
import { busyOf } from '../session/commands.ts'
import { fail } from '../session/ends.ts'
import { AMQP, sendToCallee, updateSession, sessionWork } from '../session/session-work.ts'
import { sessionOutcome, SessionView } from '../session/view.ts'
import { submitEnvelope } from './submit.ts'

const output = t.Object({ session: SessionView })

const waits = rule<OfSession>(
  'PRECONDITION_FAILED',
  'the session waits for people',
  ({ session }) => session.state === 'PENDING' && session.waiting_for === 'human',
  'the session does not wait for people',
)

const decide = command({
  name: 'harness.decide',
  summary: 'Start or reject a session that waits for people, by what they decided. The system calls it in the batch of their answer.',
  draft: 'HCP 1.0, L3: Approval Flow',
  input: t.Object({
    session_id: Id,
    result: either('approved', 'rejected'),
    by: t.Array(Id, { maxItems: 20, description: 'the people who decided' }),
    reason: t.Optional(Words),
  }),
  output,
  callers: [system],
  requires: [
    waits,
    rule<OfSession, { result: string; by: readonly string[] }>(
      'PRECONDITION_FAILED',
      'people approve: two of them for R5',
      ({ session }, { result, by }) => result !== 'approved' || new Set(by).size >= (session.risk_level === 'R5' ? 2 : 1),
      'no approver is named, or only one person approved R5, which needs two',
    ),
  ],
  audit: 'session.started',
  async load(read, { session_id, result }, context) {
    const state = await executedSession(read, session_id)
    const of = state.task.declaration!
    const { constraints } = state.task.submission as Partial<Submission>
    const token = result === 'approved' ? await tokenFor(state.session, of, constraints?.max_duration, context) : null
    const kept = await read.raw(Answer, answerId(state.session.caller_id, state.session.submit_id))
    return { ...state, of, constraints, token, kept, busy: await busyOf(read, of.agent_id) }
  },
  decide({ session, cursor, of, constraints, token, kept, busy }, { result, by, reason }, context) {
    const work = sessionWork(session, cursor, context)
    if (result === 'approved') {
      const outgoing = accept(work, of, constraints, token!)
      if (kept !== null) work.puts.push(put(Answer, kept.id, { ...kept, token, deliveries: [...kept.deliveries, outgoing] }))
      if (busy !== null) fail(work, { error_code: 'resource_unavailable', error_message: busy })
    } else {
      const reason_message = reason === undefined || reason === '' ? 'a person has refused it' : `a person has refused it: ${reason}`
      const rejection: Rejection = { reason_code: 'approval_denied', reason_message, assessed_risk_level: session.risk_level }
      const outgoing = reject(work, rejection, true)
      if (kept !== null) work.puts.push(put(Answer, kept.id, { ...kept, deliveries: [...kept.deliveries, outgoing] }))
    }
    const outcome = sessionOutcome(work)
    return { ...outcome, facts: outcome.facts.map((fact, i) => (i === 0 ? { ...fact, detail: { ...fact.detail, by } } : fact)) }
  },
  example: {
    given: 'awaiting',
    as: 'system',
    input: ({ session: { session_id } }) => ({ session_id, result: 'approved', by: ['user_alice'] }),
  },
})

const expire = command({
  name: 'harness.expire',
  summary:
    'End what a session waits for when its time is up: people, the work itself, or the clean-up after an abort. The system calls it.',
  draft: 'HCP 1.0, L2: Session Timeout; Abort Protocol',
  input: t.Object({ session_id: Id }),
  output,
  callers: [system],
  requires: [
    rule<OfSession>(
      'PRECONDITION_FAILED',
      'its time is up',
      ({ session }, _, { now }) => session.ended_at === null && session.deadline !== null && session.deadline <= now,
      'the time of the session is not up, or it has ended',
    ),
  ],
  audit: 'session.failed',
  async load(read, { session_id }) {
    const state = await executedSession(read, session_id)
    return { ...state, kept: await read.raw(Answer, answerId(state.session.caller_id, state.session.submit_id)) }
  },
  decide({ session, cursor, task, kept }, _, context) {
    const work = sessionWork(session, cursor, context)
    if (session.state === 'PENDING') {
      // A timeout never approves (C33).
      const rejection: Rejection = {
        reason_code: 'approval_denied',
        reason_message: `nobody answered within ${task.declaration?.approval_timeout ?? 'the time'}`,
        assessed_risk_level: session.risk_level,
        suggestion: 'submit again when an approver is available',
      }
      const outgoing = reject(work, rejection, true)
      if (kept !== null) work.puts.push(put(Answer, kept.id, { ...kept, deliveries: [...kept.deliveries, outgoing] }))
    } else if (session.state === 'ABORTING') endAbort(work, 'abort_timeout')
    else fail(work, { error_code: 'timeout', error_message: 'the time of the session is up' })
    return sessionOutcome(work)
  },
  example: { given: 'late', as: 'system', input: ({ session: { session_id } }) => ({ session_id }) },
})

const bind = command({
  name: 'harness.bind',
  summary: 'Note which run executes a session. The system calls it in the batch in which the run is made.',
  draft: 'ours: a session of another harness is a run here',
  input: t.Object({ session_id: Id, run_id: Id }),
  output,
  callers: [system],
  requires: [],
  audit: 'session.bound',
  load: async (read, { session_id }) => whole(read, await sessionOf(read, session_id)),
  decide({ session, cursor }, { run_id }, context) {
    const work = sessionWork(session, cursor, context)
    updateSession(work, { run_id }, 'session.bound')
    return sessionOutcome(work)
  },
  example: { given: 'executing', as: 'system', input: ({ session: { session_id } }) => ({ session_id, run_id: 'run_1' }) },
})

const settle = command({
  name: 'harness.settle',
  summary: 'End a session whose agent has put its work down: after an abort, or because its run was cancelled. The system calls it.',
  draft: 'HCP 1.0, L2: Abort Protocol; C37',
  input: t.Object({ session_id: Id, reason: t.String({ maxLength: limits.labelCharsMax }) }),
  output,
  callers: [system],
  requires: [
    rule<OfSession>(
      'PRECONDITION_FAILED',
      'the session is at work or being aborted',
      ({ session }) => ['RUNNING', 'PAUSED', 'ABORTING'].includes(session.state),
      'the session is not at work',
    ),
  ],
  audit: 'session.failed',
  load: (read, { session_id }) => executedSession(read, session_id),
  decide({ session, cursor }, { reason }, context) {
    const work = sessionWork(session, cursor, context)
    if (session.state === 'ABORTING') endAbort(work, reason)
    else fail(work, { error_code: 'resource_unavailable', error_message: `the run that executed it has ended: ${reason}` })
    return sessionOutcome(work)
  },
  example: { given: 'executing', as: 'system', input: ({ session: { session_id } }) => ({ session_id, reason: 'cancelled' }) },
})

const skip = command({
  name: 'harness.skip',
  summary:
    'Continue after an event that has not arrived in time: its number is recorded, and the event is kept if it arrives later. The system calls it.',
  draft: 'HCP 1.0, L2: Event Ordering; C27',
  input: t.Object({ session_id: Id }),
  output,
  callers: [system],
  requires: [
    rule<OfSession>(
      'PRECONDITION_FAILED',
      'the wait for an earlier event is over',
      ({ cursor }, _, { now }) => cursor.gap_until !== null && cursor.gap_until <= now,
      'no wait for an earlier event is over',
    ),
  ],
  audit: 'session.event',
  load: async (read, { session_id }) => whole(read, await sessionOf(read, session_id)),
  decide({ session, cursor }, _, context) {
    const work = sessionWork(session, { ...cursor, gap_until: null }, context)
    drain(work, true)
    return sessionOutcome(work)
  },
  example: { given: 'gapped', as: 'system', input: ({ session: { id } }) => ({ session_id: id }) },
})

const repeat = command({
  name: 'harness.repeat',
  summary: 'Send a submission that was not answered once more, as it is. The system calls it.',
  draft: 'HCP 1.0, L1: Retry',
  input: t.Object({ session_id: Id }),
  output,
  callers: [system],
  requires: [
    rule<OfSession>(
      'PRECONDITION_FAILED',
      'an answer is overdue',
      ({ session, cursor }, _, { now }) => session.waiting_for === 'answer' && cursor.republish_at !== null && cursor.republish_at <= now,
      'no answer is overdue',
    ),
  ],
  audit: null,
  async load(read, { session_id }) {
    const state = await whole(read, await sessionOf(read, session_id))
    // A message that has not left yet need not be sent twice.
    const first = deliveryId(AMQP, state.session.id, String(state.cursor.sent).padStart(9, '0'))
    return { ...state, isUnsent: (await read.raw(Delivery, first)) !== null }
  },
  decide({ session, cursor, task, isUnsent }, _, context) {
    const { now } = context
    const work = sessionWork(session, cursor, context)
    if (Date.parse(now) - Date.parse(session.created_at) > limits.harnessUnsentMs) {
      work.cursor = { ...cursor, republish_at: null }
      const rejection = { reason_code: 'no_answer', reason_message: `${session.callee_id} did not answer within a week` }
      updateSession(work, { state: 'REJECTED', reason: 'no_answer', rejection, waiting_for: null, ended_at: now }, 'session.rejected')
      return sessionOutcome(work)
    }
    if (!isUnsent) sendToCallee(work, submitEnvelope(session.submit_id, session.created_at, task.submission as Payload), task.sealed ?? {})
    work.cursor = { ...work.cursor, republish_at: timestampOf(Date.parse(now) + harnessIn(context).replyMs) }
    return sessionOutcome(work)
  },
  example: { given: 'unanswered', as: 'system', input: ({ session: { id } }) => ({ session_id: id }) },
})

const forget = command({
  name: 'harness.forget',
  summary: 'Delete the working data of a session that ended long ago: answers, snapshots, numbers. The record stays. The system calls it.',
  draft: 'HCP 1.0, L2: Session Timeout (idle clean-up); C40',
  input: t.Object({ session_id: Id }),
  output: t.Object({ forgotten: t.Integer() }),
  callers: [system],
  requires: [
    rule<{ session: Session }>(
      'PRECONDITION_FAILED',
      'the session ended long ago',
      ({ session }, _, { now }) => session.ended_at !== null && session.deadline !== null && session.deadline <= now,
      'the session has not ended long ago',
    ),
  ],
  audit: 'session.forgotten',
  async load(read, { session_id }) {
    const session = await sessionOf(read, session_id)
    const snapshots = await read.list(Snapshot, 'session', [[session.id]], { limit: limits.harnessSnapshotsMax })
    const cursor = await read.raw(Cursor, session.id)
    const answers = [answerId(session.caller_id, session.submit_id), answerId('self', session.id)]
    const kept: Change[] = snapshots.map(({ id }) => put(Snapshot, id, null))
    for (const id of answers) if ((await read.raw(Answer, id)) !== null) kept.push(put(Answer, id, null))
    const route = session.session_id === null ? '' : routeId(session.callee_id, session.session_id)
    if (route !== '' && (await read.raw(Route, route)) !== null) kept.push(put(Route, route, null))
    if (cursor !== null)
      kept.push(
        put(Cursor, cursor.id, { ...cursor, seen: [], held: [], warnings: [], risk_events: [], gap_until: null, republish_at: null }),
      )
    return { session, kept, cursor }
  },
  decide({ session, kept, cursor }, _, context) {
    const work = sessionWork(session, cursor!, context)
    updateSession(work, { deadline: null }, 'session.forgotten')
    return { facts: work.facts, puts: kept, output: { forgotten: kept.length } }
  },
  example: { given: 'long_ended', as: 'system', input: ({ session: { session_id } }) => ({ session_id }) },
})

export const sessionOperations = [decide, expire, bind, settle, skip, repeat, forget]
