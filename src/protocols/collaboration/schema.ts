// The seven objects of the draft. Field names are the draft's; our own are marked.
import { ORG_SCOPE, readsProject, speaksFor, type Actor } from '#kernel/declare/access.ts'
import { activeUntil } from '#kernel/codec/timestamps.ts'
import { Evidence } from '#kernel/declare/evidence.ts'
import { limits } from '#kernel/limits.ts'
import { doc, either, index, nullable, refusedAs, t, type Static } from '#kernel/declare/schema.ts'
import * as blobs from '#kernel/ports/blobs.ts'
import { judgesOf } from '#kernel/ports/tasks.ts'
import { isTerminal, taskStates } from './states.ts'

const text = (maxLength: number, description?: string) => t.String({ maxLength, ...(description ? { description } : {}) })
const someText = (maxLength: number) => t.String({ minLength: 1, maxLength })
export const Id = text(limits.idCharsMax)
export const Timestamp = text(40, 'an RFC 3339 time')
/** The digest of the item in the inbox, checked when the item is closed. */
export const Digest = t.Optional(text(100, 'answer only if the item in the inbox still has this digest'))
export const Duration = text(40, 'an ISO 8601 duration such as PT30M')
const ActorId = Id

// --- Task ------------------------------------------------------------------------------------------------------------------

const InputRef = t.Object({
  kind: either('artifact', 'resource'),
  id: Id,
  version: t.Optional(text(40)),
  uri: t.Optional(text(2_000)),
})
const CapabilityRef = t.Object({ capability_id: someText(200), version: someText(40) })
/** A system of others that the work is about. It is stored and shown, never resolved or called. */
const ExternalRef = t.Object({
  kind: someText(limits.labelCharsMax),
  namespace: someText(limits.labelCharsMax),
  id: someText(limits.uriCharsMax),
  version: t.Optional(nullable(text(limits.labelCharsMax))),
  label: t.Optional(nullable(text(limits.labelCharsMax))),
})
export const ReviewQuorum = either('all', 'majority', 'any')
const RequiredReviewers = t.Array(ActorId, { minItems: 1, maxItems: limits.reviewersMax })
export const ExpiryPolicy = either('hold', 'escalate', 'fail', 'default')
const Constraints = t.Object({
  max_duration: t.Optional(Duration),
  must_use_capabilities: t.Optional(t.Array(CapabilityRef, { maxItems: limits.capabilitiesMax })),
  /** Continuous control: how much the agent can do by itself. */
  autonomy: t.Optional(either('autonomous', 'plan_then_implement', 'confirm_each_action', 'read_only')),
  /** Ours: policies for checkpoints without an answer in time, in addition to waiting and asking the next person. */
  on_expiry: t.Optional(t.Array(ExpiryPolicy, { maxItems: 4 })),
  external_refs: t.Optional(t.Array(ExternalRef, { maxItems: limits.externalRefsMax })),
})
export const TaskSpec = t.Object({
  goal: someText(limits.goalCharsMax),
  acceptance_criteria: t.Array(someText(limits.textCharsMax), { maxItems: limits.criteriaMax }),
  inputs: t.Array(InputRef, { maxItems: limits.inputsMax }),
  constraints: Constraints,
  /** HLP: whose verdicts on a deliverable count, and how many approve it. */
  review_policy: t.Optional(t.Object({ required_reviewers: RequiredReviewers, quorum: ReviewQuorum })),
})
/** The spec in an input: only the goal is required. */
export const TaskSpecInput = refusedAs(
  'INVALID_SPEC',
  t.Object({
    goal: someText(limits.goalCharsMax),
    acceptance_criteria: t.Optional(TaskSpec.properties.acceptance_criteria),
    inputs: t.Optional(TaskSpec.properties.inputs),
    constraints: t.Optional(Constraints),
    review_policy: t.Optional(
      t.Object(
        {
          required_reviewers: RequiredReviewers,
          quorum: t.Optional({ ...ReviewQuorum, description: 'how many of the reviewers must approve: all by default' }),
        },
        { description: 'the people who review what is delivered, and how many must approve: all of them by default, majority or any' },
      ),
    ),
  }),
)

/** The origin of a task in another system: the names of its conversation and message there. */
const OriginName = (description: string) => t.String({ minLength: 1, maxLength: limits.a2aIdCharsMax, description })
export const Origin = t.Object({
  protocol: t.Enum(['a2a'], { description: 'the protocol that it came by' }),
  context_id: OriginName('the conversation there'),
  message_id: OriginName('the message there'),
})

