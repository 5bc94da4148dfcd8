// HACP 0.1.0, Inter-layer Contracts: what each event of a task does to its run.
import assert from 'node:assert/strict'
import { linesOf, stage } from '../support/in-process/stage.ts'
import { runOf, runsOf } from '../support/in-process/runs.ts'
import { hacp } from './hacp-cited.ts'

const { must } = hacp

must('H-LAY-01', 'who is assigned a task has a run under its id, in the same batch, caused by the assignment', async () => {
  const on = await stage('created')
  const { batches } = on.world.store.stats()
  await on.call('alice', 'task.assign', { task_id: on.refs['task'].id, assignee: 'agent_devin' })
  assert.equal(on.world.store.stats().batches, batches + 1)
  const [run] = await runsOf(on)
  assert.deepEqual([run.agent_id, run.correlation_id, run.state, run.parent_run], ['agent_devin', on.refs['task'].id, 'running', null])
  const [assigned, delegated] = (await linesOf(on.world)).slice(-2)
  assert.deepEqual(
    [delegated.action, delegated.cause, delegated.behalf, delegated.basis.kind],
    ['delegation/run.delegated', assigned.seq, 'user_alice', 'contract'],
  )
})
must('H-LAY-02', 'a question blocks the run, which names it, in the same batch', async () => {
  const on = await stage('in_progress')
  const { batches } = on.world.store.stats()
  const { checkpoint } = await on.call('devin', 'checkpoint.raise', { task_id: on.refs['task'].id, kind: 'approval', prompt: 'Go?' })
  assert.equal(on.world.store.stats().batches, batches + 1)
  const run = await runOf(on)
  assert.deepEqual([run.state, run.checkpoint_id, run.reason], ['blocked', checkpoint.id, 'approval'])
})
must('H-LAY-03', 'the whole resolution reaches the run', async () => {
  const on = await stage('in_progress')
  const task_id = on.refs['task'].id
  await on.call('devin', 'delegation/mailbox.take', { worker: 'w' })
  const { checkpoint } = await on.call('devin', 'checkpoint.raise', {
    task_id,
    kind: 'choice',
    prompt: 'Which?',
    options: [{ id: 'a', label: 'A', risk: 'low' }],
    state: { step: 1 },
  })
  const answer = { action: 'choose', choice: 'a', comment: 'This one.', state_patch: { step: 2 } }
  const resolved = await on.call('rita', 'checkpoint.resolve', { checkpoint_id: checkpoint.id, ...answer })
  assert.equal((await runOf(on)).state, 'running')
  const [{ messages }] = (await on.call('devin', 'delegation/mailbox.take', { worker: 'w' })).items
  assert.deepEqual(
    messages.map(({ kind, body }: any) => [kind, body]),
    [['resume', { checkpoint_id: checkpoint.id, resolution: resolved.checkpoint.resolution }]],
  )
  assert.deepEqual(messages[0].body.resolution.state, { step: 2 })
})
must('H-LAY-04', 'the run of who delegates stays active above the delegate’s, under one correlation id', async () => {
  const on = await stage('delegable')
  const [above] = await runsOf(on)
  await on.call('devin', 'ownership.delegate', { task_id: on.refs['task'].id, to: 'agent_robin' })
  const runs = await runsOf(on)
  assert.deepEqual(
    runs.map(({ agent_id, state, parent_run, correlation_id }) => [agent_id, state, parent_run, correlation_id]),
    [
      ['agent_devin', 'running', null, on.refs['task'].id],
      ['agent_robin', 'running', above.id, on.refs['task'].id],
    ],
  )
  assert.deepEqual(runs[1].chain, [{ run_id: above.id, agent_id: 'agent_devin', correlation_id: on.refs['task'].id }])
})
must('H-LAY-05', 'a transfer hands the run off under the same correlation id; the old run stays readable', async () => {
  const on = await stage('in_progress')
  await on.call('admin', 'ownership.transfer', { task_id: on.refs['task'].id, to: 'agent_robin' })
  const [old, next] = await runsOf(on)
  assert.deepEqual([old.agent_id, old.state, old.reason], ['agent_devin', 'failed', 'handed_off'])
  assert.deepEqual([next.agent_id, next.state, next.continues, next.correlation_id], ['agent_robin', 'running', old.id, old.correlation_id])
  assert.deepEqual((await on.call('devin', 'delegation/run.get', { run_id: old.id })).run, old)
})
must('H-CONF-01', 'through the whole reference flow the run follows the task, and no run is left when it ends', async () => {
  const on = await stage('created')
  const task_id = on.refs['task'].id
  const seen: string[] = []
  const note = async (): Promise<void> => {
    const runs = await runsOf(on)
    seen.push(`${(await on.task()).state}: ${runs.map(({ state }) => state).join(', ')}`)
  }
  const inline = { payload: { kind: 'inline', uri: 'data:,x' } }
  await note()
  await on.call('alice', 'task.assign', { task_id, assignee: 'agent_devin' })
  await note()
  await on.call('devin', 'task.start', { task_id })
  const { checkpoint } = await on.call('devin', 'checkpoint.raise', { task_id, kind: 'approval', prompt: 'Go?' })
  await note()
  await on.call('alice', 'checkpoint.resolve', { checkpoint_id: checkpoint.id, action: 'approve' })
  await note()
  const { artifact } = await on.call('devin', 'artifact.commit', { task_id, ...inline })
  await note()
  const review = { task_id, artifact_id: artifact.id }
  await on.call('alice', 'review.submit', { ...review, verdict: 'changes_requested', requested_changes: ['more'] })
  await note()
  await on.call('devin', 'artifact.commit', { ...review, parent_version: 'v1', ...inline })
  await on.call('alice', 'review.submit', { ...review, verdict: 'approved' })
  await note()
  assert.deepEqual(seen, [
    'created: ',
    'assigned: running',
    'blocked: blocked',
    'in_progress: running',
    'review_ready: completed',
    'in_progress: completed, running',
    'completed: completed, completed',
  ])
})
