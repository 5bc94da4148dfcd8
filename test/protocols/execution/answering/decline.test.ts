// Declining: every question ends for its agent when a person will not answer it, and says so in the same words everywhere.
import { peopleAfter, successorOf } from '#protocols/collaboration/task/checkpoints.ts'
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Step } from '#kernel/declare/operation.ts'
import { limits } from '#kernel/limits.ts'
import { collaboration } from '#protocols/collaboration/index.ts'
import { shapeOf } from '#bridges/hxp/request-json.ts'
import { APPROVE, claimsIn, DECIDE, requests, type Asked } from '../../../support/in-process/requests.ts'
import { assertMirrored, itemsOf, openItem } from '../../../support/in-process/items.ts'
import { stage, type Stage } from '../../../support/in-process/stage.ts'

const PROVIDE = { action: 'PROVIDE', payload: { prompt: 'The token?', input_type: 'text', sensitive: true } }
const because = { reason: 'Ask the finance team.' }
const decline = ({ call }: Asked, who: string, id: string, reason = because.reason): Promise<any> =>
  call(who, 'request.decline', { request_id: id, reason })

describe('a request that is declined', () => {
  for (const question of [APPROVE, DECIDE, PROVIDE])
    test(`${question.action}: the request is declined, its receipt says failed and why`, async () => {
      const on = await requests()
      const { id } = await on.ask(question)
      const { request, receipt } = await decline(on, 'alice', id)
      assert.equal(request.status, 'declined')
      assert.deepEqual(
        [receipt.status, receipt.result, receipt.reason, receipt.completed_by],
        ['failed', null, 'declined: Ask the finance team.', 'user_alice'],
      )
      const claims = claimsIn(receipt)
      assert.deepEqual([claims.status, claims.reason, claims.decided_by.kind], ['failed', 'declined: Ask the finance team.', 'human'])
      const got = await on.call('devin', 'request.get', { request_id: id })
      assert.deepEqual([got.request.status, shapeOf(got)['status']], ['declined', 'failed'], 'the draft calls it failed')
      assert.equal((await on.call('devin', 'receipt.verify', { receipt })).valid, true)
      const refusal = await on.refused('ALREADY_RESOLVED', 'alice', 'request.decline', { request_id: id, ...because })
      assert.match(refusal.message, /already closed: declined, by user_alice/)
      assert.deepEqual((await on.facts(id)).map(({ action }) => action).slice(-1), ['request.declined'])
    })

  test('it is counted and found under its own name, and under failed where the draft lists', async () => {
    const on = await requests()
    const { id } = await on.ask(DECIDE)
    await decline(on, 'alice', id)
    for (const who of ['alice', 'devin']) {
      const { declined, failed, completed, unresolved, total } = await on.call(who, 'request.stats')
      assert.deepEqual([declined, failed, completed, unresolved, total], [1, 0, 0, 0, 1])
    }
    const listed = async (operation: string, status: string): Promise<string[]> => {
      const who = operation === 'request.list' ? 'devin' : 'alice'
      const { items, requests: rows = items, total = rows.length } = await on.call(who, operation, { status })
      assert.equal(total, rows.length, `${operation} ${status}`)
      return rows.map((row: any) => row.status)
    }
    for (const operation of ['request.inbox', 'request.list', 'inbox.list'])
      assert.deepEqual(await listed(operation, 'declined'), ['declined'], operation)
    assert.deepEqual(await listed('inbox.list', 'closed'), ['declined'])
    assert.deepEqual(await listed('inbox.list', 'failed'), [])
    for (const operation of ['request.inbox', 'request.list']) assert.deepEqual(await listed(operation, 'failed'), ['declined'], operation)
    const { items } = await on.call('alice', 'request.trends', {})
    assert.deepEqual([items[0].days[0].declined, items[0].days[0].answered], [1, 0])
  })

  test('bad input is refused and changes nothing', async () => {
    const on = await requests()
    const { id: request_id } = await on.ask(DECIDE)
    await on.refused('INVALID_REQUEST', 'alice', 'request.decline', { request_id })
    await on.refused('INVALID_REQUEST', 'alice', 'request.decline', { request_id, reason: '' })
    const blank = await on.refused('INVALID_REQUEST', 'alice', 'request.decline', { request_id, reason: ' \u200B\n' })
    assert.match(blank.message, /reason is blank/)
    await on.refused('INVALID_REQUEST', 'alice', 'request.decline', { request_id, reason: 'x'.repeat(limits.reasonCharsMax + 1) })
    await on.refused('CHANGED', 'alice', 'request.decline', { request_id, ...because, digest: 'another' })
    await on.refused('UNAUTHORIZED', 'devin', 'request.decline', { request_id, ...because })
    const { receipt } = await decline(on, 'alice', request_id, 'x'.repeat(limits.reasonCharsMax))
    assert.equal(receipt.reason.length, 'declined: '.length + limits.reasonCharsMax)
  })
})

