// Timers and the sweeper on a clock that the test moves: what is due is done, however the store and the clock behave.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Reply } from '#kernel/log/outbox-document.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { SYSTEM } from '#kernel/declare/access.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { limits } from '#kernel/limits.ts'
import { END } from '#kernel/declare/schema.ts'
import { runSweeper } from '#workers/upkeep/reply-sweeper.ts'
import { runTimers } from '#workers/timers.ts'
import { alice } from '../support/in-process/toy.ts'
import { DAY_MS, deliveries, remind, silent, timesOf, workerWorld } from '../support/in-process/worker-world.ts'

test('a timer calls its operation when it is due and not before, and is gone afterwards', async () => {
  const w = workerWorld()
  const worker = runTimers(w.kernel, w.clock, silent)
  await remind(w, 'one', 5_000)
  await w.clock.advance(4_900)
  assert.equal(await timesOf(w.store, 'one'), 0)
  await w.clock.advance(200)
  assert.equal(await timesOf(w.store, 'one'), 1)
  assert.deepEqual(await deliveries(w.store), [])
  await worker.stop()
})

test('a timer is a call by the system, and the record names the timer as its basis', async () => {
  const w = workerWorld()
  const worker = runTimers(w.kernel, w.clock, silent)
  await remind(w, 'one', 0)
  await w.clock.advance(100)
  const facts = await w.store.facts({ by: 'position' }, { after: null, limit: 10 })
  const line = JSON.parse(facts.at(-1)!.line) as { actor: string; basis: object }
  assert.equal(line.actor, SYSTEM.id)
  assert.deepEqual(line.basis, { kind: 'timer', id: 'call/lane/one' })
  await worker.stop()
})

test('nobody sleeps longer than a minute, and a timer of 30 days fires after 30 days', async () => {
  const w = workerWorld()
  const worker = runTimers(w.kernel, w.clock, silent)
  await remind(w, 'one', 30 * DAY_MS)
  await w.clock.advance(600_000)
  assert.equal(await timesOf(w.store, 'one'), 0)
  w.clock.step(30 * DAY_MS - 660_000)
  await w.clock.advance(59_000)
  assert.equal(await timesOf(w.store, 'one'), 0, 'one second too early')
  await w.clock.advance(2_000)
  assert.equal(await timesOf(w.store, 'one'), 1)
  assert.ok(w.clock.longestSleepMs <= 60_000, `slept ${w.clock.longestSleepMs} ms`)
  await worker.stop()
})

test('a timer that waits does not hold another of its lane that is due', async () => {
  const w = workerWorld()
  const worker = runTimers(w.kernel, w.clock, silent)
  await remind(w, 'far', DAY_MS, 'toy/note.keep', 'a')
  await remind(w, 'near', 1_000, 'toy/note.keep', 'b')
  await w.clock.advance(2_000)
  assert.equal(await timesOf(w.store, 'near'), 1)
  await worker.stop()
})

test('a clock that steps ahead makes timers due within a minute, one that steps back does not fire them early', async () => {
  const w = workerWorld()
  const worker = runTimers(w.kernel, w.clock, silent)
  await remind(w, 'one', 3_600_000)
  w.clock.step(-DAY_MS)
  await w.clock.advance(3_700_000)
  assert.equal(await timesOf(w.store, 'one'), 0, 'by the clock it is still a day away')
  w.clock.step(2 * DAY_MS)
  await w.clock.advance(61_000)
  assert.equal(await timesOf(w.store, 'one'), 1)
  await worker.stop()
})

test('a refusal of a timer’s operation means that the world has moved on: the timer is done', async () => {
  const w = workerWorld()
  await w.kernel.call('toy/note.write', { id: 'one' }, alice)
  const worker = runTimers(w.kernel, w.clock, silent)
  await remind(w, 'one', 0, 'toy/note.burn')
  await w.clock.advance(1_000)
  assert.deepEqual(await deliveries(w.store), [])
  await worker.stop()
})

