// Reads for one call: each document at most once, remembered for the commit, and only what the actor may see.
import { Damaged, Refusal } from '../declare/errors.ts'
import type { Draft } from './unit-of-work.ts'
import { isIn, type Actor, type PeopleSought, type Subject } from '../declare/access.ts'
import { limits } from '../limits.ts'
import type { Granted, ListPage, Listed, Read } from '../declare/operation.ts'
import type { Ports } from '../ports/between-protocols.ts'
import type { NamedCovered } from '../ports/passkeys.ts'
import { logOrRefuse, type RecordLog } from '../log/record-log.ts'
import { seenBy, type Presence } from '../ports/presence.ts'
import { END, holdsEntry, idIn, keyOf, prefixOf, type AnyDoc, type Part } from '../declare/schema.ts'
import type { GroupText, TextIndex } from '../search/text-index.ts'
import type { SealedFact } from '../log/seals/seals.ts'
import type { FactsOf, FactsPage, Found, Key, Store, Value, Versioned } from '../log/store.ts'

/** Where people, agents and services are registered. */
export type Directory = (read: Read, id: string) => Promise<Subject | null>

/** Finds people by their role, at most `limits.peopleSoughtMax`. */
export type People = (read: Read, sought: PeopleSought) => Promise<readonly Subject[]>

/** Finds decisions that people made in advance. */
export type Grants = (read: Read, task_id: string, scope: string, now: string) => Promise<Granted | null>

/** The size of a stored blob; null: it is not stored here. */
export type BlobSizes = { size(checksum: string): Promise<number | null> }

/** Knowledge outside of the documents, passed in by the server. */
export type Outside = {
  readonly directory: Directory
  readonly people?: People
  readonly grants?: Grants
  readonly blobs?: BlobSizes
  /** Without it, reads cannot tell when an agent was last seen. */
  readonly presence?: Presence
  /** Documents that differ from the record; without it, the stored data is not examined. */
  readonly findings?: () => readonly Found[]
  /** The log over all facts; null: this process keeps none now. */
  readonly recordLog?: () => RecordLog | null
}

/** Adds the kernel's own part: the checks of another call, up to its decision. */
export type Looks = Outside & { signable(draft: Draft, actor: Actor, operation: string, input: unknown): Promise<NamedCovered> }

/** Created for every call, so it is cheap: one closure, and shared functions. Plain assignments cost the least. */
export function readerOf(store: Store, texts: TextIndex, outside: Looks, ports: Ports, draft: Draft, actor: Actor): Read {
  const at: At = { store, texts, outside, draft, actor }
  const read = (kind: AnyDoc, id: string): Promise<Value> => lookIn(at, kind, id, true) as Promise<Value>
  read.at = at
  read.ports = ports
  read.maybe = shared.maybe
  read.raw = shared.raw
  read.list = shared.list
  read.count = shared.count
  read.counts = shared.counts
  read.holding = shared.holding
  read.facts = shared.facts
  read.seek = shared.seek
  read.sealFaults = shared.sealFaults
  read.head = shared.head
  read.place = shared.place
  read.isFull = shared.isFull
  read.log = shared.log
  read.subject = shared.subject
  read.people = shared.people
  read.grant = shared.grant
  read.blob = shared.blob
  read.seen = shared.seen
  read.findings = shared.findings
  read.signable = shared.signable
  return read as unknown as Read
}

type At = { readonly store: Store; readonly texts: TextIndex; readonly outside: Looks; readonly draft: Draft; readonly actor: Actor }

/** Undefined: the call has not read this document yet. */
function seenIn({ after, before }: Draft, key: Key): Value | null | undefined {
  const pending = after.get(key)
  return pending === undefined ? before.get(key) : pending
}

function noteIn(draft: Draft, key: Key, found: Versioned | null | undefined): Value | null {
  const value = found?.value ?? null
  draft.expect.set(key, found?.version ?? 0)
  draft.before.set(key, value)
  draft.rows++
  draft.chars += found?.size ?? 0
  return value
}

