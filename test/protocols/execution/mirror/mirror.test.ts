// Mirrored items: the inbox has everything in collaboration that waits for a person, and answering either side answers both.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { Step } from '#kernel/declare/operation.ts'
import { collaboration } from '#protocols/collaboration/index.ts'
import { cardOf } from '#protocols/execution/answering/shown-request.ts'
import { again, HOUR_MS, linesOf, raceAll, stage, type Stage } from '../../../support/in-process/stage.ts'
import { assertMirrored, itemsOf, openItem } from '../../../support/in-process/items.ts'

const scene = (name: string): readonly Step[] => collaboration.scenes[name]!
const raising = (input: object): Step[] => [
  ...scene('in_progress'),
  { as: 'devin', call: 'collaboration/checkpoint.raise', input: ({ task }) => ({ task_id: task.id, prompt: 'Well?', ...input }) },
]
const option = (id: string, label: string, risk = 'low') => ({ id, label, risk })
const resolve = (on: Stage, as: string, result: unknown, reason?: string) =>
  openItem(on).then((item) => on.call(as, 'execution/request.resolve', { request_id: item.id, result, ...(reason ? { reason } : {}) }))

const withRisks = (...risks: string[]) => risks.map((risk, i) => option(`o${i}`, `Option ${i}`, risk))
const many = withRisks('low', 'low', 'low', 'medium', 'low', 'low', 'low')

