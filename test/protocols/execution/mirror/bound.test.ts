// A request that names its task is a checkpoint of the task: the task waits for it, and whichever side is answered answers both.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { execution } from '#protocols/execution/index.ts'
import { HOUR_MS, linesOf, raceAll, stage, type Stage } from '../../../support/in-process/stage.ts'
import { assertMirrored, itemsOf, openItem } from '../../../support/in-process/items.ts'

const working = execution.scenes['task_in_progress']!
const decide = { action: 'DECIDE', payload: { question: 'Which colour?', options: ['Red', 'Blue'] } }
const approve = { action: 'APPROVE', payload: { item: 'Deploy?', details: {} } }
const provide = { action: 'PROVIDE', payload: { prompt: 'Which name?', input_type: 'text' } }

async function asked(what: object, more: object = {}, on?: Stage): Promise<Stage> {
  const made = on ?? (await stage(working))
  const { request } = await made.call('devin', 'execution/request.create', {
    ...what,
    ...more,
    metadata: { task_id: made.refs['task'].id },
  })
  made.refs['request'] = request
  return made
}
const checkpointOf = async (on: Stage, id: string = on.refs['request'].checkpoint_id): Promise<any> =>
  (await on.call('alice', 'checkpoint.get', { checkpoint_id: id })).checkpoint
const answer = (on: Stage, as: string, result: unknown, reason?: string) =>
  on.call(as, 'execution/request.resolve', { request_id: on.refs['request'].id, result, ...(reason ? { reason } : {}) })
const receiptOf = async (on: Stage): Promise<any> =>
  (await on.call('alice', 'execution/request.get', { request_id: on.refs['request'].id })).receipt
async function runOf(on: Stage): Promise<any> {
  const { items } = await on.call('admin', 'delegation/run.list', { task_id: on.refs['task'].id })
  return items.at(-1)
}

