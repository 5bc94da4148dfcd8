// Workers on a clock that the test moves: what is due is done, in order, once settled, however the store and the clock behave.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { timestampOf } from '#kernel/clock.ts'
import { Delivery, Reply } from '#kernel/delivery.ts'
import { Refusal } from '#kernel/errors.ts'
import { SYSTEM } from '#kernel/identity.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { limits } from '#kernel/limits.ts'
import { END, keyOf } from '#kernel/schema.ts'
import type { Store } from '#kernel/store.ts'
import { memoryDisk, memoryStore, type MemoryOptions } from '#stores/memory.ts'
import { runOutbox, type Channel } from '#workers/outbox.ts'
import { runSweeper } from '#workers/sweeper.ts'
import { runTimers } from '#workers/timers.ts'
import { manualClock, settled, type ManualClock } from './manual-clock.ts'
import { alice, Note, toyKernel } from './toy.ts'

const silent = { debug() {}, info() {}, warn() {}, error() {} }
const DAY_MS = 24 * 3_600_000

type World = { readonly clock: ManualClock; readonly store: Store; readonly kernel: Kernel }
function world(options: MemoryOptions = {}): World {
  const clock = manualClock()
  const store = memoryStore(options)
  return { clock, store, kernel: toyKernel(store, { now: clock.now }) }
}

const deliveries = async (store: Store): Promise<Delivery[]> => {
  const keys = await store.keys(`${Delivery.kind}/`, `${Delivery.kind}/${END}`, 1_000)
  return (await store.read(keys)).map((row) => row!.value as Delivery)
}
const timesOf = async (store: Store, id: string): Promise<number> => ((await store.read([keyOf(Note, id)]))[0]?.value['times'] as number | undefined) ?? 0
const remind = ({ kernel, clock }: World, id: string, inMs: number, call = 'toy/note.keep', name = id): Promise<unknown> =>
  kernel.call('toy/note.remind', { lane: 'lane', name, due: timestampOf(clock.now() + inMs), call, input: { id } }, alice)

test('a timer calls its operation when it is due and not before, and is gone afterwards', async () => {
  const w = world()
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
  const w = world()
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
  const w = world()
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
  const w = world()
  const worker = runTimers(w.kernel, w.clock, silent)
  await remind(w, 'far', DAY_MS, 'toy/note.keep', 'a')
  await remind(w, 'near', 1_000, 'toy/note.keep', 'b')
  await w.clock.advance(2_000)
  assert.equal(await timesOf(w.store, 'near'), 1)
  await worker.stop()
})

test('a clock that steps ahead makes timers due within a minute, one that steps back does not fire them early', async () => {
  const w = world()
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
  const w = world()
  await w.kernel.call('toy/note.write', { id: 'one' }, alice)
  const worker = runTimers(w.kernel, w.clock, silent)
  await remind(w, 'one', 0, 'toy/note.burn')
  await w.clock.advance(1_000)
  assert.deepEqual(await deliveries(w.store), [])
  await worker.stop()
})

