// Decisions about what is delivered and reviewed, by whom, and who may read what a task starts from: H30, H39, H40, H41.
import assert from 'node:assert/strict'
import { stage, type Stage } from '../support/in-process/stage.ts'
import { decisions } from './decisions-cited.ts'

const { must } = decisions
const payload = { kind: 'inline', uri: 'data:,x' }

/** A task in progress that the agent commits to. */
async function working(constraints: object = {}): Promise<{ on: Stage; task_id: string; commit(more?: object): Promise<any> }> {
  const on = await stage()
  const { task } = await on.call('alice', 'task.create', { spec: { goal: 'Fix it', constraints } })
  const task_id = task.id
  await on.call('alice', 'task.assign', { task_id, assignee: 'agent_devin' })
  await on.call('devin', 'task.start', { task_id })
  return { on, task_id, commit: async (more = {}) => (await on.call('devin', 'artifact.commit', { task_id, payload, ...more })).artifact }
}
const verdicts = ['approved', 'changes_requested', 'rejected'].map((verdict) => ({ verdict, requested_changes: ['more'] }))

must('H39', 'a verdict on a side artifact is a conflict, a comment on it is not', async () => {
  const { on, task_id, commit } = await working()
  const notes = await commit({ final: false })
  const delivered = await commit()
  assert.deepEqual((await on.task(task_id)).delivered, { artifact_id: delivered.id, version: 'v1' })
  for (const verdict of verdicts) await on.refused('CONFLICT', 'alice', 'review.submit', { task_id, artifact_id: notes.id, ...verdict })
  await on.call('alice', 'review.comment', { task_id, artifact_id: notes.id, severity: 'nit', body: 'Hm.' })
  const done = await on.call('alice', 'review.submit', { task_id, artifact_id: delivered.id, verdict: 'approved' })
  assert.equal(done.task.state, 'completed')
})
must('H39', 'nor is the old plan reviewed again when something was delivered', async () => {
  const { on, task_id, commit } = await working({ autonomy: 'plan_then_implement' })
  const plan = await commit({ kind: 'plan' })
  await on.call('alice', 'review.submit', { task_id, artifact_id: plan.id, verdict: 'approved' })
  const { id } = await commit()
  await on.refused('CONFLICT', 'alice', 'review.submit', { task_id, artifact_id: plan.id, verdict: 'approved' })
  assert.equal((await on.task(task_id)).state, 'review_ready')
  await on.call('alice', 'review.submit', { task_id, artifact_id: id, verdict: 'approved' })
})
must('H39', 'what was delivered and sent back is not reviewed in the place of its next delivery', async () => {
  const { on, task_id, commit } = await working()
  const first = await commit()
  await on.call('alice', 'review.submit', { task_id, artifact_id: first.id, verdict: 'changes_requested', requested_changes: ['more'] })
  const second = await commit()
  await on.refused('CONFLICT', 'alice', 'review.submit', { task_id, artifact_id: first.id, verdict: 'approved' })
  await on.call('alice', 'review.submit', { task_id, artifact_id: second.id, verdict: 'approved' })
})

const bytes = { checksum: 'sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824', size: 5 }
must('H41-upload', 'a blocked agent sends no bytes, its principal does', async () => {
  const on = await stage('blocked')
  const input = { task_id: on.refs['task'].id, ...bytes }
  await on.refused('PRECONDITION_FAILED', 'devin', 'artifact.upload', input)
  await on.call('alice', 'artifact.upload', input)
})
must('H41-upload', 'nor does one that may only read', async () => {
  const { on, task_id } = await working({ autonomy: 'read_only' })
  await on.refused('PRECONDITION_FAILED', 'devin', 'artifact.upload', { task_id, ...bytes })
})
