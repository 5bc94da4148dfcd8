// Mirrored questions: a checkpoint or review of collaboration is in the inbox like any request. Only contracts call these operations, in
// the batch in which the question begins to wait, changes hands or ends.
import { definedFields } from '#kernel/codec/strict-json.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { image } from '#kernel/declare/facts.ts'
import { system } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { SignatureFields } from '#kernel/signing/input.ts'
import { command, rule, type Read } from '#kernel/declare/operation.ts'
import type { Basis } from '#kernel/log/store.ts'
import { either, nullable, t } from '#kernel/declare/schema.ts'
import { endFact, fact } from '../events.ts'
import { answeredElsewhere } from '../answering/sealed-answers.ts'
import { endedWith } from '../answering/receipt.ts'
import { approvalFor, approversBy, isVotedOn } from '../asking/approvals.ts'
import { raisedRisk } from '../asking/floors.ts'
import { isAnswerer, rerouteToPeople, reachOfTask } from '../asking/recipients.ts'
import { routedByTask, routedToApprovers } from '../asking/routing.ts'
import { changedSince, hasProof, isNotLate, isOver, isProvenFor, isStillOpen, type OfRequest, refuseChanged, requestOf } from '../access.ts'
import { Fallback } from '../actions/action.ts'
import { Action } from '../actions/index.ts'
import { type Approval, Id, Kind, MirroredPayload, Priority, Quorum, Request, Reviewed, Risk, Timestamp } from '../schema.ts'
import { RequestView, viewOf } from '../view.ts'

const { asked_by, on_expiry, option_risks } = Request.schema.properties

