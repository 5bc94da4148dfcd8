// Saved inbox filters. One document holds all filters of a person: they are few, and private to that person.
import { Refusal } from '#kernel/declare/errors.ts'
import { SYSTEM_SCOPE, type Actor } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import type { Read } from '#kernel/declare/operation.ts'
import { doc, either, t, type Static } from '#kernel/declare/schema.ts'
import { Action } from '../actions/index.ts'
import { Asks } from './item.ts'
import { GROUP, Id, Priority, Risk, Timestamp } from '../schema.ts'

export const State = either('open', 'closed', 'completed', 'failed', 'cancelled', 'declined')
const fields = {
  kind: t.Optional({
    ...either('request', ...Asks.enum),
    description: 'approval, choice, input and verification also find requests that ask for one; request: only what came as one',
  }),
  action: t.Optional(Action),
  priority: t.Optional(Priority),
  project_id: t.Optional({ ...Id, description: 'only what belongs to this project' }),
  task_id: t.Optional(Id),
  agent_id: t.Optional(t.String({ maxLength: limits.labelCharsMax })),
  assignee: t.Optional(t.String({ maxLength: limits.idCharsMax, description: 'whose turn it is' })),
  status: t.Optional(State),
  snoozed: t.Optional(t.Boolean({ description: 'only those that you have snoozed' })),
  risk: t.Optional({ ...Risk, description: 'only what has this risk' }),
  unassigned: t.Optional(t.Boolean({ description: 'true: only unassigned items; false: only assigned ones' })),
  group: t.Optional(
    t.String({
      pattern: `^(${GROUP})?[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`,
      description: 'the name of a group: only what came to you because it was called in',
    }),
  ),
  text: t.Optional(
    t.String({
      minLength: 1,
      maxLength: limits.searchCharsMax,
      pattern: '\\S',
      description:
        'words that the item must all contain: in its question, options, context or details, or in the names and ids of who asks',
    }),
  ),
}
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

/** The query with the fields of a saved filter; fields of the query itself override them. */
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
