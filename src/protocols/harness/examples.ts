// Scenes that the examples and the derived tests of this protocol start from: devin executes what other harnesses submit, alice answers for
// it and submits to others herself.
import type { Step } from '#kernel/declare/operation.ts'

const DAY_MS = 24 * 3_600_000

const declared: Step[] = [
  {
    as: 'admin',
    call: 'harness/harness.declare',
    input: {
      agent_id: 'agent_devin',
      capability: {
        name: 'synthesis',
        version: '1.2.0',
        description: 'Grows a film.',
        input_schema: { type: 'object', properties: { temperature: { type: 'number' } } },
        safety: { risk_ceiling: 'R4', requires_human_approval: false },
        constraints: { max_duration: 'PT2H' },
      },
      risk_rules: [{ path: 'temperature', op: '>', value: 800, raise_to: 'R4' }],
      safety_envelope: { parameters: { temperature: { min: 0, max: 900, unit: 'C' } }, prohibited_actions: ['vent'] },
      approval_timeout: 'PT1H',
    },
  },
  { as: 'admin', call: 'harness/harness.allow', input: { caller_id: 'lab-alpha', capabilities: ['*'], risk_max: 'R4', data_max: 'T3' } },
]
const submission = (message_id: string, temperature: number): Step => ({
  as: 'system',
  call: 'harness/message.receive',
  input: {
    user_id: 'lab-alpha',
    envelope: {
      hcp_version: '1.0',
      message_id,
      timestamp: '2026-01-01T00:00:00.000Z',
      session_id: null,
      type: 'task_submit',
      payload: { capability: 'synthesis', caller_id: 'lab-alpha', intent: 'Grow a film.', inputs: { temperature } },
    },
  },
})
/** Each scene submits its own session and takes the newest executed one, so that scenes can follow each other in one world. */
const found: Step = { as: 'system', call: 'harness/harness.sessions', input: { role: 'callee' } }
const known: Step = { as: 'system', call: 'harness/harness.session', input: ({ items }) => ({ session_id: items[0].session_id }) }
const beginSteps = (message_id: string, temperature = 700): Step[] => [...declared, submission(message_id, temperature), found, known]
const executing = beginSteps('0b6a3a7e-52a3-4f0e-9c1d-6f6a4f1c0001')
const awaiting = beginSteps('0b6a3a7e-52a3-4f0e-9c1d-6f6a4f1c0002', 850)
const paused: Step[] = [
  ...beginSteps('0b6a3a7e-52a3-4f0e-9c1d-6f6a4f1c0004'),
  { as: 'devin', call: 'harness/harness.pause', input: ({ session }) => ({ session_id: session.session_id }) },
]
const late: Step[] = [...beginSteps('0b6a3a7e-52a3-4f0e-9c1d-6f6a4f1c0005'), { advanceMs: DAY_MS }]
const delivered: Step[] = [
  ...beginSteps('0b6a3a7e-52a3-4f0e-9c1d-6f6a4f1c0007'),
  {
    as: 'devin',
    call: 'harness/harness.complete',
    input: ({ session }) => ({
      session_id: session.session_id,
      outputs: {},
      artifacts: [{ name: 'log.txt', type: 'text/plain', text: 'Done.' }],
    }),
  },
]
const long_ended: Step[] = [
  ...beginSteps('0b6a3a7e-52a3-4f0e-9c1d-6f6a4f1c0006'),
  { as: 'devin', call: 'harness/harness.complete', input: ({ session }) => ({ session_id: session.session_id, outputs: {} }) },
  { advanceMs: 10 * DAY_MS },
]
const submitted: Step[] = [
  {
    as: 'alice',
    call: 'harness/harness.submit',
    input: { callee_id: 'lab-cvd', capability: 'synthesis', intent: 'Grow a film of MoS2.', inputs: { temperature: 700 } },
  },
]
const unanswered: Step[] = [...submitted, { advanceMs: 60_000 }]
export const ANSWERED = '7d8f6a52-1c3b-4e0f-8a65-0a4c7ce0a001'
const gapped: Step[] = [
  ...submitted,
  {
    as: 'system',
    call: 'harness/message.receive',
    input: ({ session }) => ({
      user_id: 'lab-cvd',
      envelope: {
        hcp_version: '1.0',
        message_id: '0b6a3a7e-52a3-4f0e-9c1d-6f6a4f1c0003',
        timestamp: '2026-01-01T00:00:00.000Z',
        session_id: ANSWERED,
        type: 'event',
        payload: { event_type: 'log', sequence: 3, data: { level: 'info', message: 'Later.' }, in_reply_to: session.id },
      },
    }),
  },
  { advanceMs: 60_000 },
]

const overtaken: Step[] = [
  ...submitted,
  {
    as: 'system',
    call: 'harness/message.receive',
    input: {
      user_id: 'lab-cvd',
      envelope: {
        hcp_version: '1.0',
        message_id: '0b6a3a7e-52a3-4f0e-9c1d-6f6a4f1c0008',
        timestamp: '2026-01-01T00:00:00.000Z',
        session_id: ANSWERED,
        type: 'event',
        payload: { event_type: 'log', sequence: 2, data: { level: 'info', message: 'Too early.' } },
      },
    },
  },
  { advanceMs: 60_000 },
]

export const scenes = {
  empty: [],
  declared,
  executing,
  awaiting,
  paused,
  late,
  delivered,
  long_ended,
  submitted,
  unanswered,
  gapped,
  overtaken,
}