describe('a checkpoint in the inbox', () => {
  const shown: [string, object, string, object][] = [
    ['an approval', { kind: 'approval' }, 'APPROVE', { item: 'Well?', details: {} }],
    ['an input', { kind: 'input' }, 'PROVIDE', { prompt: 'Well?', input_type: 'text', validation: { max: 4_000 } }],
    [
      'a choice',
      { kind: 'choice', options: [option('a', 'Red'), option('b', 'Blue')] },
      'DECIDE',
      { question: 'Well?', options: ['Red', 'Blue'], option_ids: ['a', 'b'] },
    ],
    [
      'a choice of one',
      { kind: 'choice', options: [option('a', 'Red')] },
      'PROVIDE',
      { prompt: 'Well?', input_type: 'selection', validation: { allowed_values: ['Red'] }, option_ids: ['a'] },
    ],
    [
      'a choice of seven',
      { kind: 'choice', options: many },
      'PROVIDE',
      {
        prompt: 'Well?',
        input_type: 'selection',
        validation: { allowed_values: many.map(({ label }) => label) },
        option_ids: many.map(({ id }) => id),
      },
    ],
    [
      'options whose labels say nothing',
      { kind: 'choice', options: [option('a', 'Yes'), option('b', 'Yes')] },
      'DECIDE',
      { question: 'Well?', options: ['a', 'b'], option_ids: ['a', 'b'] },
    ],
    [
      'options whose labels are the ids of others',
      { kind: 'choice', options: [option('a', 'b'), option('b', 'a')] },
      'DECIDE',
      { question: 'Well?', options: ['a', 'b'], option_ids: ['a', 'b'] },
    ],
    ['an escalation', { kind: 'escalation' }, 'APPROVE', { item: 'Well?', details: {} }],
    [
      'an escalation with options',
      { kind: 'escalation', options: withRisks('low', 'low') },
      'DECIDE',
      { question: 'Well?', options: ['Option 0', 'Option 1'], option_ids: ['o0', 'o1'] },
    ],
  ]
  for (const [name, input, action, payload] of shown) {
    test(name, async () => {
      const on = await stage(raising(input))
      const item = await openItem(on)
      assert.equal(item.action, action)
      assert.deepEqual(item.payload, payload)
      assert.equal(item.kind, (input as { kind: string }).kind)
      assert.equal(item.checkpoint_id, on.refs['checkpoint'].id)
      assert.deepEqual(item.people, ['user_alice', 'user_rita'])
      assert.equal(item.assigned_to, 'user_alice')
      assert.equal(item.requester, 'agent_devin')
      await assertMirrored(on.world)
    })
  }

  test('its details hold the evidence, the proposed actions and the state, and its risk is the greatest of them', async () => {
    const context = [{ kind: 'text', text: 'All tests pass.' }]
    const proposed_actions = [{ id: 'drop', kind: 'sql', summary: 'drop it', risk: 'high' }]
    const on = await stage(raising({ kind: 'approval', context, proposed_actions, state: { step: 3 } }))
    const item = await openItem(on)
    assert.deepEqual(item.payload.details, { context, proposed_actions, state: { step: 3 } })
    assert.equal(item.payload.context, 'All tests pass.')
    assert.equal(item.risk, 'R4')
    for (const [risk, is] of [
      ['low', 'R1'],
      ['medium', 'R3'],
    ] as const)
      assert.equal((await openItem(await stage(raising({ kind: 'choice', options: withRisks('low', risk) })))).risk, is)
  })

  test('a question of 4,000 characters is shown whole', async () => {
    const prompt = 'x'.repeat(4_000)
    const on = await stage(raising({ kind: 'approval', prompt }))
    assert.equal((await openItem(on)).payload.item, prompt)
  })

  test('the item names the asker: an agent, a person or the system', async () => {
    assert.equal(cardOf(await openItem(await stage(raising({ kind: 'approval' })))).asks, 'An agent asks')
    const interrupted = await stage([
      ...scene('in_progress'),
      { as: 'alice', call: 'collaboration/task.interrupt', input: ({ task }) => ({ task_id: task.id }) },
    ])
    assert.equal(cardOf(await openItem(interrupted)).asks, 'A person has interrupted an agent')
    const failed = await stage('in_progress')
    await failed.call('system', 'checkpoint.escalate', { task_id: failed.refs['task'].id, prompt: 'It failed.' })
    const item = await openItem(failed)
    assert.equal(cardOf(item).asks, 'The system asks')
    assert.deepEqual([item.kind, item.priority, item.requester], ['escalation', 'high', 'agent_system'])
  })

  test('a take-over is an interrupt that says so', async () => {
    const on = await stage('taken_over')
    assert.deepEqual((await openItem(on)).payload.details, { takeover: true })
    await on.call('alice', 'task.return', { task_id: on.refs['task'].id })
    const [item] = await itemsOf(on)
    assert.equal(item.receipt.result, 'approved')
    await assertMirrored(on.world)
  })

  test('it has no timer of its own: the time of the checkpoint rules', async () => {
    const on = await stage(raising({ kind: 'approval', expires_in: 'PT1H' }))
    const item = await openItem(on)
    assert.equal(item.expires_at, on.refs['checkpoint'].expires_at)
    assert.equal(item.timeout_seconds, 3_600)
    on.world.advance(2 * HOUR_MS)
    assert.deepEqual(await on.ring(), ['collaboration/checkpoint.overdue'])
    assert.equal((await openItem(on)).overdue, true)
    await assertMirrored(on.world)
  })
})

