// Two harnesses at a real broker: a task goes out, is executed and comes back; nothing is lost when the broker is killed in between.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { after, before, describe, test, type TestContext } from 'node:test'
import { realClock } from '#apps/server/clock.ts'
import { startHarness } from '#bridges/hcp/harness.ts'
import { connect, type Link } from '#bridges/hcp/link.ts'
import { END, keyOf, prefixOf } from '#kernel/declare/schema.ts'
import { limits } from '#kernel/limits.ts'
import { Delivery } from '#kernel/log/outbox-document.ts'
import { deadQueue, type Envelope } from '#protocols/harness/envelope.ts'
import { Early } from '#protocols/harness/schema.ts'
import { propertiesOf, type Parcel } from '#protocols/harness/message-decoder.ts'
import { runOutbound } from '#bridges/hcp/outbound.ts'
import { runTimers } from '#workers/timers.ts'
import { createWorld, testHarness, type World } from '../../support/in-process/world.ts'
import { testNotary } from '../../support/in-process/notary.ts'
import { brokerFor, SLOW_START, type TestBroker } from '../../support/harness/broker.ts'

type Log = Record<'debug' | 'info' | 'warn' | 'error', (fields: object, message: string) => void>
const quiet: Log = { debug() {}, info() {}, warn() {}, error() {} }
const LONG = process.env['COUNTERSIGN_TEST_CHOICE'] === 'all'

type Side = { readonly world: World; readonly id: string; state(): string; stop(): Promise<void> }

async function side(broker: TestBroker, id: string, gapMs = 1_000, log: Log = quiet): Promise<Side> {
  const world = await createWorld({
    now: Date.now,
    terms: { harness: { ...testHarness, id, replyMs: 1_000, gapMs } },
    seed: id.length * 7,
  })
  const { kernel } = world
  const harness = startHarness({
    kernel,
    clock: realClock,
    log,
    id,
    url: broker.urlOf(id),
    tls: null,
    topology: 'declare',
    queues: 'classic',
    prefetch: 10,
    sendsUser: true,
  })
  const workers = [
    runOutbound(kernel, { id, publish: harness.publish, notary: testNotary }, realClock, log),
    runTimers(kernel, realClock, quiet),
  ]
  return {
    world,
    id,
    state: harness.state,
    async stop() {
      await harness.stop()
      await Promise.all(workers.map((worker) => worker.stop()))
      await world.close()
    },
  }
}

async function until<T>(what: string, look: () => Promise<T | null | undefined | false>, ms = 30_000): Promise<T> {
  const end = Date.now() + ms
  for (;;) {
    const found = await look()
    if (found) return found
    if (Date.now() > end) throw new Error(`${what} did not come within ${ms} ms`)
    await sleep(25)
  }
}

const declaration = {
  agent_id: 'agent_devin',
  capability: {
    name: 'synthesis',
    version: '1.2.0',
    description: 'Grows a film.',
    safety: { risk_ceiling: 'R4', requires_human_approval: false },
    output_schema: { type: 'object', required: ['thickness'] },
  },
  risk_rules: [{ path: 'temperature', op: '>', value: 800, raise_to: 'R4' }],
}

