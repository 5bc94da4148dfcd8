// Contracts between a task and its runs: the inter-layer tables of HACP 0.1.0 and AAP 0.1.0, row for row, each in the batch of its cause.
import { recode } from '#kernel/declare/errors.ts'
import type { Contract, Read } from '#kernel/declare/operation.ts'
import { runIn } from '#kernel/declare/run-fence.ts'
import type { Value } from '#kernel/log/store.ts'
import { isOfSystem } from '#protocols/collaboration/access.ts'
import { Checkpoint, Task } from '#protocols/collaboration/schema.ts'
import { Card, Run, Work } from '#protocols/delegation/schema.ts'
import { isActive } from '#protocols/delegation/states.ts'
import { contractsBetween, onEach, type EventOf, type SubjectOf } from './contract.ts'

/** States in which a task is worked on. */
const atWork = (task: Task): boolean => ['assigned', 'in_progress', 'blocked'].includes(task.state)

const isAgent = async (read: Read, id: string | null): Promise<boolean> => id !== null && (await read.subject(id))?.kind === 'agent'

/** Whether an agent can be given a task again: enabled, in the project, and available for new work. */
async function takesWork(read: Read, id: string, project_id: string): Promise<boolean> {
  const subject = await read.subject(id)
  const isThere = subject !== null && !subject.disabled && subject.projects.has(project_id)
  return isThere && (await read.raw(Card, id))?.available !== false
}

/** The current run of a task; null while a person works on the task, or it is idle. */
async function currentOf(read: Read, task_id: string): Promise<Run | null> {
  const work = await read.raw(Work, task_id)
  return work?.current_run ? read.raw(Run, work.current_run) : null
}

// --- Down: collaboration calls delegation --------------------------------------------------------------------------------------

/** Translates refusals for a caller who assigns a task into the codes of HACP. */
const inCodesOfTasks = recode(
  {
    AGENT_NOT_FOUND: 'NOT_FOUND',
    CAPABILITY_NOT_SUPPORTED: 'PRECONDITION_FAILED',
    DELEGATION_REFUSED: 'PRECONDITION_FAILED',
    RUN_NOT_FOUND: 'NOT_FOUND',
    INVALID_TRANSITION: 'PRECONDITION_FAILED',
  },
  'aap_code',
)

const down = contractsBetween({ from: 'collaboration', to: 'delegation', refused: inCodesOfTasks })

/** The DelegateRequest for the executor of the task: TaskID becomes the correlation id. */
async function requestFor(read: Read, task: Task, more: { parent_run?: string | null; continues?: string | null; context?: object }) {
  if (task.executor === null || !(await isAgent(read, task.executor))) return null
  return {
    to_agent: task.executor,
    task_id: task.id,
    project_id: task.project_id,
    root_task_id: task.root_task_id,
    capability: task.spec.constraints.must_use_capabilities?.[0] ?? null,
    input: task.spec,
    delegable: task.ownership.delegable,
    ...more,
  }
}

/** A new run after the last one has ended, below the same parent while that parent waits for it. */
async function requestAgain(read: Read, task: Task, context?: object) {
  const work = await read.raw(Work, task.id)
  const last = work && (await read.raw(Run, work.last_run))
  const parent = last?.parent_run ? await read.raw(Run, last.parent_run) : null
  const waits = parent !== null && (parent.correlation_id !== task.id || isActive(parent.state))
  return requestFor(read, task, { continues: last?.id ?? null, parent_run: waits ? parent.id : null, ...(context ? { context } : {}) })
}

const onAssigned = down('assign-delegates', 'task.assigned', 'agent.delegate', async ({ subject: task }, read) => {
  // The run of a child task that an agent delegated is below the run of that agent.
  const parent = task.depth > 0 && task.parent_task !== null ? await currentOf(read, task.parent_task) : null
  return requestFor(read, task, { parent_run: parent?.id ?? null })
})

const onStarted = down('start-starts', 'task.started', 'run.start', async ({ subject }, read) => {
  const run = await currentOf(read, subject.id)
  return run?.state === 'running' && run.started_at === null ? { run_id: run.id } : null
})

