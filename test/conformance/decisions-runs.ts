// Decisions about what becomes of a task when its run ends (H18, H29), and that rights only narrow when they are passed down (H21).
import assert from 'node:assert/strict'
import { runOf, runsOf } from '../support/in-process/runs.ts'
import { stage } from '../support/in-process/stage.ts'
import { decisions } from './decisions-cited.ts'

const { must } = decisions

for (const [how, op, input, message] of [
  ['fails', 'run.fail', { error: 'the tests never ran' }, /^Devin is stuck: "the tests never ran"$/],
  ['ends with nothing to review', 'run.complete', {}, /^Devin ended its run without delivering anything to review$/],
] as const) {
  must('H18', `a run that ${how} asks the person, who may let it try again`, async () => {
    for (const scene of ['assigned', 'in_progress'] as const) {
      const on = await stage(scene)
      const failed = await runOf(on)
      await on.call('devin', `delegation/${op}`, { run_id: failed.id, ...input })
      const task = await on.task()
      const { checkpoint } = await on.call('alice', 'checkpoint.get', { checkpoint_id: task.pending_checkpoint })
      assert.deepEqual([task.state, checkpoint.kind, checkpoint.raised_by], ['blocked', 'escalation', 'agent_system'])
      assert.match(checkpoint.prompt, message)
      assert.equal(await runOf(on), undefined, 'nobody works on it')
      await on.call('alice', 'checkpoint.resolve', { checkpoint_id: checkpoint.id, action: 'approve', comment: 'Use npm test.' })
      const again = await runOf(on)
      assert.deepEqual([again.agent_id, again.continues, again.state], ['agent_devin', failed.id, 'running'])
      const { request } = await on.call('devin', 'delegation/run.get', { run_id: again.id })
      assert.equal(request.context.resolution.comment, 'Use npm test.')
    }
  })
}
must('H18', 'after a failure another agent may be given the task, or it ends', async () => {
  for (const [action, state, runs] of [
    ['reassign', 'in_progress', ['agent_devin failed', 'agent_robin running']],
    ['reject', 'completed', ['agent_devin failed']],
  ] as const) {
    const on = await stage('in_progress')
    await on.call('devin', 'delegation/run.fail', { run_id: (await runOf(on)).id, error: 'no' })
    const { pending_checkpoint } = await on.task()
    await on.call('alice', 'checkpoint.resolve', { checkpoint_id: pending_checkpoint, action, reassign_to: 'agent_robin' })
    assert.equal((await on.task()).state, state)
    assert.deepEqual(
      (await runsOf(on)).map((run) => `${run.agent_id} ${run.state}`),
      runs,
    )
  }
})
must('H18', 'a blocked run that gives up puts an escalation in the place of its question', async () => {
  const on = await stage('blocked')
  await on.call('devin', 'delegation/run.fail', { run_id: (await runOf(on)).id, error: 'out of memory' })
  const task = await on.task()
  const { checkpoint } = await on.call('alice', 'checkpoint.get', { checkpoint_id: task.pending_checkpoint })
  assert.deepEqual([checkpoint.kind, checkpoint.succeeds], ['escalation', on.refs['checkpoint'].id])
  assert.match(checkpoint.prompt, /out of memory/)
})
must('H18', 'a delegate that fails leaves the run above waiting; the retry hangs below it again', async () => {
  const on = await stage('delegable')
  const task_id = on.refs['task'].id
  const root = await runOf(on)
  await on.call('devin', 'ownership.delegate', { task_id, to: 'agent_robin' })
  await on.call('robin', 'delegation/run.fail', { run_id: (await runOf(on)).id, error: 'no' })
  assert.equal((await runOf(on)).id, root.id)
  const { pending_checkpoint } = await on.task()
  await on.call('alice', 'checkpoint.resolve', { checkpoint_id: pending_checkpoint, action: 'approve' })
  const again = await runOf(on)
  assert.deepEqual([again.agent_id, again.parent_run], ['agent_robin', root.id])
  await on.call('alice', 'task.cancel', { task_id })
  assert.equal(await runOf(on), undefined, 'cancelling ends both')
})
must('H29-run', 'a cancelled task ends its runs and those of its children in the same batch, and asks nobody', async () => {
  const on = await stage('delegable')
  const task_id = on.refs['task'].id
  const { child } = await on.call('devin', 'ownership.delegate', { task_id, to: 'agent_robin', spec: { goal: 'A part' } })
  const { batches } = on.world.store.stats()
  await on.call('alice', 'task.cancel', { task_id, reason: 'not needed' })
  assert.equal(on.world.store.stats().batches, batches + 1)
  for (const [id, why] of [
    [task_id, 'not needed'],
    [child.id, 'parent_cancelled'],
  ] as const) {
    const [run] = await runsOf(on, id)
    assert.deepEqual([run.state, run.reason, run.error], ['failed', 'cancelled', why])
    assert.deepEqual((await on.task(id)).checkpoints, [])
  }
})

const limited = async (constraints: object) => {
  const on = await stage()
  const { task } = await on.call('alice', 'task.create', { spec: { goal: 'Whole', constraints }, delegable: true })
  await on.call('alice', 'task.assign', { task_id: task.id, assignee: 'agent_devin' })
  const part = (more: object) => ({ task_id: task.id, to: 'agent_robin', spec: { goal: 'Part', constraints: more } })
  return { on, part }
}
must('H21-narrow', 'a child has the autonomy of its parent or may only read', async () => {
  const { on, part } = await limited({ autonomy: 'plan_then_implement' })
  for (const autonomy of ['autonomous', 'confirm_each_action'])
    await on.refused('INVALID_SPEC', 'devin', 'ownership.delegate', part({ autonomy }))
  for (const [given, got] of [
    [{}, 'plan_then_implement'],
    [{ autonomy: 'read_only' }, 'read_only'],
  ] as const)
    assert.equal((await on.call('devin', 'ownership.delegate', part(given))).child.spec.constraints.autonomy, got)
})
must('H21-narrow', 'a child allows no expiry policy that acts without a person unless its parent does', async () => {
  const { on, part } = await limited({ on_expiry: ['default'] })
  await on.refused('INVALID_SPEC', 'devin', 'ownership.delegate', part({ on_expiry: ['fail'] }))
  const { child } = await on.call('devin', 'ownership.delegate', part({ on_expiry: ['default', 'escalate'] }))
  assert.deepEqual(child.spec.constraints.on_expiry, ['default', 'escalate'])
})
