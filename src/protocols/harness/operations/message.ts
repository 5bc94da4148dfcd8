// Messages of the broker: an incoming message is processed in one batch with all its effects, and its session learns of a returned one.
import { put } from '#kernel/declare/facts.ts'
import { system } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, rule, type Context, type Read } from '#kernel/declare/operation.ts'
import { either, nullable, t } from '#kernel/declare/schema.ts'
import { isHarnessId, isUuid, type Envelope, type Payload } from '../envelope.ts'
import { Caller, Early, Id, Open, Session, Tries } from '../schema.ts'
import { takeAnswer } from '../session/answers.ts'
import {
  takeAbort,
  DUPLICATE,
  refusalCounted,
  strangerAnswer,
  takeSubmission,
  TAKEN,
  type Incoming,
  type Plan,
} from '../session/commands.ts'
import { deadLetter } from '../session/early.ts'
import { outcomeOf, updateSession, sessionWork } from '../session/session-work.ts'
import { deadReasons } from '../message-decoder.ts'
import { whole } from '../access.ts'
import { isEnded } from '../states.ts'
import { ANSWERED } from '../examples.ts'

const Outcome = t.Object({
  outcome: either('taken', 'duplicate', 'dead', 'dropped'),
  reason: nullable(either(...deadReasons)),
  detail: nullable(t.String()),
})
const EnvelopeInput = t.Object({
  hcp_version: t.String({ maxLength: 20 }),
  message_id: Id,
  timestamp: t.String({ maxLength: 40 }),
  session_id: nullable(Id),
  type: either('task_submit', 'abort', 'task_accepted', 'task_rejected', 'event', 'task_completed', 'task_failed'),
  payload: Open,
})

const planFor = (read: Read, incoming: Incoming, context: Context): Promise<Plan> => {
  const { type } = incoming.envelope
  if (type === 'task_submit') return takeSubmission(read, incoming, context)
  return type === 'abort' ? takeAbort(read, incoming, context) : takeAnswer(read, incoming, context)
}

const receive = command({
  name: 'message.receive',
  summary:
    'Take a message of another harness: its session, facts and answers are one batch. The system calls it, and acknowledges after it.',
  draft: 'HCP 1.0, L1: Delivery Guarantees; Stream Continuity',
  input: t.Object({
    user_id: nullable(t.String({ maxLength: 255, description: 'the sender, as the broker has checked it' })),
    envelope: EnvelopeInput,
    in_reply_to: t.Optional(nullable(Id)), // the header, if the payload has none
  }),
  output: Outcome,
  callers: [system],
  requires: [],
  audit: null,
  async load(read, { user_id, envelope, in_reply_to }, context) {
    const replied = (envelope.payload as Payload)['in_reply_to'] ?? in_reply_to
    const incoming = { user_id, envelope: envelope as Envelope, in_reply_to: isUuid(replied) ? replied : null }
    return { plan: await planFor(read, incoming, context) }
  },
  decide({ plan: { facts, puts, output, atMost = [] } }) {
    return { facts, puts, output, atMost }
  },
  example: {
    given: 'declared',
    as: 'system',
    input: {
      user_id: 'lab-alpha',
      envelope: {
        hcp_version: '1.0',
        message_id: '5f0c7a52-9d5b-4d0e-8f65-0a4c7ce0a111',
        timestamp: '2026-01-01T00:00:00.000Z',
        session_id: null,
        type: 'task_submit',
        payload: { capability: 'synthesis', caller_id: 'lab-alpha', intent: 'Grow a film.', inputs: { temperature: 700 } },
      },
    },
  },
})

const refuse = command({
  name: 'message.refuse',
  summary: 'Tell the sender of an unreadable submission why it was dead-lettered. The system calls it.',
  draft: 'ours: C21, a sender learns what became of its submission',
  input: t.Object({ user_id: t.String({ maxLength: 255 }), message_id: Id, detail: t.String({ maxLength: limits.textCharsMax }) }),
  output: t.Object({ told: t.Boolean() }),
  callers: [system],
  requires: [],
  audit: null,
  async load(read, { user_id }, context) {
    const caller = isHarnessId(user_id) ? await read.raw(Caller, user_id) : null
    return { caller, counted: caller === null ? null : await refusalCounted(read, caller.caller_id, context) }
  },
  decide({ caller, counted }, { message_id, detail }, context) {
    if (caller === null || counted === null) return { facts: [], output: { told: false } }
    const rejection = {
      reason_code: 'invalid_message',
      reason_message: detail,
      suggestion: `send it again as HCP 1.0 describes: ${detail}`,
    }
    return { facts: [], puts: [strangerAnswer(caller.caller_id, message_id, rejection, context), ...counted], output: { told: true } }
  },
  example: {
    given: 'declared',
    as: 'system',
    input: { user_id: 'lab-alpha', message_id: '5f0c7a52-9d5b-4d0e-8f65-0a4c7ce0a112', detail: 'message_id must be a UUID v4' },
  },
})

