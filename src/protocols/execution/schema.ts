// What an agent asks of a person, and what the person's answer leaves. Field names are the draft's (HXP 0.1); what is ours says so.
import { ownsProject, speaksFor, type Actor } from '#kernel/identity.ts'
import { limits } from '#kernel/limits.ts'
import { doc, either, index, kindOf, nullable, t, type AnyDoc, type Part, type Static } from '#kernel/schema.ts'
import { Payload } from './payload.ts'

const text = (maxLength: number, description?: string) => t.String({ maxLength, ...(description ? { description } : {}) })
export const Id = text(limits.idCharsMax)
export const Timestamp = text(40, 'an RFC 3339 time')
const Open = t.Object({}, { additionalProperties: true })

export const Action = either('DECIDE', 'APPROVE', 'PROVIDE')
export type Action = Static<typeof Action>
export const RoleName = either('owner', 'delegate', 'pool')
export const Priority = either('critical', 'high', 'normal', 'low')
export const Fallback = either('pause', 'fail', 'default')
export const Status = either('pending', 'assigned', 'completed', 'failed', 'cancelled')
export const Risk = either('R1', 'R2', 'R3', 'R4', 'R5')
/** Ours: what stands in the inbox. `request`: an agent asked through HXP itself; the others come from other protocols. */
export const Kind = either('request', 'approval', 'choice', 'input', 'escalation', 'interrupt', 'review')
export type Kind = Static<typeof Kind>

const Basis = t.Object({ kind: t.String(), id: t.String() })

/** HXP 0.1, 4.1, as it is kept: who decided is named here, and shown to those who may know. It never changes. */
export const Receipt = t.Object({
  receipt_id: Id,
  status: either('completed', 'failed', 'cancelled'),
  result: t.Unknown(),
  reason: t.Optional(text(limits.reasonCharsMax)),
  completed_by: Id, // a pseudonym where a pool answered
  completed_at: Timestamp,
  duration_seconds: t.Integer(),
  evidence_hash: t.String(),
  // Ours, from here on.
  by: Id, // the person, or the system
  via: nullable(t.String()), // how they had proven who they are
  basis: Basis,
  request_digest: t.String(),
  shown_digest: t.String(),
})
export type Receipt = Static<typeof Receipt>

const Vote = t.Object({
  by: Id,
  result: t.Unknown(),
  reason: t.Optional(text(limits.reasonCharsMax)),
  via: nullable(t.String()),
  at: Timestamp,
})
export type Vote = Static<typeof Vote>
const Remark = t.Object({ by: Id, kind: either('question', 'reply'), text: text(limits.textCharsMax), at: Timestamp })
export const Quorum = t.Object({ n: t.Integer({ minimum: 1, maximum: 20 }), of: t.Array(Id, { minItems: 1, maxItems: 20 }) })
export const Escalation = t.Object({
  after_seconds: t.Integer({ minimum: 1, maximum: limits.timeoutSecondsMax }),
  to: t.Array(Id, { minItems: 1, maxItems: 20 }),
})

