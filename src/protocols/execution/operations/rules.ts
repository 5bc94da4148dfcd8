// Standing rules of a person for their own agents: a substitute who answers (HXP 0.1, 6.2), and whether a timeout can decide (X4).
import { definedFields } from '#kernel/codec/strict-json.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { canonical } from '#kernel/log/canonical-json.ts'
import { image } from '#kernel/declare/facts.ts'
import { heldBy, human, isWhole, ownsProject, role, type Actor, type Subject } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { command, query, rule, type Read } from '#kernel/declare/operation.ts'
import { either, nullable, t, type Static } from '#kernel/declare/schema.ts'
import { sha256 } from '#kernel/log/hash-chain.ts'
import { AssertionField } from '#kernel/signing/input.ts'
import { fact } from '../events.ts'
import { Id, Timestamp, type Risk } from '../schema.ts'
import { misfitIn } from '../asking/approval-rules.ts'
import { checkGatePolicy, GatePolicy, INSTALLATION } from '#kernel/policy/gate-policy.ts'
import { Policy, PolicyFields, Rule, Rules, usualPolicy, type Floor } from '../asking/preferences.ts'

/**
 * A narrowed key of a person cannot set who decides, as with substitutes. A token of an issuer expires too,
 * but it is the usual sign-in of a person.
 */
const maySet = (actor: Actor): boolean =>
  isWhole(actor) || (actor.partial !== true && (actor.via === 'token' || actor.via === 'development'))
const themself = role<unknown>('the person themself', (actor) => actor.kind === 'human' && maySet(actor))

const RuleView = t.Object({
  ...Rule.properties,
  order: t.Integer({ description: 'the order among rules that fit alike: the lower is tried first' }),
})
const ruleViews = (rules: readonly Rule[]): Static<typeof RuleView>[] => rules.map((rule, i) => ({ ...rule, order: i + 1 }))

type OfRules = { readonly rules: readonly Rule[] }
const rulesOf = async (read: Read, owner: string): Promise<readonly Rule[]> => (await read.maybe(Rules, owner))?.rules ?? []

function ruleNamed(rules: readonly Rule[], id: string): Rule {
  const found = rules.find((rule) => rule.id === id)
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
      output: { rule: ruleViews(next).at(-1)! },
    }
  },
  example: { given: 'empty', as: 'alice', input: { action: 'APPROVE', tag: 'finance', delegate_to: 'user_bob' } },
})

/** Includes the person themself, as an exception from a wider rule. */
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
  view: ({ rules }) => ({ items: ruleViews(rules) }),
  example: { given: 'ruled', as: 'alice', input: {} },
})

