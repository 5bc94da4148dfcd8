// The consequence that is shown is the one that happens: with votes, with a rejection that ends a task, with a decline.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Step } from '#kernel/declare/operation.ts'
import { collaboration } from '#protocols/collaboration/index.ts'
import { openItem } from '../../../support/in-process/items.ts'
import { APPROVE, DECIDE, requests } from '../../../support/in-process/requests.ts'
import { stage, type Stage } from '../../../support/in-process/stage.ts'

const scene = (name: string): readonly Step[] => collaboration.scenes[name]!
const raising = (input: object): Step[] => [
  ...scene('in_progress'),
  { as: 'devin', call: 'collaboration/checkpoint.raise', input: ({ task }) => ({ task_id: task.id, prompt: 'Well?', ...input }) },
]
const itemOf = async (on: Stage, who = 'alice'): Promise<any> =>
  (await on.call(who, 'execution/inbox.get', { request_id: (await openItem(on)).id })).item

describe('votes', () => {
  const quorum = (n: number): object => ({ quorum: { n, of: ['user_alice', 'user_bob', 'user_rita'] } })
  test('an approval says which of how many it is, and who has to agree', async () => {
    const on = await requests()
    const { id: request_id } = await on.ask({ ...APPROVE, ...quorum(2) })
    const effects = async (): Promise<any> => (await on.call('bob', 'inbox.get', { request_id })).item.effects
    const when = 'The agent may go ahead when two of Alice, Bob and Rita Reviewer have approved'
    assert.deepEqual(
      [(await effects()).approve, (await effects()).reject],
      [`counts as 1 of 2 approvals. ${when}`, `counts as a no. ${when}`],
    )
    await on.call('alice', 'request.resolve', { request_id, result: 'approved' })
    assert.equal((await effects()).approve, 'counts as 2 of 2 approvals. The agent may go ahead')
    await on.call('rita', 'request.decline', { request_id, reason: 'No.' })
    assert.equal((await effects()).reject, 'counts as a no, and decides it. The agent may not go ahead')
    assert.equal((await effects()).decline, 'counts as a no, and decides it. The agent gets the reasons and no answer')
    // And so it happens.
    const { request } = await on.call('bob', 'request.decline', { request_id, reason: 'Nor I.' })
    assert.equal(request.status, 'declined')
  })
  test('a choice is one vote', async () => {
    const on = await requests()
    const { id: request_id } = await on.ask({ ...DECIDE, ...quorum(3) })
    const { approve, decline } = (await on.call('bob', 'inbox.get', { request_id })).item.effects
    assert.match(approve, /^counts as one vote\. The agent gets an option when three of .* have chosen it$/)
    assert.equal(decline, 'counts as a vote for no option, and none can be chosen now')
  })
})

describe('a rejection', () => {
  const rows: [string, string | readonly Step[], boolean][] = [
    ['of an approval', raising({ kind: 'approval' }), true],
    ['of an escalation', raising({ kind: 'escalation' }), true],
    ['of an interrupt', 'taken_over', true],
    ['of a deliverable', 'review_ready', true],
    ['of an input is none', raising({ kind: 'input' }), false],
  ]
  for (const [name, from, ends] of rows)
    test(`${name} ${ends ? 'ends' : 'does not end'} the task, and the item says so`, async () => {
      const on = await stage(typeof from === 'string' ? scene(from) : from)
      const item = await itemOf(on)
      assert.equal(item.reject_ends_task, ends)
      assert.equal(item.effects.reject.startsWith('the task ends'), ends)
      if (!ends) return
      await on.call('alice', 'execution/request.resolve', { request_id: item.request_id, result: 'rejected' })
      assert.ok(['completed', 'rejected'].includes((await on.task()).state))
    })
  test('of a request is an answer', async () => {
    const on = await requests()
    await on.ask(APPROVE)
    const [item] = (await on.call('alice', 'inbox.list')).items
    assert.deepEqual([item.reject_ends_task, item.effects.reject], [false, 'the agent may not go ahead'])
  })
})

describe('a decline', () => {
  test('of a checkpoint goes on to the next, and at last asks about the task', async () => {
    const on = await stage(raising({ kind: 'input' }))
    assert.equal((await itemOf(on)).effects.decline, 'the next person of the task is asked')
    await on.call('alice', 'reviewer.remove', { task_id: on.refs['task'].id, user: 'user_rita' })
    const item = await itemOf(on)
    assert.deepEqual([item.declinable, item.effects.decline], [true, 'nobody else can answer it: you decide about the task'])
    await on.call('alice', 'execution/request.decline', { request_id: item.request_id, reason: 'No.' })
    const last = await itemOf(on)
    assert.deepEqual([last.kind, last.declinable, last.effects.decline], ['escalation', false, 'not possible: nobody else can answer it'])
  })
  test('of a review is not offered', async () => {
    const { declinable, effects } = await itemOf(await stage('review_ready'))
    assert.deepEqual([declinable, effects.approve], [false, 'the task is done'])
  })
})

test('an interrupt is known by the task and by who stopped it', async () => {
  const on = await stage([
    ...scene('in_progress'),
    { as: 'alice', call: 'collaboration/task.interrupt', input: ({ task }) => ({ task_id: task.id }) },
  ])
  const { spec } = await on.task()
  assert.equal((await itemOf(on)).title, `You stopped ${spec.goal}`)
  assert.equal((await itemOf(on, 'rita')).title, `Alice stopped ${spec.goal}`)
})

test('words that go with a yes reach the agent and the receipt', async () => {
  const on = await stage(raising({ kind: 'escalation' }))
  const { request_id } = await itemOf(on)
  const { receipt } = await on.call('alice', 'execution/request.resolve', { request_id, result: 'approved', reason: 'Use the mirror.' })
  assert.equal(receipt.reason, 'Use the mirror.')
  const { checkpoint } = await on.call('devin', 'checkpoint.get', { checkpoint_id: on.refs['checkpoint'].id })
  assert.equal(checkpoint.resolution.comment, 'Use the mirror.')
})

test('options keep the risk that the agent gave each of them', async () => {
  const options = ['low', 'medium', 'high'].map((risk, i) => ({ id: `o${i}`, label: `Option ${i}`, risk }))
  const item = await itemOf(await stage(raising({ kind: 'choice', options })))
  assert.deepEqual(item.risk, 'R4')
  assert.deepEqual(item.options, [
    { label: 'Option 0', risk: 'R1' },
    { label: 'Option 1', risk: 'R3' },
    { label: 'Option 2', risk: 'R4' },
  ])
})

test('one word for what is asked: a filter finds requests and checkpoints alike', async () => {
  const on = await stage(raising({ kind: 'approval' }))
  await on.call('devin', 'execution/request.create', { ...APPROVE, metadata: {} })
  const found = async (kind: string): Promise<string[]> =>
    (await on.call('alice', 'execution/inbox.list', { kind })).items.map(({ kind: one, asks }: any) => `${one} ${asks}`).toSorted()
  assert.deepEqual(await found('approval'), ['approval approval', 'request approval'])
  assert.deepEqual(await found('request'), ['request approval'])
  assert.deepEqual(await found('choice'), [])
  assert.equal((await on.call('alice', 'execution/inbox.count', { kind: 'approval' })).open, 2)
})
