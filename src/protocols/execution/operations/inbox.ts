// The inbox: everything that waits for a person, from any requester, most urgent first. Items of other people are neither listed nor
// counted.
import { heldBy, human, installationOwner, isIn, role, speaksFor, type Actor, type SealKey } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { query, type Read } from '#kernel/declare/operation.ts'
import { cursorOf, nextCursor, pageInput, pageSize, placeOf } from '#kernel/declare/paging.ts'
import { either, END, nullable, prefixOf, t, type Part, type Static } from '#kernel/declare/schema.ts'
import { isSecret } from '../actions/provide.ts'
import { FilterName, queryFields, withSaved, type Query } from '../inbox/saved-filters.ts'
import { asksOf, Item, itemOf, knowingBy, nameFor, Row, rowOf, type Knowing } from '../inbox/item.ts'
import { inboxesReadBy, inboxOf, OPEN_COUNTS_MAX, openIn, type Inboxes, type OpenCount } from '../inbox/readers.ts'
import {
  GROUP,
  Id,
  isInPool,
  isOpen,
  poolOf,
  Remark,
  Request,
  SNOOZED_PARTS,
  snoozedUntil,
  tiersOf,
  turns,
  Vote,
  type Turn,
} from '../schema.ts'
import { endedStatuses } from './draft-inbox.ts'
import { searchFor, type Search } from '../inbox/search.ts'
import { shownText } from '../asking/hostile-text.ts'

const whatFields = {
  ...queryFields,
  filter: t.Optional({ ...FilterName, description: 'a saved filter; other fields override it' }),
  person: t.Optional(t.String({ maxLength: limits.idCharsMax, description: "another person's inbox (installation owners only)" })),
}
const ListInput = t.Object({
  ...whatFields,
  view: t.Optional({ ...either('whole', 'row'), description: 'row: without card, facts and effects; whole by default' }),
  order: t.Optional({ ...either('priority', 'urgency'), description: 'for clients of earlier versions: there is one order' }),
  ...pageInput,
})
type ListInput = Static<typeof ListInput>

type OfPerson = { readonly person: string | null }
const themself = heldBy(
  'the person whose inbox it is',
  role<OfPerson>('a person, for themself', (actor, { person }) => actor.kind === 'human' && (person === null || person === actor.id)),
)

const list = query({
  name: 'inbox.list',
  summary: 'List the items that wait for you, the most urgent first; or items that have ended, newest first.',
  draft: 'HXP 0.1, published OpenAPI: inbox; ours: one list for everything that waits on a person',
  input: ListInput,
  output: t.Object({ items: t.Array(t.Union([Item, Row])), next_cursor: nextCursor }),
  callers: [themself, installationOwner],
  load: async (read, input, { actor }) => ({ person: input.person ?? null, asked: await withSaved(read, input, actor) }),
  async view({ person, asked }, _, { actor, now }, read) {
    const knowing = knowingBy(read)
    const items: (Item | Row)[] = []
    let bytes = 0
    for await (const { request, at } of findItems(read, asked, seenBy(actor, person), knowing)) {
      if (request === null) return { items, next_cursor: at === null ? null : cursorOf('inbox.list', asked, at) }
      const item = await (asked.view === 'row' ? rowOf : itemOf)(request, actor, now, knowing)
      items.push(item)
      // Agents' texts can be long, so their size also ends a page.
      bytes += 'card' in item ? JSON.stringify(item.card).length : 0
      if (items.length === pageSize(asked) || bytes > limits.pageBytesMax) return { items, next_cursor: cursorOf('inbox.list', asked, at!) }
    }
    return { items, next_cursor: null }
  },
  example: { given: 'asked', as: 'alice', input: {} },
})

const seenBy = (actor: Actor, person: string | null): Inboxes =>
  person === null || person === actor.id ? inboxesReadBy(actor) : inboxOf(person)

