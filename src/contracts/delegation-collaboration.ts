// Contracts from a run to its task. An agent's act on a run of a task goes by the rules of the task.
import { limits } from '#kernel/limits.ts'
import { cutTo } from '#kernel/codec/cut-text.ts'
import type { Contract, ContractFact, Read } from '#kernel/declare/operation.ts'
import { Task } from '#protocols/collaboration/schema.ts'
import type { Invocation } from '#protocols/delegation/capabilities/manifest.ts'
import { Work, type Run } from '#protocols/delegation/schema.ts'

const up = (name: string, on: string, call: string, as: Contract['as'], input: Contract['input']): Contract => ({
  name: `delegation-collaboration/${name}`,
  on: `delegation/${on}`,
  call: `collaboration/${call}`,
  as,
  input,
})

/** The task behind a run whose work is with it (or was, until it ended just now); null for all others. */
async function taskOf(read: Read, { task_id, id }: Run, where: 'current_run' | 'last_run'): Promise<Task | null> {
  const work = task_id === null ? null : await read.raw(Work, task_id)
  return task_id !== null && work?.[where] === id ? read.raw(Task, task_id) : null
}

const starts = up('started-starts', 'run.started', 'task.start', 'actor', async ({ subject }, read) => {
  const task = await taskOf(read, subject as Run, 'current_run')
  return task?.state === 'assigned' ? { task_id: task.id } : null
})

const delegates = up('delegate-passes-down', 'run.delegated', 'ownership.delegate', 'actor', async ({ subject }, read) => {
  const run = subject as Run
  const task = await taskOf(read, run, 'current_run')
  const isDirect = task !== null && task.executor !== run.agent_id && run.continues === null
  return isDirect ? { task_id: task.id, to: run.agent_id, delegable: run.delegable } : null
})

const handsOff = up('handoff-transfers', 'run.delegated', 'ownership.transfer', 'system', async ({ subject }, read) => {
  const run = subject as Run
  const task = await taskOf(read, run, 'current_run')
  const isDirect = task !== null && task.executor !== run.agent_id && run.continues !== null
  return isDirect ? { task_id: task.id, to: run.agent_id } : null
})

/** A task that is not worked on any more, though it was not ended. A run that was cancelled or handed off leaves none. */
async function strandedTaskInput(
  { subject }: ContractFact,
  read: Read,
  message: (name: string, run: Run) => string,
): Promise<object | null> {
  const run = subject as Run
  if (run.reason === 'cancelled' || run.reason === 'handed_off') return null
  const task = await taskOf(read, run, 'last_run')
  if (task === null || task.executor !== run.agent_id || !['assigned', 'in_progress', 'blocked'].includes(task.state)) return null
  const name = (await read.ports.names.named(read, run.agent_id))?.name ?? run.agent_id
  return { task_id: task.id, prompt: message(name, run) }
}

const failed = up('failure-escalates', 'run.failed', 'checkpoint.escalate', 'system', (fact, read) =>
  strandedTaskInput(fact, read, (name, { error }) =>
    error === null
      ? `${name} is stuck and gave no reason`
      : `${name} is stuck: "${cutTo(error, limits.promptCharsMax - limits.nameCharsMax - 20)}"`,
  ),
)
const completed = up('empty-hands-escalate', 'run.completed', 'checkpoint.escalate', 'system', (fact, read) =>
  strandedTaskInput(fact, read, (name) => `${name} ended its run without delivering anything to review`),
)

const kinds: Readonly<Record<string, string>> = { needs_approval: 'approval', needs_choice: 'choice', needs_input: 'input' }
type Reported = { readonly task_id: string; readonly type: string; readonly payload: object }

const asks = up('needs-raise', 'run.reported', 'checkpoint.raise', 'actor', ({ subject }) => {
  const { task_id, type, payload } = subject as Reported
  const kind = kinds[type]
  return Promise.resolve(kind === undefined ? null : { ...payload, task_id, kind })
})
const delivers = up('artifact-commits', 'run.reported', 'artifact.commit', 'actor', ({ subject }) => {
  const { task_id, type, payload } = subject as Reported
  return Promise.resolve(type === 'artifact' ? { ...payload, task_id } : null)
})

/** A grant that allowed it is used with it, in the same batch. */
const uses = up('invocation-uses-grants', 'capability.invoked', 'grant.use', 'actor', ({ subject }) => {
  const { task_id, permissions } = subject as Invocation
  return Promise.resolve(task_id === null ? null : permissions.map((scope) => ({ task_id, scope })))
})

export const delegationToCollaboration: readonly Contract[] = [starts, delegates, handsOff, failed, completed, asks, delivers, uses]
