// Sessions of other harnesses that are executed here: the order of messages, approvals, aborts, times, duplicates, tokens, artifacts.
import assert from 'node:assert/strict'
import { beforeEach, describe, test } from 'node:test'
import { END, keyOf } from '#kernel/declare/schema.ts'
import { limits } from '#kernel/limits.ts'
import { textOf } from '#protocols/harness/envelope.ts'
import { Session } from '#protocols/harness/schema.ts'
import { testNotary } from '../../support/in-process/notary.ts'
import { createWorld, stateHash, testHarness, type World } from '../../support/in-process/world.ts'
import { allSent, declaration, outgoing, receive, submission, uuid, wordOf } from '../../support/harness/messages.ts'

const HOUR = 3_600_000
const MINUTE = 60_000

describe('a session that is executed here', () => {
  let world: World
  beforeEach(async () => {
    world = await createWorld()
    await world.call('admin', 'harness/harness.declare', declaration)
    await world.call('admin', 'harness/harness.allow', { caller_id: 'lab-alpha', capabilities: ['*'], risk_max: 'R5', data_max: 'T4' })
  })
  const newest = async () => (await world.call('system', 'harness/harness.sessions', { role: 'callee', limit: 1 })).items[0]
  const session = async (id: string) => (await world.call('system', 'harness/harness.session', { session_id: id })).session
  async function submit(more: object = {}, message_id = uuid()) {
    assert.equal((await receive(world, 'lab-alpha', 'task_submit', submission(more), { message_id })).outcome, 'taken')
    return newest()
  }
  const said = async () => (await outgoing(world)).map(wordOf)
  const as = (verb: string, session_id: string, input: object = {}) =>
    world.call('devin', `harness/harness.${verb}`, { session_id, ...input })
  const hot = { inputs: { temperature: 850 } }
  const answer = (by: string, { id }: { id: string }, result: string) =>
    world.call(by, 'execution/request.resolve', { request_id: `hxp_${id}`, result, ...(result === 'rejected' ? { reason: 'No.' } : {}) })

  test('immediate acceptance: task_accepted, then session_created with number 1, and both carry the token', async () => {
    const { id, submit_id } = await submit()
    const [accepted, created] = await outgoing(world)
    assert.deepEqual(await said(), ['task_accepted', '1 session_created'])
    assert.equal(accepted!.key, `lab-alpha.${id}.task_accepted`)
    const { session_token, ...rest } = accepted!.envelope.payload
    assert.deepEqual(rest, {
      risk_level: 'R1',
      data_classification: 'T1',
      safety_envelope: declaration.safety_envelope,
      constraints: { max_duration: 'PT2H', abort_timeout: 'PT30S' },
      in_reply_to: submit_id,
    })
    assert.equal((created!.envelope.payload['data'] as { session_token: string }).session_token, session_token)
    const claims = (await testNotary.granted(session_token as string))!
    assert.deepEqual(
      [claims['sub'], claims['aud'], claims['sid'], claims['risk'], claims['data'], claims['cap']],
      ['lab-alpha', 'lab-own', id, 'R1', 'T1', 'synthesis'],
    )
    assert.equal((claims['exp'] as number) - (claims['iat'] as number), 2 * 3_600)
    assert.equal(await testNotary.verify(session_token as string), null, 'no receipt passes for one')
  })

  test('after a wait: awaiting_human first, then task_accepted and session_created with number 2', async () => {
    const waiting = await submit(hot)
    assert.deepEqual([waiting.state, waiting.waiting_for, waiting.risk_level], ['PENDING', 'human', 'R4'])
    const [asked] = await outgoing(world)
    const { deadline, ...data } = asked!.envelope.payload['data'] as Record<string, unknown>
    assert.deepEqual(data, { from_state: 'PENDING', to_state: 'PENDING', reason: 'awaiting_human' })
    assert.ok(typeof deadline === 'string')
    assert.equal(asked!.envelope.payload['in_reply_to'], waiting.submit_id)
    const { request } = await world.call('alice', 'execution/request.get', { request_id: `hxp_${waiting.id}` })
    const { details } = request.payload
    assert.deepEqual(
      [details.session_id, details.caller_id, details.capability, details.intent, details.risk_level],
      [waiting.id, 'lab-alpha', 'synthesis', 'Grow a film.', 'R4'],
    )
    await answer('alice', waiting, 'approved')
    assert.deepEqual(await said(), ['1 state_changed', 'task_accepted', '2 session_created'])
    assert.equal((await session(waiting.id)).state, 'RUNNING')
  })

  test('immediate rejection sends task_rejected alone, and a rejection after a wait session_closed as well', async () => {
    await submit({ capability_version: '^9.0.0' })
    assert.deepEqual(await said(), ['task_rejected'])
    const waiting = await submit(hot)
    await answer('alice', waiting, 'rejected')
    const own = (await outgoing(world)).filter((one) => one.session === waiting.id)
    assert.deepEqual(own.map(wordOf), ['1 state_changed', 'task_rejected', '2 session_closed'])
    assert.equal(own[1]!.envelope.payload['reason_code'], 'approval_denied')
    assert.deepEqual(own[2]!.envelope.payload['data'], { final_state: 'REJECTED', reason: 'approval_denied' })
  })

  test('agents answer nothing, and neither does a person who is not asked', async () => {
    const waiting = await submit(hot)
    for (const who of ['devin', 'robin', 'rita', 'mallory']) await assert.rejects(answer(who, waiting, 'approved'), who)
    assert.equal((await session(waiting.id)).state, 'PENDING')
  })

  test('R5 needs two of the approvers, and fewer than two are refused at declare', async () => {
    const r5 = { ...declaration, capability: { ...declaration.capability, safety: { requires_human_approval: false, risk_floor: 'R5' } } }
    await assert.rejects(world.call('admin', 'harness/harness.declare', { ...r5, approvers: ['user_alice'] }), { code: 'INVALID_REQUEST' })
    await world.call('admin', 'harness/harness.declare', { ...r5, approvers: ['user_alice', 'user_rita', 'user_bob'] })
    const waiting = await submit()
    await answer('alice', waiting, 'approved')
    assert.equal((await session(waiting.id)).state, 'PENDING')
    await assert.rejects(answer('alice', waiting, 'approved'))
    await answer('bob', waiting, 'approved')
    assert.equal((await session(waiting.id)).state, 'RUNNING')
  })

  test('rules for approvals narrow the approvers of a capability, and replace an owner who is its only one', async () => {
    const by = { people: ['user_rita', 'user_bob'] }
    const rule = { from_risk: 'R4', by, excludes: ['agent_owner'] }
    await world.call('owner', 'execution/policy.set', { project_id: 'project_default', approvals: [rule] })
    const peopleOf = async ({ id }: any): Promise<string[]> =>
      (await world.call('owner', 'execution/request.get', { request_id: `hxp_${id}` })).request.people
    await world.call('admin', 'harness/harness.declare', declaration)
    const usual = await submit(hot)
    assert.deepEqual(await peopleOf(usual), ['user_rita', 'user_bob'])
    await assert.rejects(answer('alice', usual, 'approved'), { code: 'UNAUTHORIZED' })
    await answer('rita', usual, 'approved')
    assert.equal((await session(usual.id)).state, 'RUNNING')
    await world.call('admin', 'harness/harness.declare', { ...declaration, approvers: ['user_alice', 'user_bob'] })
    assert.deepEqual(await peopleOf(await submit(hot)), ['user_bob'])
  })

  test('a timeout never approves', async () => {
    const waiting = await submit(hot)
    world.advance(2 * HOUR)
    await world.call('system', 'harness/harness.expire', { session_id: waiting.id })
    const { state, rejection } = await session(waiting.id)
    assert.deepEqual([state, rejection.reason_code], ['REJECTED', 'approval_denied'])
    assert.match(rejection.reason_message, /PT1H/)
    await assert.rejects(answer('alice', waiting, 'approved'))
  })

  test('numbers have no gaps, and session_closed is the last', async () => {
    const { id } = await submit()
    await as('report', id, { event_type: 'progress', data: { stage: 'heating', percent: 10 } })
    await as('report', id, { event_type: 'intermediate_result', data: { result_type: 'layer', data: 1, is_partial: true } })
    await as('report', id, { event_type: 'log', data: { level: 'info', message: 'Hot.' } })
    await as('report', id, { event_type: 'warning', data: { code: 'drift', message: 'It drifts.' } })
    await as('report', id, { event_type: 'error', data: { code: 'gas', message: 'No gas.', recoverable: true } })
    await as('pause', id)
    await as('resume', id)
    await as('snapshot', id, { description: 'half', state: { layer: 1 } })
    await as('complete', id, { outputs: { thickness: 3 } })
    assert.deepEqual(await said(), [
      'task_accepted',
      '1 session_created',
      '2 progress',
      '3 intermediate_result',
      '4 log',
      '5 warning',
      '6 error',
      '7 state_changed',
      '8 state_changed',
      '9 checkpoint_created',
      'task_completed',
      '10 session_closed',
    ])
    const completed = (await outgoing(world)).find((one) => one.envelope.type === 'task_completed')!
    const { execution_summary } = completed.envelope.payload as { execution_summary: Record<string, unknown> }
    assert.deepEqual(Object.keys(execution_summary).toSorted(), [
      'checkpoints_created',
      'duration',
      'risk_events',
      'steps_executed',
      'warnings',
    ])
    await assert.rejects(as('report', id, { event_type: 'log', data: { level: 'info', message: 'Late.' } }), {
      code: 'PRECONDITION_FAILED',
    })
  })

  test('events whose data is not what their type asks for are refused', async () => {
    const { id } = await submit()
    for (const [event_type, data] of [
      ['progress', {}],
      ['progress', { stage: 'x', percent: 101 }],
      ['log', { level: 'loud', message: 'x' }],
      ['warning', { message: 'x' }],
      ['error', { code: 7, message: 'x' }],
      ['session_closed', { final_state: 'COMPLETED' }],
      ['tool_start', {}],
    ] as const)
      await assert.rejects(as('report', id, { event_type, data }), { code: 'INVALID_REQUEST' }, event_type)
  })

  test('a submission that comes again is answered with the same bytes, and another under its id is put aside', async () => {
    const message_id = uuid()
    await submit({}, message_id)
    const [first] = await outgoing(world)
    const again = () => receive(world, 'lab-alpha', 'task_submit', submission(), { message_id })
    const answers = async () =>
      (await outgoing(world)).filter(({ envelope }) => envelope.type === 'task_accepted').map(({ envelope }) => textOf(envelope))
    // An answer that has not left yet is not put into the outbox twice.
    assert.equal((await again()).outcome, 'duplicate')
    assert.equal((await answers()).length, 1)
    await allSent(world)
    assert.equal((await again()).outcome, 'duplicate')
    assert.deepEqual(await answers(), [textOf(first!.envelope)])
    const other = await receive(world, 'lab-alpha', 'task_submit', submission({ intent: 'Another.' }), { message_id })
    assert.deepEqual([other.outcome, other.reason], ['dead', 'message_id_reused'])
    assert.equal((await world.call('system', 'harness/harness.sessions', { role: 'callee' })).items.length, 1)
  })

  test('a broker user without rights gets a bounded number of answers, sessions and attempts', async () => {
    const sessions = async () => (await world.store.keys(keyOf(Session, ''), keyOf(Session, '') + END, 1_000)).length
    const spoofed = () => receive(world, 'lab-evil', 'task_submit', submission())
    const forbidden = () => receive(world, 'lab-poor', 'task_submit', submission({ caller_id: 'lab-poor' }))
    for (const [send, made] of [
      [spoofed, 0],
      [forbidden, limits.harnessStrangersPerMinute],
    ] as const) {
      const [before, unsent] = [await sessions(), (await outgoing(world)).length]
      const outcomes: string[] = []
      for (let i = 0; i < limits.harnessStrangersPerMinute + 20; i++) outcomes.push((await send()).outcome)
      assert.equal(outcomes.filter((one) => one === 'taken').length, limits.harnessStrangersPerMinute)
      assert.equal(outcomes.filter((one) => one === 'dropped').length, 20)
      assert.equal((await outgoing(world)).length - unsent, limits.harnessStrangersPerMinute)
      assert.ok((await outgoing(world)).every(({ stranger }) => stranger === true))
      assert.equal((await sessions()) - before, made)
    }
    // Others are answered all the same, and so is the stranger a minute later.
    assert.equal((await receive(world, 'lab-alpha', 'task_submit', submission())).outcome, 'taken')
    world.advance(61_000)
    assert.equal((await spoofed()).outcome, 'taken')
  })

  test('the sender of an unreadable submission gets an answer if it is allowed to submit here', async () => {
    const refuse = (user_id: string) =>
      world.call('system', 'harness/message.refuse', { user_id, message_id: uuid(), detail: 'hcp_version must be MAJOR.MINOR' })
    assert.deepEqual(
      [await refuse('lab-evil'), await refuse('Lab.Evil'), await refuse('lab-alpha')],
      [{ told: false }, { told: false }, { told: true }],
    )
    const [told] = await outgoing(world)
    assert.match(told!.key, /^lab-alpha\./)
    assert.equal(told!.envelope.payload['reason_code'], 'invalid_message')
  })

  test('a message that cannot be taken is counted, until it is put aside', async () => {
    const message_id = uuid()
    for (const tries of [1, 2, 3, 4, 5]) assert.deepEqual(await world.call('system', 'harness/message.tried', { message_id }), { tries })
    assert.deepEqual(await world.call('system', 'harness/message.tried', { message_id }), { tries: 1 })
  })

  test('a spoofed caller is answered where it really is, and makes no session', async () => {
    assert.equal((await receive(world, 'lab-evil', 'task_submit', submission())).outcome, 'taken')
    const [told] = await outgoing(world)
    assert.match(told!.key, /^lab-evil\.[0-9a-f-]{36}\.task_rejected$/)
    assert.equal(told!.envelope.payload['reason_code'], 'unauthorized')
    assert.equal((await receive(world, null, 'task_submit', submission())).outcome, 'taken')
    assert.equal((await world.call('system', 'harness/harness.sessions', { role: 'callee' })).items.length, 0)
  })

  test('an abort is its caller’s alone, with its own token if it shows one', async () => {
    const [one, two] = [await submit(), await submit()]
    const accepted = (await outgoing(world)).filter(({ envelope }) => envelope.type === 'task_accepted')
    const tokenOf = (id: string) => accepted.find(({ session: of }) => of === id)!.envelope.payload['session_token']
    const abort = (user: string | null, session_id: string, payload: object = {}) => receive(world, user, 'abort', payload, { session_id })
    assert.equal((await abort('lab-evil', one.id)).reason, 'foreign_session')
    assert.equal((await abort(null, one.id)).reason, 'unauthorized')
    assert.equal((await abort('lab-alpha', uuid())).reason, 'unknown_session')
    assert.equal((await abort('lab-alpha', one.id, { session_token: tokenOf(two.id) })).reason, 'invalid_token')
    assert.equal((await abort('lab-alpha', one.id, { session_token: 'stolen' })).reason, 'invalid_token')
    assert.equal((await session(one.id)).state, 'RUNNING')
    assert.equal((await abort('lab-alpha', one.id, { session_token: tokenOf(one.id) })).outcome, 'taken')
    assert.ok(['ABORTING', 'ABORTED'].includes((await session(one.id)).state))
    assert.equal((await abort('lab-alpha', two.id)).outcome, 'taken')
  })

  test('an abort while people are asked ends immediately, and later answers count for nothing', async () => {
    const waiting = await submit(hot)
    await receive(world, 'lab-alpha', 'abort', { reason: 'Never mind.' }, { session_id: waiting.id })
    assert.equal((await session(waiting.id)).state, 'ABORTED')
    assert.deepEqual(await said(), ['1 state_changed', '2 session_closed'])
    await assert.rejects(answer('alice', waiting, 'approved'))
  })

  async function taken(id: string): Promise<number> {
    const { items } = await world.call('devin', 'delegation/mailbox.take', { worker: 'w1' })
    return items.find(({ run }: any) => run.session_id === id).attempt
  }

  test('an abort lasts until the work is put down, at most abort_timeout, and is neither completed nor failed', async () => {
    for (const [how, reason] of [
      ['complete', 'completed_while_aborting'],
      ['fail', 'failed_while_aborting'],
      ['time', 'abort_timeout'],
    ] as const) {
      const { id } = await submit()
      const attempt = await taken(id)
      await receive(world, 'lab-alpha', 'abort', {}, { session_id: id })
      assert.equal((await session(id)).state, 'ABORTING')
      if (how === 'complete') await as('complete', id, { attempt, outputs: {} })
      if (how === 'fail') await as('fail', id, { attempt, error_code: 'execution_error', error_message: 'It ended.' })
      if (how === 'time') {
        world.advance(MINUTE)
        await world.call('system', 'harness/harness.expire', { session_id: id })
      }
      const ended = await session(id)
      assert.deepEqual([ended.state, ended.reason], ['ABORTED', reason])
      const own = (await outgoing(world)).filter((one) => one.session === id).map(wordOf)
      assert.deepEqual(own.slice(-2), ['2 state_changed', '3 session_closed'])
    }
  })

  test('beyond its time a session fails with timeout, from PAUSED by RUNNING', async () => {
    const { id } = await submit({ constraints: { max_duration: 'PT1H' } })
    await as('pause', id)
    world.advance(HOUR + MINUTE)
    await world.call('system', 'harness/harness.expire', { session_id: id })
    const { state, error } = await session(id)
    assert.deepEqual([state, error.error_code], ['FAILED', 'timeout'])
    assert.deepEqual((await said()).slice(-4), ['2 state_changed', '3 state_changed', 'task_failed', '4 session_closed'])
  })

  test('a failure carries its code, partial outputs, the last snapshot and whether it may be retried', async () => {
    const { id } = await submit()
    const { checkpoint_id } = await as('snapshot', id, { state: { layer: 1 } })
    await as('fail', id, {
      error_code: 'resource_unavailable',
      error_message: 'No gas.',
      error_details: { phase: 'growth', step: 2 },
      partial_outputs: { layers: 1 },
    })
    const { payload } = (await outgoing(world)).find(({ envelope }) => envelope.type === 'task_failed')!.envelope
    assert.deepEqual(
      [payload['error_code'], payload['partial_outputs'], payload['retryable']],
      ['resource_unavailable', { layers: 1 }, true],
    )
    assert.deepEqual(payload['error_details'], { last_checkpoint: checkpoint_id, recoverable: true, phase: 'growth', step: 2 })
    const again = await submit({ resume_from: { session_id: id } })
    assert.equal(again.state, 'RUNNING')
    const { items } = await world.call('devin', 'delegation/mailbox.take', { worker: 'w1' })
    const { request } = items.find(({ run }: any) => run.session_id === again.id)
    assert.deepEqual(request.input.snapshot, { checkpoint_id, state: { layer: 1 } })
    const foreign = await receive(world, 'lab-alpha', 'task_submit', submission({ resume_from: { session_id: uuid() } }))
    assert.equal(foreign.outcome, 'taken')
    assert.equal((await newest()).rejection.reason_code, 'invalid_input')
    await assert.rejects(as('fail', again.id, { error_code: 'tired', error_message: 'x' }), { code: 'INVALID_REQUEST' })
  })

  test('a new attempt says recovered_from_checkpoint before anything else, and the old one is refused', async () => {
    const { id } = await submit()
    const first = await taken(id)
    const { checkpoint_id } = await as('snapshot', id, { attempt: first, state: { layer: 1 } })
    world.advance(HOUR)
    const second = await taken(id)
    assert.equal(second, first + 1)
    await assert.rejects(as('report', id, { attempt: first, event_type: 'log', data: { level: 'info', message: 'x' } }), {
      code: 'CONFLICT',
    })
    await assert.rejects(as('snapshots', id, { attempt: first }), { code: 'CONFLICT' })
    assert.deepEqual((await as('snapshots', id, { attempt: second })).items[0].state, { layer: 1 })
    await as('report', id, { attempt: second, event_type: 'log', data: { level: 'info', message: 'x' } })
    const [recovered, log] = (await outgoing(world)).slice(-2)
    assert.deepEqual(recovered!.envelope.payload['data'], {
      from_state: 'RUNNING',
      to_state: 'RUNNING',
      reason: 'recovered_from_checkpoint',
      checkpoint_id,
    })
    assert.equal(wordOf(log!), '4 log')
  })

  test('the declaration bounds the sessions, also for two concurrent submissions', async () => {
    await world.call('admin', 'harness/harness.declare', {
      ...declaration,
      capability: { ...declaration.capability, constraints: { concurrent_limit: 1 } },
    })
    await Promise.all([1, 2, 3].map(() => receive(world, 'lab-alpha', 'task_submit', submission())))
    const { items } = await world.call('system', 'harness/harness.sessions', { role: 'callee' })
    assert.deepEqual(items.map((one: any) => one.rejection?.reason_code ?? one.state).toSorted(), ['RUNNING', 'busy', 'busy'])
  })

  test('the guard allows what the envelope allows, and nothing that it does not name', async () => {
    const { id } = await submit()
    assert.deepEqual(await as('guard', id, { parameter: 'temperature', value: 900 }), { allowed: true })
    assert.deepEqual(await as('guard', id, { action: 'heat' }), { allowed: true })
    for (const input of [
      { parameter: 'temperature', value: 901 },
      { parameter: 'temperature', value: -1 },
      { parameter: 'pressure', value: 1 },
      { action: 'vent' },
    ])
      await assert.rejects(as('guard', id, input), { code: 'SAFETY_VIOLATION' }, JSON.stringify(input))
    for (const input of [
      { parameter: 'temperature', value: 'hot' },
      { parameter: 'temperature' },
      {},
      { action: 'heat', emergency: 'fire' },
    ])
      await assert.rejects(as('guard', id, input), { code: 'INVALID_REQUEST' }, JSON.stringify(input))
    assert.deepEqual(await as('guard', id, { emergency: 'fire' }), { procedure: 'Close the gas.' })
    const warning = (await outgoing(world)).at(-1)!.envelope.payload as { event_type: string; data: { code: string } }
    assert.deepEqual([warning.event_type, warning.data.code], ['warning', 'emergency'])
    // The summary names each refused step.
    await as('complete', id, { outputs: {} })
    const risks = (await session(id)).execution_summary.risk_events.map(({ at, message, ...rest }: any) => (assert.ok(at), rest))
    assert.deepEqual(risks, [
      { kind: 'safety_violation', parameter: 'temperature', value: 901 },
      { kind: 'safety_violation', parameter: 'temperature', value: -1 },
      { kind: 'safety_violation', parameter: 'pressure', value: 1 },
      { kind: 'safety_violation', action: 'vent' },
      { kind: 'emergency', emergency: 'fire' },
    ])
  })

  test('outputs that are not what was asked for are refused, and change nothing', async () => {
    const { id } = await submit({
      expected_output: { required_fields: ['thickness'], schema: { properties: { thickness: { type: 'number' } } } },
    })
    for (const outputs of [{}, { thickness: 'thick' }]) await assert.rejects(as('complete', id, { outputs }), { code: 'INVALID_OUTPUT' })
    assert.equal((await session(id)).state, 'RUNNING')
    await as('complete', id, { outputs: { thickness: 3 } })
  })

  test('artifacts are fetched with the token of the session or a ticket, and their access is written down', async () => {
    const { id } = await submit({ constraints: { data_classification: 'T2' } })
    const other = await submit()
    const tokens = (await outgoing(world)).flatMap(({ session: of, envelope }) =>
      envelope.type === 'task_accepted' ? [[of, envelope.payload['session_token']]] : [],
    )
    const tokenOf = Object.fromEntries(tokens) as Record<string, string>
    await as('complete', id, {
      outputs: {},
      artifacts: [
        { name: 'log.txt', type: 'text/plain', text: 'Done.' },
        { name: 'raw', blob: 'AAEC' },
      ],
    })
    const { artifacts } = await session(id)
    assert.deepEqual(
      artifacts.map(({ name, uri, size_bytes }: any) => [name, uri, size_bytes]),
      [
        ['log.txt', `hcp://${id}/artifacts/log.txt`, 5],
        ['raw', `hcp://${id}/artifacts/raw`, 3],
      ],
    )
    const fetch = (input: object) => world.call('system', 'harness/harness.fetch', { session_id: id, name: 'log.txt', ...input })
    assert.deepEqual(await fetch({ token: tokenOf[id]! }), { type: 'text/plain', text: 'Done.', blob: null })
    assert.equal((await fetch({ name: 'raw', token: tokenOf[id]! })).blob, 'AAEC')
    const query = new URL(artifacts[0].url).searchParams
    const ticket = { until: query.get('until')!, ticket: query.get('ticket')! }
    assert.equal((await fetch(ticket)).text, 'Done.')
    await assert.rejects(fetch({ ...ticket, name: 'raw' }), { code: 'UNAUTHENTICATED' })
    await assert.rejects(fetch({ ...ticket, until: '2030-01-01T00:00:00.000Z' }), { code: 'UNAUTHENTICATED' })
    await assert.rejects(fetch({ token: tokenOf[other.id]! }), { code: 'UNAUTHORIZED' })
    await assert.rejects(fetch({ token: 'stolen' }), { code: 'UNAUTHENTICATED' })
    await assert.rejects(fetch({}), { code: 'UNAUTHENTICATED' })
    await assert.rejects(fetch({ name: 'nothing', token: tokenOf[id]! }), { code: 'NOT_FOUND' })
    const facts = await world.store.facts({ by: 'scope', scope: 'project_default' }, { after: null, limit: 1_000 })
    assert.equal(facts.filter(({ line }) => line.includes('harness/artifact.fetched')).length, 3)
    world.advance(3 * HOUR)
    await assert.rejects(fetch({ token: tokenOf[id]! }), { code: 'UNAUTHENTICATED' })
    assert.equal((await fetch(ticket)).text, 'Done.')
    world.advance(7 * 24 * HOUR - 3 * HOUR)
    await assert.rejects(fetch(ticket), { code: 'UNAUTHENTICATED' })
  })

  test('confidential data is sealed everywhere, and handed out to those who are allowed to read it', async () => {
    const SECRET = 'melting-point-of-unobtainium'
    const { id } = await submit({
      intent: SECRET,
      inputs: { temperature: 700, secret: SECRET },
      constraints: { data_classification: 'T3' },
    })
    const { items } = await world.call('devin', 'delegation/mailbox.take', { worker: 'w1' })
    const { request, attempt } = items.find(({ run }: any) => run.session_id === id)
    assert.equal(request.input.inputs.secret, SECRET)
    await as('report', id, { attempt, event_type: 'log', data: { level: 'info', message: SECRET } })
    await as('snapshot', id, { attempt, state: { secret: SECRET } })
    await as('complete', id, { attempt, outputs: { secret: SECRET }, artifacts: [{ name: 'a.txt', type: 'text/plain', text: SECRET }] })
    const keys = await world.store.keys('', END, 10_000)
    const rows = await world.store.read(keys)
    for (const [i, row] of rows.entries()) assert.ok(!JSON.stringify(row!.value).includes(SECRET), keys[i] ?? '')
    assert.equal((await session(id)).outputs.secret, SECRET)
    const events = (await world.call('system', 'harness/harness.events', { session_id: id })).items
    assert.equal(events.find((one: any) => one.event_type === 'log').data.message, SECRET)
    assert.equal((await as('snapshots', id)).items[0].state.secret, SECRET)
  })

  test('T4 always asks a person', async () => {
    const waiting = await submit({ constraints: { data_classification: 'T4' } })
    assert.deepEqual([waiting.state, waiting.waiting_for], ['PENDING', 'human'])
  })

  test('a declaration is on the card of its agent and in discovery until it is withdrawn', async () => {
    const found = async () => {
      const { items } = await world.call('alice', 'delegation/agent.discover', {})
      return JSON.stringify(items.find((one: any) => (one.agent_id ?? one.id) === 'agent_devin') ?? null)
    }
    assert.match(await found(), /"synthesis"/)
    assert.doesNotMatch(await found(), /raise_to|prohibited_actions/)
    await world.call('admin', 'harness/harness.withdraw', { capability: 'synthesis' })
    assert.doesNotMatch(await found(), /"synthesis"/)
  })

  test('a started session keeps the permissions and the declaration that it started with', async () => {
    const { id } = await submit()
    await world.call('admin', 'harness/harness.disallow', { caller_id: 'lab-alpha' })
    await world.call('admin', 'harness/harness.withdraw', { capability: 'synthesis' })
    await as('complete', id, { outputs: {} })
    assert.equal((await session(id)).state, 'COMPLETED')
    assert.equal((await submit()).rejection.reason_code, 'forbidden')
  })

  test('a session shows neither its token nor what is sealed of it', async () => {
    const { id } = await submit()
    const shown = JSON.stringify([await session(id), (await world.call('system', 'harness/harness.events', { session_id: id })).items])
    assert.ok(!shown.includes('session_token') && !shown.includes('eyJ'))
    for (const name of [
      'session_id',
      'role',
      'state',
      'reason',
      'waiting_for',
      'risk_level',
      'caller_id',
      'callee_id',
      'submit_id',
      'capability',
      'created_at',
      'updated_at',
      'last_processed_sequence',
      'missing_sequences',
      'outputs',
      'outputs_valid',
      'partial_outputs',
      'error_details',
      'execution_summary',
      'rejection',
    ])
      assert.ok(name in (await session(id)), name)
  })

  test('without proof of senders an abort needs the token', async () => {
    world = await createWorld({ terms: { harness: { ...testHarness, checksSenders: false } } })
    await world.call('admin', 'harness/harness.declare', declaration)
    await world.call('admin', 'harness/harness.allow', { caller_id: 'lab-alpha' })
    await receive(world, null, 'task_submit', submission())
    const { id } = await newest()
    const token = (await outgoing(world))[0]!.envelope.payload['session_token']
    assert.equal((await receive(world, null, 'abort', {}, { session_id: id })).reason, 'invalid_token')
    assert.equal((await receive(world, null, 'abort', { session_token: token }, { session_id: id })).outcome, 'taken')
    await world.call('admin', 'harness/harness.allow', { caller_id: 'lab-alpha', risk_max: 'R4' })
    await receive(world, null, 'task_submit', submission({ inputs: { temperature: 850 } }))
    const waiting = await newest()
    assert.equal(waiting.waiting_for, 'human')
    assert.equal((await receive(world, null, 'abort', {}, { session_id: waiting.id })).outcome, 'taken')
    assert.equal((await session(waiting.id)).state, 'ABORTED')
  })
})

