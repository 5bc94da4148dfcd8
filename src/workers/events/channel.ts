// The event channels of projects: each gets the events of its project in order, in batches, at least once. A channel reads the record itself and notes how
// far it came, so a receiver that is down for days leaves no queue behind and holds up no other one.
import { backoffMs } from '#kernel/codec/backoff.ts'
import { messageOf } from '#kernel/codec/cut-text.ts'
import type { Clock } from '#kernel/ports/clock.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { limits } from '#kernel/limits.ts'
import { END, idIn, keyOf, prefixOf } from '#kernel/declare/schema.ts'
import { EventChannel, EventCursor } from '#protocols/execution/notices/event-channel.ts'
import { Hook } from '#protocols/execution/notices/notice.ts'
import { readSound } from '../upkeep/sound-documents.ts'
import { ALONE, type Duty } from '../leases.ts'
import { runLoop, type Loop } from '../loop.ts'
import { signedHeaders, type WebhookOptions } from '../webhooks/agents.ts'
import { post, type Posted } from '../webhooks/post.ts'
import { SLEEP_MS_MAX, type Worker, type WorkerLog } from '../worker.ts'
import { batchFrom, type EventBatch } from './batch.ts'

export type EventOptions = WebhookOptions & {
  /** Under which address people reach this server: the source of the events. */
  origin?(): string
}

/** One channel under way. `hasNews`: the project has events that it has not looked at. `isStale`: its documents have changed. */
type Feed = {
  channel: EventChannel
  cursor: EventCursor
  position: number
  hasNews: boolean
  isBusy: boolean
  isStale: boolean
}

type Sending = {
  readonly kernel: Kernel
  readonly options: EventOptions
  readonly clock: Clock
  readonly log: WorkerLog
  readonly duty: Duty
  readonly feeds: Map<string, Feed>
  readonly running: Set<Promise<void>>
  readonly loop: Loop
  readonly stopping: AbortController
  isStale: boolean
}

const PAGE = 256
const CHANNEL_KEYS = keyOf(EventChannel, '')
const REST_MS = 20
const PAUSE_MS = 1_000
/** The receiver takes no batch of this size. */
const TOO_LARGE = 413
const WEB_PAGE = 'it answered with a web page, so nothing has taken the events: give the address of the receiver itself'

export function runEventChannels(kernel: Kernel, options: EventOptions, clock: Clock, log: WorkerLog, duty: Duty = ALONE): Worker {
  const stopping = new AbortController()
  const self: Sending = {
    kernel,
    options: { ...options, signal: stopping.signal },
    clock,
    log,
    duty,
    feeds: new Map(),
    running: new Set(),
    stopping,
    isStale: true,
    loop: runLoop({
      name: 'outbox/events',
      clock,
      log,
      duty,
      turn: () => turn(self),
      tail: kernel.tail,
      wants({ keys }) {
        const isChanged = keys === 'all' || keys.some((key) => key.startsWith(CHANNEL_KEYS))
        self.isStale ||= isChanged
        return isChanged
      },
      restMs: REST_MS,
      failed: 'could not read the event channels',
    }),
  }
  // Without a channel no fact is read for them.
  const leave = kernel.tail.follow(
    (facts) => receive(self, new Set(facts.map(({ scope }) => scope))),
    () => self.feeds.size > 0 && duty.holds(),
  )
  // Another server might have sent since.
  const forget = duty.onChange(() => {
    self.feeds.clear()
    self.isStale = true
  })
  return {
    ...self.loop,
    async stop() {
      leave()
      forget()
      stopping.abort()
      await self.loop.stop()
      await Promise.all(self.running)
    },
  }
}

function receive({ feeds, loop }: Sending, scopes: ReadonlySet<string>): void {
  let isWanted = false
  for (const feed of feeds.values()) {
    if (!scopes.has(feed.channel.project_id)) continue
    feed.hasNews = true
    isWanted ||= !feed.isBusy
  }
  if (isWanted) loop.wake()
}

const isOnDuty = ({ duty, loop }: Sending): boolean => duty.holds() && !loop.signal.aborted

/** Starts every channel that has something to send, and returns when the next attempt is due. */
async function turn(self: Sending): Promise<number> {
  if (self.isStale) await readChannels(self)
  const now = self.kernel.now()
  let restMs = SLEEP_MS_MAX
  for (const feed of self.feeds.values()) {
    if (feed.isBusy || !feed.hasNews) continue
    const waitMs = Date.parse(feed.cursor.next_at) - now
    if (feed.cursor.attempts > 0 && waitMs > 0) restMs = Math.min(restMs, waitMs)
    // One that ends wakes the loop.
    else if (self.running.size < limits.webhooksMax) start(self, feed)
  }
  return restMs
}

