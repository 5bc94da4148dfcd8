// Handing a task to another agent: one call from every state in which it can be worked on, and the former agent loses its rights.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Step } from '#kernel/declare/operation.ts'
import { collaboration } from '#protocols/collaboration/index.ts'
import { assertMirrored, itemsOf } from '../../support/in-process/items.ts'
import { stage, type Stage } from '../../support/in-process/stage.ts'

const scene = (name: string): readonly Step[] => collaboration.scenes[name]!
const after = (as: string, call: string, input: object): Step[] => [
  ...scene('in_progress'),
  { as, call, input: ({ task }) => ({ task_id: task.id, ...input }) },
]
const asking: Step = {
  as: 'devin',
  call: 'execution/request.create',
  input: ({ task }) => ({ action: 'APPROVE', payload: { item: 'Deploy', details: {} }, metadata: { task_id: task.id } }),
}

const rows: [string, readonly Step[], string][] = [
  ['created', scene('created'), 'assigned'],
  ['assigned', scene('assigned'), 'assigned'],
  ['in progress', scene('in_progress'), 'in_progress'],
  ['blocked by a question', after('devin', 'collaboration/checkpoint.raise', { kind: 'input', prompt: 'Which?' }), 'in_progress'],
  ['blocked by a request', [...scene('in_progress'), asking], 'in_progress'],
  ['stopped by its person', after('alice', 'collaboration/task.interrupt', {}), 'in_progress'],
  ['taken over', scene('taken_over'), 'in_progress'],
  ['stuck', after('system', 'collaboration/checkpoint.escalate', { prompt: 'Devin is stuck' }), 'in_progress'],
]
const runsOf = async (on: Stage): Promise<string[]> => {
  const { items } = await on.call('admin', 'delegation/run.list', { task_id: on.refs['task'].id })
  return items.map(({ agent_id, state }: any) => `${agent_id} ${state}`).toSorted()
}

describe('a task that is', () => {
  for (const [name, steps, state] of rows)
    test(`${name} goes to another agent, and the question that it waited for ends`, async () => {
      const on = await stage(steps)
      const { task } = await on.call('alice', 'task.reassign', { task_id: on.refs['task'].id, assignee: 'agent_robin' })
      assert.deepEqual(
        [task.state, task.executor, task.ownership.assignee, task.pending_checkpoint],
        [state, 'agent_robin', 'agent_robin', null],
      )
      const runs = await runsOf(on)
      assert.ok(
        runs.includes('agent_robin running') && !runs.includes('agent_devin running') && !runs.includes('agent_devin blocked'),
        runs.join(),
      )
      for (const item of await itemsOf(on)) assert.deepEqual([item.status, item.receipt.reason], ['cancelled', 'reassigned'])
      const late = { task_id: task.id, kind: 'input', prompt: 'Still me?' }
      if (state !== 'assigned') await on.refused('UNAUTHORIZED', 'devin', 'checkpoint.raise', late)
      await assertMirrored(on.world)
    })
})

test('the actions that the present agent proposed are denied on the record', async () => {
  const proposed_actions = ['drop', 'migrate'].map((id) => ({ id, kind: 'db', summary: id, risk: 'high' }))
  const question = { kind: 'approval', prompt: 'Run these?', proposed_actions }
  const on = await stage(after('devin', 'collaboration/checkpoint.raise', question))
  const { id: task_id, pending_checkpoint: checkpoint_id } = (await on.call('alice', 'task.get', { task_id: on.refs['task'].id })).task
  await on.call('alice', 'task.reassign', { task_id, assignee: 'agent_robin' })
  const { checkpoint } = await on.call('alice', 'checkpoint.get', { checkpoint_id })
  const { action, approved_actions, denied_actions } = checkpoint.resolution
  assert.deepEqual([action, approved_actions, denied_actions], ['reassign', [], ['drop', 'migrate']])
})

test('bad input is refused and changes nothing', async () => {
  const on = await stage('in_progress')
  const { id: task_id } = on.refs['task']
  await on.refused('PRECONDITION_FAILED', 'alice', 'task.reassign', { task_id, assignee: 'agent_devin' })
  await on.refused('NOT_FOUND', 'alice', 'task.reassign', { task_id, assignee: 'agent_nemo' })
  await on.refused('INVALID_SPEC', 'alice', 'task.reassign', { task_id, assignee: 'user_rita' })
  await on.refused('UNAUTHORIZED', 'devin', 'task.reassign', { task_id, assignee: 'agent_robin' })
  const ready = await stage('review_ready')
  const refusal = await ready.refused('PRECONDITION_FAILED', 'alice', 'task.reassign', {
    task_id: ready.refs['task'].id,
    assignee: 'agent_robin',
  })
  assert.match(refusal.message, /only a task that is created, assigned, in progress or blocked/)
})
