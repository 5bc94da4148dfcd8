// Group commit, written once for every store with a single writer. Batches queue; all that wait go into one transaction; each is
// checked against the staged state before its first write, so none needs a savepoint; nobody learns anything before the group
// is durable.
import { createCache } from './document-cache.ts'
import { digestOf, GENESIS, hashOf, sealedLine, sha256, type Head } from './hash-chain.ts'
import { Conflict, Damaged, Refusal } from '../declare/errors.ts'
import { examinerOf } from './examination.ts'
import { limits } from '../limits.ts'
import { isSound, soundOr, tagInput, type AtRest, type Tag } from './sealed-documents.ts'
import type { Batch, Fact, FactsOf, FactsPage, Found, Key, Listener, Place, Sealed, Store, StoredFact, Value, Versioned } from './store.ts'

/** The rows of one transaction. */
export type Group = {
  readonly facts: FactRow[]
  readonly images: ImageRow[]
  readonly create: DocRow[]
  readonly update: DocRow[]
  readonly remove: Key[]
  /** Index entries in the order in which they come and go: the last word on one counts. */
  readonly entries: string[]
  /** Whether the entry at the same place comes. */
  readonly present: boolean[]
  readonly counts: [prefix: string, count: number][]
}
export type FactRow = {
  position: number
  scope: string
  seq: number
  at: string
  actor: string
  task: string | null
  root: string | null
  hash: string
  line: string
}
/** `previous`: the id of the image before it, so that "before" needs no index. */
export type ImageRow = { id: number; position: number; key: Key; version: number; previous: number | null; salt: string; text: string }
/** A document described by a fact names its image; one that no fact describes carries its own text, and a tag over it. */
export type DocRow = { key: Key; version: number; image: number | null; text: string | null; tag: string | null }

export type Backend = {
  /** Durable state only. */
  get(key: Key): AtRest | undefined
  has(entry: string): boolean
  /** How many images a key has. */
  imagesOf(key: Key): number
  /** How many entries there are under a prefix. */
  entriesUnder(prefix: string): number
  allKeys(after: Key, limit: number): Key[]
  prefixes(after: string, limit: number): string[]
  headOf(scope: string): Head | undefined
  lastPosition(): number
  lastImage(): number
  countOf(prefix: string): number
  /** One transaction. After a rejection nothing of it is there. */
  write(group: Group): Promise<void>
} & Pick<Store, 'scan' | 'keys' | 'facts' | 'seek' | 'place' | 'close'>

export type SequencerOptions = {
  /** Runs later in this turn: lets everything that is ready join the group. */
  defer(run: () => void): void
  salt(): string
  /** The disk did not keep its promise and what is on it is unknown: the process must end. */
  fatal(error: unknown): void
  /** What makes the tags of documents that no fact describes; without a key of its own it finds accidents, not forgeries. */
  readonly tag?: Tag
  /** Something is not what the record says. */
  found?(difference: Found): void
  /** A listener failed. */
  bug?(error: unknown): void
  readonly queueMax?: number
  readonly groupMax?: number
}

/** What the database said, in terms that the sequencer acts on. */
export type WriteFailure = { readonly failure: 'full' | 'fatal' | 'refused'; readonly words?: string }
const failureOf = (error: unknown): WriteFailure['failure'] | undefined => (error as Partial<WriteFailure>).failure

function unavailable(error: unknown): Refusal {
  const { words = 'the disk is full, or another program holds the database' } = error as Partial<WriteFailure>
  return new Refusal('UNAVAILABLE', `${words}: nothing was changed`, { retry_after: 5 })
}

