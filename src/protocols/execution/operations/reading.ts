// What a person has to answer and has answered, what an agent has asked, and how many of each there are.
import { Refusal } from '#kernel/errors.ts'
import { anyone, human, type Actor } from '#kernel/identity.ts'
import { limits } from '#kernel/limits.ts'
import { query, type Listed, type Read } from '#kernel/operation.ts'
import { cursorOf, nextCursor, pageInput, pageSize, placeOf } from '#kernel/paging.ts'
import { t, type Part } from '#kernel/schema.ts'
import { isProjectKey } from '../rules.ts'
import { Id, poolOf, Priority, rankOf, Request, SNOOZED, Status } from '../schema.ts'
import { RequestView, viewOf } from '../view.ts'

type Prefix = readonly Part[]
/** One stretch of an index: rows in order, and which of the requests there are meant. */
type Stretch = {
  readonly index: 'open' | 'closed' | 'asker'
  readonly prefixes: readonly Prefix[]
  readonly reverse?: boolean
  wants(request: Request): boolean
}
type Asked = { readonly status?: Status | undefined; readonly priority?: Priority | undefined }
type Paged = { readonly cursor?: string | undefined; readonly limit?: number | undefined }

const ended = ['completed', 'failed', 'cancelled'] as const
const isEnded = (status: Status): boolean => (ended as readonly string[]).includes(status)
const anything = (): boolean => true
/** Requests that one page looks at: where few of them fit, the page is short and says where to go on. */
const LOOKS_MAX = 1_000
/** How many are read at a time where not all are meant. */
const CHOICE = 50
const SCAN = 500

/** Whose inboxes somebody reads: their own, of those they stand in for, and the pools of their projects. */
function inboxesOf({ id, actsFor, projects }: Actor): string[] {
  const pools = projects === 'all' ? [] : [...projects.keys()].map(poolOf)
  return [id, ...(actsFor ?? []), ...pools]
}

/** What waits comes first, by priority and age; what has ended follows, the latest first. */
function stretchesOf(inboxes: readonly string[], { status, priority }: Asked): Stretch[] {
  const isMeant =
    status === undefined && priority === undefined
      ? anything
      : (request: Request): boolean =>
          (status === undefined || request.status === status) && (priority === undefined || request.priority === priority)
  const found: Stretch[] = []
  if (status === undefined || !isEnded(status)) {
    const under = (rank: string): Prefix[] => inboxes.map((who) => [who, rank])
    if (priority === undefined) found.push({ index: 'open', prefixes: inboxes.map((who) => [who]), wants: isMeant })
    else for (const rank of [rankOf[priority], SNOOZED]) found.push({ index: 'open', prefixes: under(rank), wants: isMeant })
  }
  const endings = ended.filter((one) => status === undefined || one === status)
  if (endings.length > 0)
    found.push({ index: 'closed', prefixes: inboxes.flatMap((who) => endings.map((one) => [who, one])), reverse: true, wants: isMeant })
  return found
}

/** A page over stretches, one after the other. Its place is the number of the stretch and the row in it. */
async function pageOver(read: Read, name: string, input: Paged & Record<string, unknown>, stretches: readonly Stretch[]) {
  const place = placeOf(name, input)
  const [, first = '0', row] = place === undefined ? [] : (/^(\d)([^]*)$/.exec(place) ?? [])
  const size = pageSize(input)
  const found: Request[] = []
  let looks = 0
  for (let i = Number(first); i < stretches.length; i++) {
    const { index, prefixes, reverse, wants } = stretches[i]!
    let after = i === Number(first) && row ? row : undefined
    for (let isLast = false; !isLast;) {
      const left = size - found.length
      const limit = wants === anything ? left : Math.max(left, CHOICE)
      const listed = await read.list(Request, index, prefixes, { after, limit, reverse })
      isLast = listed.length < limit
      const requests = await Promise.all(listed.map(({ id }) => read.maybe(Request, id)))
      for (const [k, { at }] of listed.entries()) {
        const request = requests[k]!
        if (request !== null && wants(request)) found.push(request)
        if (found.length < size && ++looks < LOOKS_MAX) continue
        const isEnd = isLast && k === listed.length - 1 && i === stretches.length - 1
        return { found, next_cursor: isEnd ? null : cursorOf(name, input, `${i}${at}`) }
      }
      after = listed.at(-1)?.at
    }
  }
  return { found, next_cursor: null }
}

