// Contracts between sessions that wait for people and their items in the inbox: asking, and ending what need not be asked any more.
import type { Contract, Read } from '#kernel/declare/operation.ts'
import { limits } from '#kernel/limits.ts'
import { cutTo } from '#kernel/codec/cut-text.ts'
import { SYSTEM_ID } from '#kernel/declare/access.ts'
import { isOpen, Request } from '#protocols/execution/schema.ts'
import { approversOf } from '#protocols/harness/session/commands.ts'
import { Task, type Session } from '#protocols/harness/schema.ts'

const ITEM = 'hxp_'
/** A session and its item have the same id but for its first part, so that each is found from the other by key. */
const itemOf = ({ id }: Session): string => ITEM + id

const asks: Contract = {
  name: 'harness-execution/waiting-asks',
  on: 'harness/session.waiting',
  call: 'execution/request.mirror',
  as: 'system',
  async input({ subject }, read) {
    const session = subject as Session
    const { submission, sealed, declaration } = (await read.raw(Task, session.id))!
    const { intent, inputs } = submission as { intent?: string; inputs?: object }
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
      approvers,
      ...(risk_level === 'R5' ? { quorum: { n: 2, of: approvers } } : {}),
      owner: approvers[0],
      timeout_seconds: 0,
      expires_at: deadline,
      fallback: 'pause',
      risk: risk_level,
    }
  },
}

/** A question that was decided elsewhere, taken back or timed out waits for nobody any more. */
const closes = ['session.rejected', 'session.aborted', 'session.started'].map((on): Contract => ({
  name: `harness-execution/${on}-closes`,
  on: `harness/${on}`,
  call: 'execution/request.close',
  as: 'system',
  async input({ subject, basis }, read: Read) {
    const session = subject as Session
    const item = session.role === 'callee' ? await read.raw(Request, itemOf(session)) : null
    if (item === null || !isOpen(item)) return null
    return { request_id: item.id, status: 'cancelled', reason: session.reason ?? 'decided elsewhere', basis }
  },
}))

export const harnessToExecution: readonly Contract[] = [asks, ...closes]
