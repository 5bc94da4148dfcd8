// Time (HXP 0.1, 3.1 and 3.3; X2-X4): deadlines, more time and reminders, over restarts and whatever the clock does.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { limits } from '#kernel/limits.ts'
import { requestDigest } from '#protocols/execution/answering/shown-request.ts'
import { memoryDisk, memoryStore } from '#stores/memory.ts'
import { runTimers } from '#workers/timers.ts'
import { manualClock } from '../../../support/in-process/manual-clock.ts'
import { APPROVE, claimsIn, DECIDE, requests } from '../../../support/in-process/requests.ts'
import { raced } from '../../../support/in-process/stage.ts'
import { DAY_MS, silent } from '../../../support/in-process/worker-world.ts'
import { createWorld } from '../../../support/in-process/world.ts'

const of = (id: string): { request_id: string } => ({ request_id: id })
const small = (id: string): object => ({ request_id: id, result: 'Small' })
const byDefault = { action: 'DECIDE', fallback: 'default', payload: { ...DECIDE.payload, default_option: 'None' } }
const fallbacks = { pause: DECIDE, fail: { ...DECIDE, fallback: 'fail' }, default: byDefault }

describe('without an answer in time', () => {
  test('`pause` leaves it open, marks it, and it can still be answered', async () => {
    const { ask, call, pass, waiting, facts } = await requests()
    const { id } = await ask({ ...DECIDE, timeout_seconds: 60 })
    assert.deepEqual(await pass(61), ['request.expired'])
    const { request, receipt } = await call('devin', 'request.get', of(id))
    assert.deepEqual([request.status, request.overdue, receipt], ['pending', true, undefined])
    assert.deepEqual(await waiting(id), {})
    assert.equal((await call('alice', 'request.resolve', small(id))).receipt.status, 'completed')
    assert.deepEqual(
      (await facts(id)).map(({ action }) => action),
      ['request.created', 'request.expired', 'request.completed'],
    )
  })

  test('`fail` ends it with a receipt, and an answer is late, however often it comes', async () => {
    const { ask, call, pass, refused, facts } = await requests()
    const { id } = await ask({ ...fallbacks.fail, timeout_seconds: 60 })
    assert.deepEqual(await pass(61), ['request.failed'])
    const { request, receipt } = await call('devin', 'request.get', of(id))
    assert.deepEqual([request.status, receipt.status, receipt.reason, receipt.result], ['failed', 'failed', 'timeout', null])
    assert.equal(receipt.completed_by, 'system:timeout')
    for (let i = 0; i < 2; i++) await refused('EXPIRED', 'alice', 'request.resolve', small(id))
    const later: [string, object][] = [
      ['request.extend', { timeout_seconds: 60 }],
      ['request.escalate', { to: ['user_bob'] }],
      ['request.assign', { to: 'user_bob' }],
      ['request.question', { text: 'Why?' }],
    ]
    for (const [operation, more] of later) await refused('EXPIRED', 'alice', operation, { ...of(id), ...more })
    await refused('EXPIRED', 'devin', 'request.cancel', of(id))
    const { actor, basis } = (await facts(id)).at(-1)
    assert.deepEqual([actor, basis], ['agent_system', { kind: 'timer', id: 'fallback/fail' }])
  })

  test('`default` takes the default option, and nobody is said to have decided', async () => {
    const { ask, call, pass, refused } = await requests()
    const { id } = await ask({ ...byDefault, timeout_seconds: 60 })
    assert.deepEqual(await pass(61), ['request.completed'])
    const { receipt } = await call('devin', 'request.get', of(id))
    assert.deepEqual(
      [receipt.status, receipt.result, receipt.completed_by, receipt.basis.kind],
      ['completed', 'None', 'system:fallback', 'default'],
    )
    assert.equal(claimsIn(receipt).decided_by.kind, 'system')
    await refused('ALREADY_RESOLVED', 'alice', 'request.resolve', small(id))
  })

  test('a late answer is late even before the timer has fired', async () => {
    const { on, ask, refused, call, pass } = await requests()
    const failing = await ask({ ...fallbacks.fail, timeout_seconds: 60 })
    const paused = await ask({ ...DECIDE, timeout_seconds: 60 })
    on.world.advance(61_000)
    await refused('EXPIRED', 'alice', 'request.resolve', small(failing.id))
    await refused('EXPIRED', 'alice', 'request.extend', { ...of(failing.id), timeout_seconds: 600 })
    assert.equal((await call('alice', 'request.resolve', small(paused.id))).receipt.result, 'Small')
    assert.deepEqual(await pass(0), ['request.failed'])
  })

  for (const [fallback, input] of Object.entries(fallbacks)) {
    // A default leaves people a minute (X29).
    const least = fallback === 'default' ? 60 : 1
    test(`${fallback}: the least time is kept, ten years are ten years, and 0 is never`, async () => {
      for (const [seconds, early] of [
        [least, least - 0.1],
        [limits.timeoutSecondsMax, limits.timeoutSecondsMax - 10],
      ] as const) {
        const { ask, pass, stored } = await requests()
        const { id, created_at, expires_at } = await ask({ ...input, timeout_seconds: seconds })
        assert.equal(Date.parse(expires_at) - Date.parse(created_at), seconds * 1_000)
        assert.deepEqual(await pass(early), [])
        assert.equal((await stored(id)).overdue, false)
        assert.equal((await pass(seconds - early + 1)).length, 1)
      }
      const { ask, pass, waiting, refused } = await requests()
      const { id, expires_at } = await ask({ ...input, timeout_seconds: 0 })
      assert.deepEqual([expires_at, await waiting(id), await pass(limits.timeoutSecondsMax * 2)], [null, {}, []])
      for (const timeout_seconds of [-1, 1.5, NaN, 1e300, limits.timeoutSecondsMax + 1, '60', null])
        await refused('INVALID_REQUEST', 'devin', 'request.create', { ...input, timeout_seconds })
    })
  }

  test('the system alone says so, and only when it is true', async () => {
    const { ask, refused } = await requests()
    const { id } = await ask({ ...fallbacks.fail, timeout_seconds: 60 })
    await refused('PRECONDITION_FAILED', 'system', 'request.expire', of(id))
    for (const who of ['alice', 'owner', 'devin', 'admin', 'project']) await refused('UNAUTHORIZED', who, 'request.expire', of(id))
    await refused('NOT_FOUND', 'mallory', 'request.expire', of(id))
  })
})

