// A request as somebody sees it: the agent learns what became of its question, and of the people only what it needs to know.
import type { Actor } from '#kernel/identity.ts'
import { t, type Static } from '#kernel/schema.ts'
import { Request } from './schema.ts'

const { people, snoozed, votes, receipt: _, owner, ...fields } = Request.schema.properties
/** `receipt` stands beside it, signed. */
export const RequestView = t.Object({
  ...fields,
  owner: t.Optional(owner),
  people: t.Optional(people),
  snoozed,
  votes,
  voted: t.Optional(t.Integer()),
})
export type RequestView = Static<typeof RequestView>

export function viewOf(request: Request, actor: Actor): RequestView {
  const { receipt: _, people, snoozed, votes, owner, ...shown } = request
  if (actor.kind === 'human' || actor.kind === 'system')
    return { ...shown, owner, people, ...(snoozed ? { snoozed } : {}), ...(votes ? { votes } : {}) }
  // In a pool nobody is known by name (X21).
  const isPool = request.role === 'pool'
  return { ...shown, assigned_to: isPool ? null : shown.assigned_to, ...(votes ? { voted: votes.length } : {}) }
}
