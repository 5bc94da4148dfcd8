// The outbox: the single loop that sends everything that leaves the process. A channel knows how to send; order in a lane,
// retry, backoff, wake-up, bounded concurrency and settling in bulk are here, once.
import { messageOf } from '#kernel/codec/cut-text.ts'
import { backoffMs } from '#kernel/codec/backoff.ts'
import { timestampOf, type Clock } from '#kernel/ports/clock.ts'
import { Delivery } from '#kernel/log/outbox-document.ts'
import type { Caller } from '#kernel/log/streams.ts'
import type { Hint } from '#kernel/log/store.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { END, idIn, keyOf, prefixOf } from '#kernel/declare/schema.ts'
import { readSound } from './upkeep/sound-documents.ts'
import { createLaneShares, UNANSWERED, Unanswered, type LaneShares, type Share } from './lane-shares.ts'
import { ALONE, type Duty } from './leases.ts'
import { isPassing, runLoop, type Loop } from './loop.ts'
import { SLEEP_MS_MAX, type Worker, type WorkerLog } from './worker.ts'

export type Channel = {
  readonly name: string
  /**
   * true: a lane is sent in the order of its ids, and a failed delivery holds up the later ones.
   * false: each is sent independently when it is due; a lane only bounds how many are sent concurrently.
   */
  readonly ordered: boolean
  /** Sent in one lane before the first is confirmed: 1 if only the answer keeps the order. */
  readonly window: number
  readonly lanesMax: number
  /** The owner of each lane; without it each lane is its own owner. */
  sharesOf?(lanes: readonly string[]): Promise<readonly Share[]>
  backoffMs(attempt: number): number
  /**
   * Resolves when the receiver has it, throws to be retried, and has its own timeout. It can run twice for one delivery. A receiver that did not
   * answer in time is reported by throwing Unanswered, or by resolving with UNANSWERED if there is no retry.
   */
  send(delivery: Delivery, as: Caller): Promise<void | typeof UNANSWERED>
}

type Outcome = { id: string; taken: string; ok: boolean; due?: string; error?: string }

/** Between two looks into the index, so that a busy store does not make it look at every commit. */
const REST_MS = 10
/** How long a lane rests whose next delivery differs from the record. */
const DAMAGED_MS = 60_000
const PAGE = 256
/** One look scans at most this many pages, and the next continues from there: held lanes cannot hide others. */
const PAGES_MAX = 16
const OUTCOMES_MAX = 256
const PAUSE_MS_MAX = 10_000

const prefixIn = (channel: Channel): string => prefixOf(Delivery, 'due', [channel.name])
/** After every entry that is due at this time, before every later one. */
const endOf = (prefix: string, now: string): string => `${prefix}${now}\u{1}`
const isUnanswered = (result: PromiseSettledResult<unknown>): boolean =>
  result.status === 'rejected' ? result.reason instanceof Unanswered : result.value === UNANSWERED

type Outbox = {
  readonly kernel: Kernel
  readonly channel: Channel
  readonly clock: Clock
  readonly log: WorkerLog
  readonly duty: Duty
  readonly loop: Loop
  /** Where the due deliveries of the channel begin in the index. */
  readonly prefix: string
  /** The beginning of the keys of its deliveries. */
  readonly keys: string
  readonly lanes: Map<string, Lane>
  readonly shares: LaneShares
  /** Lanes whose first delivery waits for its next attempt, and until when. */
  readonly held: Map<string, string>
  /** Sent, and about to be removed: a commit about them is no news. */
  readonly leaving: Set<string>
  readonly settle: (outcome: Outcome) => Promise<void>
  /** Where the round over the index continues. */
  place: string
  /** A lane became free or a delivery was added since the round over the index began. */
  isStale: boolean
}

type Lane = {
  readonly name: string
  /** Keys committed since its work began: they need not be looked for. */
  readonly news: string[]
  /** Wakes it while it waits for an outcome to be recorded. */
  wake(): void
  ended: Promise<void>
}

