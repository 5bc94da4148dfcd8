// Reads for one call: each document at most once, remembered for the commit, and only what the actor may see.
import { Refusal } from './errors.ts'
import type { Draft } from './draft.ts'
import { isIn, type Actor, type Subject } from './identity.ts'
import type { Granted, ListPage, Listed, Read } from './operation.ts'
import { END, idIn, keyOf, prefixOf, type AnyDoc, type Part } from './schema.ts'
import type { FactsOf, FactsPage, Store, Value } from './store.ts'

/** Where people, agents and services are registered. */
export type Directory = (read: Read, id: string) => Promise<Subject | null>

/** Where people decide beforehand what work may do. */
export type Grants = (read: Read, task_id: string, scope: string, now: string) => Promise<Granted | null>

/** How large stored bytes are; null: they are not here. */
export type BlobSizes = { size(checksum: string): Promise<number | null> }

/** What documents alone cannot tell, as the server passes it in. */
export type Outside = { readonly directory: Directory; readonly grants?: Grants; readonly blobs?: BlobSizes }

/** Made for every call, so it is light: one function, and what all of them share. */
export function readerOf(store: Store, outside: Outside, draft: Draft, actor: Actor): Read {
  const at: At = { store, outside, draft, actor }
  const read = (kind: AnyDoc, id: string): Promise<Value> => readIn(at, kind, id)
  read.at = at
  return Object.setPrototypeOf(read, methods) as Read
}

type At = { readonly store: Store; readonly outside: Outside; readonly draft: Draft; readonly actor: Actor }

async function rawIn({ store, draft }: At, kind: AnyDoc, id: string): Promise<Value | null> {
  const key = keyOf(kind, id)
  const pending = draft.after.get(key)
  if (pending !== undefined) return pending
  const seen = draft.before.get(key)
  if (seen !== undefined) return seen
  const [found] = await store.read([key])
  draft.expect.set(key, found?.version ?? 0)
  draft.before.set(key, found?.value ?? null)
  return found?.value ?? null
}

// What is not yours does not exist. It is checked here, so that no operation can forget it.
async function isVisible(at: At, kind: AnyDoc, value: Value): Promise<boolean> {
  const { actor } = at
  if (!isIn(actor, kind.scopeOf(value))) return false
  if (actor.projects === 'all') return true
  if (!kind.visibleTo(value, actor)) return false
  const within = kind.within(value)
  if (within === null) return true
  const parent = await rawIn(at, within.doc, within.id)
  return parent !== null && isVisible(at, within.doc, parent)
}

async function maybeIn(at: At, kind: AnyDoc, id: string): Promise<Value | null> {
  const value = await rawIn(at, kind, id)
  if (value === null || (await isVisible(at, kind, value))) return value
  at.draft.hidden ??= keyOf(kind, id)
  return null
}

async function readIn(at: At, kind: AnyDoc, id: string): Promise<Value> {
  const value = await maybeIn(at, kind, id)
  if (value === null) throw new Refusal('NOT_FOUND', `there is no ${kind.noun} ${id}`)
  return value
}

async function listIn(
  { store }: At,
  kind: AnyDoc,
  name: string,
  prefixes: readonly (readonly Part[])[],
  page: ListPage,
): Promise<Listed[]> {
  const pages = await Promise.all(prefixes.map((parts) => rangeIn(store, prefixOf(kind, name, parts), page)))
  if (pages.length === 1) return pages[0]!
  const sorted = pages.flat().sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0))
  // One document may stand under several of the prefixes.
  const merged = sorted.filter(({ at }, i) => at !== sorted[i - 1]?.at)
  return (page.reverse ? merged.reverse() : merged).slice(0, page.limit)
}
/** A cursor can only move inside the range that the question itself may see. */
async function rangeIn(store: Store, prefix: string, { after, limit, reverse }: ListPage): Promise<Listed[]> {
  const from = after === undefined || reverse ? prefix : prefix + after
  const to = reverse && after !== undefined ? prefix + after : prefix + END
  const entries = await store.scan(from, to, limit, reverse)
  return entries.map((entry) => ({ id: idIn(entry), at: entry.slice(prefix.length) }))
}

type Reader = Read & { readonly at: At }
const methods = Object.setPrototypeOf(
  {
    maybe(this: Reader, kind: AnyDoc, id: string) {
      return maybeIn(this.at, kind, id)
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
    facts(this: Reader, of: FactsOf, page: FactsPage) {
      return this.at.store.facts(of, page)
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
    subject(this: Reader, id: string) {
      return this.at.outside.directory(this, id)
    },
    async grant(this: Reader, task_id: string, scope: string, now: string) {
      return (await this.at.outside.grants?.(this, task_id, scope, now)) ?? null
    },
    async blob(this: Reader, checksum: string) {
      const size = (await this.at.outside.blobs?.size(checksum)) ?? null
      return size === null ? null : { size }
    },
  },
  Function.prototype,
) as object
