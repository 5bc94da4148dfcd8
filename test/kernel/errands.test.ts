// Errands of a call: the server completes them, in their own batches, before it answers the call.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '#kernel/limits.ts'
import { createWorld, type World } from '../support/in-process/world.ts'

/** A task at work with an agent, and the id of its run. */
async function atWork(world: World): Promise<{ task_id: string; run_id: string }> {
  const { task } = await world.call('alice', 'collaboration/task.create', { spec: { goal: 'Fix it' } })
  await world.call('alice', 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_devin' })
  const { items } = await world.call('alice', 'delegation/run.list', { task_id: task.id })
  return { task_id: task.id, run_id: items[0].id }
}
const off = { agent_id: 'agent_devin', disabled: true }
const failedIn = async (world: World): Promise<number> =>
  (await world.call('admin', 'delegation/run.list', { agent_id: 'agent_devin', state: 'failed', limit: 200 })).items.length

test('the runs of an agent have failed, and the people are asked, when the call that switched it off is answered', async () => {
  const world = await createWorld({ doesErrands: true })
  const { task_id, run_id } = await atWork(world)
  await world.call('alice', 'identity/agent.update', off)
  const { run } = await world.call('alice', 'delegation/run.get', { run_id })
  assert.deepEqual([run.state, run.reason], ['failed', 'agent_unavailable'])
  assert.equal((await world.call('alice', 'collaboration/task.get', { task_id })).task.state, 'blocked')
  await world.close()
})

test('the question of a person who leaves is with the next one when the call that took them out is answered', async () => {
  const world = await createWorld({ doesErrands: true })
  const { request } = await world.call('devin', 'execution/request.create', { action: 'APPROVE', payload: { item: 'Deploy' } })
  assert.equal(request.assigned_to, 'user_alice')
  await world.call('admin', 'identity/user.update', { user_id: 'user_alice', disabled: true })
  const { request: moved } = await world.call('devin', 'execution/request.get', { request_id: request.id })
  assert.notEqual(moved.assigned_to, 'user_alice')
  await world.close()
})

test('beyond a bound the rest is left to the worker, and without a worker nothing is left', async () => {
  const world = await createWorld({ doesErrands: true })
  const count = limits.errandsAtOnceMax + 5
  for (let i = 0; i < count; i++) await atWork(world)
  await world.call('alice', 'identity/agent.update', off)
  const failed = await failedIn(world)
  assert.ok(failed > 0 && failed < count, `${failed} of ${count}`)
  const plain = await createWorld()
  await atWork(plain)
  await plain.call('alice', 'identity/agent.update', off)
  assert.equal(await failedIn(plain), 0)
  await Promise.all([world.close(), plain.close()])
})