describe('asking within a task', () => {
  test('blocks the task and its run, and is one item, for the people of the task', async () => {
    const on = await asked(decide)
    const [item, ...others] = await itemsOf(on)
    assert.equal(others.length, 0)
    assert.deepEqual([item.kind, item.owner, item.people], ['request', 'user_alice', ['user_alice', 'user_rita']])
    const { kind, prompt, options, raised_by, request_id, expires_at } = await checkpointOf(on)
    assert.deepEqual([kind, prompt, raised_by, request_id, expires_at], ['choice', 'Which colour?', 'agent_devin', item.id, null])
    assert.deepEqual(
      options.map(({ id, label }: any) => [id, label]),
      [
        ['Red', 'Red'],
        ['Blue', 'Blue'],
      ],
    )
    assert.equal((await on.task()).state, 'blocked')
    assert.equal((await runOf(on)).state, 'blocked')
    await assertMirrored(on.world)
  })

  test('a claim is a choice of three for the task, whichever side is answered', async () => {
    const claim = { action: 'VERIFY', payload: { claim: 'It can be restored', evidence: [{ kind: 'text', text: '4,211 rows' }] } }
    for (const [i, verdict] of ['confirmed', 'refuted', 'cannot_tell'].entries()) {
      const on = await asked(claim)
      const { kind, prompt, options } = await checkpointOf(on)
      assert.deepEqual([kind, prompt, options[i].id, options.length], ['choice', 'It can be restored', verdict, 3])
      await answer(on, 'alice', verdict, 'I looked.')
      const { action, choice, comment } = (await checkpointOf(on)).resolution
      assert.deepEqual([action, choice, comment], ['choose', verdict, 'I looked.'])
      const there = await asked(claim)
      const checkpoint_id = there.refs['request'].checkpoint_id
      await there.call('alice', 'checkpoint.resolve', { checkpoint_id, action: 'choose', choice: verdict })
      assert.equal((await receiptOf(there)).result, verdict)
      assert.equal((await there.task()).state, 'in_progress')
    }
  })

  test('the risk of the request is that of its options', async () => {
    for (const [risk, word] of Object.entries({ R2: 'low', R3: 'medium', R5: 'high' })) {
      const { options } = await checkpointOf(await asked(decide, { risk }))
      assert.deepEqual(
        options.map((one: any) => one.risk),
        [word, word],
      )
    }
  })

  test('by the key of the project, for the agent that works on it', async () => {
    const on = await stage(working)
    const input = { ...approve, agent_id: 'agent_devin', metadata: { task_id: on.refs['task'].id } }
    const { request } = await on.call('project', 'execution/request.create', input)
    const { raised_by } = await checkpointOf(on, request.checkpoint_id)
    assert.equal(raised_by, 'agent_devin')
    await assertMirrored(on.world)
  })

  test('is not for another agent: its request is one of its own', async () => {
    const on = await stage(working)
    const { request } = await on.call('robin', 'execution/request.create', { ...approve, metadata: { task_id: on.refs['task'].id } })
    assert.equal(request.task_id, undefined)
    assert.equal((await on.task()).state, 'in_progress')
  })

  test('is refused if the task cannot wait, and nothing is stored', async () => {
    const on = await asked(approve)
    const again_ = { ...decide, metadata: { task_id: on.refs['task'].id } }
    await on.refused('PRECONDITION_FAILED', 'devin', 'execution/request.create', again_)
    await answer(on, 'alice', 'approved')
    await on.call('alice', 'task.extend', { task_id: on.refs['task'].id, deadline: '2026-01-02T00:00:00Z' })
    on.world.advance(48 * HOUR_MS)
    await on.refused('DEADLINE_EXCEEDED', 'devin', 'execution/request.create', again_)
  })

  test('no agent can raise a checkpoint behind a request of its choice, or answer one', async () => {
    const on = await asked(approve)
    const { task, request } = on.refs
    const forged = {
      task_id: task.id,
      checkpoint_id: 'ckpt_x',
      request_id: request.id,
      raised_by: 'agent_devin',
      kind: 'approval',
      prompt: '?',
    }
    for (const who of ['devin', 'alice', 'admin', 'owner']) await on.refused('UNAUTHORIZED', who, 'checkpoint.ask', forged)
    const answering = { checkpoint_id: request.checkpoint_id, action: 'approve' }
    await on.refused('UNAUTHORIZED', 'devin', 'checkpoint.settle', answering)
    await on.refused('PRECONDITION_FAILED', 'alice', 'checkpoint.settle', answering)
    // An agent's own checkpoint names no request.
    await answer(on, 'alice', 'approved')
    const raise = { task_id: task.id, kind: 'input', prompt: '?' }
    await on.refused('INVALID_REQUEST', 'devin', 'checkpoint.raise', { ...raise, request_id: request.id })
    assert.equal((await on.call('devin', 'checkpoint.raise', raise)).checkpoint.request_id, undefined)
    await assertMirrored(on.world)
  })

  test('is withdrawn by the people of the task alone', async () => {
    const on = await asked(approve)
    await on.refused('TASK_BOUND', 'devin', 'execution/request.cancel', { request_id: on.refs['request'].id })
  })
})

