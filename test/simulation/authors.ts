// The author of a fact: by the client's own words where they stand in it, else by the object of the call.
import type { Operation } from '#kernel/declare/operation.ts'
import { protocols } from '#protocols/index.ts'
import type { Plan } from './clients.ts'
import type { SeenFact, SeenImage } from './record.ts'

export const operations = new Map<string, Operation>(
  protocols.flatMap(({ name, operations: own }) => own.map((op) => [`${name}/${op.name}`, op] as const)),
)

/** Their own words stand in what they leave. */
export const marked = new Set(
  [
    'task.create',
    'task.cancel',
    'checkpoint.raise',
    'checkpoint.resolve',
    'checkpoint.decline',
    'artifact.commit',
    'review.submit',
    'review.comment',
    'ledger.write',
    'task.amend',
    'task.return',
    'artifact.edit',
    'artifact.upload',
  ]
    .map((name) => `collaboration/${name}`)
    .concat(
      ['run.progress', 'run.ask', 'run.fail', 'run.report', 'agent.delegate', 'agent.publish', 'capability.invoke'].map(
        (name) => `delegation/${name}`,
      ),
    )
    .concat(['request.create', 'request.resolve', 'request.decline', 'inbox.resolve', 'channel.add'].map((name) => `execution/${name}`)),
)

/** Where the client's own words stand in what its call leaves: they tell one call from another. */
export function markerIn(action: string, [first, second]: readonly SeenImage[]): number | null {
  const after = first?.after
  const message: Record<string, unknown> = {
    'collaboration/task.created': after?.spec?.goal,
    'collaboration/task.cancelled': after?.outcome_reason,
    'collaboration/task.checkpoint.raised': after?.prompt,
    'collaboration/task.checkpoint.resolved': after?.resolution?.comment,
    'collaboration/task.checkpoint.declined': after?.declined?.at(-1)?.reason,
    'collaboration/artifact.committed': after?.payload?.uri,
    'collaboration/review.submitted': after?.comments?.[0]?.body,
    'collaboration/review.commented': after?.body,
    'collaboration/ledger.written': after?.value,
    'collaboration/task.amended': after?.text,
    'collaboration/artifact.edited': after?.payload?.uri,
    'collaboration/artifact.uploaded': after?.name,
    'delegation/run.progress': after?.progress?.message,
    'delegation/run.asked': after?.asked?.message,
    'delegation/run.failed': after?.error,
    'delegation/run.reported': after?.payload?.prompt ?? after?.payload?.payload?.uri,
    'delegation/run.delegated': second?.after?.input?.note,
    'delegation/agent.registered': after?.description,
    // Arguments stand nowhere; how long it may take does.
    'delegation/capability.invoked': `~${after?.timeout_ms - 1_000}~`,
    'delegation/capability.denied': `~${after?.timeout_ms - 1_000}~`,
    'execution/request.created': after?.payload?.item ?? after?.payload?.question ?? after?.payload?.prompt ?? after?.payload?.claim,
    'execution/request.completed': after?.votes?.at(-1)?.reason ?? after?.receipt?.reason,
    'execution/request.voted': after?.votes?.at(-1)?.reason,
    'execution/request.declined': after?.votes?.at(-1)?.reason ?? after?.receipt?.reason,
    'execution/request.failed': after?.votes?.at(-1)?.reason,
    'execution/channel.added': after?.label,
    'identity/key.issued': after?.label,
    'identity/agent.updated': after?.description,
    'identity/user.updated': after?.name,
  }
  const found = /~(\d+)~/.exec(String(message[action]))
  return found ? Number(found[1]) : null
}

export const targetOf = ({ op, as, input }: Plan): string | null =>
  // A policy is that of a project, or of the person who sets it; a link that confirms begins with its channel.
  (op === 'execution/policy.set' ? (input.project_id ?? as) : null) ??
  input.token?.split('.')[0] ??
  input.request_id ??
  input.checkpoint_id ??
  input.task_id ??
  input.grant_id ??
  input.run_id ??
  input.key_id ??
  input.agent_id ??
  input.user_id ??
  input.subject ??
  input.channel_id ??
  input.substitute ??
  null

/** Facts that task.reassign has in common with the calls that it stands for say whom the task goes to. */
export const isReassign = (line: SeenFact['line']): boolean =>
  REASSIGNED.includes(line.action) && line.actor.startsWith('user_') && line.detail?.['to'] !== undefined
const REASSIGNED = ['task.assigned', 'ownership.transferred', 'task.checkpoint.resolved'].map((name) => `collaboration/${name}`)

export const REASSIGN = 'collaboration/task.reassign'
export const BATCH = 'execution/inbox.resolve'

export function leaves({ op }: Pick<Plan, 'op'>, action: string): boolean {
  const operation = operations.get(op)!
  if (operation.kind !== 'command') return false
  // An expiry with a stated default resolves.
  if (op === 'collaboration/checkpoint.expire' && action === 'collaboration/task.checkpoint.resolved') return true
  if (op === 'delegation/capability.invoke' && action === 'delegation/capability.denied') return true
  // A vote decides nothing yet, or that nothing can be decided.
  if (op === 'execution/request.resolve' && (action === 'execution/request.voted' || action === 'execution/request.failed')) return true
  if (op === 'execution/request.decline' && ['voted', 'failed', 'completed'].some((one) => action === `execution/request.${one}`))
    return true
  // Before it is worked on it is assigned; where it waits for an answer, this is the answer.
  if (op === REASSIGN) return REASSIGNED.includes(action)
  // Each answer of a batch counts as one by itself.
  if (op === BATCH) return leaves({ op: 'execution/request.resolve' }, action)
  // Handing off ends the run first.
  if (op === 'delegation/agent.handoff') return action === 'delegation/run.failed'
  // Giving back answers the interrupt; that the task was returned follows from it.
  if (op === 'collaboration/task.return') return action === 'collaboration/task.checkpoint.resolved'
  return action === `${op.slice(0, op.indexOf('/'))}/${operation.audit}`
}
