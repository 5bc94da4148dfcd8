// One subscriber: first it catches up from the store at its own pace, then it takes the entries of its topic. One write at a time is in
// flight; entries that arrive meanwhile go into the next one.
import type { Store, StoredFact } from '#kernel/log/store.ts'
import { placeIn } from '#kernel/log/streams.ts'
import { portionOf, type Topic, type Entry, type Portion } from './topic.ts'

export type Ending = { readonly reason: 'refused' | 'slow' | 'stopping' | 'failed'; readonly code: string; readonly message: string }

/** The receiving end, independent of the transport. */
export type Sink = {
  /** Writes, and resolves when the operating system has taken the bytes. */
  send(portion: Portion, taken: () => void): void
  /** A keep-alive after a quiet period; the cursor can have moved without items. */
  beat(cursor: string): void
  end(ending: Ending, cursor: string): void
}

export type Permission = {
  /** Resolves when the subscriber's right to read is no older than a second; rejects with the refusal. */
  fresh(): Promise<void>
  sees(): ((fact: StoredFact) => boolean | Promise<boolean>) | null
}

export type SubscriberBounds = {
  readonly portionBytes: number
  readonly unsentBytes: number
  readonly unsentEvents: number
  readonly slowMs: number
  readonly stuckMs: number
}

export type Subscriber = {
  cursor(): string
  /** The first entry of the topic that it still needs. */
  needs(): number
  pump(): void
  isSlow(): boolean
  beat(): void
  /** null: ends silently, because the client is gone. */
  end(ending: Ending | null): void
}

type Parts = {
  readonly store: Store
  readonly topic: Topic
  readonly permission: Permission
  readonly sink: Sink
  readonly place: number
  readonly bounds: SubscriberBounds
  endingOf(error: unknown): Ending
  /** Counts what was read from the store for this subscriber. */
  charge(rows: number, bytes: number): void
  /** Called once, when the stream has ended. */
  onLeave(subscriber: Subscriber): void
}

const PAGE = 64

export function createSubscriber({ store, topic, permission, sink, place: start, bounds, endingOf, onLeave, charge }: Parts): Subscriber {
  let place = start
  let next = topic.end()
  let mode: 'behind' | 'live' | 'ended' = 'behind'
  /** When the write in flight began; 0 without one. */
  let flyingSince = 0
  let choosing = false

  function hand(portion: Portion, taken: () => void): void {
    flyingSince = performance.now()
    sink.send(portion, () => {
      flyingSince = 0
      taken()
    })
    place = portion.place
  }

  /** The hub calls this for one subscriber after another, so an error here ends only this stream. */
  function pump(): void {
    try {
      goOn()
    } catch (error) {
      end(endingOf(error))
    }
  }

  function goOn(): void {
    if (mode !== 'live' || flyingSince !== 0 || choosing) return
    if (next < topic.first()) return void catchUp()
    // Skip entries of the topic that the last page already contained.
    while (next < topic.end() && topic.entryAt(next).place <= place) next++
    const sees = permission.sees()
    const taken = topic.portionFrom(next)
    if (taken === null) place = Math.max(place, topic.seen())
    else if (sees === null) {
      next = taken.to
      hand(taken.portion, pump)
    } else chooseLive(taken.portion, taken.to, sees)
  }

  function chooseLive(portion: Portion, to: number, sees: NonNullable<ReturnType<Permission['sees']>>): void {
    const go = (chosen: readonly Entry[]): void => {
      next = to
      if (chosen.length > 0) return hand(chosen.length === portion.entries.length ? portion : portionOf(chosen), pump)
      place = portion.place
      pump()
    }
    let visibleEntries = portion.chosen.get(sees)
    if (!visibleEntries) portion.chosen.set(sees, (visibleEntries = visible(portion.entries, sees)))
    if (!(visibleEntries instanceof Promise)) return go(visibleEntries)
    choosing = true
    visibleEntries.then(
      (all) => {
        choosing = false
        if (mode === 'live') go(all)
      },
      (error: unknown) => {
        choosing = false
        end(endingOf(error))
      },
    )
  }

  const hasEnded = (): boolean => mode === 'ended'

  async function catchUp(): Promise<void> {
    mode = 'behind'
    try {
      await permission.fresh()
      while (mode === 'behind') {
        // Take the number before the page is read: facts that become durable later wait in the topic from this number on.
        next = topic.end()
        const page = await store.facts(topic.of, { after: place, limit: PAGE })
        const { entries, last } = await choose(page)
        charge(page.length, sizeOf(entries))
        if (hasEnded()) return
        if (entries.length > 0) await new Promise<void>((taken) => hand(portionOf(entries), taken))
        if (last !== null) place = Math.max(place, placeIn(topic.of, last))
        if (page.length === PAGE || last !== (page.at(-1) ?? null)) await new Promise(setImmediate)
        else if (!hasEnded()) mode = 'live'
      }
      pump()
    } catch (error) {
      end(endingOf(error))
    }
  }

  /** The entries of a page that fit in one write, and the last fact they cover. */
  async function choose(page: readonly StoredFact[]): Promise<{ entries: Entry[]; last: StoredFact | null }> {
    const sees = permission.sees()
    const entries: Entry[] = []
    let last: StoredFact | null = null
    let size = 0
    for (const fact of page) {
      if (size > bounds.portionBytes) break
      last = fact
      const entry = topic.entryOf(fact)
      if (entry === null || (sees !== null && !(await sees(fact)))) continue
      entries.push(entry)
      size += entry.written.json.length
    }
    return { entries, last }
  }

  function isSlow(): boolean {
    if (flyingSince === 0) return false
    const ms = performance.now() - flyingSince
    if (ms >= bounds.stuckMs) return true
    const { events, bytes } = topic.waitingFrom(next)
    return mode === 'live' && ms >= bounds.slowMs && (events > bounds.unsentEvents || bytes > bounds.unsentBytes)
  }

  function end(ending: Ending | null): void {
    if (mode === 'ended') return
    mode = 'ended'
    if (ending !== null) sink.end(ending, topic.cursorAt(place))
    onLeave(subscriber)
  }

  const subscriber: Subscriber = {
    cursor: () => topic.cursorAt(place),
    needs: () => next,
    pump,
    isSlow,
    beat() {
      if (flyingSince === 0) sink.beat(topic.cursorAt(place))
    },
    end,
  }
  void catchUp()
  return subscriber
}

const sizeOf = (entries: readonly Entry[]): number => entries.reduce((sum, { written }) => sum + written.json.length, 0)

/** The visible entries; a promise only if one of them needs a lookup. */
function visible(
  entries: readonly Entry[],
  sees: (fact: StoredFact) => boolean | Promise<boolean>,
): readonly Entry[] | Promise<readonly Entry[]> {
  const verdicts = entries.map(({ fact }) => sees(fact))
  const select = (all: readonly boolean[]): readonly Entry[] => (all.every(Boolean) ? entries : entries.filter((_, i) => all[i]))
  return verdicts.every((verdict) => typeof verdict === 'boolean')
    ? select(verdicts)
    : Promise.all(verdicts.map((verdict) => Promise.resolve(verdict))).then(select)
}