describe('declarations that cannot be', () => {
  const offer = (more: object) => ({
    name: 'a',
    version: '1.0.0',
    description: 'Does it.',
    safety: { requires_human_approval: false },
    ...more,
  })
  for (const [field, capability] of [
    ['capability.description', offer({ description: undefined })],
    ['capability.safety', offer({ safety: undefined })],
    ['capability.safety.requires_human_approval', offer({ safety: { risk_ceiling: 'R4' } })],
  ] as const)
    test(`one without ${field} is refused with the field, and changes nothing`, async () => {
      const world = await createWorld()
      const before = await stateHash(world.store)
      const input = JSON.parse(JSON.stringify({ agent_id: 'agent_devin', capability })) as object
      await assert.rejects(world.call('admin', 'harness/harness.declare', input), (error: any) => {
        assert.deepEqual([error.code, error.details?.field], ['INVALID_REQUEST', field])
        return true
      })
      assert.equal(await stateHash(world.store), before)
    })

  const refused: [string, object][] = [
    [
      'a ceiling below the floor',
      { capability: offer({ safety: { requires_human_approval: false, risk_floor: 'R3', risk_ceiling: 'R2' } }) },
    ],
    ['a rule of R5 with one approver', { risk_rules: [{ path: 'x', op: '>', value: 1, raise_to: 'R5' }], approvers: ['user_alice'] }],
    ['a floor of R5 with one approver', { capability: offer({ safety: { requires_human_approval: false, risk_floor: 'R5' } }) }],
    ['a time zone that is none', { context_rules: [{ kind: 'hours', from: '22:00', to: '06:00', zone: 'Mars/Base', raise_to: 'R3' }] }],
    ['an hour that is none', { context_rules: [{ kind: 'hours', from: '25:00', to: '06:00', zone: 'UTC', raise_to: 'R3' }] }],
    ['a duration that is none', { abort_timeout: 'soon' }],
    ['a version that is none', { capability: offer({ version: 'new' }) }],
    ['a schema that is none', { capability: offer({ input_schema: { type: 7 } }) }],
    ['a risk that is none', { capability: offer({ safety: { requires_human_approval: false, risk_ceiling: 'R9' } }) }],
    ['an operator that is none', { risk_rules: [{ path: 'x', op: '~', value: 1, raise_to: 'R2' }] }],
    ['an approver that is an agent', { approvers: ['agent_robin'] }],
    ['bounds the wrong way round', { safety_envelope: { parameters: { t: { min: 2, max: 1 } } } }],
    ['an ask_from that asks later', { ask_from: 'R5' }],
  ]
  for (const [message, more] of refused)
    test(`${message} is refused, and changes nothing`, async () => {
      const world = await createWorld()
      await assert.rejects(world.call('admin', 'harness/harness.declare', { ...declaration, ...more }), { code: 'INVALID_REQUEST' })
      assert.deepEqual((await world.call('admin', 'harness/harness.capabilities', {})).items, [])
    })
  test('a rule is held against its kind, and the refusal names the field', async () => {
    const world = await createWorld()
    const hours = { kind: 'hours', from: '25:00', to: '06:00', zone: 'UTC', raise_to: 'R3' }
    await assert.rejects(world.call('admin', 'harness/harness.declare', { ...declaration, context_rules: [hours] }), {
      message: /^context_rules\.0\.from must be a time of the day/,
    })
    const resource = { kind: 'resource', raise_to: 'R3' }
    await assert.rejects(world.call('admin', 'harness/harness.declare', { ...declaration, context_rules: [resource] }), {
      message: 'context_rules.0.resource is required',
    })
  })
  test('ids with dots, stars or capitals are none', async () => {
    const world = await createWorld()
    for (const caller_id of ['lab.a', 'lab*', 'Lab', '-lab', 'a'.repeat(64), '']) {
      await assert.rejects(world.call('admin', 'harness/harness.allow', { caller_id }), { code: 'INVALID_REQUEST' }, caller_id)
      await assert.rejects(world.call('alice', 'harness/harness.submit', { callee_id: caller_id, capability: 'a', intent: 'b' }), {
        code: 'INVALID_REQUEST',
      })
    }
  })
})
