// The draft's reference flow as a list of calls (HACP 0.1.0, Reference Flow).

/** Values that earlier answers of the flow have brought, and a name that no other flow has. */
export type FlowRefs = { readonly tag: string; task?: any; checkpoint?: any; artifact?: any }
export type FlowStep = { readonly as: 'alice' | 'devin'; readonly operation: string; input(refs: FlowRefs): object }

const step = (as: FlowStep['as'], name: string, input: FlowStep['input']): FlowStep => ({ as, operation: `collaboration/${name}`, input })
const payload = (tag: string, version: string) => ({ kind: 'inline', uri: `data:text/plain,${tag}-${version}` })

export const flowSteps: readonly FlowStep[] = [
  step('alice', 'task.create', ({ tag }) => ({
    type: tag,
    spec: { goal: `Fix the login bug (${tag})`, acceptance_criteria: ['tests pass'] },
  })),
  step('alice', 'task.assign', ({ task }) => ({ task_id: task.id, assignee: 'agent_devin' })),
  step('devin', 'task.start', ({ task }) => ({ task_id: task.id })),
  step('devin', 'checkpoint.raise', ({ task }) => ({ task_id: task.id, kind: 'approval', prompt: 'Deploy to production?' })),
  step('alice', 'checkpoint.resolve', ({ checkpoint }) => ({ checkpoint_id: checkpoint.id, action: 'approve', comment: 'after lunch' })),
  step('devin', 'artifact.commit', ({ task, tag }) => ({ task_id: task.id, type: 'patch', payload: payload(tag, 'v1') })),
  step('alice', 'review.submit', ({ task, artifact }) => ({
    task_id: task.id,
    artifact_id: artifact.id,
    verdict: 'changes_requested',
    requested_changes: ['handle the empty password'],
  })),
  step('devin', 'artifact.commit', ({ task, artifact, tag }) => ({
    task_id: task.id,
    artifact_id: artifact.id,
    parent_version: 'v1',
    payload: payload(tag, 'v2'),
  })),
  step('alice', 'review.submit', ({ task, artifact }) => ({ task_id: task.id, artifact_id: artifact.id, verdict: 'approved' })),
  step('devin', 'ledger.write', ({ task, tag }) => ({ task_id: task.id, key: `release/${tag}`, value: { done: true, tag } })),
  step('alice', 'audit.replay', ({ task }) => ({ task_id: task.id })),
]

/** Keeps what later steps need. */
export function remember(refs: FlowRefs, { task, checkpoint, artifact }: any): void {
  if (task) refs.task = task
  if (checkpoint) refs.checkpoint = checkpoint
  if (artifact) refs.artifact = artifact
}
