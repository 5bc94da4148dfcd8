// The outbox on a clock that the test moves: order in a lane, retries, bounds, and a store that does not always play along.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Delivery } from '#kernel/log/outbox-document.ts'
import type { Store } from '#kernel/log/store.ts'
import { runOutbox, type Channel } from '#workers/outbox.ts'
import { settled } from '../support/in-process/manual-clock.ts'
import { alice } from '../support/in-process/toy.ts'
import { DAY_MS, deliveries, silent, workerWorld, type WorkerWorld } from '../support/in-process/worker-world.ts'

/** A channel that notes what it sends, and fails if it is told to. */
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
const post = ({ kernel }: WorkerWorld, lane: string, orders: string[]): Promise<unknown> =>
  kernel.call('toy/note.post', { lane, orders }, alice)

test('a lane is sent in order; what fails holds those behind it and no other lane', async () => {
  const w = workerWorld()
  const channel = postChannel()
  channel.failing.add('a2')
  const worker = runOutbox(w.kernel, channel, w.clock, silent)
  await post(w, 'a', ['1', '2', '3'])
  await post(w, 'b', ['1', '2'])
  await w.clock.advance(500)
  assert.deepEqual(channel.sent.toSorted(), ['a1', 'b1', 'b2'])
  channel.failing.clear()
  await w.clock.advance(5_000)
  assert.deepEqual(
    channel.sent.filter((name) => name.startsWith('a')),
    ['a1', 'a2', 'a3'],
  )
  assert.deepEqual(await deliveries(w.store), [])
  await worker.stop()
})

