// The outbox: the one loop behind everything that leaves the process. A channel says how to send; order in a lane,
// retry, backoff, wake-up, bounded concurrency and settling in bulk are here, once.
import { timestampOf, type Clock } from '#kernel/ports/clock.ts'
import { Delivery } from '#kernel/log/outbox-document.ts'
import type { Caller } from '#kernel/log/streams.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { END, idIn, keyOf, prefixOf } from '#kernel/declare/schema.ts'
import { readSound } from './upkeep/sound-documents.ts'
import { ALONE, type Duty } from './leases.ts'
import { isPassing, runLoop } from './loop.ts'
import { SLEEP_MS_MAX, type Worker, type WorkerLog } from './worker.ts'

export type Channel = {
  readonly name: string
  /**
   * true: a lane is sent in the order of its ids, and one that fails holds those behind it.
   * false: each goes by itself when it is due; a lane only bounds how many go at once.
   */
  readonly ordered: boolean
  /** Sent in one lane before the first is confirmed: 1 where only the answer keeps the order. */
  readonly window: number
  readonly lanesMax: number
  backoffMs(attempt: number): number
  /** Resolves when the other side has it, throws to try again, and ends by itself. It may run twice for one delivery. */
  send(delivery: Delivery, as: Caller): Promise<void>
}

type Outcome = { id: string; taken: string; ok: boolean; due?: string; error?: string }

/** Between two looks into the index, so that a busy store does not make it look at every commit. */
const REST_MS = 10
/** How long a lane rests whose next delivery differs from the record. */
const DAMAGED_MS = 60_000
const PAGE = 256
/** One look goes through at most this many pages and goes on from there in the next: lanes that are held cannot hide others. */
const PAGES_MAX = 16
const OUTCOMES_MAX = 256
const ERROR_CHARS_MAX = 500
const PAUSE_MS_MAX = 10_000

