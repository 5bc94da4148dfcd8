// Preferences of people for future requests: a substitute who answers, whether time may decide, floors under the risk, and the members of a group.
import { isIn, SYSTEM_SCOPE } from '#kernel/declare/access.ts'
import { limits } from '#kernel/limits.ts'
import { doc, either, index, nullable, t, type Static } from '#kernel/declare/schema.ts'
import { GatePolicy, INSTALLATION } from '#kernel/policy/gate-policy.ts'
import { Action } from '../actions/index.ts'
import { ApprovalRule, GroupName, Id, Risk, Timestamp, type Request } from '../schema.ts'

const label = t.String({ minLength: 1, maxLength: limits.labelCharsMax })

/** HXP 0.1, 6.2: an absent condition matches everything. */
export const Rule = t.Object({
  id: Id,
  action: t.Optional(Action),
  project_id: t.Optional(label), // a project, or the label that the agent gave
  tag: t.Optional(label),
  delegate_to: Id,
  created_at: Timestamp,
})
export type Rule = Static<typeof Rule>

/** All rules of one person, in the order in which they are tried: one read when an agent asks, and one version at its commit. */
export const Rules = doc('execution.rules', t.Object({ id: Id, rules: t.Array(Rule, { maxItems: limits.rulesPerPersonMax }) }), {
  scopeOf: () => SYSTEM_SCOPE,
  visibleTo: ({ id }, actor) => id === actor.id,
})

type Asked = Pick<Request, 'action' | 'project_id' | 'tags'> & { readonly label?: string | undefined }
/** How many conditions of the rule hold; null: a condition does not hold. */
function fit({ action, project_id, tag }: Rule, asked: Asked): number | null {
  if (action !== undefined && action !== asked.action) return null
  if (project_id !== undefined && project_id !== asked.project_id && project_id !== asked.label) return null
  if (tag !== undefined && !asked.tags.includes(tag)) return null
  return [action, project_id, tag].filter((condition) => condition !== undefined).length
}

/** X10: the most specific one, then the first. */
export function ruleFor(rules: readonly Rule[], asked: Asked): Rule | null {
  let found: Rule | null = null
  let most = -1
  for (const rule of rules) {
    const held = fit(rule, asked)
    if (held !== null && held > most) [found, most] = [rule, held]
  }
  return found
}

/** X34: the least risk of agents' requests; an absent condition matches everything. `target` is `details.target`. */
export const Floor = t.Object({
  agent_id: t.Optional(Id),
  tag: t.Optional(label),
  scope: t.Optional(
    t.String({ minLength: 1, maxLength: limits.nameCharsMax, description: 'a scope, or a family of scopes such as deploy:*' }),
  ),
  target: t.Optional(t.String({ minLength: 1, maxLength: limits.nameCharsMax, description: 'details.target of the request' })),
  risk: Risk,
})
export type Floor = Static<typeof Floor>

/** X4: whether a timeout can decide for the agents of a person. It can by default. */
export const PolicyFields = {
  defaults: either('allow', 'forbid'),
  forbid: t.Array(t.Object({ action: t.Optional(Action), risk: t.Optional(Risk) }), { maxItems: limits.policyEntriesMax }),
  floors: t.Array(Floor, { maxItems: limits.floorsMax }),
  approvals: t.Array(ApprovalRule, { maxItems: limits.approvalsMax }),
}
/** Of a person for their own agents, under their id; of a project, under the id of the project; of the installation. */
const { approvals, floors, ...usual } = PolicyFields
export const Policy = doc(
  'execution.policy',
  t.Object({
    id: Id,
    ...usual,
    floors: t.Optional(floors),
    approvals: t.Optional(approvals),
    gate: t.Optional(GatePolicy),
    passkey_from: t.Optional(Risk),
    updated_at: nullable(Timestamp),
  }), // old ones have no floors
  {
    scopeOf: () => SYSTEM_SCOPE,
    visibleTo: ({ id }, actor) => id === actor.id || (actor.kind !== 'agent' && (id === INSTALLATION || isIn(actor, id))),
  },
)
export type Policy = Static<typeof Policy.schema>
export const usualPolicy = (id: string): Policy => ({ id, defaults: 'allow', forbid: [], floors: [], updated_at: null })

/** `risk` forbids it for this risk and for every greater one. */
export const forbidsDefault = ({ defaults, forbid }: Policy, asked: { action: Action; risk?: Static<typeof Risk> | undefined }): boolean =>
  defaults === 'forbid' ||
  forbid.some(
    ({ action, risk }) => (action === undefined || action === asked.action) && (risk === undefined || (asked.risk ?? 'R1') >= risk),
  )

/** People of a project under one name: to escalate to, to ask at a gate, and to approve. */
export const Group = doc(
  'execution.group',
  t.Object({
    id: t.String(), // `${project_id}/${name}`
    project_id: Id,
    name: GroupName,
    members: t.Array(Id, { maxItems: limits.groupMembersMax }),
    updated_at: Timestamp,
    removed_at: nullable(Timestamp),
  }),
  {
    scopeOf: ({ project_id }) => project_id,
    indexes: { project: index((group) => (group.removed_at === null ? [[group.project_id]] : []), 1) },
  },
)
export type Group = Static<typeof Group.schema>
export const groupId = (project_id: string, name: string): string => `${project_id}/${name}`