export function runOutbox(kernel: Kernel, channel: Channel, clock: Clock, log: WorkerLog, duty: Duty = ALONE): Worker {
  const prefix = prefixIn(channel)
  const self: Outbox = {
    kernel,
    channel,
    clock,
    log,
    duty,
    loop: runLoop({
      name: `outbox/${channel.name}`,
      clock,
      log,
      duty,
      turn: () => turn(self),
      // A hint; the index is the truth.
      tail: kernel.tail,
      wants: ({ keys }) => receive(self, keys),
      restMs: REST_MS,
      failed: 'could not read the due deliveries',
    }),
    prefix,
    keys: keyOf(Delivery, `${channel.name}/`),
    lanes: new Map(),
    shares: createLaneShares(channel.lanesMax),
    held: new Map(),
    leaving: new Set(),
    settle: createSettler(kernel, clock, () => self.loop.signal, log, duty),
    place: prefix,
    isStale: false,
  }
  // Another server might have sent since, so the places of an earlier term are stale.
  const leave = duty.onChange(() => (self.isStale = true))
  return {
    ...self.loop,
    async stop() {
      leave()
      await self.loop.stop()
      await Promise.all([...self.lanes.values()].map(({ ended }) => ended))
    },
  }
}

const isOnDuty = ({ duty, loop }: Outbox): boolean => duty.holds() && !loop.signal.aborted
const nowText = ({ clock }: Outbox): string => timestampOf(clock.now())
const isHeld = ({ held }: Outbox, lane: string, now: string): boolean => (held.get(lane) ?? '') > now
function lookAgain(self: Outbox): void {
  self.isStale = true
  self.loop.wake()
}
async function readAll({ kernel }: Outbox, keys: readonly string[]): Promise<Delivery[]> {
  return (await readSound(kernel.store, keys)).map(({ value }) => value as Delivery)
}

// --- Deliveries ------------------------------------------------------------------------------------------------------------

async function send(self: Outbox, lane: string, deliveries: readonly Delivery[]): Promise<{ recorded: Promise<unknown>; isWell: boolean }> {
  const { channel, duty, shares, log } = self
  const done = await Promise.allSettled(deliveries.map((delivery) => channel.send(delivery, duty.as())))
  const failed = done.findIndex(({ status }) => status === 'rejected')
  // A receiver that answers again has room for its other lanes.
  if (done.length > 0 && shares.note(lane, done.some(isUnanswered))) lookAgain(self)
  // Messages after a failure in their lane are sent again after it: twice rather than out of order.
  const results = channel.ordered && failed !== -1 ? done.slice(0, failed + 1) : done
  if (failed !== -1)
    log.warn({ channel: channel.name, lane, error: messageOf((done[failed] as PromiseRejectedResult).reason) }, 'a delivery failed')
  const outcomes = results.map((result, i) => outcomeOf(self, deliveries[i]!, result))
  return { recorded: Promise.all(outcomes.map((outcome) => settleDelivery(self, outcome))), isWell: failed === -1 }
}

async function settleDelivery({ leaving, settle }: Outbox, outcome: Outcome): Promise<void> {
  const key = keyOf(Delivery, outcome.id)
  leaving.add(key)
  try {
    await settle(outcome)
  } finally {
    leaving.delete(key)
  }
}

function outcomeOf({ channel, clock }: Outbox, { id, attempt, due: taken }: Delivery, result: PromiseSettledResult<unknown>): Outcome {
  if (result.status === 'fulfilled') return { id, taken, ok: true }
  const again = timestampOf(clock.now() + channel.backoffMs(attempt + 1))
  return { id, taken, ok: false, due: again, error: messageOf(result.reason) }
}

// --- Lanes -----------------------------------------------------------------------------------------------------------------

function startLane(self: Outbox, name: string, share: Share, ids: readonly string[]): void {
  const { channel, lanes, shares, held, log } = self
  held.delete(name)
  shares.begin(name, share)
  const lane: Lane = { name, news: [], wake: () => undefined, ended: Promise.resolve() }
  lanes.set(name, lane)
  lane.ended = (channel.ordered ? workInOrder(self, lane) : workAsDue(self, name, ids))
    .then(
      () => true,
      (error: unknown) => {
        log.error({ channel: channel.name, lane: name, error: messageOf(error) }, 'the deliveries of one lane could not be worked on')
        return false
      },
    )
    .then((isWell) => {
      lanes.delete(name)
      shares.end(name)
      // Messages that arrived at the last moment are handled immediately; another lane can wait for the place; and the index knows what is due
      // later.
      if (isWell && lane.news.length > 0 && !held.has(name) && isOnDuty(self)) startLane(self, name, share, [])
      else lookAgain(self)
    })
}

/**
 * Sends from the first on, until none is left. Reads the store until it has no more; from then on commits announce new ones. While outcomes
 * are being recorded the next ones are sent, as many as fit into the window.
 */
