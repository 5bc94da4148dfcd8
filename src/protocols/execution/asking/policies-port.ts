// The kernel's port of policies for the gate.
import type { ScopedPolicy } from '#kernel/policy/evaluate.ts'
import type { Policies } from '#kernel/ports/gate.ts'
import { INSTALLATION } from '#kernel/policy/gate-policy.ts'
import { Group, groupId, Policy } from './preferences.ts'

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
  async group(read, project_id, name) {
    const group = await read.raw(Group, groupId(project_id, name))
    return group === null || group.removed_at !== null ? null : group.members
  },
}
