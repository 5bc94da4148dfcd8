// Grants: the principal allows or forbids scopes in advance, so that no person has to be asked. The log is append-only. A deny overrides
// every allow, and the latest allow of a scope overrides earlier ones. Every use is recorded with the grant as its basis.
import { Refusal } from '#kernel/declare/errors.ts'
import { image } from '#kernel/declare/facts.ts'
import { anyone, idsActedFor } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, freshProof, query, rule, type Read } from '#kernel/declare/operation.ts'
import { nextCursor, pageIn, pageInput, pageOf } from '#kernel/declare/paging.ts'
import { timestampOf } from '#kernel/ports/clock.ts'
import { cutTo } from '#kernel/codec/cut-text.ts'
import { either, nullable, refusedAs, t, type Static } from '#kernel/declare/schema.ts'
import type { KnownAnswer } from '#kernel/ports/requests.ts'
import { AssertionField } from '#kernel/signing/input.ts'
import { fact } from '../events.ts'
import { isTerminal } from '../states.ts'
import { isInForce, scopesOf, sessionOf, grantFor } from '../task/grants.ts'
import { headWith, newGrant } from '../task/new-grants.ts'
import { signableAnswer, signedIn } from '../task/signed-answers.ts'
import { beginningOf, covers } from '../task/scopes.ts'
import { executor, isActive, isInTime, principal, reviewer } from '../access.ts'
import { Grant, GrantHead, grantHeadId, GrantScope, GrantScopes, GrantUntil, Id, Task } from '../schema.ts'

const add = command({
  name: 'grant.add',
  summary: 'Allow or deny a scope in advance: for this run, for the task, or until a time; `uses` bounds how often.',
  draft: 'continuous control: constraints.grants; ours, because a spec is immutable',
  input: t.Object({
    task_id: Id,
    scope: GrantScope,
    decision: refusedAs('INVALID_SPEC', either('allow', 'deny')),
    until: GrantUntil,
    uses: t.Optional(t.Integer({ minimum: 1, maximum: 1_000_000 })),
    ...AssertionField,
  }),
  output: t.Object({ grant: Grant.schema }),
  callers: [principal],
  requires: [freshProof(), isActive],
  audit: 'grant.added',
  async load(read, { task_id, scope }) {
    const task = await read(Task, task_id)
    const head = await read.maybe(GrantHead, grantHeadId(task_id, scope))
    const last = head?.grant_id ? await read.raw(Grant, head.grant_id) : null
    return { task, head, last, scopes: await scopesOf(read, task), session: await sessionOf(read, task) }
  },
  // Anybody who may allow something may also forbid it, without a device at hand.
  signs({ task }, { assertion: _, ...answer }) {
    const word = answer.decision
    const signable = signableAnswer({ ...task, about: { task_id: task.id }, item: null, risk: 'R5', word, answer })
    return word === 'allow' ? signable : { ...signable, risk: 'never' }
  },
  decide({ task, head: before, last, scopes, session }, { scope, decision, until, uses = null }, { actor, now, newId, signature }) {
    if (decision === 'deny' && uses !== null)
      throw new Refusal('INVALID_SPEC', 'a deny has no uses: it applies until it is revoked or expires', { field: 'uses' })
    // A substitution ends, so an allow from a substitute must end too.
    const isOwn = actor.id === task.ownership.principal
    if (!isOwn && decision === 'allow' && until === 'task')
      throw new Refusal('UNAUTHORIZED', 'a substitute cannot allow a scope for the whole task: set until to `session` or a time')
    const grant = newGrant(task, { scope, decision, until, uses }, { by: actor.id, session, now, newId })
    // In older heads `grant_id` can name a deny; now it names only allows.
    const earlier = before?.denies ?? (last?.decision === 'deny' ? [last.id] : [])
    const head = headWith(grant, { grant_id: before?.grant_id ?? null, denies: earlier })
    const { id: task_id, project_id, root_task_id } = task
    const known = { id: task_id, project_id, root_task_id, scopes: [...new Set([...scopes, scope])] }
    const max = limits.grantsPerTaskMax
    return {
      facts: [
        fact('grant.added', [image(Grant, grant), image(GrantHead, head), image(GrantScopes, known)], {
          detail: { scope, decision, ...signedIn(signature) },
        }),
      ],
      atMost: [{ doc: Grant, index: 'task', prefix: [task_id], max, message: `a task has at most ${max} grants` }],
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
  summary: 'Revoke a grant, with effect from the next use.',
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
  summary: 'Ask whether a scope is allowed in advance. An allowed one needs no checkpoint; a denied one must not run.',
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
    return { task, grant: await grantFor(read, task, scope, now) }
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
      // The executor of a child task might not be a reader of the task above.
      output: { decision, grant: isOwn ? next : null },
    }
  },
  example: { given: 'granted', as: 'devin', input: ({ task, grant }) => ({ task_id: grant.task_id ?? task.id, scope: 'deploy:staging' }) },
})

const GrantView = t.Object({
  ...Grant.schema.properties,
  granted_by_name: nullable(t.String()),
  task_goal: t.String(),
  is_live: t.Boolean({ description: 'it is in effect: not revoked, not used up, not expired, and its task has not ended' }),
})

/** null if no person or agent has this id, for example a pseudonym. */
const personName = async (read: Read, id: string): Promise<string | null> => (await read.ports.names.named(read, id))?.name ?? null

async function grantView(read: Read, grant: Grant, now: string): Promise<Static<typeof GrantView>> {
  const task = await read.raw(Task, grant.task_id)
  const is_live = task !== null && !isTerminal(task.state) && isInForce(grant, await sessionOf(read, task), now)
  return { ...grant, granted_by_name: await personName(read, grant.granted_by), task_goal: task?.spec.goal ?? '', is_live }
}