describe('in a quorum a decline is a no', () => {
  const people = ['user_alice', 'user_bob', 'user_rita']
  // Votes in their order, of which two must agree, and the end that the last one brings.
  const rows: [string, object, [string, string][], [string, string, unknown, string | undefined]][] = [
    [
      'approval goes on',
      APPROVE,
      [
        ['alice', '-'],
        ['bob', 'approved'],
        ['rita', 'approved'],
      ],
      ['completed', 'completed', 'approved', undefined],
    ],
    [
      'declined by two',
      APPROVE,
      [
        ['alice', '-'],
        ['bob', '-'],
      ],
      ['declined', 'failed', null, 'declined: Ask the finance team.\nAsk the finance team.'],
    ],
    [
      'declined and rejected',
      APPROVE,
      [
        ['alice', '-'],
        ['bob', 'rejected'],
      ],
      ['completed', 'completed', 'rejected', 'Ask the finance team.'],
    ],
    [
      'a choice that all decline',
      DECIDE,
      [
        ['alice', '-'],
        ['bob', '-'],
      ],
      ['declined', 'failed', null, 'declined: Ask the finance team.\nAsk the finance team.'],
    ],
    [
      'a choice that has too few',
      DECIDE,
      [
        ['alice', '-'],
        ['bob', 'Small'],
        ['rita', 'Large'],
      ],
      ['failed', 'failed', null, 'no_quorum'],
    ],
  ]
  for (const [name, question, votes, ended] of rows)
    test(name, async () => {
      const on = await requests()
      const { id } = await on.ask({ ...question, quorum: { n: 2, of: people } })
      let last: any
      for (const [who, said] of votes) {
        last = said === '-' ? await decline(on, who, id) : await on.call(who, 'request.resolve', { request_id: id, result: said })
        if (who !== votes.at(-1)![0]) assert.deepEqual([last.request.status, last.receipt], ['pending', undefined])
      }
      const { request, receipt } = last
      assert.deepEqual([request.status, receipt.status, receipt.result, receipt.reason], ended)
      const [first] = claimsIn(receipt).votes
      assert.deepEqual([first.result, first.declined], [null, true])
    })

  test('no person both declines and votes', async () => {
    const on = await requests()
    const { id: request_id } = await on.ask({ ...APPROVE, quorum: { n: 2, of: people } })
    await decline(on, 'alice', request_id)
    await on.refused('ALREADY_VOTED', 'alice', 'request.resolve', { request_id, result: 'approved' })
    await on.refused('ALREADY_VOTED', 'alice', 'request.decline', { request_id, ...because })
  })
})

