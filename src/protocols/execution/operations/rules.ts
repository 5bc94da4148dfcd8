// Standing rules of a person for their own agents: a substitute who answers (HXP 0.1, 6.2), and whether time may decide (X4).
import { Refusal } from '#kernel/declare/errors.ts'
import { fact, image } from '#kernel/declare/facts.ts'
import { human, role, type Actor, type Subject } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, query, rule, type Read } from '#kernel/declare/operation.ts'
import { t, type Static } from '#kernel/declare/schema.ts'
import { Id } from '../schema.ts'
import { Policy, PolicyFields, Rule, Rules, usualPolicy } from '../asking/preferences.ts'

/**
 * As with a substitute: a key that carries less than the whole of a person does not decide who decides. A token of an issuer ends as
 * well, but it is how a person comes.
 */
const isWhole = ({ narrowed, partial, via }: Actor): boolean => !narrowed || (!partial && (via === 'token' || via === 'development'))
const themself = role<unknown>('the person themself', (actor) => actor.kind === 'human' && isWhole(actor))

const RuleView = t.Object({
  ...Rule.properties,
  order: t.Integer({ description: 'the order among rules that fit alike: the lower is tried first' }),
})
const shown = (rules: readonly Rule[]): Static<typeof RuleView>[] => rules.map((one, i) => ({ ...one, order: i + 1 }))

type OfRules = { readonly rules: readonly Rule[] }
const rulesOf = async (read: Read, owner: string): Promise<readonly Rule[]> => (await read.maybe(Rules, owner))?.rules ?? []

function ruleNamed(rules: readonly Rule[], id: string): Rule {
  const found = rules.find((one) => one.id === id)
  if (!found) throw new Refusal('NOT_FOUND', `there is no rule ${id}`)
  return found
}

const { id: _, created_at: __, ...conditions } = Rule.properties
const add = command({
  name: 'rule.add',
  summary: 'Route requests of your agents to another person: by action, project and tag. The most specific rule counts.',
  draft: 'HXP 0.1, 6.2: Delegation Rules',
  input: t.Object(conditions),
  output: t.Object({ rule: RuleView }),
  callers: [themself],
  requires: [
    rule<OfRules>(
      'QUOTA_EXCEEDED',
      `a person has at most ${limits.rulesPerPersonMax} rules`,
      ({ rules }) => rules.length < limits.rulesPerPersonMax,
      `you have ${limits.rulesPerPersonMax} rules, which is the most: remove one first`,
    ),
  ],
  audit: 'rule.added',
  async load(read, { delegate_to }, { actor }) {
    return { rules: await rulesOf(read, actor.id), delegate: await read.subject(delegate_to) }
  },
  decide({ rules, delegate }, input, { actor, now, newId }) {
    if (!isColleague(delegate, actor))
      throw new Refusal('NOT_FOUND', `there is no active person ${input.delegate_to} in any project of yours`, { field: 'delegate_to' })
    const next = [...rules, { id: newId('rule'), ...input, created_at: now }]
    return {
      facts: [fact('rule.added', [image(Rules, { id: actor.id, rules: next })], { detail: { rule_id: next.at(-1)!.id } })],
      output: { rule: shown(next).at(-1)! },
    }
  },
  example: { given: 'empty', as: 'alice', input: { action: 'APPROVE', tag: 'finance', delegate_to: 'user_bob' } },
})

/** Themself is fine: what is theirs may be an exception from a wider rule. */
function isColleague(subject: Subject | null, { projects }: Actor): boolean {
  if (subject?.kind !== 'human' || subject.disabled || projects === 'all') return false
  return [...subject.projects.keys()].some((project) => projects.has(project))
}

const list = query({
  name: 'rule.list',
  summary: 'List your delegation rules in their order.',
  draft: 'HXP 0.1, 6.2: Delegation Rules',
  input: t.Object({}),
  output: t.Object({ items: t.Array(RuleView) }),
  callers: [human],
  load: async (read, _, { actor }) => ({ rules: await rulesOf(read, actor.id) }),
  view: ({ rules }) => ({ items: shown(rules) }),
  example: { given: 'ruled', as: 'alice', input: {} },
})