/** Reads two ranges of one index: first live grants, then spent ones, each newest first. */
async function givenBy(read: Read, people: readonly string[], { after, limit }: { after: string | undefined; limit: number }) {
  const [first, row] = after === undefined ? ['live', undefined] : [after.slice(0, 4), after.slice(4) || undefined]
  const found: { id: string; at: string }[] = []
  for (const state of first === 'over' ? ['over'] : ['live', 'over']) {
    const page = { after: state === first ? row : undefined, limit: limit - found.length, reverse: true }
    const listed =
      page.limit === 0
        ? []
        : await read.list(
            Grant,
            'giver',
            people.map((who) => [who, state]),
            page,
          )
    found.push(...listed.map(({ id, at }) => ({ id, at: `${state}${at}` })))
  }
  return found
}

const list = query({
  name: 'grant.list',
  summary: 'List the grants of a task, oldest first; without a task the ones you gave, newest first and ended ones last.',
  draft: 'continuous control: constraints.grants',
  input: t.Object({ task_id: t.Optional(Id), ...pageInput }),
  output: t.Object({ items: t.Array(GrantView), next_cursor: nextCursor }),
  callers: [anyone],
  async load(read, input, { actor }) {
    const page = pageIn('grant.list', input)
    if (input.task_id !== undefined) {
      await read(Task, input.task_id)
      return { listed: await read.list(Grant, 'task', [[input.task_id]], page) }
    }
    if (actor.kind !== 'human')
      throw new Refusal('INVALID_REQUEST', 'task_id is missing: without a task, people list the grants that they gave', {
        field: 'task_id',
      })
    return { listed: await givenBy(read, idsActedFor(actor), page) }
  },
  async view({ listed }, input, { now }, read) {
    const found = await Promise.all(listed.map(({ id }) => read.maybe(Grant, id)))
    const items = await Promise.all(found.filter((grant) => grant !== null).map((grant) => grantView(read, grant, now)))
    return pageOf('grant.list', input, listed, items)
  },
  example: { given: 'granted', as: 'devin', input: ({ task }) => ({ task_id: task.id }) },
})

/** Questions that one preview examines. */
const LOOKS_MAX = 1_000
const SHOWN_MAX = 20
const DAY_MS = 86_400_000

/** The questions of the task's agent about a scope that people answered since, the oldest first within each scope. */
async function answeredIn(read: Read, task: Task, scope: string, since: string): Promise<{ found: KnownAnswer[]; isCut: boolean }> {
  const isFamily = scope.endsWith('*')
  const begin = `scope ${isFamily ? beginningOf(scope) : `${scope}\0${since}`}`
  const found: KnownAnswer[] = []
  if (task.executor === null) return { found, isCut: false }
  const { requests } = read.ports
  const listed = await requests.cases(read, task.project_id, task.executor, { after: begin, limit: LOOKS_MAX })
  for (const { id, at } of listed) {
    if (!at.startsWith(isFamily ? begin : `scope ${scope}\0`)) return { found, isCut: false }
    const answer = await requests.answer(read, id)
    if (answer !== null && answer.at >= since && covers(scope, answer.scope)) found.push(answer)
  }
  return { found, isCut: listed.length === LOOKS_MAX }
}

const preview = query({
  name: 'grant.preview',
  summary: 'Show what a grant would have answered in the last days, and what people answered.',
  draft: 'ours: people see the consequences before they allow something in advance',
  input: t.Object({
    task_id: Id,
    scope: GrantScope,
    days: t.Optional(t.Integer({ minimum: 1, maximum: 365, description: 'how many days back; 30 by default' })),
  }),
  output: t.Object({
    scope: t.String(),
    days: t.Integer(),
    would_answer: t.Integer({ description: 'the questions of the agent of the task that such a grant would have answered' }),
    approved: t.Integer({ description: 'of those, how many people approved' }),
    rejected: t.Integer({ description: 'of those, how many people rejected' }),
    is_cut: t.Boolean({ description: 'there were more questions than a preview looks at' }),
    items: t.Array(
      t.Object({
        request_id: Id,
        at: t.String(),
        title: t.String(),
        scope: t.String(),
        result: t.Unknown(),
        by: t.String(),
        by_name: nullable(t.String()),
      }),
      { description: 'the latest of them' },
    ),
  }),
  callers: [principal, reviewer],
  load: async (read, { task_id }) => ({ task: await read(Task, task_id) }),
  async view({ task }, { scope, days = 30 }, { now }, read) {
    const { found, isCut } = await answeredIn(read, task, scope, timestampOf(Date.parse(now) - days * DAY_MS))
    const of = (result: string): number => found.filter((answer) => answer.result === result).length
    const latest = found.toSorted((a, b) => (a.at < b.at ? 1 : -1)).slice(0, SHOWN_MAX)
    return {
      scope,
      days,
      would_answer: found.length,
      approved: of('approved'),
      rejected: of('rejected'),
      is_cut: isCut,
      items: await Promise.all(
        latest.map(async ({ id, title, ...answer }) => ({
          request_id: id,
          title: cutTo(title, limits.labelCharsMax),
          ...answer,
          by_name: await personName(read, answer.by),
        })),
      ),
    }
  },
  example: { given: 'in_progress', as: 'alice', input: ({ task }) => ({ task_id: task.id, scope: 'deploy:staging' }) },
})

export const grantOperations = [add, revoke, use, list, preview]
