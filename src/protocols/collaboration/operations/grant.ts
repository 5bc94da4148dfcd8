// Grants: what the principal allows or forbids beforehand, so that nobody has to be asked. An append-only log; a deny wins over every
// allow, the last allow for a scope over those before it; every use is recorded with the grant as its basis.
import { Refusal } from '#kernel/declare/errors.ts'
import { fact, image } from '#kernel/declare/facts.ts'
import { anyone } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, query, rule } from '#kernel/declare/operation.ts'
import { nextCursor, pageIn, pageInput, pageOf } from '#kernel/declare/paging.ts'
import { either, nullable, refusedAs, t } from '#kernel/declare/schema.ts'
import { futureTimestamp } from '#kernel/codec/timestamps.ts'
import { sessionOf, speakingFor } from '../task/grants.ts'
import { executor, isActive, isInTime, principal } from '../access.ts'
import { Grant, GrantHead, grantHeadId, GrantScope, GrantUntil, Id, Task } from '../schema.ts'

const add = command({
  name: 'grant.add',
  summary: 'Allow or deny a scope beforehand: for this run, for the task, or until a time; at will for a number of uses.',
  draft: 'continuous control: constraints.grants; ours, because a spec is immutable',
  input: t.Object({
    task_id: Id,
    scope: GrantScope,
    decision: refusedAs('INVALID_SPEC', either('allow', 'deny')),
    until: GrantUntil,
    uses: t.Optional(t.Integer({ minimum: 1, maximum: 1_000_000 })),
  }),
  output: t.Object({ grant: Grant.schema }),
  callers: [principal],
  requires: [isActive],
  audit: 'grant.added',
  async load(read, { task_id, scope }) {
    const task = await read(Task, task_id)
    const head = await read.maybe(GrantHead, grantHeadId(task_id, scope))
    const last = head?.grant_id ? await read.raw(Grant, head.grant_id) : null
    return { task, head, last, session: await sessionOf(read, task) }
  },
  decide({ task, head: before, last, session }, { scope, decision, until, uses = null }, { actor, now, newId }) {
    if (decision === 'deny' && uses !== null)
      throw new Refusal('INVALID_SPEC', 'a deny has no uses: it holds until it is revoked or its time is over', { field: 'uses' })
    // A substitute speaks only as long as they are one, so what they allow must end with a time.
    const isOwn = actor.id === task.ownership.principal
    if (!isOwn && decision === 'allow' && until === 'task')
      throw new Refusal('UNAUTHORIZED', 'a substitute grants for this run or until a time, not for the whole task')
    const { id: task_id, project_id, root_task_id } = task
    const grant: Grant = {
      id: newId('grant'),
      task_id,
      project_id,
      root_task_id,
      scope,
      decision,
      until: until === 'session' || until === 'task' ? until : futureTimestamp(until, now, 'INVALID_SPEC', 'until'),
      uses,
      used: 0,
      granted_by: actor.id,
      granted_at: now,
      revoked_at: null,
      executor: until === 'session' ? task.executor : null,
      ...(until === 'session' ? { run: session.run, after_run: session.run === null ? session.after_run : null } : {}),
    }
    // In older heads a deny stands where now only an allow does.
    const earlier = before?.denies ?? (last?.decision === 'deny' ? [last.id] : [])
    const denies = decision === 'deny' ? [...earlier, grant.id] : earlier
    const grant_id = decision === 'allow' ? grant.id : (before?.grant_id ?? null)
    const head = { id: grantHeadId(task_id, scope), task_id, project_id, root_task_id, grant_id, ...(denies.length > 0 ? { denies } : {}) }
    const max = limits.grantsPerTaskMax
    return {
      facts: [fact('grant.added', [image(Grant, grant), image(GrantHead, head)], { detail: { scope, decision } })],
      atMost: [{ doc: Grant, index: 'task', prefix: [task_id], max, words: `a task has at most ${max} grants` }],
      output: { grant },
    }
  },
  example: {
    given: 'in_progress',
    as: 'alice',
    input: ({ task }) => ({ task_id: task.id, scope: 'deploy:staging', decision: 'allow', until: 'task', uses: 3 }),
  },
})