describe('answering the item answers the checkpoint', () => {
  const answers: [string, object, unknown, object, string][] = [
    ['approved', { kind: 'approval' }, 'approved', { action: 'approve', comment: 'Because.' }, 'in_progress'],
    ['rejected', { kind: 'approval' }, 'rejected', { action: 'reject', comment: 'Because.' }, 'completed'],
    [
      'by label',
      { kind: 'choice', options: withRisks('low', 'low') },
      'Option 1',
      { action: 'choose', choice: 'o1', comment: 'Because.' },
      'in_progress',
    ],
    [
      'by id',
      { kind: 'choice', options: withRisks('low', 'low') },
      'o1',
      { action: 'choose', choice: 'o1', comment: 'Because.' },
      'in_progress',
    ],
    // As people saw it: invisible characters are escaped.
    [
      'by the label that was shown',
      { kind: 'choice', options: [option('a', 'Approve'), option('b', 'Deny\u200B')] },
      'Deny\\u{200B}',
      { action: 'choose', choice: 'b', comment: 'Because.' },
      'in_progress',
    ],
    [
      'by the id that was shown',
      { kind: 'choice', options: [option('a', 'Approve'), option('b\u200Bx', 'Deny')] },
      'b\\u{200B}x',
      { action: 'choose', choice: 'b\u200Bx', comment: 'Because.' },
      'in_progress',
    ],
    ['of many', { kind: 'choice', options: many }, 'Option 6', { action: 'choose', choice: 'o6', comment: 'Because.' }, 'in_progress'],
    ['provided', { kind: 'input' }, 'Blue.', { action: 'provide', input: 'Blue.', comment: 'Because.' }, 'in_progress'],
    ['an escalation goes on', { kind: 'escalation' }, 'approved', { action: 'approve', comment: 'Because.' }, 'in_progress'],
    ['an escalation ends', { kind: 'escalation' }, 'rejected', { action: 'reject', comment: 'Because.' }, 'completed'],
  ]
  for (const [name, input, result, resolution, state] of answers) {
    test(name, async () => {
      const on = await stage(raising(input))
      const before = (await linesOf(on.world)).length
      const { receipt } = await resolve(on, 'rita', result, 'Because.')
      const { checkpoint } = await on.call('alice', 'checkpoint.get', { checkpoint_id: on.refs['checkpoint'].id })
      const { by, at: _, ...said } = checkpoint.resolution
      assert.equal(by, 'user_rita')
      assert.deepEqual(said, resolution)
      assert.equal((await on.task()).state, state)
      assert.equal(receipt.status, 'completed')
      assert.equal(receipt.completed_by, 'user_rita')
      const lines = (await linesOf(on.world)).slice(before)
      assert.equal(lines[0].action, 'execution/request.completed')
      assert.equal(lines[1].action, 'collaboration/task.checkpoint.resolved')
      assert.equal(lines[1].actor, 'user_rita', 'it is the person who resolves it, not the system')
      assert.equal(lines[1].cause, lines[0].seq)
      assert.equal(lines.filter(({ action }) => action.startsWith('execution/')).length, 1, 'nothing is closed twice')
      await assertMirrored(on.world)
    })
  }

  test('a late answer is refused as late, and one that does not fit is an invalid result', async () => {
    const on = await stage([...raising({ kind: 'approval', expires_in: 'PT1H', on_expiry: 'escalate' }), { advanceMs: 2 * HOUR_MS }])
    const item = await openItem(on)
    const refusal = await on.refused('EXPIRED', 'alice', 'execution/request.resolve', { request_id: item.id, result: 'approved' })
    assert.equal(refusal.details?.['hacp_code'], 'CHECKPOINT_EXPIRED')
  })

  test('a label that is written so counts before one that is only shown so', async () => {
    const options = [option('a', 'Deny\\u{200B}x'), option('b', 'Deny\u200Bx'), option('c', 'Approve')]
    const on = await stage(raising({ kind: 'choice', options }))
    const { checkpoint } = on.refs
    await resolve(on, 'rita', 'Deny\\u{200B}x', 'Because.')
    const { resolution } = (await on.call('alice', 'checkpoint.get', { checkpoint_id: checkpoint.id })).checkpoint
    assert.equal(resolution.choice, 'a')
  })

  test('only those who decide on the task may', async () => {
    const on = await stage(raising({ kind: 'approval' }))
    const input = { request_id: (await openItem(on)).id, result: 'approved' }
    for (const [who, code] of [
      ['owner', 'UNAUTHORIZED'],
      ['devin', 'UNAUTHORIZED'],
      ['admin', 'UNAUTHORIZED'],
      ['project', 'UNAUTHORIZED'],
      ['bob', 'NOT_FOUND'],
      ['mallory', 'NOT_FOUND'],
      ['robin', 'NOT_FOUND'],
    ] as const)
      await on.refused(code, who, 'execution/request.resolve', input)
    const { receipt } = await on.call('deputy', 'execution/request.resolve', input)
    assert.equal(receipt.completed_by, 'user_bob')
    const [resolved] = (await linesOf(on.world)).filter(({ action }) => action.endsWith('checkpoint.resolved'))
    assert.deepEqual([resolved.actor, resolved.behalf], ['user_bob', 'user_alice'])
  })
})

