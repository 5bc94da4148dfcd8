// The draft's inbox: requests that a person has to answer or has answered, and those that an agent has asked.
import { human, isIn, ownsProject, type Actor } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { query, type Listed, type Read } from '#kernel/declare/operation.ts'
import { cursorOf, nextCursor, pageInput, pageSize, placeOf } from '#kernel/declare/paging.ts'
import { either, END, t, type Part, type Static } from '#kernel/declare/schema.ts'
import { asShown, type Surface } from '../answering/shown-request.ts'
import { allOf, inboxesReadBy, openIn, openUnder, type Inboxes } from '../inbox/readers.ts'
import { Action, knownForm } from '../actions/index.ts'
import { allTiers, isTimedOut, outcomeOf, Priority, Request, tiersOf, type Outcome, type Status } from '../schema.ts'
import { RequestView, viewOf } from '../view.ts'

export type Prefix = readonly Part[]
/** A stretch of an index: rows in order, and a filter for the requests in it. */
type Stretch = {
  readonly index: 'open' | 'claimed' | 'closed' | 'asker'
  readonly prefixes: readonly Prefix[]
  readonly reverse?: boolean
  wants(request: Request): boolean
}
type Asked = {
  readonly status?: ListedStatus | undefined
  readonly priority?: Priority | undefined
  readonly action?: Action | undefined
  readonly surface?: Surface | undefined
}
type Paged = { readonly cursor?: string | undefined; readonly limit?: number | undefined }

export const endedStatuses = ['completed', 'failed', 'cancelled', 'declined'] as const
export const open = ['pending', 'assigned'] as const
const isEnded = (status: Status): boolean => (endedStatuses as readonly string[]).includes(status)
const matchAll = (): boolean => true
/** Requests that one page examines: if few of them fit, the page is short and has a cursor. */
const LOOKS_MAX = 1_000
/** How many are read at a time if a filter skips some. */
const CHOICE = 50
const SCAN = 500

/**
 * Includes `expired` of the published OpenAPI: the request failed by timeout, or its deadline has passed and it still waits. Declined
 * requests count as failed, too, as their receipts say.
 */
export const ListedStatus = either('pending', 'assigned', 'completed', 'failed', 'cancelled', 'expired', 'declined')
type ListedStatus = Static<typeof ListedStatus>
export const isOfStatus = (request: Request, status: ListedStatus): boolean =>
  status === 'expired'
    ? isTimedOut(request) || request.overdue
    : request.status === status || (status === 'failed' && request.status === 'declined')
const mayHaveEnded = (status: ListedStatus | undefined): boolean => status === undefined || status === 'expired' || isEnded(status)
const mayBeOpen = (status: ListedStatus | undefined): boolean => status === undefined || status === 'expired' || !isEnded(status)
const endingsFor = (status: ListedStatus | undefined): readonly string[] => {
  if (!mayHaveEnded(status)) return []
  if (status === undefined) return endedStatuses
  return status === 'failed' ? ['failed', 'declined'] : [status === 'expired' ? 'failed' : status]
}
/** The counted outcomes of a status. */
const outcomesFor = (status: Status | undefined): readonly Outcome[] => {
  if (status === undefined) return [...endedStatuses, 'expired']
  return status === 'failed' ? ['failed', 'expired', 'declined'] : [status]
}

const isMeantBy =
  ({ status, priority, action, surface }: Asked) =>
  (request: Request): boolean =>
    (status === undefined || isOfStatus(request, status)) &&
    (priority === undefined || request.priority === priority) &&
    (action === undefined || (surface === 'page' ? knownForm(request) : request).action === action)