describe('more time', () => {
  test('counts from now, also for what is overdue already', async () => {
    const { ask, call, pass, stored, facts } = await requests()
    const { id, expires_at } = await ask({ ...DECIDE, timeout_seconds: 60 })
    await pass(61)
    const { request } = await call('alice', 'request.extend', { ...of(id), timeout_seconds: 60 })
    assert.deepEqual([request.overdue, request.status], [false, 'pending'])
    assert.equal(Date.parse(request.expires_at) - Date.parse((await facts(id)).at(-1).at), 60_000)
    assert.deepEqual((await facts(id)).at(-1).detail, { from: expires_at, to: request.expires_at })
    assert.deepEqual(await pass(59), [])
    assert.deepEqual(await pass(2), ['request.expired'])
    assert.equal((await stored(id)).overdue, true)
  })

  test('is given by who may answer and by who asks, and by nobody else', async () => {
    const more = { timeout_seconds: 3_600 }
    for (const [who, code] of Object.entries({
      alice: null,
      deputy: null,
      owner: null,
      devin: null,
      project: null,
      bob: 'NOT_FOUND',
      mallory: 'NOT_FOUND',
      robin: 'NOT_FOUND',
      admin: 'UNAUTHORIZED',
      system: 'UNAUTHORIZED',
    })) {
      const { ask, call, refused } = await requests()
      const { id } = await ask({ ...fallbacks.fail, timeout_seconds: 60 })
      if (code === null) await call(who, 'request.extend', { ...of(id), ...more })
      else await refused(code, who, 'request.extend', { ...of(id), ...more })
    }
    const { ask, call } = await requests()
    const { id } = await ask({ ...DECIDE, role: 'pool', timeout_seconds: 60 })
    await call('bob', 'request.extend', { ...of(id), ...more })
  })

  test('is never less time, and at most ten years', async () => {
    const { ask, call, refused, waiting } = await requests()
    const { id } = await ask({ ...byDefault, timeout_seconds: 3_600 })
    await refused('PRECONDITION_FAILED', 'devin', 'request.extend', { ...of(id), timeout_seconds: 1 })
    for (const timeout_seconds of [-1, 0.5, limits.timeoutSecondsMax + 1, 1e300])
      await refused('INVALID_REQUEST', 'devin', 'request.extend', { ...of(id), timeout_seconds })
    const { expires_at } = (await call('devin', 'request.extend', { ...of(id), timeout_seconds: limits.timeoutSecondsMax })).request
    assert.deepEqual(await waiting(id), { expire: expires_at })
    const { request } = await call('alice', 'request.extend', { ...of(id), timeout_seconds: 0 })
    assert.equal(request.expires_at, null)
    assert.deepEqual(await waiting(id), {})
    await refused('PRECONDITION_FAILED', 'devin', 'request.extend', { ...of(id), timeout_seconds: 60 })
    await call('alice', 'request.resolve', small(id))
    await refused('ALREADY_RESOLVED', 'alice', 'request.extend', { ...of(id), timeout_seconds: 60 })
  })

  test('does not change what was asked: the receipt is about the digest that the agent can compute', async () => {
    const { ask, call } = await requests()
    const created = await ask({ ...DECIDE, timeout_seconds: 60 })
    for (const timeout_seconds of [600, 6_000, 0]) await call('devin', 'request.extend', { ...of(created.id), timeout_seconds })
    const { receipt } = await call('alice', 'request.resolve', small(created.id))
    assert.equal(claimsIn(receipt).request_digest, requestDigest(created))
  })
})

