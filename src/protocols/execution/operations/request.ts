// Requests: an agent asks, and reads the outcome.
import { canonical } from '#kernel/log/canonical-json.ts'
import { timestampOf } from '#kernel/ports/clock.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { image } from '#kernel/declare/facts.ts'
import { authorize, type Actor } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, type Bound, type Context, type Granted, type Made, type Read } from '#kernel/declare/operation.ts'
import { t, type Static } from '#kernel/declare/schema.ts'
import { fact } from '../events.ts'
import { refuseForeignCallback } from '../notices/notice.ts'
import { ByRun, byRun } from '#kernel/declare/run-fence.ts'
import { Fallback } from '../actions/action.ts'
import { Action, actionNames, actions, actionsWith } from '../actions/index.ts'
import { payloadOf } from '../asking/payload.ts'
import { orderIn } from '../asking/argument-order.ts'
import { endedWith, SignedReceipt, withReceipt } from '../answering/receipt.ts'
import { asker, isProjectKey, taskBehind } from '../access.ts'
import type { KnownTask } from '#kernel/ports/tasks.ts'
import { checkpointOf, requestOfCall } from '../mirror/ids.ts'
import { approvalFor, isVotedOn, mayGrant } from '../asking/approvals.ts'
import { raisedRisk } from '../asking/floors.ts'
import { CANNOT_ANSWER } from '../asking/recipients.ts'
import { routedTo, type Routed } from '../asking/routing.ts'
import { Escalation, Id, isOpen, type Approval, Priority, Quorum, Request, Risk, RoleName } from '../schema.ts'
import { RequestView, viewOf } from '../view.ts'

const label = t.String({ minLength: 1, maxLength: limits.labelCharsMax })
const CreateInput = t.Object({
  action: Action,
  role: t.Optional({
    ...RoleName,
    description: "the person asked: the agent's owner, a delegate by the owner's rules, or the first of the project who claims it",
  }),
  priority: t.Optional(Priority),
  timeout_seconds: t.Optional(t.Integer({ minimum: 0, maximum: limits.timeoutSecondsMax, description: '0: none' })),
  fallback: t.Optional(Fallback),
  agent_id: t.Optional(label),
  project_id: t.Optional(label),
  metadata: t.Optional(t.Object({ task_id: t.Optional(t.Unknown()) }, { additionalProperties: true })),
  tags: t.Optional(t.Array(label, { maxItems: limits.tagsMax })),
  payload: t.Unknown({ description: `the question itself: see ${actionNames.join(', ')}` }),
  // Ours, from here on.
  risk: t.Optional(Risk),
  quorum: t.Optional(Quorum),
  escalate: t.Optional(Escalation),
  remind_seconds: t.Optional(t.Integer({ minimum: 60, maximum: limits.timeoutSecondsMax })),
  callback: t.Optional(Id),
  call_id: t.Optional({ ...Id, description: 'the call of a tool that waits for the answer; the gate sets it' }),
  ...ByRun,
})
type CreateInput = Static<typeof CreateInput>

type Asking = {
  readonly requester: string
  readonly project_id: string
  readonly label: string | undefined
  readonly task: KnownTask | null
  readonly routed: Routed
  readonly grant: Granted | null
  /** The agent's word, or a floor above it. */
  readonly risk: Risk | undefined
  readonly floor: Request['floor']
  readonly approval: Approval | null
}

/** X14: an agent's key asks for itself, a project's key for the agents of the project; the development key under any name. */
async function requesterOf(read: Read, { agent_id }: CreateInput, actor: Actor): Promise<string> {
  if (actor.kind === 'agent') {
    if (agent_id !== undefined && agent_id !== actor.id && actor.via !== 'development')
      throw new Refusal('UNAUTHORIZED', `agent_id names another actor; you are ${actor.id}`, { field: 'agent_id' })
    return actor.id
  }
  if (!isProjectKey(actor)) return actor.id // refused by its role
  if (agent_id === undefined) throw new Refusal('INVALID_REQUEST', 'agent_id is required with the key of a project', { field: 'agent_id' })
  const found = await read.subject(agent_id)
  if (found?.kind !== 'agent' || found.disabled || !found.projects.has(actor.id))
    throw new Refusal('UNAUTHORIZED', `${agent_id} is not an agent of this project`, { field: 'agent_id' })
  return agent_id
}

