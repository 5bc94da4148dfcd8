// Requests and receipts as documents. Field names are the draft's (HXP 0.1); ours are marked.
import { readsProject, speaksFor, SYSTEM_ID, type Actor } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { doc, either, index, nullable, pick, t, tally, type Part, type Static } from '#kernel/declare/schema.ts'
import { sha256 } from '#kernel/log/hash-chain.ts'
import { SignatureFields } from '#kernel/signing/input.ts'
import { taskKind } from '#kernel/ports/tasks.ts'
import { DECLINED } from './answering/receipt-format.ts'
import { Fallback } from './actions/action.ts'
import { Action, actions, Payload } from './actions/index.ts'
import { timesOf } from './deadlines.ts'
import { textOf } from './inbox/search.ts'
import { trendRows } from './inbox/trends.ts'

const text = (maxLength: number, description?: string) => t.String({ maxLength, ...(description ? { description } : {}) })
export const Id = text(limits.idCharsMax)
export const Timestamp = text(40, 'an RFC 3339 time')
const Open = t.Object({}, { additionalProperties: true })

export const RoleName = either('owner', 'delegate', 'pool')
export const Priority = either('critical', 'high', 'normal', 'low')
export type Priority = Static<typeof Priority>
/** `declined`: a person would not answer; the receipt, and the draft's own wire, call it failed. */
export const Status = either('pending', 'assigned', 'completed', 'failed', 'cancelled', 'declined')
export type Status = Static<typeof Status>
export const Risk = either('R1', 'R2', 'R3', 'R4', 'R5')
export type Risk = Static<typeof Risk>
/** Ours: the kind of an inbox item. `request`: an agent asked through HXP itself; the others come from other protocols. */
export const Kind = either('request', 'approval', 'choice', 'input', 'escalation', 'interrupt', 'review')
export type Kind = Static<typeof Kind>

/** People of a project under one name. */
export const GROUP = 'group:'
export const GroupName = t.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$', description: 'up to 64 letters, digits, - or _' })
const Excluded = either('agent_owner', 'principal')
/** Who answers what agents ask, from a risk on. */
export const ApprovalRule = t.Object({
  from_risk: Risk,
  by: t.Object({
    groups: t.Optional(t.Array(GroupName, { minItems: 1, maxItems: 20, uniqueItems: true, description: 'groups of the project' })),
    people: t.Optional(t.Array(Id, { minItems: 1, maxItems: 20, uniqueItems: true })),
  }),
  quorum: t.Optional(t.Integer({ minimum: 1, maximum: 20, description: 'how many of them have to agree, 1 by default' })),
  excludes: t.Optional(
    t.Array(Excluded, {
      maxItems: 2,
      uniqueItems: true,
      description: 'who does not answer even if they are among them: the person who answers for the agent, the principal of the task',
    }),
  ),
})
export type ApprovalRule = Static<typeof ApprovalRule>
/** The rules for approvals that apply to a request, as they were when it was asked. */
export const Approval = t.Object({
  rules: t.Array(t.Object({ ...ApprovalRule.properties, set_by: Id })), // all of them hold; `set_by`: a project, or the installation
  n: t.Integer({ description: 'how many have to agree' }),
  excluded: t.Array(t.Object({ id: Id, as: Excluded })),
})
export type Approval = Static<typeof Approval>

const Basis = t.Object({ kind: t.String(), id: t.String() })

/** The stored receipt (HXP 0.1, 4.1). It names the decider, whom only some readers see. It never changes. */
export const Receipt = t.Object({
  receipt_id: Id,
  status: either('completed', 'failed', 'cancelled'),
  result: t.Unknown(),
  reason: t.Optional(text(DECLINED.length + limits.reasonCharsMax)),
  completed_by: Id, // a pseudonym if a pool or a quorum answered
  completed_at: Timestamp,
  duration_seconds: t.Integer(),
  evidence_hash: t.String(),
  // Ours, from here on.
  by: Id, // the person, or the system
  via: nullable(t.String()), // how they had authenticated
  iss: t.Optional(t.String()), // the server as it was called then
  basis: Basis,
  request_digest: t.String(),
  shown_digest: t.String(),
  edited: t.Optional(Open), // X33: the details as the person approved them
  assertion: t.Optional(SignatureFields), // the person's own signature, by passkey
})
export type Receipt = Static<typeof Receipt>