export const Via = either('assign', 'checkpoint', 'approve', 'reject', 'handoff')
export type Via = Static<typeof Via>
const OwnershipTransfer = t.Object({
  from: ActorId,
  to: ActorId,
  at: Timestamp,
  via: Via,
  reason: text(40, 'ours: which operation, where the five words of `via` do not say it'),
})
const Ownership = t.Object({
  task_id: Id,
  principal: ActorId,
  assignee: ActorId,
  delegable: t.Boolean(),
  chain: t.Array(OwnershipTransfer),
})

/** `by`: the reviewer, or a substitute. */
const Vote = t.Object({ reviewer: ActorId, by: ActorId, verdict: either('approved', 'changes_requested', 'rejected'), review_id: Id })
/** The revision that the caller saw. */
export const ExpectedRevision = {
  expected_task_revision: t.Optional(
    t.Integer({ minimum: 0, description: 'change the task only if it still has this revision: refused with CONFLICT otherwise' }),
  ),
}

const TaskSchema = t.Object({
  id: Id,
  project_id: Id,
  type: text(limits.labelCharsMax),
  spec: TaskSpec,
  ownership: Ownership,
  state: either(...taskStates),
  parent_task: nullable(Id),
  root_task_id: Id, // ours: the whole tree under one id
  created_at: Timestamp,
  deadline: nullable(Timestamp),
  checkpoints: t.Array(Id),
  artifacts: t.Array(Id),
  audit_trail: nullable(Id), // the task's first event; its id is its place in the record
  // Ours, from here on.
  executor: nullable(ActorId), // who works on it, also while a person holds it
  executors: t.Array(ActorId), // every executor ever: they can read it
  delegators: t.Array(ActorId), // the agents that delegated it as a part of their own task: they can read it
  reviewers: t.Array(ActorId),
  children: t.Array(Id),
  new_attempt: t.Optional(t.Boolean()), // a new attempt at its parent, which was rejected
  depth: t.Integer(), // delegations between this task's executor and the person who handed it over
  pending_checkpoint: nullable(Id),
  taken_over: t.Optional(Id), // the checkpoint of a person's takeover, which lasts while it is pending
  outcome: nullable(either('accepted', 'cancelled', 'rejected_at_checkpoint', 'rejected_in_review')),
  outcome_reason: nullable(t.String()),
  overdue: t.Boolean(),
  max_duration: nullable(Duration),
  active_ms: t.Integer(), // time in in_progress before `active_since`
  active_since: nullable(Timestamp),
  plan_approved: t.Boolean(),
  delivered: t.Optional(t.Object({ artifact_id: Id, version: text(40) })), // the version delivered last: verdicts are about it
  amendments: t.Integer(), // entries of the steering log
  origin: t.Optional(Origin),
  // HLP: raised by one in each command that changes the task. Absent if no command has changed it since it is counted: 0.
  revision: t.Optional(t.Integer({ minimum: 0 })),
  // While a deliverable is reviewed by a review_policy: the latest verdict for each required reviewer on that version.
  votes: t.Optional(t.Array(Vote)),
})
export type Task = Static<typeof TaskSchema>

export const Task = doc('collaboration.task', TaskSchema, {
  scopeOf: (task) => task.project_id,
  taskOf: (task) => task.id,
  rootOf: (task) => task.root_task_id,
  visibleTo: mayRead,
  counter: 'revision',
  indexes: {
    state: index((task) => [[task.project_id, task.state]]),
    party: index((task) => partiesOf(task).map((who) => [who, task.project_id, task.state])),
    root: index((task) => (task.root_task_id === task.id ? [] : [[task.root_task_id]]), 1),
    // Indexed on the task and not on the checkpoint, because the people who can answer change with its reviewers and executor.
    waiting: index((task) => {
      const { pending_checkpoint } = task
      return pending_checkpoint === null ? [] : judgesOf(task).map((who) => [who, pending_checkpoint])
    }),
    // Versions of other tasks that its executor can read.
    input: index(({ executor, spec }) => (executor === null ? [] : versionsIn(spec).map((version) => [executor, version]))),
  },
  // An overdue task needs no timer: a person was asked already.
  due: (task) =>
    isTerminal(task.state) || task.overdue
      ? []
      : [task.deadline, task.active_since === null ? null : activeUntil(task, task.active_since)].map((at) => ({
          at,
          call: 'collaboration/task.overdue',
          input: { task_id: task.id },
        })),
})

