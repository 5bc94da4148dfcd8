// A request as somebody sees it: the agent learns what became of its question, and of the people only what it needs to know.
import type { Actor } from '#kernel/declare/access.ts'
import { t, type Static } from '#kernel/declare/schema.ts'
import { Request } from './schema.ts'

const { people, snoozed, votes, receipt: _, owner, escalated_to, called, floor, gone, ...fields } = Request.schema.properties
/** `receipt` stands beside it, signed. */
export const RequestView = t.Object({
  ...fields,
  owner: t.Optional(owner),
  people: t.Optional(people),
  snoozed,
  votes,
  escalated_to,
  called,
  floor,
  gone,
  voted: t.Optional(t.Integer()),
})
export type RequestView = Static<typeof RequestView>

const views = { person: new WeakMap<Request, RequestView>(), agent: new WeakMap<Request, RequestView>() }
/** The same for a request that is looked at again and again while nothing happens to it. */
export function viewAgain(request: Request, actor: Actor): RequestView {
  const known = actor.kind === 'human' || actor.kind === 'system' ? views.person : views.agent
  let view = known.get(request)
  if (!view) known.set(request, (view = viewOf(request, actor)))
  return view
}

export function viewOf(request: Request, actor: Actor): RequestView {
  if (actor.kind === 'human' || actor.kind === 'system') {
    const { receipt: _, ...whole } = request
    return whole
  }
  const {
    receipt: _,
    people: __,
    snoozed: ___,
    votes,
    owner: ____,
    escalated_to: _____,
    gone: ______,
    called: _7,
    floor: _8,
    ...rest
  } = request
  const shown: RequestView = rest
  if (votes) shown.voted = votes.length
  if (request.role !== 'pool') return shown
  // In a pool nobody is known by name (X21).
  shown.assigned_to = null
  if (shown.thread) shown.thread = shown.thread.map((remark) => (remark.kind === 'question' ? { ...remark, by: 'pool' } : remark))
  return shown
}
