// The approval of a call when it begins: the policy and the grants can have changed since they decided about it.
import type { Context, Granted, Read } from '#kernel/declare/operation.ts'
import { limits } from '#kernel/limits.ts'
import { knownVerdict, type ScopedPolicy } from '#kernel/policy/evaluate.ts'
import type { Verdict } from '#kernel/policy/gate-policy.ts'
import { worksOn, type OfCall } from './access.ts'
import { hasLapsed, LAPSED, type Call } from './schema.ts'
import { policiesFor } from './standing.ts'

/** When the policy last saw the call with its arguments. */
const ruledAt = ({ ruled_at, created_at }: Call): string => ruled_at ?? created_at

/** Whether a policy has changed since it saw the call. */
export const hasChanged = (policies: readonly ScopedPolicy[], call: Call): boolean =>
  policies.some(({ updated_at }) => updated_at !== null && updated_at >= ruledAt(call))

type Now = {
  /** null: it depends on the arguments, which the record does not keep. */
  readonly verdict: Verdict | null
  readonly isOutdated: boolean
  readonly grant: Granted | null
  /** The call belongs to a task that its agent no longer works on. */
  readonly isLeftover: boolean
}

export async function rulingNow(read: Read, { call, owner }: OfCall, now: string): Promise<Now> {
  const { kind, server, tool, agent_id: agent, project_id: project, task_id, hints = {} } = call
  const policies = await policiesFor(read, project, owner)
  const proposed = { kind, name: `${server}/${tool}`, agent, project, arguments: null, hints, isKept: () => false }
  return {
    verdict: knownVerdict(policies, proposed, now),
    isOutdated: hasChanged(policies, call),
    isLeftover: task_id !== null && !worksOn(await read.ports.tasks.task(read, task_id), agent),
    grant: task_id === null ? null : await read.grant(task_id, `gate:${server}/${tool}`, now),
  }
}

/** Why a call that was allowed or approved must not begin now; null: it may. */
export function refusalNow(
  call: Call,
  { verdict, isOutdated, grant, isLeftover }: Now,
  context: Pick<Context, 'now' | 'hasPassed'>,
): string | null {
  if (hasLapsed(call, context)) return LAPSED
  if (isLeftover) return 'the agent no longer works on the task'
  if (verdict === 'deny' || grant?.decision === 'deny') return 'the policy denies it since then'
  if (verdict === null && isOutdated) return 'the policy has changed since then'
  if (call.decision === 'ask') return null
  if (Date.parse(context.now) - Date.parse(call.created_at) > limits.gateAllowedMs) return 'it was allowed too long ago'
  if (call.basis.kind === 'grant') return grant?.decision === 'allow' ? null : 'the grant has ended'
  return verdict === 'ask' ? 'the policy asks people since then' : null
}