const versionsIn = ({ inputs }: Task['spec']): string[] => [
  ...new Set(inputs.flatMap(({ kind, id, version }) => (kind === 'artifact' && version !== undefined ? [versionId(id, version)] : []))),
]
/** The people and agents of a task. */
function partiesOf(task: Task): string[] {
  return [...new Set([task.ownership.principal, ...task.reviewers, ...task.executors, ...task.delegators])]
}
/** "Any authorized actor": the principal, reviewers, every executor, every delegator, and owners of the project. */
function mayRead(task: Task, actor: Actor): boolean {
  return partiesOf(task).some((who) => speaksFor(actor, who, task.project_id)) || readsProject(actor, task.project_id)
}

// --- Checkpoint ------------------------------------------------------------------------------------------------------------

export const CheckpointKind = refusedAs('INVALID_SPEC', either('approval', 'choice', 'input', 'escalation'))
export const CheckpointOption = t.Object({
  id: someText(limits.idCharsMax),
  label: someText(limits.labelCharsMax),
  risk: refusedAs('INVALID_SPEC', either('low', 'medium', 'high')),
})
export const ProposedAction = t.Object({
  id: someText(limits.idCharsMax),
  kind: someText(limits.labelCharsMax),
  summary: someText(limits.textCharsMax),
  detail: t.Optional(text(limits.textCharsMax)),
  permission_scope: t.Optional(text(limits.labelCharsMax)),
  risk: refusedAs('INVALID_SPEC', either('low', 'medium', 'high')),
})
const ActionIds = t.Array(t.String({ maxLength: limits.idCharsMax }), { maxItems: limits.actionsMax })
export const ResolveAction = refusedAs('INVALID_SPEC', either('approve', 'reject', 'choose', 'provide', 'reassign'))
export const CheckpointAnswer = t.Object({
  action: ResolveAction,
  choice: t.Optional(text(limits.idCharsMax)),
  input: t.Optional(text(limits.textCharsMax)),
  reassign_to: t.Optional(Id),
  comment: t.Optional(text(limits.textCharsMax)),
  approved_actions: t.Optional(ActionIds),
  denied_actions: t.Optional(ActionIds),
  state_patch: t.Optional(t.Unknown({ description: 'a JSON Merge Patch (RFC 7396) on the state that the agent showed' })),
  edited_artifact_ref: t.Optional(t.Object({ artifact_id: Id, version: text(40) })),
})
export type CheckpointAnswer = Static<typeof CheckpointAnswer>
const CheckpointResolution = t.Object({
  by: ActorId,
  ...CheckpointAnswer.properties,
  state: t.Optional(t.Unknown({ description: 'the state as the person left it: resume from here' })),
  at: Timestamp,
})

export const Checkpoint = doc(
  'collaboration.checkpoint',
  t.Object({
    id: Id,
    task_id: Id,
    project_id: Id,
    root_task_id: Id,
    kind: either('approval', 'choice', 'input', 'escalation', 'interrupt'),
    prompt: text(limits.promptCharsMax),
    options: t.Array(CheckpointOption),
    context: t.Array(Evidence),
    state: either('pending', 'resolved', 'expired'),
    raised_at: Timestamp,
    expires_at: nullable(Timestamp),
    resolution: nullable(CheckpointResolution),
    proposed_actions: t.Array(ProposedAction),
    state_shown: t.Unknown(), // the state that the agent would resume from
    state_schema: t.Unknown(), // the schema of a patched state; null: any
    // Ours, from here on.
    raised_by: ActorId,
    on_expiry: ExpiryPolicy,
    default: nullable(CheckpointAnswer),
    routed_to: ActorId, // the current recipient; authority does not depend on it
    succeeds: nullable(Id), // the checkpoint that this one replaces
    // The kind of an escalated question, which is answered as before.
    escalates: t.Optional(either('approval', 'choice', 'input', 'escalation', 'interrupt')),
    // The question that ended without an answer because the system asked its own question.
    supersedes: t.Optional(t.Object({ checkpoint_id: Id, prompt: text(limits.promptCharsMax) })),
    reason: t.Optional(either('superseded', 'declined')), // why it expired before its time
    declined: t.Optional(t.Array(t.Object({ by: ActorId, reason: text(limits.textCharsMax), at: Timestamp }))), // also before escalation
    overdue: t.Boolean(),
    brings: t.Optional(t.Array(Id)), // interrupts of tasks below that were raised with this one and are answered with it
    takeover: t.Boolean(), // an interrupt under which a person works on the task themself
    request_id: t.Optional(Id), // the request that the task waits for: it is answered there, or here
  }),
  {
    scopeOf: (checkpoint) => checkpoint.project_id,
    taskOf: (checkpoint) => checkpoint.task_id,
    rootOf: (checkpoint) => checkpoint.root_task_id,
    within: (checkpoint) => ({ doc: Task, id: checkpoint.task_id }),
    indexes: {
      task: index((checkpoint) => [[checkpoint.task_id]]),
      open: index((checkpoint) => (checkpoint.state === 'pending' ? [[checkpoint.raised_by]] : []), 1),
    },
    due: ({ id, state, overdue, expires_at, on_expiry }) => [
      {
        at: state === 'pending' && !overdue ? expires_at : null,
        call: `collaboration/checkpoint.${on_expiry === 'hold' ? 'overdue' : 'expire'}`,
        input: { checkpoint_id: id },
      },
    ],
  },
)
export type Checkpoint = Static<typeof Checkpoint.schema>

