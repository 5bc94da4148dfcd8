// Group commit, written once for every store. Batches queue; all that wait go into one transaction of the backend, which calls back between
// its lock and its commit; no caller and no reader learns anything before the group is durable. Documents that others commit are forgotten here by hint.
import type { Backend, State, WriteFailure } from './backend.ts'
import { createDocumentCache } from './document-cache.ts'
import { GENESIS, sha256, type Head } from './hash-chain.ts'
import { Damaged, Refusal, StoreUnavailable } from '../declare/errors.ts'
import { examinerOf } from './examination.ts'
import { limits } from '../limits.ts'
import { soundOr, type AtRest, type Tag } from './sealed-documents.ts'
import { createSealCheck } from './seals/seal-check.ts'
import { isSeal, type Seal, type Tip } from './seals/seals.ts'
import { soundFacts } from './seals/sound-facts.ts'
import { groupOf, nothingStaged, refusalOf, stageBatch, wantedBy, type Sources, type StagedDoc, type Staging } from './sealing.ts'
import type { Batch, Found, Hint, Key, Listener, Place, Sealed, Store, Value, Versioned } from './store.ts'

export type SequencerOptions = {
  /** Runs later in this turn: lets everything that is ready join the group. */
  defer(run: () => void): void
  salt(): string
  /** The disk did not keep its promise and what is on it is unknown: the process must end. */
  fatal(error: unknown): void
  /** Makes the tags of documents that no fact describes; without a key of its own it finds accidents, not forgeries. */
  readonly tag?: Tag
  /** Opened to be read, without the key: the order and the hashes of seals are checked, and their tags cannot be. */
  readonly isKeyless?: boolean
  /** False as long as the key is not known: until then only values without tags are asked for. */
  hasKey?(): boolean
  /** Something is not what the record says. */
  found?(difference: Found): void
  /** A listener failed. */
  bug?(error: unknown): void
  readonly queueMax?: number
  readonly groupMax?: number
}

const failureOf = (error: unknown): WriteFailure['failure'] | undefined => (error as Partial<WriteFailure>).failure

function unavailable(error: unknown): Refusal {
  const { failure, explanation } = error as Partial<WriteFailure>
  if (failure === 'unknown')
    return new StoreUnavailable(
      explanation ??
        'the way to the database was lost while it wrote, and whether it did is not known yet: repeat the call with the same key',
      { retry_after: 5, outcome: 'unknown' },
    )
  return new StoreUnavailable(`${explanation ?? 'the disk is full, or another program holds the database'}: nothing was changed`, {
    retry_after: 5,
  })
}

type Job = {
  readonly batch: Batch
  ok(sealed: readonly Sealed[]): void
  no(error: unknown): void
  sealed: readonly Sealed[]
  error: unknown
}
/**
 * `text` until it is read: most of what is created is not read before it is forgotten here, and a text is one object to the
 * collector where a document is dozens.
 */
type Cached = {
  readonly version: number
  value: Value | null
  text: string | null
  readonly image: number | null
  /** Null: the database knows. */
  readonly place: Place | null
  readonly size: number
}

