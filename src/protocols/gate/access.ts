// Roles at the gate: the calling agent, and the people responsible for it.
import { type Actor, forAgentsToo, heldBy, ownsProject, role } from '#kernel/declare/access.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { rule, type Read } from '#kernel/declare/operation.ts'
import type { KnownTask } from '#kernel/ports/tasks.ts'
import { Call } from './schema.ts'

export const agent = forAgentsToo(
  heldBy(
    'an agent with a key of its own',
    role<unknown>('agent', (actor) => actor.kind === 'agent'),
  ),
)

/** Whether the agent works on the task: it is the executor, and the task has not ended. */
export const worksOn = (task: KnownTask | null, agent_id: string): task is KnownTask =>
  task !== null && task.executor === agent_id && task.state !== 'completed' && task.state !== 'rejected'

export type OfCall = { readonly call: Call; readonly owner: string | null }
export async function callOf(read: Read, call_id: string): Promise<OfCall> {
  const call = await read(Call, call_id)
  return { call, owner: (await read.subject(call.agent_id))?.owner ?? null }
}
export const caller = forAgentsToo(
  heldBy(
    'the agent whose call it is',
    role<OfCall>('the caller', (actor, { call }) => actor.kind === 'agent' && actor.id === call.agent_id),
  ),
)
export type OfCalls = { readonly calls: readonly Call[] }
export const callerOfAll = forAgentsToo(
  heldBy(
    'the agent whose calls they are',
    role<OfCalls>('the caller', (actor, { calls }) => actor.kind === 'agent' && calls.every(({ agent_id }) => agent_id === actor.id)),
  ),
)
export const answerable = heldBy(
  'the person who answers for the agent',
  role<OfCall>("the agent's owner", (actor, { owner }) => actor.kind === 'human' && actor.id === owner),
)
export const projectOwner = heldBy(
  'an owner of the project',
  role<OfCall>('an owner of the project', (actor, { call }) => actor.kind === 'human' && ownsProject(actor, call.project_id)),
)

/** The project of a call without a task: the default project if the agent is in it, else its first one. */
export function projectOf({ projects }: Actor): string {
  const ids = projects === 'all' ? [] : [...projects.keys()]
  const found = ids.includes('project_default') ? 'project_default' : ids[0]
  if (found === undefined) throw new Refusal('PRECONDITION_FAILED', 'the agent is in no project: let it join one first')
  return found
}

export const isBegun = rule<OfCall>(
  'PRECONDITION_FAILED',
  'the call has begun',
  ({ call }) => call.state === 'begun',
  'only a call that has begun can be concluded',
)
