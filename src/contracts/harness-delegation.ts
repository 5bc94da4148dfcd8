// Contracts from sessions of other harnesses to runs: a session that starts is a run of its agent, one that is aborted or ends also
// ends its run, and declared capabilities appear on the agent's card.
import { definedFields, isObject } from '#kernel/codec/strict-json.ts'
import type { Value } from '#kernel/log/store.ts'
import type { Contract, Read } from '#kernel/declare/operation.ts'
import { Run } from '#protocols/delegation/schema.ts'
import { isActive } from '#protocols/delegation/states.ts'
import { cutTo } from '#kernel/codec/cut-text.ts'
import { limits } from '#kernel/limits.ts'
import { Session, Snapshot, Task } from '#protocols/harness/schema.ts'
import { contractsBetween, onEach, textIn } from './contract.ts'

const down = contractsBetween({ from: 'harness', to: 'delegation' })

/** The public part of a capability: the callee's own rules stay private. */
const declares = down('declaration-stands-on-the-card', 'capability.declared', 'card.declare', ({ subject, detail }) => {
  const { id, agent_id, capability } = subject
  const { input_schema: _, output_schema: __, ...declaration } = capability
  const from = textIn(detail, 'from_agent')
  const left = from === undefined ? [] : [{ agent_id: from, name: id, declaration: null }]
  return [...left, { agent_id, name: id, declaration }]
})
const withdraws = down('withdrawn-leaves-the-card', 'capability.withdrawn', 'card.declare', ({ subject }) => {
  const { id, agent_id } = subject
  return { agent_id, name: id, declaration: null }
})

/** The session's task as the agent gets it. Confidential parts stay sealed. */
const starts = down('started-delegates', 'session.started', 'agent.delegate', async ({ subject }, read) => {
  const { id, session_id, agent_id, project_id, state } = subject
  if (state !== 'RUNNING') return null
  const { submission, sealed, declaration } = (await read.raw(Task, id))!
  const fields: Value = { ...submission }
  const { intent, inputs, constraints, expected_output, context, snapshot } = fields
  const kept = isObject(snapshot)
    ? await read.raw(Snapshot, `${String(snapshot['session_id'])}/${String(snapshot['checkpoint_id'])}`)
    : null
  const seals = { ...sealed, ...(kept?.sealed ? { 'snapshot.state': kept.sealed } : {}) }
  return {
    to_agent: agent_id!,
    project_id,
    session_id: session_id!,
    delegable: false,
    input: {
      session_id,
      capability: declaration!.id,
      ...definedFields({ intent, inputs, constraints, expected_output, context }),
      safety_envelope: declaration!.safety_envelope,
      ...(kept ? { snapshot: { checkpoint_id: kept.checkpoint_id, state: kept.state } } : {}),
    },
    ...(Object.keys(seals).length > 0 ? { sealed: seals } : {}),
  }
})

async function activeRun(read: Read, { run_id, role }: Session): Promise<string | null> {
  const run = run_id === null || role !== 'callee' ? null : await read.raw(Run, run_id)
  return run !== null && isActive(run.state) ? run.id : null
}

const cancels = onEach(['session.aborting', 'session.failed', 'session.aborted'], (on) =>
  down(`${on}-cancels`, on, 'agent.cancel', async ({ subject: session }, read) => {
    const run_id = await activeRun(read, session)
    return run_id === null ? null : { run_id, why: session.abort_reason ?? session.reason ?? 'the session has ended' }
  }),
)

const completes = down('completed-completes', 'session.completed', 'run.complete', async ({ subject }, read) => {
  const run_id = await activeRun(read, subject)
  return run_id === null ? null : { run_id }
})

// --- Sessions that were submitted from here for a run ------------------------------------------------------------------------

const ofRun = (session: Session): string | null => (session.role === 'caller' ? session.run_id : null)
async function runOf(read: Read, session: Session): Promise<Run | null> {
  const id = ofRun(session)
  const run = id === null ? null : await read.raw(Run, id)
  return run !== null && isActive(run.state) ? run : null
}

const begins = down('accepted-starts', 'session.accepted', 'run.start', async ({ subject }, read) => {
  const run = await runOf(read, subject)
  return run === null || run.started_at !== null ? null : { run_id: run.id }
})

/** A run with a task ends with its deliverable instead (harness-collaboration). Confidential outputs stay in the session. */
const ends = down('completed-ends', 'session.completed', 'run.complete', async ({ subject: session }, read) => {
  const run = await runOf(read, session)
  if (run === null || run.task_id !== null) return null
  const { outputs, sealed, id } = session
  return { run_id: run.id, result: sealed === null ? (isObject(outputs) ? outputs : { value: outputs }) : { session: id } }
})

/** Reports the progress of the other harness to followers of the run. */
const progresses = down(
  'progress-is-progress',
  'session.event',
  'run.progress',
  async ({ subject }, read) => {
    const { session: id, data, sealed } = subject
    const session = await read.raw(Session, id)
    const run = session === null ? null : await runOf(read, session)
    // Skip a report that the run would refuse: the refusal would also block the message.
    if (run === null || run.started_at === null || run.state !== 'running' || (run.progress?.count ?? 0) >= limits.progressPerRunMax)
      return null
    const fields = sealed === undefined && isObject(data) ? data : {}
    const { stage, message, percent } = fields
    const text = [stage, message].filter((part) => typeof part === 'string' && part !== '').join(': ')
    const isPercent = typeof percent === 'number' && percent >= 0 && percent <= 100
    return { run_id: run.id, message: cutTo(text === '' ? 'working' : text, limits.textCharsMax), ...(isPercent ? { percent } : {}) }
  },
  { when: ({ detail }) => detail?.['event_type'] === 'progress' },
)

const fails = onEach(['session.rejected', 'session.failed', 'session.aborted'], (on) =>
  down(`${on}-fails`, on, 'run.fail', async ({ subject: session }, read) => {
    const run = await runOf(read, session)
    if (run === null) return null
    const { rejection, error } = session
    const message = rejection
      ? `${session.callee_id} rejected it (${rejection.reason_code}): ${rejection.reason_message} ${rejection.suggestion ?? ''}`.trim()
      : `${session.callee_id} could not do it (${error?.error_code ?? session.reason ?? 'aborted'}): ${error?.error_message ?? ''}`.trim()
    return { run_id: run.id, error: message.slice(0, 4_000), reason: rejection ? 'refused' : 'failed' }
  }),
)

export const harnessToDelegation: readonly Contract[] = [
  declares,
  withdraws,
  starts,
  ...cancels,
  completes,
  begins,
  ends,
  progresses,
  ...fails,
]
