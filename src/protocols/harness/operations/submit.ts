// Submitting a task to another harness, and taking it back (HCP 1.0, L4: Task Submission; L2: Abort Protocol).
import { Refusal } from '#kernel/declare/errors.ts'
import { schemaProblem } from '#kernel/declare/foreign-schema.ts'
import { image } from '#kernel/declare/facts.ts'
import { refuseViewer, system } from '#kernel/declare/access.ts'
import { timestampOf } from '#kernel/ports/clock.ts'
import { limits } from '#kernel/limits.ts'
import { command, rule, type Context } from '#kernel/declare/operation.ts'
import { t, type Static } from '#kernel/declare/schema.ts'
import { durationMs } from '#kernel/codec/timestamps.ts'
import { fact } from '../events.ts'
import { harnessIn, isOpen, itsSubmitter, sessionOf, submitter, whole } from '../access.ts'
import { HCP_VERSION, uuidOf, type Envelope, type Payload } from '../envelope.ts'
import { isInRange } from '../gate/versions.ts'
import { Answer, answerId, HarnessId, Id, Session, Task, taskFields, Words } from '../schema.ts'
import { blankSession, sealedFields } from '../session/commands.ts'
import { sendToCallee, envelopeOf, isSealed, updateSession, newCursor, sessionWork } from '../session/session-work.ts'
import { sessionOutcome, SessionView } from '../session/view.ts'

const SubmitInput = t.Object({
  callee_id: HarnessId,
  ...taskFields,
  project_id: t.Optional(Id),
  run_id: t.Optional(Id),
  task_id: t.Optional(Id),
})
type SubmitInput = Static<typeof SubmitInput>

function refuseOdd({ constraints = {}, capability_version, expected_output = {} }: SubmitInput): void {
  if (constraints.max_duration !== undefined) durationMs(constraints.max_duration, 'INVALID_REQUEST', 'constraints.max_duration')
  if (capability_version !== undefined && isInRange('1.0.0', capability_version) === null)
    throw new Refusal('INVALID_REQUEST', 'capability_version must be a range of versions such as ^1.2.0', { field: 'capability_version' })
  const problem = expected_output.schema === undefined ? null : schemaProblem(expected_output.schema, 'expected_output.schema')
  if (problem !== null) throw new Refusal('INVALID_REQUEST', problem, { field: 'expected_output.schema' })
}

/** The outgoing message, with its confidential fields sealed. */
async function submission(input: SubmitInput, context: Context) {
  const { callee_id: _, project_id: __, run_id: ___, task_id, ...task } = input
  const data = input.constraints?.data_classification ?? 'T1'
  const correlated = task_id === undefined ? {} : { context: { ...task.context, correlation_id: task_id } }
  const payload: Payload = { ...task, inputs: task.inputs ?? {}, ...correlated, caller_id: harnessIn(context).id }
  return { data, payload, ...(await sealedFields(payload, data, context)) }
}

const submit = command({
  name: 'harness.submit',
  summary: 'Submit a task to another harness. It is sent until the other side has answered, and followed with harness.follow.',
  draft: 'HCP 1.0, L4: Task Submission',
  input: SubmitInput,
  output: t.Object({ session: SessionView }),
  callers: [system, submitter],
  requires: [
    rule<{ data: string }>(
      'PRECONDITION_FAILED',
      'confidential data goes over an encrypted connection',
      ({ data }, _, context) => !['T3', 'T4'].includes(data) || harnessIn(context).isPrivate,
      'data of this class needs an encrypted connection to the broker: use amqps',
    ),
  ],
  audit: 'session.submitted',
  async load(read, input, context) {
    const { actor } = context
    const project_id = input.project_id ?? 'project_default'
    if (actor.projects !== 'all' && !actor.projects.has(project_id)) throw new Refusal('NOT_FOUND', `there is no project ${project_id}`)
    // Before the parts of the server are looked for.
    refuseViewer('harness.submit', actor, [project_id])
    harnessIn(context)
    // Only the system can link the session to a run of this server.
    const id = uuidOf(context.secret())
    await read.raw(Session, id)
    return { id, project_id, ...(await submission(input, context)) }
  },
  decide({ id, project_id, data, payload, submission: plain, sealed }, input, context) {
    refuseOdd(input)
    const { actor, now } = context
    const { id: caller_id, replyMs } = harnessIn(context)
    const isSystem = actor.kind === 'system'
    const session: Session = {
      ...blankSession,
      id,
      session_id: null,
      role: 'caller',
      waiting_for: 'answer',
      data_classification: data,
      caller_id,
      callee_id: input.callee_id,
      submit_id: id,
      capability: input.capability,
      created_at: now,
      updated_at: now,
      project_id,
      submitted_by: isSystem ? (actor.behalf ?? null) : actor.id,
      run_id: isSystem ? (input.run_id ?? null) : null,
      task_id: isSystem ? (input.task_id ?? null) : null,
    }
    const task: Task = { id, project_id, submission: plain, sealed, declaration: null }
    const work = sessionWork(session, { ...newCursor(session), republish_at: timestampOf(Date.parse(now) + replyMs) }, context)
    work.facts.push(
      fact('session.submitted', [image(Session, session), image(Task, task)], {
        detail: { callee_id: input.callee_id, capability: input.capability },
      }),
    )
    sendToCallee(work, submitEnvelope(id, now, isSealed(data) ? (plain as Payload) : payload), sealed ?? {})
    return sessionOutcome(work)
  },
  example: {
    given: 'empty',
    as: 'alice',
    input: { callee_id: 'lab-cvd', capability: 'synthesis', intent: 'Grow a film of MoS2.', inputs: { temperature: 700 } },
  },
})

/** The message of a submission. Its id is the session's id here, so each retry sends the same message. */
export const submitEnvelope = (id: string, timestamp: string, payload: Payload): Envelope => ({
  hcp_version: HCP_VERSION,
  message_id: id,
  timestamp,
  session_id: null,
  type: 'task_submit',
  payload,
})

const abort = command({
  name: 'harness.abort',
  summary: 'Withdraw a submitted task: the other side cleans up, within its time, and ends the session.',
  draft: 'HCP 1.0, L2: Abort Protocol',
  input: t.Object({ session_id: Id, reason: t.Optional(Words) }),
  output: t.Object({ session: SessionView }),
  callers: [system, itsSubmitter],
  requires: [isOpen],
  audit: 'session.abort_requested',
  async load(read, { session_id }) {
    const session = await sessionOf(read, session_id)
    if (session.role !== 'caller') throw new Refusal('NOT_FOUND', `there is no session ${session_id} that was submitted here`)
    return { ...(await whole(read, session)), kept: await read.raw(Answer, answerId('self', session.id)) }
  },
  decide({ session, cursor, kept }, { reason = 'aborted by its caller' }, context) {
    const work = sessionWork(session, { ...cursor, republish_at: null }, context)
    updateSession(work, { abort_reason: reason }, 'session.abort_requested')
    const token = kept?.token === undefined || kept.token === null ? {} : { session_token: kept.token }
    if (session.session_id === null) work.cursor = { ...work.cursor, abort: { reason } }
    else sendToCallee(work, envelopeOf('abort', session.session_id, { reason: reason.slice(0, limits.reasonCharsMax), ...token }, context))
    return sessionOutcome(work)
  },
  example: { given: 'submitted', as: 'alice', input: ({ session: { id } }) => ({ session_id: id, reason: 'No longer needed.' }) },
})

export const submitOperations = [submit, abort]