const RequestSchema = t.Object({
  id: Id,
  kind: Kind,
  action: Action,
  role: RoleName,
  priority: Priority,
  timeout_seconds: t.Integer(),
  fallback: Fallback,
  agent_id: text(limits.labelCharsMax), // as the agent calls itself
  requester: Id, // who it is by its credential
  project_id: Id, // where it belongs: chain and visibility
  label: t.Optional(text(limits.labelCharsMax)), // the draft's project_id, where it names no project of ours
  metadata: Open,
  tags: t.Array(text(limits.labelCharsMax)),
  payload: Payload,
  created_at: Timestamp,
  expires_at: nullable(Timestamp),
  status: Status,
  owner: Id, // who answers for the agent; with a task its principal
  people: t.Array(Id), // in whose inbox it stands
  assigned_to: nullable(Id),
  assigned_at: nullable(Timestamp),
  overdue: t.Boolean(),
  // What only some have.
  asked_with: t.Optional(Id), // the key of a project, where the agent did not ask with its own
  risk: t.Optional(Risk),
  quorum: t.Optional(Quorum),
  votes: t.Optional(t.Array(Vote)),
  claimed_until: t.Optional(Timestamp), // a pool's item is somebody's until then
  escalation: t.Optional(Escalation),
  escalated_at: t.Optional(Timestamp),
  remind_seconds: t.Optional(t.Integer()),
  reminders: t.Optional(t.Integer()),
  snoozed: t.Optional(t.Array(t.Object({ by: Id, until: Timestamp }))),
  thread: t.Optional(t.Array(Remark)),
  callback: t.Optional(Id),
  task_id: t.Optional(Id),
  root_task_id: t.Optional(Id),
  checkpoint_id: t.Optional(Id),
  artifact: t.Optional(t.Object({ artifact_id: Id, version: text(40) })), // what a review is about
  receipt: t.Optional(Receipt),
})
export type Request = Static<typeof RequestSchema>

export const isOpen = ({ status }: Pick<Request, 'status'>): boolean => status === 'pending' || status === 'assigned'
const rankOf = { critical: '0', high: '1', normal: '2', low: '3' } as const
/** Behind everything else until its time comes. */
const SNOOZED = '9'

export const poolOf = (project_id: string): string => `pool/${project_id}`
/** Where it is listed: with those who are to answer, or in the pool of the project until somebody claims it. */
export function inboxesOf({ role, status, people, project_id }: Request): readonly string[] {
  return role === 'pool' && status === 'pending' ? [poolOf(project_id)] : people
}

function openRows(request: Request): Part[][] {
  const rank = rankOf[request.priority]
  return inboxesOf(request).map((who) => {
    const rest = request.snoozed?.find(({ by }) => by === who)
    return rest ? [who, SNOOZED, rest.until] : [who, rank, request.created_at]
  })
}

/** The kind of the task behind an item; protocols know one another's documents by name only. */
export const taskDoc = (): AnyDoc => kindOf('collaboration.task/')

export const Request = doc('execution.request', RequestSchema, {
  noun: 'request',
  scopeOf: (request) => request.project_id,
  taskOf: (request) => request.task_id ?? null,
  rootOf: (request) => request.root_task_id ?? request.task_id ?? null,
  visibleTo: mayRead,
  // With a task behind it, whoever may read the task, and nobody else.
  within: (request) => (request.task_id === undefined ? null : { doc: taskDoc(), id: request.task_id }),
  // Who waits for the answer, and who waits for something to answer.
  wakes: (request) => request.id,
  indexes: {
    open: index((request) => (isOpen(request) ? openRows(request) : []), 2),
    closed: index(
      (request) => (request.receipt ? request.people.map((who) => [who, request.status, request.receipt!.completed_at]) : []),
      2,
    ),
    asker: index((request) => [[request.requester, isOpen(request) ? 'open' : 'closed', request.created_at]], 2),
    critical: index((request) => (request.priority === 'critical' ? [[request.requester, request.created_at.slice(0, 13)]] : []), 2),
    checkpoint: index((request) => (request.checkpoint_id === undefined ? [] : [[request.checkpoint_id]])),
    task: index((request) => (request.task_id === undefined || !isOpen(request) ? [] : [[request.task_id]])),
  },
})

function mayRead(request: Request, actor: Actor): boolean {
  if (actor.kind === 'agent') return actor.id === request.requester
  if (request.task_id !== undefined || ownsProject(actor, request.project_id)) return true
  if (actor.kind !== 'human') return false
  const isTheirs = [request.owner, ...request.people].some((who) => speaksFor(actor, who))
  // A pool is everybody of the project; what somebody has claimed is theirs.
  return isTheirs || actor.owner === true || (request.role === 'pool' && request.status === 'pending')
}