test('a bug in a timer’s operation is tried again later and later, with the reason on the delivery', async () => {
  const w = workerWorld()
  const worker = runTimers(w.kernel, w.clock, silent)
  await remind(w, 'one', 0, 'toy/note.crash')
  await w.clock.advance(150)
  const [first] = await deliveries(w.store)
  assert.equal(first?.attempt, 1)
  assert.equal(first.error, 'the cause of the trouble')
  await w.clock.advance(3_600_000)
  const [later] = await deliveries(w.store)
  assert.ok(later!.attempt > 60 && later!.attempt < 90, `${later!.attempt} attempts in an hour`)
  await worker.stop()
})

for (const code of ['BUSY', 'UNAVAILABLE', 'CONFLICT']) {
  test(`a timer whose call is answered ${code} comes again`, async () => {
    const w = workerWorld()
    let refusals = 2
    const kernel: Kernel = {
      ...w.kernel,
      call: (name, ...rest) =>
        name === 'toy/note.keep' && refusals-- > 0 ? Promise.reject(new Refusal(code, 'not now')) : w.kernel.call(name, ...rest),
    }
    const worker = runTimers(kernel, w.clock, silent)
    await remind(w, 'one', 0)
    await w.clock.advance(5_000)
    assert.equal(await timesOf(w.store, 'one'), 1)
    assert.deepEqual(await deliveries(w.store), [])
    await worker.stop()
  })
}

test('a timer that is set anew while it fires is kept', async () => {
  const w = workerWorld()
  let again = true
  const kernel: Kernel = {
    ...w.kernel,
    async call(name, ...rest) {
      const answer: unknown = await w.kernel.call(name, ...rest)
      if (name === 'toy/note.keep' && again) {
        again = false
        await remind(w, 'one', 60_000)
      }
      return answer
    },
  }
  const worker = runTimers(kernel, w.clock, silent)
  await remind(w, 'one', 0)
  await w.clock.advance(1_000)
  assert.equal((await deliveries(w.store)).length, 1, 'the new one waits')
  await w.clock.advance(70_000)
  assert.equal(await timesOf(w.store, 'one'), 2)
  assert.deepEqual(await deliveries(w.store), [])
  await worker.stop()
})

test('a timer that is moved while it waits behind another of its lane does not fire early', async () => {
  const w = workerWorld()
  const kernel: Kernel = {
    ...w.kernel,
    async call(name, input, ...rest) {
      const answer: unknown = await w.kernel.call(name, input, ...rest)
      if (name === 'toy/note.keep' && (input as { id: string }).id === 'first') await remind(w, 'second', 60_000)
      return answer
    },
  }
  await remind(w, 'first', 0)
  await remind(w, 'second', 0)
  const worker = runTimers(kernel, w.clock, silent)
  await w.clock.advance(30_000)
  assert.deepEqual([await timesOf(w.store, 'first'), await timesOf(w.store, 'second')], [1, 0])
  await w.clock.advance(40_000)
  assert.equal(await timesOf(w.store, 'second'), 1)
  await worker.stop()
})

test('the sweeper forgets answers after their time, at the start and every hour, until none is left', async () => {
  const w = workerWorld()
  const replies = (): Promise<string[]> => w.store.keys(`${Reply.kind}/`, `${Reply.kind}/${END}`, 1_000)
  for (let i = 0; i < 450; i++) await w.kernel.call('toy/note.write', { id: 'one' }, alice, { key: `key-${i}` })
  w.clock.step(limits.replyMs + 1_000)
  await w.kernel.call('toy/note.write', { id: 'one' }, alice, { key: 'young' })
  const sweeper = runSweeper(w.kernel, w.clock, silent)
  await w.clock.advance(1_000)
  assert.deepEqual(await replies(), ['kernel.reply/user_alice/young'])
  w.clock.step(limits.replyMs)
  await w.clock.advance(3_000_000)
  assert.equal((await replies()).length, 1, 'not before the hour')
  await w.clock.advance(700_000)
  assert.deepEqual(await replies(), [])
  await sweeper.stop()
})

test('the sweeper outlives a store that refuses', async () => {
  const w = workerWorld()
  let calls = 0
  const kernel: Kernel = { ...w.kernel, call: () => (calls++, Promise.reject(new Refusal('BUSY', 'not now'))) }
  const sweeper = runSweeper(kernel, w.clock, silent)
  await w.clock.advance(3 * 3_600_000)
  assert.equal(calls, 4)
  await sweeper.stop()
})