test('a bug in a timer’s operation is tried again later and later, with the reason on the delivery', async () => {
  const w = world()
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
    const w = world()
    let refusals = 2
    const kernel: Kernel = {
      ...w.kernel,
      call: (name, ...rest) => (name === 'toy/note.keep' && refusals-- > 0 ? Promise.reject(new Refusal(code, 'not now')) : w.kernel.call(name, ...rest)),
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
  const w = world()
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

/** A channel that notes what it sends, and fails where it is told to. */
function postChannel(over: Partial<Channel> = {}): Channel & { sent: string[]; failing: Set<string>; most: number } {
  const sent: string[] = []
  const failing = new Set<string>()
  let under = 0
  const channel = {
    name: 'post',
    ordered: true,
    window: 1,
    lanesMax: 4,
    backoffMs: () => 1_000,
    sent,
    failing,
    most: 0,
    async send({ lane, body }: Delivery) {
      const name = `${lane}${(body as { order: string }).order}`
      channel.most = Math.max(channel.most, ++under)
      await new Promise((done) => setImmediate(done))
      under--
      if (failing.has(name)) throw new Error(`${name} did not arrive`)
      sent.push(name)
    },
    ...over,
  }
  return channel
}
const post = ({ kernel }: World, lane: string, orders: string[]): Promise<unknown> => kernel.call('toy/note.post', { lane, orders }, alice)

test('a lane is sent in order; what fails holds those behind it and no other lane', async () => {
  const w = world()
  const channel = postChannel()
  channel.failing.add('a2')
  const worker = runOutbox(w.kernel, channel, w.clock, silent)
  await post(w, 'a', ['1', '2', '3'])
  await post(w, 'b', ['1', '2'])
  await w.clock.advance(500)
  assert.deepEqual(channel.sent.toSorted(), ['a1', 'b1', 'b2'])
  channel.failing.clear()
  await w.clock.advance(5_000)
  assert.deepEqual(channel.sent.filter((name) => name.startsWith('a')), ['a1', 'a2', 'a3'])
  assert.deepEqual(await deliveries(w.store), [])
  await worker.stop()
})

test('with a window, what follows a failure is sent again after it: twice rather than out of order', async () => {
  const w = world()
  const channel = postChannel({ window: 3 })
  channel.failing.add('a1')
  const worker = runOutbox(w.kernel, channel, w.clock, silent)
  await post(w, 'a', ['1', '2', '3'])
  await w.clock.advance(500)
  assert.deepEqual(channel.sent, ['a2', 'a3'])
  assert.equal((await deliveries(w.store)).length, 3)
  channel.failing.clear()
  await w.clock.advance(5_000)
  assert.deepEqual(channel.sent, ['a2', 'a3', 'a1', 'a2', 'a3'])
  await worker.stop()
})

test('at most lanesMax lanes are served at once, and all get their turn', async () => {
  const w = world()
  const channel = postChannel()
  const worker = runOutbox(w.kernel, channel, w.clock, silent)
  for (const lane of 'abcdefghij') await post(w, lane, ['1'])
  await w.clock.advance(5_000)
  assert.equal(channel.sent.length, 10)
  assert.equal(channel.most, 4)
  await worker.stop()
})

test('thousands behind a lane that is held do not hide another lane', async () => {
  const w = world()
  const channel = postChannel({ backoffMs: () => DAY_MS })
  channel.failing.add('a00000')
  const orders = Array.from({ length: 9_000 }, (_, i) => String(i).padStart(5, '0'))
  await post(w, 'a', orders)
  w.clock.step(1)
  const worker = runOutbox(w.kernel, channel, w.clock, silent)
  await w.clock.advance(500)
  await post(w, 'z', ['1'])
  await w.clock.advance(1_000)
  assert.deepEqual(channel.sent, ['z1'])
  await worker.stop()
})

test('outcomes of one turn are settled in one commit', async () => {
  const w = world()
  const worker = runOutbox(w.kernel, { ...postChannel({ ordered: false, window: 50 }), send: () => Promise.resolve() }, w.clock, silent)
  await post(w, 'a', Array.from({ length: 50 }, (_, i) => String(i)))
  const before = w.store.stats().batches
  await w.clock.advance(1_000)
  assert.deepEqual(await deliveries(w.store), [])
  assert.equal(w.store.stats().batches - before, 1)
  await worker.stop()
})

test('a store that cannot write delays the settling and does not send twice', async () => {
  let full = false
  const w = world({
    onWrite(_, apply) {
      if (full) throw Object.assign(new Error('full'), { failure: 'full' })
      apply()
    },
  })
  const channel = postChannel()
  await post(w, 'a', ['1', '2'])
  full = true
  const worker = runOutbox(w.kernel, channel, w.clock, silent)
  await w.clock.advance(30_000)
  assert.deepEqual(channel.sent, ['a1'])
  assert.ok(w.clock.sleeps < 100, `${w.clock.sleeps} sleeps: it does not spin`)
  full = false
  await w.clock.advance(30_000)
  assert.deepEqual(channel.sent, ['a1', 'a2'])
  await worker.stop()
})

test('a store that cannot be read is asked again after a pause', async () => {
  const w = world()
  let broken = true
  const store: Store = { ...w.store, scan: (...args) => (broken ? Promise.reject(new Error('cannot read')) : w.store.scan(...args)) }
  const channel = postChannel()
  const worker = runOutbox({ ...w.kernel, store }, channel, w.clock, silent)
  await post(w, 'a', ['1'])
  await w.clock.advance(10_000)
  assert.ok(w.clock.sleeps < 50, `${w.clock.sleeps} sleeps in 10 s: it does not spin`)
  broken = false
  await w.clock.advance(2_000)
  assert.deepEqual(channel.sent, ['a1'])
  await worker.stop()
})

test('an outbox with nothing to do looks once a minute', async () => {
  const w = world()
  const worker = runOutbox(w.kernel, postChannel(), w.clock, silent)
  await w.clock.advance(600_000)
  assert.ok(w.clock.sleeps <= 24, `${w.clock.sleeps} sleeps in 10 minutes`)
  await worker.stop()
})

test('a stop waits for what is being sent, and its outcome is recorded', async () => {
  const w = world()
  const gate = Promise.withResolvers<void>()
  const worker = runOutbox(w.kernel, { ...postChannel(), send: () => gate.promise }, w.clock, silent)
  await post(w, 'a', ['1', '2'])
  await w.clock.advance(100)
  let stopped = false
  const stopping = worker.stop().then(() => (stopped = true))
  await settled()
  assert.equal(stopped, false)
  gate.resolve()
  await stopping
  assert.deepEqual((await deliveries(w.store)).map(({ id }) => id), ['post/a/2'])
})

test('the sweeper forgets answers after their time, at the start and every hour, until none is left', async () => {
  const disk = memoryDisk()
  const w = world({ disk })
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
  const w = world()
  let calls = 0
  const kernel: Kernel = { ...w.kernel, call: () => (calls++, Promise.reject(new Refusal('BUSY', 'not now'))) }
  const sweeper = runSweeper(kernel, w.clock, silent)
  await w.clock.advance(3 * 3_600_000)
  assert.equal(calls, 4)
  await sweeper.stop()
})
