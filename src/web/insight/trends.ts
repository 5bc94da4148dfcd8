// Trends of requests as the server counts them, in one shape for the plots.
import type { Chosen } from '../parts/project.tsx'
import { call, serverNow } from '../server/client.ts'

export type By = 'agent' | 'person' | 'rule'
export type Day = {
  readonly day: string
  readonly asked: number
  readonly approved: number
  readonly rejected: number
  readonly expired: number
  /** Seconds to an answer; null: there was none. */
  readonly p50: number | null
  readonly p90: number | null
}
export type Trend = { readonly id: string; readonly name: string; readonly days: readonly Day[] }

const DAY_MS = 86_400_000
const nothing = { asked: 0, approved: 0, rejected: 0, expired: 0, p50: null, p90: null }
/** Each day of the time that was asked for, also those on which nothing happened. */
function everyDay(found: readonly Day[], days: number): Day[] {
  const names = Array.from({ length: days }, (_, i) => new Date(serverNow() - (days - 1 - i) * DAY_MS).toISOString().slice(0, 10))
  const known = new Map(found.map((one) => [one.day, one]))
  return names.map((day) => known.get(day) ?? { day, ...nothing })
}

export async function trendsBy(by: By, days: number, projects: Chosen['input']): Promise<Trend[]> {
  const { items } = await call('execution/request.trends', { by, days, ...projects })
  return items.map(({ key, name, days: own }) => ({
    id: key,
    name: name ?? key,
    days: everyDay(
      own.map(({ day, asked, approved, rejected, expired, p50_seconds, p90_seconds }) => ({
        day,
        asked,
        approved,
        rejected,
        expired,
        p50: p50_seconds,
        p90: p90_seconds,
      })),
      days,
    ),
  }))
}

const DAYS_MIN = 7
/** The days from the first on which something was asked, at least a week: a young installation is no dot in an empty field. */
export function sinceTheFirst(trends: readonly Trend[]): Trend[] {
  const first = trends
    .flatMap(({ days }) => days.filter(({ asked, approved, rejected, expired }) => asked + approved + rejected + expired > 0))
    .reduce<string | null>((least, { day }) => (least === null || day < least ? day : least), null)
  return trends.map((one) => {
    const at = one.days.findIndex(({ day }) => day === first)
    return { ...one, days: one.days.slice(Math.max(0, Math.min(at, one.days.length - DAYS_MIN))) }
  })
}

/** All of them together: counts are added; of times the greatest is shown, as they cannot be added. */
export function together(trends: readonly Trend[]): Day[] {
  const names = [...new Set(trends.flatMap(({ days }) => days.map(({ day }) => day)))].toSorted()
  return names.map((day) => {
    const found = trends.flatMap(({ days }) => days.filter((one) => one.day === day))
    const sum = (of: (one: Day) => number): number => found.reduce((all, one) => all + of(one), 0)
    const most = (of: (one: Day) => number | null): number | null =>
      found.reduce<number | null>((all, one) => (of(one) === null ? all : Math.max(all ?? 0, of(one)!)), null)
    return {
      day,
      asked: sum(({ asked }) => asked),
      approved: sum(({ approved }) => approved),
      rejected: sum(({ rejected }) => rejected),
      expired: sum(({ expired }) => expired),
      p50: most(({ p50 }) => p50),
      p90: most(({ p90 }) => p90),
    }
  })
}
