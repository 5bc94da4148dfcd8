// Leases: one server at a time does what it is for, the next one takes over when it has ended, and one that was paused writes nothing more.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Refusal } from '#kernel/declare/errors.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { memoryDisk, memoryStore, type MemoryDisk } from '#stores/memory.ts'
import { LEASE_MS, openLeases, type Leases } from '#workers/leases.ts'
import { runLoop } from '#workers/loop.ts'
import { manualClock, type ManualClock } from '../support/in-process/manual-clock.ts'
import { toyKernel } from '../support/in-process/toy.ts'
import { silent } from '../support/in-process/worker-world.ts'

const NAMES = ['timers', 'outbox/webhook']

type Server = { readonly kernel: Kernel; readonly clock: ManualClock; readonly leases: Leases }
/** Its own clock: how much time passes for it is the test's to say, and its wall clock may be hours away from the others'. */
async function serverOn(disk: MemoryDisk, node: string, isShared = true, offset = 0): Promise<Server> {
  const clock = manualClock(Date.parse('2030-01-01T00:00:00.000Z'))
  const began = clock.now()
  const monotonic = (): number => clock.now() - began
  const store = memoryStore({ disk, isShared })
  const kernel = toyKernel(store, { now: () => clock.now() + offset })
  const leases = await openLeases(kernel, { node, names: NAMES, monotonic }, clock, silent)
  return { kernel, clock, leases }
}
const holds = ({ leases }: Server): boolean[] => NAMES.map((name) => leases.duty(name).holds())
/** Time passes for all of them alike, in small steps. */
async function pass(ms: number, ...servers: Server[]): Promise<void> {
  for (let passed = 0; passed < ms; passed += 100) for (const { clock } of servers) await clock.advance(100)
}

test('the first server holds all leases, the second stays on standby while the first is alive, and their clocks do not matter', async () => {
  const disk = memoryDisk()
  const one = await serverOn(disk, 'one')
  const two = await serverOn(disk, 'two', true, 5 * 3_600_000)
  await pass(20_000, one, two)
  assert.deepEqual(
    [holds(one), holds(two)],
    [
      [true, true],
      [false, false],
    ],
  )
  await one.leases.stop()
  await pass(1_000, two)
  assert.deepEqual(holds(two), [true, true])
  await two.leases.stop()
})

test('a server that ends without a word is followed after three seconds of the onlooker, and not before', async () => {
  const disk = memoryDisk()
  const one = await serverOn(disk, 'one')
  const two = await serverOn(disk, 'two')
  await pass(1_000, one, two)
  await pass(LEASE_MS - 600, two)
  assert.deepEqual(holds(two), [false, false])
  assert.equal(two.leases.isEnded('one', one.leases.epoch), false)
  await pass(1_700, two)
  assert.deepEqual(holds(two), [true, true])
  assert.equal(two.leases.isEnded('one', one.leases.epoch), true)
  await two.leases.stop()
})

test('deadlines pass by the clock of the holder, also between its end and the next holder', async () => {
  const disk = memoryDisk()
  const HOUR_MS = 3_600_000
  const one = await serverOn(disk, 'one', true, HOUR_MS)
  const two = await serverOn(disk, 'two', true, -HOUR_MS)
  const timeAt = ({ leases }: Server): number | null => leases.duty('timers').time()
  const isBehindBy = (time: number | null, ms: number): boolean =>
    time !== null && time <= one.clock.now() + HOUR_MS && time > one.clock.now() + HOUR_MS - ms
  assert.deepEqual([timeAt(one), timeAt(two)], [null, null], 'the holder has its own, and another one was not seen yet')
  await pass(2_000, one, two)
  assert.equal(timeAt(one), null)
  assert.ok(isBehindBy(timeAt(two), 1_000), String(timeAt(two)))
  // Killed: its clock continues.
  const before = timeAt(two)!
  await pass(2_000, two)
  assert.equal(holds(two)[0], false)
  assert.equal(timeAt(two), before + 2_000)
  // A server that never saw the holder move goes by its own clock.
  const three = await serverOn(disk, 'three')
  assert.equal(timeAt(three), null)
  await pass(3_000, two)
  assert.deepEqual([holds(two)[0], timeAt(two)], [true, null])
  await Promise.all([two.leases.stop(), three.leases.stop()])
})