describe('the run continues with the answer to the request', () => {
  const answers: [string, object, unknown, object][] = [
    ['approved', approve, 'approved', { action: 'approve', comment: 'Because.' }],
    ['rejected (H6)', approve, 'rejected', { action: 'provide', input: 'rejected', comment: 'Because.' }],
    ['an option', decide, 'Blue', { action: 'choose', choice: 'Blue', comment: 'Because.' }],
    ['a text', provide, 'Ada', { action: 'provide', input: 'Ada', comment: 'Because.' }],
  ]
  for (const [name, what, result, resolution] of answers) {
    test(name, async () => {
      const on = await asked(what)
      const { receipt } = await answer(on, 'rita', result, 'Because.')
      assert.equal(receipt.result, result)
      const { by, at: _, ...said } = (await checkpointOf(on)).resolution
      assert.equal(by, 'user_rita')
      assert.deepEqual(said, resolution)
      assert.equal((await on.task()).state, 'in_progress', 'the task goes on')
      assert.equal((await runOf(on)).state, 'running')
      await assertMirrored(on.world)
    })
  }

  test('a secret is not copied into the task', async () => {
    const on = await asked({ action: 'PROVIDE', payload: { prompt: 'The key?', input_type: 'text', sensitive: true } })
    await answer(on, 'alice', 'hunter2')
    assert.equal((await checkpointOf(on)).resolution.input, JSON.stringify({ request_id: on.refs['request'].id }))
  })

  test('the card says what will happen', async () => {
    const on = await asked(approve, { timeout_seconds: 60, fallback: 'fail' })
    const { item } = await on.call('alice', 'execution/inbox.get', { request_id: on.refs['request'].id })
    assert.match(item.effects.approve, /^the agent may go ahead, and task task_\w+ goes on$/)
    assert.match(item.effects.reject, /^the agent may not go ahead, and task task_\w+ goes on$/)
    assert.match(item.effects.timeout, /nobody answered and goes on/)
  })
})

describe('without an answer in time', () => {
  test('on fail the run continues and gets the outcome', async () => {
    const on = await asked(approve, { timeout_seconds: 3_600, fallback: 'fail' })
    on.world.advance(2 * HOUR_MS)
    assert.deepEqual(await on.ring(), ['execution/request.expire'])
    const { by, action, input } = (await checkpointOf(on)).resolution
    assert.deepEqual([by, action, input], ['agent_system', 'provide', 'failed: timeout'])
    assert.equal((await on.task()).state, 'in_progress')
    const resolved = (await linesOf(on.world)).find((line) => line.action.endsWith('checkpoint.resolved'))
    assert.deepEqual([resolved.actor, resolved.basis], ['agent_system', { kind: 'timer', id: 'fallback/fail' }])
    assert.deepEqual([(await receiptOf(on)).status, (await receiptOf(on)).reason], ['failed', 'timeout'])
    await assertMirrored(on.world)
  })

  test('the default is taken, in the name of the principal', async () => {
    const payload = { ...decide.payload, default_option: 'Blue' }
    const on = await asked({ action: 'DECIDE', payload }, { timeout_seconds: 3_600, fallback: 'default' })
    on.world.advance(2 * HOUR_MS)
    await on.ring()
    const { by, action, choice } = (await checkpointOf(on)).resolution
    assert.deepEqual([by, action, choice], ['user_alice', 'choose', 'Blue'])
    const resolved = (await linesOf(on.world)).find((line) => line.action.endsWith('checkpoint.resolved'))
    assert.deepEqual([resolved.actor, resolved.behalf, resolved.basis.kind], ['agent_system', 'user_alice', 'default'])
    await assertMirrored(on.world)
  })

  test('not if the principal has said that nothing is taken by default', async () => {
    const on = await stage([
      { as: 'alice', call: 'collaboration/task.create', input: { spec: { goal: 'Fix it', constraints: { on_expiry: ['hold'] } } } },
      ...working.slice(1),
    ])
    const payload = { ...decide.payload, default_option: 'Blue' }
    const metadata = { task_id: on.refs['task'].id }
    const input = { action: 'DECIDE', payload, metadata, timeout_seconds: 60, fallback: 'default' }
    await on.refused('INVALID_SPEC', 'devin', 'execution/request.create', input)
  })

  test('on pause it is overdue, and waits', async () => {
    const on = await asked(approve, { timeout_seconds: 3_600 })
    on.world.advance(2 * HOUR_MS)
    await on.ring()
    assert.equal((await openItem(on)).overdue, true)
    assert.equal((await checkpointOf(on)).state, 'pending')
    await answer(on, 'alice', 'approved')
    await assertMirrored(on.world)
  })
})

