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