async function rawIn({ store, draft }: At, kind: AnyDoc, id: string): Promise<Value | null> {
  const key = keyOf(kind, id)
  const seen = seenIn(draft, key)
  if (seen !== undefined) return seen
  const atHand = store.peek?.(key)
  return noteIn(draft, key, atHand === undefined ? await readIn(store, draft, key) : atHand)
}

/** A query leaves out a document that differs from the record; a command fails on it. */
async function readIn(store: Store, draft: Draft, key: Key): Promise<Versioned | undefined> {
  try {
    return (await store.read([key]))[0]
  } catch (error) {
    if (draft.onlyReads && error instanceof Damaged) return undefined
    throw error
  }
}

// To an actor without access, a document does not exist. The check is here, so that no operation can forget it.
function isVisible(at: At, kind: AnyDoc, value: Value): boolean | Promise<boolean> {
  const { actor } = at
  if (!isIn(actor, kind.scopeOf(value))) return kind.reaches(value, actor)
  if (actor.projects === 'all') return true
  if (!kind.visibleTo(value, actor)) return false
  const within = kind.within(value)
  return within === null || rawIn(at, within.doc, within.id).then((parent) => parent !== null && isVisible(at, within.doc, parent))
}

/** Every call begins with this read, so it awaits only where it must. */
async function lookIn(at: At, kind: AnyDoc, id: string, isWanted: boolean): Promise<Value | null> {
  const key = keyOf(kind, id)
  let value = seenIn(at.draft, key)
  if (value === undefined) {
    const atHand = at.store.peek?.(key)
    value = noteIn(at.draft, key, atHand === undefined ? await lookedUp(at, key, isWanted) : atHand)
  }
  if (value !== null) {
    const visible = isVisible(at, kind, value)
    if (visible === true || (visible !== false && (await visible))) return value
    at.draft.hidden ??= key
  }
  if (isWanted) throw new Refusal('NOT_FOUND', `there is no ${kind.noun} ${id}`)
  return null
}

const lookedUp = ({ store, draft }: At, key: Key, isWanted: boolean): Promise<Versioned | undefined> =>
  isWanted ? store.read([key]).then(([found]) => found) : readIn(store, draft, key)

async function listIn(at: At, kind: AnyDoc, name: string, prefixes: readonly (readonly Part[])[], page: ListPage): Promise<Listed[]> {
  const pages = await Promise.all(prefixes.map((parts) => rangeIn(at, kind, name, prefixOf(kind, name, parts), page)))
  if (pages.length === 1) return pages[0]!
  const sorted = pages.flat().sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0))
  // One document can be listed under several prefixes.
  const merged = sorted.filter(({ at }, i) => at !== sorted[i - 1]?.at)
  return (page.reverse ? merged.reverse() : merged).slice(0, page.limit)
}
/** A cursor can only move within the range of the query itself. */
async function rangeIn(at: At, kind: AnyDoc, name: string, prefix: string, { after, limit, reverse }: ListPage): Promise<Listed[]> {
  let from = after === undefined || reverse ? prefix : prefix + after
  let to = reverse && after !== undefined ? prefix + after : prefix + END
  const listed: Listed[] = []
  for (;;) {
    const missing = limit - listed.length
    const entries = await at.store.scan(from, to, missing, reverse)
    for (const entry of entries) {
      const id = idIn(entry)
      const atHand = at.store.peek?.(keyOf(kind, id))
      const holds = atHand && holdsEntry(kind, name, id, atHand.value, entry)
      if (holds || (await isTrue(at, kind, name, entry))) listed.push({ id, at: entry.slice(prefix.length) })
    }
    // Fill the page up after leaving documents out: a short page would mean that there are no more.
    const last = entries.at(-1)
    if (last === undefined || listed.length >= limit || entries.length < missing) return listed
    if (reverse) to = last
    else from = last
  }
}