const mirror = command({
  name: 'request.mirror',
  summary: 'Put an item of another protocol into the inbox. The system calls it.',
  draft: 'ours: one inbox for everything that waits on a person',
  input: t.Object({
    request_id: t.Optional(Id),
    kind: Kind,
    action: Action,
    priority: Priority,
    payload: MirroredPayload,
    requester: Id,
    asked_by,
    project_id: Id,
    task_id: t.Optional(Id),
    root_task_id: t.Optional(Id),
    session_id: t.Optional(Id),
    call_id: t.Optional({ ...Id, description: 'the call whose rejection it is about' }),
    approvers: t.Optional(t.Array(Id, { maxItems: 20, description: 'the people who can answer, if there is no task' })),
    quorum: t.Optional(Quorum),
    executor: t.Optional({ ...Id, description: 'the agent that will act, where another one asks' }),
    agent_id: t.Optional(t.String({ maxLength: limits.labelCharsMax })),
    owner: Id,
    assigned_to: t.Optional(Id), // whose turn it is by the task
    timeout_seconds: t.Integer({ minimum: 0 }),
    expires_at: nullable(Timestamp),
    fallback: Fallback,
    on_expiry,
    risk: t.Optional(Risk),
    option_risks,
    checkpoint_id: t.Optional(Id),
    artifact: t.Optional(Reviewed),
  }),
  output: t.Object({ request: RequestView }),
  callers: [system],
  requires: [
    rule<{ taken: boolean }>('CONFLICT', 'it is not in the inbox yet', ({ taken }) => !taken, 'the item is in the inbox already'),
    rule<unknown, { kind: Kind }>(
      'INVALID_REQUEST',
      'another protocol asks it',
      (_, { kind }) => kind !== 'request',
      'kind request is what agents ask here: use request.create',
    ),
    rule<unknown, { task_id?: string; session_id?: string; call_id?: string; approvers?: readonly string[] }>(
      'INVALID_REQUEST',
      'it is bound to a task, or to a session or a call with its approvers',
      (_, { task_id, session_id, call_id = session_id, approvers }) =>
        (task_id === undefined) === (call_id !== undefined && approvers !== undefined),
      'give task_id, or session_id or call_id and approvers',
    ),
  ],
  audit: 'request.created',
  async load(read, input, { now }) {
    const { request_id, task_id, project_id, owner, assigned_to = owner } = input
    const task = task_id === undefined ? null : await read.ports.tasks.seenTask(read, task_id)
    const raised = await raisedFor(read, input)
    const approval = isRuled(input)
      ? await approvalFor(read, {
          isVoted: isVotedOn(input),
          project_id,
          risk: raised.risk,
          agent: input.executor ?? input.requester,
          principal: task?.ownership.principal ?? null,
        })
      : null
    const named = await namedFor(read, input, approval)
    const routed =
      task === null
        ? await routedToApprovers(read, { ...named, project_id, ...(approval === null ? {} : { approval }) }, now)
        : await routedByTask(read, task, assigned_to, now, approval)
    const taken = request_id !== undefined && (await read.maybe(Request, request_id)) !== null
    return { taken, named, routed, approval, ...raised }
  },
  decide(
    { named, routed: { gone, quorum, ...routed }, risk, floor, approval },
    { request_id, assigned_to: _, executor: __, approvers: ___, quorum: ____, ...mirrored },
    { actor, now, newId },
  ) {
    refuseRaisedDefault(mirrored.on_expiry, floor, approval)
    const request: Request = {
      id: request_id ?? newId('hxp'),
      role: 'owner',
      agent_id: mirrored.requester,
      metadata: {},
      tags: [],
      created_at: now,
      status: 'pending',
      assigned_at: routed.assigned_to === null ? null : now,
      overdue: false,
      ...mirrored,
      ...named,
      ...routed,
      ...(quorum === undefined ? {} : { quorum }),
      ...(risk === undefined ? {} : { risk }),
      ...(floor === undefined ? {} : { floor }),
      ...(approval === null ? {} : { approval }),
      ...(gone === undefined ? {} : { gone: [...gone] }),
    }
    return { facts: [fact('request.created', [image(Request, request)])], output: { request: viewOf(request, actor) } }
  },
  example: {
    given: 'task_in_progress',
    as: 'system',
    input: ({ task }) => ({
      kind: 'approval',
      action: 'APPROVE',
      priority: 'normal',
      payload: { item: 'Deploy to production?', details: {} },
      requester: 'agent_devin',
      project_id: task.project_id,
      task_id: task.id,
      root_task_id: task.root_task_id,
      owner: 'user_alice',
      assigned_to: 'user_alice',
      timeout_seconds: 0,
      expires_at: null,
      fallback: 'pause',
    }),
  },
})

/** Rules for approvals are about what agents want to do: questions of agents, and the sessions of other harnesses. Deliveries have reviewers. */
const isRuled = ({ kind, asked_by, session_id }: Pick<Request, 'kind'> & Partial<Pick<Request, 'asked_by' | 'session_id'>>): boolean =>
  kind !== 'review' && (asked_by === undefined || session_id !== undefined)

type Approving = Pick<Request, 'project_id'> & Partial<Pick<Request, 'approvers' | 'quorum'>> & { readonly executor?: string }
/** Whom a capability names, as far as the rules for approvals name them, too; they alone where it names only the owner of its agent. */
async function namedFor(
  read: Read,
  { project_id, approvers, quorum, executor }: Approving,
  approval: Approval | null,
): Promise<Pick<Request, 'approvers' | 'quorum'>> {
  if (approval === null || approvers === undefined) return definedFields({ approvers, quorum })
  const people = await approversBy(read, project_id, approval)
  const owner = executor === undefined ? null : ((await read.subject(executor))?.owner ?? null)
  const isUsual = owner !== null && approvers.every((id) => id === owner)
  const of = isUsual ? people : approvers.filter((id) => people.includes(id))
  const n = Math.max(quorum?.n ?? 1, approval.n)
  return definedFields({ approvers: isUsual ? undefined : of, quorum: n > 1 ? { n, of } : undefined })
}