/** A project of ours if the word names one; any other word is a label within the scope of the key. */
function projectOf({ project_id }: CreateInput, { projects }: Actor): { project_id: string; label: string | undefined } {
  if (projects === 'all') return { project_id: 'project_default', label: project_id }
  if (project_id !== undefined && projects.has(project_id)) return { project_id, label: project_id }
  const [first] = projects.has('project_default') ? ['project_default'] : [...projects.keys()]
  if (first === undefined) throw new Refusal('UNAUTHORIZED', 'this key is in no project')
  return { project_id: first, label: project_id }
}

/** The task that this very agent works on, if its metadata names one. */
async function taskOf(read: Read, { metadata }: CreateInput, requester: string): Promise<KnownTask | null> {
  const id = metadata?.task_id
  const task = typeof id === 'string' && id.length <= limits.idCharsMax ? await taskBehind(read, id) : null
  return task?.executor === requester ? task : null
}

/** Refuses evidence that the agent cannot read itself. */
async function refuseForeignEvidence(read: Read, { action, payload, fallback = 'pause' }: CreateInput, actor: Actor): Promise<void> {
  for (const { artifact_id, version } of actions[action].artifacts?.(payloadOf(action, payload, fallback)) ?? [])
    if (!(await read.ports.tasks.hasVersion(read, artifact_id, version, actor)))
      throw new Refusal('INVALID_REQUEST', `payload.evidence: there is no artifact ${artifact_id} ${version}`, {
        field: 'payload.evidence',
      })
}

/** A question of a call is asked once, in the batch that proposes it. */
async function refuseForeignCall(read: Read, call_id: string, requester: string): Promise<void> {
  const call = await read.ports.calls.call(read, call_id)
  if (call === null || call.agent_id !== requester || !call.isWaiting || (await read.raw(Request, requestOfCall(call_id))) !== null)
    throw new Refusal('INVALID_REQUEST', `no call ${call_id} of yours waits for a question`, { field: 'call_id' })
}

const textIn = (value: unknown): string | null => (typeof value === 'string' ? value : null)