// --- Artifact --------------------------------------------------------------------------------------------------------------

export const ReviewKind = refusedAs('INVALID_SPEC', either('plan', 'deliverable'))
export const PayloadKind = refusedAs('INVALID_SPEC', either('diff', 'blob', 'ref', 'inline'))
export const Checksum = refusedAs('INVALID_SPEC', blobs.Checksum)
export const FileName = refusedAs('INVALID_SPEC', blobs.FileName)
export const MediaType = refusedAs('INVALID_SPEC', blobs.MediaType)
const ArtifactPayload = t.Object({
  kind: either('diff', 'blob', 'ref', 'inline'),
  uri: text(limits.uriCharsMax),
  checksum: Checksum,
  size: t.Integer({ minimum: 0 }),
  verified: t.Boolean(), // ours: the server has hashed the bytes
  // As they were uploaded.
  name: t.Optional(FileName),
  media_type: t.Optional(MediaType),
})
const references = either('input', 'output')
export const ReferenceAs = refusedAs('INVALID_SPEC', either('input', 'output'))
const ArtifactRef = t.Object({ task_id: Id, as: references })

/** One version. It never changes; references to it are separate documents, shown with it. */
export const ArtifactVersion = doc(
  'collaboration.artifact',
  t.Object({
    id: text(130), // `${artifact_id}@${version}`
    artifact_id: Id,
    project_id: Id,
    root_task_id: Id,
    type: text(limits.labelCharsMax),
    provenance: t.Object({ produced_by: Id, produced_at: Timestamp, actor: ActorId }),
    version: text(40),
    parent_version: nullable(text(40)),
    payload: ArtifactPayload,
    kind: either('plan', 'deliverable'),
  }),
  {
    scopeOf: (version) => version.project_id,
    taskOf: (version) => version.provenance.produced_by,
    rootOf: (version) => version.root_task_id,
    within: (version) => ({ doc: Task, id: version.provenance.produced_by }),
  },
)
export type ArtifactVersion = Static<typeof ArtifactVersion.schema>
export const versionId = (artifact_id: string, version: string): string => `${artifact_id}@${version}`

/** The newest version of an artifact. */
export const ArtifactHead = doc(
  'collaboration.artifact_head',
  t.Object({ id: Id, task_id: Id, project_id: Id, root_task_id: Id, version: text(40), versions: t.Integer() }),
  {
    noun: 'artifact',
    scopeOf: (head) => head.project_id,
    taskOf: (head) => head.task_id,
    rootOf: (head) => head.root_task_id,
    within: (head) => ({ doc: Task, id: head.task_id }),
  },
)
export type ArtifactHead = Static<typeof ArtifactHead.schema>

/** An edge: a task refers to one version. */
export const Reference = doc(
  'collaboration.reference',
  t.Object({
    id: text(300),
    task_id: Id,
    project_id: Id,
    root_task_id: Id,
    artifact_id: Id,
    version: text(40),
    as: references,
    at: Timestamp,
  }),
  {
    scopeOf: (reference) => reference.project_id,
    taskOf: (reference) => reference.task_id,
    rootOf: (reference) => reference.root_task_id,
    within: (reference) => ({ doc: Task, id: reference.task_id }),
    indexes: { artifact: index((reference) => [[versionId(reference.artifact_id, reference.version)]]) },
  },
)