type Found = { readonly request: Request | null; readonly at: string | null }
/** Matching items with their places in the list. A place without a request: the search limit is reached, the next page continues there. */
async function* findItems(read: Read, asked: ListInput, inbox: Inboxes, knowing: Knowing, name = 'inbox.list'): AsyncIterable<Found> {
  const { index, prefixes, reverse, tiers } = rowsOf(asked, inbox)
  const limit = Math.max(pageSize(asked), PORTION)
  const search = asked.text === undefined ? null : searchFor(asked.text, knowing)
  let after = placeOf(name, asked)
  const ids = search === null || index === 'closed' ? null : await read.holding(Request, search.words, search.nameOf, pageSize(asked))
  if (ids !== null) return yield* foundAmong(read, ids, asked, inbox, search!, after)
  let examined = 0
  for (const lead of tiers ?? ['']) {
    if (after !== undefined && after > lead && !after.startsWith(lead)) continue
    const under = lead === '' ? prefixes : prefixes.map((parts) => [...parts, lead.slice(0, -1)])
    for (let isLast = false; !isLast; examined += limit) {
      if (examined >= limits.examinedMax) return yield { request: null, at: after! }
      const from = after?.startsWith(lead) ? after.slice(lead.length) : undefined
      const listed = await read.list(Request, index, under, { after: from, limit, reverse })
      isLast = listed.length < limit
      for (const { id, at: rest } of listed) {
        const at = lead + rest
        after = at
        const request = await read.maybe(Request, id)
        const isMeant = request !== null && inbox.holds(request) && fits(request, asked)
        if (isMeant && (search === null || (await search.fits(request)))) yield { request, at }
        if (search !== null && search.searched > limits.searchedCharsMax) return yield { request: null, at }
      }
    }
  }
}
const PORTION = 50

/** The matching requests among those that might contain the words of the search, each at its place in the list. */
async function* foundAmong(
  read: Read,
  ids: readonly string[],
  asked: ListInput,
  inbox: Inboxes,
  search: Search,
  after: string | undefined,
): AsyncIterable<Found> {
  const rows = rowsOf(asked, inbox)
  const placed: { readonly request: Request; readonly at: string }[] = []
  for (const id of ids) {
    const request = await read.maybe(Request, id)
    if (request === null || !inbox.holds(request) || !fits(request, asked)) continue
    const at = placeIn(request, rows)
    if (at !== null && (after === undefined || at > after)) placed.push({ request, at })
  }
  for (const { request, at } of placed.sort((a, b) => (a.at < b.at ? -1 : 1))) {
    if (await search.fits(request)) yield { request, at }
    if (search.searched > limits.searchedCharsMax) return yield { request: null, at }
  }
}
/** The place of the request in the list; null: it is not listed. */
function placeIn(request: Request, { index, prefixes }: Rows): string | null {
  for (const row of Request.indexes[index]!.rows(request)) {
    const prefix = prefixes.find((parts) => parts.every((part, i) => part === row[i]))
    if (prefix !== undefined) return prefixOf(Request, '', row.slice(prefix.length)).slice(prefixOf(Request, '', []).length) + request.id
  }
  return null
}

type Rows = {
  readonly index: 'open' | 'closed'
  readonly prefixes: readonly (readonly Part[])[]
  readonly reverse: boolean
  /** The first parts of the matching rows; null: all rows match. */
  readonly tiers: readonly string[] | null
}
function rowsOf(asked: Query, { people, pools, undecided }: Inboxes): Rows {
  const { status = 'open', priority, snoozed, project_id, unassigned } = asked
  if (status !== 'open') {
    const states = status === 'closed' ? endedStatuses : [status]
    return { index: 'closed', prefixes: people.flatMap((who) => states.map((state) => [who, state])), reverse: true, tiers: null }
  }
  if (snoozed === true) return { index: 'open', prefixes: people.map((who) => [who, ...SNOOZED_PARTS]), reverse: false, tiers: null }
  const meant = project_id === undefined ? pools : pools.filter((pool) => pool === poolOf(project_id))
  const names = [...people, ...meant, ...undecided]
  const tiers = priority === undefined ? null : tiersOf[priority].map((tier) => `${tier}\0`)
  const chosenTurns = turns.filter((turn) => unassigned === undefined || unassigned === (turn === 'none'))
  return { index: 'open', prefixes: names.flatMap((who) => chosenTurns.map((turn) => [who, turn])), reverse: false, tiers }
}

function fits(request: Request, query: Query): boolean {
  const { status = 'open', kind, action, priority, project_id, task_id, agent_id, assignee, risk, unassigned, group } = query
  return (
    // The row can be older than the request.
    isOpen(request) === (status === 'open') &&
    (kind === undefined || request.kind === kind || asksOf(request) === kind) &&
    (action === undefined || request.action === action) &&
    (priority === undefined || request.priority === priority) &&
    (project_id === undefined || request.project_id === project_id) &&
    (task_id === undefined || request.task_id === task_id) &&
    (agent_id === undefined || request.requester === agent_id || request.agent_id === agent_id) &&
    (assignee === undefined || request.assigned_to === assignee) &&
    (risk === undefined || request.risk === risk) &&
    (unassigned === undefined || unassigned === (request.assigned_to === null)) &&
    (group === undefined || request.called?.some((call) => call.group === groupNamed(group)) === true)
  )
}

const groupNamed = (name: string): string => (name.startsWith(GROUP) ? name : GROUP + name)

