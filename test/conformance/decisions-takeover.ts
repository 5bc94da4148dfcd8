// Decisions about a person who takes the work into their own hands (H40).
import assert from 'node:assert/strict'
import { itemOf } from '#protocols/execution/mirrored.ts'
import { runOf, runsOf, take } from '../support/runs.ts'
import { assertMirrored } from '../support/items.ts'
import { linesOf, stage, type Stage } from '../support/stage.ts'
import { decisions } from './decisions-cited.ts'

const { must } = decisions
const inline = (text = 'x') => ({ payload: { kind: 'inline', uri: `data:,${text}` } })

/** Devin works, and Alice has taken the task over. */
async function takenOver(scene = 'in_progress'): Promise<Stage & { task_id: string }> {
  const on = await stage(scene)
  const task_id: string = on.refs['task'].id
  await on.call('alice', 'task.takeover', { task_id })
  return { ...on, task_id }
}

must('H40-deliver', 'the person delivers without an earlier artifact: interrupt, task and run end their wait in one batch', async () => {
  const on = await takenOver()
  const { task_id, call, world } = on
  const before = (await linesOf(world)).length
  const { artifact, task } = await call('alice', 'artifact.edit', { task_id, ...inline(), final: true })
  const made = (await linesOf(world)).slice(before)
  assert.deepEqual(
    made.map(({ action }) => action),
    [
      'collaboration/artifact.edited',
      'collaboration/task.checkpoint.resolved',
      'execution/request.created',
      'delegation/run.completed',
      'execution/request.cancelled',
    ],
  )
  assert.equal(new Set(made.map(({ at }) => at)).size, 1)
  assert.deepEqual(
    [task.state, task.ownership.assignee, task.executor, task.pending_checkpoint, task.artifacts],
    ['review_ready', 'user_alice', 'agent_devin', null, [artifact.id]],
  )
  assert.deepEqual([artifact.version, artifact.kind, artifact.provenance.actor], ['v1', 'deliverable', 'user_alice'])
  const delivered = { artifact_id: artifact.id, version: 'v1' }
  assert.deepEqual(task.delivered, delivered)
  const { checkpoint } = await call('alice', 'checkpoint.get', { checkpoint_id: task.checkpoints.at(-1) })
  assert.deepEqual(
    [checkpoint.state, checkpoint.resolution.by, checkpoint.resolution.edited_artifact_ref],
    ['resolved', 'user_alice', delivered],
  )
  const run = (await runsOf(on)).at(-1)
  assert.deepEqual([run.state, run.result, run.reason, run.checkpoint_id], ['completed', delivered, null, null])
  await assertMirrored(world)
  await call('rita', 'review.submit', { task_id, artifact_id: artifact.id, verdict: 'approved' })
  assert.equal((await on.task()).outcome, 'accepted')
})

must('H40-deliver', 'the agent that waits is told to stop, and what is to be changed goes to it in a new run', async () => {
  const on = await stage('in_progress')
  const task_id = on.refs['task'].id
  await take(on, 'devin')
  await on.call('alice', 'task.takeover', { task_id })
  const { artifact } = await on.call('alice', 'artifact.edit', { task_id, ...inline(), final: true })
  const [item] = await take(on, 'devin')
  assert.deepEqual(
    item.messages.map(({ kind, body }: any) => [kind, body.reason]),
    [['cancel', 'delivered']],
  )
  await on.call('alice', 'review.submit', { task_id, artifact_id: artifact.id, verdict: 'changes_requested', requested_changes: ['y'] })
  const run = await runOf(on)
  assert.deepEqual([(await on.task()).state, run.agent_id, run.state], ['in_progress', 'agent_devin', 'running'])
})

