// The outbox: the one loop behind everything that leaves the process. A channel says how to send; order in a lane,
// retry, backoff, wake-up, bounded concurrency and settling in bulk are here, once.
import { backoffMs } from '#kernel/codec/backoff.ts'
import { timestampOf, type Clock } from '#kernel/ports/clock.ts'
import { Delivery } from '#kernel/log/outbox-document.ts'
import type { Caller } from '#kernel/log/streams.ts'
import type { Hint } from '#kernel/log/store.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { END, idIn, keyOf, prefixOf } from '#kernel/declare/schema.ts'
import { readSound } from './upkeep/sound-documents.ts'
import { createLaneShares, UNANSWERED, Unanswered, type Share } from './lane-shares.ts'
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
  /** The owner of each lane; without it each lane is its own owner. */
  sharesOf?(lanes: readonly string[]): Promise<readonly Share[]>
  backoffMs(attempt: number): number
  /**
   * Resolves when the other side has it, throws to try again, and ends by itself. It may run twice for one delivery. A receiver that did not
   * answer in time is told by throwing Unanswered, or by resolving with UNANSWERED where it is not tried again.
   */
  send(delivery: Delivery, as: Caller): Promise<void | typeof UNANSWERED>
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
const isUnanswered = (result: PromiseSettledResult<unknown>): boolean =>
  result.status === 'rejected' ? result.reason instanceof Unanswered : result.value === UNANSWERED