/** Waiting requests come first, by urgency, without snoozed ones; ended ones follow, the latest first. */
function stretchesOf(of: Inboxes, asked: Asked): Stretch[] {
  const { status, priority, action } = asked
  const inboxes = allOf(of)
  const isMeant = isMeantBy(asked)
  const isAll = status === undefined && priority === undefined && action === undefined && !of.isPartly
  const wants = isAll ? matchAll : (request: Request): boolean => isMeant(request) && of.holds(request)
  const found: Stretch[] = []
  const tiers = priority === undefined ? allTiers : tiersOf[priority]
  const index = status === 'assigned' ? 'claimed' : 'open'
  const under = (tier: string): Prefix[] => (index === 'open' ? openUnder(inboxes, [tier]) : inboxes.map((who) => [who, tier]))
  if (mayBeOpen(status)) for (const tier of tiers) found.push({ index, prefixes: under(tier), wants })
  const endings = endingsFor(status)
  if (endings.length > 0)
    found.push({ index: 'closed', prefixes: inboxes.flatMap((who) => endings.map((ending) => [who, ending])), reverse: true, wants })
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
      const limit = wants === matchAll ? left : Math.max(left, CHOICE)
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

async function walk(read: Read, index: string, prefix: Prefix, see: (row: Listed) => Promise<void>): Promise<void> {
  // No call may block the server, so counting one by one stops at this limit.
  for (let after: string | undefined, seen = 0; seen < limits.examinedMax; seen += SCAN) {
    const listed = await read.list(Request, index, [prefix], { after, limit: SCAN })
    for (const row of listed) await see(row)
    if (listed.length < SCAN) return
    after = listed.at(-1)!.at
  }
}

/** Counts the visible requests under the prefixes one by one, each once. */
async function seenUnder(
  read: Read,
  index: 'open' | 'closed' | 'asker' | 'bound',
  prefixes: readonly Prefix[],
  wants: (request: Request) => boolean = matchAll,
): Promise<number> {
  const ids = new Set<string>()
  for (const prefix of prefixes)
    await walk(read, index, prefix, async ({ id }) => {
      const request = await read.maybe(Request, id)
      if (request !== null && wants(request)) ids.add(id)
    })
  return ids.size
}

const sumOf = async (counts: readonly Promise<number>[]): Promise<number> => (await Promise.all(counts)).reduce((sum, one) => sum + one, 0)

/** The projects in which an actor sees requests: its own projects. */
const placesOf = ({ projects }: Actor): string[] => (projects === 'all' ? [] : [...projects.keys()])

/** The projects of an actor as in `placesOf`. An owner of the installation sees requests put to them in any project. */
async function placesUnder(read: Read, actor: Actor, kind: 'free' | 'bound'): Promise<string[]> {
  if (actor.owner !== true) return placesOf(actor)
  const places: string[] = []
  for (let after: string | undefined; ;) {
    const [row] = await read.counts(Request, 'settled', [actor.id, kind], { after, limit: 1 })
    if (row === undefined) return places
    const [place] = row.parts as [string]
    places.push(place)
    after = `${place}\0${END}`
  }
}

/**
 * The number of ended requests with these outcomes that a person sees. Requests without a task are theirs as long as they are in the project.
 * Their access to a task can have changed since, so requests of tasks are checked one by one, unless they own the project.
 */
async function settledFor(read: Read, actor: Actor, outcomes: readonly Outcome[]): Promise<number> {
  const countOf = (kind: 'free' | 'bound', place: string, outcome: Outcome) =>
    read.count(Request, 'settled', [actor.id, kind, place, outcome])
  const free = await placesUnder(read, actor, 'free')
  let sum = await sumOf(free.flatMap((place) => outcomes.map((outcome) => countOf('free', place, outcome))))
  const looked: Prefix[] = []
  for (const place of await placesUnder(read, actor, 'bound'))
    for (const outcome of outcomes) {
      const found = await countOf('bound', place, outcome)
      if (found > 0 && isIn(actor, place) && !ownsProject(actor, place)) looked.push([actor.id, 'bound', place, outcome])
      else sum += found
    }
  return sum + (await seenUnder(read, 'bound', looked))
}

/** The number of an agent's requests with these outcomes that the actor sees. */
export const outcomesOf = (read: Read, actor: Actor, whose: string, outcomes: readonly Outcome[]): Promise<number> =>
  sumOf(placesOf(actor).flatMap((place) => outcomes.map((outcome) => read.count(Request, 'outcomes', [whose, place, outcome]))))

/** Counts requests: from counters if they cover the filter, otherwise one by one, up to the limit of one call. */
export function counterOf(read: Read, actor: Actor) {
  const inboxes = inboxesReadBy(actor)
  const names = allOf(inboxes)
  const under = (parts: readonly string[]): Prefix[] => names.flatMap((who) => parts.map((part) => [who, part]))
  // One request can be in the inboxes of several people.
  const isAlone = inboxes.people.length === 1
  const seenOf = (index: 'open' | 'closed', parts: readonly string[], wants: (request: Request) => boolean): Promise<number> =>
    seenUnder(read, index, index === 'open' ? openUnder(names, parts) : under(parts), (request) => wants(request) && inboxes.holds(request))

  const countIn = (index: 'claimed' | 'twice', parts: readonly string[]): Promise<number> =>
    sumOf(under(parts).map((prefix) => read.count(Request, index, prefix)))
  const countOpen = async (parts: readonly string[]): Promise<number> => {
    const counts = await Promise.all(names.map((who) => openIn(read, who)))
    return counts.flat().reduce((sum, { tier, count }) => sum + (parts.includes(tier) ? count : 0), 0)
  }

  async function open(asked: Asked): Promise<number> {
    const { status, priority, action } = asked
    const parts = priority === undefined ? allTiers : tiersOf[priority]
    // Open requests are not counted by project: a key for some projects learns nothing of the others.
    const isCounted = isAlone && actor.partial !== true && action === undefined && status !== 'expired'
    if (!isCounted) return seenOf('open', parts, isMeantBy(asked))
    const claimed = status === undefined ? 0 : await countIn('claimed', parts)
    if (status === 'assigned') return claimed
    return (await countOpen(parts)) - (await countIn('twice', parts)) - claimed
  }

  async function countClosed(asked: Asked): Promise<number> {
    const { status, priority, action } = asked
    if (!mayHaveEnded(status)) return 0
    if (isAlone && priority === undefined && action === undefined && status !== 'expired')
      return settledFor(read, actor, outcomesFor(status))
    return seenOf('closed', endingsFor(status), isMeantBy(asked))
  }

  return {
    /** X22: how many requests match the filter, and how many of them are unanswered. */
    async of(asked: Asked): Promise<{ total: number; unresolved: number }> {
      const unresolved = mayBeOpen(asked.status) ? await open(asked) : 0
      return { total: unresolved + (await countClosed(asked)), unresolved }
    },
    /** How many requests have this outcome. Timeouts are counted apart from other failures. */
    ended: (outcome: Outcome): Promise<number> =>
      isAlone
        ? settledFor(read, actor, [outcome])
        : seenOf('closed', [outcome === 'expired' ? 'failed' : outcome], (request) => outcomeOf(request) === outcome),
  }
}

const inbox = query({
  name: 'request.inbox',
  summary: 'List the requests that wait for a person, critical first, and the answered ones.',
  draft: 'HXP 0.1, 5.1: List Pending Requests',
  input: t.Object({
    status: t.Optional(ListedStatus),
    priority: t.Optional(Priority),
    action: t.Optional(Action),
    surface: t.Optional({ ...either('page'), description: 'a page of another origin, which knows only the actions of the draft' }),
    ...pageInput,
  }),
  output: t.Object({
    requests: t.Array(RequestView),
    total: t.Integer({
      description:
        'the number that match the filter. It is exact by status, and by priority among what is open. Otherwise, and for what belonged to a task, items are looked at one by one, up to 2,000 of each person and status',
    }),
    unresolved: t.Integer({ description: 'how many of those are pending or assigned' }),
    next_cursor: nextCursor,
  }),
  callers: [human],
  async load(read, input, { actor }) {
    const page = await pageOver(read, 'request.inbox', input, stretchesOf(inboxesReadBy(actor), input))
    return { ...page, ...(await counterOf(read, actor).of(input)) }
  },
  // Characters that hide or turn text around are visible, as everywhere where people decide.
  view: ({ found, ...rest }, _, { actor }) => ({ requests: found.map((request) => asShown(viewOf(request, actor))), ...rest }),
  example: { given: 'asked', as: 'alice', input: { status: 'pending' } },
})

/** The requests of one agent that fit, and how many there are. */
export async function askedBy(read: Read, name: string, whose: string, input: Paged & ListWish & Record<string, unknown>, actor: Actor) {
  const { status, agent_id, project_id } = input
  const states =
    status === undefined ? statesOf(input.state) : status === 'expired' ? statesOf(undefined) : [isEnded(status) ? 'closed' : 'open']
  const prefixes = states.map((state) => [whose, state])
  // For an agent, `agent_id` is a filter; for the key of a project, it names the agent whose requests are listed.
  const isWhole = agent_id === undefined || (agent_id === whose && whose !== actor.id)
  const isAll = status === undefined && project_id === undefined && isWhole
  const wants = isAll
    ? matchAll
    : (request: Request): boolean =>
        (status === undefined || isOfStatus(request, status)) &&
        (project_id === undefined || request.label === project_id || request.project_id === project_id) &&
        (agent_id === undefined || request.agent_id === agent_id || request.requester === agent_id)
  const page = await pageOver(read, name, input, [{ index: 'asker', prefixes, reverse: input.newest === true, wants }])
  return { ...page, total: await totalOf() }

  function totalOf(): Promise<number> {
    const isLabelled = project_id !== undefined || !isWhole
    if (isLabelled || status === 'expired') return seenUnder(read, 'asker', prefixes, wants)
    if (status !== undefined) return outcomesOf(read, actor, whose, outcomesFor(status))
    return outcomesOf(read, actor, whose, [
      ...(states.includes('open') ? open : []),
      ...(states.includes('closed') ? outcomesFor(undefined) : []),
    ])
  }
}
type ListWish = {
  readonly state?: 'open' | 'closed' | undefined
  readonly status?: ListedStatus | undefined
  readonly newest?: boolean | undefined
  readonly agent_id?: string | undefined
  readonly project_id?: string | undefined
}
const statesOf = (state: 'open' | 'closed' | undefined): readonly string[] => (state === undefined ? ['open', 'closed'] : [state])

export const draftInboxOperations = [inbox]