async function walk(read: Read, index: string, prefix: Prefix, see: (row: Listed) => Promise<void> | void): Promise<void> {
  // Nobody's question may hold the server: whoever has to be counted one by one is counted so far.
  for (let after: string | undefined, seen = 0; seen < limits.examinedMax; seen += SCAN) {
    const listed = await read.list(Request, index, [prefix], { after, limit: SCAN })
    for (const row of listed) await see(row)
    if (listed.length < SCAN) return
    after = listed.at(-1)!.at
  }
}

/** Whoever is in one project learns nothing of another, not even how much there is. */
async function seenUnder(read: Read, index: string, prefix: Prefix): Promise<number> {
  let seen = 0
  await walk(read, index, prefix, async ({ id }) => {
    if ((await read.maybe(Request, id)) !== null) seen++
  })
  return seen
}

/** The last part of a row that says its priority, where the row is not sorted by it. */
const rankIn = (at: string): string => at.split('\0').at(-2)!

/** Counted without reading the requests themselves: a count costs the same however many there are. */
function counterOf(read: Read, actor: Actor) {
  const inboxes = inboxesOf(actor)
  // One request may stand in the inboxes of several people, and a key for some projects learns nothing of the others: then they are
  // looked at one by one.
  const isPlain = (actor.actsFor?.size ?? 0) === 0 && actor.partial !== true
  const ranks = [...Object.values(rankOf), SNOOZED]
  const under = (parts: readonly string[]): Prefix[] => inboxes.flatMap((who) => parts.map((part) => [who, part]))

  async function countIn(index: 'open' | 'closed' | 'claimed' | 'twice', parts: readonly string[]): Promise<number> {
    if (!isPlain) return scanned(index, parts, () => true)
    const counts = await Promise.all(under(parts).map((prefix) => read.count(Request, index, prefix)))
    return counts.reduce((sum, one) => sum + one, 0)
  }
  async function scanned(index: string, parts: readonly string[], isMeant: (row: Listed) => boolean): Promise<number> {
    const ids = new Set<string>()
    for (const prefix of under(parts))
      await walk(read, index, prefix, async (row) => {
        if (isMeant(row) && (isPlain || (await read.maybe(Request, row.id)) !== null)) ids.add(row.id)
      })
    return ids.size
  }
  const ofRank = (index: string, parts: readonly string[], rank: string): Promise<number> =>
    scanned(index, parts, ({ at }) => rankIn(at) === rank)

  async function open(rank: string | null): Promise<number> {
    const parts = rank === null ? ranks : [rank]
    const listed = (await countIn('open', parts)) - (isPlain ? await countIn('twice', parts) : 0)
    return rank === null ? listed : listed + (await ofRank('open', [SNOOZED], rank))
  }
  const claimed = (rank: string | null): Promise<number> => countIn('claimed', rank === null ? ranks : [rank])

  return {
    /** X22: of those that the filter means, how many there are and how many of them nobody has answered. */
    async of({ status, priority }: Asked): Promise<{ total: number; unresolved: number }> {
      const rank = priority === undefined ? null : rankOf[priority]
      const endings = ended.filter((one) => status === undefined || one === status)
      const closed = rank === null ? await countIn('closed', endings) : await ofRank('closed', endings, rank)
      if (status !== undefined && isEnded(status)) return { total: closed, unresolved: 0 }
      const assigned = status === undefined ? 0 : await claimed(rank)
      if (status === 'assigned') return { total: assigned, unresolved: assigned }
      const waiting = (await open(rank)) - assigned
      return { total: waiting + closed, unresolved: waiting }
    },
  }
}