const onRaised = down('raise-blocks', 'task.checkpoint.raised', 'agent.block', async ({ subject }, read) => {
  const { id, task_id, kind, succeeds } = subject
  const run = await currentOf(read, task_id)
  if (run === null) return null
  const blocking = { run_id: run.id, reason: kind, checkpoint_id: id }
  if (run.state === 'running') return blocking
  return succeeds !== null && run.checkpoint_id === succeeds ? { ...blocking, succeeds } : null
})

type Resolved = { readonly checkpoint: Checkpoint; readonly task: Task; readonly run: Run | null }
async function resolvedBy(checkpoint: Checkpoint, read: Read): Promise<Resolved> {
  return { checkpoint, task: await read(Task, checkpoint.task_id), run: await currentOf(read, checkpoint.task_id) }
}
/** The message that resumes a run: the answer, and the agent's question that ended without one, so that the agent asks it again. */
async function resolutionOf(read: Read, checkpoint: Checkpoint, agent_id: string | null) {
  const { id, resolution, supersedes, succeeds } = checkpoint
  const before = supersedes?.checkpoint_id ?? (isOfSystem(checkpoint) ? succeeds : null)
  const superseded = before === null ? null : await openCheckpoint(read, before, agent_id)
  return { checkpoint_id: id, resolution: resolution!, ...(superseded === null ? {} : { superseded }) }
}
async function openCheckpoint(read: Read, checkpoint_id: string, agent_id: string | null): Promise<string | null> {
  const checkpoint = await read.raw(Checkpoint, checkpoint_id)
  if (checkpoint === null || checkpoint.raised_by === agent_id) return checkpoint && checkpoint.id
  const earlier = checkpoint.supersedes?.checkpoint_id ?? checkpoint.succeeds
  return earlier === null ? null : openCheckpoint(read, earlier, agent_id)
}

const onResolved: Contract[] = [
  down('reassign-hands-off', 'task.checkpoint.resolved', 'agent.handoff', async ({ subject }, read) => {
    const { checkpoint, task, run } = await resolvedBy(subject, read)
    const goesElsewhere = run?.state === 'blocked' && atWork(task) && task.executor !== run.agent_id
    return goesElsewhere ? { run_id: run.id, to_agent: task.executor!, context: await resolutionOf(read, checkpoint, run.agent_id) } : null
  }),
  down('resolve-resumes', 'task.checkpoint.resolved', 'agent.resume', async ({ subject }, read) => {
    const { checkpoint, task, run } = await resolvedBy(subject, read)
    if (run?.state !== 'blocked' || !atWork(task)) return null
    return { run_id: run.id, ...(await resolutionOf(read, checkpoint, run.agent_id)) }
  }),
  down('reject-ends', 'task.checkpoint.resolved', 'agent.cancel', async ({ subject }, read) => {
    const { checkpoint, task } = await resolvedBy(subject, read)
    const run = task.state === 'completed' ? await endingOf(read, task.id) : null
    return run ? { run_id: run, why: checkpoint.resolution?.comment ?? 'rejected at a checkpoint' } : null
  }),
  down('resolve-tries-again', 'task.checkpoint.resolved', 'agent.delegate', async ({ subject }, read) => {
    const { checkpoint, task, run } = await resolvedBy(subject, read)
    return run === null && atWork(task) ? requestAgain(read, task, await resolutionOf(read, checkpoint, task.executor)) : null
  }),
]

/** The innermost run that is still active: its work may have failed while a run above it waits. */
async function endingOf(read: Read, task_id: string): Promise<string | null> {
  const work = await read.raw(Work, task_id)
  return work?.current_run ?? work?.root_run ?? null
}

const onDelegated = down('delegate-delegates', 'ownership.delegated', 'agent.delegate', async ({ subject: task, detail }, read) => {
  const run = await currentOf(read, task.id)
  // A child task gets its run through its own events; a run that was delegated directly exists already.
  if (detail?.['child'] !== undefined || run?.agent_id === task.executor) return null
  return requestFor(read, task, { parent_run: run?.id ?? null })
})

