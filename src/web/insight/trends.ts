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
  /** Seconds to an answer; null on a day without answers. */
  readonly p50: number | null
  readonly p90: number | null
}
export type Trend = { readonly id: string; readonly name: string; readonly days: readonly Day[] }

const DAY_MS = 86_400_000
const nothing = { asked: 0, approved: 0, rejected: 0, expired: 0, p50: null, p90: null }
/** Every day of the requested span, including days without requests. */
function everyDay(found: readonly Day[], days: number): Day[] {
  const names = Array.from({ length: days }, (_, i) => new Date(serverNow() - (days - 1 - i) * DAY_MS).toISOString().slice(0, 10))
  const known = new Map(found.map((entry) => [entry.day, entry]))
  return names.map((day) => known.get(day) ?? { day, ...nothing })
}

export async function trendsBy(by: By, days: number, projects: Chosen['input']): Promise<Trend[]> {
  const { items } = await call('execution/request.trends', { by, days, ...projects })
  return items.map(({ key, name, days: itemDays }) => ({
    id: key,
    name: name ?? key,
    days: everyDay(
      itemDays.map(({ day, asked, approved, rejected, expired, p50_seconds, p90_seconds }) => ({
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
/** Cuts the empty days before the first request, but keeps at least a week: a plot of one day would be a single dot. */
export function sinceFirstRequest(trends: readonly Trend[]): Trend[] {
  const first = trends
    .flatMap(({ days }) => days.filter(({ asked, approved, rejected, expired }) => asked + approved + rejected + expired > 0))
    .reduce<string | null>((least, { day }) => (least === null || day < least ? day : least), null)
  return trends.map((trend) => {
    const at = trend.days.findIndex(({ day }) => day === first)
    return { ...trend, days: trend.days.slice(Math.max(0, Math.min(at, trend.days.length - DAYS_MIN))) }
  })
}

/** The trends as one: counts are added; times cannot be, so the longest counts. */
export function together(trends: readonly Trend[]): Day[] {
  const names = [...new Set(trends.flatMap(({ days }) => days.map(({ day }) => day)))].toSorted()
  return names.map((day) => {
    const found = trends.flatMap(({ days }) => days.filter((entry) => entry.day === day))
    const sum = (figure: (entry: Day) => number): number => found.reduce((total, entry) => total + figure(entry), 0)
    const most = (figure: (entry: Day) => number | null): number | null =>
      found.reduce<number | null>((longest, entry) => (figure(entry) === null ? longest : Math.max(longest ?? 0, figure(entry)!)), null)
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
