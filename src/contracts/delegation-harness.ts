// Contracts from runs to sessions: a run reports for its session, and a run whose agent is another harness is submitted to that harness.
import type { Contract, Read } from '#kernel/declare/operation.ts'
import { limits } from '#kernel/limits.ts'
import { cutTo } from '#kernel/codec/cut-text.ts'
import { isObject } from '#kernel/codec/strict-json.ts'
import type { Value } from '#kernel/log/store.ts'
import { Card, Endpoint, Mailbox, Request, type Run } from '#protocols/delegation/schema.ts'
import { Session } from '#protocols/harness/schema.ts'
import { isAtWork } from '#protocols/harness/states.ts'
import { contractsBetween, textIn, type Terms } from './contract.ts'

const up = contractsBetween({ from: 'delegation', to: 'harness' })
const ofSession: Terms<Run> = { when: ({ subject }) => subject.session_id !== undefined }

async function sessionOf(read: Read, { session_id }: Run): Promise<Session | null> {
  return session_id === undefined ? null : read.raw(Session, session_id)
}

const binds = up(
  'run-is-bound',
  'run.delegated',
  'harness.bind',
  ({ subject }) => {
    const { session_id, id } = subject
    return { session_id: session_id!, run_id: id }
  },
  ofSession,
)

const progresses = up(
  'progress-is-told',
  'run.progress',
  'harness.report',
  async ({ subject: run }, read) => {
    const session = await sessionOf(read, run)
    if (session === null || !isAtWork(session.state) || session.run_id !== run.id) return null
    const { message, percent } = run.progress!
    const data = { stage: 'working', ...(percent === null ? {} : { percent }), ...(message === null ? {} : { message }) }
    return { session_id: session.id, event_type: 'progress', data }
  },
  ofSession,
)

const completes = up(
  'run-completes-the-session',
  'run.completed',
  'harness.complete',
  async ({ subject: run }, read) => {
    const session = await sessionOf(read, run)
    const isOpen = session !== null && session.run_id === run.id && (isAtWork(session.state) || session.state === 'ABORTING')
    return isOpen ? { session_id: session.id, outputs: run.result ?? {} } : null
  },
  ofSession,
)

const fails = up(
  'run-fails-the-session',
  'run.failed',
  'harness.fail',
  async ({ subject: run }, read) => {
    const session = await sessionOf(read, run)
    if (session === null || session.run_id !== run.id || !isAtWork(session.state) || run.reason === 'handed_off') return null
    const isGone = run.reason === 'cancelled' || run.reason === 'unreachable' || run.reason === 'refused'
    return {
      session_id: session.id,
      error_code: isGone ? 'resource_unavailable' : 'execution_error',
      error_message: cutTo(run.error ?? run.reason ?? 'the run has failed', limits.textCharsMax),
    }
  },
  ofSession,
)

/** The agent has stopped, so the abort ends before its timeout (C37). */
const putsDown = up(
  'put-down-ends-the-abort',
  'run.put_down',
  'harness.settle',
  async ({ subject }, read) => {
    const session = await sessionOf(read, subject)
    return session?.state === 'ABORTING' ? { session_id: session.id, reason: 'put_down' } : null
  },
  ofSession,
)
/** No process has ever taken the run, so none could confirm the stop. */
const neverTaken = up(
  'never-taken-ends-the-abort',
  'run.failed',
  'harness.settle',
  async ({ subject: run }, read) => {
    const session = await sessionOf(read, run)
    const isUntouched = run.reason === 'cancelled' && run.started_at === null && session?.state === 'ABORTING' && session.run_id === run.id
    return isUntouched && (await isUntaken(read, run)) ? { session_id: session.id, reason: 'not_begun' } : null
  },
  ofSession,
)
const isUntaken = async (read: Read, { id }: Run): Promise<boolean> => (await read.raw(Mailbox, id)) === null

// --- Runs of agents that are other harnesses ---------------------------------------------------------------------------------

const HCP = 'hcp:'
const isIntent = (name: string): boolean => name === 'goal' || name === 'intent'
/** Submits the requested capability, or the first one on the agent's card. The input of the run becomes its inputs. */
const submits = up('run-is-submitted', 'run.delegated', 'harness.submit', async ({ subject: run }, read) => {
  const card = await read.raw(Card, run.agent_id)
  if (card?.reach !== 'hcp') return null
  const endpoint = (await read.raw(Endpoint, run.agent_id))?.endpoint ?? ''
  const { input } = (await read.raw(Request, run.id))!
  const fields: Value = { ...input }
  const intent = textIn(fields, 'goal') ?? textIn(fields, 'intent')
  const rest = Object.fromEntries(Object.entries(fields).filter(([name, value]) => !isIntent(name) || typeof value !== 'string'))
  return {
    callee_id: endpoint.slice(HCP.length),
    capability: run.capability?.capability_id ?? card.capabilities[0]?.capability_id ?? 'default',
    ...(run.capability === null ? {} : { capability_version: `^${run.capability.version}` }),
    intent: intent ?? 'Do what the inputs say.',
    inputs: run.task_id === null && isObject(rest['inputs']) ? rest['inputs'] : rest,
    project_id: run.project_id,
    run_id: run.id,
    ...(run.task_id === null ? {} : { task_id: run.task_id }),
  }
})

const aborts = up('cancelled-aborts', 'run.failed', 'harness.abort', async ({ subject: run }, read) => {
  if (run.reason !== 'cancelled' && run.reason !== 'handed_off') return null
  const [listed] = await read.list(Session, 'run', [[run.id]], { limit: 1 })
  const session = listed ? await read.raw(Session, listed.id) : null
  return session?.role === 'caller' && session.ended_at === null ? { session_id: session.id, reason: run.error ?? 'cancelled' } : null
})

export const delegationToHarness: readonly Contract[] = [binds, progresses, completes, fails, neverTaken, putsDown, submits, aborts]