const onTransferred: Contract[] = [
  down('transfer-hands-off', 'ownership.transferred', 'agent.handoff', async ({ subject: task }, read) => {
    const run = await currentOf(read, task.id)
    if (run === null || run.agent_id === task.executor || !(await isAgent(read, task.executor))) return null
    return { run_id: run.id, to_agent: task.executor! }
  }),
  down('transfer-to-a-person-ends', 'ownership.transferred', 'agent.cancel', async ({ subject: task }, read) => {
    const run = (await isAgent(read, task.executor)) ? null : await endingOf(read, task.id)
    return run ? { run_id: run, to_person: true } : null
  }),
  down('transfer-delegates', 'ownership.transferred', 'agent.delegate', async ({ subject: task }, read) => {
    return atWork(task) && (await currentOf(read, task.id)) === null ? requestAgain(read, task) : null
  }),
  // The new run of a blocked task waits for the same checkpoint.
  down('transfer-blocks', 'ownership.transferred', 'agent.block', async ({ subject: task }, read) => {
    const run = task.state === 'blocked' && task.pending_checkpoint !== null ? await currentOf(read, task.id) : null
    const checkpoint = run?.state === 'running' ? await read.raw(Checkpoint, task.pending_checkpoint!) : null
    return run && checkpoint ? { run_id: run.id, reason: checkpoint.kind, checkpoint_id: checkpoint.id } : null
  }),
]

/** Refuses an act on a task for a run that another process has taken since. Acts that name no run are not checked. */
async function attemptCheckInput(read: Read, detail: Value | null, task_id: string, agent_id: string) {
  const run = runIn(detail)
  return Object.keys(run).length === 0 || !(await isAgent(read, agent_id)) ? null : { task_id, agent_id, ...run }
}
const onDone: Contract[] = [
  down('stale-raise-is-refused', 'task.checkpoint.raised', 'run.fence', ({ subject, detail }, read) => {
    const { task_id, raised_by } = subject
    return attemptCheckInput(read, detail, task_id, raised_by)
  }),
  down('stale-delivery-is-refused', 'artifact.committed', 'run.fence', ({ subject, detail }, read) => {
    const { provenance } = subject
    return attemptCheckInput(read, detail, provenance.produced_by, provenance.actor)
  }),
  down('stale-write-is-refused', 'ledger.written', 'run.fence', ({ subject, detail }, read) => {
    const { by, actor } = subject
    return attemptCheckInput(read, detail, by, actor)
  }),
]

/** A run whose start was not reported starts with its agent's first act on the task; on an assigned task that is task.start. */
const begins = <E extends EventOf<'collaboration'>>(
  on: E,
  actOf: (subject: SubjectOf<'collaboration', E>, actor: string) => { readonly task_id: string; readonly by: string },
): Contract =>
  down(`${on}-begins`, on, 'run.start', async ({ subject, actor }, read) => {
    const { task_id, by } = actOf(subject, actor)
    const run = await currentOf(read, task_id)
    if (run === null || run.agent_id !== by || run.state !== 'running' || run.started_at !== null) return null
    return (await read.raw(Task, task_id))?.state === 'assigned' ? null : { run_id: run.id }
  })
const onFirstAct: Contract[] = [
  begins('task.checkpoint.raised', ({ task_id, raised_by }) => ({ task_id, by: raised_by })),
  begins('artifact.committed', ({ provenance }) => ({ task_id: provenance.produced_by, by: provenance.actor })),
  begins('artifact.uploaded', ({ task_id }, by) => ({ task_id, by })),
  begins('artifact.referenced', ({ task_id }, by) => ({ task_id, by })),
  // A write to the `org` ledger starts no run.
  begins('ledger.written', ({ by, actor, scope }) => ({ task_id: by, by: scope === 'org' ? '' : actor })),
  begins('grant.used', ({ task_id }, by) => ({ task_id, by })),
  begins('ownership.delegated', ({ id }, by) => ({ task_id: id, by })),
]