describe('two harnesses at a broker', { timeout: 400_000 }, () => {
  let broker: TestBroker
  let folder: string
  let [alpha, beta] = [] as unknown as [Side, Side]
  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'countersign-hcp-'))
    broker = await brokerFor(folder, ['lab-a', 'lab-b', 'lab-c', 'lab-d'])
    alpha = await side(broker, 'lab-a')
    beta = await side(broker, 'lab-b')
    await until('both links', () => Promise.resolve(alpha.state() === 'connected' && beta.state() === 'connected'))
    await beta.world.call('admin', 'harness/harness.declare', declaration)
    await beta.world.call('admin', 'harness/harness.allow', { caller_id: 'lab-a', capabilities: ['*'], risk_max: 'R4', data_max: 'T3' })
  }, SLOW_START)
  after(async () => {
    await Promise.allSettled([alpha?.stop(), beta?.stop()])
    await broker?.stop()
    rmSync(folder, { recursive: true, force: true })
  })

  const submit = async (more: object = {}): Promise<string> =>
    (
      await alpha.world.call('alice', 'harness/harness.submit', {
        callee_id: 'lab-b',
        capability: 'synthesis',
        intent: 'Grow a film.',
        inputs: { temperature: 700 },
        ...more,
      })
    ).session.id
  const seen = async (id: string) => (await alpha.world.call('alice', 'harness/harness.session', { session_id: id })).session
  const executed = (id: string) =>
    until(`a session of ${id}`, async () =>
      (await beta.world.call('system', 'harness/harness.sessions', {})).items.find((one: any) => one.submit_id === id),
    )
  const inState = (id: string, state: string) =>
    until(`${state} of ${id}`, async () => ((await seen(id)).state === state ? seen(id) : null))

  test('a task is accepted, reported on and completed, and both sides say the same', async () => {
    const id = await submit()
    const { session_id } = await executed(id)
    await inState(id, 'RUNNING')
    const taken = await beta.world.call('devin', 'delegation/mailbox.take', { worker: 'w1' })
    const item = taken.items.find(({ run }: any) => run.session_id === session_id)
    assert.equal(item.request.input.inputs.temperature, 700)
    const speak = (verb: string, input: object) =>
      beta.world.call('devin', `harness/harness.${verb}`, { session_id, attempt: item.attempt, ...input })
    for (let i = 0; i < 20; i++) await speak('report', { event_type: 'progress', data: { stage: 'heating', percent: i * 5 } })
    const { checkpoint_id } = await speak('snapshot', { description: 'half', state: { layer: 1 } })
    await assert.rejects(speak('complete', { outputs: {} }), { code: 'INVALID_OUTPUT' })
    await speak('complete', { outputs: { thickness: 3 }, artifacts: [{ name: 'log.txt', type: 'text/plain', text: 'done' }] })
    const done = await inState(id, 'COMPLETED')
    await until('the last event', async () => (await seen(id)).last_processed_sequence === 23)
    assert.deepEqual(done.outputs, { thickness: 3 })
    assert.equal(done.outputs_valid, true)
    assert.equal(done.execution_summary.checkpoints_created, 1)
    assert.equal(done.artifacts[0].uri, `hcp://${session_id}/artifacts/log.txt`)
    const events = (await alpha.world.call('alice', 'harness/harness.events', { session_id })).items
    assert.deepEqual(
      events.map((one: any) => one.sequence),
      Array.from({ length: 23 }, (_, i) => i + 1),
    )
    assert.deepEqual(
      [events[0].event_type, events[21].data.checkpoint_id, events.at(-1).event_type],
      ['session_created', checkpoint_id, 'session_closed'],
    )
    assert.ok(!JSON.stringify(events).includes('session_token'), 'the token stands in no event')
  })

  test('risky work waits in the inbox, starts with a yes, and ends with a no', async () => {
    for (const [result, state] of [
      ['approved', 'RUNNING'],
      ['rejected', 'REJECTED'],
    ] as const) {
      const id = await submit({ inputs: { temperature: 850 } })
      const { session_id } = await executed(id)
      await until('the wait', async () => (await seen(id)).waiting_for === 'human')
      const request_id = `hxp_${session_id}`
      await assert.rejects(beta.world.call('devin', 'execution/request.resolve', { request_id, result }))
      await beta.world.call('alice', 'execution/request.resolve', {
        request_id,
        result,
        ...(result === 'rejected' ? { reason: 'Too hot.' } : {}),
      })
      const after = await inState(id, state)
      if (state === 'REJECTED') assert.equal(after.rejection.reason_code, 'approval_denied')
      else await alpha.world.call('alice', 'harness/harness.abort', { session_id: id })
      await inState(id, state === 'REJECTED' ? 'REJECTED' : 'ABORTED')
    }
  })

  test('an unknown harness, one without permission, and a task that is too risky are refused with a reason', async () => {
    assert.equal((await inState(await submit({ callee_id: 'lab-z' }), 'REJECTED')).rejection.reason_code, 'unroutable')
    const unknown = await inState(await submit({ capability: 'nothing' }), 'REJECTED')
    assert.equal(unknown.rejection.reason_code, 'capability_not_found')
    await beta.world.call('admin', 'harness/harness.allow', { caller_id: 'lab-a', capabilities: ['*'], risk_max: 'R3', data_max: 'T3' })
    const risky = await inState(await submit({ inputs: { temperature: 900 } }), 'REJECTED')
    assert.equal(risky.rejection.reason_code, 'risk_too_high')
    assert.match(risky.rejection.suggestion, /inputs\.temperature .*800/)
    await beta.world.call('admin', 'harness/harness.allow', { caller_id: 'lab-a', capabilities: ['*'], risk_max: 'R4', data_max: 'T3' })
  })

  test('an unacceptable message goes to the dead letters with its reason, and nothing waits behind it', async (t) => {
    const own = foreign(t, 'lab-c')
    // The client would set the present second if none is given, which may be another than the envelope's.
    const at = new Date().toISOString()
    const timestamp = Math.floor(Date.parse(at) / 1_000)
    const envelope = (more: object) =>
      Buffer.from(
        JSON.stringify({
          hcp_version: '1.0',
          message_id: crypto.randomUUID(),
          timestamp: at,
          session_id: null,
          type: 'task_submit',
          payload: {},
          ...more,
        }),
      )
    const id = crypto.randomUUID()
    const bad: [Buffer, string][] = [
      [Buffer.from('{"a":'), 'not_json'],
      [Buffer.from([0xff, 0xfe]), 'not_json'],
      [Buffer.from('{"a":1,"a":2}'), 'not_json'],
      [Buffer.from('[]'), 'invalid_message'],
      [envelope({ message_id: 'msg-001' }), 'invalid_message'],
      [envelope({ hcp_version: '2.0' }), 'unsupported_version'],
      [envelope({ type: 'event', session_id: id }), 'unknown_type'],
      [envelope({ type: 'abort', session_id: id }), 'unknown_session'],
      [Buffer.alloc(300_000, 32), 'too_large'],
    ]
    for (const [body] of bad)
      await own.publish({
        exchange: 'hcp.commands',
        key: 'lab-b',
        properties: { content_type: 'application/json', content_encoding: 'utf-8', timestamp },
        body,
      })
    const reasons: string[] = []
    await until('the dead letters', async () => {
      reasons.push(...(await broker.drain('lab-b', deadQueue('lab-b'))))
      return reasons.length >= bad.length
    })
    assert.deepEqual(reasons.toSorted(), bad.map(([, reason]) => reason).toSorted())
    await inState(await submit(), 'RUNNING')
  })

  /** A harness that is no program of ours: it sends what it likes, and reads nothing. */
  function foreign(t: TestContext, id: string): Link {
    const link = connect({
      id,
      url: broker.urlOf(id),
      tls: null,
      topology: 'declare',
      queues: 'classic',
      prefetch: 1,
      sendsUser: true,
      log: quiet,
    })
    t.after(() => link.stop())
    return link
  }
  const message = (exchange: string, key: string, type: string, session_id: string | null, payload: object): Parcel => {
    const at = new Date().toISOString()
    const envelope = { hcp_version: '1.0', message_id: crypto.randomUUID(), timestamp: at, session_id, type, payload } as Envelope
    return { exchange, key, properties: propertiesOf(envelope), body: Buffer.from(JSON.stringify(envelope)) }
  }
  const waitingIn = async (queue: string): Promise<string> =>
    new RegExp(`^${queue}\\s+(\\d+)$`, 'm').exec(await broker.ctl('-q', 'list_queues', '-p', 'hcp', 'name', 'messages'))![1]!

  test('a callee that never answers, and sends events of unknown sessions, delays no other one', async (t) => {
    // An event waits for ten minutes for the answer that names its session: nothing of the following may wait for that.
    const caller = await side(broker, 'lab-d', 600_000)
    t.after(() => caller.stop())
    const silent = foreign(t, 'lab-c')
    await until('the links', () => Promise.resolve(caller.state() === 'connected' && silent.state() === 'connected'))
    await beta.world.call('admin', 'harness/harness.allow', { caller_id: 'lab-d', capabilities: ['*'] })
    const task = { capability: 'synthesis', intent: 'Grow a film.' }
    await caller.world.call('alice', 'harness/harness.submit', { callee_id: 'lab-c', ...task })
    const strays = Array.from({ length: 60 }, () => crypto.randomUUID())
    for (const session_id of strays)
      await silent.publish(
        message('hcp.events', `lab-d.${session_id}.event`, 'event', session_id, { event_type: 'log', sequence: 1, data: {} }),
      )
    const { session } = await caller.world.call('alice', 'harness/harness.submit', { callee_id: 'lab-b', ...task })
    await until('the answer of lab-b', async () => {
      const now = await caller.world.call('alice', 'harness/harness.session', { session_id: session.id })
      return now.session.state === 'RUNNING'
    })
    await until('an empty queue', async () => (await waitingIn('hcp.evt.lab-d')) === '0')
    // One submission waits for an answer of lab-c, so one unknown session of it has room; the others are put aside.
    const stored = await caller.world.store.keys(keyOf(Early, ''), keyOf(Early, '') + END, 100)
    assert.equal(stored.length, 1)
    const reasons = await broker.drain('lab-d', deadQueue('lab-d'))
    assert.deepEqual(reasons, Array(strays.length - 1).fill('unknown_session'))
  })

  test('a broker user without rights and without a queue fills neither the outbox nor the log', async (t) => {
    const lines: string[] = []
    const line = (_: object, message: string): void => void lines.push(message)
    const callee = await side(broker, 'lab-d', 1_000, { ...quiet, warn: line, error: line })
    t.after(() => callee.stop())
    const evil = foreign(t, 'lab-c')
    await until('the links', () => Promise.resolve(callee.state() === 'connected' && evil.state() === 'connected'))
    // As a user that never had one.
    await broker.ctl('-q', 'delete_queue', '-p', 'hcp', 'hcp.evt.lab-c')
    const spoofed = { capability: 'synthesis', caller_id: 'lab-a', intent: 'Grow a film.' }
    await Promise.all(Array.from({ length: 300 }, () => evil.publish(message('hcp.commands', 'lab-d', 'task_submit', null, spoofed))))
    await until('an empty queue', async () => (await waitingIn('hcp.cmd.lab-d')) === '0')
    const prefix = prefixOf(Delivery, 'due', ['amqp'])
    await until('an empty outbox', async () => (await callee.world.store.scan(prefix, prefix + END, 10)).length === 0)
    assert.ok(lines.length > 0 && lines.length <= 3 * limits.harnessLinesPerMinute, `${lines.length} lines`)
  })

  test('the broker is killed under load: every event comes, once and in order', async () => {
    for (let round = 0; round < (LONG ? 10 : 1); round++) {
      const id = await submit()
      const { session_id, run_id } = await executed(id)
      await inState(id, 'RUNNING')
      const { items } = await beta.world.call('devin', 'delegation/mailbox.take', { worker: 'w2', run_id })
      const { attempt } = items[0]
      const killing = sleep(200).then(() => broker.restart())
      const COUNT = 200
      for (let i = 0; i < COUNT; i++)
        await beta.world.call('devin', 'harness/harness.report', {
          session_id,
          attempt,
          event_type: 'log',
          data: { level: 'info', message: `line ${i}` },
        })
      await beta.world.call('devin', 'harness/harness.complete', { session_id, attempt, outputs: { thickness: 1 } })
      await killing
      await until('the end', async () => (await seen(id)).last_processed_sequence === COUNT + 2, 60_000)
      const done = await seen(id)
      assert.deepEqual([done.state, done.missing_sequences], ['COMPLETED', []])
    }
  })
})
