// Read-only operations on policies: rehearsals over the record, suggestions from equal answers, and the reason of one decision.
import { durationMs } from '#kernel/codec/timestamps.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { authorize, heldBy, human, isIn, ownsProject, role, type Actor } from '#kernel/declare/access.ts'
import { query, type Context } from '#kernel/declare/operation.ts'
import { either, nullable, t, type Static } from '#kernel/declare/schema.ts'
import { evaluate } from '#kernel/policy/evaluate.ts'
import { checkGatePolicy, GatePolicy, GateRule, INSTALLATION, type Verdict } from '#kernel/policy/gate-policy.ts'
import { timestampOf } from '#kernel/ports/clock.ts'
import { callOf } from '../access.ts'
import { recordedCall } from '../arguments/kept-arguments.ts'
import { recordedCalls, type Within } from '../rehearsal/recorded-calls.ts'
import { Rehearsal, rehearsalOf, verdictFor } from '../rehearsal/rehearse.ts'
import { Suggestion, suggestionsIn } from '../rehearsal/suggest.ts'
import { answerOf, CallAnswer, Id, type Call } from '../schema.ts'
import { policiesFor, suspensionOf, withStanding, type PolicyWithStanding } from '../standing.ts'

const SINCE = 'P30D'
const Span = {
  project_id: t.Optional({ ...Id, description: 'as the policy of this project, by an owner of it' }),
  installation: t.Optional(t.Boolean({ description: 'as the policy of the installation, by an owner of it' })),
  since: t.Optional(t.String({ maxLength: 40, description: `how far back, as an ISO 8601 duration; ${SINCE} by default` })),
  until: t.Optional(t.String({ maxLength: 40, description: 'the end of that time; now by default' })),
}
type Span = { readonly project_id?: string; readonly installation?: boolean; readonly since?: string; readonly until?: string }

/** The people who can set the policy of the scope. Only they can rehearse, because conditions on sealed arguments reveal something about them. */
const forThemself = role<Within>('the person themself', (actor, { scope }) => actor.kind === 'human' && scope === actor.id)
const forProject = heldBy(
  'an owner of the project',
  role<Within>(
    'an owner of the project',
    (actor, { project_id }) => project_id !== null && actor.kind === 'human' && ownsProject(actor, project_id),
  ),
)
const forInstallation = heldBy(
  'an owner of the installation',
  role<Within>('owner', (actor, { scope }) => scope === INSTALLATION && actor.kind === 'human' && actor.owner === true),
)
const setters = [forThemself, forProject, forInstallation]

function withinOf({ project_id: named, installation = false }: Span, actor: Actor, operation: string): Within {
  const project_id = named ?? null
  if (project_id !== null && installation)
    throw new Refusal('INVALID_REQUEST', 'give project_id or installation, not both', { field: 'installation' })
  if (project_id !== null && !isIn(actor, project_id)) throw new Refusal('NOT_FOUND', `there is no project ${project_id}`)
  const scope = installation ? INSTALLATION : (project_id ?? actor.id)
  const within = { scope, project_id, owner: scope === actor.id ? actor.id : null }
  authorize(operation, setters, actor, within)
  return within
}

function timeOf({ since = SINCE, until }: Span, now: string): { since: string; until: string } {
  const end = until === undefined ? Date.parse(now) : Date.parse(until)
  if (Number.isNaN(end) || end > Date.parse(now))
    throw new Refusal('INVALID_REQUEST', 'until must be a time of the past, such as 2026-11-18T10:00:00Z', { field: 'until' })
  return { since: timestampOf(end - durationMs(since, 'INVALID_REQUEST', 'since')), until: timestampOf(end) }
}

const test = query({
  name: 'policy.test',
  summary:
    'Rehearse a policy over the recorded calls. The answer counts the calls that it would have allowed, asked and denied, beside the answers of people.',
  draft: 'ours: a rule is tried before it counts',
  input: t.Object({ gate: { ...GatePolicy, description: 'the policy to try' }, ...Span }),
  output: Rehearsal,
  callers: setters,
  async load(read, input, context): Promise<Within & { readonly rehearsal: Rehearsal }> {
    const within = withinOf(input, context.actor, 'policy.test')
    checkGatePolicy(input.gate)
    const time = timeOf(input, context.now)
    const { recorded, isCut } = await recordedCalls(read, within, time, context, input.gate)
    const judged = recorded.map((call) => ({ recorded: call, verdict: verdictFor(call) }))
    return { ...within, rehearsal: rehearsalOf(input.gate, judged, { ...time, scope: within.scope, isCut }) }
  },
  view: ({ rehearsal }) => rehearsal,
  example: {
    given: 'asked',
    as: 'alice',
    input: { gate: { version: 1, default: 'ask', rules: [{ id: 'reads', tool: 'files/read_*', then: 'allow' }] }, since: 'P7D' },
  },
})

