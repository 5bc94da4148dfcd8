// From a request to the people who are to answer it (HXP 0.1, 6).
import { Refusal } from '#kernel/errors.ts'
import type { Read } from '#kernel/operation.ts'
import type { Request } from './schema.ts'
import type { TaskBehind } from './rules.ts'

export type Routed = Pick<Request, 'owner' | 'people' | 'assigned_to'>
export type Asking = Pick<Request, 'action' | 'role' | 'project_id' | 'tags' | 'requester' | 'quorum'> & {
  readonly label?: string | undefined
}

/** X10: the role is a switch. With a task behind it, its people; with a quorum, those who are to agree; else the owner. */
export async function routedTo(read: Read, asking: Asking, task: TaskBehind | null): Promise<Routed> {
  const owner = task?.ownership.principal ?? (await ownerOf(read, asking.requester))
  if (task !== null)
    return { owner, people: [...new Set([owner, ...task.reviewers.filter((who) => who !== task.executor)])], assigned_to: owner }
  if (asking.quorum) return { owner, people: [...new Set(asking.quorum.of)], assigned_to: null }
  if (asking.role === 'pool') return { owner, people: [], assigned_to: null }
  return { owner, people: [owner], assigned_to: owner }
}

async function ownerOf(read: Read, requester: string): Promise<string> {
  const owner = (await read.subject(requester))?.owner
  if (!owner) throw new Refusal('PRECONDITION_FAILED', `nobody answers for ${requester}`)
  return owner
}