const remove = command({
  name: 'rule.remove',
  summary: 'Remove one of your delegation rules. Requests that it has routed stay where they are.',
  draft: 'HXP 0.1, 6.2: Delegation Rules',
  input: t.Object({ rule_id: Id }),
  output: t.Object({ items: t.Array(RuleView) }),
  callers: [themself],
  requires: [],
  audit: 'rule.removed',
  load: async (read, _, { actor }) => ({ rules: await rulesOf(read, actor.id) }),
  decide({ rules }, { rule_id }, { actor }) {
    const gone = ruleNamed(rules, rule_id)
    const next = rules.filter((one) => one !== gone)
    return {
      facts: [fact('rule.removed', [image(Rules, { id: actor.id, rules: next })], { detail: { rule_id } })],
      output: { items: shown(next) },
    }
  },
  example: { given: 'ruled', as: 'alice', input: ({ rule }) => ({ rule_id: rule.id }) },
})

const order = command({
  name: 'rule.order',
  summary: 'Put your delegation rules into another order.',
  draft: 'HXP 0.1, 6.2: Delegation Rules',
  input: t.Object({
    order: t.Array(Id, { maxItems: limits.rulesPerPersonMax, description: 'the ids of all your rules, the first first' }),
  }),
  output: t.Object({ items: t.Array(RuleView) }),
  callers: [themself],
  requires: [],
  audit: 'rule.ordered',
  load: async (read, _, { actor }) => ({ rules: await rulesOf(read, actor.id) }),
  decide({ rules }, { order: ids }, { actor }) {
    const next = ids.map((id) => ruleNamed(rules, id))
    if (next.length !== rules.length || new Set(ids).size !== rules.length)
      throw new Refusal('INVALID_REQUEST', 'order must name each of your rules once', { field: 'order' })
    return { facts: [fact('rule.ordered', [image(Rules, { id: actor.id, rules: next })])], output: { items: shown(next) } }
  },
  example: { given: 'ruled', as: 'alice', input: ({ rule }) => ({ order: [rule.id] }) },
})

const set = command({
  name: 'policy.set',
  summary: 'Set whether requests of your agents may take their default at a timeout: never, or not for some actions and risks.',
  draft: 'ours: HXP 0.1, 3.3 lets time decide; the person who answers for the agent may not want that',
  input: t.Object({ defaults: PolicyFields.defaults, forbid: t.Optional(PolicyFields.forbid) }),
  output: t.Object({ policy: Policy.schema }),
  callers: [themself],
  requires: [],
  audit: 'policy.set',
  load: async (read, _, { actor }) => ({ policy: await read.maybe(Policy, actor.id) }),
  decide(_, { defaults, forbid = [] }, { actor, now }) {
    if (forbid.some(({ action, risk }) => action === undefined && risk === undefined))
      throw new Refusal('INVALID_REQUEST', 'forbid: each entry names an action or a risk', { field: 'forbid' })
    const policy: Policy = { id: actor.id, defaults, forbid, updated_at: now }
    return { facts: [fact('policy.set', [image(Policy, policy)])], output: { policy } }
  },
  example: { given: 'empty', as: 'alice', input: { defaults: 'allow', forbid: [{ action: 'DECIDE', risk: 'R2' }] } },
})

const get = query({
  name: 'policy.get',
  summary: 'Show whether requests of your agents may take their default at a timeout.',
  draft: 'ours: see policy.set',
  input: t.Object({}),
  output: t.Object({ policy: Policy.schema }),
  callers: [human],
  load: async (read, _, { actor }) => ({ policy: await read.maybe(Policy, actor.id) }),
  view: ({ policy }, _, { actor }) => ({ policy: policy ?? usualPolicy(actor.id) }),
  example: { given: 'empty', as: 'alice', input: {} },
})

export const ruleOperations = [add, list, remove, order, set, get]
