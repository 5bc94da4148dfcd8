// Very many open requests: whatever a person, an agent or the clock asks for costs the same among five thousand as among a few hundred.
// The looks at the store are counted, not the time that they take here.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Clock } from '#kernel/ports/clock.ts'
import type { Store } from '#kernel/log/store.ts'
import { memoryStore } from '#stores/memory.ts'
import { runTimers } from '#workers/timers.ts'
import { ask, item } from '../../../support/over-sockets/asking.ts'
import { createWorld, type World } from '../../../support/in-process/world.ts'

const [FEW, MANY] = [600, 6_000] as const
const PRIORITIES = ['critical', 'high', 'normal', 'low']
/** The looks that a page of fifty may take: its rows, its documents and what the items have in common, and nothing that grows. */
const ROWS_MAX = 500

type Watched = { readonly store: Store; cost(): number; reset(): void }

function watched(store: Store): Watched {
  let cost = 0
  const counting = async <T>(answer: Promise<T[]>): Promise<T[]> => {
    const rows = await answer
    cost += Math.max(1, rows.length)
    return rows
  }
  return {
    store: {
      ...store,
      peek: () => undefined,
      read: (keys) => counting(store.read(keys)),
      scan: (...range) => counting(store.scan(...range)),
      keys: (...range) => counting(store.keys(...range)),
      facts: (...page) => counting(store.facts(...page)),
      count(prefix) {
        cost++
        return store.count(prefix)
      },
    },
    cost: () => cost,
    reset: () => void (cost = 0),
  }
}

type Filled = {
  readonly world: World
  readonly one: string
  costOf(run: () => Promise<unknown>): Promise<number>
  fill(to: number): Promise<void>
}

/** Of every ten one is in the pool, one is snoozed, one answered and one withdrawn; all have a deadline. A page of each is full among the few. */
async function filled(): Promise<Filled> {
  const { store, cost, reset } = watched(memoryStore())
  const world = await createWorld({ store, terms: { asksOpenMax: null, criticalPerHourMax: null } })
  let size = 0
  const asked = (i: number): Promise<any> =>
    ask(world, i % 10 === 9 ? 'robin' : 'devin', {
      priority: PRIORITIES[i % 4],
      timeout_seconds: 86_400,
      ...(i % 10 === 7 ? { role: 'pool' } : {}),
      ...item(`number ${i}`),
    })
  const { id: one } = await asked(1)
  return {
    world,
    one,
    async costOf(run) {
      reset()
      await run()
      return cost()
    },
    async fill(to) {
      for (; size < to; size++) {
        const { id } = await asked(size)
        const until = new Date(world.kernel.now() + 3_000_000).toISOString()
        if (size % 10 === 4) await world.call('alice', 'execution/request.snooze', { request_id: id, until })
        if (size % 10 === 3) await world.call('alice', 'execution/request.resolve', { request_id: id, result: 'approved' })
        if (size % 10 === 5) await world.call('devin', 'execution/request.cancel', { request_id: id })
      }
    },
  }
}

const named = (one: string): Record<string, readonly [as: string, operation: string, input: object]> => ({
  'the first page': ['alice', 'inbox.list', { limit: 50 }],
  'what is low': ['alice', 'inbox.list', { limit: 50, priority: 'low' }],
  'what is snoozed': ['alice', 'inbox.list', { limit: 50, snoozed: true }],
  'what has ended': ['alice', 'inbox.list', { limit: 50, status: 'closed' }],
  'the pool, for somebody else': ['bob', 'inbox.list', { limit: 50 }],
  'one item': ['alice', 'inbox.get', { request_id: one }],
  'how many': ['alice', 'inbox.count', {}],
  'the inbox of the draft': ['alice', 'request.inbox', { limit: 50 }],
  'the inbox of the draft, as clients ask for it': ['alice', 'request.inbox', { limit: 50, status: 'pending' }],
  'what others have claimed': ['alice', 'request.inbox', { limit: 50, status: 'assigned' }],
  'what was answered': ['alice', 'request.inbox', { limit: 50, status: 'completed' }],
  'the figures of a person': ['alice', 'request.stats', {}],
  'the figures of an agent': ['devin', 'request.stats', {}],
  'what an agent asked': ['devin', 'request.list', { limit: 50 }],
  'what an agent asked and was answered': ['devin', 'request.list', { limit: 50, status: 'completed' }],
  'one request': ['devin', 'request.get', { request_id: one }],
})

test(`lists, items and counts look at as much among ${MANY} open requests as among ${FEW}`, async () => {
  const { world, one, costOf, fill } = await filled()
  const costs = async (): Promise<Record<string, number>> => {
    const found: Record<string, number> = {}
    for (const [name, [as, operation, input]] of Object.entries(named(one)))
      found[name] = await costOf(() => world.call(as, `execution/${operation}`, input))
    return found
  }
  await fill(FEW)
  const few = await costs()
  await fill(MANY)
  const many = await costs()
  for (const [name, cost] of Object.entries(many)) {
    assert.ok(cost <= ROWS_MAX, `${name}: ${cost} rows`)
    assert.ok(cost <= few[name]! * 1.5, `${name}: ${few[name]} rows among ${FEW}, ${cost} among ${MANY}`)
  }
  const { open } = await world.call('alice', 'execution/inbox.count')
  assert.equal(open, MANY + 1 - (MANY / 10) * 3, 'all but the snoozed, the answered and the withdrawn')
  await world.close()
})

test('every page costs the same, the last like the first', async () => {
  const { world, costOf, fill } = await filled()
  await fill(2_000)
  const costs: number[] = []
  const seen = new Set<string>()
  for (let cursor: string | null = null, isLast = false; !isLast; isLast = cursor === null) {
    const at: object = cursor === null ? {} : { cursor }
    costs.push(
      await costOf(async () => {
        const page = await world.call('alice', 'execution/inbox.list', { limit: 50, ...at })
        for (const { request_id } of page.items) seen.add(request_id as string)
        cursor = page.next_cursor
      }),
    )
  }
  assert.equal(seen.size, 2_001 - 600)
  assert.ok(Math.max(...costs) <= ROWS_MAX, costs.join())
  await world.close()
})

test('asking, answering and the clock look at no more for it', async () => {
  const { world, one, costOf, fill } = await filled()
  const costs = async (): Promise<number[]> => {
    const create = await costOf(() => ask(world, 'devin', item('one more')))
    const { id } = await ask(world, 'devin', item('and one'))
    const resolve = await costOf(() => world.call('alice', 'execution/request.resolve', { request_id: id, result: 'approved' }))
    const read = await costOf(() => world.call('devin', 'execution/request.get', { request_id: one }))
    // Nothing is due: one look, however much waits.
    let looked!: () => void
    const once = new Promise<void>((done) => (looked = done))
    const clock: Clock = {
      now: world.kernel.now,
      sleep(_, signal) {
        looked()
        return new Promise((done) => signal.addEventListener('abort', () => done()))
      },
    }
    const clockwork = await costOf(async () => {
      const worker = runTimers(world.kernel, clock, { debug() {}, info() {}, warn() {}, error() {} })
      await once
      await worker.stop()
    })
    return [create, resolve, read, clockwork]
  }
  await fill(100)
  // The first looks do what is left of those who joined.
  for (let i = 0; i < 3; i++) await costs()
  const few = await costs()
  await fill(2_000)
  assert.deepEqual(await costs(), few)
  assert.ok(Math.max(...few) < 40, few.join())
  await world.close()
})
