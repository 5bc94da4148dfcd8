// Group commit, written once for every store. Batches queue; all that wait go into one transaction of the backend, which calls back between
// its lock and its commit; no caller and no reader learns anything before the group is durable. Documents that others commit are forgotten here by hint.
import type { Backend, State, WriteFailure } from './backend.ts'
import { createBarrier, type Barrier } from './barrier.ts'
import { cachedOf, costOf, createDocumentCache, readable, type Cached, type DocumentCache } from './cache/document-cache.ts'
import { GENESIS, sha256, type Head } from './hash-chain.ts'
import { Damaged, Refusal, StoreUnavailable } from '../declare/errors.ts'
import { limits } from '../limits.ts'
import { soundOr, type AtRest, type Tag } from './sealed-documents.ts'
import { examinerOf } from './seals/examination.ts'
import { createSealCheck, type SealCheck } from './seals/seal-check.ts'
import { isSeal, type Seal, type Tip } from './seals/seals.ts'
import { soundFacts } from './seals/sound-facts.ts'
import { groupOf, nothingStaged, refusalOf, stageBatch, wantedBy, type Sources, type Staging } from './sealing.ts'
import type { Batch, Found, Hint, Key, Listener, Sealed, Store, Value, Versioned } from './store.ts'

export type GroupCommitOptions = {
  /** Schedules the flush for later in this turn, so that all ready batches join the group. */
  defer(run: () => void): void
  salt(): string
  /** A disk write failed in a way that leaves the state of the disk unknown: the process must end. */
  fatal(error: unknown): void
  /** Makes the tags of documents that no fact describes. Without a secret key, tags reveal accidents but not forgeries. */
  readonly tag?: Tag
  /** Opened to be read, without the key: the order and the hashes of seals are checked, and their tags cannot be. */
  readonly isKeyless?: boolean
  /** False as long as the key is not known: until then only values without tags are asked for. */
  hasKey?(): boolean
  /** Called with a stored item that differs from the record. */
  found?(difference: Found): void
  /** Called with the error of a failed listener. */
  bug?(error: unknown): void
  readonly queueMax?: number
  readonly groupMax?: number
}

const failureOf = (error: unknown): WriteFailure['failure'] | undefined => (error as Partial<WriteFailure>).failure