const suggest = query({
  name: 'policy.suggest',
  summary: 'Find calls that people answered alike, and the narrowest rule that would have answered them, with its rehearsal.',
  draft: 'ours: rules that earn themselves, below R4',
  input: t.Object(Span),
  output: t.Object({ items: t.Array(Suggestion), next_cursor: t.Null() }),
  callers: setters,
  async load(read, input, context): Promise<Within & { readonly items: Suggestion[] }> {
    const within = withinOf(input, context.actor, 'policy.suggest')
    const time = timeOf(input, context.now)
    const { recorded, isCut } = await recordedCalls(read, within, time, context)
    const gate = await read.ports.policies.ofScope(read, within.scope)
    const policy = gate === null ? null : await withStanding(read, gate)
    return { ...within, items: suggestionsIn(recorded, policy, { ...time, scope: within.scope, isCut }) }
  },
  view: ({ items }) => ({ items, next_cursor: null }),
  example: { given: 'asked', as: 'alice', input: {} },
})

// --- Why ---------------------------------------------------------------------------------------------------------------------

const Why = t.Object({
  text: t.String({ description: 'the reason in sentences' }),
  call: CallAnswer,
  rule: nullable({ ...GateRule, description: 'the rule that decided, if its policy is still the same and you can see it' }),
  policy: nullable(
    t.Object({ scope: Id, updated_at: nullable(t.String()), changed: t.Boolean({ description: 'it was set again since' }) }),
  ),
  suspended: nullable(t.Object({ call_id: Id, by: nullable(Id), at: t.String() })),
  today: t.Object({
    verdict: nullable({ ...either('allow', 'ask', 'deny'), description: 'null: its arguments were not kept' }),
    scope: nullable(Id),
    rule: nullable(t.String()),
  }),
})
type Why = Static<typeof Why>

const canSee = (actor: Actor, scope: string): boolean => scope === INSTALLATION || scope === actor.id || isIn(actor, scope)
const done: Readonly<Record<Verdict, string>> = { allow: 'allowed', ask: 'asked', deny: 'denied' }

function decidedText({ decision, basis, rule, policy, reason, state }: Call): string {
  const by =
    basis.kind === 'grant'
      ? `by the grant ${basis.id} of the task`
      : basis.kind === 'system' && decision !== 'ask'
        ? 'by the server'
        : rule !== null
          ? `by rule ${rule} of ${policy?.scope ?? 'the policy'}`
          : policy === null
            ? 'because there is no policy'
            : `by the default of ${policy.scope}, because no rule fits`
  const answer = basis.kind !== 'human' ? '' : `; ${basis.id} ${state === 'denied' ? 'rejected' : 'approved'} it`
  return `It was ${done[decision]} ${by}${answer}${reason === null ? '' : `: ${reason}`}.`
}

function whyOf(call: Call, policies: readonly PolicyWithStanding[], today: Why['today'], context: Context): Why {
  const scoped = policies.find(({ scope }) => scope === call.policy?.scope)
  const policy = call.policy === null ? null : { ...call.policy, changed: scoped?.updated_at !== call.policy.updated_at }
  const found = scoped?.policy.rules.find(({ id }) => id === call.rule)
  const isShown = found !== undefined && policy?.changed === false && canSee(context.actor, policy.scope)
  const suspension = found === undefined ? null : suspensionOf(scoped!.standing, found)
  const suspended = suspension === null ? null : { call_id: suspension.call_id, by: suspension.by, at: suspension.at }
  const text = [
    decidedText(call),
    ...(suspended === null
      ? []
      : [`The rule is suspended since ${suspended.at}, because ${suspended.by ?? 'a person'} rejected ${suspended.call_id}.`]),
    today.verdict === null
      ? 'Whether it would be decided alike today is unknown: its arguments were not kept.'
      : `Today it would be ${done[today.verdict]}${today.rule === null ? '' : ` by rule ${today.rule} of ${today.scope}`}.`,
  ].join(' ')
  return { text, call: answerOf(call, context), rule: isShown ? found : null, policy, suspended, today }
}

const why = query({
  name: 'policy.why',
  summary: 'Show why a call was allowed, asked or denied, and what would become of it today.',
  draft: 'ours: every decision names its rule',
  input: t.Object({ call_id: { ...Id, description: 'the id of the call' } }),
  output: Why,
  callers: [human],
  async load(read, { call_id }, { notary, now }) {
    const { call, owner } = await callOf(read, call_id)
    const policies = await policiesFor(read, call.project_id, owner)
    const proposed = await recordedCall(read, call, notary)
    const verdict = verdictFor({ call: { ...call, created_at: now }, proposed, policies, answer: null, risk: null })
    const { scope, rule } = evaluate(policies, proposed, now)
    return {
      call,
      policies,
      today: { verdict, scope: verdict === null ? null : scope, rule: verdict === null ? null : (rule?.id ?? null) },
    }
  },
  view: ({ call, policies, today }, _, context) => whyOf(call, policies, today, context),
  example: { given: 'asked', as: 'alice', input: ({ call_id }) => ({ call_id }) },
})

export const policyOperations = [test, suggest, why]