type Mirrored = Pick<Request, 'kind' | 'requester' | 'project_id'> & {
  readonly payload: MirroredPayload
  readonly session_id?: string
  readonly risk?: Risk
}
/** X34: floors apply to an agent's checkpoints as to its requests. A gate sets the risk of a session; a delivery has none. */
async function raisedFor(read: Read, { kind, session_id, requester, project_id, payload, risk }: Mirrored) {
  if (kind === 'review' || session_id !== undefined) return { risk, floor: undefined }
  const { proposed_actions: actions } = (payload as { details?: { proposed_actions?: readonly { kind: string }[] } }).details ?? {}
  const scopes = actions?.map((action) => action.kind) ?? []
  return raisedRisk(read, { requester, project_id, said: risk, tags: [], scopes, target: null })
}

/** X4 with X34: what people have raised to R3 waits for them, at a checkpoint as in a request. */
function refuseRaisedDefault(on_expiry: Request['on_expiry'], floor: Request['floor'], approval: Approval | null): void {
  if (on_expiry === 'default' && approval !== null) {
    const message = 'a rule for approvals says who answers this, so no timeout does: choose hold, escalate or fail'
    throw new Refusal('INVALID_REQUEST', message, { field: 'on_expiry' })
  }
  if (on_expiry !== 'default' || floor === undefined || floor.risk < 'R3') return
  const message = `a timeout never decides what people have given a risk of at least ${floor.risk}: choose hold, escalate or fail`
  throw new Refusal('INVALID_REQUEST', message, { field: 'on_expiry' })
}

const isMirrored = rule<OfRequest>(
  'PRECONDITION_FAILED',
  'a task, a session or a call is behind it',
  ({ request }) => (request.task_id ?? request.session_id ?? request.call_id) !== undefined,
  'the request has no task, no session and no call behind it',
)

const reroute = command({
  name: 'request.reroute',
  summary: 'Bring an item up to date with its task: its deciders, whose turn it is, whether it is late. The system calls it.',
  draft: 'ours: one inbox for everything that waits on a person',
  input: t.Object({
    request_id: Id,
    assigned_to: t.Optional(Id), // whose turn it is by the task
    overdue: t.Optional(t.Boolean()),
  }),
  output: t.Object({ request: RequestView }),
  callers: [system],
  requires: [isStillOpen, isMirrored],
  audit: 'request.rerouted',
  async load(read, { request_id }, { now }) {
    const state = await requestOf(read, request_id)
    return { ...state, reach: state.task === null ? null : await reachOfTask(read, state.task, now, state.request) }
  },
  decide({ request, reach }, { assigned_to, overdue = request.overdue }, { actor, now }) {
    const next: Request = { ...rerouteToPeople(request, reach!, now, assigned_to), overdue }
    const action = overdue && !request.overdue ? 'request.expired' : 'request.rerouted'
    return {
      facts: [fact(action, [image(Request, next)])],
      output: { request: viewOf(next, actor) },
    }
  },
  example: {
    given: 'waiting',
    as: 'system',
    input: ({ checkpoint }) => ({ request_id: `hxp_${checkpoint.id.slice(5)}`, assigned_to: 'user_alice' }),
  },
})

const bind = command({
  name: 'request.bind',
  summary:
    'Bind a request of a task to the checkpoint that replaces its own, with a note about what happened in between. The system calls it.',
  draft: 'ours: a checkpoint that replaces another asks the same question',
  input: t.Object({ request_id: Id, checkpoint_id: Id, notice: t.String({ maxLength: limits.promptCharsMax }) }),
  output: t.Object({ request: RequestView }),
  callers: [system],
  requires: [isStillOpen, isMirrored],
  audit: 'request.bound',
  load: async (read, { request_id }) => requestOf(read, request_id),
  decide({ request }, { checkpoint_id, notice }, { actor }) {
    const next: Request = { ...request, checkpoint_id, notice }
    return { facts: [fact('request.bound', [image(Request, next)])], output: { request: viewOf(next, actor) } }
  },
  example: {
    given: 'bound',
    as: 'system',
    input: ({ request }) => ({ request_id: request.id, checkpoint_id: request.checkpoint_id, notice: 'The task is late.' }),
  },
})

