// The library `countersign/harness` at a real broker: a callee and a caller in this process, without a server.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { after, before, describe, test } from 'node:test'
import {
  createCallee,
  createCaller,
  type Callee,
  type CalleeSession,
  type Caller,
  type SessionEvent,
  type Submitted,
} from 'countersign/harness'
import { SLOW_START, usedBroker, type UsedBroker } from '../support/harness/broker.ts'

type Inputs = { guarded?: number; wrong?: boolean; fails?: boolean; secret?: string }

describe('countersign/harness', { timeout: 400_000 }, () => {
  let broker: UsedBroker
  let folder: string
  let [callee, caller] = [] as unknown as [Callee, Caller]
  let isCleanedUp = false
  const asked: string[] = []

  before(async () => {
    folder = mkdtempSync(join(tmpdir(), 'countersign-harness-'))
    broker = await usedBroker(folder, ['lab-a', 'lab-b'])
    callee = await createCallee({
      id: 'lab-b',
      url: broker.urlOf('lab-b'),
      ...broker.link,
      data: join(folder, 'b'),
      log: 'silent',
      callers: { 'lab-a': { capabilities: ['*'], risk_max: 'R5', data_max: 'T3' } },
      artifacts: { port: 0 },
      capabilities: [
        {
          declaration: {
            name: 'grow',
            version: '1.0.0',
            description: 'For a test.',
            safety: { requires_human_approval: false },
            output_schema: { type: 'object', required: ['thickness'] },
          },
          risk_rules: [
            { path: 'temperature', op: '>', value: 800, raise_to: 'R4' },
            { path: 'temperature', op: '>', value: 1_000, raise_to: 'R5' },
          ],
          safety_envelope: { parameters: { temperature: { max: 900 } } },
          approve({ risk_level, caller_id, inputs }) {
            asked.push(`${caller_id} ${risk_level} ${JSON.stringify(inputs)}`)
            return { result: 'approved', by: ['ann'] }
          },
          async run(session: CalleeSession<Inputs>) {
            await session.progress({ stage: 'heating', percent: 10, message: 'It heats up.' })
            await session.intermediate('layer', { number: 1 })
            await session.log('info', 'a line')
            await session.warning('drift', 'It drifts.')
            await session.error({ code: 'gas', message: 'Little gas.', recoverable: true })
            await session.checkpoint({ description: 'half', state: { layer: 1 } })
            await session.pause('gas')
            await session.resume()
            await session.guard({ parameter: 'temperature', value: session.inputs.guarded ?? 700 })
            session.artifact({ name: 'log.txt', type: 'text/plain', text: 'done' })
            session.artifact('raw.bin', 'application/octet-stream', new Uint8Array([0, 1, 2]))
            if (session.inputs.wrong === true) return { width: 1 }
            if (session.inputs.fails === true)
              throw Object.assign(new Error('No gas.'), { code: 'resource_unavailable', partial_outputs: { layers: 1 } })
            return { thickness: 3, went_on_from: session.snapshot?.state ?? null, secret: session.inputs.secret ?? null }
          },
        },
        {
          declaration: { name: 'wait', version: '1.0.0', description: 'For a test.', safety: { requires_human_approval: false } },
          async run({ signal }) {
            await new Promise((done) => signal.addEventListener('abort', done, { once: true }))
            await sleep(300)
            isCleanedUp = true
            return {}
          },
        },
        {
          declaration: { name: 'flagged', version: '1.0.0', description: 'Asks.', safety: { requires_human_approval: true } },
          run: () => ({}),
        },
      ],
    })
    caller = await createCaller({ id: 'lab-a', url: broker.urlOf('lab-a'), ...broker.link, data: join(folder, 'a'), log: 'silent' })
    // A submission to a harness whose queue is not bound yet is unroutable.
    while (callee.health().state !== 'connected') await sleep(25)
  }, SLOW_START)
  after(async () => {
    await Promise.allSettled([caller?.stop(), callee?.stop()])
    await broker?.stop()
    rmSync(folder, { recursive: true, force: true })
  })

  const submit = (inputs: object = {}, more: object = {}): Promise<Submitted> =>
    caller.submit('lab-b', { capability: 'grow', intent: 'Grow a film.', inputs: { ...inputs }, ...more })
  async function eventsOf(submitted: Submitted): Promise<SessionEvent[]> {
    const all: SessionEvent[] = []
    for await (const event of submitted.events()) all.push(event)
    return all
  }

  test('a task is accepted, followed and completed', async () => {
    const submitted = await submit()
    const { risk_level, callee_id } = await submitted.accepted
    assert.deepEqual([risk_level, callee_id], ['R1', 'lab-b'])
    assert.deepEqual(
      (await eventsOf(submitted)).map(({ sequence, event_type }) => `${sequence} ${event_type}`),
      [
        '1 session_created',
        '2 progress',
        '3 intermediate_result',
        '4 log',
        '5 warning',
        '6 error',
        '7 checkpoint_created',
        '8 state_changed',
        '9 state_changed',
        '10 session_closed',
      ],
    )
    const { outputs, outputs_valid, execution_summary } = await submitted.result
    assert.deepEqual([outputs, outputs_valid], [{ thickness: 3, went_on_from: null, secret: null }, true])
    assert.equal((execution_summary as { checkpoints_created: number }).checkpoints_created, 1)
    assert.equal(callee.health().state, 'connected')
  })

  test('artifacts of a callee are fetched over HTTP', async () => {
    const { artifacts } = await (await submit()).result
    const [log, raw] = artifacts.map(({ url }) => ({ url: url! })) as [{ url: string }, { url: string }]
    const got = await fetch(log.url)
    assert.deepEqual([got.status, got.headers.get('content-type'), await got.text()], [200, 'text/plain', 'done'])
    assert.match(got.headers.get('content-disposition')!, /^attachment/)
    assert.deepEqual([...new Uint8Array(await (await fetch(raw.url)).arrayBuffer())], [0, 1, 2])
    const bare = log.url.split('?')[0]!
    const statusOf = async (url: string, init: RequestInit = {}): Promise<number> => (await fetch(url, init)).status
    assert.equal(await statusOf(bare), 401)
    assert.equal(await statusOf(bare, { headers: { authorization: 'Bearer stolen' } }), 401)
    assert.equal(await statusOf(log.url, { method: 'POST' }), 405)
    assert.equal(await statusOf(`${bare}x?${log.url.split('?')[1]}`), 401)
    assert.equal(await statusOf(new URL('/hcp/v1/elsewhere', bare).href), 404)
    assert.equal((await fetch(log.url, { method: 'HEAD' })).headers.get('content-length'), '4')
  })

  test('people are asked about risky work, two of them for R5, and without an approver it is denied', async () => {
    await (
      await submit({ temperature: 850 })
    ).result
    assert.deepEqual(asked, ['lab-a R4 {"temperature":850}'])
    await assert.rejects((await submit({ temperature: 1_100 })).result, { code: 'approval_denied' })
    const flagged = await caller.submit('lab-b', { capability: 'flagged', intent: 'Do it.' })
    await assert.rejects(flagged.accepted, { code: 'approval_denied' })
    assert.deepEqual(
      (await eventsOf(flagged)).map(({ event_type }) => event_type),
      ['state_changed', 'session_closed'],
    )
  })

  test('failures have their code and what was reached', async () => {
    const failed = await submit({ fails: true })
    await assert.rejects(failed.result, { name: 'SessionEnded', code: 'resource_unavailable', message: 'No gas.' })
    assert.deepEqual((await failed.session()).partial_outputs, { layers: 1 })
    await assert.rejects((await submit({ guarded: 901 })).result, { code: 'safety_violation' })
    await assert.rejects((await submit({ wrong: true })).result, { code: 'execution_error' })
    const rejected = await caller.submit('lab-b', { capability: 'nothing', intent: 'Do it.' })
    await assert.rejects(rejected.accepted, { code: 'capability_not_found' })
    assert.deepEqual(await eventsOf(rejected), [])
    const { session_id } = await failed.session()
    const again = await submit({}, { resume_from: { session_id } })
    assert.deepEqual(((await again.result).outputs as { went_on_from: unknown }).went_on_from, { layer: 1 })
  })

  test('an abort waits for the clean-up of the work', async () => {
    const submitted = await caller.submit('lab-b', { capability: 'wait', intent: 'Wait.' })
    await submitted.accepted
    await submitted.abort('Enough.')
    await assert.rejects(submitted.result, { code: 'aborted' })
    assert.equal(isCleanedUp, true)
  })

  test('confidential data comes out as it went in', async () => {
    const submitted = await submit({ secret: 'unobtainium' }, { constraints: { data_classification: 'T3' } })
    assert.equal(((await submitted.result).outputs as { secret: string }).secret, 'unobtainium')
    const log = (await eventsOf(submitted)).find(({ event_type }) => event_type === 'log')!
    assert.equal((log.data as { message: string }).message, 'a line')
  })

  test('one key is one submission, and what was submitted is found again', async () => {
    const task = { capability: 'grow', intent: 'Grow a film.' }
    const first = await caller.submit('lab-b', task, { key: 'film-1' })
    const second = await caller.submit('lab-b', task, { key: 'film-1' })
    assert.equal(first.id, second.id)
    await first.result
    const { session_id } = await first.session()
    assert.equal((await caller.open(session_id!)).id, first.id)
    for await (const { id } of caller.sessions()) {
      assert.equal(id, first.id)
      break
    }
  })

  test('options that cannot be are refused in words', async () => {
    const good = { id: 'lab-a', url: 'amqp://lab-a:lab-a@127.0.0.1/hcp', data: join(folder, 'never') }
    for (const [more, message] of [
      [{ url: 'http://localhost' }, /url must be a URL such as amqp:/],
      [{ id: 'Lab.A' }, /id is "Lab\.A"/],
      [{ id: 'lab-c' }, /the broker knows this harness as "lab-a"/],
      [{ prefetch: 0 }, /prefetch must be a number from 1 to 100/],
      [{ gap: 'soon' }, /gap/],
      [{ cert: 'a.pem' }, /cert and key go together/],
    ] as const)
      await assert.rejects(createCaller({ ...good, ...more }), { message: message })
    await assert.rejects(createCaller({ ...good, data: join(folder, 'a') }), { message: /another .* uses/ })
  })
})
