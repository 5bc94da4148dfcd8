// Tasks: created and assigned by people, started by their executors, ended by people or by acceptance.
import { Refusal } from '#kernel/declare/errors.ts'
import { image } from '#kernel/declare/facts.ts'
import { anyone, heldBy, isViewer, role, system, type Actor, type Subject } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, freshProof, query, rule, type Bound, type Read } from '#kernel/declare/operation.ts'
import { nullable, t, type Static } from '#kernel/declare/schema.ts'
import { futureTimestamp } from '#kernel/codec/timestamps.ts'
import { fact } from '../events.ts'
import { cancelFamily, familyOf, hasEndedAbove, withoutChildren } from '../task/cancellation.ts'
import { answeredAlong, applyAnswer, broughtBy, type Resolving } from '../task/answering.ts'
import { fitAnswer } from '../task/checkpoints.ts'
import { moveTask, withExecutor, workedOnBy } from '../task/ownership.ts'
import {
  agentFor,
  allows,
  executor,
  isInTime,
  leavesSpecAlone,
  principal,
  reviewerFor,
  workerFor,
  isAtRevision,
  leavesReviewersFree,
} from '../access.ts'
import { Checkpoint, ExpectedRevision, Id, isTerminal, Origin, Task, TaskSpecInput, Timestamp } from '../schema.ts'
import { FirstGrant, firstGrants } from '../task/new-grants.ts'
import { refuseUnfitReviewers, refuseUnknownInputs, specOf } from '../task/spec.ts'

const untouchedSpec = { spec: t.Optional(t.Unknown({ description: 'refused: a spec never changes' })) }

type Creating = {
  readonly project_id: string
  readonly parent: Task | null
  readonly isUnderEnded: boolean
  readonly hasGrants: boolean
  readonly hasUnsigned: boolean
  readonly unmet: string | null
}
/** The parent while it is active: its people and agents might still need room for children of their own. */
const activeIn = ({ parent }: Creating): Task | null => (parent && !isTerminal(parent.state) ? parent : null)
const isOfProject = (actor: Actor, { project_id }: Creating): boolean =>
  actor.kind === 'human' && actor.projects !== 'all' && actor.projects.has(project_id) && !isViewer(actor, project_id)
const personOfProject = role<Creating>('a person of the project', (actor, state) => activeIn(state) === null && isOfProject(actor, state))
/** The number of children is bounded, so a mere reader of a task must not use up the room of its principal and executor. */
const parentsPrincipal = heldBy(
  "the parent task's principal",
  role<Creating>(
    'principal of the parent',
    (actor, state) => {
      const task = activeIn(state)
      return task !== null && isOfProject(actor, state) && principal.is(actor, { task })
    },
    (actor, state) => {
      const task = activeIn(state)
      return task && principal.behalf(actor, { task })
    },
  ),
)
const inProject = (actor: Actor, project_id: string): boolean => actor.projects === 'all' || actor.projects.has(project_id)

/** Cancelling a root cancels its whole tree in one batch, so the size of a tree is bounded. */
export const treeBound = (root: string): Bound => ({
  doc: Task,
  index: 'root',
  prefix: [root],
  max: limits.tasksPerRootMax - 1,
  message: `a task has at most ${limits.tasksPerRootMax - 1} descendants`,
})

