// Questions to the inbox that a person has given a name. One document holds all of theirs: they are few, and nobody else's.
import { Refusal } from '#kernel/errors.ts'
import { SYSTEM_SCOPE, type Actor } from '#kernel/identity.ts'
import { limits } from '#kernel/limits.ts'
import type { Read } from '#kernel/operation.ts'
import { doc, either, t, type Static } from '#kernel/schema.ts'
import { Action, Id, Kind, Priority, Timestamp } from './schema.ts'

export const State = either('open', 'closed', 'completed', 'failed', 'cancelled')
const fields = {
  kind: t.Optional(Kind),
  action: t.Optional(Action),
  priority: t.Optional(Priority),
  project_id: t.Optional({ ...Id, description: 'only what belongs to this project' }),
  task_id: t.Optional(Id),
  agent_id: t.Optional(t.String({ maxLength: limits.labelCharsMax })),
  assignee: t.Optional(t.String({ maxLength: limits.idCharsMax, description: 'whose turn it is' })),
  status: t.Optional(State),
  snoozed: t.Optional(t.Boolean({ description: 'only those that you have snoozed' })),
}
/** What an inbox can be asked for. */
export const Query = t.Object(fields)
export type Query = Static<typeof Query>
export const queryFields = fields

export const FilterName = t.String({ minLength: 1, maxLength: limits.labelCharsMax })
export const Filter = t.Object({ name: FilterName, query: Query, saved_at: Timestamp })

export const Filters = doc('execution.filters', t.Object({ id: Id, filters: t.Array(Filter, { maxItems: limits.filtersMax }) }), {
  noun: 'filter',
  scopeOf: () => SYSTEM_SCOPE,
  visibleTo: ({ id }, actor) => id === actor.id,
})

export const filtersOf = async (read: Read, actor: Actor): Promise<Static<typeof Filter>[]> =>
  (await read.maybe(Filters, actor.id))?.filters ?? []

export const noFilter = (name: string): Refusal => new Refusal('NOT_FOUND', `you have no filter ${name}`)

/** The question with what a saved filter adds; what is asked for in words counts more. */
export async function withSaved<I extends Query & { readonly filter?: string | undefined }>(
  read: Read,
  input: I,
  actor: Actor,
): Promise<I> {
  if (input.filter === undefined) return input
  const found = (await filtersOf(read, actor)).find(({ name }) => name === input.filter)
  if (!found) throw noFilter(input.filter)
  return { ...found.query, ...input }
}