type Job = {
  readonly batch: Batch
  ok(sealed: readonly Sealed[]): void
  no(error: unknown): void
  sealed: readonly Sealed[]
  error: unknown
}
/** `place`: that of the fact that described it last. */
type Staged = {
  readonly version: number
  readonly value: Value | null
  readonly text: string | null
  readonly image: number | null
  readonly fresh: boolean
  place: Place | null
}
/**
 * `text` until somebody reads it: most of what is created is not read before it is forgotten here, and a text is one object to the
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
type Staging = { docs: Map<Key, Staged>; tips: Map<string, Head>; sums: Map<string, number>; group: Group }

export function createSequencer(backend: Backend, options: SequencerOptions): Store {
  const { defer, salt, fatal, tag = sha256, groupMax = limits.groupMax, queueMax = limits.queueMax } = options
  /** Only durable documents may enter. */
  const cache = createCache<Cached>(limits.cacheBytesMax)
  const heads = new Map<string, Head>()
  const counts = new Map<string, number>()
  const listeners = new Set<Listener>()
  const stats = { groups: 0, batches: 0 }
  const queue: Job[] = []
  let writing = false
  let deferred = false
  let position = backend.lastPosition()
  let durable = position
  let imageId = backend.lastImage()

  function known(key: Key): Cached | undefined {
    const hit = cache.get(key)
    if (hit) return hit
    const row = backend.get(key)
    if (!row) return undefined
    const sound = soundOr(row, key, tag)
    if (typeof sound === 'string') {
      report({ what: key, how: sound })
      throw new Damaged(key, sound)
    }
    const { version, image, text } = sound
    const entry: Cached = { version, value: JSON.parse(text) as Value, text: null, image, place: null, size: text.length }
    cache.set(key, entry, costOf(text))
    return entry
  }

  const report = (difference: Found): void => options.found?.(difference)

  const get = (key: Key): Versioned | undefined => readable(known(key))

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
        // What is on the disk is unknown, so nobody is answered.
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

  /** A full disk refuses all. Otherwise one batch may carry what the database refuses: alone it fails alone. Throws what is fatal. */
  async function settleFailure(jobs: Job[], error: unknown): Promise<void> {
    if (failureOf(error) === 'fatal') throw error
    if (failureOf(error) === 'full') {
      for (const job of jobs) job.error = unavailable(error)
      return
    }
    for (const job of jobs) {
      try {
        await writeGroup([job], true)
      } catch (alone) {
        if (failureOf(alone) === 'fatal') throw alone
        job.error = failureOf(alone) === 'full' ? unavailable(alone) : alone
      }
    }
  }

  async function writeGroup(jobs: Job[], careful: boolean): Promise<void> {
    const staging: Staging = {
      docs: new Map(),
      tips: new Map(),
      sums: new Map(),
      group: { facts: [], images: [], create: [], update: [], remove: [], entries: [], present: [], counts: [] },
    }
    const before = { position, imageId }
    const { docs, tips, sums } = staging
    try {
      for (const job of jobs) {
        job.error = refusalFor(job.batch, staging, careful)
        job.sealed = job.error === undefined ? stage(job.batch, staging) : []
      }
      const group = groupOf(staging, tag)
      if (docs.size > 0 || group.facts.length > 0) await backend.write(group)
    } catch (error) {
      // Also a batch that could not even be sealed leaves no gap.
      position = before.position
      imageId = before.imageId
      throw error
    }
    // Durable. From here on it may be seen.
    durable = position
    for (const [key, { version, value, text, image, fresh, place }] of docs) {
      if (value === null) cache.delete(key)
      // The answer to a repeated call has no image: it is given again as it was, its fields in their order.
      else if (fresh && image !== null) cache.set(key, { version, value: null, text, image, place, size: text!.length }, costOf(text!))
      else cache.set(key, { version, value, text: null, image, place, size: text!.length }, costOf(text!))
    }
    for (const [scope, head] of tips) heads.set(scope, head)
    for (const [prefix, count] of sums) counts.set(prefix, count)
    if (counts.size > limits.cachedCountsMax) counts.clear()
    if (listeners.size > 0) publish(jobs)
  }

  function publish(jobs: readonly Job[]): void {
    const facts = jobs.flatMap((job) => job.sealed)
    if (facts.length === 0) return
    const puts = jobs.some(({ batch, error }) => error === undefined && batch.puts.length > 0)
    for (const listener of listeners) {
      try {
        listener(facts, puts)
      } catch (error) {
        // It is only a hint, and what is durable must be answered as such, also where nothing can be reported.
        try {
          options.bug?.(error)
        } catch {}
      }
    }
  }

  const countOf = (prefix: string, staging: Staging): number => staging.sums.get(prefix) ?? counts.get(prefix) ?? backend.countOf(prefix)

  function versionOf(key: Key, staging: Staging): number {
    const staged = staging.docs.get(key)
    if (staged) return staged.value === null ? 0 : staged.version
    return known(key)?.version ?? 0
  }

  /** A document that differs from the record refuses the batch that needs it, and no other. */
  function refusalFor(batch: Batch, staging: Staging, careful: boolean): Refusal | undefined {
    try {
      return refusalOf(batch, staging, careful)
    } catch (error) {
      if (error instanceof Damaged) return error
      throw error
    }
  }

  function refusalOf(batch: Batch, staging: Staging, careful: boolean): Refusal | undefined {
    for (const [key, version] of batch.expect)
      if (versionOf(key, staging) !== version) return new Conflict(key, `${key} was changed at the same time: read it again, then retry`)
    for (const key of batch.create) {
      // Not worth a look into the database: its primary key refuses a second one, and then each batch is tried alone, carefully.
      const there = careful || staging.docs.has(key) ? versionOf(key, staging) : (cache.get(key)?.version ?? 0)
      if (there !== 0) return new Conflict(key, `${key} exists already`)
    }
    for (const { prefix, max, words, retry_after, decidesAgain } of batch.atMost) {
      if (countOf(prefix, staging) + (batch.count.get(prefix) ?? 0) > max)
        return decidesAgain
          ? new Conflict(prefix, words)
          : new Refusal('QUOTA_EXCEEDED', words, retry_after === undefined ? { max } : { max, retry_after })
    }
    return undefined
  }

  function stage(batch: Batch, staging: Staging): Sealed[] {
    const { docs, tips, sums } = staging
    const { entries, present } = staging.group
    const head = tips.get(batch.scope) ?? heads.get(batch.scope) ?? backend.headOf(batch.scope) ?? GENESIS
    const sealed = batch.facts.length === 0 ? [] : seal(batch, head, staging)
    for (const put of batch.puts) {
      const { version, fresh } = nextVersion(put.key, batch, staging)
      docs.set(put.key, { version, value: put.value, text: put.text, image: null, fresh, place: null })
    }
    for (const entry of batch.drop) {
      entries.push(entry)
      present.push(false)
    }
    for (const entry of batch.add) {
      entries.push(entry)
      present.push(true)
    }
    for (const [prefix, change] of batch.count) sums.set(prefix, countOf(prefix, staging) + change)
    return sealed
  }

  function nextVersion(key: Key, batch: Batch, staging: Staging): { version: number; fresh: boolean } {
    const staged = staging.docs.get(key)
    // Fresh: created by this batch, or by one before it in the same transaction.
    if (staged) return { version: staged.value === null ? 1 : staged.version + 1, fresh: staged.fresh }
    return batch.create.has(key) ? { version: 1, fresh: true } : { version: versionOf(key, staging) + 1, fresh: false }
  }

  function seal(batch: Batch, from: Head, staging: Staging): Sealed[] {
    let head = from
    // A clock that steps back never turns the record around.
    const at = batch.at > head.at ? batch.at : head.at
    const first = head.seq + 1
    const sealed = batch.facts.map((fact): Sealed => {
      position++
      const images = fact.images.map((image) => sealImage(image, batch, staging))
      const seq = head.seq + 1
      const line = sealedLine({
        ...envelopeOf(fact),
        v: 1,
        seq,
        at,
        scope: batch.scope,
        prev: head.hash,
        cause: fact.cause === null ? null : first + fact.cause,
        images,
      })
      head = { seq, hash: hashOf(line), at }
      const { actor, task, root } = fact
      const place: Place = { scope: batch.scope, seq, position, hash: head.hash }
      for (const { key } of images) staging.docs.get(key)!.place = place
      staging.group.facts.push({ position, scope: batch.scope, seq, at, actor, task, root, hash: head.hash, line })
      return { position, scope: batch.scope, seq, at, hash: head.hash, line, fact }
    })
    staging.tips.set(batch.scope, head)
    return sealed
  }

  function sealImage(
    { key, value, text }: Fact['images'][number],
    batch: Batch,
    staging: Staging,
  ): { key: Key; version: number; digest: string } {
    const { version, fresh } = nextVersion(key, batch, staging)
    const staged = staging.docs.get(key)
    const previous = staged ? staged.image : fresh ? null : (known(key)?.image ?? null)
    const grain = salt()
    imageId++
    staging.group.images.push({ id: imageId, position, key, version, previous, salt: grain, text })
    staging.docs.set(key, { version, value, text, image: imageId, fresh, place: null })
    return { key, version, digest: digestOf(grain, text) }
  }

  return {
    commit,
    // What differs from the record is a refusal, not an exception in the midst of the caller.
    read: async (keys) => keys.map(get),
    peek: (key) => readable(cache.get(key)),
    count: (prefix) => Promise.resolve(counts.get(prefix) ?? backend.countOf(prefix)),
    head: (scope) => Promise.resolve(heads.get(scope) ?? backend.headOf(scope) ?? GENESIS),
    scan: backend.scan,
    keys: backend.keys,
    facts: (of, page) => (page.asStored ? backend.facts(of, page) : soundFacts(backend, of, page, report)),
    seek: backend.seek,
    place(key) {
      const known = cache.get(key)?.place
      return known ? Promise.resolve(known) : backend.place(key)
    },
    look(key, entry) {
      const row = backend.get(key)
      const sound = row && soundOr(row, key, tag)
      const value = typeof sound === 'object' ? (JSON.parse(sound.text) as Value) : null
      return Promise.resolve({ value, isEntered: backend.has(entry) })
    },
    report,
    atRest: examinerOf(backend, tag),
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

/** What is left out makes room for what follows: a short page would say that there is nothing more. */
async function soundFacts(
  backend: Backend,
  of: FactsOf,
  { after, limit, reverse }: FactsPage,
  report: (difference: Found) => void,
): Promise<StoredFact[]> {
  const sound: StoredFact[] = []
  for (let place = after; ;) {
    const wanted = limit - sound.length
    const page = await backend.facts(of, { after: place, limit: wanted, reverse: reverse ?? false })
    for (const fact of page) {
      if (isSound(fact)) sound.push(fact)
      else report({ what: `${fact.scope} ${fact.seq}`, how: 'the event does not match its hash, or an image of it not its digest' })
    }
    if (page.length < wanted || sound.length === limit) return sound
    const last = page.at(-1)!
    place = of.by === 'scope' || of.by === 'actor' ? last.seq : last.position
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

/** The rows of what was staged. */
function groupOf({ docs, sums, group }: Staging, tag: Tag): Group {
  for (const [key, { version, value, text, image, fresh }] of docs) {
    if (value === null) {
      if (!fresh) group.remove.push(key)
    } else {
      const own = image === null ? { text, tag: tag(tagInput(key, version, text!)) } : { text: null, tag: null }
      const rows = fresh ? group.create : group.update
      rows.push({ key, version, image, ...own })
    }
  }
  group.counts.push(...sums)
  return group
}

const envelopeOf = ({ id, action, actor, behalf, basis, subject, task, root, detail }: Fact) => ({
  id,
  action,
  actor,
  behalf,
  basis,
  subject,
  task,
  root,
  detail,
})

/** A parsed document takes about twice its text, its answer may be kept as text, and it takes something for being there at all. */
const costOf = (text: string): number => text.length * 4 + 300