const create = command({
  name: 'task.create',
  summary: 'Create a task. You become its principal; that cannot be changed.',
  draft: 'HACP 0.1.0, Task; Operations',
  input: t.Object({
    project_id: t.Optional(Id),
    type: t.Optional(t.String({ minLength: 1, maxLength: limits.labelCharsMax })),
    spec: TaskSpecInput,
    parent_task: t.Optional(t.Union([Id, t.Null()])),
    deadline: t.Optional(t.Union([Timestamp, t.Null()])),
    delegable: t.Optional(t.Boolean()),
    reviewers: t.Optional(t.Array(Id, { maxItems: limits.reviewersMax })),
    grants: t.Optional(
      t.Array(FirstGrant, {
        maxItems: limits.firstGrantsMax,
        description: 'scopes that are allowed or denied from the beginning, like grant.add; until session: for the first run',
      }),
    ),
    origin: t.Optional(Origin),
  }),
  output: t.Object({ task: Task.schema }),
  callers: [personOfProject, parentsPrincipal],
  requires: [
    freshProof<Creating>(({ hasGrants }) => !hasGrants),
    rule<Creating>(
      'PASSKEY_REQUIRED',
      'no policy wants grants to be signed by passkey, or the task begins with none that allows',
      ({ hasUnsigned }) => !hasUnsigned,
      'grants: a policy of the project wants each one signed by your passkey: create the task without them, and add them with grant.add',
    ),
    rule<Creating>(
      'PRECONDITION_FAILED',
      'the parent task has not ended, or it was rejected and this is a new attempt; nor has a task above it',
      ({ isUnderEnded }) => !isUnderEnded,
      'the parent task has ended, or a task above it: nothing can begin below it',
    ),
    rule<Creating>(
      'NO_RECIPIENT',
      'the rules for approvals leave someone to decide, of the principal and the reviewers',
      ({ unmet }) => unmet === null,
      'the rules for approvals of the project leave nobody to decide: name reviewers',
      ({ unmet }) => `the rules for approvals leave nobody to decide on the task (${unmet!}): name them as reviewers`,
    ),
  ],
  audit: 'task.created',
  async load(read, { project_id = 'project_default', parent_task = null, reviewers = [], grants = [], spec }, { actor, now }) {
    const hasGrants = grants.length > 0
    if (!inProject(actor, project_id)) throw new Refusal('NOT_FOUND', `there is no project ${project_id}`)
    if (actor.kind !== 'human') return { project_id, parent: null, isUnderEnded: false, hasGrants, hasUnsigned: false, unmet: null }
    await refuseUnknownInputs(read, spec, project_id, actor)
    await refuseUnfitReviewers(read, spec, project_id)
    await Promise.all(reviewers.map((id) => reviewerFor(read, id, project_id)))
    const unmet = await read.ports.policies.unmet(read, {
      project_id,
      principal: actor.id,
      judges: [actor.id, ...reviewersOf(reviewers, spec)],
      now,
    })
    const parent = parent_task === null ? null : await read(Task, parent_task)
    if (parent && parent.project_id !== project_id)
      throw new Refusal('INVALID_SPEC', 'a task and its parent are in the same project', { field: 'parent_task' })
    const isUnderEnded = parent !== null && (await hasEndedAbove(read, belowOf(parent)))
    const allows = grants.some(({ decision }) => decision === 'allow')
    const hasUnsigned = allows && (await read.ports.policies.passkeyFrom(read, project_id)) !== null
    return { project_id, parent, isUnderEnded, hasGrants, hasUnsigned, unmet }
  },
  decide({ project_id, parent }, input, { actor, now, newId }) {
    const id = newId('task')
    const event = newId('aud')
    const task = newTask({ ...input, id, project_id, parent, principal: actor.id, event, now })
    const adopted = parent ? [fact('task.child_added', [image(Task, addChild(parent, id))], { detail: { child: id }, cause: 0 })] : []
    return {
      facts: [
        fact('task.created', [image(Task, task)], { id: event }),
        ...adopted,
        ...firstGrants(task, input.grants ?? [], { by: actor.id, now, newId }),
      ],
      atMost: parent ? [treeBound(task.root_task_id)] : [],
      output: { task },
    }
  },
  example: {
    given: 'empty',
    as: 'alice',
    input: { type: 'code', spec: { goal: 'Fix the login bug', acceptance_criteria: ['tests pass'] } },
  },
})

/** The place of a new task below its parent. */
const belowOf = (parent: Task): Pick<Task, 'parent_task' | 'new_attempt'> => ({
  parent_task: parent.id,
  ...(parent.state === 'rejected' ? { new_attempt: true } : {}),
})

export function addChild(parent: Task, child: string): Task {
  if (parent.children.length >= limits.childrenPerTaskMax)
    throw new Refusal('QUOTA_EXCEEDED', `a task has at most ${limits.childrenPerTaskMax} children`)
  return { ...parent, children: [...parent.children, child] }
}

type NewTask = {
  readonly id: string
  readonly project_id: string
  readonly parent: Task | null
  readonly principal: string
  readonly event: string
  readonly now: string
  readonly type?: string | undefined
  readonly spec: Static<typeof TaskSpecInput>
  readonly deadline?: string | null | undefined
  readonly delegable?: boolean | undefined
  readonly reviewers?: readonly string[] | undefined
  readonly origin?: Task['origin'] | undefined
}

export function newTask({
  id,
  project_id,
  parent,
  principal: owner,
  event,
  now,
  type,
  spec,
  deadline,
  delegable,
  reviewers,
  origin,
}: NewTask): Task {
  return {
    id,
    project_id,
    type: type ?? 'task',
    spec: specOf(spec),
    ownership: { task_id: id, principal: owner, assignee: owner, delegable: delegable ?? false, chain: [] },
    state: 'created',
    ...(parent === null ? { parent_task: null } : belowOf(parent)),
    root_task_id: parent?.root_task_id ?? id,
    created_at: now,
    deadline: deadline === undefined || deadline === null ? null : futureTimestamp(deadline, now, 'INVALID_SPEC', 'deadline'),
    checkpoints: [],
    artifacts: [],
    audit_trail: event,
    executor: null,
    executors: [],
    delegators: [],
    reviewers: reviewersOf(reviewers, spec),
    children: [],
    depth: 0,
    pending_checkpoint: null,
    outcome: null,
    outcome_reason: null,
    overdue: false,
    max_duration: spec.constraints?.max_duration ?? null,
    active_ms: 0,
    active_since: null,
    plan_approved: false,
    amendments: 0,
    ...(origin === undefined ? {} : { origin }),
    revision: 0,
  }
}