async function workInOrder(self: Outbox, lane: Lane): Promise<void> {
  const { kernel, channel, clock, held } = self
  const first = keyOf(Delivery, `${channel.name}/${lane.name}/`)
  const open = new Set<Promise<unknown>>()
  let [after, isWhole, unsettled] = [first, false, 0]
  const allRecorded = async (): Promise<void> => void (await Promise.all(open))
  while (isOnDuty(self)) {
    if (unsettled >= channel.window) await Promise.race(open)
    const room = channel.window - unsettled
    const news = lane.news.splice(0).toSorted()
    // A delivery stored again under its old key while it was sent is a new one.
    if (news.some((key) => key <= after)) {
      await allRecorded()
      ;[after, isWhole] = [first, false]
      continue
    }
    const keys = isWhole ? news.slice(0, room) : await kernel.store.keys(after, first + END, room)
    if (isWhole) lane.news.push(...news.slice(room))
    else lane.news.push(...lane.news.splice(0).filter((key) => !keys.includes(key)))
    if (keys.length === 0) {
      isWhole = true
      if (open.size > 0) await Promise.race([allRecorded(), new Promise<void>((wake) => (lane.wake = wake))])
      if (open.size === 0 && lane.news.length === 0) return
      continue
    }
    const { rows, isCut } = await rowsOf(self, keys)
    const now = nowText(self)
    const later = rows.findIndex(({ due }) => due > now)
    const ready = later === -1 ? rows : rows.slice(0, later)
    if (ready.length === 0) {
      await allRecorded()
      if (isWhole) {
        // Taken back, perhaps: only the store knows.
        ;[after, isWhole] = [first, false]
        continue
      }
      // Not due yet, or damaged: nothing overtakes it.
      held.set(lane.name, rows[0]?.due ?? timestampOf(clock.now() + DAMAGED_MS))
      return
    }
    isWhole = (isWhole || keys.length < room) && !isCut && later === -1
    const sent = await send(self, lane.name, ready)
    const { length } = ready
    const ends = sent.recorded.finally(() => {
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
async function rowsOf(self: Outbox, keys: readonly string[]): Promise<{ rows: Delivery[]; isCut: boolean }> {
  const found = new Map((await readAll(self, keys)).map((row) => [keyOf(Delivery, row.id), row]))
  const missing = keys.findIndex((key) => !found.has(key))
  const rows = (missing === -1 ? keys : keys.slice(0, missing)).map((key) => found.get(key)!)
  return { rows, isCut: missing !== -1 }
}

async function workAsDue(self: Outbox, lane: string, ids: readonly string[]): Promise<void> {
  const { channel, loop, shares } = self
  for (let i = 0; i < ids.length && !loop.signal.aborted; i += channel.window) {
    // Read again: while earlier ones were sent, this one can have been deferred or withdrawn.
    const keys = ids.slice(i, i + channel.window).map((id) => keyOf(Delivery, id))
    const rows = await readAll(self, keys)
    const now = nowText(self)
    const due = rows.filter((row) => row.due <= now)
    await (
      await send(self, lane, due)
    ).recorded
    // It gives its lane back: others may be waiting for one.
    if (shares.isSilent(lane)) return
  }
}

// --- Commits ---------------------------------------------------------------------------------------------------------------

/** Deliveries that were committed here are begun immediately, where possible. Returns whether the index must be read. */
function receive(self: Outbox, keys: Hint['keys']): boolean {
  const { kernel, channel, lanes, leaving } = self
  let isMore = keys === 'all'
  const now = nowText(self)
  for (const key of keys === 'all' ? [] : keys) {
    if (!key.startsWith(self.keys)) continue
    const delivery = kernel.store.peek?.(key)?.value as Delivery | undefined
    if (delivery === undefined && leaving.has(key)) continue
    if (!channel.ordered || delivery === undefined || delivery.due > now) isMore = true
    else if (channel.sharesOf === undefined || lanes.has(delivery.lane)) take(self, delivery.lane, key, ownShare(delivery.lane))
    else void offer(self, delivery.lane, key)
  }
  self.isStale ||= isMore
  return isMore
}

/** Hands a new delivery to its lane, which begins if there is room. Without room the next lane that ends looks into the index. */
function take(self: Outbox, name: string, key: string, share: Share): void {
  const lane = self.lanes.get(name)
  if (lane) {
    lane.news.push(key)
    lane.wake()
  } else if (!isHeld(self, name, nowText(self)) && self.shares.hasRoomFor(share) && isOnDuty(self)) startLane(self, name, share, [])
}

async function offer(self: Outbox, lane: string, key: string): Promise<void> {
  try {
    const [share] = await sharesOf(self, [lane])
    take(self, lane, key, share!)
  } catch {
    // The index has it too.
    lookAgain(self)
  }
}

const ownShare = (lane: string): Share => ({ owner: lane, address: lane, yields: false })
const sharesOf = async ({ channel }: Outbox, lanes: readonly string[]): Promise<readonly Share[]> =>
  lanes.length === 0 ? [] : ((await channel.sharesOf?.(lanes)) ?? lanes.map(ownShare))

// --- The index -------------------------------------------------------------------------------------------------------------

/** Starts due deliveries and returns the milliseconds until the next look. */
async function turn(self: Outbox): Promise<number> {
  const { kernel, clock, prefix } = self
  const now = clock.now()
  const [first] = await kernel.store.scan(prefix, prefix + END, 1)
  // Usually nothing is due, and this one scan is enough.
  if (first === undefined || dueIn(self, first) > now) return untilMs(self, first, now)
  const text = timestampOf(now)
  if (await look(self, text)) return REST_MS
  const [next] = await kernel.store.scan(endOf(prefix, text), prefix + END, 1)
  return untilMs(self, next, now)
}
const dueIn = ({ prefix }: Outbox, entry: string): number => Date.parse(entry.slice(prefix.length, entry.indexOf('\0', prefix.length)))
const untilMs = (self: Outbox, entry: string | undefined, now: number): number =>
  entry === undefined ? SLEEP_MS_MAX : Math.min(SLEEP_MS_MAX, Math.max(REST_MS, dueIn(self, entry) - now))

/**
 * Starts due deliveries, as far as there are free lanes. Returns whether to look again soon: the round is incomplete, or something changed
 * since it began. A round without a change waits for a lane to end, a commit or the next due time.
 */
async function look(self: Outbox, now: string): Promise<boolean> {
  const { kernel, channel, prefix, lanes, shares } = self
  if (self.place === prefix) self.isStale = false
  for (let page = 0; page < PAGES_MAX; page++) {
    const entries = await kernel.store.scan(self.place, endOf(prefix, now), PAGE)
    for (const { lane, share, ids } of shares.inTurns(await startableIn(self, entries.map(idIn), now))) {
      if (lanes.has(lane) || isHeld(self, lane, now)) continue
      if (lanes.size >= channel.lanesMax) return false // one that ends wakes us
      if (shares.hasRoomFor(share)) startLane(self, lane, share, ids)
    }
    if (entries.length < PAGE) {
      self.place = prefix
      return self.isStale
    }
    self.place = entries.at(-1)!
  }
  return true
}

type Startable = { readonly lane: string; readonly share: Share; readonly ids: readonly string[] }

async function startableIn(self: Outbox, ids: readonly string[], now: string): Promise<Startable[]> {
  const { channel, lanes, shares } = self
  const laneOf = (id: string): string => id.slice(channel.name.length + 1, id.lastIndexOf('/'))
  const idle = [...Map.groupBy(ids, laneOf)].filter(([lane]) => !lanes.has(lane) && !isHeld(self, lane, now))
  const owned = await sharesOf(
    self,
    idle.map(([lane]) => lane),
  )
  const startable = new Map(idle.flatMap(([lane], i) => (shares.hasRoomFor(owned[i]!) ? [[lane, owned[i]!] as const] : [])))
  const sound = await soundIn(
    self,
    idle.flatMap(([lane, its]) => (startable.has(lane) ? its : [])),
  )
  return [...Map.groupBy(sound, laneOf)].map(([lane, its]) => ({ lane, share: startable.get(lane)!, ids: its }))
}

/** A channel that works in order reads for itself, and holds a lane whose next delivery cannot be read. */
async function soundIn(self: Outbox, ids: readonly string[]): Promise<readonly string[]> {
  if (self.channel.ordered) return ids
  const keys = ids.map((id) => keyOf(Delivery, id))
  return (await readAll(self, keys)).map(({ id }) => id)
}

/** One commit takes all outcomes of a turn of the event loop. Outcomes that arrive during a commit share the next one. */
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
          { error: messageOf(error), outcomes: some.length },
          'could not record outcomes; trying again',
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
