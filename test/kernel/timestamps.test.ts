// Timestamps and durations: accepted forms, refused ones, and the form that is stored.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import fc from 'fast-check'
import { Refusal } from '#kernel/declare/errors.ts'
import { limits } from '#kernel/limits.ts'
import { durationMs, futureTimestamp, parseTimestamp } from '#kernel/codec/timestamps.ts'
import { createWorld, stateHash } from '../support/in-process/world.ts'

const DAY_MS = 86_400_000
const NOW = '2026-01-01T00:00:00.000Z'
const refused = (message: RegExp) => (error: unknown) => {
  assert.ok(error instanceof Refusal, String(error))
  assert.equal(error.code, 'INVALID_SPEC')
  assert.match(error.message, message)
  assert.deepEqual(error.details, { field: 'when' })
  return true
}

const times: [text: string, utc: string | null][] = [
  ['2026-01-31T12:00:00Z', '2026-01-31T12:00:00.000Z'],
  ['2026-01-31t12:00:00z', '2026-01-31T12:00:00.000Z'],
  ['2026-01-31T12:00:00.123456789Z', '2026-01-31T12:00:00.123Z'],
  ['2026-01-31T12:00:00.5+00:00', '2026-01-31T12:00:00.500Z'],
  ['2026-01-31T01:00:00+02:00', '2026-01-30T23:00:00.000Z'],
  ['2026-12-31T23:30:00-05:30', '2027-01-01T05:00:00.000Z'],
  ['2026-03-29T02:30:00+01:00', '2026-03-29T01:30:00.000Z'],
  ['2028-02-29T00:00:00Z', '2028-02-29T00:00:00.000Z'],
  ['2016-12-31T23:59:60Z', '2017-01-01T00:00:00.000Z'],
  ['2016-12-31T23:59:60.5Z', '2017-01-01T00:00:00.500Z'],
  ['2017-01-01T00:59:60+01:00', '2017-01-01T00:00:00.000Z'],
  ['0001-01-01T00:00:00Z', '0001-01-01T00:00:00.000Z'],
  ['2026-02-29T00:00:00Z', null],
  ['2026-02-30T00:00:00Z', null],
  ['2026-04-31T00:00:00Z', null],
  ['2026-00-10T00:00:00Z', null],
  ['2026-13-10T00:00:00Z', null],
  ['2026-01-00T00:00:00Z', null],
  ['2026-01-31T24:00:00Z', null],
  ['2026-01-31T12:60:00Z', null],
  ['2026-01-31T12:00:61Z', null],
  ['2026-01-31T12:00:00+24:00', null],
  ['2026-01-31T12:00:00+01:60', null],
  ['2026-01-31T12:00:00', null],
  ['2026-01-31 12:00:00Z', null],
  ['2026-01-31T12:00Z', null],
  ['2026-01-31', null],
  ['2026-01-31T12:00:00.Z', null],
  ['2026-01-31T12:00:00.1234567890Z', null],
  ['+002026-01-31T12:00:00Z', null],
  [' 2026-01-31T12:00:00Z', null],
  ['2026-01-31T12:00:00Z\n', null],
  ['tomorrow', null],
  ['1767225600', null],
  ['', null],
]
for (const [text, utc] of times) {
  test(`${JSON.stringify(text)} is ${utc ?? 'no time'}`, () => {
    const ms = parseTimestamp(text)
    assert.equal(ms === null ? null : new Date(ms).toISOString(), utc)
  })
}

test('the output of toISOString is read back, with any offset', () => {
  const offsets = fc.tuple(fc.constantFrom(1, -1), fc.integer({ min: 0, max: 23 }), fc.integer({ min: 0, max: 59 }))
  const instants = fc.date({ min: new Date('0001-01-02T00:00:00Z'), max: new Date('9999-12-30T00:00:00Z'), noInvalidDate: true })
  const two = (n: number): string => String(n).padStart(2, '0')
  fc.assert(
    fc.property(instants, offsets, (date, [sign, hours, minutes]) => {
      assert.equal(parseTimestamp(date.toISOString()), date.getTime())
      const local = new Date(date.getTime() + sign * (hours * 60 + minutes) * 60_000).toISOString().replace('Z', '')
      if (local.startsWith('+') || local.startsWith('-')) return
      assert.equal(parseTimestamp(`${local}${sign === 1 ? '+' : '-'}${two(hours)}:${two(minutes)}`), date.getTime())
    }),
    { numRuns: 2_000 },
  )
})

test('a future time is after now, within ten years, and normalised to UTC', () => {
  assert.equal(futureTimestamp('2026-01-01T01:00:00.001+01:00', NOW, 'INVALID_SPEC', 'when'), '2026-01-01T00:00:00.001Z')
  const last = new Date(Date.parse(NOW) + limits.durationMsMax)
  assert.equal(futureTimestamp(last.toISOString(), NOW, 'INVALID_SPEC', 'when'), last.toISOString())
  const wrong: [string, RegExp][] = [
    [NOW, /when is in the past/],
    ['2025-12-31T23:59:59.999Z', /when is in the past/],
    [new Date(last.getTime() + 1).toISOString(), /more than ten years away/],
    ['9999-12-31T23:59:59Z', /more than ten years away/],
    ['soon', /must be an RFC 3339 time/],
  ]
  for (const [text, message] of wrong) assert.throws(() => futureTimestamp(text, NOW, 'INVALID_SPEC', 'when'), refused(message))
})