describe('answered at the checkpoint', () => {
  const atCheckpoint = (on: Stage): object => ({ checkpoint_id: on.refs['request'].checkpoint_id })

  test('too late for the request is too late', async () => {
    const on = await asked(approve, { timeout_seconds: 3_600, fallback: 'fail' })
    on.world.advance(2 * HOUR_MS)
    await on.refused('EXPIRED', 'alice', 'execution/request.resolve', { request_id: on.refs['request'].id, result: 'approved' })
    await on.refused('CHECKPOINT_EXPIRED', 'alice', 'checkpoint.resolve', { ...atCheckpoint(on), action: 'approve' })
    assert.deepEqual(await on.ring(), ['execution/request.expire'])
    await assertMirrored(on.world)
  })

  test('a rejection has the reason that the request asks for', async () => {
    const on = await asked({ ...approve, payload: { ...approve.payload, reject_requires_reason: true } })
    await on.refused('INVALID_SPEC', 'alice', 'checkpoint.resolve', { ...atCheckpoint(on), action: 'reject' })
    await on.call('alice', 'checkpoint.resolve', { ...atCheckpoint(on), action: 'reject', comment: 'Not on a Friday.' })
    assert.equal((await receiptOf(on)).reason, 'Not on a Friday.')
    await assertMirrored(on.world)
  })

  const answers: [string, object, object, object, string][] = [
    ['approve', approve, { action: 'approve' }, { status: 'completed', result: 'approved' }, 'in_progress'],
    ['reject ends the task', approve, { action: 'reject' }, { status: 'completed', result: 'rejected' }, 'completed'],
    ['choose', decide, { action: 'choose', choice: 'Blue' }, { status: 'completed', result: 'Blue' }, 'in_progress'],
    ['provide', provide, { action: 'provide', input: 'Ada' }, { status: 'completed', result: 'Ada' }, 'in_progress'],
    [
      'reassign',
      approve,
      { action: 'reassign', reassign_to: 'agent_robin' },
      { status: 'cancelled', result: null, reason: 'reassigned' },
      'in_progress',
    ],
  ]
  // It ends the task: nobody has chosen or provided anything.
  const number = { action: 'PROVIDE', payload: { prompt: 'How many?', input_type: 'number' } }
  const secret = { action: 'PROVIDE', payload: { prompt: 'Which password?', input_type: 'text', sensitive: true } }
  for (const [what, message] of [
    [decide, 'a choice'],
    [provide, 'a text'],
    [number, 'a number'],
    [secret, 'a secret'],
  ] as const)
    answers.push([
      `reject of ${message} ends the task, and is no answer to the request`,
      what,
      { action: 'reject', comment: 'Not at all.' },
      { status: 'cancelled', result: null, reason: 'Not at all.' },
      'completed',
    ])
  for (const [name, what, resolution, expected, state] of answers) {
    test(name, async () => {
      const on = await asked(what)
      await on.call('rita', 'checkpoint.resolve', { checkpoint_id: on.refs['request'].checkpoint_id, ...resolution })
      const { status, result, reason, completed_by } = await receiptOf(on)
      assert.deepEqual({ status, result, ...(reason === undefined ? {} : { reason }) }, expected)
      assert.equal(completed_by, 'user_rita')
      assert.equal((await on.task()).state, state)
      await assertMirrored(on.world)
    })
  }

  test('a cancelled task cancels the request', async () => {
    const on = await asked(approve)
    await on.call('alice', 'task.cancel', { task_id: on.refs['task'].id })
    assert.deepEqual([(await receiptOf(on)).status, (await receiptOf(on)).reason], ['cancelled', 'task_cancelled'])
    await assertMirrored(on.world)
  })
})

