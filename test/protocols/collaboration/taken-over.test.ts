// A task that a person took over names the checkpoint by which they did: lists tell it from one that waits for an answer.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createWorld } from '../../support/in-process/world.ts'

test('a task is taken over as long as that checkpoint is the pending one', async () => {
  const world = await createWorld()
  const { task } = await world.call('alice', 'collaboration/task.create', { spec: { goal: 'Fix it' } })
  await world.call('alice', 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_devin' })
  await world.call('devin', 'collaboration/task.start', { task_id: task.id })
  const taken = await world.call('alice', 'collaboration/task.takeover', { task_id: task.id })
  assert.equal(taken.task.taken_over, taken.checkpoint.id)
  const back = await world.call('alice', 'collaboration/task.return', { task_id: task.id })
  assert.notEqual(back.task.pending_checkpoint, back.task.taken_over)
  const stopped = await world.call('alice', 'collaboration/task.interrupt', { task_id: task.id })
  assert.notEqual(stopped.task.pending_checkpoint, stopped.task.taken_over)
  await world.close()
})