describe('answering the checkpoint closes the item', () => {
  const answers: [string, object, object, unknown][] = [
    ['approve', { kind: 'approval' }, { action: 'approve' }, 'approved'],
    ['reject', { kind: 'approval' }, { action: 'reject' }, 'rejected'],
    ['choose', { kind: 'choice', options: withRisks('low', 'low') }, { action: 'choose', choice: 'o1' }, 'Option 1'],
    ['provide', { kind: 'input' }, { action: 'provide', input: 'Blue.' }, 'Blue.'],
  ]
  for (const [name, input, answer, result] of answers) {
    test(name, async () => {
      const on = await stage(raising(input))
      const { id } = await openItem(on)
      await on.call('rita', 'checkpoint.resolve', { checkpoint_id: on.refs['checkpoint'].id, ...answer, comment: 'Because.' })
      const { request, receipt } = await on.call('alice', 'execution/request.get', { request_id: id })
      assert.equal(request.status, 'completed')
      assert.equal(receipt.result, result)
      assert.equal(receipt.reason, 'Because.')
      assert.equal(receipt.completed_by, 'user_rita')
      assert.deepEqual(receipt.basis, { kind: 'role', id: 'answered at the checkpoint' })
      await on.refused('ALREADY_RESOLVED', 'alice', 'execution/request.resolve', { request_id: id, result: 'approved' })
      await assertMirrored(on.world)
    })
  }

  test('handed to another agent, it is cancelled', async () => {
    const on = await stage(raising({ kind: 'approval' }))
    const { id } = await openItem(on)
    const answer = { checkpoint_id: on.refs['checkpoint'].id, action: 'reassign', reassign_to: 'agent_robin' }
    await on.call('alice', 'checkpoint.resolve', answer)
    const { receipt } = await on.call('alice', 'execution/request.get', { request_id: id })
    assert.deepEqual([receipt.status, receipt.reason, receipt.result], ['cancelled', 'reassigned', null])
    await assertMirrored(on.world)
  })

  test('a cancelled task cancels it, and those of its children', async () => {
    const on = await stage(raising({ kind: 'approval' }))
    const { task } = await on.call('alice', 'task.create', { spec: { goal: 'A part' }, parent_task: on.refs['task'].id })
    await on.call('alice', 'task.assign', { task_id: task.id, assignee: 'agent_robin' })
    await on.call('robin', 'task.start', { task_id: task.id })
    await on.call('robin', 'checkpoint.raise', { task_id: task.id, kind: 'input', prompt: 'Which?' })
    const items = [await openItem(on), await openItem(on, task.id)]
    await on.call('alice', 'task.cancel', { task_id: on.refs['task'].id })
    for (const { id } of items) {
      const { receipt } = await on.call('alice', 'execution/request.get', { request_id: id })
      assert.deepEqual([receipt.status, receipt.reason], ['cancelled', 'task_cancelled'])
    }
    await assertMirrored(on.world)
  })

  test('when its time is up: the next person is asked, the task fails, or the default answers', async () => {
    const allowing = (on_expiry: string, more: object): Step[] => [
      {
        as: 'alice',
        call: 'collaboration/task.create',
        input: { spec: { goal: 'Fix it', constraints: { on_expiry: ['fail', 'default'] } }, reviewers: ['user_rita'] },
      },
      ...scene('in_progress').slice(1),
      ...raising({ expires_in: 'PT1H', on_expiry, ...more }).slice(-1),
      { advanceMs: 2 * HOUR_MS },
    ]
    const escalated = await stage(allowing('escalate', { kind: 'input' }))
    assert.deepEqual(await escalated.ring(), ['collaboration/checkpoint.expire'])
    const [old, next] = await itemsOf(escalated)
    assert.deepEqual([old.status, old.receipt.reason], ['cancelled', 'superseded'])
    assert.deepEqual([next.kind, next.action, next.assigned_to], ['escalation', 'PROVIDE', 'user_rita'], 'asked in the same form')
    await resolve(escalated, 'rita', 'Blue.')
    assert.equal((await escalated.task()).state, 'in_progress')

    const failed = await stage(allowing('fail', { kind: 'approval' }))
    const { id } = await openItem(failed)
    await failed.ring()
    const [late] = await itemsOf(failed)
    assert.deepEqual([late.status, late.receipt.reason, late.receipt.completed_by], ['failed', 'timeout', 'system:timeout'])
    await failed.refused('EXPIRED', 'alice', 'execution/request.resolve', { request_id: id, result: 'approved' })

    const options = withRisks('low', 'low')
    const taken = await stage(allowing('default', { kind: 'choice', options, default: { action: 'choose', choice: 'o0' } }))
    await taken.ring()
    const [done] = await itemsOf(taken)
    assert.deepEqual([done.status, done.receipt.result, done.receipt.completed_by], ['completed', 'Option 0', 'system:fallback'])
    assert.deepEqual(done.receipt.basis, { kind: 'policy', id: 'on_expiry/default' })
    for (const on of [escalated, failed, taken]) await assertMirrored(on.world)
  })

  test('a missed deadline asks again, with a new item', async () => {
    const on = await stage([
      ...scene('late'),
      { as: 'system', call: 'collaboration/task.overdue', input: ({ task }) => ({ task_id: task.id }) },
    ])
    const item = await openItem(on)
    assert.equal(item.kind, 'escalation')
    assert.match(item.payload.item, /max_duration has passed/)
    await assertMirrored(on.world)
  })
})