/** Required reviewers can also answer the task's questions. */
function reviewersOf(named: readonly string[] = [], { review_policy }: Static<typeof TaskSpecInput>): string[] {
  const all = [...new Set([...named, ...(review_policy?.required_reviewers ?? [])])]
  if (all.length > limits.reviewersMax)
    throw new Refusal('INVALID_SPEC', `a task has at most ${limits.reviewersMax} reviewers`, { field: 'reviewers' })
  return all
}

const assign = command({
  name: 'task.assign',
  summary: 'Hand a created task to an agent (or a person) and transfer ownership.',
  draft: 'HACP 0.1.0, Operations; Operation Preconditions',
  input: t.Object({ task_id: Id, ...ExpectedRevision, assignee: Id, delegable: t.Optional(t.Boolean()), ...untouchedSpec }),
  output: t.Object({
    task: Task.schema,
    connected: nullable(
      t.Boolean({
        description:
          'whether the agent is connected to take it; null for a person, and for an agent that gets it by webhook or as a process',
      }),
    ),
  }),
  callers: [principal],
  requires: [isAtRevision, leavesSpecAlone, allows('task.assign'), leavesReviewersFree],
  audit: 'task.assigned',
  besides: ['expected_task_revision'],
  async load(read, { task_id, assignee }) {
    const task = await read(Task, task_id)
    return { task, connected: await isConnected(read, await workerFor(read, assignee, task.project_id)) }
  },
  decide({ task, connected }, { assignee, delegable = task.ownership.delegable }, { now }) {
    const hand = { via: 'assign', reason: 'task.assign', now } as const
    const updated = { ...task, ownership: { ...task.ownership, delegable } }
    const next = moveTask(workedOnBy(updated, assignee), 'task.assign', hand)
    return { facts: [fact('task.assigned', [image(Task, next)])], output: { task: next, connected } }
  },
  example: { given: 'created', as: 'alice', input: ({ task }) => ({ task_id: task.id, assignee: 'agent_devin' }) },
})

const handed = ['created', 'assigned', 'in_progress', 'blocked']
type Reassigning = { readonly task: Task; readonly checkpoint: Checkpoint | null; readonly brought: readonly Resolving[] }

const reassign = command({
  name: 'task.reassign',
  summary:
    'Hand a task to another agent, whether or not it is worked on: the run of the present one ends, and so does the question that it waits for.',
  draft: 'ours: the draft assigns created tasks only, and hands others on at a checkpoint',
  input: t.Object({ task_id: Id, ...ExpectedRevision, assignee: { ...Id, description: 'the agent that continues with it' } }),
  output: t.Object({ task: Task.schema, connected: assign.output.properties.connected }),
  callers: [principal],
  requires: [
    isAtRevision,
    rule<Reassigning>(
      'PRECONDITION_FAILED',
      'the task is created, assigned, in progress or blocked',
      ({ task }) => handed.includes(task.state),
      'only a task that is created, assigned, in progress or blocked can be handed to another agent',
    ),
    rule<Reassigning, { assignee: string }>(
      'PRECONDITION_FAILED',
      'it goes to another agent',
      ({ task }, { assignee }) => assignee !== task.executor,
      'this agent has the task already: name another one',
    ),
  ],
  audit: 'ownership.transferred',
  besides: ['expected_task_revision'],
  async load(read, { task_id, assignee }) {
    const task = await read(Task, task_id)
    const agent = await agentFor(read, assignee, task.project_id)
    const checkpoint = task.pending_checkpoint === null ? null : await read(Checkpoint, task.pending_checkpoint)
    return { task, checkpoint, brought: await broughtBy(read, checkpoint), connected: await isConnected(read, agent) }
  },
  decide({ task, checkpoint, brought, connected }, { assignee }, { actor, now }) {
    const more = { detail: { to: assignee } }
    if (task.state === 'created') {
      const assigned = moveTask(workedOnBy(task, assignee), 'task.assign', { via: 'assign', reason: 'task.reassign', now })
      return { facts: [fact('task.assigned', [image(Task, assigned)], more)], output: { task: assigned, connected } }
    }
    // Reassigning a blocked task answers its pending checkpoint.
    if (checkpoint !== null) {
      const answer = fitAnswer(checkpoint, { action: 'reassign', reassign_to: assignee })
      const done = applyAnswer({ checkpoint, task }, answer, actor.id, now)
      const resolved = fact('task.checkpoint.resolved', [image(Checkpoint, done.checkpoint), image(Task, done.task)], more)
      return { facts: answeredAlong(brought, [resolved], actor.id, now), output: { task: done.task, connected } }
    }
    // A person hands the task on, so the delegation depth restarts at 0.
    const next = withExecutor({ ...task, depth: 0 }, assignee, { via: 'handoff', reason: 'task.reassign', now })
    return { facts: [fact('ownership.transferred', [image(Task, next)], more)], output: { task: next, connected } }
  },
  example: { given: 'in_progress', as: 'alice', input: ({ task }) => ({ task_id: task.id, assignee: 'agent_robin' }) },
})

