// Approvals: from a risk on, rules of the installation and of the project name the people who answer what agents ask, how many of them have to
// agree, and who must not answer. Groups are read at each look, so that a person who leaves one answers no longer.
import type { Granted, Read } from '#kernel/declare/operation.ts'
import { INSTALLATION } from '#kernel/policy/gate-policy.ts'
import { judgesOf, type KnownTask } from '#kernel/ports/tasks.ts'
import { actions } from '../actions/index.ts'
import type { Approval, ApprovalRule, Request, Risk } from '../schema.ts'
import { Group, groupId, Policy } from './preferences.ts'

/** The members of a group, and the people whom an issuer puts into it. */
export async function groupPeople(read: Read, project_id: string, name: string): Promise<string[]> {
  const group = await read.raw(Group, groupId(project_id, name))
  const linked = await read.people({ inGroup: name, of: project_id })
  return [...new Set([...(group?.members ?? []), ...linked.map(({ id }) => id)])]
}

export async function peopleBy(read: Read, project_id: string, { groups = [], people = [] }: ApprovalRule['by']): Promise<string[]> {
  const members = await Promise.all(groups.map((name) => groupPeople(read, project_id, name)))
  return [...new Set([...people, ...members.flat()])]
}

/** The rule of each scope for this risk: of several, the one that begins at the greatest risk. */
async function rulesFor(read: Read, project_id: string, risk: Risk): Promise<Approval['rules']> {
  const policies = await Promise.all([INSTALLATION, project_id].map((scope) => read.raw(Policy, scope)))
  return policies.flatMap((policy) => {
    const fitting = (policy?.approvals ?? []).filter(({ from_risk }) => from_risk <= risk)
    const [rule] = fitting.toSorted((a, b) => (a.from_risk > b.from_risk ? -1 : 1))
    return rule === undefined ? [] : [{ ...rule, set_by: policy!.id }]
  })
}

/** Whether several people can agree on it: at a checkpoint, a vote without a winner would have no answer. */
export function isVotedOn({ action, kind }: Pick<Request, 'action' | 'kind'>): boolean {
  const { votesFor, isVerdict } = actions[action]
  return kind === 'request' ? votesFor !== undefined : isVerdict === true
}

/** `agent`: whose owner may be excluded. */
type About = Pick<Request, 'project_id'> & {
  readonly isVoted: boolean
  readonly risk: Risk | undefined
  readonly agent: string
  readonly principal: string | null
}

/** The rules that apply to a question; null: none does. */
export async function approvalFor(read: Read, { isVoted, project_id, risk = 'R1', agent, principal }: About): Promise<Approval | null> {
  const rules = await rulesFor(read, project_id, risk)
  if (rules.length === 0) return null
  const isOut = (as: 'agent_owner' | 'principal'): boolean => rules.some(({ excludes = [] }) => excludes.includes(as))
  const owner = isOut('agent_owner') ? ((await read.subject(agent))?.owner ?? null) : null
  const excluded: Approval['excluded'] = []
  if (owner !== null) excluded.push({ id: owner, as: 'agent_owner' })
  if (isOut('principal') && principal !== null) excluded.push({ id: principal, as: 'principal' })
  return { rules, n: isVoted ? Math.max(...rules.map(({ quorum = 1 }) => quorum)) : 1, excluded }
}

/** Those whom all rules name, without those who are excluded. */
export async function approversBy(read: Read, project_id: string, { rules, excluded }: Omit<Approval, 'n'>): Promise<string[]> {
  const named = await Promise.all(rules.map(({ by }) => peopleBy(read, project_id, by)))
  return named[0]!.filter((id) => named.every((ids) => ids.includes(id)) && excluded.every((one) => one.id !== id))
}

type Narrowed = Pick<Request, 'project_id'> & Partial<Pick<Request, 'approval' | 'approvers' | 'quorum'>>
/** Those who answer by the rules, of those who would answer without them; null: no rule applies. */
export async function allowedFor(
  read: Read,
  { approval, approvers, quorum, project_id }: Narrowed,
  task: KnownTask | null,
): Promise<readonly string[] | null> {
  if (approval === undefined) return null
  const people = await approversBy(read, project_id, approval)
  const named = task === null ? (quorum?.of ?? approvers) : judgesOf(task)
  return named === undefined ? people : named.filter((id) => people.includes(id))
}

/** Whether an advance decision of this person spares the question: they could answer it, and alone. A no always does. */
export async function mayGrant(read: Read, project_id: string, approval: Approval | null, { decision, by }: Granted): Promise<boolean> {
  if (approval === null || decision === 'deny') return true
  return approval.n === 1 && (await approversBy(read, project_id, approval)).includes(by)
}

export const excludedIn = ({ approval }: Partial<Pick<Request, 'approval'>>): string[] => approval?.excluded.map(({ id }) => id) ?? []