/** Whether the document confirms its index entry. A query leaves out a damaged document; a command fails on it. */
async function isTrue({ store, draft }: At, kind: AnyDoc, name: string, entry: string): Promise<boolean> {
  const id = idIn(entry)
  const key = keyOf(kind, id)
  const found = await readIn(store, draft, key)
  if (found && holdsEntry(kind, name, id, found.value, entry)) return true
  // The document can have changed since the entry was read. Only a read of both at one moment can tell.
  const { value, isEntered } = await store.look(key, entry)
  if (!isEntered || (value && holdsEntry(kind, name, id, value, entry))) return isEntered
  store.report({ what: entry.replaceAll('\0', ' '), how: 'the index holds it, but there is no sound document that belongs there' })
  return false
}

type Reader = Read & { readonly at: At }
const shared = {
  maybe(this: Reader, kind: AnyDoc, id: string) {
    return lookIn(this.at, kind, id, false)
  },
  raw(this: Reader, kind: AnyDoc, id: string) {
    return rawIn(this.at, kind, id)
  },
  list(this: Reader, kind: AnyDoc, name: string, prefixes: readonly (readonly Part[])[], page: ListPage) {
    return listIn(this.at, kind, name, prefixes, page)
  },
  count(this: Reader, kind: AnyDoc, name: string, parts: readonly Part[]) {
    return this.at.store.count(prefixOf(kind, name, parts))
  },
  async counts(this: Reader, kind: AnyDoc, name: string, parts: readonly Part[], { after = '', limit }: ListPage) {
    const prefix = prefixOf(kind, name, parts)
    const found = await this.at.store.counts(prefix + after, prefix + END, limit)
    return found.map(([whole, count]) => ({ parts: whole.slice(prefix.length).split('\0').slice(0, -1), count }))
  },
  holding(this: Reader, kind: AnyDoc, words: readonly string[], groupText: GroupText, rows: number) {
    return this.at.texts.holding(kind, words, groupText, rows)
  },
  async facts(this: Reader, of: FactsOf, page: FactsPage) {
    const { store, draft } = this.at
    const facts = await store.facts(of, page)
    draft.rows += facts.length
    for (const { images } of facts) for (const { text } of images) draft.chars += text?.length ?? 0
    return facts
  },
  sealFaults(this: Reader, facts: readonly SealedFact[]) {
    return this.at.store.sealFaults(facts)
  },
  seek(this: Reader, scope: string, at: string) {
    return this.at.store.seek(scope, at)
  },
  head(this: Reader, scope: string) {
    return this.at.store.head(scope)
  },
  place(this: Reader, kind: AnyDoc, id: string) {
    return this.at.store.place(keyOf(kind, id))
  },
  isFull(this: Reader) {
    return this.at.draft.chars > limits.pageBytesMax
  },
  subject(this: Reader, id: string) {
    return this.at.outside.directory(this, id)
  },
  async people(this: Reader, sought: PeopleSought) {
    return (await this.at.outside.people?.(this, sought)) ?? []
  },
  async grant(this: Reader, task_id: string, scope: string, now: string) {
    return (await this.at.outside.grants?.(this, task_id, scope, now)) ?? null
  },
  async blob(this: Reader, checksum: string) {
    const size = (await this.at.outside.blobs?.size(checksum)) ?? null
    return size === null ? null : { size }
  },
  findings(this: Reader) {
    return this.at.outside.findings?.() ?? []
  },
  log(this: Reader) {
    return logOrRefuse(this.at.outside.recordLog?.())
  },
  signable(this: Reader, operation: string, input: unknown) {
    const { outside, draft, actor } = this.at
    return outside.signable(draft, actor, operation, input)
  },
  seen(this: Reader, id: string) {
    const { outside, draft } = this.at
    return seenBy(outside.presence, id, Date.parse(draft.at))
  },
}