const { id: _id, artifact_id: _artifact, ...versionFields } = ArtifactVersion.schema.properties
/** The draft's Artifact: one version with the references to it. */
export const Artifact = t.Object({ id: Id, ...versionFields, references: t.Array(ArtifactRef) })
export type Artifact = Static<typeof Artifact>
export function artifactOf({ id: _, artifact_id, ...version }: ArtifactVersion, references: Artifact['references']): Artifact {
  return { ...version, id: artifact_id, references }
}

// --- Review ----------------------------------------------------------------------------------------------------------------

export const Verdict = refusedAs('INVALID_SPEC', either('approved', 'changes_requested', 'rejected'))
export const ReviewComment = t.Object({
  anchor: t.Optional(text(limits.labelCharsMax)),
  severity: refusedAs('INVALID_SPEC', either('blocker', 'major', 'minor', 'nit')),
  body: someText(limits.textCharsMax),
})
export const Review = doc(
  'collaboration.review',
  t.Object({
    id: Id,
    task_id: Id,
    project_id: Id,
    root_task_id: Id,
    artifact_id: Id,
    artifact_version: text(40), // ours: the draft locks the version everywhere else
    reviewer: ActorId,
    kind: either('plan', 'deliverable'),
    verdict: either('approved', 'changes_requested', 'rejected'),
    comments: t.Array(ReviewComment),
    requested_changes: t.Array(t.String()),
    at: Timestamp,
  }),
  {
    scopeOf: (review) => review.project_id,
    taskOf: (review) => review.task_id,
    rootOf: (review) => review.root_task_id,
    within: (review) => ({ doc: Task, id: review.task_id }),
    indexes: { task: index((review) => [[review.task_id]]) },
  },
)
export type Review = Static<typeof Review.schema>

/** Ours: a comment in addition to the reviews. It carries no verdict and changes no review. */
export const Comment = doc(
  'collaboration.comment',
  t.Object({
    id: Id,
    task_id: Id,
    project_id: Id,
    root_task_id: Id,
    artifact_id: Id,
    artifact_version: text(40),
    review_id: nullable(Id),
    by: ActorId,
    ...ReviewComment.properties,
    at: Timestamp,
  }),
  {
    scopeOf: (comment) => comment.project_id,
    taskOf: (comment) => comment.task_id,
    rootOf: (comment) => comment.root_task_id,
    within: (comment) => ({ doc: Task, id: comment.task_id }),
    indexes: { task: index((comment) => [[comment.task_id]]) },
  },
)

// --- Continuous control ------------------------------------------------------------------------------------------------------

export const Intent = refusedAs('INVALID_SPEC', either('redirect', 'clarify', 'constrain', 'abort_hint'))
/** One entry of the steering log. */
export const Amendment = doc(
  'collaboration.amendment',
  t.Object({
    id: Id,
    task_id: Id,
    project_id: Id,
    root_task_id: Id,
    text: text(limits.textCharsMax),
    intent: either('redirect', 'clarify', 'constrain', 'abort_hint'),
    by: ActorId,
    at: Timestamp,
  }),
  {
    scopeOf: (amendment) => amendment.project_id,
    taskOf: (amendment) => amendment.task_id,
    rootOf: (amendment) => amendment.root_task_id,
    within: (amendment) => ({ doc: Task, id: amendment.task_id }),
    indexes: { task: index((amendment) => [[amendment.task_id]]) },
  },
)

export const GrantScope = refusedAs(
  'INVALID_SPEC',
  t.String({
    // HLP's grammar, and bare words. Blanks and signs without a shape are refused: people read a scope before they allow it.
    pattern: '^([*]|[a-z0-9][a-z0-9._-]{0,63}(:([*]|[!-)+-~\u00c0-\u02af\u0370-\u052f\u3041-\ud7a3]{1,190}[*]?))?)$',
    description:
      'a word such as deploy, or a namespace and a target such as shell:read, fs:/repo:* or gate:<server>/<tool>; a * at the end covers all that begins like it, and * alone covers everything',
  }),
)
export const GrantUntil = t.String({ minLength: 4, maxLength: 40, description: '`session` (this run), `task`, or an RFC 3339 time' })
/**
 * Append-only: a deny overrides every allow, and the latest allow of a scope overrides earlier ones. Only the number of uses and the
 * revocation change later.
 */
