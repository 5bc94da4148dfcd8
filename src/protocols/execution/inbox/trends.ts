// Trends: the requests of each day, their outcomes, and how long answers took. They are counters stored beside the requests, so that a
// query need not read the record.
import { SYSTEM_ID } from '#kernel/declare/access.ts'
import type { Part } from '#kernel/declare/schema.ts'
import type { Request } from '../schema.ts'

/** Upper bounds in seconds; longer times are counted in one more bucket. */
export const spans = [
  1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1_200, 1_800, 3_600, 7_200, 14_400, 28_800, 86_400, 172_800, 604_800, 2_592_000,
] as const
const spanOf = (seconds: number): number => {
  const at = spans.findIndex((bound) => seconds <= bound)
  return at === -1 ? spans.length : at
}

export const dimensions = ['agent', 'person', 'rule'] as const
export type Dimension = (typeof dimensions)[number]
type Fate = 'open' | 'approved' | 'rejected' | 'expired' | 'declined' | 'answered' | 'ended'

/** The outcome: approved, rejected, another answer, declined, expired, or ended without an answer. */
function fateOf({ status, receipt }: Request): Fate {
  if (receipt === undefined) return 'open'
  if (status === 'failed' && receipt.reason === 'timeout') return 'expired'
  if (status === 'declined') return 'declined'
  if (status !== 'completed') return 'ended'
  // Time or a grant decided this request, not a person.
  if (receipt.by === SYSTEM_ID || receipt.basis.kind !== 'role') return 'ended'
  return receipt.result === 'approved' || receipt.result === 'rejected' ? receipt.result : 'answered'
}
const isAnswer = (fate: string): boolean => fate === 'approved' || fate === 'rejected' || fate === 'answered'

/** The names under which a request is counted: the asking agent, the person who answered or has it, the rule that raised its risk. */
function namesOf({ requester, receipt, assigned_to, floor }: Request): [Dimension, string][] {
  const person = receipt !== undefined && receipt.by !== SYSTEM_ID ? receipt.by : assigned_to
  const named: [Dimension, string | undefined | null][] = [
    ['agent', requester],
    ['person', person],
    ['rule', floor?.rule],
  ]
  return named.filter((entry): entry is [Dimension, string] => typeof entry[1] === 'string')
}

/** The parts of a row: project, dimension, name, the day of the request, and its outcome with the time it took. */
export function trendRows(request: Request): Part[][] {
  const fate = fateOf(request)
  const span = isAnswer(fate) ? spanOf(secondsOf(request)) : 0
  const day = request.created_at.slice(0, 10)
  return namesOf(request).map(([dimension, name]) => [`${request.project_id} ${dimension}`, name, day, fate, String(span).padStart(2, '0')])
}
const secondsOf = ({ created_at, receipt }: Request): number => (Date.parse(receipt!.completed_at) - Date.parse(created_at)) / 1_000

export type Tally = {
  asked: number
  approved: number
  rejected: number
  expired: number
  declined: number
  answered: number
  p50: number | null
  p90: number | null
}

/** Sums up counts by outcome and span. */
export function tallyOf(counts: readonly { readonly fate: string; readonly span: number; readonly count: number }[]): Tally {
  const of = (fate: string): number => counts.reduce((sum, count) => sum + (count.fate === fate ? count.count : 0), 0)
  const answered = counts.filter(({ fate }) => isAnswer(fate)).toSorted((a, b) => a.span - b.span)
  const total = answered.reduce((sum, { count }) => sum + count, 0)
  const quantile = (share: number): number | null => {
    let seen = 0
    for (const { span, count } of answered) {
      seen += count
      if (seen >= total * share) return spans[span] ?? spans.at(-1)!
    }
    return null
  }
  return {
    asked: counts.reduce((sum, { count }) => sum + count, 0),
    approved: of('approved'),
    rejected: of('rejected'),
    expired: of('expired'),
    declined: of('declined'),
    answered: total,
    p50: quantile(0.5),
    p90: quantile(0.9),
  }
}
