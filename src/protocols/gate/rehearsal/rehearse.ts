// A rehearsal: the verdicts of a policy for recorded calls, compared with the answers of people. It decides nothing and creates no question.
import { canonical } from '#kernel/log/canonical-json.ts'
import { sha256 } from '#kernel/log/hash-chain.ts'
import { knownVerdict } from '#kernel/policy/evaluate.ts'
import type { GatePolicy, Verdict } from '#kernel/policy/gate-policy.ts'
import { t, type Static } from '#kernel/declare/schema.ts'
import { limits } from '#kernel/limits.ts'
import type { RecordedCall } from './recorded-calls.ts'
import { boundAt95, percent } from './exact-bound.ts'

const count = (description: string) => t.Integer({ description })
const Tally = t.Object({
  calls: count('calls with this verdict'),
  approved: count('of these, calls that a person approved'),
  rejected: count('of these, calls that a person rejected'),
})
type Tally = Static<typeof Tally>

export const Rehearsal = t.Object({
  text: t.String({ description: 'the result in a sentence' }),
  since: t.String({ maxLength: 40 }),
  until: t.String({ maxLength: 40 }),
  calls: count('calls in this time'),
  allowed: Tally,
  asked: Tally,
  denied: Tally,
  unknown: count('calls whose verdict depends on arguments that were not kept'),
  cut: t.Boolean({ description: `there are more calls than the newest ${limits.rehearsedCallsMax}` }),
  digest: t.String({ maxLength: 100, description: 'over policy, time, calls and answers: the same rehearsal has the same digest' }),
})
export type Rehearsal = Static<typeof Rehearsal>

/** The verdict for a recorded call at its time. A changed definition goes to a person, even if a rule allows the call. */
export function verdictFor({ call, proposed, policies }: RecordedCall): Verdict | null {
  const verdict = knownVerdict(policies, proposed, call.created_at)
  return verdict === 'allow' && call.changed ? 'ask' : verdict
}

export type Span = { readonly since: string; readonly until: string; readonly scope: string; readonly isCut: boolean }
export type Judged = { readonly recorded: RecordedCall; readonly verdict: Verdict | null }

const ofPerson = (calls: number, word: string): string => `${calls === 0 ? 'none' : calls} of which a person ${word}`

export function rehearsalOf(gate: GatePolicy, judged: readonly Judged[], { since, until, scope, isCut }: Span): Rehearsal {
  const tally = (wanted: Verdict): Tally => {
    const found = judged.filter(({ verdict }) => verdict === wanted)
    const countOf = (answer: string): number => found.filter(({ recorded }) => recorded.answer === answer).length
    return { calls: found.length, approved: countOf('approved'), rejected: countOf('rejected') }
  }
  const [allowed, asked, denied] = [tally('allow'), tally('ask'), tally('deny')]
  const unknown = judged.length - allowed.calls - asked.calls - denied.calls
  const text = [
    `would have allowed ${allowed.calls}${allowed.calls === 0 ? '' : `, ${ofPerson(allowed.rejected, 'rejected')}`}`,
    `asked ${asked.calls}`,
    `denied ${denied.calls}${denied.calls === 0 ? '' : `, ${ofPerson(denied.approved, 'approved')}`}`,
    ...(unknown === 0 ? [] : [`${unknown} ${unknown === 1 ? 'is' : 'are'} unknown, because arguments were not kept`]),
    ...(isCut ? [`only the newest ${judged.length} calls were read`] : []),
  ].join('; ')
  const rules = gate.rules.map(({ rehearsal: _, ...rule }) => rule)
  const calls = judged.map(({ recorded, verdict }) => [recorded.call.id, verdict, recorded.answer])
  const digest = sha256(canonical({ scope, since, until, gate: { ...gate, rules }, calls }))
  return { text, since, until, calls: judged.length, allowed, asked, denied, unknown, cut: isCut, digest }
}

const HOUR_MS = 3_600_000
/** The time between two timestamps, such as `30 days`. */
function spanText(since: string, until: string): string {
  const hours = Math.max(1, Math.round((Date.parse(until) - Date.parse(since)) / HOUR_MS))
  const [number, unit] = hours < 48 ? [hours, 'hour'] : [Math.round(hours / 24), 'day']
  return `${number} ${unit}${number === 1 ? '' : 's'}`
}

/** The text about calls with equal answers: their number, and the bound of future calls with another answer. */
export const earnedText = (calls: number, then: Verdict, { since, until }: Pick<Span, 'since' | 'until'>): string =>
  `${calls} in ${spanText(since, until)}, none ${then === 'allow' ? 'rejected' : 'approved'}; at 95 % at most ${percent(boundAt95(0, calls))} would be`
