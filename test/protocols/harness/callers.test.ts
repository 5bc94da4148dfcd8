// Sessions that were submitted from here: numbers in order, each once, gaps, late events, forged and foreign answers, retries, aborts.
import assert from 'node:assert/strict'
import { beforeEach, describe, test } from 'node:test'
import { END, keyOf } from '#kernel/declare/schema.ts'
import { limits } from '#kernel/limits.ts'
import { textOf } from '#protocols/harness/envelope.ts'
import { Early } from '#protocols/harness/schema.ts'
import { createWorld, type World } from '../../support/in-process/world.ts'
import { outgoing, receive, uuid } from '../../support/harness/messages.ts'

describe('a session that was submitted from here', () => {
  let world: World
  let id: string
  let session_id: string
  beforeEach(async () => {
    world = await createWorld()
    const input = {
      callee_id: 'lab-cvd',
      capability: 'synthesis',
      intent: 'Grow a film.',
      expected_output: { required_fields: ['thickness'] },
    }
    id = (await world.call('alice', 'harness/harness.submit', input)).session.id
    session_id = uuid()
  })
  const session = async () => (await world.call('alice', 'harness/harness.session', { session_id: id })).session
  const events = async () => (await world.call('alice', 'harness/harness.events', { session_id: id })).items
  const hear = (type: string, payload: object, more: object = {}, user: string | null = 'lab-cvd') =>
    receive(world, user, type, payload, { session_id, ...more })
  const accepted = (more: object = {}) => hear('task_accepted', { session_token: 'opaque', risk_level: 'R2', in_reply_to: id, ...more })
  const event = (sequence: unknown, event_type = 'log', data: object = {}, more: object = {}) =>
    hear('event', { sequence, event_type, data }, more)
  const earlyKeys = () => world.store.keys(keyOf(Early, ''), keyOf(Early, '') + END, 100)
  /** Stored messages of each unknown session. */
  const early = async () => (await world.store.read(await earlyKeys())).map((found) => (found!.value as Early).messages.length)
  const numbers = async () => (await events()).map((one: any) => one.sequence)

  test('the submission has the id of its message, and its payload says all that was given', async () => {
    const [sent] = await outgoing(world)
    assert.deepEqual(
      [sent!.exchange, sent!.key, sent!.envelope.message_id, sent!.envelope.session_id],
      ['hcp.commands', 'lab-cvd', id, null],
    )
    assert.deepEqual(sent!.envelope.payload, {
      capability: 'synthesis',
      intent: 'Grow a film.',
      expected_output: { required_fields: ['thickness'] },
      inputs: {},
      caller_id: 'lab-own',
    })
  })

  test('it is followed by either id, in order, each event once', async () => {
    await accepted()
    await event(1, 'session_created', { state: 'RUNNING', risk_level: 'R2', session_token: 'opaque' })
    await event(2)
    assert.equal((await event(2)).outcome, 'duplicate')
    await hear('task_completed', { outputs: { thickness: 3 }, execution_summary: { duration: 'PT1S' } })
    await event(3, 'session_closed', { final_state: 'COMPLETED', reason: 'completed' })
    const done = (await world.call('alice', 'harness/harness.session', { session_id })).session
    assert.deepEqual(
      [done.id, done.state, done.outputs, done.outputs_valid, done.last_processed_sequence, done.risk_level],
      [id, 'COMPLETED', { thickness: 3 }, true, 3, 'R2'],
    )
    assert.deepEqual(await numbers(), [1, 2, 3])
    assert.ok(!JSON.stringify([done, await events()]).includes('opaque'))
  })

  test('outputs that are not what was asked for are kept, and said to be', async () => {
    await accepted()
    await hear('task_completed', { outputs: { width: 3 } })
    const { state, outputs, outputs_valid } = await session()
    assert.deepEqual([state, outputs, outputs_valid], ['COMPLETED', { width: 3 }, false])
  })

  test('events that come in another order are put in order', async () => {
    await accepted()
    for (const sequence of [3, 1, 5, 2, 4]) await event(sequence)
    assert.deepEqual(await numbers(), [1, 2, 3, 4, 5])
    assert.deepEqual((await session()).missing_sequences, [])
  })

  test('an end that overtakes the events before it waits for them', async () => {
    await accepted()
    await event(1, 'session_created', { state: 'RUNNING' })
    await event(3)
    await hear('task_completed', { outputs: { thickness: 1 } })
    assert.equal((await session()).state, 'RUNNING')
    await event(2)
    assert.equal((await session()).state, 'COMPLETED')
  })

  test('an event that closes the session waits for the message with the outcome', async () => {
    await accepted()
    await event(1, 'session_created', { state: 'RUNNING' })
    await event(2, 'session_closed', { final_state: 'COMPLETED', reason: 'completed' })
    assert.equal((await session()).state, 'RUNNING')
    await hear('task_completed', { outputs: { thickness: 3 } })
    const done = await session()
    assert.deepEqual([done.state, done.outputs, done.last_processed_sequence], ['COMPLETED', { thickness: 3 }, 2])
  })

  test('a session that is closed without an outcome ends when the wait for it is over', async () => {
    await accepted()
    await event(1, 'session_closed', { final_state: 'FAILED', reason: 'lost' })
    world.advance(31_000)
    await world.call('system', 'harness/harness.skip', { session_id: id })
    assert.deepEqual([(await session()).state, (await session()).missing_sequences], ['FAILED', []])
  })

  test('a gap holds what is behind it for its time, is noted, and what comes late is kept and moves nothing', async () => {
    await accepted()
    await event(1, 'session_created', { state: 'RUNNING' })
    await event(4)
    assert.deepEqual(await numbers(), [1])
    await assert.rejects(world.call('system', 'harness/harness.skip', { session_id: id }), { code: 'PRECONDITION_FAILED' })
    world.advance(31_000)
    await world.call('system', 'harness/harness.skip', { session_id: id })
    assert.deepEqual(
      [await numbers(), (await session()).missing_sequences],
      [
        [1, 4],
        [2, 3],
      ],
    )
    await event(2, 'state_changed', { from_state: 'RUNNING', to_state: 'PAUSED' })
    const kept = (await events()).find((one: any) => one.sequence === 2)
    assert.deepEqual([kept.late, (await session()).state, (await session()).missing_sequences], [true, 'RUNNING', [3]])
    assert.equal((await event(2)).outcome, 'duplicate')
  })

  test('sequences that are none are put aside', async () => {
    await accepted()
    for (const sequence of [0, -1, 'one', 1.5, null, undefined])
      assert.equal((await event(sequence)).reason, 'invalid_message', String(sequence))
    await event(1)
    await event(2)
    assert.equal((await event(1)).outcome, 'duplicate')
  })

  test('messages of others than the callee are forged, and without a sender unauthorized', async () => {
    await accepted()
    assert.equal((await hear('event', { sequence: 1, event_type: 'log' }, {}, 'lab-evil')).reason, 'forged')
    assert.equal((await hear('task_completed', { outputs: {} }, {}, 'lab-evil')).reason, 'forged')
    assert.equal((await hear('event', { sequence: 1, event_type: 'log' }, {}, null)).reason, 'unauthorized')
    assert.equal((await session()).state, 'RUNNING')
  })

  test('sessions without a submission are unknown, and an answer under another id is foreign', async () => {
    await accepted()
    assert.equal((await hear('event', { sequence: 1, event_type: 'log' }, { session_id: uuid() })).reason, 'unknown_session')
    assert.equal((await hear('task_completed', { outputs: {}, in_reply_to: id }, { session_id: uuid() })).reason, 'foreign_session')
    assert.equal(
      (await hear('task_accepted', { session_token: 'x', in_reply_to: uuid() }, { session_id: uuid() })).reason,
      'unknown_session',
    )
  })

  test('messages that overtake the answer that names their session are stored, sealed, and taken with it', async () => {
    for (const sequence of [2, 1]) assert.equal((await event(sequence, 'log', { message: 'secret words' })).outcome, 'taken')
    const message_id = uuid()
    assert.equal((await event(3, 'log', {}, { message_id })).outcome, 'taken')
    assert.equal((await event(3, 'log', {}, { message_id })).outcome, 'duplicate')
    assert.equal((await hear('task_completed', { outputs: { thickness: 3 } })).outcome, 'taken')
    assert.deepEqual([await early(), await numbers(), (await session()).state], [[4], [], 'PENDING'])
    assert.ok(!JSON.stringify(await world.store.read(await earlyKeys())).includes('secret words'))
    await accepted()
    assert.deepEqual([await early(), await numbers(), (await session()).state], [[], [1, 2, 3], 'COMPLETED'])
    assert.equal((await events())[0].data.message, 'secret words')
  })

  test('a sender has room for as many unknown sessions as it has submissions to answer, and each for a bounded number of messages', async () => {
    const stray = (session_id: string, sequence = 1) => event(sequence, 'log', {}, { session_id })
    const first = uuid()
    assert.equal((await stray(first)).outcome, 'taken')
    for (let i = 0; i < 5; i++) assert.equal((await stray(uuid())).reason, 'unknown_session')
    for (let i = 2; i <= limits.harnessEarlyMax; i++) assert.equal((await stray(first, i)).outcome, 'taken')
    assert.equal((await stray(first, limits.harnessEarlyMax + 1)).reason, 'unknown_session')
    assert.deepEqual(await early(), [limits.harnessEarlyMax])
    // There is nothing to answer, so nothing is stored.
    assert.equal((await hear('event', { sequence: 1, event_type: 'log' }, {}, 'lab-other')).reason, 'unknown_session')
    // In time they are put aside, and there is room again.
    world.advance(31_000)
    await world.call('system', 'harness/message.expire', { early_id: `lab-cvd/${first}` })
    const letters = (await outgoing(world)).filter(({ exchange }) => exchange === 'hcp.dead')
    assert.equal(letters.length, limits.harnessEarlyMax)
    assert.deepEqual(
      [letters[0]!.key, letters[0]!.headers!['reason'], letters[0]!.headers!['user']],
      ['lab-own', 'unknown_session', 'lab-cvd'],
    )
    assert.equal((await stray(uuid())).outcome, 'taken')
  })

  test('the header alone can name the submission of a message, and the wait for people is shown before any answer', async () => {
    const data = { from_state: 'PENDING', to_state: 'PENDING', reason: 'awaiting_human' }
    await receive(world, 'lab-cvd', 'event', { sequence: 1, event_type: 'state_changed', data }, { session_id }, id)
    const waiting = await session()
    assert.deepEqual(
      [waiting.state, waiting.waiting_for, waiting.reason, waiting.session_id],
      ['PENDING', 'human', 'awaiting_human', session_id],
    )
    await accepted()
    assert.deepEqual([(await session()).state, (await session()).waiting_for], ['RUNNING', null])
  })

  test('events that arrive after the end are kept as late, are none of the session’s events, and move nothing', async () => {
    await accepted()
    await event(1, 'session_created', { state: 'RUNNING' })
    await hear('task_completed', { outputs: { thickness: 3 } })
    const message_id = uuid()
    const failed = { final_state: 'FAILED', reason: 'lost' }
    assert.equal((await event(2, 'session_closed', failed, { message_id })).outcome, 'taken')
    assert.equal((await event(2, 'session_closed', failed, { message_id })).outcome, 'duplicate')
    assert.deepEqual([await numbers(), (await session()).state, (await session()).last_processed_sequence], [[1], 'COMPLETED', 1])
    await event(2, 'session_closed', { final_state: 'COMPLETED', reason: 'completed' })
    await event(3)
    const late = (await world.call('alice', 'harness/harness.events', { session_id: id, late: true })).items
    assert.deepEqual(
      late.map((one: any) => [one.sequence, one.event_type, one.late]),
      [
        [2, 'session_closed', true],
        [3, 'log', true],
      ],
    )
    assert.deepEqual([await numbers(), (await session()).state, (await session()).outputs], [[1, 2], 'COMPLETED', { thickness: 3 }])
    for (let i = 4; i < 4 + limits.harnessNotesMax - 2; i++) assert.equal((await event(i)).outcome, 'taken')
    assert.equal((await event(200)).reason, 'invalid_message')
  })

  test('an event that the outcome has overtaken is an event of the session, unless nothing closes the session in time', async () => {
    await accepted()
    await hear('task_completed', { outputs: { thickness: 3 } })
    await event(1)
    assert.deepEqual(await numbers(), [])
    await event(2, 'session_closed', { final_state: 'COMPLETED', reason: 'completed' })
    assert.deepEqual(await numbers(), [1, 2])
    const other = (await world.call('alice', 'harness/harness.submit', { callee_id: 'lab-cvd', capability: 'a', intent: 'b' })).session.id
    const second = { session_id: uuid() }
    await hear('task_rejected', { reason_code: 'busy', in_reply_to: other }, second)
    await event(1, 'log', {}, second)
    world.advance(31_000)
    await world.call('system', 'harness/harness.skip', { session_id: other })
    assert.deepEqual((await world.call('alice', 'harness/harness.events', { session_id: other })).items, [])
    assert.equal((await world.call('alice', 'harness/harness.events', { session_id: other, late: true })).items.length, 1)
  })

  test('an answer that comes again is a duplicate, and one with another payload under its id is put aside', async () => {
    const message_id = uuid()
    const payload = { session_token: 'x', in_reply_to: id }
    assert.equal((await hear('task_accepted', payload, { message_id })).outcome, 'taken')
    assert.equal((await hear('task_accepted', payload, { message_id })).outcome, 'duplicate')
    assert.equal((await hear('task_accepted', { ...payload, risk_level: 'R1' }, { message_id })).reason, 'message_id_reused')
  })

  test('unknown types of events are kept, and moves that are no edges move nothing', async () => {
    await accepted()
    await event(1, 'tool_start', { tool: 'x' })
    await event(2, 'state_changed', { from_state: 'RUNNING', to_state: 'REJECTED' })
    assert.deepEqual([await numbers(), (await session()).state], [[1, 2], 'RUNNING'])
  })

  test('answers whose fields are missing are put aside', async () => {
    assert.equal((await hear('task_accepted', { in_reply_to: id })).reason, 'invalid_message')
    assert.equal((await hear('task_rejected', { in_reply_to: id })).reason, 'invalid_message')
    assert.equal((await hear('task_completed', { in_reply_to: id })).reason, 'invalid_message')
    assert.equal((await hear('task_failed', { in_reply_to: id })).reason, 'invalid_message')
    assert.equal((await session()).state, 'PENDING')
  })

  test('without an answer the same message goes out again, and a rejection ends it', async () => {
    world.advance(31_000)
    await world.call('system', 'harness/harness.repeat', { session_id: id })
    // The first has not left yet, so it is not sent twice.
    assert.equal((await outgoing(world)).length, 1)
    const [sent] = await outgoing(world)
    await hear('task_rejected', { reason_code: 'busy', reason_message: 'Later.', in_reply_to: id }, { session_id: null })
    const { state, rejection, waiting_for } = await session()
    assert.deepEqual([state, rejection.reason_code, waiting_for], ['REJECTED', 'busy', null])
    assert.match(textOf(sent!.envelope), new RegExp(id))
  })

  test('a submission that no queue takes ends as unroutable', async () => {
    await world.call('system', 'harness/message.returned', { session_id: id, message_id: id })
    const { state, rejection } = await session()
    assert.deepEqual([state, rejection.reason_code], ['REJECTED', 'unroutable'])
  })

  test('an abort before any answer goes out once the session is known, with its token', async () => {
    await world.call('alice', 'harness/harness.abort', { session_id: id, reason: 'Never mind.' })
    assert.deepEqual((await outgoing(world)).length, 1)
    await accepted()
    const aborts = (await outgoing(world)).filter(({ envelope }) => envelope.type === 'abort')
    assert.equal(aborts[0]!.envelope.session_id, session_id)
    // A callee that does not know its senders asks for the token (C9).
    assert.deepEqual(aborts[0]!.envelope.payload, { reason: 'Never mind.', session_token: 'opaque' })
    await world.call('alice', 'harness/harness.abort', { session_id: id })
    const again = (await outgoing(world)).filter(({ envelope }) => envelope.type === 'abort').at(-1)!
    assert.equal(again.envelope.payload['session_token'], 'opaque')
    await event(1, 'state_changed', { from_state: 'RUNNING', to_state: 'ABORTING', reason: 'aborted' })
    await event(2, 'session_closed', { final_state: 'ABORTED', reason: 'put_down' })
    assert.equal((await session()).state, 'ABORTED')
  })

  test('concurrent sessions do not mix', async () => {
    const other = (await world.call('alice', 'harness/harness.submit', { callee_id: 'lab-cvd', capability: 'a', intent: 'b' })).session.id
    const second = uuid()
    await accepted()
    await hear('task_accepted', { session_token: 'y', in_reply_to: other }, { session_id: second })
    for (let i = 1; i <= 5; i++) {
      await event(i)
      await event(i, 'log', {}, { session_id: second })
    }
    const theirs = (await world.call('alice', 'harness/harness.events', { session_id: other })).items
    assert.deepEqual(
      [await numbers(), theirs.map((one: any) => one.sequence)],
      [
        [1, 2, 3, 4, 5],
        [1, 2, 3, 4, 5],
      ],
    )
  })

  test('only participants can read a session, and for others it does not exist', async () => {
    for (const who of ['bob', 'mallory', 'devin', 'spy'])
      await assert.rejects(world.call(who, 'harness/harness.session', { session_id: id }), { code: 'NOT_FOUND' }, who)
    for (const who of ['alice', 'owner', 'admin']) await world.call(who, 'harness/harness.session', { session_id: id })
    await assert.rejects(world.call('bob', 'harness/harness.abort', { session_id: id }), { code: 'NOT_FOUND' })
  })

  test('a submission that is too large for a message is refused on submit', async () => {
    const input = { callee_id: 'lab-cvd', capability: 'a', intent: 'b', inputs: { data: 'x'.repeat(300_000) } }
    await assert.rejects(world.call('alice', 'harness/harness.submit', input), { code: 'TOO_LARGE' })
  })
})

