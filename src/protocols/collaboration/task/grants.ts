// The grant that answers for a scope of a task now.
import type { Granted, Read } from '#kernel/declare/operation.ts'
import { limits } from '#kernel/limits.ts'
import { Grant, GrantHead, grantHeadId, GrantScopes, isSpent, Task } from '../schema.ts'
import { covers, overlaps } from './scopes.ts'

/** The grant that decides about a scope: the task's own, unless a task above denies it. An allow holds only for its own task. */
export async function grantFor(read: Read, task: Task, scope: string, now: string): Promise<Grant | null> {
  const taskGrant = await taskGrantFor(read, task, scope, now)
  return taskGrant?.decision === 'deny' ? taskGrant : ((await deniedAbove(read, task, scope, now)) ?? taskGrant)
}

/** A deny on a task also binds the tasks below it. A new attempt follows the rejected task that it names; it is not below it. */
async function deniedAbove(read: Read, task: Task, scope: string, now: string): Promise<Grant | null> {
  for (let below = task; below.parent_task !== null;) {
    const above = await read.raw(Task, below.parent_task)
    if (above === null) return null
    const isUnder = !(below.new_attempt && above.state === 'rejected')
    const grant = isUnder ? await taskGrantFor(read, above, scope, now) : null
    if (grant?.decision === 'deny') return grant
    below = above
  }
  return null
}

/**
 * Among the grants of one task: a deny that covers any of the scope before every allow; then the narrowest allow that covers it,
 * `deploy:staging` before `deploy:*`.
 */
async function taskGrantFor(read: Read, task: Task, scope: string, now: string): Promise<Grant | null> {
  const session = await sessionOf(read, task)
  const candidates = (await scopesOf(read, task)).filter((granted) => overlaps(granted, scope)).toSorted((a, b) => b.length - a.length)
  let allowed: Grant | null = null
  for (const candidate of candidates) {
    const head = await read.raw(GrantHead, grantHeadId(task.id, candidate))
    if (head === null) continue
    for (const id of [...(head.denies ?? []), head.grant_id]) {
      const grant = id === null ? null : await read.raw(Grant, id)
      if (grant === null || !isInForce(grant, session, now)) continue
      if (grant.decision === 'deny') return grant
      if (covers(candidate, scope)) allowed ??= grant
    }
  }
  return allowed
}

/**
 * The scopes of a task's grants. Earlier versions kept no such document; a concurrently added grant creates it, so a read without one
 * is outdated then.
 */
export async function scopesOf(read: Read, { id }: Task): Promise<readonly string[]> {
  const known = await read.raw(GrantScopes, id)
  if (known !== null) return known.scopes
  const listed = await read.list(Grant, 'task', [[id]], { limit: limits.grantsPerTaskMax })
  const grants = await Promise.all(listed.map((entry) => read.raw(Grant, entry.id)))
  return [...new Set(grants.flatMap((grant) => (grant === null ? [] : [grant.scope])))]
}

/** The current executor of the task, its run, and the run before. */
export type WorkSession = { readonly executor: string | null; readonly run: string | null; readonly after_run: string | null }

export async function sessionOf(read: Read, { id, executor }: Task): Promise<WorkSession> {
  const { runs } = read.ports
  const work = await runs.work(read, id)
  const run = work?.current_run ?? null
  if (run === null) return { executor, run, after_run: work?.last_run ?? null }
  const continues = (await runs.run(read, run))?.continues ?? null
  // A delegate's run does not follow the run above it, which waits for the delegate.
  return { executor, run, after_run: continues ?? (work?.root_run === run ? null : run) }
}

export function isInForce(grant: Grant, session: WorkSession, now: string): boolean {
  if (isSpent(grant)) return false
  if (grant.until === 'session') return isOfSession(grant, session)
  return grant.until === 'task' || grant.until > now
}

/** A session grant belongs to the run that was active when it was given, or to the first run after that, and ends with that run. */
function isOfSession({ executor, run = null, after_run = null }: Grant, session: WorkSession): boolean {
  if (run !== null) return run === session.run
  if (after_run !== session.after_run) return false
  return session.run !== null || (executor !== null && executor === session.executor)
}

/** The grant that speaks for a scope, reduced to the fields that other protocols use. */
export async function grants(read: Read, task_id: string, scope: string, now: string): Promise<Granted | null> {
  const task = await read.raw(Task, task_id)
  const grant = task && (await grantFor(read, task, scope, now))
  if (!grant) return null
  const { id, decision, granted_by: by, uses, used } = grant
  return { id, decision, by, left: uses === null ? null : uses - used }
}
