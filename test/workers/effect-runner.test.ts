// The effect runner: an outcome is recorded, also where the store cannot write at once.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Refusal } from '#kernel/declare/errors.ts'
import { createEffects } from '#workers/effect-runner.ts'

const clock = { now: () => 0, sleep: () => Promise.resolve() }
const log = { debug() {}, info() {}, warn() {}, error() {} }

test('an outcome that cannot be written down is tried again, and the work is not done again', async () => {
  let done = 0
  let tried = 0
  const { perform } = createEffects({ tool: () => Promise.resolve({ times: ++done }) }, clock, log, 1_000)
  const answer = await perform('tool', {}, (outcome) => {
    tried++
    return tried < 4 ? Promise.reject(new Refusal('UNAVAILABLE', 'the disk is full')) : Promise.resolve({ recorded: outcome })
  })
  assert.deepEqual(answer, { recorded: { times: 1 } })
  assert.equal(tried, 4)
})

test('an outcome that was written down already is not tried again', async () => {
  let tried = 0
  const { perform } = createEffects({ tool: () => Promise.resolve({}) }, clock, log, 1_000)
  const refused = perform('tool', {}, () => {
    tried++
    return Promise.reject(new Refusal('PRECONDITION_FAILED', 'the outcome is recorded already'))
  })
  await assert.rejects(refused, { code: 'PRECONDITION_FAILED' })
  assert.equal(tried, 1)
})
