// Rerouting: a request goes to another person, or to more people. It never changes the deciders of a task.
import { Refusal } from '#kernel/declare/errors.ts'
import { image } from '#kernel/declare/facts.ts'
import { system, type Actor } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, rule } from '#kernel/declare/operation.ts'
import { t } from '#kernel/declare/schema.ts'
import { judgesOf } from '#kernel/ports/tasks.ts'
import { fact } from '../events.ts'
import { isPersonOf } from '../asking/recipients.ts'
import { assignedTo, peopleNamed, type Called, type Named } from '../asking/routing.ts'
import { answerer, chief, isNotLate, isUnresolved, poolMember, requestOf, type OfRequest } from '../access.ts'
import { Id, isOpen, Request } from '../schema.ts'
import { escalatedNext } from '../deadlines.ts'
import { RequestView, viewOf } from '../view.ts'
import { Reason } from './resolve.ts'

const hasNoQuorum = rule<OfRequest>(
  'PRECONDITION_FAILED',
  'no quorum is asked: its people are the ones whom the agent named',
  ({ request }) => request.quorum === undefined,
  'a quorum was asked for: its people are those whom the agent named',
)

/** H8: routing never makes a person a judge of a task. */
function refuseOutsiders({ task, request, allowed }: OfRequest, people: readonly string[]): void {
  const judges = allowed ?? (task === null ? request.approvers : judgesOf(task))
  const outsider = judges === undefined ? undefined : people.find((who) => !judges.includes(who))
  if (outsider !== undefined && allowed !== null)
    throw new Refusal(
      'UNAUTHORIZED',
      `the rules for approvals do not let ${outsider} answer this: they let ${allowed.join(', ') || 'nobody'}`,
      {
        field: 'to',
      },
    )
  if (outsider !== undefined && task === null)
    throw new Refusal('TASK_BOUND', `${outsider} is not an approver of the capability behind the request`, { field: 'to' })
  if (outsider !== undefined)
    throw new Refusal('TASK_BOUND', `${outsider} cannot decide on the task behind the request: reviewer.add lets them`, { field: 'to' })
}

const assign = command({
  name: 'request.assign',
  summary: 'Hand a request to another person of the project. Its former recipient loses it; the owner of the agent may still answer.',
  draft: 'ours: HXP 0.1, 6 routes once; people are away, or know who knows better',
  input: t.Object({ request_id: Id, to: Id, reason: Reason }),
  output: t.Object({ request: RequestView }),
  callers: [answerer, chief],
  requires: [isNotLate, isUnresolved, hasNoQuorum],
  audit: 'request.assigned',
  async load(read, { request_id, to }) {
    const state = await requestOf(read, request_id)
    return { ...state, isPerson: await isPersonOf(read, to, state.request.project_id) }
  },
  decide({ isPerson, ...state }, { to, reason }, { actor, now }) {
    if (!isPerson) throw new Refusal('NOT_FOUND', `there is no active person ${to} in this project`, { field: 'to' })
    refuseOutsiders(state, [to])
    const { request } = state
    const next = assignedTo(request, to, now)
    return {
      facts: [fact('request.assigned', [image(Request, next)], { detail: { from: request.assigned_to, to, reason: reason ?? null } })],
      output: { request: viewOf(next, actor) },
    }
  },
  example: { given: 'asked', as: 'alice', input: ({ request }) => ({ request_id: request.id, to: 'user_bob', reason: 'Bob pays.' }) },
})

type Escalating = OfRequest & { readonly named: Named }

const escalate = command({
  name: 'request.escalate',
  summary:
    'Escalate a request to more people: all of them can answer, and it becomes more urgent. The system calls it when the agent asked for it.',
  draft: 'ours: HXP 0.1, 3.2 knows urgency, but nobody to turn to',
  input: t.Object({
    request_id: Id,
    to: t.Optional(t.Array(Id, { minItems: 1, maxItems: 20, description: 'people, or groups as group:<name>' })),
  }),
  output: t.Object({ request: RequestView }),
  callers: [system, answerer, poolMember, chief],
  requires: [
    // A person faster than the timer is no failure.
    rule<Escalating>(
      'PRECONDITION_FAILED',
      'the request is open, and the escalation that was asked for is due',
      ({ request }, _, { actor, now }) => actor.kind !== 'system' || (isOpen(request) && isDue(request, now)),
      'the request is closed, or its escalation is not due yet',
    ),
    rule<Escalating>(
      isNotLate.code,
      isNotLate.message,
      (state, input, context) => context.actor.kind === 'system' || isNotLate.holds(state, input, context),
      isNotLate.refusal,
    ),
    isUnresolved,
    hasNoQuorum,
  ],
  audit: 'request.escalated',
  async load(read, { request_id, to }): Promise<Escalating> {
    const state = await requestOf(read, request_id)
    const names = to ?? state.request.escalation?.to ?? []
    return { ...state, named: await peopleNamed(read, names, state.request.project_id) }
  },
  decide({ named, ...state }, { to }, { actor, now }) {
    if (actor.kind !== 'system') refuseOddPeople(state, named, to)
    const next = escalateRequest(state, named, actor, now)
    return {
      facts: [fact('request.escalated', [image(Request, next)], { detail: { to: [...named.people], priority: next.priority } })],
      output: { request: viewOf(next, actor) },
    }
  },
  example: { given: 'unanswered', as: 'alice', input: ({ request }) => ({ request_id: request.id, to: ['user_bob'] }) },
})

function isDue(request: Request, now: string): boolean {
  const due = escalatedNext(request)
  return due !== null && due <= now
}

function refuseOddPeople(state: OfRequest, { people, unknown }: Named, to: readonly string[] | undefined): void {
  if (to === undefined) throw new Refusal('INVALID_REQUEST', 'to is required', { field: 'to' })
  if (unknown.length > 0)
    throw new Refusal('NOT_FOUND', `${unknown.join(', ')}: no active person and no group of the project`, { field: 'to' })
  refuseOutsiders(state, people)
  if (new Set([...state.request.people, ...people]).size > limits.peoplePerRequestMax)
    throw new Refusal('QUOTA_EXCEEDED', `at most ${limits.peoplePerRequestMax} people have one request before them`)
}

const above = { low: 'normal', normal: 'high', high: 'critical', critical: 'critical' } as const

/** X24: what an agent may call critical is rationed, so its own plan raises a request to high at most. People may do more. */
function escalateRequest({ request, task, allowed }: OfRequest, { people, groups }: Named, actor: Actor, now: string): Request {
  const isPlanned = actor.kind === 'system'
  const judges = allowed ?? (task === null ? (request.approvers ?? null) : judgesOf(task))
  const may = judges === null ? people : people.filter((who) => judges.includes(who))
  const all = [...new Set([...request.people, ...may])].slice(0, limits.peoplePerRequestMax)
  const added = all.filter((who) => may.includes(who))
  const raised = above[request.priority]
  return {
    ...request,
    people: all,
    priority: isPlanned && raised === 'critical' ? request.priority : raised,
    escalated_at: now,
    escalated_to: [...new Set([...(request.escalated_to ?? []), ...added])],
    ...calledIn(request, groups),
    ...(isPlanned && request.escalation ? { escalation: { ...request.escalation, at: now } } : {}),
  }
}

/** Each group once, with its people as they were called in last. */
function calledIn({ called = [] }: Request, groups: readonly Called[]): Pick<Request, 'called'> {
  const others = called.filter(({ group }) => !groups.some((asked) => asked.group === group))
  const all = [...others, ...groups]
  return all.length === 0 ? {} : { called: all }
}

export const routingOperations = [assign, escalate]