describe('a task that is ready for review', () => {
  test('is in the inbox as a review of one version', async () => {
    const on = await stage('review_ready')
    const item = await openItem(on)
    assert.deepEqual([item.kind, item.action, item.requester], ['review', 'DECIDE', 'agent_devin'])
    assert.deepEqual(item.payload.options, ['approved', 'changes_requested', 'rejected'])
    assert.deepEqual(item.artifact, { artifact_id: on.refs['artifact'].id, version: 'v1' })
    assert.equal(item.payload.details.delivered.checksum, on.refs['artifact'].payload.checksum)
    assert.equal('uri' in item.payload.details.delivered, false, 'the bytes stay where they are')
    await assertMirrored(on.world)
  })

  test('is reviewed from there: approved, sent back with a reason, rejected', async () => {
    const ready = await stage('review_ready')
    for (const [verdict, state] of [
      ['approved', 'completed'],
      ['changes_requested', 'in_progress'],
      ['rejected', 'rejected'],
    ] as const) {
      const on = await again(ready)
      const { receipt } = await resolve(on, 'rita', verdict, 'Name it.')
      assert.equal(receipt.result, verdict)
      assert.equal((await on.task()).state, state)
      const { items } = await on.call('alice', 'review.list', { task_id: on.refs['task'].id })
      assert.deepEqual([items[0].reviewer, items[0].verdict, items[0].artifact_version], ['user_rita', verdict, 'v1'])
      const said = verdict === 'changes_requested' ? items[0].requested_changes : items[0].comments.map(({ body }: any) => body)
      assert.deepEqual(said, ['Name it.'])
      await assertMirrored(on.world)
    }
  })

  test('is not sent back without saying what to change', async () => {
    const on = await stage('review_ready')
    const input = { request_id: (await openItem(on)).id, result: 'changes_requested' }
    await on.refused('INVALID_RESULT', 'alice', 'execution/request.resolve', input)
    const { message } = await on.call('alice', 'execution/request.resolve', input).catch((error: Error) => error)
    assert.equal(message, 'reason is required: it says what to change')
  })

  test('a plan is approved or sent back', async () => {
    const on = await stage('in_progress')
    const payload = { kind: 'inline', uri: 'data:,x' }
    await on.call('devin', 'artifact.commit', { task_id: on.refs['task'].id, kind: 'plan', payload })
    assert.deepEqual((await openItem(on)).payload.options, ['approved', 'changes_requested'])
    await resolve(on, 'alice', 'approved')
    assert.deepEqual([(await on.task()).state, (await on.task()).plan_approved], ['in_progress', true])
    await assertMirrored(on.world)
  })

  test('a review of it closes the item; one of another artifact of the task is refused and leaves it open', async () => {
    const on = await stage('in_progress')
    const task_id = on.refs['task'].id
    const payload = { kind: 'inline', uri: 'data:,x' }
    const { artifact } = await on.call('devin', 'artifact.commit', { task_id, payload, final: false })
    assert.equal(await openItem(on).catch(() => null), null, 'what does not move the task waits for nobody')
    const { artifact: delivered } = await on.call('devin', 'artifact.commit', { task_id, payload })
    await on.refused('CONFLICT', 'rita', 'review.submit', { task_id, artifact_id: artifact.id, verdict: 'approved' })
    assert.equal((await openItem(on)).status, 'pending')
    await on.call('rita', 'review.submit', { task_id, artifact_id: delivered.id, verdict: 'approved' })
    const [item] = await itemsOf(on)
    assert.deepEqual([item.status, item.receipt.result, item.receipt.completed_by], ['completed', 'approved', 'user_rita'])
    await assertMirrored(on.world)
  })
})