test('one that was paused is not sure of its leases any more, and what it writes is refused', async () => {
  const disk = memoryDisk()
  const one = await serverOn(disk, 'one')
  const two = await serverOn(disk, 'two')
  await pass(1_000, one, two)
  const before = one.leases.duty('timers').as()
  await one.kernel.call('toy/note.keep', { id: 'held' }, before)
  await pass(5_000, two)
  assert.deepEqual(holds(two), [true, true])
  const refused = await one.kernel.call('toy/note.keep', { id: 'late' }, before).catch((error: unknown) => error)
  assert.ok(refused instanceof Refusal)
  assert.match(refused.message, /no longer holds the lease timers/)
  assert.deepEqual(await two.kernel.store.read(['toy.note/late']), [undefined])
  await two.kernel.call('toy/note.keep', { id: 'new' }, two.leases.duty('timers').as())
  // It comes back, sees that it lost them, and waits.
  await pass(2_000, one, two)
  assert.deepEqual(
    [holds(one), holds(two)],
    [
      [false, false],
      [true, true],
    ],
  )
  await Promise.all([one.leases.stop(), two.leases.stop()])
})

test('a first look that fails ends nothing: it looks again', async () => {
  const clock = manualClock(Date.parse('2030-01-01T00:00:00.000Z'))
  const store = memoryStore({ disk: memoryDisk(), isShared: true })
  const kernel = toyKernel(store, { now: clock.now })
  let isCut = true
  const fresh: typeof store.fresh = () =>
    isCut ? Promise.reject(new Refusal('UNAVAILABLE', 'the database cannot be reached')) : store.fresh()
  const leases = await openLeases(
    { ...kernel, store: { ...store, fresh } },
    { node: 'one', names: NAMES, monotonic: clock.now },
    clock,
    silent,
  )
  await clock.advance(100)
  isCut = false
  for (let i = 0; i < 20; i++) await clock.advance(100)
  assert.equal(leases.duty('timers').holds(), true)
  await leases.stop()
})

test('a server that cannot renew is unsure before another may begin', async () => {
  const disk = memoryDisk()
  const one = await serverOn(disk, 'one')
  const refusing = { failure: 'full' }
  const groups = disk.groups.push
  disk.groups.push = () => {
    throw Object.assign(new Error('full'), refusing)
  }
  await pass(LEASE_MS, one)
  assert.deepEqual(holds(one), [false, false])
  disk.groups.push = groups
})

test('a lone process takes all leases immediately, including those of a killed one, and writes nothing for them', async () => {
  const disk = memoryDisk()
  const killed = await serverOn(disk, 'same', false)
  assert.deepEqual(holds(killed), [true, true])
  const next = await serverOn(disk, 'other', false)
  assert.deepEqual(holds(next), [true, true])
  assert.equal(next.leases.isEnded('same', killed.leases.epoch), true)
  await pass(600_000, next)
  assert.deepEqual([disk.groups.length, next.clock.sleeps], [0, 0])
  await next.leases.stop()
})

test('a loop works while its server holds the lease, and begins within a moment after it was won', async () => {
  const disk = memoryDisk()
  const one = await serverOn(disk, 'one')
  const two = await serverOn(disk, 'two')
  const turns: string[] = []
  const loopOf = ({ clock, leases }: Server) =>
    runLoop({
      name: 'toy',
      clock,
      log: silent,
      duty: leases.duty('timers'),
      failed: 'it failed',
      turn() {
        turns.push(leases.node)
        return Promise.resolve(1_000)
      },
    })
  const [first, second] = [loopOf(one), loopOf(two)]
  await pass(3_000, one, two)
  assert.deepEqual(new Set(turns), new Set(['one']))
  assert.deepEqual([first.states?.(), second.states?.()], [{ toy: 'idle' }, { toy: 'standby' }])
  await first.stop()
  await one.leases.stop()
  await pass(1_000, two)
  assert.equal(turns.at(-1), 'two')
  await second.stop()
  assert.deepEqual(second.states?.(), { toy: 'stopped' })
  await two.leases.stop()
})