export const Vote = t.Object({
  by: Id,
  in_place_of: t.Optional(Id), // the represented person, if a substitute voted
  result: t.Unknown(), // null if they declined
  declined: t.Optional(t.Literal(true)),
  reason: t.Optional(text(limits.reasonCharsMax)),
  via: nullable(t.String()),
  shown_digest: t.String(),
  at: Timestamp,
  assertion: t.Optional(SignatureFields),
})
export type Vote = Static<typeof Vote>
export const Remark = t.Object({ by: Id, kind: either('question', 'reply'), text: text(limits.textCharsMax), at: Timestamp })
export type Remark = Static<typeof Remark>
export const Quorum = t.Object({ n: t.Integer({ minimum: 1, maximum: 20 }), of: t.Array(Id, { minItems: 1, maxItems: 20 }) })
/** As it is stored: a group may be larger than what an agent can name. */
const StoredQuorum = t.Object({ n: Quorum.properties.n, of: t.Array(Id) })
export const Escalation = t.Object({
  after_seconds: t.Integer({ minimum: 1, maximum: limits.timeoutSecondsMax }),
  to: t.Array(Id, { minItems: 1, maxItems: 20 }),
})

const Details = t.Optional(t.Object({}, { additionalProperties: true }))
const Evidence = t.Optional(text(limits.textCharsMax, 'the reason that the agent gives'))
const Labels = t.Array(text(limits.labelCharsMax))
/**
 * A question of another protocol, in the words of HXP: longer than HXP itself takes, and with ids for its options (`option_ids`, in the
 * order of the options).
 */
export const mirrored = {
  DECIDE: t.Object({
    question: text(limits.promptCharsMax),
    options: Labels,
    option_ids: t.Optional(Labels),
    context: Evidence,
    details: Details,
  }),
  APPROVE: t.Object({ item: text(limits.promptCharsMax), context: Evidence, details: t.Object({}, { additionalProperties: true }) }),
  PROVIDE: t.Object({
    prompt: text(limits.promptCharsMax),
    input_type: either('text', 'selection'),
    validation: t.Optional(t.Object({ allowed_values: t.Optional(Labels), max: t.Optional(t.Integer()) })),
    option_ids: t.Optional(Labels),
    context: Evidence,
    details: Details,
  }),
}
export const MirroredPayload = t.Union([mirrored.DECIDE, mirrored.APPROVE, mirrored.PROVIDE])
export type MirroredPayload = Static<typeof MirroredPayload>
export const Reviewed = t.Object({ artifact_id: Id, version: text(40) })

const RequestSchema = t.Object({
  id: Id,
  kind: Kind,
  action: Action,
  role: RoleName,
  priority: Priority,
  timeout_seconds: t.Integer(),
  fallback: Fallback,
  agent_id: text(limits.labelCharsMax), // as the agent calls itself
  requester: Id, // the actor of the credential
  project_id: Id, // its project: chain and visibility
  label: t.Optional(text(limits.labelCharsMax)), // the draft's project_id, as the agent sent it
  metadata: Open,
  tags: t.Array(text(limits.labelCharsMax)),
  payload: t.Union([Payload, MirroredPayload]),
  created_at: Timestamp,
  expires_at: nullable(Timestamp),
  status: Status,
  owner: Id, // the owner of the agent; with a task its principal
  people: t.Array(Id), // the people whose inbox lists it
  assigned_to: nullable(Id),
  assigned_at: nullable(Timestamp),
  overdue: t.Boolean(),
  // Fields that only some requests have.
  details_order: t.Optional(t.Array(t.String())), // names of the details as the agent wrote them, if that is not sorted
  gone: t.Optional(t.Array(Id)), // intended people who cannot answer: disabled, or no longer in the project
  no_decider: t.Optional(t.Boolean()), // no person can answer it at present: the project's owners see it
  asked_with: t.Optional(Id), // the key of a project, if the agent did not ask with its own
  risk: t.Optional(Risk), // the greater of the agent's risk and the floor
  // X34: the floor that applied when it was asked; `said`: the agent's own risk.
  option_risks: t.Optional(t.Array(Risk)), // of each option, if a checkpoint gave them one
  floor: t.Optional(t.Object({ said: nullable(Risk), risk: Risk, rule: text(limits.promptCharsMax) })),
  approval: t.Optional(Approval), // by which rules people were chosen
  quorum: t.Optional(StoredQuorum),
  votes: t.Optional(t.Array(Vote)),
  claimed_until: t.Optional(Timestamp), // the end of the claim on a pool's item
  escalation: t.Optional(t.Object({ ...Escalation.properties, at: t.Optional(Timestamp) })), // as it was asked for; `at`: it was done
  escalated_at: t.Optional(Timestamp),
  escalated_to: t.Optional(t.Array(Id)), // people added by escalation, who stay
  called: t.Optional(t.Array(t.Object({ group: text(limits.labelCharsMax), people: t.Array(Id) }))), // the groups among them, with their people then
  remind_seconds: t.Optional(t.Integer()),
  reminders: t.Optional(t.Integer()),
  reminded_at: t.Optional(Timestamp),
  asked_until: t.Optional(Timestamp), // its first deadline, if it was extended
  snoozed: t.Optional(t.Array(t.Object({ by: Id, until: Timestamp }))),
  thread: t.Optional(t.Array(Remark)),
  callback: t.Optional(Id),
  task_id: t.Optional(Id),
  root_task_id: t.Optional(Id),
  session_id: t.Optional(Id), // a session of another harness that waits for an approval
  call_id: t.Optional(Id), // of a tool, at the gate
  approvers: t.Optional(t.Array(Id)), // the only people who can approve it, with their substitutes
  checkpoint_id: t.Optional(Id),
  artifact: t.Optional(Reviewed), // the reviewed artifact
  asked_by: t.Optional(either('person', 'system')), // absent: an agent
  on_expiry: t.Optional(either('hold', 'escalate', 'fail', 'default')), // the effect of a checkpoint's deadline; its own timer applies it
  notice: t.Optional(text(limits.promptCharsMax)), // the system's message about changes of the task meanwhile
  receipt: t.Optional(Receipt),
})
export type Request = Static<typeof RequestSchema>

