// Kept checkpoints: all of an hour, one a minute for 31 days, one an hour for good.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { toForget } from '#workers/log/kept-checkpoints.ts'

const [SECOND, MINUTE, HOUR, DAY] = [1_000, 60_000, 3_600_000, 86_400_000] as const
const NOW = Date.UTC(2026, 5, 1, 12)
const every = (ms: number, from: number, to: number): number[] => Array.from({ length: (to - from) / ms }, (_, i) => from + i * ms)

test('checkpoints of the last hour are all kept', () => {
  assert.deepEqual(toForget(every(SECOND, NOW - HOUR, NOW), NOW), [])
})

test('of a minute before the last hour, and of an hour before the last 31 days, the first is kept', () => {
  const minute = every(SECOND, NOW - 2 * HOUR, NOW - 2 * HOUR + 2 * MINUTE)
  assert.deepEqual(
    toForget(minute, NOW),
    minute.filter((at) => at % MINUTE !== 0),
  )
  const old = every(MINUTE, NOW - 40 * DAY, NOW - 40 * DAY + 2 * HOUR)
  assert.deepEqual(
    toForget(old.toReversed(), NOW),
    old.filter((at) => at % HOUR !== 0),
  )
})
