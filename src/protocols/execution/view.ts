// A request as somebody sees it: the agent learns what became of its question, and of the people only what it needs to know.
import type { Actor } from '#kernel/identity.ts'
import { t, type Static } from '#kernel/schema.ts'
import { Request } from './schema.ts'

const { people, snoozed, votes, receipt: _, owner, escalated_to, ...fields } = Request.schema.properties
/** `receipt` stands beside it, signed. */
export const RequestView = t.Object({
  ...fields,
  owner: t.Optional(owner),
  people: t.Optional(people),
  snoozed,
  votes,
  escalated_to,
  voted: t.Optional(t.Integer()),
})
export type RequestView = Static<typeof RequestView>

export function viewOf(request: Request, actor: Actor): RequestView {
  const { receipt: _, ...whole } = request
  if (actor.kind === 'human' || actor.kind === 'system') return whole
  const { people: __, snoozed: ___, votes, owner: ____, escalated_to: _____, ...shown } = whole
  const voted = votes ? { voted: votes.length } : {}
  if (request.role !== 'pool') return { ...shown, ...voted }
  // In a pool nobody is known by name (X21).
  const { thread } = shown
  const remarks = thread?.map((remark) => (remark.kind === 'question' ? { ...remark, by: 'pool' } : remark))
  return { ...shown, assigned_to: null, ...(remarks ? { thread: remarks } : {}), ...voted }
}
