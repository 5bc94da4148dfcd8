// Saved filters of a person's inbox. They are private, so they leave nothing in the record.
import { Refusal } from '#kernel/declare/errors.ts'
import { put } from '#kernel/declare/facts.ts'
import { human } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, query } from '#kernel/declare/operation.ts'
import { t } from '#kernel/declare/schema.ts'
import { Filter, FilterName, Filters, filtersOf, noFilter, Query } from '../inbox/saved-filters.ts'

const save = command({
  name: 'filter.save',
  summary: 'Save an inbox filter; one of the same name is replaced.',
  draft: 'ours: the inbox',
  input: t.Object({ name: FilterName, query: Query }),
  output: t.Object({ filter: Filter }),
  callers: [human],
  requires: [],
  audit: null,
  load: async (read, _, { actor }) => ({ filters: await filtersOf(read, actor) }),
  decide({ filters }, { name, query }, { actor, now }) {
    // A filter that asks for nothing would be the whole inbox under another name.
    if (Object.keys(query).length === 0) throw new Refusal('INVALID_REQUEST', 'query has no filter: name at least one', { field: 'query' })
    const filter = { name, query, saved_at: now }
    const others = filters.filter((filter) => filter.name !== name)
    if (others.length >= limits.filtersMax)
      throw new Refusal('QUOTA_EXCEEDED', `at most ${limits.filtersMax} filters may be saved: remove one first`)
    return { facts: [], puts: [put(Filters, actor.id, { id: actor.id, filters: [...others, filter] })], output: { filter } }
  },
  example: { given: 'empty', as: 'alice', input: { name: 'urgent', query: { priority: 'critical' } } },
})

const list = query({
  name: 'filter.list',
  summary: 'List your saved inbox filters.',
  draft: 'ours: the inbox',
  input: t.Object({}),
  output: t.Object({ items: t.Array(Filter) }),
  callers: [human],
  load: async (read, _, { actor }) => ({ items: await filtersOf(read, actor) }),
  view: (state) => state,
  example: { given: 'empty', as: 'alice', input: {} },
})

const remove = command({
  name: 'filter.remove',
  summary: 'Remove a saved inbox filter.',
  draft: 'ours: the inbox',
  input: t.Object({ name: FilterName }),
  output: t.Object({ filter: Filter }),
  callers: [human],
  requires: [],
  audit: null,
  load: async (read, _, { actor }) => ({ filters: await filtersOf(read, actor) }),
  decide({ filters }, { name }, { actor }) {
    const filter = filters.find((entry) => entry.name === name)
    if (!filter) throw noFilter(name)
    const left = filters.filter((entry) => entry !== filter)
    return {
      facts: [],
      puts: [put(Filters, actor.id, left.length === 0 ? null : { id: actor.id, filters: left })],
      output: { filter },
    }
  },
  example: { given: 'filtered', as: 'alice', input: { name: 'urgent' } },
})

export const filterOperations = [save, list, remove]
