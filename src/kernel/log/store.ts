// The interface of a store: read by key, scan a range of index entries, commit a whole batch or nothing. There are no open transactions.
import type { Seal, SealedFact, Tip } from './seals/seals.ts'

/** `${protocol}.${noun}/${id}` */
export type Key = string
export type Value = Readonly<Record<string, unknown>>
/** `size`: the characters of its text. */
export type Versioned = { readonly version: number; readonly value: Value; readonly size: number }

/** By what right something was done. */
export type Basis = { readonly kind: 'role' | 'grant' | 'policy' | 'contract' | 'timer' | 'default'; readonly id: string }

/** A document as a fact leaves it. */
export type Image = { readonly key: Key; readonly value: Value; readonly text: string }

/** An event of the record: its action, its actor, by what right, and the new images of the documents. */
export type Fact = {
  readonly id: string // aud_...
  readonly action: string // `${protocol}/${audit action}`
  readonly actor: string
  readonly behalf: string | null
  readonly basis: Basis
  readonly cause: number | null // index in the batch of the fact that led to this one, in the same chain
  readonly scope?: string // its chain, if that is not the one of the batch
  readonly subject: Key
  readonly task: string | null
  readonly root: string | null
  readonly detail: Value | null // machine-readable values only: it is hashed and can never be erased
  readonly images: readonly Image[]
}

/** A document that no fact describes: a timer, a delivery, a remembered answer. A null value deletes it. */
export type Put = { readonly key: Key; readonly value: Value | null; readonly text: string | null }

export type Batch = {
  readonly scope: string
  readonly at: string
  readonly expect: ReadonlyMap<Key, number> // every document that was read; 0: it was absent
  readonly create: ReadonlySet<Key> // documents of this batch that must be new
  readonly facts: readonly Fact[]
  readonly puts: readonly Put[]
  readonly add: readonly string[] // index entries
  readonly drop: readonly string[]
  readonly count: ReadonlyMap<string, number> // by how much the number of entries under a counted prefix changes
  readonly wakes: readonly string[] // the ids that waiting calls listen to
  readonly atMost: readonly {
    readonly prefix: string
    readonly max: number
    readonly message: string
    readonly retry_after?: number | undefined // seconds
    readonly decidesAgain?: boolean | undefined // over the bound is a conflict, not a refusal
  }[]
}

/** A fact with its place in the record. `line` is what was hashed. */
export type Sealed = {
  readonly position: number
  readonly scope: string
  readonly seq: number
  readonly at: string
  readonly hash: string
  readonly line: string
  readonly fact: Fact
}

export type StoredImage = {
  readonly key: Key
  readonly version: number
  readonly salt: string
  readonly text: string | null // null: the content was removed, which no operation does
  readonly previous: number | null
  readonly before: string | null // the image of the version before
  /** Of the image before, and the line of its fact. */
  readonly beforeSalt: string | null
  readonly beforeLine: string | null
}
export type StoredFact = {
  readonly position: number
  readonly scope: string
  readonly seq: number
  // The fields that facts are found by. The sealed line has the same values.
  readonly at: string
  readonly actor: string
  readonly task: string | null
  readonly root: string | null
  readonly hash: string
  readonly line: string
  readonly images: readonly StoredImage[]
}

/** The place of a fact in the record. */
export type Place = { readonly scope: string; readonly seq: number; readonly position: number; readonly hash: string }

/** Which facts: all by position, a chain by seq, one actor of a chain, one task, or a task with all its descendants. */
export type FactsOf =
  | { readonly by: 'position' }
  | { readonly by: 'scope'; readonly scope: string }
  | { readonly by: 'actor'; readonly scope: string; readonly actor: string }
  | { readonly by: 'task'; readonly task: string }
  | { readonly by: 'root'; readonly root: string }

export type FactsPage = {
  /** The position or seq of the last fact seen; null begins at the first (or, in reverse, at the last). */
  readonly after: number | null
  readonly limit: number
  readonly reverse?: boolean
  /** Returns facts as stored, for the verifier. Otherwise a fact that does not match its hash, its images or its seal is left out. */
  readonly asStored?: boolean
}

/** Something that differs from the record, and how. */
export type Found = { readonly what: string; readonly how: string }

/**
 * A hint about a commit of this process or another one: the last position, the changed documents, and the ids to wake. It carries no data
 * and might arrive late: a reader that must miss nothing reads `facts`. `all`: too many to list, or unknown.
 */