describe('an agent that is another harness', () => {
  async function delegated() {
    const world = await createWorld()
    await world.call('admin', 'delegation/agent.publish', {
      agent_id: 'agent_robin',
      name: 'Robin',
      reach: 'hcp',
      endpoint: 'hcp:lab-cvd',
      capabilities: [{ capability_id: 'synthesis', version: '1.0.0' }],
    })
    const { run } = await world.call('devin', 'delegation/agent.delegate', {
      to_agent: 'agent_robin',
      input: { goal: 'Grow a film.', inputs: { t: 1 } },
    })
    const session_id = uuid()
    const hear = (type: string, payload: object) => receive(world, 'lab-cvd', type, payload, { session_id })
    const runNow = async () => (await world.call('system', 'delegation/run.get', { run_id: run.id })).run
    return { world, run, hear, runNow, session_id }
  }

  test('its run goes out as a submission, and its end is the end of the run', async () => {
    const { world, hear, runNow } = await delegated()
    const [sent] = await outgoing(world)
    assert.deepEqual(
      [sent!.key, sent!.envelope.payload['capability'], sent!.envelope.payload['intent']],
      ['lab-cvd', 'synthesis', 'Grow a film.'],
    )
    await hear('task_accepted', { session_token: 'x', in_reply_to: sent!.envelope.message_id })
    await hear('event', { sequence: 1, event_type: 'progress', data: { stage: 'heating', percent: 40, message: 'The oven heats up.' } })
    assert.deepEqual([(await runNow()).progress.message, (await runNow()).progress.percent], ['heating: The oven heats up.', 40])
    await hear('task_completed', { outputs: { thickness: 3 } })
    const { state, result } = await runNow()
    assert.deepEqual([state, result], ['completed', { thickness: 3 }])
  })

  test('a task that is assigned to it goes out, and its outputs are the deliverable', async () => {
    const { world, session_id } = await delegated()
    const before = (await outgoing(world)).length
    const { task } = await world.call('alice', 'collaboration/task.create', { spec: { goal: 'Grow another film.' } })
    await world.call('alice', 'collaboration/task.assign', { task_id: task.id, assignee: 'agent_robin' })
    const sent = (await outgoing(world)).find(({ envelope }) => envelope.payload['intent'] === 'Grow another film.')!
    assert.equal((await outgoing(world)).length, before + 1)
    assert.deepEqual((sent.envelope.payload['context'] as { correlation_id: string }).correlation_id, task.id)
    const hear = (type: string, payload: object) => receive(world, 'lab-cvd', type, payload, { session_id })
    await hear('task_accepted', { session_token: 'x', in_reply_to: sent.envelope.message_id })
    await hear('task_completed', { outputs: { thickness: 3 } })
    const { task: delivered } = await world.call('alice', 'collaboration/task.get', { task_id: task.id })
    const { artifact } = await world.call('alice', 'collaboration/artifact.get', { artifact_id: delivered.delivered.artifact_id })
    const text = Buffer.from(/base64,([^"]+)"/.exec(JSON.stringify(artifact))![1]!, 'base64').toString()
    assert.deepEqual(JSON.parse(text).outputs, { thickness: 3 })
    assert.equal(delivered.state, 'review_ready')
  })

  test('a rejection fails the run with its reason and suggestion', async () => {
    const { world, hear, runNow } = await delegated()
    const [sent] = await outgoing(world)
    await hear('task_rejected', {
      reason_code: 'risk_too_high',
      reason_message: 'Too hot.',
      suggestion: 'Set t to at most 0.',
      in_reply_to: sent!.envelope.message_id,
    })
    const { state, error } = await runNow()
    assert.equal(state, 'failed')
    assert.match(error, /risk_too_high.*Too hot.*at most 0/)
  })

  test('a run that is cancelled aborts the session', async () => {
    const { world, run, hear } = await delegated()
    const [sent] = await outgoing(world)
    await hear('task_accepted', { session_token: 'x', in_reply_to: sent!.envelope.message_id })
    await world.call('system', 'delegation/agent.cancel', { run_id: run.id })
    assert.equal((await outgoing(world)).at(-1)!.envelope.type, 'abort')
  })
})
