// Roles on a run and preconditions. Both read as sentences.
import { Refusal } from '#kernel/declare/errors.ts'
import { type Actor, forAgentsToo, role } from '#kernel/declare/access.ts'
import { rule, type Read } from '#kernel/declare/operation.ts'
import { t } from '#kernel/declare/schema.ts'
import { serves } from './capabilities/compatibility.ts'
import { isBoundedAgent } from './runs/places.ts'
import { Card, delegatorOf, Mailbox, Memo, Run, Work, type CapabilityRef } from './schema.ts'
import { allowsEvent, isActive } from './states.ts'

export type OfRun = {
  readonly run: Run
  readonly mailbox: Mailbox | null
  readonly work: Work | null
  readonly memos: number
  readonly isBounded: boolean
}
type OfAttempt = { readonly attempt?: number }
export const Attempt = t.Optional(
  t.Integer({ minimum: 0, maximum: 1_000_000_000, description: 'the attempt that the messages came with; 0 if none were taken' }),
)

/** The agent of the run. */
export const runAgent = forAgentsToo(
  role<OfRun>("the run's agent", (actor, { run }) => actor.kind === 'agent' && actor.id === run.agent_id),
)
/** The agent that delegated a run without a task. A run of a task is controlled through the task, by its people and executor. */
export const delegator = forAgentsToo(
  role<OfRun>('the delegating agent', (actor, { run }) => actor.kind === 'agent' && run.task_id === null && delegatorOf(run) === actor.id),
)

/** The run with its related documents. An agent gets RUN_NOT_FOUND for another agent's run, unless it delegated that run. */
export async function runOf(read: Read, run_id: string, actor: Actor): Promise<OfRun> {
  const run = await read.maybe(Run, run_id)
  const isForeign = actor.kind === 'agent' && run !== null && actor.id !== run.agent_id && delegatorOf(run) !== actor.id
  if (run === null || isForeign) throw new Refusal('RUN_NOT_FOUND', `there is no run ${run_id}`)
  const [mailbox, work, memos, isBounded] = await Promise.all([
    read.raw(Mailbox, run_id),
    read.raw(Work, run.correlation_id),
    isActive(run.state) ? read.count(Memo, 'run', [run_id]) : 0,
    isBoundedAgent(read, run.agent_id),
  ])
  return { run, mailbox, work, memos, isBounded }
}

export const allows = (event: string) =>
  rule<OfRun>(
    'INVALID_TRANSITION',
    `the run's state allows ${event}`,
    ({ run }) => allowsEvent(run.state, event),
    `the run's state does not allow ${event}`,
  )
export const isRunning = rule<OfRun>(
  'INVALID_TRANSITION',
  'the run is running',
  ({ run }) => run.state === 'running',
  'the run is not running',
)
export const isNotEnded = rule<OfRun>('INVALID_TRANSITION', 'the run has not ended', ({ run }) => isActive(run.state), 'the run has ended')

/** Once a process has taken the run, only calls with its attempt count. Calls from a process that lost the run are stale. */
export const isPresentAttempt = rule<OfRun, OfAttempt>(
  'CONFLICT',
  'the attempt is the present one: another process has taken the run since',
  ({ mailbox }, { attempt = 0 }, { actor }) => actor.kind !== 'agent' || (mailbox?.attempt ?? 0) === attempt,
  'another process has taken the run since: take it again to continue',
)

type OfFence = { readonly run: Run | null; readonly mailbox: Mailbox | null; readonly last_run: string | null }

/** The run that an agent acts for: the run that it names, or the current run of the task. */
export async function fencedBy(read: Read, task_id: string, agent_id: string, run_id: string | undefined): Promise<OfFence> {
  const work = await read.raw(Work, task_id)
  const id = run_id ?? work?.current_run ?? null
  const run = id === null ? null : await read.raw(Run, id)
  const isOwn = run?.agent_id === agent_id && run.task_id === task_id
  return { run: isOwn ? run : null, mailbox: isOwn ? await read.raw(Mailbox, run.id) : null, last_run: work?.last_run ?? null }
}

export const isItsRun = rule<OfFence, { run_id?: string }>(
  'RUN_NOT_FOUND',
  'the run is one of the agent on this task',
  ({ run }, { run_id }) => run_id === undefined || run !== null,
  'run_id names no run of this agent on this task',
)
/** Fences an agent's calls on the task. An ended run can still act until another run follows it. */
export const isPresentFor = rule<OfFence, OfAttempt>(
  'CONFLICT',
  isPresentAttempt.message,
  ({ run, mailbox, last_run }, { attempt }) => {
    if (run === null) return true
    if (!isActive(run.state)) return run.id === last_run
    return attempt === undefined || (mailbox?.attempt ?? 0) === attempt
  },
  isPresentAttempt.refusal,
)

/** While the work is with a delegate, the run above it waits. */
export const hasNoDelegate = rule<OfRun>(
  'INVALID_TRANSITION',
  'the run has no delegate that works for it',
  ({ run, work }) => run.task_id === null || work?.current_run === null || work?.current_run === run.id,
  'the run has a delegate that works for it: wait for it or cancel it',
)

export type Target = { readonly card: Card | null }
export type Wanted = { readonly project_id: string; readonly capability: CapabilityRef | null }

/** An agent that can be given work. Reasons known before a run exists are refused immediately (AAP 0.1.0, Errors). */
export async function targetOf(read: Read, agent_id: string, { project_id, capability }: Wanted, isDirect: boolean): Promise<Target> {
  const found = await availableFor(read, agent_id, project_id)
  const { card } = found
  // An agent without a card declares nothing. People can still choose it; agents can delegate only to agents that declare the capability.
  const isJudged = card !== null || isDirect
  if (capability && isJudged && !serves(card?.capabilities ?? [], capability))
    throw new Refusal('CAPABILITY_NOT_SUPPORTED', `${agent_id} does not declare ${capability.capability_id} ${capability.version}`)
  if (card && card.concurrency !== null && (await read.count(Run, 'agent', [agent_id, 'running'])) >= card.concurrency)
    throw new Refusal('DELEGATION_REFUSED', `${agent_id} works on as many runs as it takes at a time`, { concurrency: card.concurrency })
  return found
}

/** An agent for work that it had before, or that a person hands to it. Its capabilities and concurrency are not checked. */
export async function availableFor(read: Read, agent_id: string, project_id: string): Promise<Target> {
  const subject = await read.subject(agent_id)
  if (!subject || subject.kind !== 'agent' || subject.disabled || !subject.projects.has(project_id))
    throw new Refusal('AGENT_NOT_FOUND', `there is no active agent ${agent_id} in this project`)
  const card = await read.raw(Card, agent_id)
  if (card && !card.available)
    throw new Refusal('AGENT_NOT_FOUND', `${agent_id} is not available: its card says that it takes no new work (agent.publish)`)
  return { card }
}
