// Timers and the sweeper on a clock that the test moves: what is due is done, however the store and the clock behave.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Reply } from '#kernel/log/outbox-document.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { SYSTEM } from '#kernel/declare/access.ts'
import type { Kernel } from '#kernel/kernel.ts'
import type { Clock } from '#kernel/ports/clock.ts'
import { limits } from '#kernel/limits.ts'
import { END } from '#kernel/declare/schema.ts'
import { runReplySweeper } from '#workers/upkeep/reply-sweeper.ts'
import { runLoop } from '#workers/loop.ts'
import { runTimers } from '#workers/timers.ts'
import { alice } from '../support/in-process/toy.ts'
import { DAY_MS, remind, silent, timesOf, waitingIn, workerWorld } from '../support/in-process/worker-world.ts'

test('an operation is called when a document is due and not before, and then it waits no more', async () => {
  const w = workerWorld()
  const worker = runTimers(w.kernel, w.clock, silent)
  await remind(w, 'one', 5_000)
  await w.clock.advance(4_900)
  assert.equal(await timesOf(w.store, 'one'), 0)
  await w.clock.advance(200)
  assert.equal(await timesOf(w.store, 'one'), 1)
  assert.deepEqual(await waitingIn(w.store), [])
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
  assert.deepEqual(line.basis, { kind: 'timer', id: 'toy.note/one' })
  await worker.stop()
})

test('the timer loop never sleeps longer than a minute, and a timer of 30 days fires after 30 days', async () => {
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

test('a time that is known is kept, also if another commit comes right before it', async () => {
  const w = workerWorld()
  const worker = runTimers(w.kernel, w.clock, silent)
  await remind(w, 'one', 5_000)
  await w.clock.advance(4_995)
  await remind(w, 'far', DAY_MS)
  await w.clock.advance(6)
  assert.equal(await timesOf(w.store, 'one'), 1)
  await worker.stop()
})

test('a loop rests after each turn, also if its next time is over already', async () => {
  const slept: number[] = []
  const clock: Clock = {
    now: () => 0,
    async sleep(ms) {
      slept.push(ms)
      await new Promise((done) => setImmediate(done))
    },
  }
  const times = [5, 0, -3, 100]
  const loop = runLoop({
    name: 'toy',
    clock,
    log: silent,
    restMs: 40,
    failed: 'never',
    turn: () => Promise.resolve(times.shift() ?? 60_000),
  })
  while (slept.length < 5) await new Promise((done) => setImmediate(done))
  await loop.stop()
  assert.deepEqual(slept.slice(0, 5), [5, 40, 40, 40, 60])
})

test('a document that waits does not hold up another that is due', async () => {
  const w = workerWorld()
  const worker = runTimers(w.kernel, w.clock, silent)
  await remind(w, 'far', DAY_MS)
  await remind(w, 'near', 1_000)
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

test('a document can wait for several times in any order, and each is acted on', async () => {
  const w = workerWorld()
  const worker = runTimers(w.kernel, w.clock, silent)
  await remind(w, 'one', [60_000, 5_000])
  assert.deepEqual(await waitingIn(w.store), ['toy.note/one'], 'one entry, for the first of them')
  await w.clock.advance(6_000)
  assert.equal(await timesOf(w.store, 'one'), 1)
  await w.clock.advance(60_000)
  assert.equal(await timesOf(w.store, 'one'), 2)
  assert.deepEqual(await waitingIn(w.store), [])
  await worker.stop()
})

for (const [operation, level] of [
  ['toy/note.burn', 'debug'],
  ['toy/note.crash', 'warn'],
] as const)
  test(`${operation}, which cannot act on a document, is tried later and later, and said at the level ${level}`, async () => {
    const w = workerWorld()
    const said: string[] = []
    const worker = runTimers(w.kernel, w.clock, { ...silent, [level]: (fields: { call: string }) => void said.push(fields.call) })
    await remind(w, 'one', 0, operation)
    await w.clock.advance(150)
    assert.deepEqual(said, [operation])
    await w.clock.advance(3_600_000)
    assert.ok(said.length > 60 && said.length < 90, `${said.length} attempts in an hour`)
    assert.deepEqual(await waitingIn(w.store), ['toy.note/one'])
    await worker.stop()
  })

for (const code of ['BUSY', 'UNAVAILABLE', 'CONFLICT']) {
  test(`a document whose operation is answered ${code} comes again`, async () => {
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
    assert.deepEqual(await waitingIn(w.store), [])
    await worker.stop()
  })
}

test('a due time that is set again while it is acted on is kept', async () => {
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
  assert.equal((await waitingIn(w.store)).length, 1, 'the new one waits')
  await w.clock.advance(70_000)
  assert.equal(await timesOf(w.store, 'one'), 2)
  assert.deepEqual(await waitingIn(w.store), [])
  await worker.stop()
})

test('a document whose time is moved while those before it are acted on does not come early', async () => {
  const w = workerWorld()
  const many = Array.from({ length: 64 }, (_, i) => `a${i}`)
  const kernel: Kernel = {
    ...w.kernel,
    async call(name, input, ...rest) {
      const answer: unknown = await w.kernel.call(name, input, ...rest)
      if (name === 'toy/note.keep' && (input as { id: string }).id === 'a0') await remind(w, 'last', 60_000)
      return answer
    },
  }
  for (const id of [...many, 'last']) await remind(w, id, 0)
  const worker = runTimers(kernel, w.clock, silent)
  await w.clock.advance(30_000)
  assert.deepEqual([await timesOf(w.store, 'a0'), await timesOf(w.store, 'last')], [1, 0])
  await w.clock.advance(40_000)
  assert.equal(await timesOf(w.store, 'last'), 1)
  await worker.stop()
})

test('the sweeper forgets answers after their time, at the start and every hour, until none is left', async () => {
  const w = workerWorld()
  const replies = (): Promise<string[]> => w.store.keys(`${Reply.kind}/`, `${Reply.kind}/${END}`, 1_000)
  for (let i = 0; i < 450; i++) await w.kernel.call('toy/note.write', { id: 'one' }, alice, { key: `key-${i}` })
  w.clock.step(limits.replyMs + 1_000)
  await w.kernel.call('toy/note.write', { id: 'one' }, alice, { key: 'young' })
  const sweeper = runReplySweeper(w.kernel, w.clock, silent)
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
  const sweeper = runReplySweeper(kernel, w.clock, silent)
  await w.clock.advance(3 * 3_600_000)
  assert.equal(calls, 4)
  await sweeper.stop()
})
