// Counts of requests by outcome: for the agent that asked them, and for the people who answer them.
import { Refusal } from '#kernel/declare/errors.ts'
import { anyone, type Actor } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { query, type Read } from '#kernel/declare/operation.ts'
import { t } from '#kernel/declare/schema.ts'
import { allOf, inboxesReadBy } from '../inbox/readers.ts'
import { isProjectKey } from '../access.ts'
import { Id, rankOf, Request, type Outcome, type Priority } from '../schema.ts'
import { counterOf, endedStatuses, open, outcomesOf, type Prefix } from './draft-inbox.ts'

/** The number of requests that the average covers. */
const LATEST = 50

const Counts = t.Record(t.String(), t.Integer())
const stats = query({
  name: 'request.stats',
  summary: 'Count your requests: for an agent its own, for a person those that wait or were answered.',
  draft: 'HXP 0.1, published OpenAPI: stats',
  input: t.Object({ agent_id: t.Optional(Id) }),
  output: t.Object({
    total: t.Integer(),
    unresolved: t.Integer(),
    pending: t.Integer({ description: 'requests without an answer' }),
    completed: t.Integer(),
    expired: t.Integer({ description: 'requests that failed because nobody answered in time' }),
    failed: t.Integer({ description: 'requests that failed for another reason' }),
    declined: t.Integer({ description: 'requests that people declined to answer' }),
    cancelled: t.Integer(),
    avg_duration_seconds: t.Number({ description: `of the completed requests among the latest ${LATEST} that have ended` }),
    by_status: t.Optional(Counts),
    by_priority: t.Optional(Counts),
  }),
  callers: [anyone],
  async load(read, { agent_id }, { actor }) {
    if (actor.kind === 'human') return personal(read, actor)
    const whose = agent_id !== undefined && isProjectKey(actor) ? await agentOf(read, actor, agent_id) : actor.id
    const countOf = (outcome: Outcome): Promise<number> => outcomesOf(read, actor, whose, [outcome])
    const unresolved = (await countOf('pending')) + (await countOf('assigned'))
    const figures = await endedBy(countOf)
    const avg_duration_seconds = await averageUnder(read, 'asker', [[whose, 'closed']])
    return { total: unresolved + sumOf(figures), unresolved, pending: unresolved, ...figures, avg_duration_seconds }
  },
  view: (counted) => counted,
  example: { given: 'asked', as: 'devin', input: {} },
})

type Figures = { completed: number; expired: number; failed: number; cancelled: number; declined: number }
const endedBy = async (counted: (outcome: Outcome) => Promise<number>): Promise<Figures> => ({
  completed: await counted('completed'),
  expired: await counted('expired'),
  failed: await counted('failed'),
  cancelled: await counted('cancelled'),
  declined: await counted('declined'),
})
const sumOf = (figures: Figures): number => Object.values(figures).reduce((sum, one) => sum + one, 0)

/** The mean time of the latest answers. A mean of all would need a sum that every answer updates. */
async function averageUnder(
  read: Read,
  index: 'asker' | 'closed',
  prefixes: readonly Prefix[],
  wants: (request: Request) => boolean = () => true,
): Promise<number> {
  const durations: number[] = []
  let seen = 0
  for (let after: string | undefined, looks = 0; looks < limits.examinedMax && seen < LATEST; looks += LATEST) {
    const listed = await read.list(Request, index, prefixes, { after, limit: LATEST, reverse: true })
    for (const { id } of listed) {
      const request = seen < LATEST ? await read.maybe(Request, id) : null
      if (request === null || !wants(request)) continue
      seen++
      if (request.status === 'completed') durations.push(request.receipt!.duration_seconds)
    }
    if (listed.length < LATEST) break
    after = listed.at(-1)!.at
  }
  return durations.length === 0 ? 0 : durations.reduce((sum, one) => sum + one, 0) / durations.length
}

async function personal(read: Read, actor: Actor) {
  const counter = counterOf(read, actor)
  const { unresolved } = await counter.of({})
  const figures = await endedBy(counter.ended)
  const inboxes = inboxesReadBy(actor)
  const prefixes = allOf(inboxes).flatMap((who) => endedStatuses.map((status) => [who, status]))
  const avg_duration_seconds = await averageUnder(read, 'closed', prefixes, inboxes.holds)
  const { completed, cancelled, declined } = figures
  const by_status: Record<string, number> = { completed, cancelled, declined, failed: figures.failed + figures.expired }
  for (const status of open) by_status[status] = (await counter.of({ status })).total
  const by_priority: Record<string, number> = {}
  for (const priority of Object.keys(rankOf) as Priority[])
    by_priority[priority] =
      (await counter.of({ status: 'pending', priority })).total + (await counter.of({ status: 'assigned', priority })).total
  return { total: unresolved + sumOf(figures), unresolved, pending: unresolved, ...figures, avg_duration_seconds, by_status, by_priority }
}

/** The key of a project may query only the agents of that project. */
async function agentOf(read: Read, actor: Actor, agent_id: string): Promise<string> {
  const found = await read.subject(agent_id)
  if (!found?.projects.has(actor.id)) throw new Refusal('NOT_FOUND', `there is no agent ${agent_id}`)
  return agent_id
}

export const statsOperations = [stats]
