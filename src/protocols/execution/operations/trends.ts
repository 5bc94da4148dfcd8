// Trends of requests by agent, by person or by rule, out of counters.
import { timestampOf } from '#kernel/ports/clock.ts'
import { administrator, human, installationOwner, readsProject, role, system, type Actor } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { query, type Read } from '#kernel/declare/operation.ts'
import { moreProjects, projectInput, projectsFor } from '#kernel/declare/projects.ts'
import { either, END, nullable, t, type Static } from '#kernel/declare/schema.ts'
import { spans, tallyOf, type Dimension } from '../inbox/trends.ts'
import { Request } from '../schema.ts'

const DAY_MS = 86_400_000
const Seconds = nullable(t.Integer({ description: 'the upper bound of its span' }))
const Day = t.Object({
  day: t.String({ description: 'the day (UTC) on which they were asked' }),
  asked: t.Integer(),
  approved: t.Integer(),
  rejected: t.Integer(),
  expired: t.Integer({ description: 'requests that nobody answered in time' }),
  declined: t.Integer({ description: 'requests that people declined to answer' }),
  answered: t.Integer({ description: 'requests that people answered in any way' }),
  p50_seconds: Seconds,
  p90_seconds: Seconds,
})
const Trend = t.Object({
  key: t.String({ description: 'the agent, the person or the rule' }),
  name: nullable(t.String()),
  days: t.Array(Day),
})
type Trend = Static<typeof Trend>

/** People see their own figures; owners see all figures of the project. */
const seesAll = (actor: Actor, project_id: string): boolean =>
  administrator.is(actor, null) || installationOwner.is(actor, null) || system.is(actor, null) || readsProject(actor, project_id)

const serviceOfProject = role<unknown>('the key of a project', (actor) => actor.kind === 'service')

const trends = query({
  name: 'request.trends',
  summary:
    'Show for each day how many requests were asked, approved, rejected and expired, and how long answers took: by agent, person or rule.',
  draft: 'ours: counters of questions and answers',
  input: t.Object({
    days: t.Optional(t.Integer({ minimum: 1, maximum: limits.trendDaysMax, description: 'how many days back; 7 by default' })),
    by: t.Optional({ ...either('agent', 'person', 'rule'), description: 'agent by default; rule: the floors that raised a risk' }),
    ...projectInput,
  }),
  output: t.Object({
    project_id: nullable(t.String({ description: 'null: all projects' })),
    by: t.String(),
    from: t.String(),
    to: t.String(),
    items: t.Array(Trend),
    ...moreProjects,
  }),
  callers: [human, administrator, system, serviceOfProject],
  load: (read, input, { actor }) => projectsFor(read, input, actor),
  async view({ ids, more }, { days = 7, by = 'agent', all_projects = false }, { actor, now }, read) {
    const from = timestampOf(Date.parse(now) - (days - 1) * DAY_MS).slice(0, 10)
    const counted = new Map<string, string[]>()
    for (const id of ids) {
      const isAll = seesAll(actor, id)
      // The actor's own name needs no search.
      for await (const key of by === 'person' && !isAll ? [actor.id] : keysIn(read, `${id} ${by}`)) {
        if (!isAll && !(await isTheirs(read, actor, by, key))) continue
        counted.set(key, [...(counted.get(key) ?? []), `${id} ${by}`])
        if (counted.size === limits.pageMax) break
      }
    }
    const items: Trend[] = []
    for (const [key, prefixes] of counted) {
      const found = await daysOf(read, prefixes, key, from)
      if (found.length > 0) items.push({ key, name: by === 'rule' ? null : await nameOf(read, key), days: found })
    }
    return { project_id: all_projects ? null : ids[0]!, by, from, to: now.slice(0, 10), items, ...more }
  },
  example: { given: 'asked', as: 'alice', input: { days: 7, by: 'agent' } },
})

/** Each name under a prefix, from one to the next. */
async function* keysIn(read: Read, prefix: string): AsyncIterable<string> {
  for (let after: string | undefined; ;) {
    const [row] = await read.counts(Request, 'trends', [prefix], { after, limit: 1 })
    if (row === undefined) return
    const [key] = row.parts as [string]
    yield key
    after = `${key}\0${END}`
  }
}

async function daysOf(read: Read, prefixes: readonly string[], key: string, from: string): Promise<Static<typeof Day>[]> {
  const days = new Map<string, { fate: string; span: number; count: number }[]>()
  for (const prefix of prefixes) {
    for (const { parts, count } of await read.counts(Request, 'trends', [prefix, key], { after: from, limit: COUNTS_MAX })) {
      const [day, fate, span] = parts as [string, string, string]
      const counts = days.get(day) ?? []
      counts.push({ fate, span: Number(span), count })
      days.set(day, counts)
    }
  }
  return [...days]
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
    .map(([day, counts]) => {
      const { p50, p90, ...tally } = tallyOf(counts)
      return { day, ...tally, p50_seconds: p50, p90_seconds: p90 }
    })
}

/** Each day has at most a count for each span of three answers, and one for each other outcome. */
const COUNTS_MAX = (limits.trendDaysMax + 1) * (3 * (spans.length + 1) + 4)

async function isTheirs(read: Read, actor: Actor, by: Dimension, key: string): Promise<boolean> {
  if (by === 'person') return true
  if (by === 'rule') return key.endsWith(`set by ${actor.id}`)
  return (await read.subject(key))?.owner === actor.id
}

const nameOf = async (read: Read, key: string): Promise<string | null> => (await read.ports.names.named(read, key))?.name ?? null

export const trendOperations = [trends]
