// A request as somebody sees it: people see the whole, agents what `forAgents` of schema.ts lists.
import type { Actor } from '#kernel/declare/access.ts'
import { t, type Static } from '#kernel/declare/schema.ts'
import { forAgents, Request } from './schema.ts'

const { receipt: _, owner, people, ...fields } = Request.schema.properties
/** `receipt` stands beside it, signed. */
export const RequestView = t.Object({ ...fields, owner: t.Optional(owner), people: t.Optional(people), voted: t.Optional(t.Integer()) })
export type RequestView = Static<typeof RequestView>

export function viewOf(request: Request, actor: Actor): RequestView {
  if (actor.kind !== 'human' && actor.kind !== 'system') return forAgents(request)
  const { receipt: __, ...whole } = request
  return whole
}