export type Hint = { readonly position: number; readonly keys: readonly Key[] | 'all'; readonly wakes: readonly string[] | 'all' }
export type Listener = (hint: Hint) => void

/** Reads for the examination of the whole store: each answer is consistent in itself. */
export type AtRestStore = {
  /** Keys that have a document or an image, in byte order. */
  keys(after: Key, limit: number): Promise<Key[]>
  /** Prefixes that are counted, in byte order. */
  prefixes(after: string, limit: number): Promise<string[]>
  document(key: Key): Promise<Found[]>
  entry(entry: string): Promise<Found[]>
  count(prefix: string): Promise<Found[]>
  /** Counts the documents of each kind with tallies and compares the sums, in portions; the last one of a kind brings what differs. */
  recount(): AsyncIterable<Found[]>
}

export interface Store {
  /** Other processes may have the store open at the same time. */
  readonly isShared: boolean
  /**
   * A barrier: once it resolves, reads see every commit that any process acknowledged before this call. Undefined: they do so already, as
   * in a store that only one process has open.
   */
  fresh(since?: number): Promise<void> | undefined
  /** The number of barriers so far. For a call that arrived at this count (`since`), any later completed barrier is fresh enough. */
  barriers(): number
  /** Throws Damaged if one of the documents differs from the record. */
  read(keys: readonly Key[]): Promise<(Versioned | undefined)[]>
  /** A cached document, synchronously. Null: it does not exist; undefined: it is not cached and must be read. */
  peek?(key: Key): Versioned | null | undefined
  /** Index entries in byte order: after < entry < end; in reverse from the end. */
  scan(after: string, end: string, limit: number, reverse?: boolean): Promise<string[]>
  /** Keys of documents in byte order: after < key < end. */
  keys(after: Key, end: Key, limit: number): Promise<Key[]>
  /** How many entries there are under a counted prefix. */
  count(prefix: string): Promise<number>
  /** Counts above zero in byte order: after < prefix < end. */
  counts(after: string, end: string, limit: number): Promise<(readonly [prefix: string, count: number])[]>
  /**
   * Resolves when the batch is durable and sealed. Throws Conflict if a read document has changed, and UNAVAILABLE if the database cannot
   * be written to; with `outcome: 'unknown'` in its details, the batch might be stored nevertheless.
   */
  commit(batch: Batch): Promise<readonly Sealed[]>
  facts(of: FactsOf, page: FactsPage): Promise<StoredFact[]>
  /** Seals behind a position in order, as they are stored. */
  seals(after: number, limit: number): Promise<Seal[]>
  /** Whether a server with the key of this store made it. */
  isSeal(seal: Seal): boolean
  /** How each fact differs from its seal; null: it does not. */
  sealFaults(facts: readonly SealedFact[]): Promise<(string | null)[]>
  /** The last seal that can no longer be lost: a commit of this process builds on it. */
  sealed(): Tip
  /** Marks a seal as one that cannot be lost: it is noted outside the database, and the stored record has it. */
  prove(tip: Tip): void
  /** How the stored record fails to continue what this process knows to be sealed; null: it continues it. */
  recheck(): Promise<string | null>
  /** The first seq of a scope whose time is not before `at`; one past the last when there is none. */
  seek(scope: string, at: string): Promise<number>
  /** The last fact of a scope. */
  head(scope: string): Promise<{ readonly seq: number; readonly hash: string }>
  /** The place of the fact that left a document in its current state. */
  place(key: Key): Promise<Place | null>
  /** A document and an index entry as stored at one moment. A null value: the document is absent, or differs from the record. */
  look(key: Key, entry: string): Promise<{ readonly value: Value | null; readonly isEntered: boolean }>
  /**
   * A document as its fact describes it, sealed or not: for the names of the keys, without which no seal can be checked. Null: it is
   * absent, or differs from its fact.
   */
  described(key: Key): Promise<Value | null>
  /** Reports a stored item that differs from the record to the process that runs the store. */
  report(difference: Found): void
  readonly atRest: AtRestStore
  /** The position of the last stored fact. */
  position(): Promise<number>
  /** Facts behind a position that this process sealed recently, to save a read; null: read them with `facts`. */
  lately(after: number): readonly Sealed[] | null
  /** Notifies the listener, in order, of durable commits of this process and of others. */
  subscribe(listener: Listener): () => void
  /** Statistics for operators. `position`: of the last fact known to this process. */
  stats(): { readonly groups: number; readonly batches: number; readonly waiting: number; readonly position: number }
  close(): Promise<void>
}
