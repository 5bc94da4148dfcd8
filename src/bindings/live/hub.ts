// The hub of live streams, for any number of subscribers. It knows no protocol and no transport: the kernel's stream operations define the
// streams and who can follow them, and a sink sends the items. One event costs one read and one encoding for all subscribers.
import { unitsOf } from '#kernel/call/quota/quota.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import type { Kernel } from '#kernel/kernel.ts'
import { limits } from '#kernel/limits.ts'
import type { StoredFact } from '#kernel/log/store.ts'
import { lastPlace, type Caller } from '#kernel/log/streams.ts'
import { createPerActorCounter } from '../shared/per-actor.ts'
import { createTopic, type Topic, type TopicBounds } from './topic.ts'
import { createPermissions } from './permissions.ts'
import { createSubscriber, type Ending, type Sink, type Subscriber, type SubscriberBounds } from './subscriber.ts'
import { createTail, routeOf } from './tail.ts'
import { createEventEncoding } from './event-encoding.ts'

export type { Ending, Sink } from './subscriber.ts'
export type { Portion } from './topic.ts'

/** Bounds that tests and benchmarks change. */
export type StreamBounds = TopicBounds &
  SubscriberBounds & { readonly perActor: number; readonly total: number; readonly recheckMs: number; readonly beatMs: number }
const usualBounds: StreamBounds = {
  perActor: limits.streamsPerActorMax,
  total: limits.streamsMax,
  recheckMs: limits.streamRecheckMs,
  beatMs: limits.streamBeatMs,
  portionBytes: limits.streamPortionBytes,
  portionEvents: limits.streamPortionEvents,
  unsentBytes: limits.streamUnsentBytesMax,
  unsentEvents: limits.streamUnsentEventsMax,
  slowMs: limits.streamSlowMs,
  stuckMs: limits.streamStuckMs,
  ringEvents: limits.streamRingEventsMax,
  ringBytes: limits.streamRingBytesMax,
}

export type HubOptions = {
  readonly kernel: Kernel
  readonly bounds?: Partial<StreamBounds> | undefined
  /** Called for each item written, for metrics. */
  readonly written?: ((operation: string, position: number) => void) | undefined
  bug(error: unknown): void
}

export type SubscribeRequest = {
  readonly name: string
  readonly input: unknown
  /** A cursor, `latest` for new items only, or null for everything from the first. */
  readonly after: string | null
  /** Names the credential: subscribers that share one are re-authorized once. */
  readonly who: string
  readonly caller: Caller
  /** How many of these one actor may have; by default as many as streams. */
  readonly perActor?: number
}

export type Subscription = { readonly actor: string; cursor(): string; close(): void }

export type Hub = {
  /** Refuses as a call would; `sinkAt` is called once the subscription can no longer be refused. */
  subscribe(wish: SubscribeRequest, sinkAt: (cursor: string, actor: string) => Sink): Promise<Subscription>
  size(): number
  /** Ends every stream with its cursor. */
  stop(): void
}

type TopicMembers = { readonly topic: Topic; readonly members: Set<Subscriber> }

const STOPPING: Ending = { reason: 'stopping', code: 'UNAVAILABLE', message: 'the server is stopping; continue from the cursor' }
const SLOW: Ending = {
  reason: 'slow',
  code: 'QUOTA_EXCEEDED',
  message: 'the client does not read its events: reconnect and continue from the cursor',
}
const FAILED: Ending = { reason: 'failed', code: 'INTERNAL', message: 'an internal error occurred; it was logged' }

