// Permission to invoke a capability for a run: by grants of its task, and by the actions that a person approved. A deny always stops it.
// Protocols know one another's documents by name only.
import { canonical } from '#kernel/log/canonical-json.ts'
import { decodeText } from '#kernel/codec/strict-json.ts'
import { limits } from '#kernel/limits.ts'
import type { Granted, Read } from '#kernel/declare/operation.ts'
import type { KnownCheckpoint } from '#kernel/ports/tasks.ts'
import { Invocation, type Approval, type Capability } from './manifest.ts'
import { type Run } from '../schema.ts'

type Permitted = { readonly scope: string; readonly grant: Granted | null; readonly isNeeded: boolean }
/** `approval`: the approved action that allows it, if no grant covers the capability. */
export type PermissionSource = { readonly scopes: readonly Permitted[]; readonly approval: Approval | null }

type Asked = { readonly run: Run; readonly capability: Capability; readonly input: unknown; readonly autonomy: string | null }

export async function permissionFor(read: Read, { run, capability, input, autonomy }: Asked, now: string): Promise<PermissionSource> {
  const { task_id } = run
  const { capability_id, required_permissions } = capability
  const isConfirmed = autonomy === 'confirm_each_action'
  // A run without a task has no grants.
  const grantOf = async (scope: string): Promise<Granted | null> => (task_id === null ? null : read.grant(task_id, scope, now))
  const capabilityScope = { scope: capability_id, grant: await grantOf(capability_id) }
  const needed = await Promise.all(required_permissions.map(async (scope) => ({ scope, grant: await grantOf(scope), isNeeded: true })))
  const isApproved = isConfirmed && task_id !== null && capabilityScope.grant === null
  const approval = isApproved ? await approvalOf(read, task_id, run.agent_id, capability, input) : null
  return { scopes: [{ ...capabilityScope, isNeeded: isConfirmed && approval === null }, ...needed], approval }
}

/** Why it must not run: the missing scope, and whether a grant denies it; null if it is allowed. */
export function objectionTo({ scopes }: PermissionSource): { readonly scope: string; readonly isDenied: boolean } | null {
  const denied = scopes.find(({ grant }) => grant?.decision === 'deny')
  if (denied) return { scope: denied.scope, isDenied: true }
  const used = new Map<string, number>()
  for (const { scope, grant, isNeeded } of scopes) {
    if (!isNeeded) continue
    if (grant === null) return { scope, isDenied: false }
    used.set(grant.id, (used.get(grant.id) ?? 0) + 1)
    if (grant.left !== null && used.get(grant.id)! > grant.left) return { scope, isDenied: false }
  }
  return null
}

/** The scopes whose grants it uses, one after the other. */
export const usedScopes = ({ scopes }: PermissionSource): string[] => scopes.filter(({ isNeeded }) => isNeeded).map(({ scope }) => scope)

/** An approved action that names this capability and shows this input, and was not carried out yet. It is good for one invocation. */
async function approvalOf(
  read: Read,
  task_id: string,
  agent_id: string,
  { capability_id, version }: Capability,
  input: unknown,
): Promise<Approval | null> {
  const { tasks } = read.ports
  const task = await tasks.task(read, task_id)
  const names = [capability_id, `${capability_id}@${version}`]
  const wanted = canonical(input)
  for (const checkpoint_id of task?.checkpoints.slice(-limits.approvalsLookedAt).toReversed() ?? []) {
    const asked = await tasks.checkpoint(read, checkpoint_id)
    if (asked === null || (await askerOf(read, asked)) !== agent_id) continue
    for (const { id: action_id, kind, detail } of asked.proposed_actions) {
      const isNamed = names.includes(kind) || names.includes(action_id)
      const isMeant = isNamed && asked.resolution?.approved_actions?.includes(action_id) && shownIn(detail) === wanted
      if (isMeant && (await read.count(Invocation, 'approval', [approvalKey({ checkpoint_id, action_id })])) === 0)
        return { checkpoint_id, action_id }
    }
  }
  return null
}

/** A question that the system only escalated still belongs to the agent that asked it first. */
async function askerOf(read: Read, checkpoint: KnownCheckpoint): Promise<string> {
  let first = checkpoint
  while (first.escalates !== undefined && first.succeeds !== null) {
    const before = await read.ports.tasks.checkpoint(read, first.succeeds)
    if (before === null) break
    first = before
  }
  return first.raised_by
}

export const approvalKey = ({ checkpoint_id, action_id }: Approval): string => `${checkpoint_id}/${action_id}`

/** The arguments that the person saw, in canonical form; without a detail there were none. */
function shownIn(detail: string | undefined): string | null {
  if (detail === undefined) return canonical({})
  try {
    // Decode strictly, as calls are decoded: a lenient parser would drop a repeated key and round a long number that the person saw.
    return canonical(decodeText(detail))
  } catch {
    return null
  }
}