describe('a question of the system ends the request without an answer', () => {
  const ended = async (on: Stage): Promise<any> => {
    const { status, result, reason, signature } = await receiptOf(on)
    assert.deepEqual([status, result, reason, typeof signature], ['cancelled', null, 'superseded', 'string'])
    const late = { request_id: on.refs['request'].id, result: 'approved' }
    const { message } = await on.refused('ALREADY_RESOLVED', 'alice', 'execution/request.resolve', late)
    assert.match(message, /^already closed: another question took its place, by system, /)
    const item = await openItem(on)
    assert.notEqual(item.id, on.refs['request'].id)
    assert.deepEqual(item.payload.details.supersedes.checkpoint_id, on.refs['request'].checkpoint_id)
    await assertMirrored(on.world)
    return item
  }

  test('when the deadline passes', async () => {
    const on = await stage(working)
    await on.call('alice', 'task.extend', { task_id: on.refs['task'].id, deadline: '2026-01-02T00:00:00Z' })
    await asked(decide, {}, on)
    on.world.advance(48 * HOUR_MS)
    assert.deepEqual(await on.ring(), ['collaboration/task.overdue'])
    const { id, action, payload } = await ended(on)
    assert.equal(action, 'APPROVE')
    assert.match(payload.item, /deadline has passed/)
    const yes = { request_id: id, result: 'approved' }
    await on.refused('DEADLINE_EXCEEDED', 'alice', 'execution/request.resolve', yes)
    await on.call('alice', 'task.extend', { task_id: on.refs['task'].id, deadline: null })
    await on.call('alice', 'execution/request.resolve', yes)
    assert.equal((await receiptOf(on)).result, null, 'the colour was not chosen by it')
    await assertMirrored(on.world)
  })

  for (const what of [approve, decide, provide]) {
    test(`when its run fails while it asks to ${what.action}: another try is approved, and nothing else`, async () => {
      const on = await asked(what)
      await on.call('system', 'delegation/run.fail', { run_id: (await runOf(on)).id, error: 'out of memory' })
      const { id } = await ended(on)
      await on.call('alice', 'execution/request.resolve', { request_id: id, result: 'approved' })
      assert.deepEqual([(await receiptOf(on)).status, (await receiptOf(on)).result], ['cancelled', null])
      const { request } = await on.call('devin', 'delegation/run.get', { run_id: (await runOf(on)).id })
      assert.equal(request.context.superseded, on.refs['request'].checkpoint_id)
      await assertMirrored(on.world)
    })
  }
})

describe('a checkpoint that replaces it keeps the request', () => {
  test('when the administrator ends it', async () => {
    const on = await asked(approve)
    await on.call('admin', 'checkpoint.expire', { checkpoint_id: on.refs['request'].checkpoint_id })
    assert.equal((await openItem(on)).id, on.refs['request'].id)
    const { item } = await on.call('rita', 'execution/inbox.get', { request_id: on.refs['request'].id })
    assert.equal(item.checkpoint_id, (await on.task()).pending_checkpoint, 'an item names the checkpoint that it stands for now')
    assert.notEqual(item.checkpoint_id, on.refs['request'].checkpoint_id)
    await answer(on, 'rita', 'approved')
    assert.equal((await on.task()).state, 'in_progress')
    await assertMirrored(on.world)
  })
})

test('concurrent answers of both sides, the deadline and the end of the task: one wins, with one receipt, and both sides agree', async () => {
  const ready = await asked(approve, { timeout_seconds: 3_600, fallback: 'fail' })
  const { id: request_id, checkpoint_id } = ready.refs['request']
  const calls: Record<string, (on: Stage) => Promise<any>> = {
    request: (on) => answer(on, 'alice', 'approved'),
    'request by rita': (on) => answer(on, 'rita', 'rejected'),
    checkpoint: (on) => on.call('rita', 'checkpoint.resolve', { checkpoint_id, action: 'approve' }),
    timeout: (on) => on.call('system', 'execution/request.expire', { request_id }),
    cancel: (on) => on.call('alice', 'task.cancel', { task_id: on.refs['task'].id }),
  }
  await raceAll(ready, calls, async (on, won, message) => {
    const ends = (await linesOf(on.world)).filter(({ action }) => /^execution\/request\.(completed|failed|cancelled)$/.test(action))
    assert.equal(ends.length, won.length > 0 ? 1 : 0, message)
    assert.equal((await checkpointOf(on)).state !== 'pending', won.length > 0)
    await assertMirrored(on.world)
  })
})