describe('its people follow the task', () => {
  for (const name of ['blocked', 'review_ready']) {
    test(`${name}: reviewers and executors come and go`, async () => {
      const on = await stage(name)
      const task_id = on.refs['task'].id
      const people = async (): Promise<string[]> => (await openItem(on)).people
      await on.call('alice', 'reviewer.add', { task_id, user: 'user_bob' })
      assert.deepEqual(await people(), ['user_alice', 'user_rita', 'user_bob'])
      await on.call('alice', 'reviewer.remove', { task_id, user: 'user_rita' })
      assert.deepEqual(await people(), ['user_alice', 'user_bob'])
      await on.call('admin', 'ownership.transfer', { task_id, to: 'user_bob' })
      assert.deepEqual(await people(), ['user_alice'], 'nobody judges their own work')
      await on.refused('UNAUTHORIZED', 'bob', 'execution/request.resolve', { request_id: (await openItem(on)).id, result: 'approved' })
      const before = (await linesOf(on.world)).length
      await on.call('admin', 'ownership.transfer', { task_id, to: 'agent_robin' })
      assert.deepEqual(await people(), ['user_alice', 'user_bob'])
      await on.call('admin', 'ownership.transfer', { task_id, to: 'agent_devin' })
      const rerouted = (await linesOf(on.world)).slice(before).filter(({ action }) => action === 'execution/request.rerouted')
      assert.equal(rerouted.length, 1, 'what changes nobody leaves nothing')
      await assertMirrored(on.world)
    })
  }
})