const WithName = { by_name: nullable(t.String()) }
const get = query({
  name: 'inbox.get',
  looksAt: { doc: Request, field: 'request_id' },
  summary: 'Fetch one item of your inbox, with its remarks and votes.',
  draft: 'ours: the inbox',
  input: t.Object({ request_id: Id }),
  output: t.Object({
    item: Item,
    thread: t.Optional(t.Array(t.Object({ ...Remark.properties, ...WithName }))),
    votes: t.Optional(t.Array(t.Object({ ...Vote.properties, ...WithName }))),
    seal_key: nullable(
      t.Object(
        { kty: t.String(), crv: t.String(), x: t.String(), kid: t.Optional(t.String()) },
        { description: 'where a secret is asked for: the key (JWK) that it can be sealed to before it is sent' },
      ),
    ),
  }),
  callers: [human],
  load: async (read, { request_id }) => ({ request: await read(Request, request_id) }),
  async view({ request }, _, { actor, now }, read) {
    const { thread = [], votes = [] } = request
    const knowing = knowingBy(read)
    const withName = async <T extends { readonly by: string }>(remark: T) => ({ ...remark, by_name: await nameFor(remark.by, knowing) })
    return {
      item: await itemOf(request, actor, now, knowing),
      thread: await Promise.all(thread.map((remark) => withName({ ...remark, text: shownText(remark.text) }))),
      votes: await Promise.all(
        votes.map(({ reason, ...vote }) => withName({ ...vote, ...(reason === undefined ? {} : { reason: shownText(reason) }) })),
      ),
      seal_key: await sealKeyFor(read, request),
    }
  },
  example: { given: 'asked', as: 'alice', input: ({ request }) => ({ request_id: request.id }) },
})

/** The agent's seal key, for requests that ask for a secret. */
async function sealKeyFor(read: Read, { payload, requester }: Request): Promise<SealKey | null> {
  return isSecret(payload) ? ((await read.subject(requester))?.sealKey ?? null) : null
}

/** Counters are kept for the whole inbox: a key for some projects would learn of the others from them. */
const wholePerson = role<OfCount>(
  'a person, with a key for all their projects',
  (actor, { person, isFiltered }) => themself.is(actor, { person }) && (isFiltered || !actor.partial),
)
const ofAnother = role<OfCount>('owner', (actor, state) => state.isFiltered && installationOwner.is(actor, state))
const ByPriority = t.Object({ critical: t.Integer(), high: t.Integer(), normal: t.Integer(), low: t.Integer() })
type ByPriority = Static<typeof ByPriority>
const Count = t.Object({
  open: t.Integer({ description: 'with a filter, how many items fit it' }),
  by_priority: ByPriority,
  pool: t.Integer({ description: 'of those, how many nobody has taken yet' }),
  no_decider: t.Integer({ description: 'of those, how many nobody can answer until you name a substitute' }),
  snoozed: t.Integer(),
  mine: t.Integer({ description: 'of those, how many are assigned to you' }),
  unassigned: t.Integer({ description: 'of those, how many are assigned to nobody' }),
  groups: t.Array(t.Object({ group: t.String(), open: t.Integer() }), {
    description: 'items that came to you because a group was called in',
  }),
  acting_for: t.Array(t.Object({ person: Id, open: t.Integer() })),
  next_cursor: t.Union([t.String(), t.Null()], {
    description: 'with a filter: there is more to count; add up the pages. null: that was all',
  }),
})
type Count = Static<typeof Count>
type OfCount = OfPerson & { readonly isFiltered: boolean }

const count = query({
  name: 'inbox.count',
  summary:
    'Count the items that wait for you: your own, the pools of your projects, and the items of each person you stand in for. With a filter: the items that inbox.list would show.',
  draft: 'ours: the inbox',
  input: t.Object({ ...whatFields, cursor: pageInput.cursor }),
  output: Count,
  callers: [wholePerson, ofAnother],
  async load(read, input, { actor }) {
    const { cursor: _, ...filters } = input
    return {
      person: input.person ?? null,
      asked: await withSaved(read, input, actor),
      isFiltered: Object.values(filters).some((value) => value !== undefined),
    }
  },
  view: ({ person, asked, isFiltered }, _, { actor }, read) =>
    isFiltered ? countedIn(read, asked, actor, person) : countedBy(read, actor),
  example: { given: 'asked', as: 'alice', input: {} },
})