/** A request as agents see it, in every answer and in the record. */
export const agentView = pick(RequestSchema, [
  'id',
  'kind',
  'action',
  'role',
  'priority',
  'timeout_seconds',
  'fallback',
  'agent_id',
  'requester',
  'project_id',
  'label',
  'metadata',
  'tags',
  'payload',
  'created_at',
  'expires_at',
  'status',
  'assigned_to',
  'assigned_at',
  'overdue',
  'no_decider',
  'risk',
  'option_risks',
  'quorum',
  'escalation',
  'escalated_at',
  'remind_seconds',
  'reminders',
  'reminded_at',
  'asked_until',
  'thread',
  'callback',
  'task_id',
  'root_task_id',
  'session_id',
  'call_id',
  'checkpoint_id',
  'artifact',
  'asked_by',
  'on_expiry',
  'notice',
])
export type AgentRequest = Static<typeof agentView.schema> & { voted?: number }

/** A request as an agent sees it: the outcome of its question, and only necessary facts about people. */
export function forAgents(request: Request): AgentRequest {
  const { votes, role, thread } = request
  const view: AgentRequest = { ...agentView.of(request), ...(votes ? { voted: votes.length } : {}) }
  if (role !== 'pool') return view
  // Agents never learn the names of people in a pool (X21).
  const remarks = thread?.map((remark) => (remark.kind === 'question' ? { ...remark, by: 'pool' } : remark))
  return { ...view, assigned_to: null, ...(remarks ? { thread: remarks } : {}) }
}

/** A request that has ended, with its receipt. */
export type EndedRequest = Request & { readonly status: Exclude<Status, 'pending' | 'assigned'> }
export const isOpen = ({ status }: Pick<Request, 'status'>): boolean => status === 'pending' || status === 'assigned'
/** The reason in the receipt of a request that ended by its deadline. */
export const TIMEOUT = 'timeout'
export const isTimedOut = ({ status, receipt }: Pick<Request, 'status' | 'receipt'>): boolean =>
  status === 'failed' && receipt?.reason === TIMEOUT
/** Its status, with timeouts separate from other failures. */
export const outcomeOf = (request: Request): Outcome => (isTimedOut(request) ? 'expired' : request.status)
export type Outcome = Status | 'expired'
export const rankOf = { critical: '0', high: '1', normal: '2', low: '3' } as const
/** The first part of the order, for each priority: one value for late or escalated requests, and one for the rest. */
export const tiersOf = { critical: ['0', '1'], high: ['2', '5'], normal: ['3', '6'], low: ['4', '7'] } as const
export const allTiers = Object.values(tiersOf).flat().toSorted()
/** The index parts of a snoozed request, in place of turn and tier. */
export const SNOOZED_PARTS = ['9', ''] as const