describe('reminders', () => {
  const reminded = { ...APPROVE, remind_seconds: 600 }

  test('come as often as was asked for, until it is answered', async () => {
    const { ask, call, pass, stored, facts, waiting } = await requests()
    const { id } = await ask(reminded)
    assert.deepEqual(await pass(599), [])
    assert.deepEqual(await pass(2), ['request.reminded'])
    assert.deepEqual(await pass(500), [])
    assert.deepEqual(await pass(101), ['request.reminded'])
    assert.equal((await stored(id)).reminders, 2)
    assert.deepEqual((await facts(id)).at(-1).detail, { reminders: 2 })
    await call('alice', 'request.resolve', { ...of(id), result: 'approved' })
    assert.deepEqual(await waiting(id), {})
    assert.deepEqual(await pass(6_000), [])
  })

  test('are not caught up on by a server that was down', async () => {
    const first = await requests()
    const { id } = await first.ask(reminded)
    const { pass, stored } = await first.restarted()
    assert.deepEqual(await pass(86_400), ['request.reminded'])
    assert.deepEqual(await pass(599), [])
    assert.equal((await stored(id)).reminders, 1)
  })

  test(`end after ${limits.remindersMax}`, async () => {
    const { ask, pass, stored, waiting } = await requests()
    const { id } = await ask(reminded)
    for (let i = 0; i < limits.remindersMax; i++) assert.equal((await pass(601)).length, 1)
    assert.deepEqual([await pass(601), await waiting(id), (await stored(id)).reminders], [[], {}, limits.remindersMax])
  })

  test('are sent by the system, when they are due', async () => {
    const { ask, refused } = await requests()
    const { id } = await ask(reminded)
    await refused('PRECONDITION_FAILED', 'system', 'request.remind', of(id))
    await refused('PRECONDITION_FAILED', 'system', 'request.remind', of((await ask(DECIDE)).id))
    for (const who of ['alice', 'owner', 'devin', 'admin']) await refused('UNAUTHORIZED', who, 'request.remind', of(id))
    for (const remind_seconds of [0, 59, 1.5, limits.timeoutSecondsMax + 1])
      await refused('INVALID_REQUEST', 'devin', 'request.create', { ...APPROVE, remind_seconds })
  })
})

