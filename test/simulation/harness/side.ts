// One of two harnesses in the simulation: kernel, outbox, timers and inbound on a store that outlives them. A side that has been killed writes, hears
// and says nothing any more.
import { inbound } from '#bridges/hcp/inbound.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import type { Clock } from '#kernel/ports/clock.ts'
import type { Store } from '#kernel/log/store.ts'
import { memoryStore } from '#stores/memory.ts'
import { runOutbound } from '#bridges/hcp/outbound.ts'
import { runTimers } from '#workers/timers.ts'
import { testNotary } from '../../support/in-process/notary.ts'
import { createWorld, testHarness, type World } from '../../support/in-process/world.ts'
import type { Random } from '../random.ts'
import type { SimulatedBroker } from './broker.ts'

export type Side = {
  readonly id: string
  readonly store: Store
  world(): World
  kill(): void
  start(): Promise<void>
  /** Commits are refused from time to time. */
  setBusy(chance: number): void
}

const silent = { debug() {}, info() {}, warn() {}, error() {} }
const NEVER = new Promise<never>(() => undefined)
const GAP_MS = 30_000

export async function createSide(id: string, broker: SimulatedBroker, clock: Clock, random: Random): Promise<Side> {
  const store = memoryStore()
  let world: World
  let busy = 0
  let life = { isOver: true }

  async function start(isFirst: boolean): Promise<void> {
    const own = (life = { isOver: false })
    const unlessOver = <T>(promise: Promise<T>): Promise<T> =>
      promise.then(
        (value) => (own.isOver ? NEVER : value),
        (error: unknown) => (own.isOver ? NEVER : Promise.reject(error as Error)),
      )
    const living: Store = {
      ...store,
      commit(batch) {
        if (own.isOver) return NEVER
        if (random.chance(busy)) return Promise.reject(new Refusal('BUSY', 'too many operations wait for the disk', { retry_after: 1 }))
        return unlessOver(store.commit(batch))
      },
      subscribe: (listener) => store.subscribe((hint) => (own.isOver ? undefined : listener(hint))),
    }
    const time: Clock = { now: clock.now, sleep: (ms, signal) => (own.isOver ? NEVER : unlessOver(clock.sleep(ms, signal))) }
    world = await createWorld({
      store: living,
      now: clock.now,
      sleep: time.sleep,
      populated: isFirst,
      seed: random.below(1_000_000),
      terms: { harness: { ...testHarness, id, replyMs: 20_000, gapMs: GAP_MS } },
    })
    const { kernel } = world
    const publish: SimulatedBroker['publish'] extends (user: string, ...rest: infer R) => infer P ? (...rest: R) => P : never = (parcel) =>
      own.isOver ? NEVER : unlessOver(broker.publish(id, parcel))
    runOutbound(kernel, { id, publish, notary: testNotary }, time, silent)
    runTimers(kernel, time, silent)
    const handle = inbound({ id, kernel, clock: time, link: { publish }, log: silent })
    for (const queue of [`hcp.cmd.${id}`, `hcp.evt.${id}`]) {
      broker.declare(queue)
      broker.consume(queue, (arrived) => (own.isOver ? NEVER : unlessOver(handle(arrived))))
    }
  }
  await start(true)
  return {
    id,
    store,
    world: () => world,
    kill() {
      life.isOver = true
      for (const queue of [`hcp.cmd.${id}`, `hcp.evt.${id}`]) broker.cut(queue)
    },
    start: () => start(false),
    setBusy: (chance) => void (busy = chance),
  }
}