must('H40-deliver', 'it continues an artifact of the agent; a version that is not the newest is refused', async () => {
  const on = await stage('in_progress')
  const task_id = on.refs['task'].id
  const { artifact } = await on.call('devin', 'artifact.commit', { task_id, ...inline(), final: false })
  await on.call('alice', 'task.takeover', { task_id })
  const next = { task_id, artifact_id: artifact.id, ...inline('y'), final: true }
  await on.refused('INVALID_SPEC', 'alice', 'artifact.edit', next)
  await on.refused('NOT_FOUND', 'alice', 'artifact.edit', { ...next, parent_version: 'v2' })
  await on.call('alice', 'artifact.edit', { ...next, parent_version: 'v1', final: false })
  await on.refused('CONFLICT', 'alice', 'artifact.edit', { ...next, parent_version: 'v1' })
  const done = await on.call('alice', 'artifact.edit', { ...next, parent_version: 'v2' })
  assert.deepEqual([done.artifact.version, done.task.state, done.task.artifacts], ['v3', 'review_ready', [artifact.id]])
})

must('H40-deliver', 'nobody else delivers, and nothing is delivered that was not taken over', async () => {
  const on = await takenOver()
  const final = { task_id: on.task_id, ...inline(), final: true }
  for (const as of ['devin', 'rita', 'owner', 'admin', 'system']) await on.refused('UNAUTHORIZED', as, 'artifact.edit', final)
  await on.refused('NOT_FOUND', 'bob', 'artifact.edit', final)
  assert.equal((await on.call('deputy', 'artifact.edit', final)).task.state, 'review_ready')
  for (const scene of ['blocked', 'in_progress', 'assigned', 'review_ready', 'completed']) {
    const other = await stage(scene)
    const task_id = other.refs['task'].id
    await other.refused('PRECONDITION_FAILED', 'alice', 'artifact.edit', { task_id, ...inline(), final: true })
  }
  const interrupted = await stage('in_progress')
  const task_id = interrupted.refs['task'].id
  await interrupted.call('alice', 'task.interrupt', { task_id })
  await interrupted.refused('PRECONDITION_FAILED', 'alice', 'artifact.edit', { task_id, ...inline(), final: true })
})

must('H40-deliver', 'the work stays theirs when the run fails meanwhile: they deliver all the same, and nothing is approved', async () => {
  const on = await takenOver()
  await on.call('devin', 'delegation/run.fail', { run_id: (await runOf(on)).id, error: 'The disk is full.' })
  const { pending_checkpoint } = await on.task()
  const { task } = await on.call('alice', 'artifact.edit', { task_id: on.task_id, ...inline(), final: true })
  assert.equal(task.state, 'review_ready')
  const { receipt } = await on.call('alice', 'execution/request.get', { request_id: itemOf(pending_checkpoint) })
  assert.deepEqual([receipt.status, receipt.reason, receipt.result], ['cancelled', 'delivered', null])
})

must('H40-work', 'meanwhile they refer to artifacts, write the ledger and keep versions; a commit stays refused', async () => {
  const on = await takenOver()
  const { task_id, call, refused } = on
  const { artifact, task } = await call('alice', 'artifact.edit', { task_id, ...inline() })
  assert.deepEqual([task.state, task.artifacts], ['blocked', [artifact.id]])
  await call('alice', 'artifact.reference', { task_id, artifact_id: artifact.id, version: 'v1', as: 'output' })
  await call('alice', 'ledger.write', { task_id, key: 'k', value: 1 })
  for (const as of ['alice', 'devin'])
    await refused(as === 'devin' ? 'PRECONDITION_FAILED' : 'UNAUTHORIZED', as, 'artifact.commit', { task_id, ...inline() })
})
must('H40-work', 'a person to whom a task in progress is transferred commits as any executor', async () => {
  const on = await stage('in_progress')
  const task_id = on.refs['task'].id
  await on.call('admin', 'ownership.transfer', { task_id, to: 'user_bob' })
  assert.equal((await on.task()).state, 'in_progress')
  assert.equal((await on.call('bob', 'artifact.commit', { task_id, ...inline() })).task.state, 'review_ready')
})