const revoke = command({
  name: 'grant.revoke',
  summary: 'Take a grant back, with effect from the next use.',
  draft: 'continuous control: constraints.grants',
  input: t.Object({ grant_id: Id }),
  output: t.Object({ grant: Grant.schema }),
  callers: [principal],
  requires: [
    rule<{ grant: Grant }>(
      'PRECONDITION_FAILED',
      'the grant was not revoked before',
      ({ grant }) => grant.revoked_at === null,
      'the grant was revoked already',
    ),
  ],
  audit: 'grant.revoked',
  async load(read, { grant_id }) {
    const grant = await read(Grant, grant_id)
    return { grant, task: await read(Task, grant.task_id) }
  },
  decide({ grant }, _, { now }) {
    const next: Grant = { ...grant, revoked_at: now }
    return { facts: [fact('grant.revoked', [image(Grant, next)], { detail: { scope: grant.scope } })], output: { grant: next } }
  },
  example: { given: 'granted', as: 'alice', input: ({ grant }) => ({ grant_id: grant.id }) },
})

const use = command({
  name: 'grant.use',
  summary: 'Ask whether a scope is allowed beforehand. An allowed one needs no checkpoint; a denied one must not run.',
  draft: 'continuous control: "An allowed scope may skip a checkpoint, a denied scope must not run"',
  input: t.Object({ task_id: Id, scope: GrantScope }),
  output: t.Object({ decision: either('allow', 'deny', 'ask'), grant: nullable(Grant.schema) }),
  callers: [executor],
  requires: [
    isInTime,
    rule<{ task: Task }>(
      'PRECONDITION_FAILED',
      'the task is in progress',
      ({ task }) => task.state === 'in_progress',
      'the task is not in progress: grants are used while its agent works',
    ),
  ],
  audit: 'grant.used',
  async load(read, { task_id, scope }, { now }) {
    const task = await read(Task, task_id)
    return { task, grant: await speakingFor(read, task, scope, now) }
  },
  decide({ task, grant }, { scope }) {
    if (!grant) return { facts: [], output: { decision: 'ask' as const, grant: null } }
    const { decision } = grant
    const next: Grant = { ...grant, used: grant.used + 1 }
    const basis = { kind: 'grant', id: grant.id } as const
    const isOwn = grant.task_id === task.id
    const detail = { scope, decision, ...(isOwn ? {} : { below: task.id }) }
    return {
      facts: [fact('grant.used', [image(Grant, next)], { detail, basis, behalf: grant.granted_by })],
      // The executor of a part need not be a reader of the task above.
      output: { decision, grant: isOwn ? next : null },
    }
  },
  example: { given: 'granted', as: 'devin', input: ({ task, grant }) => ({ task_id: grant.task_id ?? task.id, scope: 'deploy:staging' }) },
})

const list = query({
  name: 'grant.list',
  summary: 'List the grants of a task, oldest first.',
  draft: 'continuous control: constraints.grants',
  input: t.Object({ task_id: Id, ...pageInput }),
  output: t.Object({ items: t.Array(Grant.schema), next_cursor: nextCursor }),
  callers: [anyone],
  async load(read, input) {
    await read(Task, input.task_id)
    const listed = await read.list(Grant, 'task', [[input.task_id]], pageIn('grant.list', input))
    return { listed, items: await Promise.all(listed.map(({ id }) => read(Grant, id))) }
  },
  view: ({ listed, items }, input) => pageOf('grant.list', input, listed, items),
  example: { given: 'granted', as: 'devin', input: ({ task }) => ({ task_id: task.id }) },
})

export const grantOperations = [add, revoke, use, list]
