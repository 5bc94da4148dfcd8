// Contracts from a run to its task. An agent's act on a run of a task goes by the rules of the task.
import { limits } from '#kernel/limits.ts'
import { cutTo } from '#kernel/codec/cut-text.ts'
import type { Contract, ContractFact, Read } from '#kernel/declare/operation.ts'
import type { Static } from '#kernel/declare/schema.ts'
import { Task, type Checkpoint } from '#protocols/collaboration/schema.ts'
import { Work, type ReportType, type Run } from '#protocols/delegation/schema.ts'
import { contractsBetween, forwardsBetween, type Terms } from './contract.ts'

const up = contractsBetween({ from: 'delegation', to: 'collaboration' })
/** By the rules of the task, for the agent itself. */
const asItself: Terms<unknown> = { as: 'actor' }

/** The task of a run that is its current run, or was until it ended just now; null for other runs. */
async function taskOf(read: Read, { task_id, id }: Run, where: 'current_run' | 'last_run'): Promise<Task | null> {
  const work = task_id === null ? null : await read.raw(Work, task_id)
  return task_id !== null && work?.[where] === id ? read.raw(Task, task_id) : null
}

const starts = up(
  'started-starts',
  'run.started',
  'task.start',
  async ({ subject: run }, read) => {
    const task = await taskOf(read, run, 'current_run')
    return task?.state === 'assigned' ? { task_id: task.id } : null
  },
  asItself,
)

const delegates = up(
  'delegate-passes-down',
  'run.delegated',
  'ownership.delegate',
  async ({ subject: run }, read) => {
    const task = await taskOf(read, run, 'current_run')
    const isDirect = task !== null && task.executor !== run.agent_id && run.continues === null
    return isDirect ? { task_id: task.id, to: run.agent_id, delegable: run.delegable } : null
  },
  asItself,
)

const handsOff = up('handoff-transfers', 'run.delegated', 'ownership.transfer', async ({ subject: run }, read) => {
  const task = await taskOf(read, run, 'current_run')
  const isDirect = task !== null && task.executor !== run.agent_id && run.continues !== null
  return isDirect ? { task_id: task.id, to: run.agent_id } : null
})

/** An active task whose run has ended. A cancelled or handed-off run leaves no such task. */
async function strandedTaskInput({ subject: run }: ContractFact<Run>, read: Read, message: (name: string, run: Run) => string) {
  if (run.reason === 'cancelled' || run.reason === 'handed_off') return null
  const task = await taskOf(read, run, 'last_run')
  if (task === null || task.executor !== run.agent_id || !['assigned', 'in_progress', 'blocked'].includes(task.state)) return null
  const name = (await read.ports.names.named(read, run.agent_id))?.name ?? run.agent_id
  return { task_id: task.id, prompt: message(name, run) }
}

const failed = up('failure-escalates', 'run.failed', 'checkpoint.escalate', (fact, read) =>
  strandedTaskInput(fact, read, (name, { error }) =>
    error === null
      ? `${name} is stuck and gave no reason`
      : `${name} is stuck: "${cutTo(error, limits.promptCharsMax - limits.nameCharsMax - 20)}"`,
  ),
)
const completed = up('empty-hands-escalate', 'run.completed', 'checkpoint.escalate', (fact, read) =>
  strandedTaskInput(fact, read, (name) => `${name} ended its run without delivering anything to review`),
)

/** Each report of a harness is the input of one operation. */
const forward = forwardsBetween({ from: 'delegation', to: 'collaboration' })
const kinds = { needs_approval: 'approval', needs_choice: 'choice', needs_input: 'input', artifact: null } satisfies Record<
  Static<typeof ReportType>,
  Checkpoint['kind'] | null
>

const asks = forward(
  'needs-raise',
  'run.reported',
  'checkpoint.raise',
  ({ subject: { task_id, type, payload } }) => {
    const kind = kinds[type]
    return kind === null ? null : { ...payload, task_id, kind }
  },
  asItself,
)
const delivers = forward(
  'artifact-commits',
  'run.reported',
  'artifact.commit',
  ({ subject: { task_id, type, payload } }) => (type === 'artifact' ? { ...payload, task_id } : null),
  asItself,
)

/** A grant that allowed it is used with it, in the same batch. */
const uses = up(
  'invocation-uses-grants',
  'capability.invoked',
  'grant.use',
  ({ subject: { task_id, permissions } }) => (task_id === null ? null : permissions.map((scope) => ({ task_id, scope }))),
  asItself,
)

export const delegationToCollaboration: readonly Contract[] = [starts, delegates, handsOff, failed, completed, asks, delivers, uses]