export const poolOf = (project_id: string): string => `pool/${project_id}`
/** The inboxes that list it: of its people, or the pool of the project until a person claims it. */
export function inboxesOf(request: Request): readonly string[] {
  if (request.no_decider === true) return [...request.people, undecidedOf(request.project_id), UNDECIDED]
  return isInPool(request) ? [poolOf(request.project_id), ...request.people] : request.people
}
/** A request that no person can answer is listed for the owners of the project and the installation, who can name a substitute. */
export const UNDECIDED = 'undecided'
export const undecidedOf = (project_id: string): string => `${UNDECIDED}/${project_id}`
export function undecidedFor({ kind, owner, projects }: Actor): string[] {
  if (kind !== 'human') return []
  if (owner === true) return [UNDECIDED]
  return projects === 'all' ? [] : [...projects].filter(([, role]) => role === 'owner').map(([id]) => undecidedOf(id))
}
/** Anybody of the project may take it. A request that is bound to a task is never in a pool: its people are known. */
export const isInPool = (request: Pick<Request, 'role' | 'status' | 'task_id' | 'approval'>): boolean =>
  isForPool(request) && request.status === 'pending'
/** A pool is asked, and no rule names the people. */
export const isForPool = ({ role, task_id, approval }: Pick<Request, 'role' | 'task_id' | 'approval'>): boolean =>
  role === 'pool' && task_id === undefined && approval === undefined

/** Whether it is late or was escalated: such a request cannot be snoozed. */
export const isPressing = ({ overdue, escalated_at }: Pick<Request, 'overdue' | 'escalated_at'>): boolean =>
  overdue || escalated_at !== undefined
/** The end of the person's snooze; null: not snoozed, or the request is pressing. */
export const snoozedUntil = (request: Request, who: string): string | null =>
  (isPressing(request) ? undefined : request.snoozed?.find(({ by }) => by === who)?.until) ?? null

/** In each inbox by turn, then by urgency; snoozed requests by the end of their snooze, all counted under one prefix. */
function openRows(request: Request): Part[][] {
  const rank = rankOf[request.priority]
  return inboxesOf(request).map((who) => {
    const until = snoozedUntil(request, who)
    return until === null ? [who, turnIn(request, who), ...urgencyOf(request)] : [who, ...SNOOZED_PARTS, until, rank]
  })
}

/** The turn as seen from one inbox: its reader's, not assigned, or another person's. */
const turnIn = ({ assigned_to }: Request, who: string): Turn => (assigned_to === null ? 'none' : assigned_to === who ? 'mine' : 'other')
export const turns = ['mine', 'none', 'other'] as const
export type Turn = (typeof turns)[number]

/**
 * The one order of open requests: critical ones first, then late or escalated ones, then by priority; among those the greater risk, the
 * earlier deadline, the greater age. Requests without a risk or a deadline come after those that have one.
 */
export function urgencyOf(request: Request): Part[] {
  const { priority, risk, expires_at, created_at } = request
  return [
    tiersOf[priority][isPressing(request) ? 0 : 1],
    risk === undefined ? '9' : String(9 - Number(risk.slice(1))),
    expires_at ?? '~',
    created_at,
  ]
}
/** Rows of the people who have the request because their group was called in. */
function calledRows(request: Request): Part[][] {
  const { called } = request
  if (called === undefined) return []
  const there = inboxesOf(request)
  const isThere = (who: string): boolean => there.includes(who) && snoozedUntil(request, who) === null
  return called.flatMap(({ group, people }) => people.filter(isThere).map((who) => [who, group, ...urgencyOf(request)]))
}

/** The same case: the same agent asks the same thing, by its scope if it names one. */
export function caseOf({ action, payload }: Pick<Request, 'action' | 'payload'>): string {
  const { scope } = payload as { scope?: string }
  // A plain scope: grant.preview finds the scopes of a family next to each other.
  return scope === undefined ? sha256(`${action}\0${actions[action].question(payload)}`) : `scope ${scope}`
}
/** Answers of people, the latest last. */
function caseRows(request: Request): Part[][] {
  const { receipt, requester, project_id } = request
  if (receipt?.status !== 'completed' || receipt.by === SYSTEM_ID || receipt.basis.kind !== 'role') return []
  return [[project_id, requester, caseOf(request), receipt.completed_at]]
}

/** The people who were called in while the request is still in the pool, with its tier: they see it twice. */
function twiceRows(request: Request): Part[][] {
  const { people } = request
  if (people.length === inboxesOf(request).length) return []
  const [tier] = urgencyOf(request) as [Part]
  return people.filter((who) => snoozedUntil(request, who) === null).map((who) => [who, tier])
}

/** The people whose history includes it: the asked people, and the person who answered. */
function historiesOf({ people, receipt }: Request): readonly string[] {
  if (!receipt) return []
  return receipt.by === SYSTEM_ID || people.includes(receipt.by) ? people : [...people, receipt.by]
}
/** The names under which it is listed, open or ended. */
export const namesOf = (request: Request): readonly string[] => (isOpen(request) ? inboxesOf(request) : historiesOf(request))