const remove = command({
  name: 'rule.remove',
  summary: 'Remove one of your delegation rules. Requests that it has routed keep their person.',
  draft: 'HXP 0.1, 6.2: Delegation Rules',
  input: t.Object({ rule_id: Id }),
  output: t.Object({ items: t.Array(RuleView) }),
  callers: [themself],
  requires: [],
  audit: 'rule.removed',
  load: async (read, _, { actor }) => ({ rules: await rulesOf(read, actor.id) }),
  decide({ rules }, { rule_id }, { actor }) {
    const gone = ruleNamed(rules, rule_id)
    const next = rules.filter((rule) => rule !== gone)
    return {
      facts: [fact('rule.removed', [image(Rules, { id: actor.id, rules: next })], { detail: { rule_id } })],
      output: { items: ruleViews(next) },
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
    return { facts: [fact('rule.ordered', [image(Rules, { id: actor.id, rules: next })])], output: { items: ruleViews(next) } }
  },
  example: { given: 'ruled', as: 'alice', input: ({ rule }) => ({ order: [rule.id] }) },
})

type OfPolicy = { readonly project_id: string | null; readonly isInstallation: boolean }
const forThemself = role<OfPolicy>(
  'the person themself',
  (actor, { project_id, isInstallation }) => project_id === null && !isInstallation && themself.is(actor, null),
)
const forInstallation = heldBy(
  'an owner of the installation',
  role<OfPolicy>('owner', (actor, { isInstallation }) => isInstallation && actor.kind === 'human' && actor.owner === true && maySet(actor)),
)
/** The file that the operator names at the start. */
const fromFile = heldBy(
  'the server itself',
  role<OfPolicy>('system', (actor, { isInstallation }) => isInstallation && actor.kind === 'system'),
)
const forProject = role<OfPolicy>(
  'an owner of the project',
  (actor, { project_id }) => project_id !== null && actor.kind === 'human' && maySet(actor) && ownsProject(actor, project_id),
)
const OfInstallation = t.Optional(t.Boolean({ description: 'for all projects, by an owner of the installation' }))
const InProject = t.Optional(
  t.String({ maxLength: limits.idCharsMax, description: 'floors for all agents of this project, by an owner of it' }),
)

/** A person's floors apply to the agents that they own, a project's floors to the agents in it. */
function refuseForeignAgents(floors: readonly Floor[], agents: readonly (Subject | null)[], project_id: string | null, who: string): void {
  for (const [i, { agent_id }] of floors.entries()) {
    const agent = agents[i]
    const isTheirs = agent?.kind === 'agent' && (project_id === null ? agent.owner === who : agent.projects.has(project_id))
    if (agent_id === undefined || isTheirs) continue
    const message = project_id === null ? `you answer for no agent ${agent_id}` : `there is no agent ${agent_id} in ${project_id}`
    throw new Refusal('INVALID_REQUEST', `floors.${i}.agent_id: ${message}`, { field: `floors.${i}.agent_id` })
  }
}

const riskIn = (from: 'off' | Risk | null): Risk | undefined => (from === 'off' || from === null ? undefined : from)
const isWeaker = (next: Risk | undefined, before: Risk | undefined): boolean =>
  before !== undefined && (next === undefined || next > before)

const set = command({
  name: 'policy.set',
  summary:
    'Set rules for what your agents ask: whether a timeout may take their default, and floors under the risk that they say. Fields left out stay as they are.',
  draft: 'ours: HXP 0.1, 3.3 lets time decide; the person who answers for the agent may not want that',
  input: t.Object({
    defaults: t.Optional(PolicyFields.defaults),
    forbid: t.Optional(PolicyFields.forbid),
    floors: t.Optional({
      ...PolicyFields.floors,
      description: 'the least risk by agent, tag, scope and target; it raises what an agent says, and never lowers it',
    }),
    approvals: t.Optional({
      ...PolicyFields.approvals,
      description: 'who answers what agents ask from a risk on, in a project or the installation: by whom, how many, and who must not',
    }),
    gate: t.Optional({ ...GatePolicy, description: 'rules for calls of tools: allow, ask or deny' }),
    passkey_from: t.Optional(
      nullable({
        ...either('off', 'R1', 'R2', 'R3', 'R4', 'R5'),
        description: 'the risk from which on people sign their answers by passkey, in a project or the installation; off by default',
      }),
    ),
    project_id: InProject,
    installation: OfInstallation,
    ...AssertionField,
  }),
  output: t.Object({ policy: Policy.schema }),
  callers: [forThemself, forProject, forInstallation, fromFile],
  requires: [],
  isStep: true,
  audit: 'policy.set',
  async load(read, { project_id = null, installation: isInstallation = false, floors = [], approvals = [] }, { actor }) {
    if (project_id !== null && isInstallation)
      throw new Refusal('INVALID_REQUEST', 'give project_id or installation, not both', { field: 'installation' })
    if (project_id !== null) refuseForeignProject(project_id, actor)
    const agents = await Promise.all(floors.map(async ({ agent_id }) => (agent_id === undefined ? null : read.subject(agent_id))))
    const misfit = isInstallation || project_id !== null ? await misfitIn(read, approvals, project_id) : null
    return { project_id, isInstallation, agents, misfit, policy: await read.raw(Policy, idOf(project_id, isInstallation, actor)) }
  },
  signs({ project_id, isInstallation, policy: before }, { assertion: _, ...asked }, { actor }) {
    // An owner must sign a change that requires fewer signatures.
    const isLowered = asked.passkey_from !== undefined && isWeaker(riskIn(asked.passkey_from), before?.passkey_from)
    const toSign = () => ({
      subject_digest: sha256(canonical({ policy: idOf(project_id, isInstallation, actor), updated_at: before?.updated_at ?? null })),
      shown_digest: null,
      result_digest: sha256(canonical(asked)),
    })
    return { project_id, risk: isLowered ? 'always' : 'never', toSign }
  },
  decide(
    { project_id, isInstallation, agents, misfit, policy: before },
    { project_id: _, installation: __, assertion: ___, passkey_from: from, ...others },
    { actor, now, signature },
  ) {
    const asked = { ...others, ...(from === undefined ? {} : { passkey_from: riskIn(from) }) }
    if (Object.keys(asked).length === 0)
      throw new Refusal('INVALID_REQUEST', 'nothing is set: give defaults, forbid, floors, approvals, gate or passkey_from', {
        field: 'defaults',
      })
    if ((project_id !== null || isInstallation) && (asked.defaults !== undefined || asked.forbid !== undefined))
      throw new Refusal('INVALID_REQUEST', 'only people set defaults and forbid, for their own agents', {
        field: asked.defaults === undefined ? 'forbid' : 'defaults',
      })
    if (project_id === null && !isInstallation && from !== undefined)
      throw new Refusal('INVALID_REQUEST', 'passkey_from is set for a project or the installation', { field: 'passkey_from' })
    if (project_id === null && !isInstallation && asked.approvals !== undefined)
      throw new Refusal('INVALID_REQUEST', 'approvals are set for a project or the installation', { field: 'approvals' })
    if (isInstallation && asked.floors !== undefined)
      throw new Refusal('INVALID_REQUEST', 'the policy of the installation has the parts approvals, gate and passkey_from alone', {
        field: 'floors',
      })
    if (misfit !== null) throw new Refusal('INVALID_REQUEST', `${misfit.field}: ${misfit.message}`, { field: misfit.field })
    refuseForeignAgents(asked.floors ?? [], agents, project_id, actor.id)
    if (asked.gate !== undefined) checkGatePolicy(asked.gate)
    const id = idOf(project_id, isInstallation, actor)
    const { defaults, forbid, floors = [], approvals, gate, passkey_from } = { ...(before ?? usualPolicy(id)), ...asked }
    if (forbid.some(({ action, risk }) => action === undefined && risk === undefined))
      throw new Refusal('INVALID_REQUEST', 'forbid: each entry names an action or a risk', { field: 'forbid' })
    const policy: Policy = { id, defaults, forbid, floors, ...definedFields({ approvals, gate, passkey_from }), updated_at: now }
    // The file of the operator is applied at each start.
    if (before !== null && actor.kind === 'system' && canonical({ ...policy, updated_at: before.updated_at }) === canonical(before))
      return { facts: [], output: { policy: before } }
    const more = signature === null ? {} : { detail: { assertion: signature } }
    return { facts: [fact('policy.set', [image(Policy, policy)], more)], output: { policy } }
  },
  example: { given: 'empty', as: 'alice', input: { defaults: 'allow', forbid: [{ action: 'DECIDE', risk: 'R2' }] } },
})

const Suspension = t.Object({
  rule: t.String({ description: 'the id of the rule' }),
  call_id: { ...Id, description: 'the call that a person rejected' },
  by: nullable(Id),
  at: Timestamp,
})

const get = query({
  name: 'policy.get',
  summary: 'Show the rules for what your agents ask: defaults at a timeout, and floors under the risk.',
  draft: 'ours: see policy.set',
  input: t.Object({ project_id: InProject, installation: OfInstallation }),
  output: t.Object({ policy: Policy.schema, suspended: t.Array(Suspension, { description: 'rules that ask instead of allowing' }) }),
  callers: [human],
  async load(read, { project_id = null, installation = false }, { actor }) {
    if (project_id !== null) refuseForeignProject(project_id, actor)
    const id = idOf(project_id, installation, actor)
    const policy = await read.maybe(Policy, id)
    const suspended = policy?.gate === undefined ? [] : await read.ports.calls.suspended(read, id, policy.gate)
    return { id, policy, suspended }
  },
  view: ({ id, policy, suspended }) => ({ policy: { ...usualPolicy(id), ...policy }, suspended: [...suspended] }),
  example: { given: 'empty', as: 'alice', input: {} },
})

const idOf = (project_id: string | null, isInstallation: boolean, actor: Actor): string =>
  isInstallation ? INSTALLATION : (project_id ?? actor.id)

function refuseForeignProject(project_id: string, actor: Actor): void {
  if (actor.projects !== 'all' && !actor.projects.has(project_id)) throw new Refusal('NOT_FOUND', `there is no project ${project_id}`)
}

export const ruleOperations = [add, list, remove, order, set, get]
