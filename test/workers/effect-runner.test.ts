// The effect runner: an outcome is recorded, even if the store cannot write immediately.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Refusal } from '#kernel/declare/errors.ts'
import { createEffectRunner } from '#workers/effect-runner.ts'

const clock = { now: () => 0, sleep: () => Promise.resolve() }
const log = { debug() {}, info() {}, warn() {}, error() {} }

test('an outcome that cannot be written down is tried again, and the work is not done again', async () => {
  let done = 0
  let tried = 0
  const { perform } = createEffectRunner({ tool: () => Promise.resolve({ times: ++done }) }, clock, log, 1_000)
  const answer = await perform('tool', {}, (outcome) => {
    tried++
    return tried < 4 ? Promise.reject(new Refusal('UNAVAILABLE', 'the disk is full')) : Promise.resolve({ recorded: outcome })
  })
  assert.deepEqual(answer, { recorded: { times: 1 } })
  assert.equal(tried, 4)
})

test('an outcome that was written down already is not tried again', async () => {
  let tried = 0
  const { perform } = createEffectRunner({ tool: () => Promise.resolve({}) }, clock, log, 1_000)
  const refused = perform('tool', {}, () => {
    tried++
    return Promise.reject(new Refusal('PRECONDITION_FAILED', 'the outcome is recorded already'))
  })
  await assert.rejects(refused, { code: 'PRECONDITION_FAILED' })
  assert.equal(tried, 1)
})

test('an outcome that no record can hold ends as unknown immediately', async () => {
  const outcomes: unknown[] = []
  const { perform } = createEffectRunner({ tool: () => Promise.resolve({ value: Number.NaN }) }, clock, log, 1_000)
  const failures = [new TypeError('a value of type number cannot be written as JSON'), new Refusal('INVALID_REQUEST', 'outcome.value')]
  for (const failure of failures) {
    const answer = await perform('tool', {}, (outcome) => {
      outcomes.push(outcome)
      return outcome === null ? Promise.resolve('unknown') : Promise.reject(failure)
    })
    assert.equal(answer, 'unknown')
  }
  assert.deepEqual(outcomes, [{ value: Number.NaN }, null, { value: Number.NaN }, null])
})

test('a conclusion that always fails is tried twice', async () => {
  let tried = 0
  const { perform } = createEffectRunner({ tool: () => Promise.resolve({}) }, clock, log, 1_000)
  const failed = perform('tool', {}, () => {
    tried++
    return Promise.reject(new TypeError('a bug'))
  })
  await assert.rejects(failed, TypeError)
  assert.equal(tried, 2)
})