/** Only agents that pull their messages have a connection to report. An agent without a card pulls. */
async function isConnected(read: Read, { id, kind }: Subject): Promise<boolean | null> {
  if (kind !== 'agent') return null
  const card = await read.ports.runs.card(read, id)
  return card === null || card.reach === 'pull' ? read.seen(id).connected : null
}

const start = command({
  name: 'task.start',
  summary: 'Begin work on an assigned task.',
  draft: 'HACP 0.1.0, Task State Machine ("Agent starts work"); the 21st operation',
  input: t.Object({ task_id: Id, ...ExpectedRevision, ...untouchedSpec }),
  output: t.Object({ task: Task.schema }),
  callers: [executor, system],
  requires: [isAtRevision, leavesSpecAlone, isInTime, allows('task.start')],
  audit: 'task.started',
  besides: ['expected_task_revision'],
  load: async (read, { task_id }) => ({ task: await read(Task, task_id) }),
  decide({ task }, _, { now }) {
    const next = moveTask(task, 'task.start', { via: 'handoff', reason: 'task.start', now })
    return { facts: [fact('task.started', [image(Task, next)])], output: { task: next } }
  },
  example: { given: 'assigned', as: 'devin', input: ({ task }) => ({ task_id: task.id }) },
})

const cancel = command({
  name: 'task.cancel',
  summary: 'End an active task; its pending checkpoint expires and its children end with it.',
  draft: 'HACP 0.1.0, Operations; Operation Preconditions',
  input: t.Object({ task_id: Id, ...ExpectedRevision, reason: t.Optional(t.String({ maxLength: limits.textCharsMax })), ...untouchedSpec }),
  output: t.Object({ task: Task.schema }),
  callers: [principal, system],
  requires: [isAtRevision, leavesSpecAlone, allows('task.cancel')],
  audit: 'task.cancelled',
  besides: ['expected_task_revision'],
  async load(read, { task_id }) {
    const task = await read(Task, task_id)
    return { task, family: await familyOf(read, task) }
  },
  decide({ family }, { reason = null }, { now }) {
    const { facts, ended } = cancelFamily(family, reason, now)
    return { facts, output: { task: ended } }
  },
  example: { given: 'in_progress', as: 'alice', input: ({ task }) => ({ task_id: task.id, reason: 'no longer needed' }) },
})

const complete = command({
  name: 'task.complete',
  summary: 'Complete an accepted task; its children end with it. The system does this by itself after an approving review.',
  draft: 'HACP 0.1.0, Task State Machine ("Automatic completion")',
  input: t.Object({ task_id: Id }),
  output: t.Object({ task: Task.schema }),
  callers: [system],
  requires: [allows('task.complete')],
  audit: 'task.completed',
  async load(read, { task_id }) {
    const task = await read(Task, task_id)
    return { task, family: await familyOf(read, task) }
  },
  decide({ task, family }, _, { now }) {
    const done = moveTask(task, 'task.complete', { via: 'approve', reason: 'task.complete', now })
    const next: Task = { ...done, outcome: 'accepted' }
    const completed = fact('task.completed', [image(Task, next)], { detail: { outcome: 'accepted' } })
    return { facts: withoutChildren(family, [completed], now), output: { task: next } }
  },
  // No scene is in `accepted`: the batch that reaches this state also leaves it.
  example: { given: 'in_progress', as: 'system', input: ({ task }) => ({ task_id: task.id }), refused: 'PRECONDITION_FAILED' },
})

const get = query({
  name: 'task.get',
  summary: 'Fetch one task.',
  draft: 'HACP 0.1.0, Operations',
  input: t.Object({ task_id: Id }),
  output: t.Object({ task: Task.schema }),
  callers: [anyone],
  load: async (read, { task_id }) => ({ task: await read(Task, task_id) }),
  view: ({ task }) => ({ task }),
  example: { given: 'created', as: 'alice', input: ({ task }) => ({ task_id: task.id }) },
})

export const taskOperations = [create, assign, reassign, start, cancel, complete, get]
