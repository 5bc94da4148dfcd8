// Trends of requests by agent, by person or by rule, out of counters.
import { timestampOf } from '#kernel/ports/clock.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { administrator, human, installationOwner, ownsProject, role, system, type Actor } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { query, type Read } from '#kernel/declare/operation.ts'
import { either, END, nullable, t, type Static } from '#kernel/declare/schema.ts'
import { tallyOf, type Dimension } from '../inbox/trends.ts'
import { Id, Request } from '../schema.ts'

const DAY_MS = 86_400_000
const Seconds = nullable(t.Integer({ description: 'the upper bound of the span that it lies in' }))
const Day = t.Object({
  day: t.String({ description: 'the day (UTC) on which they were asked' }),
  asked: t.Integer(),
  approved: t.Integer(),
  rejected: t.Integer(),
  expired: t.Integer({ description: 'those that nobody answered in time' }),
  answered: t.Integer({ description: 'those that people answered in any way' }),
  p50_seconds: Seconds,
  p90_seconds: Seconds,
})
const Trend = t.Object({
  key: t.String({ description: 'the agent, the person or the rule' }),
  name: nullable(t.String()),
  days: t.Array(Day),
})
type Trend = Static<typeof Trend>

/** Their own figures; owners see those of the whole project. */
const seesAll = (actor: Actor, project_id: string): boolean =>
  administrator.is(actor, null) || installationOwner.is(actor, null) || system.is(actor, null) || ownsProject(actor, project_id)

const serviceOfProject = role<unknown>('the key of a project', (actor) => actor.kind === 'service')

const trends = query({
  name: 'request.trends',
  summary:
    'Show for each day how many requests were asked, approved, rejected and expired, and how long answers took: by agent, person or rule.',
  draft: 'ours: counters of what is asked and answered',
  input: t.Object({
    days: t.Optional(t.Integer({ minimum: 1, maximum: limits.trendDaysMax, description: 'how many days back; 7 by default' })),
    by: t.Optional({ ...either('agent', 'person', 'rule'), description: 'agent by default; rule: the floors that raised a risk' }),
    project_id: t.Optional(Id),
  }),
  output: t.Object({ project_id: t.String(), by: t.String(), from: t.String(), to: t.String(), items: t.Array(Trend) }),
  callers: [human, administrator, system, serviceOfProject],
  load(_, { project_id = 'project_default' }, { actor }) {
    if (actor.projects !== 'all' && !actor.projects.has(project_id)) throw new Refusal('NOT_FOUND', `there is no project ${project_id}`)
    return Promise.resolve({ project_id })
  },
  async view({ project_id }, { days = 7, by = 'agent' }, { actor, now }, read) {
    const from = timestampOf(Date.parse(now) - (days - 1) * DAY_MS).slice(0, 10)
    const items: Trend[] = []
    const isAll = seesAll(actor, project_id)
    // One's own name need not be looked for among all others.
    for await (const key of by === 'person' && !isAll ? [actor.id] : keysIn(read, `${project_id} ${by}`)) {
      if (!isAll && !(await isTheirs(read, actor, by, key))) continue
      const found = await daysOf(read, `${project_id} ${by}`, key, from)
      if (found.length > 0) items.push({ key, name: by === 'rule' ? null : await nameOf(read, key), days: found })
      if (items.length === limits.pageMax) break
    }
    return { project_id, by, from, to: now.slice(0, 10), items }
  },
  example: { given: 'asked', as: 'alice', input: { days: 7, by: 'agent' } },
})

/** Each name under a prefix, from one to the next. */
async function* keysIn(read: Read, prefix: string): AsyncIterable<string> {
  for (let after: string | undefined; ;) {
    const [row] = await read.list(Request, 'trends', [[prefix]], { after, limit: 1 })
    if (row === undefined) return
    const [key] = row.at.split('\0') as [string]
    yield key
    after = `${key}\0${END}`
  }
}

async function daysOf(read: Read, prefix: string, key: string, from: string): Promise<Static<typeof Day>[]> {
  const days = new Map<string, { fate: string; span: number; count: number }[]>()
  for (let after: string | undefined = from; ;) {
    const [row] = await read.list(Request, 'trends', [[prefix, key]], { after, limit: 1 })
    if (row === undefined) break
    const [day, fate, span] = row.at.split('\0') as [string, string, string]
    const counts = days.get(day) ?? []
    counts.push({ fate, span: Number(span), count: await read.count(Request, 'trends', [prefix, key, day, fate, span]) })
    days.set(day, counts)
    after = `${day}\0${fate}\0${span}\0${END}`
  }
  return [...days].map(([day, counts]) => {
    const { p50, p90, ...tally } = tallyOf(counts)
    return { day, ...tally, p50_seconds: p50, p90_seconds: p90 }
  })
}

async function isTheirs(read: Read, actor: Actor, by: Dimension, key: string): Promise<boolean> {
  if (by === 'person') return true
  if (by === 'rule') return key.endsWith(`set by ${actor.id}`)
  return (await read.subject(key))?.owner === actor.id
}

const nameOf = async (read: Read, key: string): Promise<string | null> => (await read.ports.names.named(read, key))?.name ?? null

export const trendOperations = [trends]
