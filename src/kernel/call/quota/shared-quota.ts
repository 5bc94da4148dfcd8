// A quota over all servers of one store: a document has the total that an actor has ever spent. Each server refills by its own clock and subtracts
// the spending on other servers. Clocks of two servers are compared only once, when a server first sees an actor.
import { Conflict } from '../../declare/errors.ts'
import { SYSTEM_SCOPE } from '../../declare/access.ts'
import { doc, keyOf, t, type Static } from '../../declare/schema.ts'
import { createRateLimit } from '../../codec/rate-limit.ts'
import { canonical } from '../../log/canonical-json.ts'
import { timestampOf } from '../../ports/clock.ts'
import type { Batch, Store } from '../../log/store.ts'

export const Spending = doc(
  'kernel.spending',
  t.Object({
    id: t.String(), // `${what}/${actor}`
    spent: t.Integer(), // ever
    left: t.Number(), // as its last writer saw it, for a server that has not seen the actor yet
    at: t.String(),
  }),
  { scopeOf: () => SYSTEM_SCOPE },
)
type Spending = Static<typeof Spending.schema>

const MINUTE_MS = 60_000
const NAMES_MAX = 100_000
/** Payments for one actor are made one after the other on each server, so that a loser meets only as many as there are servers. */
const ATTEMPTS_MAX = 64

type Waiting = { granted(is: boolean): void; failed(error: unknown): void }

/** Counts `what`. One payment at a time for each actor covers all waiting calls. */
export function createSharedQuota(store: Store, what: string, perMinute: number, now: () => number): (name: string) => Promise<boolean> {
  const meter = createRateLimit(perMinute, now)
  const seen = new Map<string, number>()
  const queues = new Map<string, Waiting[]>()

  /** Units that others have spent since the last look are taken off. */
  function learn(name: string, found: Spending | null): void {
    const spent = found?.spent ?? 0
    const known = seen.get(name)
    if (known !== undefined) meter.charge(name, Math.max(0, spent - known))
    else if (found) {
      const passed = Math.max(0, now() - Date.parse(found.at))
      meter.charge(name, perMinute - Math.min(perMinute, found.left + (passed * perMinute) / MINUTE_MS))
    }
    if (seen.size >= NAMES_MAX) seen.clear()
    seen.set(name, spent)
  }

  /** How many of `wanted` were paid for. */
  async function pay(name: string, wanted: number): Promise<number> {
    const key = keyOf(Spending, `${what}/${name}`)
    for (let attempt = 1; ; attempt++) {
      await store.fresh()
      const [found] = await store.read([key])
      learn(name, (found?.value as Spending | undefined) ?? null)
      let granted = 0
      while (granted < wanted && meter.take(name)) granted++
      if (granted === 0) return 0
      const spent = (seen.get(name) ?? 0) + granted
      try {
        await store.commit(
          payment(key, found?.version ?? 0, { id: `${what}/${name}`, spent, left: meter.left(name), at: timestampOf(now()) }),
        )
        seen.set(name, spent)
        return granted
      } catch (error) {
        meter.charge(name, -granted)
        if (!(error instanceof Conflict) || attempt === ATTEMPTS_MAX) throw error
      }
    }
  }

  async function work(name: string): Promise<void> {
    const all = queues.get(name)!
    while (all.length > 0) {
      const some = all.splice(0)
      try {
        const granted = await pay(name, some.length)
        for (const [i, one] of some.entries()) one.granted(i < granted)
      } catch (error) {
        for (const waiter of some) waiter.failed(error)
      }
    }
    queues.delete(name)
  }

  return (name) =>
    new Promise((granted, failed) => {
      const queue = queues.get(name)
      if (queue) return void queue.push({ granted, failed })
      queues.set(name, [{ granted, failed }])
      void work(name)
    })
}

const payment = (key: string, version: number, value: Spending): Batch => ({
  scope: SYSTEM_SCOPE,
  at: value.at,
  expect: new Map([[key, version]]),
  create: new Set(version === 0 ? [key] : []),
  facts: [],
  puts: [{ key, value, text: canonical(value) }],
  add: [],
  drop: [],
  count: new Map(),
  wakes: [],
  atMost: [],
})
