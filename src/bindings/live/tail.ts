// The tail of the record: one subscription to the store for all streams. A watched fact is read once, no matter how many subscribers
// watch it; an unwatched fact is not read at all.
import type { Line } from '#kernel/log/hash-chain.ts'
import type { FactsOf, Key, Sealed, Store, StoredFact } from '#kernel/log/store.ts'
import type { Tail as RecordTail } from '#kernel/log/tail.ts'

/** The routes of a fact: each topic watches one route, each fact is on several. */
type Placed = Pick<Line, 'scope' | 'actor' | 'task' | 'root' | 'subject'>
function routesIn({ scope, actor, task, root, subject }: Placed): Set<string> {
  const routes = new Set(['position', `scope ${scope}`, `actor ${scope} ${actor}`, `about ${subject}`])
  if (task !== null) routes.add(`task ${task}`).add(`root ${task}`)
  if (root !== null) routes.add(`root ${root}`)
  return routes
}

export function routeOf({ of, about }: { readonly of: FactsOf; readonly about: Key | null }): string {
  if (about !== null) return `about ${about}`
  if (of.by === 'scope') return `scope ${of.scope}`
  if (of.by === 'actor') return `actor ${of.scope} ${of.actor}`
  if (of.by === 'task') return `task ${of.task}`
  return of.by === 'root' ? `root ${of.root}` : 'position'
}

export type Tail = {
  /** Polls the store, in case a notification was lost. */
  look(): void
  stop(): void
}

export type TailOptions = {
  isAnyWatched(): boolean
  isWatched(route: string): boolean
  /** In the order of the record. */
  take(fact: StoredFact, routes: ReadonlySet<string>): void
  /** All available facts have been taken. */
  flush(): void
  failed(error: unknown): void
}

type Span = { from: number; to: number }
const PAGE = 128
const REST_MS_MAX = 50
/** Beyond this many spans, unwatched facts between them are read as well: the list must not grow without bound. */
const SPANS_MAX = 1_000

export function createTail(store: Store, record: RecordTail, { isAnyWatched, isWatched, take, flush, failed }: TailOptions): Tail {
  let known = store.stats().position
  let spans: Span[] = []
  let running = false
  let stopped = false
  let restUntil = 0

  /** Flushes, then rests for as long as the flush took, so that other work gets its share. New facts then go out in one flush. */
  function tell(): void {
    const began = performance.now()
    flush()
    const now = performance.now()
    restUntil = now + Math.min(now - began, REST_MS_MAX)
  }

  function want(from: number, to: number): void {
    const last = spans.at(-1)
    if (last && (last.to >= from - 1 || spans.length >= SPANS_MAX)) last.to = to
    else spans.push({ from, to })
    schedule()
  }

  function schedule(): void {
    if (running || spans.length === 0) return
    running = true
    const rest = restUntil - performance.now()
    // Run later in this turn: facts sealed until then go out in the same write.
    if (rest <= 0) setImmediate(() => void run())
    else setTimeout(() => void run(), rest)
  }

  function onFacts(facts: readonly Sealed[]): void {
    const first = facts[0]!.position
    if (first > known + 1) want(known + 1, first - 1)
    if (!isAnyWatched()) {
      known = Math.max(known, facts.at(-1)!.position)
      return
    }
    for (const { position, scope, fact } of facts) {
      if (position <= known) continue
      known = position
      for (const route of routesIn({ scope, actor: fact.actor, task: fact.task, root: fact.root, subject: fact.subject })) {
        if (!isWatched(route)) continue
        want(position, position)
        break
      }
    }
  }
  // Facts of other servers must be read from the database, so skip them while there are no subscribers. A new subscriber reads the skipped
  // facts itself.
  const unsubscribe = record.follow(onFacts, ({ position }) => {
    if (isAnyWatched()) return true
    known = Math.max(known, position)
    return false
  })

  async function run(): Promise<void> {
    let rests = false
    try {
      while (spans.length > 0 && !stopped && !rests) {
        const span = spans[0]!
        // The span can grow while the page is read.
        const { to } = span
        const page = await store.facts({ by: 'position' }, { after: span.from - 1, limit: Math.min(PAGE, to - span.from + 1) })
        for (const fact of page) if (fact.position <= to) take(fact, routesIn(JSON.parse(fact.line) as Line))
        span.from = Math.max(span.from, (page.at(-1)?.position ?? to) + 1)
        if (span.from > span.to) spans.shift()
        tell()
        rests = restUntil > performance.now()
      }
    } catch (error) {
      // The span is still queued: the next look retries it.
      if (!stopped) failed(error)
    }
    running = false
    // Schedule even if the rest period is over: otherwise the remaining spans would wait for the next look.
    if (!stopped && rests) schedule()
  }

  return {
    look() {
      record.look()
      schedule()
    },
    stop() {
      stopped = true
      spans = []
      unsubscribe()
    },
  }
}