export function createHub({ kernel, bounds: givenBounds, written = () => undefined, bug }: HubOptions): Hub {
  const { store } = kernel
  const bounds: StreamBounds = { ...usualBounds, ...givenBounds }
  const write = createEventEncoding(limits.streamWrittenBytesMax, written)
  const rooms = createRooms(endingOf)
  const permissions = createPermissions(bounds.recheckMs, (error) => endingOf(error))
  const open = createPerActorCounter()
  let stopped = false

  function endingOf(error: unknown): Ending {
    if (error instanceof Refusal) return { reason: 'refused', code: error.code, message: error.message }
    bug(error)
    return FAILED
  }

  const tail = createTail(store, kernel.tail, { ...rooms, failed: bug })

  function refuseTooMany(actor: string, perActor: number): void {
    if (stopped) throw new Refusal('UNAVAILABLE', 'the server is stopping', { retry_after: 1 })
    if (open.total() >= bounds.total) throw new Refusal('BUSY', `there are ${bounds.total} streams already`, { retry_after: 5 })
    if (open.of(actor) >= perActor)
      throw new Refusal('QUOTA_EXCEEDED', `one actor has at most ${perActor} streams open at a time`, { retry_after: 5 })
  }

  async function startOf(topic: Topic, after: string | null): Promise<number> {
    if (after === null) return 0
    const last = await lastPlace(store, topic.of)
    const place = after === 'latest' ? last : topic.placeAt(after)
    if (place > last) throw new Refusal('INVALID_REQUEST', 'the cursor is beyond the end of the record', { field: 'after' })
    return place
  }

  async function subscribe(
    { name, input, after, who, caller, perActor = bounds.perActor }: SubscribeRequest,
    sinkAt: (cursor: string, actor: string) => Sink,
  ): Promise<Subscription> {
    const admission = await kernel.admit(name, input, caller)
    const actor = admission.actor.id
    const fresh = createTopic(name, admission, bounds, write)
    const place = await startOf(fresh, after)
    refuseTooMany(actor, perActor)
    const sink = sinkAt(fresh.cursorAt(place), actor)
    const room = rooms.enter(fresh)
    const { topic } = room
    const permission = permissions.take(`${who} ${topic.key}`, admission)
    const giveBack = open.enter(actor)
    const onLeave = (member: Subscriber): void => {
      giveBack()
      permission.members.delete(member)
      rooms.leave(room, member)
    }
    const charge = (rows: number, bytes: number): void => kernel.charge(admission.actor, unitsOf(rows, bytes) - 1)
    const member = createSubscriber({ store, topic, permission, sink, place, bounds, endingOf, onLeave, charge })
    room.members.add(member)
    permission.members.add(member)
    return { actor, cursor: member.cursor, close: () => member.end(null) }
  }

  let sweeping = false
  const sweep = setInterval(() => {
    tail.look()
    for (const member of rooms.members()) if (member.isSlow()) member.end(SLOW)
    if (sweeping) return
    sweeping = true
    void permissions.check().finally(() => (sweeping = false))
  }, bounds.recheckMs)
  const beat = setInterval(() => {
    for (const member of rooms.members()) member.beat()
  }, bounds.beatMs)

  return {
    subscribe,
    size: open.total,
    stop() {
      stopped = true
      clearInterval(sweep)
      clearInterval(beat)
      tail.stop()
      for (const member of rooms.members()) member.end(STOPPING)
    },
  }
}

/** The topics with their subscribers, by topic key and by watched route. */
function createRooms(endingOf: (error: unknown) => Ending) {
  const rooms = new Map<string, TopicMembers>()
  const routes = new Map<string, Set<TopicMembers>>()
  const touched = new Set<TopicMembers>()

  function tidy({ topic, members }: TopicMembers): void {
    let needed = topic.end()
    for (const member of members) needed = Math.min(needed, member.needs())
    topic.release(needed)
  }

  return {
    isAnyWatched: (): boolean => routes.size > 0,
    isWatched: (route: string): boolean => routes.has(route),
    members: (): Subscriber[] => [...rooms.values()].flatMap(({ members }) => [...members]),
    /** Finds the room with the same topic, or opens a new one. */
    enter(topic: Topic): TopicMembers {
      const found = rooms.get(topic.key)
      if (found) return found
      const room = { topic, members: new Set<Subscriber>() }
      rooms.set(topic.key, room)
      const route = routeOf(topic)
      routes.set(route, (routes.get(route) ?? new Set()).add(room))
      return room
    },
    leave(room: TopicMembers, member: Subscriber): void {
      room.members.delete(member)
      tidy(room)
      if (room.members.size > 0) return
      rooms.delete(room.topic.key)
      const route = routeOf(room.topic)
      routes.get(route)?.delete(room)
      if (routes.get(route)?.size === 0) routes.delete(route)
    },
    take(fact: StoredFact, on: ReadonlySet<string>): void {
      for (const route of on) {
        for (const room of routes.get(route) ?? []) {
          try {
            room.topic.offer(fact)
            touched.add(room)
          } catch (error) {
            // End only the subscribers of this room; all others still get the fact.
            const ending = endingOf(error)
            for (const member of room.members) member.end(ending)
          }
        }
      }
    },
    flush(): void {
      for (const room of touched) {
        for (const member of room.members) member.pump()
        tidy(room)
      }
      touched.clear()
    },
  }
}