type Ruled = OfRequest & { readonly mayDecide: boolean }
/** The rules for approvals also apply to an answer given in another protocol, where one person's word would do. */
const isByThoseAllowed = rule<Ruled, Closing>(
  'UNAUTHORIZED',
  'the rules for approvals let this person answer, and alone',
  ({ request, mayDecide }, { by, status }) =>
    request.approval === undefined ||
    by === undefined ||
    (status !== 'completed' && status !== 'declined') ||
    (mayDecide && (status === 'declined' || (request.quorum === undefined && request.approval.n === 1))),
  'the rules for approvals name the people who answer this, and how many have to agree: they answer in the inbox (request.resolve)',
)

type Closing = { readonly status: string; readonly by?: string }

const close = command({
  name: 'request.close',
  summary: 'End an item whose checkpoint or review was answered or ended elsewhere. The system calls it.',
  draft: 'ours: the first answer wins, on whichever side it is given',
  input: t.Object({
    request_id: Id,
    status: either('completed', 'failed', 'cancelled', 'declined'),
    result: t.Optional(t.Unknown()),
    reason: t.Optional(t.String({ maxLength: limits.reasonCharsMax })),
    by: t.Optional(Id),
    as: t.Optional(t.String({ maxLength: limits.idCharsMax })),
    via: t.Optional(nullable(t.String({ maxLength: 40 }))),
    basis: t.Object({ kind: t.String({ maxLength: 40 }), id: t.String({ maxLength: limits.labelCharsMax }) }),
    digest: t.Optional(t.String({ maxLength: 100, description: 'only if the item still has this digest' })),
    assertion: t.Optional(SignatureFields),
  }),
  output: t.Object({ request: RequestView }),
  callers: [system],
  requires: [
    isStillOpen,
    isMirrored,
    isByThoseAllowed,
    // An answer given in another protocol also needs a sign-in that is fresh enough.
    rule<OfRequest, { readonly via?: string | null }>(
      hasProof.code,
      hasProof.message,
      ({ request }, { via }) => isProvenFor(request, via),
      hasProof.refusal,
    ),
    // The deadline also applies to an answer given in another protocol.
    rule<OfRequest, Closing>(
      isNotLate.code,
      isNotLate.message,
      ({ request }, { by, status }, context) =>
        by === undefined || status !== 'completed' || request.fallback === 'pause' || !isOver(request, context),
      isNotLate.refusal,
    ),
  ],
  audit: 'request.completed',
  async load(read, { request_id, digest, by }, { now }) {
    const state = await requestOf(read, request_id)
    const mayDecide = by === undefined || (await isAnswerer(read, state, by, now))
    return { ...state, mayDecide, changed: await changedSince(read, state.request, digest) }
  },
  decide({ request, changed }, { request_id: _, digest, result = null, by = null, basis, as = 'system', assertion, ...ending }, context) {
    refuseChanged(digest, request, undefined, changed)
    const answered = ending.status === 'completed' ? answeredElsewhere(request, { ...ending, result }) : result
    const { status } = ending
    const how = status === 'declined' ? ({ status: 'failed', declined: true } as const) : { status }
    const done = endedWith(request, { ...ending, ...how, result: answered, by, as, basis: basis as Basis, signature: assertion }, context)
    return {
      facts: [endFact(done)],
      output: { request: viewOf(done, context.actor) },
    }
  },
  example: {
    given: 'waiting',
    as: 'system',
    input: ({ checkpoint }) => ({
      request_id: `hxp_${checkpoint.id.slice(5)}`,
      status: 'completed',
      result: 'approved',
      by: 'user_alice',
      basis: { kind: 'role', id: 'answered at the checkpoint' },
    }),
    // An item that still waits elsewhere is unanswered, so it is not closed here.
    refused: 'UNAUTHORIZED',
  },
})

export const mirrorOperations = [mirror, reroute, bind, close]
