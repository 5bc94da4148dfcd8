// The mark of an answer that its agent has collected: the same question asked again is a new one. The request itself never changes after
// its end.
import { doc, t, type Static } from '#kernel/declare/schema.ts'
import { Id, Request, Timestamp } from '../schema.ts'

export const Collected = doc('execution.collected', t.Object({ id: Id, project_id: Id, at: Timestamp }), {
  noun: 'collected answer',
  scopeOf: (collected) => collected.project_id,
  within: (collected) => ({ doc: Request, id: collected.id }),
})
export type Collected = Static<typeof Collected.schema>