function unavailable(error: unknown): Refusal {
  const { failure, explanation } = error as Partial<WriteFailure>
  if (failure === 'unknown')
    return new StoreUnavailable(
      explanation ?? 'lost the database connection during commit; the outcome is unknown. Retry with the same idempotency key',
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
/** The store over one backend: queued batches, the group in flight, and the known durable state. */
type GroupCommit = {
  readonly backend: Backend
  readonly options: GroupCommitOptions
  readonly tag: Tag
  /** Has only durable documents. */
  readonly cache: DocumentCache
  readonly heads: Map<string, Head>
  readonly counts: Map<string, number>
  /** Keys that are being read or written, and by which operation: an overtaken read does not enter the cache. */
  readonly underWay: Map<Key, object>
  readonly listeners: Set<Listener>
  readonly stats: { groups: number; batches: number }
  readonly queue: Job[]
  readonly seals: SealCheck
  readonly barrier: Barrier
  isWriting: boolean
  isDeferred: boolean
  /** The last durable position known here. */
  durable: number
  /** How often cached data was evicted because other processes had written. */
  forgotten: number
  latest: readonly Sealed[]
  /** Another connection has written, and its record was not checked yet. */
  isSuspect: boolean
}

export function createGroupCommit(backend: Backend, options: GroupCommitOptions): Store {
  const { tag = sha256 } = options
  const self: GroupCommit = {
    backend,
    options,
    tag,
    cache: createDocumentCache({
      bytesMax: limits.cacheBytesMax,
      newBytesMax: limits.newDocumentBytesMax,
      newTextBytesMax: limits.newTextBytesMax,
      absentMax: limits.absentKeysMax,
    }),
    heads: new Map(),
    counts: new Map(),
    underWay: new Map(),
    listeners: new Set(),
    stats: { groups: 0, batches: 0 },
    queue: [],
    seals: createSealCheck(backend, {
      isValid: (seal) => isValid(self, seal),
      isShared: backend.news !== undefined,
      report: (difference) => report(self, difference),
      forget: (position) => learn(self, { position, keys: 'all', wakes: 'all' }),
    }),
    barrier: createBarrier(() => learnNews(self), options.defer),
    isWriting: false,
    isDeferred: false,
    durable: backend.openedAt,
    forgotten: 0,
    latest: [],
    isSuspect: false,
  }
  backend.watch?.(() => void self.barrier.pass()?.catch(() => undefined))
  // Queued batches were never sent, so they are refused now instead of waiting for the outcome of the group before them.
  backend.heldUp?.((explanation) => {
    for (const job of self.queue.splice(0)) job.no(unavailable({ explanation }))
  })
  return storeOf(self)
}

function storeOf(self: GroupCommit): Store {
  const { backend, tag, cache, heads, counts, listeners, queue, seals, barrier } = self
  return {
    isShared: backend.news !== undefined,
    commit: (batch) => commit(self, batch),
    read: (keys) => read(self, keys),
    fresh: backend.news ? barrier.pass : () => undefined,
    barriers: barrier.sent,
    peek: (key) => readable(cache.get(key)) ?? (cache.isAbsent(key) ? null : undefined),
    count: (prefix) => {
      const known = counts.get(prefix)
      return known === undefined ? backend.count(prefix) : Promise.resolve(known)
    },
    async head(scope) {
      return heads.get(scope) ?? (await backend.head(scope)) ?? GENESIS
    },
    position: () => (backend.news ? backend.position() : Promise.resolve(self.durable)),
    lately: (after) => latelyAfter(self, after),
    counts: async (after, end, limit) => (await backend.counts(after, end, limit)).counts.filter(([, count]) => count > 0),
    scan: backend.scan,
    keys: backend.keys,
    facts: (of, page) =>
      page.asStored ? backend.facts(of, page) : soundFacts(backend, seals, of, page, (difference) => report(self, difference)),
    seals: backend.seals,
    isSeal: (seal) => isValid(self, seal),
    sealFaults: async (facts) => seals.faults(facts),
    sealed: seals.proven,
    prove: seals.proved,
    recheck: seals.recheck,
    seek: backend.seek,
    place(key) {
      const known = cache.get(key)?.place
      return known ? Promise.resolve(known) : backend.place(key)
    },
    look: (key, entry) => look(self, key, entry),
    async described(key) {
      const [row] = await backend.read([key])
      const sound = row && soundOr(row, key, tag)
      return typeof sound === 'object' ? (JSON.parse(sound.text) as Value) : null
    },
    report: (difference) => report(self, difference),
    atRest: examinerOf(backend, tag, seals),
    subscribe(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    stats: () => ({ ...self.stats, waiting: queue.length, position: self.durable }),
    async close() {
      while (self.isWriting || queue.length > 0) await new Promise<void>((done) => self.options.defer(done))
      await backend.close()
    },
  }
}

const report = ({ options }: GroupCommit, difference: Found): void => options.found?.(difference)
const isValid = ({ options, tag }: GroupCommit, seal: Seal): boolean => options.isKeyless === true || isSeal(seal, tag)

// --- Reading ---------------------------------------------------------------------------------------------------------------

async function read(self: GroupCommit, keys: readonly Key[]): Promise<(Versioned | undefined)[]> {
  const { backend, cache, underWay, seals } = self
  const found = keys.map((key) => readable(cache.get(key)))
  const places = [...found.keys()].filter((i) => found[i] === undefined && !cache.isAbsent(keys[i]!))
  if (places.length === 0) return found
  const missing = places.map((i) => keys[i]!)
  const ticket = {}
  for (const key of missing) underWay.set(key, ticket)
  try {
    if (backend.wasWritten?.() === true) self.isSuspect = true
    if (self.isSuspect) await lookBehind(self)
    const rows = await backend.read(missing)
    const faults = await seals.faultsIn(rows)
    for (const [n, key] of missing.entries()) {
      const entry = rows[n] && checkRow(self, key, rows[n], faults?.get(rows[n]) ?? null)
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

/** After another connection has written: reads must not answer from a rolled-back record. */
async function lookBehind(self: GroupCommit): Promise<void> {
  const { backend, seals } = self
  const from = seals.seen()
  const onward = await backend.onward(from.position)
  learn(self, { position: onward.position, keys: 'all', wakes: 'all' })
  await seals.followForReading(from, onward)
  self.isSuspect = false
}

function checkRow(self: GroupCommit, key: Key, row: AtRest, fault: string | null): Cached {
  const found = soundOr(row, key, self.tag)
  const sound = typeof found === 'string' || fault === null ? found : `its fact differs: ${fault}`
  if (typeof sound === 'string') {
    report(self, { what: key, how: sound })
    throw new Damaged(key, sound)
  }
  const { version, image, text } = sound
  return { version, value: JSON.parse(text) as Value, text: null, image, place: null, size: text.length }
}

function latelyAfter({ latest }: GroupCommit, after: number): readonly Sealed[] | null {
  // The next facts can be from other processes.
  const isNext = latest.length > 0 && latest[0]!.position <= after + 1 && latest.at(-1)!.position > after
  return isNext ? latest.filter(({ position }) => position > after) : null
}

async function look({ backend, tag, seals }: GroupCommit, key: Key, entry: string): ReturnType<Store['look']> {
  const { row, entries } = await backend.inspect(key, [entry], [])
  const sound = row && soundOr(row, key, tag)
  const fault = await seals.faultOf(row)
  return { value: typeof sound === 'object' && fault === null ? (JSON.parse(sound.text) as Value) : null, isEntered: entries[0]! }
}

// --- Writing ---------------------------------------------------------------------------------------------------------------

function commit(self: GroupCommit, batch: Batch): Promise<readonly Sealed[]> {
  const { queue, options } = self
  if (queue.length >= (options.queueMax ?? limits.queueMax))
    return Promise.reject(new Refusal('BUSY', 'too many operations wait for the disk', { retry_after: 1 }))
  return new Promise((ok, no) => {
    queue.push({ batch, ok, no, sealed: [], error: undefined })
    schedule(self)
  })
}

function schedule(self: GroupCommit): void {
  if (self.isWriting || self.isDeferred || self.queue.length === 0) return
  self.isDeferred = true
  self.options.defer(() => {
    self.isDeferred = false
    void flush(self)
  })
}

async function flush(self: GroupCommit): Promise<void> {
  const { queue, options, stats } = self
  self.isWriting = true
  const jobs = queue.splice(0, options.groupMax ?? limits.groupMax)
  try {
    await writeGroup(self, jobs, false)
  } catch (error) {
    try {
      await settleFailure(self, jobs, error)
    } catch (lost) {
      // The state of the disk is unknown, so no caller is answered.
      return options.fatal(lost)
    }
  }
  self.isWriting = false
  stats.groups++
  stats.batches += jobs.length
  // A conflict is answered only now: the winner is durable, so the loser's next read sees it.
  for (const job of jobs) {
    if (job.error === undefined) job.ok(job.sealed)
    else job.no(job.error)
  }
  schedule(self)
}

/**
 * A full disk refuses all, and so does an outcome that is unknown. Otherwise one batch can contain rows that the database refuses: alone it
 * fails alone. Throws what is fatal.
 */
async function settleFailure(self: GroupCommit, jobs: Job[], error: unknown): Promise<void> {
  const failure = failureOf(error)
  if (failure === 'fatal') throw error
  if (failure === 'full' || failure === 'unknown') {
    for (const job of jobs) job.error = unavailable(error)
    return
  }
  for (const job of jobs) {
    try {
      await writeGroup(self, [job], true)
    } catch (alone) {
      const why = failureOf(alone)
      if (why === 'fatal') throw alone
      job.error = why === 'full' || why === 'unknown' ? unavailable(alone) : alone
      if (alone instanceof Damaged) report(self, { what: alone.key, how: alone.what })
    }
  }
}

async function writeGroup(self: GroupCommit, jobs: Job[], careful: boolean): Promise<void> {
  const { backend, seals, underWay } = self
  const ticket = {}
  let staging = nothingStaged({ position: self.durable, image: 0 })
  let hint: Hint | null = null
  let seal: Seal | null = null
  let since = self.forgotten
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
        // Evict before anything is decided and before any call is answered: the next read of a loser sees the winner.
        if (state.news) learn(self, state.news)
        // Nothing is written on top of a record that does not continue the proven one.
        sealed = state.onward
          ? seals.follow(state.onward, asked)
          : seals.follow({ position: state.position, at: seals.proven().tag, since: [] })
        since = self.forgotten
        staging = nothingStaged(state)
        const sources = sourcesOf(self, state, sealed, careful)
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
    // The outcome is unknown, or will be known later: read these documents again.
    for (const key of staging.docs.keys()) overtake(self, key)
    throw error
  }
  // The group is durable: from here on readers can see it.
  if (seal !== null) settleSeal(self, seal)
  else if (hint !== null) seals.proved(sealed)
  if (hint !== null) settle(self, jobs, staging, hint, ticket, since === self.forgotten)
}

function settleSeal({ seals }: GroupCommit, seal: Seal): void {
  seals.learn(seal)
  seals.proved({ position: seal.last, tag: seal.tag })
}

/** The source that staging reads: the cache if it equals what the transaction sees, otherwise the transaction alone. */
function sourcesOf({ cache, heads, counts, options, tag }: GroupCommit, state: State, sealed: Tip, careful: boolean): Sources {
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
    // Not worth a query: the primary key refuses a second row, and then each batch is retried alone.
    isThere: careful || !isCacheTrue ? (key) => docOf(key) !== undefined : (key) => cache.get(key) !== undefined,
    salt: options.salt,
    tag,
    tip: sealed,
  }
}

function settle(self: GroupCommit, jobs: readonly Job[], staging: Staging, hint: Hint, ticket: object, isNews: boolean): void {
  const { cache, heads, counts, underWay } = self
  self.durable = Math.max(self.durable, staging.position)
  for (const [key, doc] of staging.docs) {
    const isOwn = underWay.get(key) === ticket
    // A concurrent reader can have seen the former version.
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
  self.latest = jobs.flatMap((job) => job.sealed)
  notify(self, hint)
}

// --- Commits of others -----------------------------------------------------------------------------------------------------

function overtake({ cache, underWay }: GroupCommit, key: Key): void {
  cache.delete(key)
  underWay.delete(key)
}

function learn(self: GroupCommit, hint: Hint): void {
  const { cache, heads, counts, underWay } = self
  self.forgotten++
  heads.clear()
  counts.clear()
  if (hint.keys === 'all') {
    cache.clear()
    underWay.clear()
  } else for (const key of hint.keys) overtake(self, key)
  self.durable = Math.max(self.durable, hint.position)
  notify(self, hint)
}

/** Reads the commits of other processes from the database and evicts their documents here. */
async function learnNews(self: GroupCommit): Promise<void> {
  const { backend, seals, options } = self
  const from = seals.seen()
  const { hint, onward } = await backend.news!(from.position)
  if (hint) learn(self, hint)
  if (options.hasKey?.() !== false) await seals.followForReading(from, onward)
}

function notify({ listeners, options }: GroupCommit, hint: Hint): void {
  for (const listener of listeners) {
    try {
      listener(hint)
    } catch (error) {
      // A failed listener loses only a hint. The durable commit must be acknowledged, even if reporting the error fails, too.
      try {
        options.bug?.(error)
      } catch {}
    }
  }
}
