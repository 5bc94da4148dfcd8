// Which grant of a task speaks for a scope now.
import type { Granted, Read } from '#kernel/operation.ts'
import { Grant, GrantHead, grantHeadId, Task } from './schema.ts'

/** The grant that speaks for a scope: the scope itself before its families, `deploy:staging` before `deploy:*`. */
export async function speakingFor(read: Read, task: Task, scope: string, now: string): Promise<Grant | null> {
  for (const candidate of familiesOf(scope)) {
    const head = await read.raw(GrantHead, grantHeadId(task.id, candidate))
    const grant = head && (await read.raw(Grant, head.grant_id))
    if (grant && isInForce(grant, task, now)) return grant
  }
  return null
}

function familiesOf(scope: string): string[] {
  const words = scope.split(':')
  return [scope, ...words.slice(1).map((_, i) => [...words.slice(0, words.length - 1 - i), '*'].join(':'))]
}

function isInForce(grant: Grant, task: Task, now: string): boolean {
  if (grant.revoked_at !== null || (grant.uses !== null && grant.used >= grant.uses)) return false
  if (grant.until === 'session') return grant.executor === task.executor
  return grant.until === 'task' || grant.until > now
}

/** The same for other protocols, which know grants only by what they decide. */
export async function grants(read: Read, task_id: string, scope: string, now: string): Promise<Granted | null> {
  const task = await read.raw(Task, task_id)
  const grant = task && (await speakingFor(read, task, scope, now))
  if (!grant) return null
  const { id, decision, granted_by: by, uses, used } = grant
  return { id, decision, by, left: uses === null ? null : uses - used }
}