describe('a checkpoint that is declined goes to the next person', () => {
  const scene = (name: string): readonly Step[] => collaboration.scenes[name]!
  const raising: Step[] = [
    ...scene('in_progress'),
    { as: 'devin', call: 'collaboration/checkpoint.raise', input: ({ task }) => ({ task_id: task.id, kind: 'input', prompt: 'Which?' }) },
  ]
  const pending = async (on: Stage): Promise<any> =>
    (await on.call('admin', 'checkpoint.get', { checkpoint_id: (await on.task()).pending_checkpoint })).checkpoint
  const sides: [string, (on: Stage, who: string) => Promise<unknown>][] = [
    ['at its item', async (on, who) => on.call(who, 'execution/request.decline', { request_id: (await openItem(on)).id, ...because })],
    [
      'at the checkpoint',
      async (on, who) => on.call(who, 'checkpoint.decline', { checkpoint_id: (await on.task()).pending_checkpoint, ...because }),
    ],
  ]
  for (const [where, declining] of sides)
    test(`${where}: the item is declined, the next one is asked the same, and after the last the principal is asked about the task`, async () => {
      const on = await stage(raising)
      const first = await pending(on)
      await declining(on, 'alice')
      const [item] = await itemsOf(on)
      assert.deepEqual([item.status, item.receipt.status, item.receipt.reason], ['declined', 'failed', 'declined: Ask the finance team.'])
      assert.equal(item.receipt.by, 'user_alice')
      const second = await pending(on)
      assert.deepEqual(
        [second.kind, second.escalates, second.routed_to, second.succeeds, second.prompt],
        ['escalation', 'input', 'user_rita', first.id, 'Which?'],
      )
      assert.equal((await on.call('admin', 'checkpoint.get', { checkpoint_id: first.id })).checkpoint.reason, 'declined')
      await assertMirrored(on.world)
      await declining(on, 'rita')
      const third = await pending(on)
      assert.deepEqual([third.kind, third.escalates, third.routed_to], ['escalation', undefined, 'user_alice'])
      assert.match(third.prompt, /^Rita.* declined: "Ask the finance team\."\nNobody else can answer: Which\?$/)
      await assertMirrored(on.world)
      // The system asks what becomes of the task: nobody is left to pass that on to but the other one.
      await declining(on, 'alice')
      assert.equal((await pending(on)).routed_to, 'user_rita')
      await assert.rejects(declining(on, 'rita'), /nobody else of the task can answer it/)
      assert.equal((await on.task()).state, 'blocked')
      await on.call('alice', 'execution/request.resolve', { request_id: (await openItem(on)).id, result: 'approved', reason: 'Guess.' })
      assert.equal((await on.task()).state, 'in_progress')
      await assertMirrored(on.world)
    })

  test('an expired question goes to no person who declined it', async () => {
    const subject = { disabled: false, projects: new Map([['project_default', 'member']]) }
    const read = { subject: () => Promise.resolve(subject) } as unknown as Parameters<typeof peopleAfter>[0]
    const task = {
      project_id: 'project_default',
      ownership: { principal: 'user_alice' },
      reviewers: ['user_rita', 'user_bob'],
      checkpoints: [],
    }
    const declinedBy = (...people: string[]): any => ({ routed_to: 'user_rita', declined: people.map((by) => ({ by })), expires_at: null })
    assert.deepEqual(await peopleAfter(read, declinedBy(), task as any), ['user_bob'])
    assert.deepEqual(await peopleAfter(read, declinedBy('user_bob'), task as any), [])
    const routed = (...people: string[]): string => successorOf(declinedBy(...people), task as any, [], 'ckpt_2', '').checkpoint.routed_to
    assert.deepEqual([routed('user_bob'), routed('user_alice', 'user_bob')], ['user_alice', 'user_rita'])
  })

  test('a request of a task ends for its agent, and the task goes on with that', async () => {
    const on = await stage('in_progress')
    const { task } = on.refs
    const { request } = await on.call('devin', 'execution/request.create', { ...DECIDE, metadata: { task_id: task.id } })
    await on.refused('PRECONDITION_FAILED', 'alice', 'checkpoint.decline', { checkpoint_id: request.checkpoint_id, ...because })
    await on.call('rita', 'execution/request.decline', { request_id: request.id, ...because })
    assert.equal((await on.task()).state, 'in_progress')
    const { checkpoint } = await on.call('devin', 'checkpoint.get', { checkpoint_id: request.checkpoint_id })
    assert.deepEqual([checkpoint.resolution.action, checkpoint.resolution.input], ['provide', 'declined: Ask the finance team.'])
  })

  test('a review is not declined', async () => {
    const on = await stage('review_ready')
    const refusal = await on.refused('PRECONDITION_FAILED', 'alice', 'execution/request.decline', {
      request_id: (await openItem(on)).id,
      ...because,
    })
    assert.match(refusal.message, /approve it, request changes or reject it/)
  })
})