/** Counts from counters, without reading requests. */
async function countedBy(read: Read, actor: Actor): Promise<Count> {
  const inboxes = inboxesReadBy(actor)
  const under = async (names: readonly string[]): Promise<OpenCount[]> => (await Promise.all(names.map((who) => openIn(read, who)))).flat()
  const [inOwn, inPools, inUndecided] = [await under([actor.id]), await under(inboxes.pools), await under(inboxes.undecided)]
  const [direct, pool, undecided] = [byPriority(inOwn), byPriority(inPools), byPriority(inUndecided)]
  // Items of a pool to which they were called are counted in both.
  const twice = byPriority(
    (await read.counts(Request, 'twice', [actor.id], { limit: OPEN_COUNTS_MAX })).map(({ parts: [tier], count }) => ({
      tier: tier!,
      count,
    })),
  )
  const by_priority = {
    critical: direct.critical + pool.critical + undecided.critical - twice.critical,
    high: direct.high + pool.high + undecided.high - twice.high,
    normal: direct.normal + pool.normal + undecided.normal - twice.normal,
    low: direct.low + pool.low + undecided.low - twice.low,
  }
  const others = inboxes.people.filter((who) => who !== actor.id)
  const withTurn = (turn: Turn, counts: readonly OpenCount[]): number => totalOf(counts.filter((count) => count.turn === turn))
  return {
    open: sumOf(by_priority),
    by_priority,
    mine: withTurn('mine', inOwn),
    unassigned: withTurn('none', [...inOwn, ...inPools, ...inUndecided]) - sumOf(twice),
    groups: await groupsOf(read, actor.id),
    pool: sumOf(pool),
    no_decider: sumOf(undecided),
    snoozed: await read.count(Request, 'open', [actor.id, ...SNOOZED_PARTS]),
    acting_for: await Promise.all(others.map(async (person) => ({ person, open: await waitingFor(read, actor, person) }))),
    next_cursor: null,
  }
}

/** Each group under a person, from one name to the next. */
async function groupsOf(read: Read, who: string): Promise<Count['groups']> {
  const groups: Count['groups'] = []
  for (let after: string | undefined; ;) {
    const [row] = await read.list(Request, 'called', [[who]], { after, limit: 1 })
    if (row === undefined) return groups
    const [group] = row.at.split('\0') as [string]
    groups.push({ group, open: await read.count(Request, 'called', [who, group]) })
    after = `${group}\0${END}`
  }
}

/** Counts another person's items: from counters if the actor is in all their projects, otherwise one by one, up to one call's limit. */
async function waitingFor(read: Read, actor: Actor, person: string): Promise<number> {
  const asked = await read.subject(person)
  const isWhole = actor.actsFor?.has(person) === true && asked !== null && !asked.isChief
  if (isWhole && [...asked.projects.keys()].every((id) => isIn(actor, id))) return sumOf(byPriority(await openIn(read, person)))
  const inboxes: Inboxes = { ...inboxOf(person), holds: ({ project_id }) => speaksFor(actor, person, project_id) }
  let count = 0
  for await (const { request } of findItems(read, {}, inboxes, knowingBy(read))) if (request !== null) count++
  return count
}

/** Counts one by one exactly what inbox.list would show, up to the limit of one call. */
async function countedIn(read: Read, asked: ListInput, actor: Actor, person: string | null): Promise<Count> {
  const by_priority = { critical: 0, high: 0, normal: 0, low: 0 }
  const whose = person ?? actor.id
  const counted = { mine: 0, unassigned: 0, pool: 0, no_decider: 0, snoozed: 0 }
  const groups = new Map<string, number>()
  let next: string | null = null
  for await (const { request, at } of findItems(read, asked, seenBy(actor, person), knowingBy(read), 'inbox.count')) {
    if (request === null) {
      next = at === null ? null : cursorOf('inbox.count', asked, at)
      continue
    }
    by_priority[request.priority]++
    if (request.assigned_to === whose) counted.mine++
    if (request.assigned_to === null) counted.unassigned++
    for (const { group, people } of request.called ?? []) if (people.includes(whose)) groups.set(group, (groups.get(group) ?? 0) + 1)
    if (isInPool(request)) counted.pool++
    if (request.no_decider === true) counted.no_decider++
    if (snoozedUntil(request, whose) !== null) counted.snoozed++
  }
  const called = [...groups].map(([group, open]) => ({ group, open }))
  return { open: sumOf(by_priority), by_priority, ...counted, groups: called, acting_for: [], next_cursor: next }
}

const sumOf = ({ critical, high, normal, low }: ByPriority): number => critical + high + normal + low
const totalOf = (counts: readonly { readonly count: number }[]): number => counts.reduce((sum, { count }) => sum + count, 0)
function byPriority(counts: readonly Pick<OpenCount, 'tier' | 'count'>[]): ByPriority {
  const of = (tiers: readonly string[]): number => totalOf(counts.filter(({ tier }) => tiers.includes(tier)))
  const { critical, high, normal, low } = tiersOf
  return { critical: of(critical), high: of(high), normal: of(normal), low: of(low) }
}

export const inboxOperations = [list, get, count]