function closedRows(request: Request): Part[][] {
  const { receipt, status, priority } = request
  return historiesOf(request).map((who) => [who, status, receipt!.completed_at, rankOf[priority]])
}

/**
 * A request that has ended is read by those whose history it is, as long as they are in the project; with a task behind it, by the readers
 * of the task.
 */
function settledRows(request: Request): Part[][] {
  const { task_id, project_id } = request
  return closedRows(request).map(([who]) => [who!, task_id === undefined ? 'free' : 'bound', project_id, outcomeOf(request)])
}

/** Rows of the people who have claimed it and not snoozed it. */
function claimedRows(request: Request): Part[][] {
  const listed = request.status === 'assigned' ? inboxesOf(request) : []
  return listed.filter((who) => snoozedUntil(request, who) === null).map((who) => [who, ...urgencyOf(request)])
}

export const Request = doc('execution.request', RequestSchema, {
  noun: 'request',
  forAgents,
  scopeOf: (request) => request.project_id,
  taskOf: (request) => request.task_id ?? null,
  rootOf: (request) => request.root_task_id ?? request.task_id ?? null,
  visibleTo: mayRead,
  // A request that no person of the project can answer goes to the owners of the installation. They also find requests that they answered.
  reaches: (request, actor) =>
    actor.kind === 'human' &&
    actor.owner === true &&
    (request.people.includes(actor.id) || request.no_decider === true || request.receipt?.by === actor.id),
  // A request with a task is visible only to readers of the task.
  within: (request) => (request.task_id === undefined || request.no_decider === true ? null : { doc: taskKind(), id: request.task_id }),
  // Wakes callers that wait for the answer, and callers that wait for something to answer.
  wakes: (request) => request.id,
  due: timesOf,
  // Only open requests are indexed for search. Ended ones are scanned from the newest on.
  text: { of: (request) => (isOpen(request) ? textOf(request) : null), group: ({ requester }) => requester, index: 'open' },
  indexes: {
    open: index((request) => (isOpen(request) ? openRows(request) : []), 3),
    closed: index(closedRows, 2),
    // Requests that `open` lists twice for one person, so that each can be counted once; and the claimed requests.
    twice: tally((request) => (request.role === 'pool' && isOpen(request) ? twiceRows(request) : [])),
    claimed: index(claimedRows, 2),
    // For counting only, by project: a person who has left a project learns nothing of it, not even the count.
    settled: tally(settledRows),
    // Ended requests with a task: whether a person still reads the task is checked one by one.
    bound: index((request) => (request.task_id === undefined ? [] : settledRows(request))),
    outcomes: tally((request) => [[request.requester, request.project_id, outcomeOf(request)]]),
    asker: index((request) => [[request.requester, isOpen(request) ? 'open' : 'closed', request.created_at]], 2),
    critical: index((request) => (request.priority === 'critical' ? [[request.requester, request.created_at.slice(0, 13)]] : []), 2),
    // What is looked at again when these people, or the people of these groups, change.
    gone: index((request) => (isOpen(request) ? [...(request.gone ?? []), ...groupsOf(request)].map((who) => [who]) : [])),
    task: index((request) => (request.task_id === undefined || !isOpen(request) ? [] : [[request.task_id]])),
    called: index((request) => (isOpen(request) ? calledRows(request) : []), 2),
    cases: index(caseRows),
    trends: tally(trendRows),
  },
})

/** Stands for a group where a person could change. */
export const groupKey = (project_id: string, name: string): string => `${GROUP}${project_id}/${name}`
const groupsOf = ({ approval, project_id }: Request): string[] => [
  ...new Set(approval?.rules.flatMap(({ by }) => by.groups ?? []).map((name) => groupKey(project_id, name))),
]

function mayRead(request: Request, actor: Actor): boolean {
  if (actor.kind === 'agent') return actor.id === request.requester
  if (request.no_decider === true) return readsProject(actor, request.project_id) || actor.owner === true
  if (request.task_id !== undefined || readsProject(actor, request.project_id)) return true
  if (actor.kind !== 'human') return false
  // The person who answered finds it again, also out of a pool.
  const isTheirs =
    [request.owner, ...request.people].some((who) => speaksFor(actor, who, request.project_id)) || request.receipt?.by === actor.id
  // The whole project sees a pool's request until a person claims it.
  return isTheirs || actor.owner === true || isInPool(request)
}