describe('a clock that jumps', () => {
  test('a clock that steps back expires nothing early, and one that steps ahead nothing twice', async () => {
    for (const [fallback, input] of Object.entries(fallbacks)) {
      const disk = memoryDisk()
      const clock = manualClock()
      const world = await createWorld({ store: memoryStore({ disk }), now: clock.now })
      const { id } = (await world.call('devin', 'execution/request.create', { ...input, timeout_seconds: 3_600 })).request
      const state = async (): Promise<any> => (await world.call('alice', 'execution/request.get', of(id))).request
      const worker = runTimers(world.kernel, clock, silent)
      clock.step(-DAY_MS)
      await clock.advance(3_700_000)
      assert.deepEqual([(await state()).status, (await state()).overdue], ['pending', false], `${fallback}: by the clock it has a day left`)
      clock.step(2 * DAY_MS)
      await clock.advance(61_000)
      const ended = await state()
      assert.equal(fallback === 'pause' ? ended.overdue : ended.status !== 'pending', true, fallback)
      clock.step(-2 * DAY_MS)
      await clock.advance(3 * DAY_MS)
      assert.deepEqual(await state(), ended, `${fallback}: it happened once`)
      await worker.stop()
    }
  })

  test('a restarted process continues where the last one ended', async () => {
    const disk = memoryDisk()
    const clock = manualClock()
    const first = await createWorld({ store: memoryStore({ disk }), now: clock.now })
    const worker = runTimers(first.kernel, clock, silent)
    const asked: string[] = []
    for (const seconds of [60, 600, 6_000])
      asked.push((await first.call('devin', 'execution/request.create', { ...fallbacks.fail, timeout_seconds: seconds })).request.id)
    await clock.advance(61_000)
    await worker.stop()
    await first.close()
    clock.step(1_000_000)
    const second = await createWorld({ store: memoryStore({ disk }), now: clock.now, populated: false, seed: 2 })
    const status = async (id: string): Promise<string> => (await second.call('alice', 'execution/request.get', of(id))).request.status
    assert.deepEqual(await Promise.all(asked.map(status)), ['failed', 'failed', 'pending'], 'a look judges by the clock')
    const again = runTimers(second.kernel, clock, silent)
    await clock.advance(1_000)
    assert.deepEqual(await Promise.all(asked.map(status)), ['failed', 'failed', 'pending'])
    await clock.advance(6_000_000)
    assert.deepEqual(await Promise.all(asked.map(status)), ['failed', 'failed', 'failed'])
    await again.stop()
  })
})

describe('at the same time', () => {
  const word = ({ request }: any): string => (request.receipt ? request.receipt.status : request.status) as string

  test('an answer, a withdrawal, a deadline and an extension race to one outcome, which all sides get', async () => {
    for (let i = 0; i < 24; i++) {
      const { on, ask, call, stored, facts } = await requests()
      const { id } = await ask({ ...fallbacks.fail, timeout_seconds: 60 })
      // Some of them see the deadline before them, some behind them.
      on.world.advance(59_990)
      const calls = [
        () => call('alice', 'request.resolve', small(id)),
        () => call('devin', 'request.cancel', of(id)),
        () => call('system', 'request.expire', of(id)),
        () => call('devin', 'request.extend', { ...of(id), timeout_seconds: 600 }),
      ]
      const turned = [...calls.slice(i % 4), ...calls.slice(0, i % 4)]
      await raced(
        turned.map((one) => one()),
        word,
      )
      const { status, receipt } = await stored(id)
      const endings = (await facts(id)).filter(({ action }) => /completed|failed|cancelled/.test(action))
      assert.equal(endings.length, receipt ? 1 : 0)
      assert.equal(receipt?.status ?? 'pending', status)
    }
  })

  test('a passed deadline wins over an answer', async () => {
    for (let i = 0; i < 10; i++) {
      const { on, ask, call } = await requests()
      const { id } = await ask({ ...fallbacks.fail, timeout_seconds: 60 })
      on.world.advance(61_000)
      const calls = [() => call('alice', 'request.resolve', small(id)), () => call('system', 'request.expire', of(id))]
      assert.deepEqual(
        await raced(
          (i % 2 ? calls : calls.toReversed()).map((one) => one()),
          word,
        ),
        ['EXPIRED', 'failed'],
      )
    }
  })

  test('of more time and a deadline that has not passed, more time wins', async () => {
    const { on, ask, call, stored, pass } = await requests()
    const { id } = await ask({ ...fallbacks.fail, timeout_seconds: 60 })
    on.world.advance(59_000)
    const calls = [call('alice', 'request.extend', { ...of(id), timeout_seconds: 600 }), call('system', 'request.expire', of(id))]
    assert.deepEqual(await raced(calls, word), ['PRECONDITION_FAILED', 'pending'])
    assert.deepEqual(await pass(10), [])
    assert.equal((await stored(id)).status, 'pending')
  })
})