const durations: [text: string, ms: number | null][] = [
  ['PT1S', 1_000],
  ['PT0.001S', 1],
  ['PT0.5S', 500],
  ['PT1M', 60_000],
  ['PT60S', 60_000],
  ['PT1H', 3_600_000],
  ['P1D', DAY_MS],
  ['P1W', 7 * DAY_MS],
  ['P1DT12H30M5.25S', DAY_MS + 45_005_250],
  ['P3660D', limits.durationMsMax],
  ['P3661D', null],
  ['PT0S', null],
  ['P0D', null],
  ['P1Y', null],
  ['P1M', null],
  ['P', null],
  ['PT', null],
  ['P1DT', null],
  ['P1W2D', null],
  ['PT1.5H', null],
  ['PT0.0001S', null],
  ['-PT1S', null],
  ['PT-1S', null],
  ['pt1s', null],
  ['PT1e3S', null],
  ['PTNaNS', null],
  ['PT10000000000S', null],
  ['PT99999999999S', null],
  [' PT1S', null],
  ['PT1S\n', null],
  ['5', null],
  ['', null],
]
for (const [text, ms] of durations) {
  test(`${JSON.stringify(text)} is ${ms === null ? 'refused as a duration' : `${ms} ms`}`, () => {
    if (ms === null) assert.throws(() => durationMs(text, 'INVALID_SPEC', 'when'), refused(/must be/))
    else assert.equal(durationMs(text, 'INVALID_SPEC', 'when'), ms)
  })
}

const inSeconds = (ms: number): string => `PT${(ms / 1_000).toFixed(3)}S`

describe('a checkpoint never expires early', () => {
  for (const ms of [1, 60_000, 2 ** 31 - 1, 2 ** 31, 365 * DAY_MS]) {
    test(`after ${ms} ms: not a millisecond before`, async () => {
      const world = await createWorld()
      const refs = await world.play([
        { as: 'alice', call: 'collaboration/task.create', input: { spec: { goal: 'x' } } },
        { as: 'alice', call: 'collaboration/task.assign', input: ({ task }) => ({ task_id: task.id, assignee: 'agent_devin' }) },
        { as: 'devin', call: 'collaboration/task.start', input: ({ task }) => ({ task_id: task.id }) },
        {
          as: 'devin',
          call: 'collaboration/checkpoint.raise',
          input: ({ task }) => ({ task_id: task.id, kind: 'approval', prompt: '?', expires_in: inSeconds(ms), on_expiry: 'escalate' }),
        },
      ])
      const { id, raised_at, expires_at } = refs['checkpoint']
      assert.equal(Date.parse(expires_at) - Date.parse(raised_at), ms)
      // The world's clock moves by itself with every look at it, so the last look is taken well before.
      if (ms >= 60_000) {
        world.advance(ms - 1_000)
        await assert.rejects(world.call('system', 'collaboration/checkpoint.expire', { checkpoint_id: id }), {
          code: 'PRECONDITION_FAILED',
        })
        world.advance(1_000)
      }
      const { checkpoint } = await world.call('system', 'collaboration/checkpoint.expire', { checkpoint_id: id })
      assert.equal(checkpoint.state, 'expired')
      await world.close()
    })
  }

  const nonsense: unknown[] = [
    'PT0S',
    'PT10000000000S',
    'PT1e300S',
    'PTNaNS',
    '5',
    '-1',
    '-PT1S',
    5,
    0,
    -1,
    1e300,
    Number.NaN,
    Infinity,
    null,
    {},
    ['PT1S'],
  ]
  test('and a time that is none is refused without a trace', async () => {
    const world = await createWorld()
    const { task } = await world.play([
      { as: 'alice', call: 'collaboration/task.create', input: { spec: { goal: 'x' } } },
      { as: 'alice', call: 'collaboration/task.assign', input: ({ task: made }) => ({ task_id: made.id, assignee: 'agent_devin' }) },
      { as: 'devin', call: 'collaboration/task.start', input: ({ task: made }) => ({ task_id: made.id }) },
    ])
    const before = await stateHash(world.store)
    for (const when of nonsense) {
      const calls: [as: string, operation: string, input: object][] = [
        ['devin', 'checkpoint.raise', { task_id: task.id, kind: 'approval', prompt: '?', expires_in: when }],
        ['alice', 'task.create', { spec: { goal: 'x', constraints: { max_duration: when } } }],
        // A task may say outright that it has no deadline.
        ...(when === null ? [] : [['alice', 'task.create', { spec: { goal: 'x' }, deadline: when }] as [string, string, object]]),
      ]
      for (const [as, operation, input] of calls) {
        await assert.rejects(world.call(as, `collaboration/${operation}`, input), (error: Refusal) => {
          assert.match(error.code, /^INVALID_(REQUEST|SPEC)$/, `${operation} with ${String(when)}: ${error.message}`)
          return true
        })
      }
    }
    assert.equal(await stateHash(world.store), before)
    await world.close()
  })
})
