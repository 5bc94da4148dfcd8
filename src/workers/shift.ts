// An agent at work: takes runs for the time of a lease, puts each to a child, passes on what comes for it, keeps the leases while it
// works, and starts a child that failed again. The same for children of the server and for a command behind `countersign agent run`.
import type { Clock } from '#kernel/clock.ts'
import { limits } from '#kernel/limits.ts'
import type { Message } from '#protocols/delegation/schema.ts'
import type { Item } from './child-lines.ts'
import { startRun, type Outcome, type Plan, type Port, type Working } from './child-run.ts'
import type { Worker } from './worker.ts'

export type ShiftOptions = {
  readonly port: Port
  readonly plan: Plan
  /** Runs at a time, and how often a child that fails is started for one of them. */
  readonly concurrency: number
  readonly tries: number
  /** Which process this is, among those of the same agent. */
  readonly worker: string
  readonly clock: Clock
  /** How long to wait for the next message where nobody rings. */
  readonly pollMs: number
  readonly backoffMs?: (tries: number) => number
  /** What happens, for who watches. */
  note(run_id: string, words: string): void
  trouble(words: string): void
}
export type Shift = Worker & {
  /** There may be something to take. */
  ring(): void
  /** Takes nothing more and resolves when what is at work has come to its end. */
  finish(): Promise<void>
  readonly ended: Promise<void>
}

const LEASE_MS = 30_000
const LEASE = 'PT30S'
const usualBackoffMs = (tries: number): number => Math.min(60_000, 500 * 2 ** tries)

type Seat = { item: Item; working: Working | null; done: Promise<void> | null }

export function runShift(options: ShiftOptions): Shift {
  const { port, plan, concurrency, tries, worker, clock, note, trouble, backoffMs = usualBackoffMs } = options
  const seats = new Map<string, Seat>()
  const stopping = new AbortController()
  const { signal } = stopping
  let isFinishing = false
  let waker = new AbortController()

  const atWork = (): Seat[] => [...seats.values()].filter(({ done }) => done !== null)
  const take = async (more: object): Promise<Item[]> =>
    ((await port.call('delegation/inbox.take', { worker, lease: LEASE, ...more })) as { items: Item[] }).items

  /** What waits for an agent: new runs as far as there is room, and messages to those that it works on. */
  async function waiting(): Promise<Item[]> {
    const free = isFinishing ? 0 : concurrency - atWork().length
    if (free > 0) return take({ limit: Math.min(free, limits.takenMax) })
    const own = await Promise.all([...seats.keys()].map((run_id) => take({ run_id })))
    return own.flat()
  }

  async function settle({ run, attempt, messages }: Item): Promise<void> {
    await port.call('delegation/inbox.ack', { run_id: run.id, attempt, number: messages.at(-1)!.number })
  }

  async function fail({ run, attempt }: Item, words: string): Promise<void> {
    note(run.id, `failed: ${words}`)
    await port.call('delegation/run.fail', { run_id: run.id, attempt, error: words.slice(0, limits.textCharsMax) })
  }

  /** One run, through as many children as it takes. */
  async function work(seat: Seat): Promise<void> {
    const { id } = seat.item.run
    for (let count = 1; !signal.aborted; count++) {
      seat.working = startRun(seat.item, plan, port, (words) => note(id, words))
      const outcome: Outcome = await seat.working.ended
      seat.working = null
      if (outcome.kind === 'over' && hasCancel(seat.item.messages)) await settle(seat.item)
      if (outcome.kind !== 'failed') return
      if (outcome.isFatal || count >= tries) return fail(seat.item, outcome.words)
      note(id, `${outcome.words.split('\n')[0]}; starting it again`)
      await clock.sleep(backoffMs(count), signal)
      if (hasCancel(seat.item.messages)) return settle(seat.item)
    }
  }

  function begin(seat: Seat): void {
    const { run } = seat.item
    seats.set(run.id, seat)
    note(run.id, 'taken')
    seat.done = work(seat)
      .catch((error: unknown) => trouble(`${run.id}: ${(error as Error).message}`))
      .finally(() => {
        if (seats.get(run.id) === seat) seats.delete(run.id)
        ring()
      })
  }

  async function receive(item: Item): Promise<void> {
    const seat = seats.get(item.run.id)
    if (seat) {
      // After a lease that ended the same come again.
      const last = seat.item.messages.at(-1)?.number ?? 0
      const fresh = item.messages.filter(({ number }) => number > last)
      seat.item = { ...item, messages: [...seat.item.messages, ...fresh] }
      seat.working?.tell(fresh, item.attempt)
      if (seat.done === null && !isParked(seat.item)) begin(seat)
    } else if (hasCancel(item.messages)) await settle(item)
    else if (isParked(item)) seats.set(item.run.id, { item, working: null, done: null })
    else begin({ item, working: null, done: null })
  }

  async function loop(): Promise<void> {
    while (!signal.aborted && !(isFinishing && atWork().length === 0)) {
      waker = new AbortController()
      const { signal: woken } = waker
      try {
        for (const item of await waiting()) await receive(item)
      } catch (error) {
        trouble((error as Error).message)
      }
      await clock.sleep(options.pollMs, AbortSignal.any([woken, signal]))
    }
  }

  /** Whoever lost a run to another process stops working on it. */
  async function keep(): Promise<void> {
    while (!signal.aborted) {
      await clock.sleep(LEASE_MS / 3, signal)
      const held = [...seats.values()].map(({ item }) => ({ run_id: item.run.id, attempt: item.attempt }))
      for (let i = 0; i < held.length && !signal.aborted; i += limits.takenMax) {
        try {
          const { items } = await port.call('delegation/inbox.extend', { runs: held.slice(i, i + limits.takenMax), lease: LEASE })
          for (const { run_id, lease_until } of items as { run_id: string; lease_until: string | null }[])
            if (lease_until === null) await lose(run_id)
        } catch (error) {
          trouble((error as Error).message)
        }
      }
    }
  }
  /** A run that has ended has no lease any more either; its child may be putting things away. */
  async function lose(run_id: string): Promise<void> {
    const { run } = (await port.call('delegation/run.get', { run_id })) as { run: { state: string } }
    if (run.state === 'running' || run.state === 'blocked') seats.get(run_id)?.working?.stop('lost')
    if (seats.get(run_id)?.done === null) seats.delete(run_id)
  }

  const ring = (): void => waker.abort()
  const running = Promise.all([loop().finally(() => stopping.abort()), keep()])
  return {
    ring,
    ended: running.then(() => undefined),
    async finish() {
      isFinishing = true
      ring()
      await running
    },
    async stop() {
      stopping.abort()
      for (const { working } of seats.values()) working?.stop('stopped')
      await Promise.all([running, ...atWork().map(({ done }) => done)])
    },
  }
}

const hasCancel = (messages: readonly Message[]): boolean => messages.some(({ kind }) => kind === 'cancel')
/** Nothing to do until a person answers: what came in between is kept for whoever goes on then. */
const isParked = ({ run, messages }: Item): boolean =>
  run.state === 'blocked' && messages.every(({ kind }) => kind === 'steer' || kind === 'block')
