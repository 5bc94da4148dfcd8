// A task's revision: raised by one in each command that changes the task, and compared before anything happens.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { draftAt, record } from '#kernel/call/unit-of-work.ts'
import type { Made } from '#kernel/declare/operation.ts'
import { collaboration } from '#protocols/collaboration/index.ts'
import { Task } from '#protocols/collaboration/schema.ts'
import { operationsOf } from '../../support/in-process/world.ts'
import { stage } from '../../support/in-process/stage.ts'

const inline = { type: 'patch', payload: { kind: 'inline', uri: 'data:text/plain,hello' } }

test('a command raises the revision once, however many facts follow from it', async () => {
  const on = await stage()
  const { task } = await on.call('alice', 'task.create', { spec: { goal: 'g' }, reviewers: ['user_rita'] })
  assert.equal(task.revision, 0)
  on.refs['task'] = task
  const own = { task_id: task.id }
  const steps: [string, string, object, number][] = [
    ['alice', 'task.assign', { assignee: 'agent_devin' }, 1],
    ['devin', 'task.start', {}, 2],
    ['alice', 'task.amend', { text: 'Only this.', intent: 'constrain' }, 3],
    ['alice', 'task.interrupt', { reason: 'Wait.' }, 4],
  ]
  for (const [as, op, input, revision] of steps) {
    const answer = await on.call(as, op, { ...own, ...input, expected_task_revision: revision - 1 })
    assert.equal(answer.task.revision, revision, `the answer of ${op}`)
    assert.equal((await on.task()).revision, revision, op)
  }
  const { pending_checkpoint: checkpoint_id } = await on.task()
  await on.refused('CONFLICT', 'alice', 'checkpoint.resolve', { checkpoint_id, action: 'approve', expected_task_revision: 3 })
  await on.call('alice', 'checkpoint.resolve', { checkpoint_id, action: 'approve', expected_task_revision: 4 })
  await on.call('alice', 'reviewer.add', { ...own, user: 'user_bob', expected_task_revision: 5 })
  const { artifact } = await on.call('devin', 'artifact.commit', { ...own, ...inline, expected_task_revision: 6 })
  await on.call('rita', 'review.comment', { ...own, artifact_id: artifact.id, severity: 'nit', body: 'Hm.' })
  assert.equal((await on.task()).revision, 7, 'a remark changes no task')
  const done = await on.call('rita', 'review.submit', { ...own, artifact_id: artifact.id, verdict: 'approved', expected_task_revision: 7 })
  assert.deepEqual([done.task.state, done.task.revision], ['completed', 8], 'accepted and completed are one command')
})

test('a caller with another revision, older or newer, is refused before anything happens', async () => {
  const on = await stage('in_progress')
  const { id: task_id, revision } = await on.task()
  for (const expected_task_revision of [revision - 1, revision + 1])
    await on.refused('CONFLICT', 'alice', 'task.cancel', { task_id, expected_task_revision })
  for (const expected_task_revision of [-1, 1.5, '2', null])
    await on.refused('INVALID_REQUEST', 'alice', 'task.cancel', { task_id, expected_task_revision })
})

test('a repetition with the same key is answered, although the revision has moved', async () => {
  const on = await stage('in_progress')
  const { id: task_id, revision } = await on.task()
  const input = { task_id, text: 'Only this.', intent: 'constrain', expected_task_revision: revision }
  const first = await on.call('alice', 'task.amend', input, 'k')
  assert.deepEqual(await on.call('alice', 'task.amend', input, 'k'), first)
  assert.deepEqual(await on.call('alice', 'task.amend', { ...input, expected_task_revision: revision + 1 }, 'k'), first)
  assert.equal((await on.task()).revision, revision + 1)
})

test('a task of an earlier version, which has no revision, counts from 0', async () => {
  const on = await stage('in_progress')
  const { revision: _, ...stored } = await on.task()
  const draft = draftAt('2026-01-01T00:00:00.000Z')
  draft.before.set(`collaboration.task/${stored.id}`, stored)
  const facts = ['task.overdue', 'task.amended'].map((action) => factOf(action, stored))
  record(draft, () => 'aud_1', 'collaboration', { facts, output: {} }, on.world.cast['alice']!, { kind: 'role', id: 'x' }, null)
  assert.equal(draft.after.get(`collaboration.task/${stored.id}`)?.['revision'], 1, 'two facts of one batch')
})
const factOf = (action: string, after: any): Made => ({
  id: null,
  action,
  subject: { doc: Task, id: after.id },
  images: [{ doc: Task, id: after.id, after }],
  detail: null,
  basis: null,
  behalf: null,
  cause: null,
  bySystem: false,
})

test('commands of people and agents on a task take the expected revision', () => {
  const unaffected = [
    'task.create',
    'review.comment',
    'artifact.reference',
    'ledger.write',
    'artifact.upload',
    'grant.add',
    'grant.revoke',
    'grant.use',
    'checkpoint.settle',
  ]
  for (const { op } of operationsOf([collaboration])) {
    if (op.kind !== 'command') continue
    const isForSystem = op.callers.every(({ name }) => name === 'system')
    assert.ok(isForSystem || unaffected.includes(op.name) || 'expected_task_revision' in op.input.properties, op.name)
  }
})