const returned = command({
  name: 'message.returned',
  summary: 'End a submission that no queue takes: there is no such harness at the broker. The system calls it.',
  draft: 'HCP 1.0, L1: Delivery Guarantees; C34',
  input: t.Object({ session_id: Id, message_id: Id }),
  output: Outcome,
  callers: [system],
  requires: [],
  audit: 'session.rejected',
  async load(read, { session_id }) {
    const session = await read.raw(Session, session_id)
    return { session, state: session === null || isEnded(session.state) ? null : await whole(read, session) }
  },
  decide({ session, state }, { message_id }, context) {
    // An answer has arrived another way since, or the message was an abort: the session stays.
    if (session === null || state === null || session.submit_id !== message_id || session.session_id !== null)
      return { facts: [], output: DUPLICATE.output }
    const work = sessionWork(session, { ...state.cursor, republish_at: null }, context)
    const rejection = {
      reason_code: 'unroutable',
      reason_message: `no queue at the broker takes messages for ${session.callee_id}`,
      suggestion: 'check callee_id, and that the other harness has declared its queue',
    }
    updateSession(
      work,
      { state: 'REJECTED', reason: 'unroutable', rejection, waiting_for: null, ended_at: context.now },
      'session.rejected',
    )
    return { ...outcomeOf(work), output: TAKEN }
  },
  example: { given: 'submitted', as: 'system', input: ({ session: { id } }) => ({ session_id: id, message_id: id }) },
})

const tried = command({
  name: 'message.tried',
  summary: 'Count a failed attempt to process a message; after too many the message is dead-lettered. The system calls it.',
  draft: 'ours: C22, a poisoned message does not go round forever',
  input: t.Object({ message_id: Id }),
  output: t.Object({ tries: t.Integer() }),
  callers: [system],
  requires: [],
  audit: null,
  load: async (read, { message_id }) => ({ before: await read.raw(Tries, message_id) }),
  decide({ before }, { message_id }, { now }) {
    const tries = (before?.tries ?? 0) + 1
    return {
      facts: [],
      puts: [put(Tries, message_id, tries >= limits.harnessTriesMax ? null : { id: message_id, tries, at: now })],
      output: { tries },
    }
  },
  example: { given: 'empty', as: 'system', input: { message_id: '5f0c7a52-9d5b-4d0e-8f65-0a4c7ce0a113' } },
})

const expire = command({
  name: 'message.expire',
  summary: 'Dead-letter messages whose session no answer has named in time. The system calls it.',
  draft: 'ours: C22, messages of an unknown session',
  input: t.Object({ early_id: t.String({ maxLength: 200, description: 'the sender and the unknown session, with a slash between them' }) }),
  output: t.Object({ expired: t.Integer() }),
  callers: [system],
  requires: [
    rule<{ early: Early | null }>(
      'PRECONDITION_FAILED',
      'the messages have waited long enough',
      ({ early }, _, { now }) => early === null || early.until <= now,
      'the messages have not waited long enough',
    ),
  ],
  audit: null,
  load: async (read, { early_id }) => ({ early: await read.raw(Early, early_id) }),
  decide({ early }, _, context) {
    if (early === null) return { facts: [], output: { expired: 0 } }
    const detail = 'the submission that it belongs to was not answered in time'
    const letters = early.messages.map((message) => deadLetter(early, message, 'unknown_session', detail, context))
    return { facts: [], puts: [put(Early, early.id, null), ...letters], output: { expired: letters.length } }
  },
  example: { given: 'overtaken', as: 'system', input: { early_id: `lab-cvd/${ANSWERED}` } },
})

export const messageOperations = [receive, refuse, returned, tried, expire]