export function runOutbox(kernel: Kernel, channel: Channel, clock: Clock, log: WorkerLog, duty: Duty = ALONE): Worker {
  const { store } = kernel
  const prefix = prefixIn(channel)
  const inChannel = keyOf(Delivery, `${channel.name}/`)
  const lanes = new Map<string, Promise<void>>()
  const shares = createLaneShares(channel.lanesMax)
  /** Of lanes at work: what was committed since their work began, by key. It need not be looked for. */
  const news = new Map<string, string[]>()
  /** Of lanes that wait for an outcome to be recorded: what wakes them. */
  const bells = new Map<string, () => void>()
  /** Lanes whose first delivery waits for its next attempt, and until when. */
  const held = new Map<string, string>()
  /** Sent, and about to be removed: a commit that speaks of them says nothing new. */
  const leaving = new Set<string>()
  const settle = createSettler(kernel, clock, () => loop.signal, log, duty)
  const nowText = (): string => timestampOf(clock.now())
  let place = prefix
  /** A lane became free or a delivery was added since the round over the index began. */
  let isStale = false

  async function send(lane: string, deliveries: readonly Delivery[]): Promise<{ settled: Promise<unknown>; isWell: boolean }> {
    const done = await Promise.allSettled(deliveries.map((delivery) => channel.send(delivery, duty.as())))
    const failed = done.findIndex(({ status }) => status === 'rejected')
    // A receiver that answers again has room for its other lanes.
    if (done.length > 0 && shares.note(lane, done.some(isUnanswered))) lookAgain()
    // Messages after a failure in their lane are sent again after it: twice rather than out of order.
    const spoken = channel.ordered && failed !== -1 ? done.slice(0, failed + 1) : done
    if (failed !== -1)
      log.warn({ channel: channel.name, lane, error: wordsOf((done[failed] as PromiseRejectedResult).reason) }, 'a delivery failed')
    const outcomes = spoken.map((result, i) => outcomeOf(deliveries[i]!, result))
    return { settled: Promise.all(outcomes.map(settleDelivery)), isWell: failed === -1 }
  }
  async function settleDelivery(outcome: Outcome): Promise<void> {
    const key = keyOf(Delivery, outcome.id)
    leaving.add(key)
    try {
      await settle(outcome)
    } finally {
      leaving.delete(key)
    }
  }

  function outcomeOf({ id, attempt, due: taken }: Delivery, result: PromiseSettledResult<unknown>): Outcome {
    if (result.status === 'fulfilled') return { id, taken, ok: true }
    const again = timestampOf(clock.now() + channel.backoffMs(attempt + 1))
    return { id, taken, ok: false, due: again, error: wordsOf(result.reason) }
  }

  /**
   * From the first on, as long as there are any. The store is asked until it has no more; from then on commits say what is new. While outcomes
   * are being recorded the next ones go out, as many as the window has room for.
   */
  async function workInOrder(lane: string): Promise<void> {
    const first = keyOf(Delivery, `${channel.name}/${lane}/`)
    const open = new Set<Promise<unknown>>()
    let [after, isWhole, unsettled] = [first, false, 0]
    const allRecorded = async (): Promise<void> => void (await Promise.all(open))
    while (isOnDuty()) {
      if (unsettled >= channel.window) await Promise.race(open)
      const room = channel.window - unsettled
      const heard = news.get(lane)!.splice(0).toSorted()
      // Put in again under its old key while it was sent: it is another one.
      if (heard.some((key) => key <= after)) {
        await allRecorded()
        ;[after, isWhole] = [first, false]
        continue
      }
      const keys = isWhole ? heard.slice(0, room) : await store.keys(after, first + END, room)
      if (isWhole) news.get(lane)!.push(...heard.slice(room))
      else
        news.set(
          lane,
          news.get(lane)!.filter((key) => !keys.includes(key)),
        )
      if (keys.length === 0) {
        isWhole = true
        if (open.size > 0) await Promise.race([allRecorded(), new Promise<void>((ring) => bells.set(lane, ring))])
        if (open.size === 0 && news.get(lane)!.length === 0) return
        continue
      }
      const { rows, isCut } = await rowsOf(keys)
      const now = nowText()
      const later = rows.findIndex(({ due }) => due > now)
      const ready = later === -1 ? rows : rows.slice(0, later)
      if (ready.length === 0) {
        await allRecorded()
        if (isWhole) {
          // Taken back, perhaps: only the store knows.
          ;[after, isWhole] = [first, false]
          continue
        }
        // Not due yet, or the next one differs from the record: nothing overtakes it.
        held.set(lane, rows[0]?.due ?? timestampOf(clock.now() + DAMAGED_MS))
        return
      }
      isWhole = (isWhole || keys.length < room) && !isCut && later === -1
      const sent = await send(lane, ready)
      const { length } = ready
      const ends = sent.settled.finally(() => {
        open.delete(ends)
        unsettled -= length
      })
      open.add(ends)
      unsettled += length
      after = keyOf(Delivery, ready.at(-1)!.id)
      if (!sent.isWell) break
    }
    await allRecorded()
  }

  /** As far as they can be read one after the other. */
  async function rowsOf(keys: readonly string[]): Promise<{ rows: Delivery[]; isCut: boolean }> {
    const found = new Map((await readAll(keys)).map((row) => [keyOf(Delivery, row.id), row]))
    const missing = keys.findIndex((key) => !found.has(key))
    const rows = (missing === -1 ? keys : keys.slice(0, missing)).map((key) => found.get(key)!)
    return { rows, isCut: missing !== -1 }
  }

  async function workAsDue(lane: string, ids: readonly string[]): Promise<void> {
    for (let i = 0; i < ids.length && !loop.signal.aborted; i += channel.window) {
      // Read again: while the ones before were sent, this one may have been moved or taken back.
      const rows = await readAll(ids.slice(i, i + channel.window).map((id) => keyOf(Delivery, id)))
      const now = nowText()
      const { settled: ends } = await send(
        lane,
        rows.filter(({ due }) => due <= now),
      )
      await ends
      // It gives its lane back: others may be waiting for one.
      if (shares.isSilent(lane)) return
    }
  }

  async function readAll(keys: readonly string[]): Promise<Delivery[]> {
    return (await readSound(store, keys)).map(({ value }) => value as Delivery)
  }

  function start(lane: string, share: Share, ids: readonly string[]): void {
    held.delete(lane)
    shares.begin(lane, share)
    news.set(lane, [])
    const work = (channel.ordered ? workInOrder(lane) : workAsDue(lane, ids))
      .then(
        () => true,
        (error: unknown) => {
          log.error({ channel: channel.name, lane, error: wordsOf(error) }, 'the deliveries of one lane could not be worked on')
          return false
        },
      )
      .then((isWell) => {
        lanes.delete(lane)
        shares.end(lane)
        bells.delete(lane)
        const isLate = news.get(lane)!.length > 0
        news.delete(lane)
        // Messages that came at the last moment are taken up at once; another lane may wait for the place; and the index knows what is due
        // later.
        if (isWell && isLate && !held.has(lane) && isOnDuty()) start(lane, share, [])
        else lookAgain()
      })
    lanes.set(lane, work)
  }

  const isOnDuty = (): boolean => duty.holds() && !loop.signal.aborted
  function lookAgain(): void {
    isStale = true
    loop.wake()
  }
  /** Messages that were committed here are begun at once, where they can be. Answers whether the index has to be looked at. */
  function hear(keys: Hint['keys']): boolean {
    let isMore = keys === 'all'
    const now = nowText()
    for (const key of keys === 'all' ? [] : keys) {
      if (!key.startsWith(inChannel)) continue
      const delivery = store.peek?.(key)?.value as Delivery | undefined
      if (delivery === undefined && leaving.has(key)) continue
      if (!channel.ordered || delivery === undefined || delivery.due > now) isMore = true
      else if (channel.sharesOf === undefined || lanes.has(delivery.lane)) take(delivery.lane, key, ownShare(delivery.lane))
      else void offer(delivery.lane, key)
    }
    isStale ||= isMore
    return isMore
  }
  /** Hands a new delivery to its lane, which begins where there is room. Without room the next lane that ends looks into the index. */
  function take(lane: string, key: string, share: Share): void {
    if (lanes.has(lane)) {
      news.get(lane)!.push(key)
      bells.get(lane)?.()
    } else if ((held.get(lane) ?? '') <= nowText() && shares.hasRoomFor(share) && isOnDuty()) start(lane, share, [])
  }
  async function offer(lane: string, key: string): Promise<void> {
    try {
      const [share] = await sharesOf([lane])
      take(lane, key, share!)
    } catch {
      // The index knows it too.
      lookAgain()
    }
  }
  const ownShare = (lane: string): Share => ({ owner: lane, address: lane, yields: false })
  const sharesOf = async (some: readonly string[]): Promise<readonly Share[]> =>
    some.length === 0 ? [] : ((await channel.sharesOf?.(some)) ?? some.map(ownShare))

  const laneOf = (id: string): string => id.slice(channel.name.length + 1, id.lastIndexOf('/'))
  /** A channel that works in order reads for itself, and holds a lane whose next one cannot be read. */
  const soundIn = async (ids: readonly string[]): Promise<readonly string[]> =>
    channel.ordered ? ids : (await readAll(ids.map((id) => keyOf(Delivery, id)))).map(({ id }) => id)

  async function startableIn(ids: readonly string[], now: string): Promise<{ lane: string; share: Share; ids: readonly string[] }[]> {
    const idle = [...Map.groupBy(ids, laneOf)].filter(([lane]) => !lanes.has(lane) && (held.get(lane) ?? '') <= now)
    const owned = await sharesOf(idle.map(([lane]) => lane))
    const startable = new Map(idle.flatMap(([lane], i) => (shares.hasRoomFor(owned[i]!) ? [[lane, owned[i]!] as const] : [])))
    const sound = await soundIn(idle.flatMap(([lane, its]) => (startable.has(lane) ? its : [])))
    return [...Map.groupBy(sound, laneOf)].map(([lane, its]) => ({ lane, share: startable.get(lane)!, ids: its }))
  }

  /**
   * Starts what is due, as far as there are lanes. Answers whether to look again soon: the round is not at its end, or something changed since
   * it began. A round without a change waits for a lane to end, a commit or the next due time.
   */
  async function look(now: string): Promise<boolean> {
    if (place === prefix) isStale = false
    for (let page = 0; page < PAGES_MAX; page++) {
      const entries = await store.scan(place, endOf(prefix, now), PAGE)
      for (const { lane, share, ids } of shares.inTurns(await startableIn(entries.map(idIn), now))) {
        if (lanes.has(lane) || (held.get(lane) ?? '') > now) continue
        if (lanes.size >= channel.lanesMax) return false // one that ends wakes us
        if (shares.hasRoomFor(share)) start(lane, share, ids)
      }
      if (entries.length < PAGE) {
        place = prefix
        return isStale
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
    wants: ({ keys }) => hear(keys),
    restMs: REST_MS,
    failed: 'due deliveries could not be read',
  })
  // Another server sent meanwhile: the places of an earlier term say nothing.
  const leave = duty.onChange(() => (isStale = true))
  return {
    ...loop,
    async stop() {
      leave()
      await loop.stop()
      await Promise.all(lanes.values())
    },
  }
}

/** All outcomes of one turn go into one commit, and so do those that come while it is written. */
function createSettler(
  kernel: Kernel,
  clock: Clock,
  stopping: () => AbortSignal,
  log: WorkerLog,
  duty: Duty,
): (outcome: Outcome) => Promise<void> {
  let outcomes: Outcome[] = []
  /** The recording under way, and the one after it. */
  let [settling, next] = [null, null] as [Promise<void> | null, Promise<void> | null]

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
        await clock.sleep(backoffMs(100, PAUSE_MS_MAX, attempt), stopping())
      }
    }
  }

  async function flush(): Promise<void> {
    settling = next
    next = null
    const all = outcomes
    outcomes = []
    for (let i = 0; i < all.length; i += OUTCOMES_MAX) await record(all.slice(i, i + OUTCOMES_MAX))
    settling = null
  }

  return (outcome) => {
    outcomes.push(outcome)
    return (next ??= (settling ?? Promise.resolve()).then(flush))
  }
}