const create = command({
  name: 'request.create',
  summary: 'Ask a person to decide, to approve, to provide or to verify something.',
  draft: 'HXP 0.1, 3 and 5.1: Create Request',
  input: CreateInput,
  output: t.Object({ request: RequestView, receipt: t.Optional(SignedReceipt) }),
  callers: [asker],
  requires: [],
  audit: 'request.created',
  asks: true,
  besides: ['attempt'],
  async load(read, input, { actor, now }): Promise<Asking> {
    authorize('request.create', [asker], actor, null)
    const requester = await requesterOf(read, input, actor)
    if (input.callback !== undefined) await refuseForeignCallback(read, input.callback, requester)
    if (input.call_id !== undefined) await refuseForeignCall(read, input.call_id, requester)
    const task = await taskOf(read, input, requester)
    const where = task === null ? projectOf(input, actor) : { project_id: task.project_id, label: input.project_id }
    const { action, role = 'owner', tags = [] } = input
    await refuseForeignEvidence(read, input, actor)
    const { scope, details } = (input.payload ?? {}) as { scope?: unknown; details?: { target?: unknown } | null }
    const about = { tags, scopes: typeof scope === 'string' ? [scope] : [], target: textIn(details?.target) }
    const raised = await raisedRisk(read, { requester, project_id: where.project_id, said: input.risk, ...about })
    // A call of a task can be asked about beside its task.
    const call = input.call_id === undefined ? null : await read.ports.calls.call(read, input.call_id)
    const behind = task ?? (call === null || call.task_id === null ? null : await read.ports.tasks.task(read, call.task_id))
    const principal = behind?.ownership.principal ?? null
    const { project_id } = where
    const approval = await approvalFor(read, {
      isVoted: isVotedOn({ action, kind: 'request' }),
      project_id,
      risk: raised.risk,
      agent: requester,
      principal,
    })
    const routed = await routedTo(read, { ...input, risk: raised.risk, action, role, tags, requester, ...where, approval }, task, now)
    // A grant is used by the executor of the task, with a key of its own.
    const mayUse = task !== null && actor.id === requester && actions[action].isVerdict === true
    const granted = mayUse && typeof scope === 'string' ? await read.grant(task.id, scope, now) : null
    const grant = granted !== null && (await mayGrant(read, project_id, approval, granted)) ? granted : null
    return { requester, ...where, task, routed, grant, approval, ...raised }
  },
  decide(state, input, context) {
    const request = requestFor(state, input, context)
    const atMost = boundsOf(request, context)
    if (state.grant === null)
      return {
        facts: createdBy(request, state.routed, byRun(input)),
        atMost,
        output: { request: viewOf(request, context.actor) },
      }
    // A grant decides the request: no person is asked, and the record names the grant as the basis.
    const { decision, id, by } = state.grant
    const basis = { kind: 'grant', id } as const
    const result = decision === 'allow' ? 'approved' : 'rejected'
    const done = endedWith(request, { status: 'completed', result, by, via: null, basis }, context)
    return {
      facts: [
        fact('request.created', [image(Request, request)]),
        fact('request.completed', [image(Request, done)], { basis, behalf: by, cause: 0, detail: { grant_id: id } }),
      ],
      atMost,
      output: { request: viewOf(done, context.actor) },
    }
  },
  // A repeated call gets the same answer; request.get returns the current state.
  finish: (output, after) => (isOpen(output.request) ? output : withReceipt(output, after())),
  example: {
    given: 'empty',
    as: 'devin',
    input: {
      action: 'DECIDE',
      agent_id: 'agent_devin',
      timeout_seconds: 3_600,
      payload: { question: 'Approve the $99/mo plan?', options: ['Approve', 'Deny'], context: 'Needed for payments.' },
    },
  },
})

/** X27: the intended person cannot answer, and the record says that the system assigned the request to another person. */
function createdBy(request: Request, { instead_of }: Routed, more: ReturnType<typeof byRun>): Made[] {
  if (instead_of === undefined) return [fact('request.created', [image(Request, request)], more)]
  const meant: Request = { ...request, people: [instead_of], assigned_to: instead_of, assigned_at: request.created_at }
  const detail = { from: instead_of, to: request.assigned_to, reason: CANNOT_ANSWER }
  return [
    fact('request.created', [image(Request, meant)], more),
    fact('request.assigned', [image(Request, request)], {
      bySystem: true,
      basis: { kind: 'policy', id: 'recipients' },
      cause: 0,
      detail,
    }),
  ]
}

