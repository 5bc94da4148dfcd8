// Decisions about versions and about agents that may change nothing: H23, H41, H43, H44.
import assert from 'node:assert/strict'
import { stage, type Stage } from '../support/in-process/stage.ts'
import { decisions } from './decisions-cited.ts'

const { must } = decisions
const payload = { kind: 'inline', uri: 'data:,x' }

must('H23-version', 'in review, blocked and after the end as well', async () => {
  for (const scene of ['review_ready', 'blocked_with_artifact', 'completed']) {
    const on = await stage(scene)
    const artifact_id = on.refs['artifact'].id
    const again = { task_id: on.refs['task'].id, artifact_id, version: 'v1', parent_version: 'v1', payload }
    await on.refused('IMMUTABLE_VIOLATION', 'devin', 'artifact.commit', again)
  }
})

const writing = (on: Stage): object => ({ task_id: on.refs['task'].id, key: 'k', value: 1 })
const referring = (on: Stage): object => ({ task_id: on.refs['task'].id, artifact_id: on.refs['artifact'].id, version: 'v1' })

must('H41-writes', 'a blocked agent writes no ledger and refers to nothing; its principal does', async () => {
  const on = await stage('blocked_with_artifact')
  await on.refused('PRECONDITION_FAILED', 'devin', 'ledger.write', writing(on))
  await on.refused('PRECONDITION_FAILED', 'devin', 'artifact.reference', referring(on))
  await on.call('alice', 'ledger.write', writing(on))
  await on.call('alice', 'artifact.reference', referring(on))
})
must('H41-writes', 'nor does one that may only read', async () => {
  const on = await stage()
  const spec = { goal: 'Look', constraints: { autonomy: 'read_only' } }
  on.refs['task'] = (await on.call('alice', 'task.create', { spec })).task
  const task_id = on.refs['task'].id
  await on.call('alice', 'task.assign', { task_id, assignee: 'agent_devin' })
  await on.call('devin', 'task.start', { task_id })
  await on.refused('PRECONDITION_FAILED', 'devin', 'ledger.write', writing(on))
})

must('H43', 'the next version of a plan is a plan until one is approved, and a deliverable from then on', async () => {
  const on = await stage()
  const spec = { goal: 'Fix it', constraints: { autonomy: 'plan_then_implement' } }
  const { task } = await on.call('alice', 'task.create', { spec })
  const task_id = task.id
  await on.call('alice', 'task.assign', { task_id, assignee: 'agent_devin' })
  await on.call('devin', 'task.start', { task_id })
  const { artifact } = await on.call('devin', 'artifact.commit', { task_id, payload, kind: 'plan' })
  const artifact_id = artifact.id
  const next = async (parent_version: string): Promise<any> =>
    (await on.call('devin', 'artifact.commit', { task_id, artifact_id, parent_version, payload })).artifact.kind
  const said = (verdict: string): Promise<any> =>
    on.call('alice', 'review.submit', { task_id, artifact_id, verdict, requested_changes: ['more'] })
  await said('changes_requested')
  assert.equal(await next('v1'), 'plan')
  await said('approved')
  assert.equal(await next('v2'), 'deliverable')
  assert.equal((await said('approved')).task.state, 'completed')
})

must('H44-edited', 'an older version is refused', async () => {
  const on = await stage('blocked_with_artifact')
  const { task, artifact } = on.refs
  await on.call('alice', 'artifact.edit', { task_id: task.id, artifact_id: artifact.id, parent_version: 'v1', payload })
  const checkpoint_id = (await on.task()).pending_checkpoint
  const answer = (version: string): object => ({
    checkpoint_id,
    action: 'approve',
    edited_artifact_ref: { artifact_id: artifact.id, version },
  })
  await on.refused('CONFLICT', 'alice', 'checkpoint.resolve', answer('v1'))
  await on.call('alice', 'checkpoint.resolve', answer('v2'))
})
