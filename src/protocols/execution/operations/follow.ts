// Streams: the inbox as it changes, and one request as it changes. A fact is written once for all subscribers. Its image names the people
// whom it concerns, so skipping it for the others costs nothing.
import { anyone, human, isIn, type Actor } from '#kernel/declare/access.ts'
import { stream, type Read } from '#kernel/declare/operation.ts'
import { keyOf, nullable, t } from '#kernel/declare/schema.ts'
import type { StoredFact } from '#kernel/log/store.ts'
import { taskKind } from '#kernel/ports/tasks.ts'
import { changeIn, eventsOf, type Audience } from '../answering/request-events.ts'
import { shownDigest, visible } from '../answering/shown-request.ts'
import { titleOf } from '../inbox/item.ts'
import { isBefore } from '../inbox/readers.ts'
import { Action } from '../actions/index.ts'
import { shownText } from '../asking/hostile-text.ts'
import { Id, Kind, Priority, Request, Risk, Status, Timestamp } from '../schema.ts'

/** The request is or was in the actor's inbox. A snooze concerns only the person who set it. */
async function concerns(fact: StoredFact, actor: Actor, read: Read): Promise<boolean> {
  const { event, after, before } = changeIn(fact)!
  if (!isIn(actor, fact.scope) && !Request.reaches(after, actor)) return false
  if (!isBefore(actor, after) && (before === null || !isBefore(actor, before))) return false
  if (event === 'snoozed' || event === 'unsnoozed') return fact.actor === actor.id
  return after.task_id === undefined || after.no_decider === true || (await read.maybe(taskKind(), after.task_id)) !== null
}

const follow = stream({
  name: 'inbox.follow',
  summary: 'Follow the items that enter, change in and leave your inbox, from any cursor on.',
  draft: 'ours: the inbox',
  input: t.Object({}),
  output: t.Object({
    event: t.String({ description: 'created, completed, cancelled, ...: the word of the record' }),
    request_id: Id,
    at: Timestamp,
    item: t.Object({
      kind: Kind,
      action: Action,
      status: Status,
      priority: Priority,
      title: t.String(),
      digest: t.String(),
      expires_at: Request.schema.properties.expires_at,
      overdue: t.Boolean(),
      risk: nullable(Risk),
      task_id: nullable(Id),
      agent: t.Object({ id: Id, label: t.String() }),
      assignee: nullable(Id),
      by: nullable(t.String({ description: 'the person or agent that answered or ended it; null: it is open' })),
      result: t.Unknown({ description: 'the answer; null: there is none, or it was given out of a pool' }),
    }),
  }),
  callers: [human],
  load: (read, _, { actor }) => Promise.resolve({ read, actor }),
  of: () => ({ by: 'position' }),
  wants: (_, fact) => changeIn(fact) !== null,
  sees:
    ({ read, actor }) =>
    (fact) =>
      concerns(fact, actor, read),
  view(fact) {
    const { event, after } = changeIn(fact)!
    const { id, kind, action, status, priority, expires_at, overdue, risk, role, task_id, requester, agent_id, assigned_to, receipt } =
      after
    const item = {
      kind,
      action,
      status,
      priority,
      title: titleOf(after),
      digest: shownDigest(after),
      expires_at,
      overdue,
      risk: risk ?? null,
      task_id: task_id ?? null,
      agent: { id: requester, label: shownText(agent_id) },
      assignee: assigned_to,
      by: receipt?.completed_by ?? null,
      // People of a pool can learn that another person was faster, but not the answer.
      result: role === 'pool' ? null : visible(receipt?.result ?? null),
    }
    return { event, request_id: id, at: fact.at, item }
  },
  example: { given: 'asked', as: 'alice', input: {} },
})

const followRequest = stream({
  name: 'request.follow',
  summary: 'Follow one request until it ends: claims, releases, questions, extensions, the answer.',
  draft: 'HXP 0.1, 5.2: events, of which the sockets of /hxp/ws are made',
  input: t.Object({ request_id: Id }),
  output: t.Object({
    request_id: Id,
    at: Timestamp,
    status: Status,
    events: t.Array(
      t.Object({
        event: t.String({ description: 'assigned, released, question, reply, extended, expired, completed, failed, cancelled, declined' }),
        assigned_to: t.Optional(nullable(t.String({ description: 'null: a member of the pool' }))),
        text: t.Optional(t.String()),
        at: t.Optional(Timestamp),
        expires_at: t.Optional(Request.schema.properties.expires_at),
      }),
      { description: 'the receipt of one that has ended is fetched with request.get' },
    ),
  }),
  callers: [anyone],
  load: async (read, { request_id }, { actor }) => ({ request: await read(Request, request_id), read, actor }),
  of: ({ request }) => ({ by: 'scope', scope: request.project_id }),
  about: ({ request }) => keyOf(Request, request.id),
  audience: ({ kind }) => (kind === 'human' || kind === 'system' ? 'person' : 'agent'),
  wants: ({ request_id }, fact) => changeIn(fact)?.after.id === request_id,
  sees:
    ({ read, actor }) =>
    (fact) =>
      mayHear(changeIn(fact)!.after, actor, read),
  view(fact, audience) {
    const { before, after } = changeIn(fact)!
    return { request_id: after.id, at: fact.at, status: after.status, events: eventsOf(before, after, audience as Audience) }
  },
  example: { given: 'asked', as: 'devin', input: ({ request }) => ({ request_id: request.id }) },
})

/** Whether the actor could read the request in this state. */
function mayHear(request: Request, actor: Actor, read: Read): boolean | Promise<boolean> {
  if (!isIn(actor, request.project_id)) return Request.reaches(request, actor)
  if (actor.projects === 'all') return true
  if (!Request.visibleTo(request, actor)) return false
  if (request.task_id === undefined || request.no_decider === true) return true
  return read.maybe(taskKind(), request.task_id).then((task) => task !== null)
}

export const followOperations = [follow, followRequest]
