// HLP's review policy: every combination of votes, and what becomes of the task, its item in the inbox and its votes.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { outcomeOf, type Policy } from '#protocols/collaboration/task/votes.ts'
import { assertMirrored, openItem } from '../../support/in-process/items.ts'
import { stage, type Stage } from '../../support/in-process/stage.ts'

const vectors: { readonly rows: Readonly<Record<string, readonly string[]>> } = JSON.parse(
  readFileSync(new URL('../../fixtures/hlp/policy-vectors.json', import.meta.url), 'utf8'),
)
const verdicts = { A: 'approved', C: 'changes_requested', R: 'rejected' } as const

test('votes come to the outcome of the table, for one, two and three reviewers and each quorum', () => {
  let seen = 0
  for (const [title, rows] of Object.entries(vectors.rows)) {
    const [count, quorum] = title.split(' ') as [string, Policy['quorum']]
    const required_reviewers = Array.from({ length: Number(count) }, (_, i) => `user_${i}`)
    for (const row of rows) {
      const [latest, outcome] = row.split(' ') as [string, string]
      const votes = Array.from(latest)
        .filter((letter) => letter !== '-')
        .map((letter) => ({ verdict: verdicts[letter as 'A'] }))
      assert.equal(outcomeOf({ required_reviewers, quorum }, votes), outcome, `${title}: ${latest}`)
      seen++
    }
  }
  assert.equal(seen, 252)
})

const inline = { type: 'patch', payload: { kind: 'inline', uri: 'data:text/plain,hello' } }
/** A task with a review policy whose agent has delivered. */
async function delivered(
  required_reviewers: readonly string[],
  quorum?: string,
): Promise<Stage & { review(as: string, more?: object): Promise<any> }> {
  const on = await stage()
  const review_policy = { required_reviewers, ...(quorum === undefined ? {} : { quorum }) }
  const { task } = await on.call('alice', 'task.create', { spec: { goal: 'Fix it', review_policy } })
  on.refs['task'] = task
  await on.call('alice', 'task.assign', { task_id: task.id, assignee: 'agent_devin' })
  await on.call('devin', 'task.start', { task_id: task.id })
  await deliver(on)
  return { ...on, review: (as, more = {}) => on.call(as, 'review.submit', verdictOn(on, more)) }
}
async function deliver(on: Stage, more: object = {}): Promise<void> {
  on.refs['artifact'] = (await on.call('devin', 'artifact.commit', { task_id: on.refs['task'].id, ...inline, ...more })).artifact
}
const verdictOn = ({ refs }: Stage, more: object) => ({
  task_id: refs['task'].id,
  artifact_id: refs['artifact'].id,
  verdict: 'approved',
  ...more,
})

test('a task rests under review until everybody required has approved, and each vote has an item of its own', async () => {
  const on = await delivered(['user_rita', 'user_bob'])
  assert.deepEqual((await on.task()).reviewers, ['user_rita', 'user_bob'])
  assert.deepEqual((await openItem(on)).people, ['user_rita', 'user_bob'])
  await assertMirrored(on.world)
  const { task, review } = await on.review('rita')
  assert.deepEqual([task.state, task.ownership.assignee, task.revision], ['under_review', 'user_alice', 4])
  assert.deepEqual(task.votes, [{ reviewer: 'user_rita', by: 'user_rita', verdict: 'approved', review_id: review.id }])
  assert.deepEqual((await openItem(on)).people, ['user_bob'])
  await assertMirrored(on.world)
  const done = await on.review('bob')
  assert.deepEqual([done.task.state, done.task.outcome, done.task.revision], ['completed', 'accepted', 5])
  assert.equal((await on.actions()).filter((action) => action === 'task.completed').length, 1)
  await assertMirrored(on.world)
})

test('a vote in the inbox counts as one at the task', async () => {
  const on = await delivered(['user_rita', 'user_bob'])
  for (const [as, state] of [
    ['rita', 'under_review'],
    ['bob', 'completed'],
  ] as const) {
    const { id } = await openItem(on)
    await on.call(as, 'execution/request.resolve', { request_id: id, result: 'approved' })
    assert.equal((await on.task()).state, state)
    await assertMirrored(on.world)
  }
})

test('required reviewers vote and no others, the principal included', async () => {
  const on = await delivered(['user_rita'])
  for (const as of ['alice', 'deputy']) await on.refused('UNAUTHORIZED', as, 'review.submit', verdictOn(on, {}))
  await on.refused('UNAUTHORIZED', 'devin', 'review.submit', verdictOn(on, {}))
  const listed = await delivered(['user_rita', 'user_alice'], 'any')
  assert.equal((await listed.review('alice')).task.state, 'completed')
})