export const Grant = doc(
  'collaboration.grant',
  t.Object({
    id: Id,
    task_id: Id,
    project_id: Id,
    root_task_id: Id,
    scope: t.String(),
    decision: either('allow', 'deny'),
    until: t.String(),
    uses: nullable(t.Integer({ minimum: 1 })),
    used: t.Integer(),
    granted_by: ActorId,
    granted_at: Timestamp,
    revoked_at: nullable(Timestamp),
    executor: nullable(ActorId), // with until `session`: the agent
    run: t.Optional(nullable(Id)), // with until `session`: the run; null: the first that begins
    after_run: t.Optional(nullable(Id)), // if there was no run: the last run before
  }),
  {
    scopeOf: (grant) => grant.project_id,
    taskOf: (grant) => grant.task_id,
    rootOf: (grant) => grant.root_task_id,
    within: (grant) => ({ doc: Task, id: grant.task_id }),
    indexes: {
      task: index((grant) => [[grant.task_id]], 1),
      // Live grants sort before spent ones.
      giver: index((grant) => [[grant.granted_by, isSpent(grant) ? 'over' : 'live', grant.granted_at]]),
    },
  },
)
export type Grant = Static<typeof Grant.schema>
/** A grant that is revoked or used up. */
type Spending = { readonly revoked_at: string | null; readonly uses: number | null; readonly used: number }
export const isSpent = ({ revoked_at, uses, used }: Spending): boolean => revoked_at !== null || (uses !== null && used >= uses)
/** The grants that speak for a scope: the last allow, and every deny. */
export const GrantHead = doc(
  'collaboration.grant_head',
  t.Object({
    id: text(300),
    task_id: Id,
    project_id: Id,
    root_task_id: Id,
    grant_id: nullable(Id),
    denies: t.Optional(t.Array(Id)),
  }),
  {
    scopeOf: (head) => head.project_id,
    taskOf: (head) => head.task_id,
    rootOf: (head) => head.root_task_id,
    within: (head) => ({ doc: Task, id: head.task_id }),
  },
)
/** The scopes of a task's grants. It is read with every look at them, so a concurrent grant is never missed. */
export const GrantScopes = doc(
  'collaboration.grant_scopes',
  t.Object({ id: Id, project_id: Id, root_task_id: Id, scopes: t.Array(t.String()) }),
  {
    scopeOf: (scopes) => scopes.project_id,
    taskOf: (scopes) => scopes.id,
    rootOf: (scopes) => scopes.root_task_id,
    within: (scopes) => ({ doc: Task, id: scopes.id }),
  },
)
export const grantHeadId = (task_id: string, scope: string): string => `${task_id}/${scope}`

// --- Ledger ----------------------------------------------------------------------------------------------------------------

export const LedgerScope = t.String({
  pattern: '^(org|project:project_[A-Za-z0-9_-]{1,64})$',
  description: '`org` or `project:<project id>`',
})
export const LedgerKey = t.String({ minLength: 1, maxLength: limits.ledgerKeyCharsMax })

const ledgerScopeOf = (scope: string): string => (scope === 'org' ? ORG_SCOPE : scope.slice('project:'.length))

/** A ledger, keyed by its scope and created at the first write. */
export const Ledger = doc('collaboration.ledger', t.Object({ id: text(90), ledger_id: Id, scope: text(90) }), {
  scopeOf: (ledger) => ledgerScopeOf(ledger.scope),
})
export const LedgerEntry = doc(
  'collaboration.entry',
  t.Object({
    id: text(400), // `${ledger_id}/${version, 12 digits}/${key}`
    ledger_id: Id,
    scope: text(90),
    key: LedgerKey,
    value: t.Unknown(),
    version: t.Integer(),
    written_at: Timestamp,
    by: Id, // the task for which it was written
    root_task_id: Id,
    actor: ActorId,
  }),
  {
    scopeOf: (entry) => ledgerScopeOf(entry.scope),
    taskOf: (entry) => entry.by,
    rootOf: (entry) => entry.root_task_id,
    indexes: { history: index((entry) => [[entry.ledger_id, entry.key, entry.version]]) },
  },
)
export type LedgerEntry = Static<typeof LedgerEntry.schema>
/** The newest version of a key. */
export const LedgerHead = doc(
  'collaboration.ledger_head',
  t.Object({ id: text(400), scope: text(90), entry_id: text(400), version: t.Integer() }),
  {
    scopeOf: (head) => ledgerScopeOf(head.scope),
  },
)
export const ledgerHeadId = (scope: string, key: string): string => `${scope}/${key}`

export { isTerminal }
