// Contracts between calls at the gate and their questions in the inbox: asking, withdrawing, answering, and the grants that spare a question.
import type { Contract, Read } from '#kernel/declare/operation.ts'
import { definedFields } from '#kernel/codec/strict-json.ts'
import { SYSTEM_ID } from '#kernel/declare/access.ts'
import { isOpen, Request } from '#protocols/execution/schema.ts'
import { Question } from '#protocols/gate/schema.ts'
import { INSTALLATION } from '#kernel/policy/gate-policy.ts'
import { contractsBetween, onEach, textIn, type Terms } from './contract.ts'

const to = contractsBetween({ from: 'gate', to: 'execution' })

/** The agent asks, with its own rights and its own limits. */
const asks = to(
  'asked-asks',
  'call.asked',
  'request.create',
  async ({ subject: call }, read) => {
    const { details, people, quorum, timeout_seconds, scope } = (await read.raw(Question, call.id))!
    const isBound = call.task_id !== null && people === null
    return {
      action: 'APPROVE',
      priority: call.risk !== null && call.risk >= 'R4' ? 'high' : 'normal',
      payload: {
        item: `Run ${call.server}/${call.tool}`,
        details: { ...details, ...definedFields({ sub_agent: call.client.sub_agent }) },
        ...definedFields({ scope }),
      },
      project_id: call.project_id,
      timeout_seconds,
      fallback: timeout_seconds === 0 ? 'pause' : 'fail',
      call_id: call.id,
      metadata: isBound ? { task_id: call.task_id } : {},
      ...definedFields({
        risk: call.risk ?? undefined,
        quorum: people === null ? undefined : { n: quorum ?? 1, of: [...people] },
      }),
    }
  },
  { as: 'actor' },
)

const closes = to('cancelled-closes', 'call.cancelled', 'request.close', async ({ subject: call, basis }, read) => {
  const item = call.request_id === null ? null : await read.raw(Request, call.request_id)
  if (item === null || !isOpen(item)) return null
  return { request_id: item.id, status: 'cancelled', reason: call.reason ?? 'the call was withdrawn', basis }
})

/** The people who set the policy of a scope. */
async function ownersOf(read: Read, scope: string): Promise<string[]> {
  if ((await read.subject(scope))?.kind === 'human') return [scope]
  const people = await read.people(scope === INSTALLATION ? { chiefs: true } : { ownersOf: scope })
  return people.map(({ id }) => id).slice(0, 20)
}

const suspends = to('suspended-says-so', 'rule.suspended', 'request.mirror', async ({ subject: call, detail }, read) => {
  const [scope, rule] = [textIn(detail, 'scope')!, textIn(detail, 'rule')!]
  const approvers = await ownersOf(read, scope)
  if (approvers.length === 0) return null
  return {
    kind: 'approval',
    action: 'APPROVE',
    priority: 'normal',
    payload: {
      item: `Let rule ${rule} allow calls again?`,
      details: {
        scope,
        rule,
        rejected: `${call.server}/${call.tool}`,
        call_id: call.id,
        reason: call.reason,
        until_then: 'its calls are asked',
      },
    },
    requester: SYSTEM_ID,
    asked_by: 'system',
    project_id: call.project_id,
    call_id: call.id,
    approvers,
    owner: approvers[0]!,
    timeout_seconds: 0,
    expires_at: null,
    fallback: 'pause',
  }
})

export const gateToExecution: readonly Contract[] = [asks, closes, suspends]

// --- The answer ----------------------------------------------------------------------------------------------------------------

const back = contractsBetween({ from: 'execution', to: 'gate' })
const ofCall: Terms<Request> = { when: ({ subject }) => subject.call_id !== undefined && subject.asked_by !== 'system' }

/** Only people approve: if the system ended the question, the call does not run. */
const answers = onEach(['request.completed', 'request.declined', 'request.failed', 'request.cancelled'], (on) =>
  back(
    `${on}-settles`,
    on,
    'call.settle',
    async ({ subject: { call_id, receipt, status, expires_at, votes = [] } }, read) => {
      const call = await read.ports.calls.call(read, call_id!)
      if (call === null || !call.isWaiting) return null
      const by = receipt?.by ?? votes.at(-1)?.by
      const isByPerson = by !== undefined && by !== SYSTEM_ID
      const reason = isByPerson ? (receipt?.reason ?? undefined) : undefined
      const named = definedFields({ person: isByPerson ? by : undefined, reason })
      if (status === 'cancelled') return { call_id: call_id!, result: 'cancelled', ...named }
      if (status === 'completed' && isByPerson)
        return { call_id: call_id!, result: receipt?.result === 'approved' ? 'approved' : 'rejected', expires_at, ...named }
      return { call_id: call_id!, result: isByPerson ? 'rejected' : 'expired', ...named }
    },
    ofCall,
  ),
)

const resumes = back(
  'approved-resumes',
  'request.completed',
  'rule.resume',
  ({ subject: { call_id, receipt, payload } }) => {
    const scope = 'details' in payload ? textIn({ ...payload.details }, 'scope') : undefined
    return receipt?.result === 'approved' && receipt.by !== SYSTEM_ID && scope !== undefined ? { call_id: call_id!, scope } : null
  },
  { when: ({ subject }) => subject.call_id !== undefined && subject.asked_by === 'system' },
)

export const executionToGate: readonly Contract[] = [...answers, resumes]

// --- Grants --------------------------------------------------------------------------------------------------------------------

/** A grant that allowed a call is used with it, in the same batch. */
const uses = contractsBetween({ from: 'gate', to: 'collaboration' })(
  'call-uses-grant',
  'call.allowed',
  'grant.use',
  ({ subject: { task_id, basis, server, tool } }) =>
    task_id === null || basis.kind !== 'grant' ? null : { task_id, scope: `gate:${server}/${tool}` },
  { as: 'actor' },
)

export const gateToCollaboration: readonly Contract[] = [uses]
