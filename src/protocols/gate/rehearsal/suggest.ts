// Suggestions: calls that people answered alike, and the narrowest rule that would have answered them.
import { definedFields } from '#kernel/codec/strict-json.ts'
import { limits } from '#kernel/limits.ts'
import { canonical } from '#kernel/log/canonical-json.ts'
import { sha256Hex } from '#kernel/log/hash-chain.ts'
import { evaluate, valueAt, type Ruling } from '#kernel/policy/evaluate.ts'
import { GateRule, mustBeAsked, type GatePolicy } from '#kernel/policy/gate-policy.ts'
import { nullable, t, type Static } from '#kernel/declare/schema.ts'
import type { PolicyWithStanding } from '../standing.ts'
import { conditionsFor, pointersIn } from './conditions.ts'
import { withPolicy, type RecordedCall } from './recorded-calls.ts'
import { earnedText, Rehearsal, rehearsalOf, verdictFor, type Judged, type Span } from './rehearse.ts'

export const Suggestion = t.Object({
  text: t.String({ description: 'how often people answered alike, and how often they might not' }),
  scope: t.String({ description: 'the policy that it belongs to' }),
  before: nullable(t.String({ description: 'the rule that asks today: the new one is put before it' })),
  rule: { ...GateRule, description: 'with the digest of its rehearsal' },
  rehearsal: { ...Rehearsal, description: 'of the policy with this rule' },
})
export type Suggestion = Static<typeof Suggestion>

type Asked = RecordedCall & { readonly ruling: Ruling }
type Alike = { readonly calls: readonly Asked[]; readonly then: 'allow' | 'deny' }

/** The call if people answered it and a rule could have: below R4, and no rule names people. */
function askedOf(judged: Judged): Asked[] {
  const { recorded, verdict } = judged
  const { call, proposed, policies, answer, risk } = recorded
  if (answer === null || verdict !== 'ask' || call.kind !== 'tool' || call.changed || call.sample !== undefined) return []
  const ruling = evaluate(policies, proposed, call.created_at)
  if (ruling.whom.length > 0 || ruling.isSuspended || mustBeAsked(risk) || mustBeAsked(ruling.risk)) return []
  // In a rule the star would match more than this tool.
  return proposed.name.includes('*') ? [] : [{ ...recorded, ruling }]
}

const hasAll = ({ call, proposed }: RecordedCall): boolean => proposed.isKept('') && call.redact.length === 0

function alikeIn(calls: readonly Asked[]): Alike | null {
  const answers = new Set(calls.map(({ answer }) => answer))
  if (calls.length < limits.suggestedCallsMin || answers.size !== 1) return null
  return { calls, then: answers.has('approved') ? 'allow' : 'deny' }
}

const groupBy = <T>(items: readonly T[], keyOf: (item: T) => string): T[][] => [
  ...items.reduce((groups, item) => groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item]), new Map<string, T[]>()).values(),
]

/** The calls of one agent to one tool; if people answered them differently, groups of them with one common argument. */
function partsOf(calls: readonly Asked[]): Alike[] {
  const whole = alikeIn(calls)
  if (whole !== null) return [whole]
  if (calls.length < limits.suggestedCallsMin || !calls.every(hasAll)) return []
  const splits = pointersIn(calls[0]!.proposed.arguments).map((at) =>
    groupBy(calls, ({ proposed }) => canonical(valueAt(proposed.arguments, at) ?? null)).flatMap((part) => alikeIn(part) ?? []),
  )
  const countCalls = (parts: readonly Alike[]): number => parts.reduce((sum, part) => sum + part.calls.length, 0)
  return splits.toSorted((a, b) => countCalls(b) - countCalls(a))[0] ?? []
}

function ruleFor({ calls, then }: Alike): GateRule {
  const [{ call, proposed, ruling }] = calls as [Asked]
  const when = calls.every(hasAll) ? conditionsFor(calls.map((call) => call.proposed.arguments)) : []
  const rule = {
    tool: proposed.name,
    agent: call.agent_id,
    project: call.project_id,
    then,
    ...definedFields({
      when: when.length === 0 ? undefined : when,
      risk: ruling.risk ?? undefined,
      record: ruling.rule?.record,
      redact: ruling.redact.length === 0 ? undefined : [...ruling.redact],
    }),
  }
  return { id: `earned-${sha256Hex(canonical(rule)).slice(0, 8)}`, ...rule }
}

function withRule({ rules, ...policy }: GatePolicy, rule: GateRule, before: string | null): GatePolicy {
  const at = rules.findIndex(({ id }) => id === before)
  return { ...policy, rules: rules.toSpliced(at === -1 ? rules.length : at, 0, rule) }
}

const NO_POLICY: GatePolicy = { version: 1, default: 'ask', rules: [] }

function suggestionFor(alike: Alike, judged: readonly Judged[], current: PolicyWithStanding, span: Span): Suggestion | null {
  const [{ ruling, proposed }] = alike.calls as [Asked]
  const rule = ruleFor(alike)
  if (current.policy.rules.length === limits.gateRulesMax || current.policy.rules.some(({ id }) => id === rule.id)) return null
  const before = ruling.scope === current.scope ? (ruling.rule?.id ?? null) : null
  const tried = { ...current, policy: withRule(current.policy, rule, before) }
  const after = judged.map(({ recorded, verdict }): Judged => {
    if (recorded.proposed.name !== proposed.name) return { recorded, verdict }
    return { recorded, verdict: verdictFor({ ...recorded, policies: withPolicy(recorded.policies, tried) }) }
  })
  const covered = after.filter(
    ({ verdict, recorded }, i) => verdict === alike.then && judged[i]!.verdict === 'ask' && recorded.answer !== null,
  )
  const ids = new Set(covered.map(({ recorded }) => recorded.call.id))
  const isAlike = covered.every(({ recorded }) => recorded.answer === (alike.then === 'allow' ? 'approved' : 'rejected'))
  // If another scope still asks, the rule would answer nothing.
  if (!isAlike || !alike.calls.every(({ call }) => ids.has(call.id))) return null
  const rehearsal = rehearsalOf(tried.policy, after, span)
  const unknown = alike.calls.every(hasAll) ? '' : '. Arguments were not kept, so the rule has no conditions'
  const text = `${earnedText(covered.length, alike.then, span)}${unknown}`
  return { text, scope: current.scope, before, rule: { ...rule, rehearsal: rehearsal.digest }, rehearsal }
}

/** The most frequent first. */
export function suggestionsIn(recorded: readonly RecordedCall[], current: PolicyWithStanding | null, span: Span): Suggestion[] {
  const judged = recorded.map((call): Judged => ({ recorded: call, verdict: verdictFor(call) }))
  const policy = current ?? { scope: span.scope, policy: NO_POLICY, updated_at: null, standing: null }
  const groups = groupBy(judged.flatMap(askedOf), ({ call, proposed, ruling }) =>
    canonical([call.agent_id, call.project_id, proposed.name, ruling.scope, ruling.rule?.id ?? null]),
  )
  return groups
    .flatMap(partsOf)
    .toSorted((a, b) => b.calls.length - a.calls.length)
    .slice(0, limits.suggestionsMax)
    .flatMap((alike) => suggestionFor(alike, judged, policy, span) ?? [])
}
