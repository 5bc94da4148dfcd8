// The items on the screen and the server's inbox: read page by page, kept up to date as others decide, and never moved away under
// somebody's hand. What was decided stays where it was until it is looked at anew.
import { isOpen } from './inbox-card.ts'
import type { Item } from '#protocols/execution/inbox.ts'
import { CliError } from './exits.ts'
import type { Remote } from './remote.ts'
import { inert } from './text.ts'

export type Query = Readonly<Record<string, unknown>>
export type Filter = { readonly text: string; readonly query: Query; readonly words: readonly string[] }
export const noFilter = (query: Query): Filter => ({ text: '', query, words: [] })

const fields: Readonly<Record<string, string>> = {
  action: 'action',
  agent: 'agent_id',
  assignee: 'assignee',
  kind: 'kind',
  priority: 'priority',
  project: 'project_id',
  status: 'status',
  task: 'task_id',
}

/** `priority:high kind:review login @mine`: fields, words of the title, a saved filter. */
export function filterFrom(text: string, base: Query): Filter {
  const query: Record<string, unknown> = { ...base }
  const words: string[] = []
  for (const word of text.split(/\s+/).filter((one) => one !== '')) {
    const [name = '', ...value] = word.split(':')
    const field = fields[name]
    if (field !== undefined && value.length > 0) query[field] = field === 'action' ? value.join(':').toUpperCase() : value.join(':')
    else if (word.startsWith('@') && word.length > 1) query['filter'] = word.slice(1)
    else words.push(word.toLowerCase())
  }
  return { text: text.trim(), query, words }
}
const fits = ({ title, agent }: Item, words: readonly string[]): boolean => {
  const text = `${title} ${agent.id} ${agent.name ?? ''} ${agent.label}`.toLowerCase()
  return words.every((word) => text.includes(word))
}

const PAGE = 50
/** Nobody chooses among more at a terminal: a filter finds the rest. */
const ITEMS_MAX = 1_000

export type Items = {
  readonly all: readonly Item[]
  readonly isMore: boolean
  readonly filter: Filter
  /** What to say about an item that is not to be answered any more, by request. */
  readonly marks: ReadonlyMap<string, string>
  mark(request_id: string, words: string): void
  /** From the beginning, without what was decided. */
  reset(filter: Filter): Promise<void>
  /** What is new comes in at its place; what is here stays. */
  refresh(): Promise<void>
  more(): Promise<void>
  /** One item as it is now; null: it is not ours any more. */
  reload(request_id: string): Promise<Item | null>
}

export function createItems(remote: Remote, first: Filter): Items {
  let all: Item[] = []
  let cursor: string | null = null
  let filter = first
  const marks = new Map<string, string>()

  async function page(of: Filter, after: string | null, limit: number): Promise<Item[]> {
    const input = { ...of.query, limit, ...(after === null ? {} : { cursor: after }) }
    const found: { items: Item[]; next_cursor: string | null } = await remote.call('execution/inbox.list', input)
    cursor = found.next_cursor
    return found.items.filter((item) => fits(item, of.words))
  }

  return {
    get all() {
      return all
    },
    get isMore() {
      return cursor !== null && all.length < ITEMS_MAX
    },
    get filter() {
      return filter
    },
    marks,
    mark: (request_id, words) => void marks.set(request_id, words),
    async reset(next) {
      all = await page(next, null, PAGE)
      filter = next
      marks.clear()
    },
    async refresh() {
      all = merged(all, await page(filter, null, Math.min(100, Math.max(PAGE, all.length))), marks)
    },
    async more() {
      if (cursor === null || all.length >= ITEMS_MAX) return
      const known = new Set(all.map(({ request_id }) => request_id))
      const next = await page(filter, cursor, PAGE)
      all = [...all, ...next.filter(({ request_id }) => !known.has(request_id))]
    },
    async reload(request_id) {
      try {
        const { item }: { item: Item } = await remote.call('execution/inbox.get', { request_id })
        if (!isOpen(item) && !marks.has(request_id)) marks.set(request_id, `${item.status} by ${inert(item.ended?.by ?? '?')}`)
        all = all.map((one) => (one.request_id === request_id ? item : one))
        return item
      } catch (error) {
        if (!(error instanceof CliError) || error.code !== 'NOT_FOUND') throw error
        if (!marks.has(request_id)) marks.set(request_id, 'not yours now')
        return null
      }
    },
  }
}

/** The server's order, and what is not in it any more behind what it stood behind. */
function merged(before: readonly Item[], now: readonly Item[], marks: ReadonlyMap<string, string>): Item[] {
  const fresh = new Set(now.map(({ request_id }) => request_id))
  const all = [...now]
  for (const [i, item] of before.entries()) {
    if (fresh.has(item.request_id)) continue
    const isLater = !marks.has(item.request_id) && i >= now.length
    const ahead = before.slice(0, i).findLast(({ request_id }) => all.some((one) => one.request_id === request_id))
    const at = isLater || ahead === undefined ? (isLater ? all.length : 0) : all.findIndex((one) => one.request_id === ahead.request_id) + 1
    all.splice(at, 0, item)
  }
  return all
}
