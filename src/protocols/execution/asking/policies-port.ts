// The kernel's port of policies for the gate.
import type { ScopedPolicy } from '#kernel/policy/evaluate.ts'
import type { Policies } from '#kernel/ports/gate.ts'
import { INSTALLATION } from '#kernel/policy/gate-policy.ts'
import type { Approval } from '../schema.ts'
import { approvalFor, approversBy, excludedIn, groupPeople, mayGrant } from './approvals.ts'
import { Policy } from './preferences.ts'
import { reachOf } from './recipients.ts'

const wordsOf = ({ rules, n }: Approval, risk: string): string => {
  const named = rules.flatMap(({ by }) => [...(by.groups ?? []).map((name) => `group ${name}`), ...(by.people ?? [])])
  return `from ${risk} on, ${n === 1 ? 'one' : n} of ${[...new Set(named)].join(', ')} has to approve`
}

export const policies: Policies = {
  async gate(read, project_id, owner) {
    const scopes = [INSTALLATION, project_id, ...(owner === null ? [] : [owner])]
    const found = await Promise.all(scopes.map((scope) => policies.ofScope(read, scope)))
    return found.filter((policy) => policy !== null)
  },
  async ofScope(read, scope): Promise<ScopedPolicy | null> {
    const policy = await read.raw(Policy, scope)
    return policy?.gate === undefined ? null : { scope, policy: policy.gate, updated_at: policy.updated_at }
  },
  async passkeyFrom(read, project_id) {
    const scopes = [INSTALLATION, ...(project_id === null ? [] : [project_id])]
    const found = await Promise.all(scopes.map(async (scope) => (await read.raw(Policy, scope))?.passkey_from))
    // The stricter one counts: a project never loosens a rule of the installation.
    return found.filter((risk) => risk !== undefined).toSorted()[0] ?? null
  },
  async unmet(read, { project_id, principal, judges, now }) {
    const rules = await Promise.all([INSTALLATION, project_id].map((scope) => read.raw(Policy, scope)))
    const risks = new Set(rules.flatMap((policy) => policy?.approvals?.map(({ from_risk }) => from_risk) ?? []))
    for (const risk of [...risks].toSorted()) {
      const approval = (await approvalFor(read, { isVoted: true, project_id, risk, agent: principal, principal }))!
      const people = await approversBy(read, project_id, approval)
      const reach = await reachOf(
        read,
        judges.filter((id) => people.includes(id)),
        project_id,
        now,
        excludedIn({ approval }),
      )
      if ([...reach.values()].filter((by) => by.length > 0).length < approval.n) return wordsOf(approval, risk)
    }
    return null
  },
  async mayGrant(read, { project_id, risk, agent, principal, grant }) {
    const about = { isVoted: true, project_id, risk: risk ?? undefined, agent, principal } as const
    return mayGrant(read, project_id, await approvalFor(read, about), grant)
  },
  async group(read, project_id, name) {
    const people = await groupPeople(read, project_id, name)
    return people.length === 0 ? null : people
  },
}
