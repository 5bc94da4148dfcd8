// The backend: the part of a store that knows its database. It runs one transaction at a time around pure code (sealing.ts) and tells what
// others have committed; the queue, the cache and the hints are in group-commit.ts, the barrier in barrier.ts.
import type { Head } from './hash-chain.ts'
import type { AtRest } from './sealed-documents.ts'
import type { Onward, Seal } from './seals/seals.ts'
import type { Hint, Key, Store } from './store.ts'

/** The rows of one transaction. */
export type Group = {
  readonly facts: FactRow[]
  /** Of its facts; null: it has none. */
  readonly seal: Seal | null
  readonly images: ImageRow[]
  readonly create: DocRow[]
  readonly update: DocRow[]
  readonly remove: Key[]
  /** Index entries in the order in which they come and go: the last word on one counts. */
  readonly entries: string[]
  /** Whether the entry at the same place comes. */
  readonly present: boolean[]
  readonly counts: [prefix: string, count: number][]
  /** The hint that others are told: a store with several writers keeps it beside the group, or sends it along. */
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
/** A document described by a fact names its image; one that no fact describes carries its own text, and a tag over it. */
export type DocRow = { key: Key; version: number; image: number | null; text: string | null; tag: string | null }

/** Everything that staging may ask about. A database that has to be asked reads all of it in one go, behind its lock. */
export type Wanted = {
  readonly keys: ReadonlySet<Key>
  readonly scopes: ReadonlySet<string>
  readonly prefixes: ReadonlySet<string>
  /** The position up to which the record is known to be sealed. */
  readonly sealed: number
}

export type DocState = { readonly version: number; readonly image: number | null }

/** The durable state as a transaction sees it, once no other transaction can write. */
export type State = {
  /**
   * Commits of others since this backend last told of them, here or in `news`; null: none. Saying something twice is harmless, leaving
   * something out is not. A group of its own whose outcome was unknown counts as one of others.
   */
  readonly news: Hint | null
  /** The record behind `Wanted.sealed`; null: nobody else has written since this backend was asked last. */
  readonly onward: Onward | null
  /** Numbers of the last fact and the last image that there are: both are given without gaps. */
  readonly position: number
  readonly image: number
  docOf(key: Key): DocState | undefined
  headOf(scope: string): Head | undefined
  countOf(prefix: string): number
  /**
   * True: with the news forgotten, what lies in the cache is what this transaction would read, which spares asking. A store with several
   * writers says false, so that nothing that decides a commit comes from a cache.
   */
  readonly isCacheTrue: boolean
}

/** One document with what it is compared with, all of one moment. */
export type Inspection = {
  readonly row: AtRest | undefined
  /** How many images the key has. */
  readonly images: number
  readonly entries: readonly boolean[]
  readonly counts: readonly number[]
}

export type Backend = {
  /** Of the last fact, when the store was opened. */
  readonly openedAt: number
  /**
   * One transaction, with all other writers kept out: it learns the state, calls `stage` once with it, writes the rows, commits. SQLite
   * does all of it without an `await` in between; a database that must be asked locks one row first. `stage` has no effects outside: a
   * transaction that is known not to be there may be begun anew with another call of it, and the last call counts. Null: nothing is to be
   * written. Resolves when the group is durable. A rejection says that nothing of it is there, unless its `failure` is `unknown` or `fatal`.
   */
  transact(wanted: () => Wanted, stage: (state: State) => Group | null): Promise<void>
  /** Documents as they lie there, all of one moment that is not before this was called. */
  read(keys: readonly Key[]): Promise<readonly (AtRest | undefined)[]>
  inspect(key: Key, entries: readonly string[], prefixes: readonly string[]): Promise<Inspection>
  /** How many entries are counted under a prefix, and how many there are, at one moment. */
  tally(prefix: string): Promise<{ readonly counted: number; readonly there: number }>
  /** Keys that have a document or an image, in byte order. */
  allKeys(after: Key, limit: number): Promise<Key[]>
  prefixes(after: string, limit: number): Promise<string[]>
  head(scope: string): Promise<Head | undefined>
  count(prefix: string): Promise<number>
  position(): Promise<number>
  /**
   * Commits of others, all that were acknowledged anywhere before this was called, as `State.news` says it, and the record behind the
   * position up to which it is known to be sealed. A store that one process alone has open leaves it out: then its cache is always as new
   * as can be.
   */
  news?(sealed: number): Promise<{ readonly hint: Hint | null; readonly onward: Onward }>
  /** Whether another connection has written to a database that one process alone should have open, since this was asked last. */
  wasWritten?(): boolean
  /** The record behind a sealed position, as it is stored now. */
  onward(sealed: number): Promise<Onward>
  /** For each position the seal that should cover it: the first that ends there or behind it. */
  sealsAt(positions: readonly number[]): Promise<readonly Seal[]>
  /** Rings when others may have committed something: a hint, which may come late, twice or never. */
  watch?(ring: () => void): void
  /** Told how to refuse those that wait behind a group whose outcome takes too long to find out. */
  heldUp?(refuse: (message: string) => void): void
} & Pick<Store, 'scan' | 'keys' | 'facts' | 'seals' | 'seek' | 'place' | 'close'>

/**
 * The database's answer, in terms that group commit acts on. `full`: it cannot be written to at present, and nothing was. `refused`: it
 * does not take one of the rows. `unknown`: the way to it was lost while it committed, and it could not be asked since. `fatal`: what is on
 * the disk is unknown for good, so the process ends.
 */
export type WriteFailure = { readonly failure: 'full' | 'refused' | 'unknown' | 'fatal'; readonly explanation?: string }
