// The backend: the part of a store that knows its database. It runs one transaction at a time around pure code (sealing.ts) and reports the
// commits of other processes. The queue, the cache and the hints are in group-commit.ts, the barrier in barrier.ts.
import type { Head } from './hash-chain.ts'
import type { AtRest, ImageAtRest } from './sealed-documents.ts'
import type { Onward, Seal } from './seals/seals.ts'
import type { Hint, Key, Store } from './store.ts'

/** The rows of one transaction. */
export type Group = {
  readonly facts: FactRow[]
  /** The seal of the facts; null: the group has no facts. */
  readonly seal: Seal | null
  readonly images: ImageRow[]
  readonly create: DocRow[]
  readonly update: DocRow[]
  readonly remove: Key[]
  /** Added and removed index entries in order: the last change of an entry counts. */
  readonly entries: string[]
  /** For each of `entries`: true if it is added, false if it is removed. */
  readonly present: boolean[]
  readonly counts: [prefix: string, count: number][]
  /** The hint for other processes: a store with several writers stores it with the group, or sends it. */
  readonly hint: Hint
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
/** A document that a fact describes names its image. Any other document carries its text, and a tag over it. */
export type DocRow = { key: Key; version: number; image: number | null; text: string | null; tag: string | null }

/** Everything that staging can read. A remote database reads all of it in one query, under its lock. */
export type Wanted = {
  readonly keys: ReadonlySet<Key>
  readonly scopes: ReadonlySet<string>
  readonly prefixes: ReadonlySet<string>
  /** The position up to which the record is known to be sealed. */
  readonly sealed: number
}

export type DocState = { readonly version: number; readonly image: number | null }

/** The durable state as a transaction sees it, after it has locked out all other writers. */
export type State = {
  /**
   * Commits of other processes since this backend last reported them, here or in `news`; null: none. Reporting a commit twice is harmless,
   * omitting one is not. Its own group with an unknown outcome counts as a commit of another process.
   */
  readonly news: Hint | null
  /** The record behind `Wanted.sealed`; null: no other process has written since the last transaction of this backend. */
  readonly onward: Onward | null
  /** Numbers of the last stored fact and the last stored image: both are assigned without gaps. */
  readonly position: number
  readonly image: number
  docOf(key: Key): DocState | undefined
  headOf(scope: string): Head | undefined
  countOf(prefix: string): number
  /**
   * True: once the news is evicted, the cache equals what this transaction would read, so no query is needed. A store with several writers
   * returns false, so that no commit is decided from a cache.
   */
  readonly isCacheTrue: boolean
}

/** One document and the data that it is compared with, all read at one moment. */
export type Inspection = {
  readonly row: AtRest | undefined
  /** How many images the key has. */
  readonly images: number
  readonly entries: readonly boolean[]
  readonly counts: readonly number[]
}

export type Counts = { readonly position: number; readonly counts: readonly (readonly [prefix: string, count: number])[] }
/** An image with the line of its fact. */
export type PastImage = Pick<ImageAtRest, 'version' | 'salt' | 'text' | 'line'> & { readonly key: Key }

export type Backend = {
  /** The position of the last fact when the store was opened. */
  readonly openedAt: number
  /**
   * Runs one transaction that excludes all other writers: it reads the state, calls `stage` once with it, writes the rows and commits.
   * SQLite does all of it without an `await`; a remote database locks one row first. `stage` has no outside effects: if a transaction is
   * known to have failed, the backend may retry it with another call of `stage`, and the last call counts. `stage` returns null if there is
   * nothing to write. Resolves when the group is durable. A rejection means that nothing was written, unless its `failure` is `unknown` or
   * `fatal`.
   */
  transact(wanted: () => Wanted, stage: (state: State) => Group | null): Promise<void>
  /** Documents as stored, all read at one moment after this call. */
  read(keys: readonly Key[]): Promise<readonly (AtRest | undefined)[]>
  inspect(key: Key, entries: readonly string[], prefixes: readonly string[]): Promise<Inspection>
  /** The stored count of entries under a prefix, and the actual one, at one moment. */
  tally(prefix: string): Promise<{ readonly counted: number; readonly there: number }>
  /** Counts other than zero in byte order (after < prefix < end), and the position of the last fact, at one moment. */
  counts(after: string, end: string, limit: number): Promise<Counts>
  /** The newest image of each key (after < key < end) among those of facts up to a position, in byte order. */
  imagesAt(after: Key, end: Key, position: number, limit: number): Promise<PastImage[]>
  /** Keys that have a document or an image, in byte order. */
  allKeys(after: Key, limit: number): Promise<Key[]>
  prefixes(after: string, limit: number): Promise<string[]>
  head(scope: string): Promise<Head | undefined>
  count(prefix: string): Promise<number>
  position(): Promise<number>
  /**
   * All commits of other processes that were acknowledged before this call, in the form of `State.news`, and the record behind the position
   * up to which it is known to be sealed. Absent for a store that only one process has open: its cache is always current.
   */
  news?(sealed: number): Promise<{ readonly hint: Hint | null; readonly onward: Onward }>
  /** Whether another connection has written, since the last call, to a database that only one process should have open. */
  wasWritten?(): boolean
  /** The record behind a sealed position, as it is stored now. */
  onward(sealed: number): Promise<Onward>
  /** For each position, the seal that should cover it: the first that ends at or after it. */
  sealsAt(positions: readonly number[]): Promise<readonly Seal[]>
  /** Calls `ring` when other processes might have committed. The hint can arrive late, twice or never. */
  watch?(ring: () => void): void
  /** Registers the function that refuses queued batches behind a group whose outcome stays in doubt for too long. */
  heldUp?(refuse: (message: string) => void): void
} & Pick<Store, 'scan' | 'keys' | 'facts' | 'seals' | 'seek' | 'place' | 'close'>

/**
 * A failed write, in terms that group commit acts on. `full`: the database cannot be written to at the moment, and nothing was. `refused`:
 * it rejects one of the rows. `unknown`: the connection was lost during COMMIT, and the outcome could not be read since. `fatal`: the state
 * on the disk cannot be determined, so the process ends.
 */
export type WriteFailure = { readonly failure: 'full' | 'refused' | 'unknown' | 'fatal'; readonly explanation?: string }