const prefixIn = (channel: Channel): string => prefixOf(Delivery, 'due', [channel.name])
/** After every entry that is due at this time, before every later one. */
const endOf = (prefix: string, now: string): string => `${prefix}${now}\u{1}`
const wordsOf = (error: unknown): string => (error instanceof Error ? error.message : String(error)).slice(0, ERROR_CHARS_MAX)
export function runOutbox(kernel: Kernel, channel: Channel, clock: Clock, log: WorkerLog, duty: Duty = ALONE): Worker {
  const { store } = kernel
  const prefix = prefixIn(channel)
  const inChannel = keyOf(Delivery, `${channel.name}/`)
  const lanes = new Map<string, Promise<void>>()
  /** Lanes whose first delivery waits for its next attempt, and until when. */
  const held = new Map<string, string>()
  const settle = createSettler(kernel, clock, () => loop.signal, log, duty)
  const nowText = (): string => timestampOf(clock.now())
  let place = prefix

  async function deliver(lane: string, deliveries: readonly Delivery[]): Promise<boolean> {
    const done = await Promise.allSettled(deliveries.map((delivery) => channel.send(delivery, duty.as())))
    const failed = done.findIndex(({ status }) => status === 'rejected')
    // Messages after a failure in their lane are sent again after it: twice rather than out of order.
    const spoken = channel.ordered && failed !== -1 ? done.slice(0, failed + 1) : done
    await Promise.all(spoken.map((result, i) => settle(outcomeOf(deliveries[i]!, result))))
    if (failed !== -1)
      log.warn({ channel: channel.name, lane, error: wordsOf((done[failed] as PromiseRejectedResult).reason) }, 'a delivery failed')
    return failed === -1
  }

  function outcomeOf({ id, attempt, due: taken }: Delivery, result: PromiseSettledResult<void>): Outcome {
    if (result.status === 'fulfilled') return { id, taken, ok: true }
    const again = timestampOf(clock.now() + channel.backoffMs(attempt + 1))
    return { id, taken, ok: false, due: again, error: wordsOf(result.reason) }
  }

  async function workInOrder(lane: string): Promise<void> {
    const first = keyOf(Delivery, `${channel.name}/${lane}/`)
    for (let going = true; going && !loop.signal.aborted;) {
      const keys = await store.keys(first, first + END, channel.window)
      const rows = await readAll(keys)
      if (rows.length === 0) {
        // The next one differs from the record: nothing overtakes it, and the lane is looked at again in a while.
        if (keys.length > 0) held.set(lane, timestampOf(clock.now() + DAMAGED_MS))
        return
      }
      const now = nowText()
      const later = rows.findIndex(({ due }) => due > now)
      if (later === 0) {
        held.set(lane, rows[0]!.due)
        return
      }
      going = await deliver(lane, later === -1 ? rows : rows.slice(0, later))
    }
  }

  async function workAsDue(lane: string, ids: readonly string[]): Promise<void> {
    for (let i = 0; i < ids.length && !loop.signal.aborted; i += channel.window) {
      // Read again: while the ones before were sent, this one may have been moved or taken back.
      const rows = await readAll(ids.slice(i, i + channel.window).map((id) => keyOf(Delivery, id)))
      const now = nowText()
      await deliver(
        lane,
        rows.filter(({ due }) => due <= now),
      )
    }
  }

  async function readAll(keys: readonly string[]): Promise<Delivery[]> {
    return (await readSound(store, keys)).map(({ value }) => value as Delivery)
  }

  function start(lane: string, ids: readonly string[]): void {
    const work = (channel.ordered ? workInOrder(lane) : workAsDue(lane, ids))
      .catch((error: unknown) => log.error({ channel: channel.name, lane, error: wordsOf(error) }, 'a lane failed'))
      .finally(() => {
        lanes.delete(lane)
        loop.wake()
      })
    lanes.set(lane, work)
  }

  /** Starts what is due, as far as there are lanes. Answers whether there may be more. */
  async function look(now: string): Promise<boolean> {
    const fromStart = place === prefix
    for (let page = 0; page < PAGES_MAX; page++) {
      const entries = await store.scan(place, endOf(prefix, now), PAGE)
      const due = Map.groupBy(await readAll(entries.map((entry) => keyOf(Delivery, idIn(entry)))), ({ lane }) => lane)
      for (const [lane, deliveries] of due) {
        if (lanes.has(lane) || (held.get(lane) ?? '') > now) continue
        if (lanes.size >= channel.lanesMax) return false // one that ends wakes us
        held.delete(lane)
        start(
          lane,
          deliveries.map(({ id }) => id),
        )
      }
      if (entries.length < PAGE) {
        place = prefix
        return !fromStart
      }
      place = entries.at(-1)!
    }
    return true
  }

  /** Starts what is due and answers how long there is nothing more to do. */
  async function turn(): Promise<number> {
    const now = clock.now()
    const [first] = await store.scan(prefix, prefix + END, 1)
    // Mostly nothing is due, and then this one look was enough.
    if (first === undefined || dueIn(first) > now) return untilMs(first, now)
    const text = timestampOf(now)
    if (await look(text)) return REST_MS
    const [next] = await store.scan(endOf(prefix, text), prefix + END, 1)
    return untilMs(next, now)
  }
  const dueIn = (entry: string): number => Date.parse(entry.slice(prefix.length, entry.indexOf('\0', prefix.length)))
  const untilMs = (entry: string | undefined, now: number): number =>
    entry === undefined ? SLEEP_MS_MAX : Math.min(SLEEP_MS_MAX, Math.max(REST_MS, dueIn(entry) - now))

  const loop = runLoop({
    name: `outbox/${channel.name}`,
    clock,
    log,
    duty,
    turn,
    // A hint; the index is the truth.
    tail: kernel.tail,
    wants: ({ keys }) => keys === 'all' || keys.some((key) => key.startsWith(inChannel)),
    restMs: REST_MS,
    failed: 'the outbox could not read',
  })
  return {
    ...loop,
    async stop() {
      await loop.stop()
      await Promise.all(lanes.values())
    },
  }
}

/** All outcomes of one turn go into one commit. */
function createSettler(
  kernel: Kernel,
  clock: Clock,
  stopping: () => AbortSignal,
  log: WorkerLog,
  duty: Duty,
): (outcome: Outcome) => Promise<void> {
  let outcomes: Outcome[] = []
  let settling: Promise<void> | undefined

  async function record(some: readonly Outcome[]): Promise<void> {
    for (let attempt = 0; ; attempt++) {
      try {
        await kernel.call('kernel/delivery.settle', { outcomes: some }, duty.as())
        return
      } catch (error) {
        log[isPassing(error) ? 'warn' : 'error'](
          { error: wordsOf(error), outcomes: some.length },
          'outcomes could not be recorded; trying again',
        )
        // An unrecorded one is sent again after the next start.
        if (stopping().aborted || !duty.holds()) return
        await clock.sleep(Math.min(PAUSE_MS_MAX, 100 * 2 ** attempt), stopping())
      }
    }
  }

  async function flush(): Promise<void> {
    settling = undefined
    const all = outcomes
    outcomes = []
    for (let i = 0; i < all.length; i += OUTCOMES_MAX) await record(all.slice(i, i + OUTCOMES_MAX))
  }

  return (outcome) => {
    outcomes.push(outcome)
    return (settling ??= Promise.resolve().then(flush))
  }
}