async function readChannels(self: Sending): Promise<void> {
  const { kernel, feeds } = self
  self.isStale = false
  const prefix = prefixOf(EventChannel, 'sending', [])
  const present = new Set<string>()
  for (let after = prefix; ;) {
    const entries = await kernel.store.scan(after, prefix + END, PAGE)
    const ids = entries.map(idIn)
    const channels = await readSound(
      kernel.store,
      ids.map((id) => keyOf(EventChannel, id)),
    )
    const cursors = await readSound(
      kernel.store,
      ids.map((id) => keyOf(EventCursor, id)),
    )
    const cursorOf = new Map(cursors.map(({ value }) => [(value as EventCursor).id, value as EventCursor]))
    for (const { value } of channels) {
      const channel = value as EventChannel
      const cursor = cursorOf.get(channel.id)
      if (cursor === undefined) continue
      present.add(channel.id)
      const feed = feeds.get(channel.id)
      // It reads its documents again before its next batch.
      if (feed?.isBusy) feed.isStale = true
      else feeds.set(channel.id, { channel, cursor, position: cursor.position, hasNews: true, isBusy: false, isStale: false })
    }
    if (entries.length < PAGE) break
    after = entries.at(-1)!
  }
  for (const id of feeds.keys()) if (!present.has(id)) feeds.delete(id)
}

function start(self: Sending, feed: Feed): void {
  feed.isBusy = true
  const work = sendAll(self, feed)
    .catch(async (error: unknown) => {
      self.log.warn({ channel: feed.channel.id, error: messageOf(error) }, 'could not send the events of a channel; trying again')
      self.isStale = true
      await self.clock.sleep(PAUSE_MS, self.stopping.signal)
    })
    .finally(() => {
      self.running.delete(work)
      feed.isBusy = false
      self.isStale ||= feed.isStale
      self.loop.wake()
    })
  self.running.add(work)
}

/** One batch after the other, until there is no more, or one fails. */
async function sendAll(self: Sending, feed: Feed): Promise<void> {
  const { kernel, options } = self
  const { channel } = feed
  while (isOnDuty(self) && !feed.isStale && self.feeds.get(channel.id) === feed) {
    feed.hasNews = false
    const of = { by: 'scope', scope: channel.project_id } as const
    const limit = feed.cursor.last?.status === TOO_LARGE ? 1 : limits.eventsPerBatchMax
    const facts = await kernel.store.facts(of, { after: feed.position, limit })
    if (facts.length === 0) return
    const batch = batchFrom(facts, channel.types, options.origin?.() ?? '', feed.position)
    if (batch.events.length === 0) {
      feed.position = batch.upTo
      if (batch.upTo - feed.cursor.position >= limits.eventsSkippedMax) await note(self, feed, batch.upTo, null)
    } else if (!(await sendBatch(self, feed, batch))) {
      feed.hasNews = true
      return
    }
  }
}

async function sendBatch(self: Sending, feed: Feed, batch: EventBatch): Promise<boolean> {
  const { channel, cursor } = feed
  const posted = await postBatch(self, channel, batch)
  // The channel was removed.
  if (posted === null) self.feeds.delete(channel.id)
  // A stop is no answer: the batch is sent again after the start.
  if (posted === null || self.stopping.signal.aborted) return false
  const { error } = posted
  if (error !== null) {
    self.options.failed?.('events')
    self.log.warn(
      { channel: channel.id, project: channel.project_id, attempts: cursor.attempts + 1, error },
      'a batch of events was not accepted',
    )
  }
  await note(self, feed, batch.upTo, posted)
  return error === null
}

async function postBatch({ kernel, options }: Sending, channel: EventChannel, { events, first, upTo }: EventBatch): Promise<Posted | null> {
  const [row] = await kernel.store.read([keyOf(Hook, channel.id)])
  if (row === undefined) return null
  const hook = row.value as Hook
  const body = `[${events.join(',')}]`
  const headers = {
    ...signedHeaders(hook, `msg_${channel.id}_${first}_${upTo}`, body, kernel.now()),
    'content-type': 'application/cloudevents-batch+json; charset=utf-8',
  }
  const posted = await (options.post ?? post)(hook.endpoint, headers, body, options)
  const isPage = posted.error === null && /^text\/html\b/i.test(posted.mediaType ?? '')
  return isPage ? { ...posted, error: WEB_PAGE } : posted
}

/** Where the channel was put back to another event meanwhile, it continues from there. */
async function note({ kernel, options, duty }: Sending, feed: Feed, position: number, posted: Posted | null): Promise<void> {
  const { channel, cursor: before } = feed
  const isFailed = posted !== null && posted.error !== null
  const jitter = 0.5 + options.random() / 2
  const outcome = posted === null ? null : { status: posted.status, duration_ms: posted.durationMs, error: posted.error }
  const retry_ms = isFailed ? Math.round(backoffMs(500, limits.eventBackoffMsMax, before.attempts) * jitter) : 0
  const input = { channel_id: channel.id, from: before.position, position, outcome, retry_ms }
  const { cursor } = (await kernel.call('execution/channel.advance', input, duty.as())) as { cursor: EventCursor | null }
  if (cursor === null) {
    feed.isStale = true
    return
  }
  feed.cursor = cursor
  feed.position = cursor.position
}