const inbox = query({
  name: 'request.inbox',
  summary: 'List the requests that wait for a person, critical first, and those that were answered.',
  draft: 'HXP 0.1, 5.1: List Pending Requests',
  input: t.Object({ status: t.Optional(Status), priority: t.Optional(Priority), ...pageInput }),
  output: t.Object({
    requests: t.Array(RequestView),
    total: t.Integer({
      description: 'how many match the filter; for substitutes and keys of some projects at most 2,000 a person are counted',
    }),
    unresolved: t.Integer({ description: 'how many of those are pending or assigned' }),
    next_cursor: nextCursor,
  }),
  callers: [human],
  async load(read, input, { actor }) {
    const page = await pageOver(read, 'request.inbox', input, stretchesOf(inboxesOf(actor), input))
    return { ...page, ...(await counterOf(read, actor).of(input)) }
  },
  view: ({ found, ...rest }, _, { actor }) => ({ requests: found.map((request) => viewOf(request, actor)), ...rest }),
  example: { given: 'asked', as: 'alice', input: { status: 'pending' } },
})

const Counts = t.Record(t.String(), t.Integer())
const stats = query({
  name: 'request.stats',
  summary: 'Count your requests: those that an agent has made, or those that wait for a person or were answered.',
  draft: 'HXP 0.1, published OpenAPI: stats',
  input: t.Object({ agent_id: t.Optional(Id) }),
  output: t.Object({ total: t.Integer(), unresolved: t.Integer(), by_status: t.Optional(Counts), by_priority: t.Optional(Counts) }),
  callers: [anyone],
  async load(read, { agent_id }, { actor }) {
    if (actor.kind === 'human') return personal(read, actor)
    const whose = agent_id !== undefined && isProjectKey(actor) ? await agentOf(read, actor, agent_id) : actor.id
    const isWhole = whose === actor.id && actor.partial !== true
    const counted = (state: string): Promise<number> =>
      isWhole ? read.count(Request, 'asker', [whose, state]) : seenUnder(read, 'asker', [whose, state])
    const [unresolved, closed] = await Promise.all(['open', 'closed'].map(counted))
    return { total: unresolved! + closed!, unresolved: unresolved! }
  },
  view: (counted) => counted,
  example: { given: 'asked', as: 'devin', input: {} },
})

async function personal(read: Read, actor: Actor) {
  const counter = counterOf(read, actor)
  const { total, unresolved } = await counter.of({})
  const by_status: Record<string, number> = {}
  for (const status of ['pending', 'assigned', ...ended] as const) by_status[status] = (await counter.of({ status })).total
  const by_priority: Record<string, number> = {}
  for (const priority of Object.keys(rankOf) as Priority[])
    by_priority[priority] =
      (await counter.of({ status: 'pending', priority })).total + (await counter.of({ status: 'assigned', priority })).total
  return { total, unresolved, by_status, by_priority }
}

/** The key of a project speaks of the agents of the project, and of nobody else. */
async function agentOf(read: Read, actor: Actor, agent_id: string): Promise<string> {
  const found = await read.subject(agent_id)
  if (!found?.projects.has(actor.id)) throw new Refusal('NOT_FOUND', `there is no agent ${agent_id}`)
  return agent_id
}

/** The requests of one agent, of one status where it is asked for. */
export async function askedBy(read: Read, name: string, whose: string, input: Paged & ListWish & Record<string, unknown>) {
  const states = input.status === undefined ? statesOf(input.state) : [isEnded(input.status) ? 'closed' : 'open']
  const prefixes = states.map((state) => [whose, state])
  const wants = input.status === undefined ? anything : ({ status }: Request): boolean => status === input.status
  return pageOver(read, name, input, [{ index: 'asker', prefixes, reverse: input.newest === true, wants }])
}
type ListWish = {
  readonly state?: 'open' | 'closed' | undefined
  readonly status?: Status | undefined
  readonly newest?: boolean | undefined
}
const statesOf = (state: 'open' | 'closed' | undefined): readonly string[] => (state === undefined ? ['open', 'closed'] : [state])

export const readingOperations = [inbox, stats]