function requestFor(state: Asking, input: CreateInput, { now, newId, actor, terms }: Context): Request {
  const { action, role = 'owner', priority = 'normal', timeout_seconds = 0, fallback = 'pause', metadata = {}, tags = [] } = input
  const { requester, project_id, label, task, routed, grant } = state
  const id = input.call_id === undefined ? newId('hxp') : requestOfCall(input.call_id)
  const payload = payloadOf(action, input.payload, fallback)
  if (Buffer.byteLength(canonical(metadata)) > limits.metadataBytesMax)
    throw new Refusal('INVALID_REQUEST', `metadata has at most ${limits.metadataBytesMax} bytes`, { field: 'metadata' })
  if (fallback === 'default' && (state.risk ?? 'R1') >= 'R3') {
    const why = state.floor === undefined ? '' : ` (people have given it at least ${state.floor.risk})`
    throw new Refusal('INVALID_REQUEST', `a timeout never decides a request with a risk of R3 or more${why}: choose pause or fail`, {
      field: 'fallback',
    })
  }
  refuseHastyDefault(fallback, timeout_seconds, terms)
  refuseOddQuorum(input)
  const request: Request = {
    id,
    kind: 'request',
    action,
    role,
    priority,
    timeout_seconds,
    fallback,
    agent_id: actor.kind === 'agent' ? (input.agent_id ?? requester) : requester,
    requester,
    project_id,
    metadata,
    tags,
    payload,
    created_at: now,
    expires_at: timeout_seconds === 0 ? null : timestampOf(Date.parse(now) + timeout_seconds * 1_000),
    // A pool without people: a person outside it has the request.
    status: role === 'pool' && routed.instead_of !== undefined ? 'assigned' : 'pending',
    owner: routed.owner,
    people: routed.people,
    assigned_to: routed.assigned_to,
    assigned_at: routed.assigned_to === null ? null : now,
    overdue: false,
  }
  const order = 'details' in payload ? orderIn(payload.details) : undefined
  if (order !== undefined) request.details_order = order
  if (routed.gone !== undefined) request.gone = [...routed.gone]
  if (routed.no_decider !== undefined) request.no_decider = routed.no_decider
  if (label !== undefined) request.label = label
  if (actor.id !== requester) request.asked_with = actor.id
  if (state.risk !== undefined) request.risk = state.risk
  if (state.floor !== undefined) request.floor = state.floor
  if (state.approval !== null) request.approval = state.approval
  const quorum = routed.quorum ?? input.quorum
  if (quorum !== undefined) request.quorum = quorum
  // The people of a quorum are fixed, so no one is called in.
  if (input.escalate !== undefined && quorum === undefined) request.escalation = input.escalate
  if (input.remind_seconds !== undefined) request.remind_seconds = input.remind_seconds
  if (input.callback !== undefined) request.callback = input.callback
  if (input.call_id !== undefined) request.call_id = input.call_id
  if (task === null) return request
  request.task_id = task.id
  request.root_task_id = task.root_task_id
  // If a grant answers, no person is asked and the task continues.
  if (grant === null) request.checkpoint_id = checkpointOf(id)
  return request
}

/** X29: with one second to answer in, the agent's default would always decide. */
function refuseHastyDefault(fallback: string, timeout_seconds: number, { defaultSecondsMin }: Context['terms']): void {
  if (fallback !== 'default' || timeout_seconds === 0 || defaultSecondsMin === null || timeout_seconds >= defaultSecondsMin) return
  throw new Refusal(
    'INVALID_REQUEST',
    `timeout_seconds is ${timeout_seconds}: before a default decides, people have at least ${defaultSecondsMin} seconds (0: no deadline)`,
    { field: 'timeout_seconds' },
  )
}

function refuseOddQuorum({ quorum, metadata, action }: CreateInput): void {
  if (!quorum) return
  const wrong = (message: string): never => {
    throw new Refusal('INVALID_REQUEST', message, { field: 'quorum' })
  }
  if (actions[action].votesFor === undefined) wrong(`quorum goes with ${actionsWith('votesFor')}: a ${action} comes from one person`)
  if (new Set(quorum.of).size < quorum.of.length) wrong('quorum.of names a person twice')
  if (quorum.n > quorum.of.length) wrong(`quorum.n is ${quorum.n}, but only ${quorum.of.length} are named`)
  if (metadata?.task_id !== undefined) wrong('the people of a task decide alone: a quorum does not go with metadata.task_id')
}

const ANSWER_SECONDS = 60
const HOUR_SECONDS = 3_600

function boundsOf({ requester, priority, created_at }: Request, { terms: { asksOpenMax, criticalPerHourMax } }: Context): Bound[] {
  const bounds: Bound[] = []
  if (asksOpenMax !== null)
    bounds.push({
      doc: Request,
      index: 'asker',
      prefix: [requester, 'open'],
      max: asksOpenMax,
      message: `at most ${asksOpenMax} requests of one agent may be open`,
      retry_after: ANSWER_SECONDS, // people must answer first
    })
  if (criticalPerHourMax !== null && priority === 'critical') {
    const message = `at most ${criticalPerHourMax} requests of one agent may be critical in an hour`
    const retry_after = HOUR_SECONDS - (Math.floor(Date.parse(created_at) / 1_000) % HOUR_SECONDS)
    const prefix = [requester, created_at.slice(0, 13)]
    bounds.push({ doc: Request, index: 'critical', prefix, max: criticalPerHourMax, message, retry_after })
  }
  return bounds
}

export const requestOperations = [create]