export function createSequencer(backend: Backend, options: SequencerOptions): Store {
  const { defer, salt, fatal, tag = sha256, groupMax = limits.groupMax, queueMax = limits.queueMax } = options
  /** Only durable documents may enter. */
  const cache = createDocumentCache<Cached>({
    bytesMax: limits.cacheBytesMax,
    newBytesMax: limits.newDocumentBytesMax,
    absentMax: limits.absentKeysMax,
  })
  const heads = new Map<string, Head>()
  const counts = new Map<string, number>()
  /** Keys that are being read or written, and by whom: what was overtaken on its way does not enter the cache. */
  const underWay = new Map<Key, object>()
  const listeners = new Set<Listener>()
  const stats = { groups: 0, batches: 0 }
  const queue: Job[] = []
  let writing = false
  let deferred = false
  let durable = backend.openedAt
  /** How often something was forgotten because others had written. */
  let forgotten = 0
  let latest: readonly Sealed[] = []

  /** Another connection has written, and what it left was not found in order yet. */
  let isSuspect = false

  const report = (difference: Found): void => options.found?.(difference)
  const isValid = (seal: Seal): boolean => options.isKeyless === true || isSeal(seal, tag)
  const seals = createSealCheck(backend, {
    isValid,
    isShared: backend.news !== undefined,
    report,
    forget: (position) => learn({ position, keys: 'all', wakes: 'all' }),
  })

  async function read(keys: readonly Key[]): Promise<(Versioned | undefined)[]> {
    const found = keys.map((key) => readable(cache.get(key)))
    const places = [...found.keys()].filter((i) => found[i] === undefined && !cache.isAbsent(keys[i]!))
    if (places.length === 0) return found
    const missing = places.map((i) => keys[i]!)
    const ticket = {}
    for (const key of missing) underWay.set(key, ticket)
    try {
      if (backend.wasWritten?.() === true) isSuspect = true
      if (isSuspect) await lookBehind()
      const rows = await backend.read(missing)
      const faults = await seals.faultsIn(rows)
      for (const [n, key] of missing.entries()) {
        const entry = rows[n] && checkRow(key, rows[n], faults?.get(rows[n]) ?? null)
        if (underWay.get(key) === ticket) {
          if (entry) cache.set(key, entry, costOf(entry.size))
          else cache.setAbsent(key)
        }
        found[places[n]!] = entry as Versioned | undefined
      }
      return found
    } finally {
      for (const key of missing) if (underWay.get(key) === ticket) underWay.delete(key)
    }
  }

  /** Where another connection wrote: reads must not answer from a record that was put back. */
  async function lookBehind(): Promise<void> {
    const from = seals.seen()
    const onward = await backend.onward(from.position)
    learn({ position: onward.position, keys: 'all', wakes: 'all' })
    await seals.followForReading(from, onward)
    isSuspect = false
  }

  function checkRow(key: Key, row: AtRest, fault: string | null): Cached {
    const found = soundOr(row, key, tag)
    const sound = typeof found === 'string' || fault === null ? found : `its fact differs: ${fault}`
    if (typeof sound === 'string') {
      report({ what: key, how: sound })
      throw new Damaged(key, sound)
    }
    const { version, image, text } = sound
    return { version, value: JSON.parse(text) as Value, text: null, image, place: null, size: text.length }
  }

  function commit(batch: Batch): Promise<readonly Sealed[]> {
    if (queue.length >= queueMax) return Promise.reject(new Refusal('BUSY', 'too many operations wait for the disk', { retry_after: 1 }))
    return new Promise((ok, no) => {
      queue.push({ batch, ok, no, sealed: [], error: undefined })
      schedule()
    })
  }

  function schedule(): void {
    if (writing || deferred || queue.length === 0) return
    deferred = true
    defer(() => {
      deferred = false
      void flush()
    })
  }

  async function flush(): Promise<void> {
    writing = true
    const jobs = queue.splice(0, groupMax)
    try {
      await writeGroup(jobs, false)
    } catch (error) {
      try {
        await settleFailure(jobs, error)
      } catch (lost) {
        // The state of the disk is unknown, so no caller is answered.
        return fatal(lost)
      }
    }
    writing = false
    stats.groups++
    stats.batches += jobs.length
    // A conflict is answered only now: the winner is durable, so the loser's next read sees it.
    for (const job of jobs) {
      if (job.error === undefined) job.ok(job.sealed)
      else job.no(job.error)
    }
    schedule()
  }

  /**
   * A full disk refuses all, and so does an outcome that is unknown. Otherwise one batch may carry what the database refuses: alone it
   * fails alone. Throws what is fatal.
   */
  async function settleFailure(jobs: Job[], error: unknown): Promise<void> {
    const failure = failureOf(error)
    if (failure === 'fatal') throw error
    if (failure === 'full' || failure === 'unknown') {
      for (const job of jobs) job.error = unavailable(error)
      return
    }
    for (const job of jobs) {
      try {
        await writeGroup([job], true)
      } catch (alone) {
        const why = failureOf(alone)
        if (why === 'fatal') throw alone
        job.error = why === 'full' || why === 'unknown' ? unavailable(alone) : alone
        if (alone instanceof Damaged) report({ what: alone.key, how: alone.what })
      }
    }
  }

  async function writeGroup(jobs: Job[], careful: boolean): Promise<void> {
    const ticket = {}
    let staging = nothingStaged({ position: durable, image: 0 })
    let hint: Hint | null = null
    let seal: Seal | null = null
    let since = forgotten
    let asked = seals.proven()
    let sealed = asked
    try {
      await backend.transact(
        () => {
          asked = seals.proven()
          return wantedBy(
            jobs.map(({ batch }) => batch),
            asked.position,
          )
        },
        (state) => {
          // Before anything is decided, and before anybody is answered: a loser's next read sees the winner.
          if (state.news) learn(state.news)
          // Nothing is written on top of a record that somebody else changed.
          sealed = state.onward
            ? seals.follow(state.onward, asked)
            : seals.follow({ position: state.position, at: seals.proven().tag, since: [] })
          since = forgotten
          staging = nothingStaged(state)
          const sources = sourcesOf(state, sealed, careful)
          for (const job of jobs) {
            job.error = refusalOf(job.batch, staging, sources)
            job.sealed = job.error === undefined ? stageBatch(job.batch, staging, sources) : []
          }
          for (const key of staging.docs.keys()) underWay.set(key, ticket)
          const group = groupOf(staging, sources)
          hint = group?.hint ?? null
          seal = group?.seal ?? null
          return group
        },
      )
    } catch (error) {
      // Whether it is there is not known, or will be known later: what it was about is read again.
      for (const key of staging.docs.keys()) overtake(key)
      throw error
    }
    // Durable. From here on it may be seen.
    if (seal !== null) settleSeal(seal)
    else if (hint !== null) seals.proved(sealed)
    if (hint !== null) settle(jobs, staging, hint, ticket, since === forgotten)
  }

  function settleSeal(seal: Seal): void {
    seals.learn(seal)
    seals.proved({ position: seal.last, tag: seal.tag })
  }

  /** Where staging looks: the cache, where it is as good as the transaction, otherwise only what the transaction sees. */
  function sourcesOf(state: State, sealed: Tip, careful: boolean): Sources {
    const { position, image, isCacheTrue } = state
    const docOf: Sources['docOf'] = isCacheTrue
      ? (key) => cache.get(key) ?? (cache.isAbsent(key) ? undefined : state.docOf(key))
      : state.docOf
    return {
      position,
      image,
      docOf,
      headOf: isCacheTrue ? (scope) => heads.get(scope) ?? state.headOf(scope) : state.headOf,
      countOf: isCacheTrue ? (prefix) => counts.get(prefix) ?? state.countOf(prefix) : state.countOf,
      // Not worth a look into the database: its primary key refuses a second one, and then each batch is tried alone, carefully.
      isThere: careful || !isCacheTrue ? (key) => docOf(key) !== undefined : (key) => cache.get(key) !== undefined,
      salt,
      tag,
      tip: sealed,
    }
  }

  function settle(jobs: readonly Job[], staging: Staging, hint: Hint, ticket: object, isNews: boolean): void {
    durable = Math.max(durable, staging.position)
    for (const [key, doc] of staging.docs) {
      const isOwn = underWay.get(key) === ticket
      // A reader of right now may have seen it as it was before.
      underWay.delete(key)
      if (isOwn && doc.value !== null) cache[doc.fresh ? 'add' : 'set'](key, cachedOf(doc), costOf(doc.text!.length))
      else cache.delete(key)
    }
    if (isNews) {
      for (const [scope, head] of staging.heads) heads.set(scope, head)
      for (const [prefix, count] of staging.counts) counts.set(prefix, count)
      if (counts.size > limits.cachedCountsMax) counts.clear()
      if (heads.size > limits.cachedCountsMax) heads.clear()
    }
    latest = jobs.flatMap((job) => job.sealed)
    tell(hint)
  }

  function overtake(key: Key): void {
    cache.delete(key)
    underWay.delete(key)
  }

  /** Others have written. */
  function learn(hint: Hint): void {
    forgotten++
    heads.clear()
    counts.clear()
    if (hint.keys === 'all') {
      cache.clear()
      underWay.clear()
    } else for (const key of hint.keys) overtake(key)
    durable = Math.max(durable, hint.position)
    tell(hint)
  }

  function tell(hint: Hint): void {
    for (const listener of listeners) {
      try {
        listener(hint)
      } catch (error) {
        // It is only a hint, and what is durable must be answered as such, also where nothing can be reported.
        try {
          options.bug?.(error)
        } catch {}
      }
    }
  }

  let asking: Promise<void> | null = null
  /** Not sent yet: a call that comes takes part in it. */
  let next: Promise<void> | null = null
  let sent = 0
  let over = 0
  function send(): Promise<void> {
    next = null
    const mine = ++sent
    const from = seals.seen()
    asking = backend.news!(from.position)
      .then(async ({ hint, onward }) => {
        if (hint) learn(hint)
        if (options.hasKey?.() !== false) await seals.followForReading(from, onward)
        over = mine
      })
      .finally(() => (asking = null))
    return asking
  }
  /** It must be sent after a call came: later in this turn for all of a turn, or when the one under way is over. */
  function fresh(): Promise<void> {
    // Where the one under way has tried in vain, another one would let them wait for as long again.
    const fail = (error: unknown): never => {
      next = null
      throw error
    }
    next ??= (asking ?? new Promise<void>(defer)).then(send, fail)
    return next
  }
  backend.watch?.(() => void fresh().catch(() => undefined))
  // Of those that wait nothing was sent: they need not wait until it is known what became of the group before them.
  backend.heldUp?.((explanation) => {
    for (const job of queue.splice(0)) job.no(unavailable({ explanation }))
  })

  return {
    isShared: backend.news !== undefined,
    commit,
    read,
    fresh: backend.news ? (since) => (since !== undefined && over > since ? undefined : fresh()) : () => undefined,
    barriers: () => sent,
    peek: (key) => readable(cache.get(key)) ?? (cache.isAbsent(key) ? null : undefined),
    count: (prefix) => {
      const known = counts.get(prefix)
      return known === undefined ? backend.count(prefix) : Promise.resolve(known)
    },
    async head(scope) {
      return heads.get(scope) ?? (await backend.head(scope)) ?? GENESIS
    },
    position: () => (backend.news ? backend.position() : Promise.resolve(durable)),
    lately(after) {
      // The next facts may be of others.
      const isNext = latest.length > 0 && latest[0]!.position <= after + 1 && latest.at(-1)!.position > after
      return isNext ? latest.filter(({ position }) => position > after) : null
    },
    scan: backend.scan,
    keys: backend.keys,
    facts: (of, page) => (page.asStored ? backend.facts(of, page) : soundFacts(backend, seals, of, page, report)),
    seals: backend.seals,
    isSeal: isValid,
    sealFaults: async (facts) => seals.faults(facts),
    sealed: seals.proven,
    prove: seals.proved,
    recheck: seals.recheck,
    seek: backend.seek,
    place(key) {
      const known = cache.get(key)?.place
      return known ? Promise.resolve(known) : backend.place(key)
    },
    async look(key, entry) {
      const { row, entries } = await backend.inspect(key, [entry], [])
      const sound = row && soundOr(row, key, tag)
      const fault = await seals.faultOf(row)
      return { value: typeof sound === 'object' && fault === null ? (JSON.parse(sound.text) as Value) : null, isEntered: entries[0]! }
    },
    async described(key) {
      const [row] = await backend.read([key])
      const sound = row && soundOr(row, key, tag)
      return typeof sound === 'object' ? (JSON.parse(sound.text) as Value) : null
    },
    report,
    atRest: examinerOf(backend, tag, seals),
    subscribe(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    stats: () => ({ ...stats, waiting: queue.length, position: durable }),
    async close() {
      while (writing || queue.length > 0) await new Promise<void>((done) => defer(done))
      await backend.close()
    },
  }
}

/** From its text with the first that reads it. */
function readable(found: Cached | undefined): Versioned | undefined {
  if (found?.text) {
    found.value = JSON.parse(found.text) as Value
    found.text = null
  }
  return found as Versioned | undefined
}

function cachedOf({ version, value, text, image, fresh, place }: StagedDoc): Cached {
  const size = text!.length
  // The answer to a repeated call has no image: it is given again as it was, its fields in their order.
  return fresh && image !== null ? { version, value: null, text, image, place, size } : { version, value, text: null, image, place, size }
}

/** A parsed document takes about twice its text, its answer may be kept as text, and it takes something for being there at all. */
const costOf = (chars: number): number => chars * 4 + 300
