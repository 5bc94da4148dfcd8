// The load of the process, as the workers of the background ask for it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { busyLoop } from '#apps/server/clock.ts'

test('the loop counts as busy if it had work most of the time since the last question', () => {
  let used = { active: 500, idle: 10 }
  const isBusy = busyLoop(() => used)
  used = { active: 560, idle: 50 }
  assert.equal(isBusy(), true, '60 of 100')
  used = { active: 600, idle: 110 }
  assert.equal(isBusy(), false, '40 of 100')
  assert.equal(isBusy(), false, 'no time at all')
})

test('the measure is that of the runtime', async () => {
  const isBusy = busyLoop()
  await new Promise((done) => setTimeout(done, 20))
  assert.equal(typeof isBusy(), 'boolean')
})
