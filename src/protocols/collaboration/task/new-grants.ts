// New grants: a grant that is added to a task, and the grants that a task begins with.
import { image } from '#kernel/declare/facts.ts'
import { either, refusedAs, t, type Static } from '#kernel/declare/schema.ts'
import { futureTimestamp } from '#kernel/codec/timestamps.ts'
import { fact } from '../events.ts'
import { Grant, GrantHead, grantHeadId, GrantScope, GrantScopes, GrantUntil, type Task } from '../schema.ts'
import type { WorkSession } from './grants.ts'

export const FirstGrant = t.Object({ scope: GrantScope, decision: refusedAs('INVALID_SPEC', either('allow', 'deny')), until: GrantUntil })
type Wanted = Static<typeof FirstGrant> & { readonly uses?: number | null }
type Given = {
  readonly by: string
  readonly session: Pick<WorkSession, 'run' | 'after_run'>
  readonly now: string
  newId(prefix: string): string
}

export function newGrant(
  { id: task_id, project_id, root_task_id, executor }: Task,
  { scope, decision, until, uses = null }: Wanted,
  { by, session, now, newId }: Given,
): Grant {
  const isOfSession = until === 'session'
  return {
    id: newId('grant'),
    task_id,
    project_id,
    root_task_id,
    scope,
    decision,
    until: isOfSession || until === 'task' ? until : futureTimestamp(until, now, 'INVALID_SPEC', 'until'),
    uses,
    used: 0,
    granted_by: by,
    granted_at: now,
    revoked_at: null,
    executor: isOfSession ? executor : null,
    ...(isOfSession ? { run: session.run, after_run: session.run === null ? session.after_run : null } : {}),
  }
}

/** The last allow of the scope, and every deny. */
export function headWith(
  { id, task_id, project_id, root_task_id, scope, decision }: Grant,
  before: { readonly grant_id: string | null; readonly denies: readonly string[] },
): Static<typeof GrantHead.schema> {
  const denies = decision === 'deny' ? [...before.denies, id] : [...before.denies]
  const grant_id = decision === 'allow' ? id : before.grant_id
  return { id: grantHeadId(task_id, scope), task_id, project_id, root_task_id, grant_id, ...(denies.length > 0 ? { denies } : {}) }
}

/** The grants of a task that is being created. No run exists yet, so grants for a session apply to the first run. */
export function firstGrants(task: Task, wanted: readonly Wanted[], given: Omit<Given, 'session'>): ReturnType<typeof fact>[] {
  const heads = new Map<string, Static<typeof GrantHead.schema>>()
  const { id, project_id, root_task_id } = task
  return wanted.map((grantInput, i) => {
    const grant = newGrant(task, grantInput, { ...given, session: { run: null, after_run: null } })
    const { grant_id = null, denies = [] } = heads.get(grant.scope) ?? {}
    const head = headWith(grant, { grant_id, denies })
    heads.set(grant.scope, head)
    const scopes = { id, project_id, root_task_id, scopes: [...new Set(wanted.slice(0, i + 1).map(({ scope }) => scope))] }
    const { scope, decision } = grant
    const images = [image(Grant, grant), image(GrantHead, head), image(GrantScopes, scopes)] as const
    return fact('grant.added', images, { detail: { scope, decision }, cause: 0 })
  })
}