/** A delivery by the executor, or by a person who took over, completes the run, even if it waited for a failed delegate. */
const onDelivered = onEach(['artifact.committed', 'artifact.edited'], (on) =>
  down(`${on}-completes`, on, 'run.complete', async ({ subject }, read) => {
    const { artifact_id, version, provenance } = subject
    const task = await read(Task, provenance.produced_by)
    const run = task.state === 'review_ready' ? await endingOf(read, task.id) : null
    return run ? { run_id: run, result: { artifact_id, version } } : null
  }),
)

const onReviewed = down('rework-delegates', 'review.submitted', 'agent.delegate', async ({ subject }, read) => {
  const { task_id, id, verdict, requested_changes, artifact_id, artifact_version } = subject
  const task = await read(Task, task_id)
  if (task.state !== 'in_progress' || (await currentOf(read, task_id)) !== null) return null
  if (!(await takesWork(read, task.executor!, task.project_id))) return null
  return requestAgain(read, task, { review: { review_id: id, verdict, requested_changes, artifact_id, artifact_version } })
})

/** If a review sends work back to an agent that cannot take it, the task's people are asked in the same batch. */
const escalates = contractsBetween({ from: 'collaboration', to: 'collaboration', label: 'collaboration-delegation' })
const onReviewedForNobody = escalates(
  'rework-without-an-agent-escalates',
  'review.submitted',
  'checkpoint.escalate',
  async ({ subject }, read) => {
    const task = await read(Task, subject.task_id)
    if (task.state !== 'in_progress' || (await currentOf(read, task.id)) !== null || !(await isAgent(read, task.executor))) return null
    const name = (await read.ports.names.named(read, task.executor!))?.name ?? task.executor!
    return { task_id: task.id, prompt: `${name} cannot take the task back: it is switched off, has left the project, or takes no new work` }
  },
)

const onCancelled = down('cancel-cancels', 'task.cancelled', 'agent.cancel', async ({ subject: task }, read) => {
  const run = await endingOf(read, task.id)
  return run ? { run_id: run, ...(task.outcome_reason === null ? {} : { why: task.outcome_reason }) } : null
})

const onAmended = down('amend-steers', 'task.amended', 'agent.steer', async ({ subject }, read) => {
  const { id, task_id, text, intent } = subject
  const run = await currentOf(read, task_id)
  return run ? { run_id: run.id, text, intent, amendment_id: id } : null
})

/** Notifies the run that delegated a child task how the child ended. A parent that ends with it is not notified. */
const tells = <E extends EventOf<'collaboration'>>(
  on: E,
  endedBy: (subject: SubjectOf<'collaboration', E>, read: Read) => Task | Promise<Task | null>,
): Contract =>
  down(`${on}-tells-the-parent`, on, 'agent.steer', async ({ subject }, read) => {
    const task = await endedBy(subject, read)
    const parent = task?.parent_task ? await read.raw(Task, task.parent_task) : null
    const run = parent !== null && atWork(parent) ? await currentOf(read, parent.id) : null
    if (task === null || run === null) return null
    const outcome = task.outcome ?? task.state
    const text = `The task ${task.id} below yours has ended: ${outcome}.`
    return { run_id: run.id, text, intent: 'child_ended', ended: { task_id: task.id, outcome } }
  })
const onEnded: Contract[] = [
  tells('task.completed', (task) => task),
  tells('task.cancelled', (task) => task),
  // An approval leads to task.completed, which notifies too; a rejecting review has no further event.
  tells('review.submitted', async ({ task_id }, read) => {
    const task = await read(Task, task_id)
    return task.state === 'rejected' ? task : null
  }),
]

export const collaborationToDelegation: readonly Contract[] = [
  ...onDone,
  ...onFirstAct,
  onAssigned,
  onStarted,
  onRaised,
  ...onResolved,
  onDelegated,
  ...onTransferred,
  ...onDelivered,
  onReviewed,
  onReviewedForNobody,
  onCancelled,
  onAmended,
  ...onEnded,
]
