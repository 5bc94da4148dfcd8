// How many requests there are, and what became of them: for whoever asked them, and for those who are to answer.
import { Refusal } from '#kernel/errors.ts'
import { anyone, type Actor } from '#kernel/identity.ts'
import { query, type Read } from '#kernel/operation.ts'
import { t } from '#kernel/schema.ts'
import { isProjectKey, isTimedOut } from '../rules.ts'
import { Id, isOpen, rankOf, Request, type Priority } from '../schema.ts'
import { counterOf, ended, inboxesOf, seenUnder, walk, type Prefix } from './reading.ts'

const Counts = t.Record(t.String(), t.Integer())
const stats = query({
  name: 'request.stats',
  summary: 'Count your requests: those that an agent has made, or those that wait for a person or were answered.',
  draft: 'HXP 0.1, published OpenAPI: stats',
  input: t.Object({ agent_id: t.Optional(Id) }),
  output: t.Object({
    total: t.Integer(),
    unresolved: t.Integer(),
    pending: t.Integer({ description: 'those that nobody has answered' }),
    completed: t.Integer({ description: 'as the next three: of the latest 2,000 that have ended' }),
    expired: t.Integer({ description: 'those that failed because nobody answered in time' }),
    failed: t.Integer({ description: 'those that failed otherwise' }),
    cancelled: t.Integer(),
    avg_duration_seconds: t.Number({ description: 'of those that were completed' }),
    by_status: t.Optional(Counts),
    by_priority: t.Optional(Counts),
  }),
  callers: [anyone],
  async load(read, { agent_id }, { actor }) {
    if (actor.kind === 'human') return personal(read, actor)
    const whose = agent_id !== undefined && isProjectKey(actor) ? await agentOf(read, actor, agent_id) : actor.id
    const isWhole = whose === actor.id && actor.partial !== true
    const counted = (state: string): Promise<number> =>
      isWhole ? read.count(Request, 'asker', [whose, state]) : seenUnder(read, 'asker', [whose, state])
    const [unresolved, closed] = await Promise.all(['open', 'closed'].map(counted))
    const figures = await endedUnder(read, 'asker', [[whose, 'closed']])
    return { total: unresolved! + closed!, unresolved: unresolved!, pending: unresolved!, ...figures }
  },
  view: (counted) => counted,
  example: { given: 'asked', as: 'devin', input: {} },
})

/** What became of the latest that have ended. */
async function endedUnder(read: Read, index: 'asker' | 'closed', prefixes: readonly Prefix[]) {
  const figures = { completed: 0, expired: 0, failed: 0, cancelled: 0 }
  let seconds = 0
  const seen = new Set<string>()
  for (const prefix of prefixes)
    await walk(
      read,
      index,
      prefix,
      async ({ id }) => {
        const request = seen.has(id) ? null : await read.maybe(Request, id)
        if (request === null || isOpen(request)) return
        seen.add(id)
        figures[isTimedOut(request) ? 'expired' : (request.status as 'completed' | 'failed' | 'cancelled')]++
        if (request.status === 'completed') seconds += request.receipt!.duration_seconds
      },
      true,
    )
  return { ...figures, avg_duration_seconds: figures.completed === 0 ? 0 : seconds / figures.completed }
}

async function personal(read: Read, actor: Actor) {
  const counter = counterOf(read, actor)
  const { total, unresolved } = await counter.of({})
  const figures = await endedUnder(
    read,
    'closed',
    inboxesOf(actor).flatMap((who) => ended.map((status) => [who, status])),
  )
  const by_status: Record<string, number> = {}
  for (const status of ['pending', 'assigned', ...ended] as const) by_status[status] = (await counter.of({ status })).total
  const by_priority: Record<string, number> = {}
  for (const priority of Object.keys(rankOf) as Priority[])
    by_priority[priority] =
      (await counter.of({ status: 'pending', priority })).total + (await counter.of({ status: 'assigned', priority })).total
  return { total, unresolved, pending: unresolved, ...figures, by_status, by_priority }
}

/** The key of a project speaks of the agents of the project, and of nobody else. */
async function agentOf(read: Read, actor: Actor, agent_id: string): Promise<string> {
  const found = await read.subject(agent_id)
  if (!found?.projects.has(actor.id)) throw new Refusal('NOT_FOUND', `there is no agent ${agent_id}`)
  return agent_id
}

export const statsOperations = [stats]