test('concurrent answers of both sides, the clock and the end of the task: one wins, and both sides agree', async () => {
  const ready = await stage(raising({ kind: 'approval', expires_in: 'PT1H', on_expiry: 'escalate' }))
  const { id: request_id } = await openItem(ready)
  const checkpoint_id = ready.refs['checkpoint'].id
  const calls: Record<string, (on: Stage) => Promise<any>> = {
    item: (on) => on.call('alice', 'execution/request.resolve', { request_id, result: 'approved' }),
    'item by rita': (on) => on.call('rita', 'execution/request.resolve', { request_id, result: 'rejected' }),
    checkpoint: (on) => on.call('rita', 'checkpoint.resolve', { checkpoint_id, action: 'approve' }),
    expire: (on) => on.call('system', 'checkpoint.expire', { checkpoint_id }),
    cancel: (on) => on.call('alice', 'task.cancel', { task_id: on.refs['task'].id }),
  }
  await raceAll(ready, calls, async (on, won, message) => {
    const [item, ...others] = await itemsOf(on)
    assert.equal(item.id, request_id)
    assert.equal(item.receipt !== undefined, won.length > 0, message)
    assert.ok(others.length <= (won.includes('expire') ? 1 : 0))
    await assertMirrored(on.world)
  })
})

test('the item says what each answer, and no answer, will do', async () => {
  const effects = async (on: Stage): Promise<any> => {
    const { item } = await on.call('alice', 'execution/inbox.get', { request_id: (await openItem(on)).id })
    return item.effects
  }
  const said = async (input: object): Promise<any> => effects(await stage(raising(input)))
  const { approve, reject, timeout } = await said({ kind: 'approval', expires_in: 'PT1H', on_expiry: 'escalate' })
  assert.deepEqual([approve, reject], ['the task goes on', 'the task ends'])
  assert.match(timeout, /^at 2026-\S+ the next person of the task is asked$/)
  assert.match((await said({ kind: 'input' })).approve, /the value that you provide/)
  assert.equal((await said({ kind: 'input' })).timeout, 'it waits for an answer')
  assert.match((await said({ kind: 'choice', options: withRisks('low', 'low') })).reject, /Decline it with a reason/)
  assert.match((await said({ kind: 'escalation', options: withRisks('low', 'low') })).approve, /the option that you choose/)
  assert.match((await said({ kind: 'approval', expires_in: 'PT1H' })).timeout, /marked as overdue and goes on waiting/)
  assert.equal((await effects(await stage('review_ready'))).reject, 'the task ends as rejected')
  const on = await stage('in_progress')
  const payload = { kind: 'inline', uri: 'data:,x' }
  await on.call('devin', 'artifact.commit', { task_id: on.refs['task'].id, kind: 'plan', payload })
  assert.equal((await effects(on)).reject, 'not possible: a plan can only be sent back')
})

test('items of a task are in the inbox of everyone who is allowed to answer them, and only there', async () => {
  const on = await stage(raising({ kind: 'approval', context: [{ kind: 'text', text: 'All tests pass.' }] }))
  for (const [who, count] of [
    ['alice', 1],
    ['rita', 1],
    ['bob', 0],
    ['owner', 0],
  ] as const) {
    const { items } = await on.call(who, 'execution/inbox.list', {})
    assert.equal(items.length, count, who)
  }
  const { items } = await on.call('alice', 'execution/inbox.list', {})
  assert.deepEqual([items[0].title, items[0].reason], ['Well?', { text: 'All tests pass.', by_agent: true }])
  await on.call('rita', 'checkpoint.resolve', { checkpoint_id: on.refs['checkpoint'].id, action: 'approve' })
  assert.deepEqual((await on.call('alice', 'execution/inbox.list', {})).items, [])
})

test('only the system mirrors, reroutes and closes items', async () => {
  const on = await stage(raising({ kind: 'approval' }))
  const { id } = await openItem(on)
  for (const who of ['alice', 'owner', 'devin', 'admin', 'project']) {
    await on.refused('UNAUTHORIZED', who, 'execution/request.close', {
      request_id: id,
      status: 'completed',
      result: 'approved',
      basis: { kind: 'role', id: 'mine' },
    })
    await on.refused('UNAUTHORIZED', who, 'execution/request.reroute', { request_id: id, assigned_to: 'user_alice' })
  }
})
