// Grants that answer a request: nobody is asked, the task continues, and the record names the grant.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { execution } from '#protocols/execution/index.ts'
import { linesOf, stage, type Stage } from '../../../support/in-process/stage.ts'
import { assertMirrored, itemsOf } from '../../../support/in-process/items.ts'

const working = execution.scenes['task_in_progress']!
async function granted(grant: object): Promise<Stage> {
  const on = await stage(working)
  await on.call('alice', 'grant.add', { task_id: on.refs['task'].id, scope: 'deploy:staging', decision: 'allow', until: 'task', ...grant })
  return on
}
const ask = (on: Stage, as = 'devin', scope = 'deploy:staging', more: object = {}): Promise<any> =>
  on.call(as, 'execution/request.create', {
    action: 'APPROVE',
    metadata: { task_id: on.refs['task'].id },
    payload: { item: 'Deploy to staging?', details: {}, scope },
    ...more,
  })
const grantsOf = async (on: Stage): Promise<any[]> => (await on.call('alice', 'grant.list', { task_id: on.refs['task'].id })).items

test('an allowed scope is approved immediately on the basis of the grant, and uses it', async () => {
  const on = await granted({ uses: 2 })
  const { request, receipt } = await ask(on)
  assert.equal(request.status, 'completed')
  const [grant] = await grantsOf(on)
  assert.deepEqual([receipt.result, receipt.completed_by, receipt.basis], ['approved', 'user_alice', { kind: 'grant', id: grant.id }])
  assert.equal(grant.used, 1)
  assert.equal((await on.task()).state, 'in_progress', 'nobody is asked')
  assert.equal((await on.task()).checkpoints.length, 0)
  const actions = (await linesOf(on.world)).slice(-3).map(({ action, basis }) => [action, basis.kind])
  assert.deepEqual(actions, [
    ['execution/request.created', 'role'],
    ['execution/request.completed', 'grant'],
    ['collaboration/grant.used', 'grant'],
  ])
  await assertMirrored(on.world)
})

test('a denied scope is rejected immediately', async () => {
  const on = await granted({ decision: 'deny' })
  const { receipt } = await ask(on)
  assert.deepEqual([receipt.result, receipt.basis.kind], ['rejected', 'grant'])
  assert.equal((await on.task()).state, 'in_progress')
  assert.equal((await grantsOf(on))[0].used, 1)
})

test('the family of a scope speaks for it, and another scope asks', async () => {
  const on = await granted({ scope: 'deploy:*' })
  assert.equal((await ask(on)).receipt.result, 'approved')
  const { request, receipt } = await ask(on, 'devin', 'shell:read')
  assert.deepEqual([request.status, receipt], ['pending', undefined])
  assert.equal((await on.task()).state, 'blocked')
  await assertMirrored(on.world)
})

test('a grant answers approvals only, and only what its own agent asks within the task', async () => {
  const on = await granted({})
  const decide = { action: 'DECIDE', payload: { question: 'Deploy?', options: ['Yes', 'No'] } }
  assert.equal((await ask(on, 'robin')).request.status, 'pending', 'robin does not work on it')
  assert.equal((await ask(on, 'devin', '', decide)).request.status, 'pending')
  assert.equal((await grantsOf(on))[0].used, 0)
})

test('the last use goes to one of two concurrent questions, and the other asks a person', async () => {
  const on = await granted({ uses: 1 })
  const all = await Promise.allSettled([ask(on), ask(on)])
  const outcomes = all.map((one) => (one.status === 'fulfilled' ? String(one.value.request.status) : String(one.reason.code))).toSorted()
  assert.deepEqual(outcomes, ['completed', 'pending'])
  assert.equal((await grantsOf(on))[0].used, 1)
  const statuses = (await itemsOf(on)).map(({ status }) => String(status)).toSorted()
  assert.deepEqual(statuses, ['completed', 'pending'])
  await assertMirrored(on.world)
})

test('a grant that was taken back or has ended does not answer', async () => {
  const on = await granted({})
  await on.call('alice', 'grant.revoke', { grant_id: (await grantsOf(on))[0].id })
  assert.equal((await ask(on)).request.status, 'pending')
  const dated = await granted({ until: '2026-01-01T01:00:00Z' })
  dated.world.advance(2 * 3_600_000)
  assert.equal((await ask(dated)).request.status, 'pending')
})

test('a grant approves nothing while the task waits or after its end', async () => {
  const on = await granted({})
  await on.call('alice', 'task.interrupt', { task_id: on.refs['task'].id })
  const input = {
    action: 'APPROVE',
    metadata: { task_id: on.refs['task'].id },
    payload: { item: 'Deploy?', details: {}, scope: 'deploy:staging' },
  }
  await on.refused('PRECONDITION_FAILED', 'devin', 'execution/request.create', input)
  await on.call('alice', 'task.cancel', { task_id: on.refs['task'].id })
  await on.refused('PRECONDITION_FAILED', 'devin', 'execution/request.create', input)
})

test('the key of the project uses no grant: a person is asked', async () => {
  const on = await granted({})
  assert.equal((await ask(on, 'project', 'deploy:staging', { agent_id: 'agent_devin' })).request.status, 'pending')
  assert.equal((await grantsOf(on))[0].used, 0)
})
