// Contracts between waiting sessions and their items in the inbox: asking people, closing obsolete items, and deciding by the answers.
import type { Contract, Read } from '#kernel/declare/operation.ts'
import type { Value } from '#kernel/log/store.ts'
import { limits } from '#kernel/limits.ts'
import { cutTo } from '#kernel/codec/cut-text.ts'
import { SYSTEM_ID } from '#kernel/declare/access.ts'
import { isOpen, Request } from '#protocols/execution/schema.ts'
import { approversOf } from '#protocols/harness/session/commands.ts'
import { Session, Task } from '#protocols/harness/schema.ts'
import { contractsBetween, onEach, textIn, type Terms } from './contract.ts'

const ITEM = 'hxp_'
/** The ids of a session and its item differ only in the prefix, so each is found from the other by key. */
const itemOf = ({ id }: Session): string => ITEM + id

const to = contractsBetween({ from: 'harness', to: 'execution' })

const asks = to('waiting-asks', 'session.waiting', 'request.mirror', async ({ subject: session }, read) => {
  const { submission, sealed, declaration } = (await read.raw(Task, session.id))!
  const fields: Value = { ...submission }
  const [intent, inputs] = [textIn(fields, 'intent'), fields['inputs']]
  const approvers = await approversOf(read, declaration!)
  const { caller_id, capability, risk_level, data_classification, project_id, deadline } = session
  const message = sealed === null ? (intent ?? '') : `a task whose data is ${data_classification}`
  return {
    request_id: itemOf(session),
    kind: 'approval',
    action: 'APPROVE',
    priority: risk_level === 'R5' ? 'critical' : 'high',
    payload: {
      item: cutTo(`${caller_id} asks for ${capability} (${risk_level}): ${message}`, limits.promptCharsMax),
      details: {
        session_id: session.id,
        caller_id,
        capability,
        risk_level,
        data_classification,
        ...(sealed === null ? { intent, inputs } : {}),
      },
    },
    requester: SYSTEM_ID,
    agent_id: `hcp:${caller_id}`,
    asked_by: 'system',
    project_id,
    session_id: session.id,
    executor: declaration!.agent_id,
    approvers,
    ...(risk_level === 'R5' ? { quorum: { n: 2, of: approvers } } : {}),
    owner: approvers[0]!,
    timeout_seconds: 0,
    expires_at: deadline,
    fallback: 'pause',
    risk: risk_level!,
  }
})

/** Closes the item of a question that was decided elsewhere, withdrawn or timed out. */
const closes = onEach(['session.rejected', 'session.aborted', 'session.started'], (on) =>
  to(`${on}-closes`, on, 'request.close', async ({ subject: session, basis }, read) => {
    const item = session.role === 'callee' ? await read.raw(Request, itemOf(session)) : null
    if (item === null || !isOpen(item)) return null
    return { request_id: item.id, status: 'cancelled', reason: session.reason ?? 'decided elsewhere', basis }
  }),
)

export const harnessToExecution: readonly Contract[] = [asks, ...closes]

// --- The answer ----------------------------------------------------------------------------------------------------------------

async function waitingFor(read: Read, { session_id }: Request): Promise<Session | null> {
  const session = session_id === undefined ? null : await read.raw(Session, session_id)
  return session?.state === 'PENDING' && session.waiting_for === 'human' ? session : null
}

const back = contractsBetween({ from: 'execution', to: 'harness' })
const ofSession: Terms<Request> = { when: ({ subject }) => subject.session_id !== undefined }

/** Only people decide: an item that the system ended approves nothing. */
const decides = onEach(['request.completed', 'request.failed', 'request.declined'], (on) =>
  back(
    `${on}-decides`,
    on,
    'harness.decide',
    async ({ subject: request }, read) => {
      const session = await waitingFor(read, request)
      if (session === null) return null
      const { receipt, votes = [] } = request
      const isYes = receipt?.status === 'completed' && receipt.result === 'approved' && receipt.by !== SYSTEM_ID
      const by = votes.length > 0 ? votes.filter(({ result }) => result === 'approved').map((vote) => vote.by) : [receipt!.by]
      const reason = request.status === 'failed' ? 'too few approvers are available' : receipt?.reason
      return { session_id: session.id, result: isYes ? 'approved' : 'rejected', by, ...(reason === undefined ? {} : { reason }) }
    },
    ofSession,
  ),
)

export const executionToHarness: readonly Contract[] = decides