test('a substitute votes for the one they stand in for, once', async () => {
  const on = await delivered(['user_alice', 'user_rita'])
  const { review, task } = await on.review('deputy')
  assert.deepEqual([review.reviewer, task.votes[0].by], ['user_alice', 'user_bob'])
  const [event] = (await on.events()).filter(({ action }) => action === 'review.submitted')
  assert.deepEqual([event.actor, event.behalf], ['user_bob', 'user_alice'])
  assert.equal((await on.review('deputy')).task.state, 'under_review', 'the same vote again is no second one')
  assert.equal((await on.review('rita')).task.state, 'completed')
})

test('a substitute does not overrule the one who has voted', async () => {
  const on = await delivered(['user_alice', 'user_rita'])
  await on.review('alice')
  await on.refused('UNAUTHORIZED', 'deputy', 'review.submit', verdictOn(on, { verdict: 'rejected' }))
})

test('one wish for changes sends the work back, and the next version begins from nothing', async () => {
  const on = await delivered(['user_rita', 'user_bob', 'user_alice'], 'all')
  await on.review('rita')
  const { task } = await on.review('bob', { verdict: 'changes_requested', requested_changes: ['name it'] })
  assert.deepEqual([task.state, task.ownership.assignee, task.votes], ['in_progress', 'agent_devin', undefined])
  const old = on.refs['artifact'].id
  await deliver(on, { artifact_id: old, parent_version: 'v1' })
  assert.deepEqual((await on.task()).votes, [])
  await on.refused('CONFLICT', 'rita', 'review.submit', verdictOn(on, { artifact_version: 'v1' }))
  assert.equal((await on.review('rita')).task.state, 'under_review')
})

test('a rejection ends the task, whatever the quorum', async () => {
  const on = await delivered(['user_rita', 'user_bob', 'user_alice'], 'majority')
  await on.review('rita')
  const { task } = await on.review('bob', { verdict: 'rejected' })
  assert.deepEqual([task.state, task.outcome], ['rejected', 'rejected_in_review'])
  await assertMirrored(on.world)
})

test('the majority of three is two', async () => {
  const on = await delivered(['user_rita', 'user_bob', 'user_alice'], 'majority')
  assert.equal((await on.review('rita')).task.state, 'under_review')
  assert.equal((await on.review('rita')).task.state, 'under_review')
  assert.equal((await on.review('alice')).task.state, 'completed')
})

test('a plan needs one verdict, and no member', async () => {
  const on = await stage()
  const spec = {
    goal: 'Fix it',
    constraints: { autonomy: 'plan_then_implement' },
    review_policy: { required_reviewers: ['user_rita', 'user_bob'] },
  }
  const { task } = await on.call('alice', 'task.create', { spec })
  on.refs['task'] = task
  await on.call('alice', 'task.assign', { task_id: task.id, assignee: 'agent_devin' })
  await on.call('devin', 'task.start', { task_id: task.id })
  await deliver(on, { kind: 'plan' })
  const { task: after } = await on.call('alice', 'review.submit', verdictOn(on, {}))
  assert.deepEqual([after.state, after.plan_approved], ['in_progress', true])
})

test('a policy of nobody, of an agent, a stranger or one person twice is refused', async () => {
  const on = await stage()
  for (const required_reviewers of [[], ['agent_devin'], ['user_nobody'], ['user_mallory'], ['user_rita', 'user_rita']])
    await on.refused('INVALID_SPEC', 'alice', 'task.create', { spec: { goal: 'g', review_policy: { required_reviewers } } })
  const wrong = { required_reviewers: ['user_rita'], quorum: 'most' }
  await on.refused('INVALID_SPEC', 'alice', 'task.create', { spec: { goal: 'g', review_policy: wrong } })
})

test('a required reviewer neither leaves the task nor works on it', async () => {
  const on = await stage()
  const { task } = await on.call('alice', 'task.create', { spec: { goal: 'g', review_policy: { required_reviewers: ['user_rita'] } } })
  await on.refused('PRECONDITION_FAILED', 'alice', 'reviewer.remove', { task_id: task.id, user: 'user_rita' })
  await on.refused('PRECONDITION_FAILED', 'alice', 'task.assign', { task_id: task.id, assignee: 'user_rita' })
  await on.refused('PRECONDITION_FAILED', 'admin', 'ownership.transfer', { task_id: task.id, to: 'user_rita' })
})

test('an agent sets no policy for a part of its task', async () => {
  const on = await stage('delegable')
  const spec = { goal: 'g', review_policy: { required_reviewers: ['user_alice'] } }
  await on.refused('INVALID_SPEC', 'devin', 'ownership.delegate', { task_id: on.refs['task'].id, to: 'agent_robin', spec })
})

test('two votes that race both count', async () => {
  for (let round = 0; round < 20; round++) {
    const on = await delivered(['user_rita', 'user_bob'])
    await Promise.all([on.review('rita'), on.review('bob')])
    assert.equal((await on.task()).state, 'completed')
  }
})