test('with a window, what follows a failure is sent again after it: twice rather than out of order', async () => {
  const w = workerWorld()
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

test('at most lanesMax lanes are served concurrently, and all get their turn', async () => {
  const w = workerWorld()
  const channel = postChannel()
  const worker = runOutbox(w.kernel, channel, w.clock, silent)
  await Promise.all('abcdefghij'.split('').map((lane) => post(w, lane, ['1'])))
  await w.clock.advance(5_000)
  assert.equal(channel.sent.length, 10)
  assert.equal(channel.most, 4)
  await worker.stop()
})

test('thousands behind a lane that is held do not hide another lane', async () => {
  const w = workerWorld()
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

test('thousands of deliveries without a free lane are scanned a single time, and again when a lane ends', async () => {
  const w = workerWorld()
  const gates = new Map<string, PromiseWithResolvers<void>>()
  const sharesOf = async (lanes: readonly string[]) => lanes.map((lane) => ({ owner: 'same', address: lane, yields: false }))
  const send = ({ lane }: Delivery): Promise<void> => {
    gates.set(lane, Promise.withResolvers())
    return gates.get(lane)!.promise
  }
  const orders = Array.from({ length: 500 }, (_, i) => String(i).padStart(3, '0'))
  for (const lane of 'abcdefghij') await post(w, lane, orders)
  w.clock.step(1)
  const seen = { scans: 0 }
  const scan: Store['scan'] = (...range) => {
    seen.scans++
    return w.store.scan(...range)
  }
  const kernel = { ...w.kernel, store: { ...w.store, scan } }
  const worker = runOutbox(kernel, postChannel({ sharesOf, send }), w.clock, silent)
  await w.clock.advance(1_000)
  assert.equal(gates.size, 2, 'an owner leaves lanes to others')
  const first = seen.scans
  assert.ok(first > 20, 'one round over 5,000 deliveries takes more than one look')
  await w.clock.advance(10_000)
  assert.equal(seen.scans, first, 'nothing changed, so nothing is looked at')
  gates.get('a')!.reject(new Error('a did not arrive'))
  await w.clock.advance(100)
  assert.deepEqual([...gates.keys()], ['a', 'b', 'c'])
  assert.ok(seen.scans > first)
  const stopping = worker.stop()
  for (const { resolve } of gates.values()) resolve()
  await stopping
})

test('a committed delivery goes out immediately, without the clock moving', async () => {
  const w = workerWorld()
  const channel = postChannel({ window: 8 })
  const worker = runOutbox(w.kernel, channel, w.clock, silent)
  await w.clock.advance(1)
  for (const order of ['1', '2', '3']) {
    await post(w, 'a', [order])
    await post(w, 'b', [order])
  }
  await settled()
  assert.deepEqual(
    channel.sent.filter((name) => name.startsWith('a')),
    ['a1', 'a2', 'a3'],
  )
  assert.deepEqual(
    channel.sent.filter((name) => name.startsWith('b')),
    ['b1', 'b2', 'b3'],
  )
  assert.deepEqual(await deliveries(w.store), [])
  await worker.stop()
})

test('while outcomes are recorded the next ones go out, within the window', async () => {
  let isSlow = false
  const gate = Promise.withResolvers<void>()
  const w = workerWorld()
  const call: typeof w.kernel.call = async (name, ...rest) => {
    if (isSlow && name === 'kernel/delivery.settle') await gate.promise
    return w.kernel.call(name, ...rest)
  }
  const channel = postChannel({ window: 2 })
  const worker = runOutbox({ ...w.kernel, call }, channel, w.clock, silent)
  await w.clock.advance(1)
  isSlow = true
  for (const order of ['1', '2', '3']) {
    await post(w, 'a', [order])
    await settled()
  }
  assert.deepEqual(channel.sent, ['a1', 'a2'])
  gate.resolve()
  await settled()
  assert.deepEqual(channel.sent, ['a1', 'a2', 'a3'])
  assert.deepEqual(await deliveries(w.store), [])
  await worker.stop()
})

test('a delivery posted again while its outcome is recorded is a new delivery and is sent too', async () => {
  const w = workerWorld()
  let again = true
  const call: typeof w.kernel.call = async (name, ...rest) => {
    if (again && name === 'kernel/delivery.settle') {
      again = false
      w.clock.step(1)
      await post(w, 'a', ['1'])
    }
    return w.kernel.call(name, ...rest)
  }
  const channel = postChannel({ window: 8 })
  const worker = runOutbox({ ...w.kernel, call }, channel, w.clock, silent)
  await post(w, 'a', ['1'])
  await w.clock.advance(1_000)
  assert.deepEqual(channel.sent, ['a1', 'a1'])
  assert.deepEqual(await deliveries(w.store), [])
  await worker.stop()
})

test('a delivery posted again while it is being sent is a new delivery and is sent too', async () => {
  const w = workerWorld()
  const channel = postChannel()
  let again = true
  const send: Channel['send'] = async (delivery, as) => {
    if (again) {
      again = false
      w.clock.step(1)
      await post(w, 'a', ['1'])
    }
    return channel.send(delivery, as)
  }
  const worker = runOutbox(w.kernel, { ...channel, send }, w.clock, silent)
  await post(w, 'a', ['1'])
  await w.clock.advance(1_000)
  assert.deepEqual(channel.sent, ['a1', 'a1'])
  assert.deepEqual(await deliveries(w.store), [])
  await worker.stop()
})

test('outcomes of one turn are settled in one commit', async () => {
  const w = workerWorld()
  const worker = runOutbox(w.kernel, { ...postChannel({ ordered: false, window: 50 }), send: () => Promise.resolve() }, w.clock, silent)
  await post(
    w,
    'a',
    Array.from({ length: 50 }, (_, i) => String(i)),
  )
  const before = w.store.stats().batches
  await w.clock.advance(1_000)
  assert.deepEqual(await deliveries(w.store), [])
  assert.equal(w.store.stats().batches - before, 1)
  await worker.stop()
})

test('a store that cannot write delays the settling and does not send twice', async () => {
  let full = false
  const w = workerWorld({
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
  const w = workerWorld()
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
  const w = workerWorld()
  const worker = runOutbox(w.kernel, postChannel(), w.clock, silent)
  await w.clock.advance(600_000)
  assert.ok(w.clock.sleeps <= 24, `${w.clock.sleeps} sleeps in 10 minutes`)
  await worker.stop()
})

test('a stop waits for what is being sent, and its outcome is recorded', async () => {
  const w = workerWorld()
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
  assert.deepEqual(
    (await deliveries(w.store)).map(({ id }) => id),
    ['post/a/2'],
  )
})
