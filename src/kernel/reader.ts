// Reads for one call: each document at most once, remembered for the commit, and only what the actor may see.
import { Refusal } from './errors.ts'
import type { Draft } from './draft.ts'
import { isIn, type Actor, type Subject } from './identity.ts'
import type { Granted, ListPage, Listed, Read } from './operation.ts'
import { END, idIn, keyOf, prefixOf, type AnyDoc, type Part } from './schema.ts'
import type { Store, Value } from './store.ts'

/** Where people, agents and services are registered. */
export type Directory = (read: Read, id: string) => Promise<Subject | null>

/** Where people decide beforehand what work may do. */
export type Grants = (read: Read, task_id: string, scope: string, now: string) => Promise<Granted | null>

/** How large stored bytes are; null: they are not here. */
export type BlobSizes = { size(checksum: string): Promise<number | null> }

/** What documents alone cannot tell, as the server passes it in. */
export type Outside = { readonly directory: Directory; readonly grants?: Grants; readonly blobs?: BlobSizes }

export function readerOf(store: Store, { directory, grants, blobs }: Outside, draft: Draft, actor: Actor): Read {
  async function raw(kind: AnyDoc, id: string): Promise<Value | null> {
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
  async function isVisible(kind: AnyDoc, value: Value): Promise<boolean> {
    if (!isIn(actor, kind.scopeOf(value))) return false
    if (actor.projects === 'all') return true
    if (!kind.visibleTo(value, actor)) return false
    const within = kind.within(value)
    if (within === null) return true
    const parent = await raw(within.doc, within.id)
    return parent !== null && isVisible(within.doc, parent)
  }

  async function maybe(kind: AnyDoc, id: string): Promise<Value | null> {
    const value = await raw(kind, id)
    if (value === null || (await isVisible(kind, value))) return value
    draft.hidden ??= keyOf(kind, id)
    return null
  }

  async function read(kind: AnyDoc, id: string): Promise<Value> {
    const value = await maybe(kind, id)
    if (value === null) throw new Refusal('NOT_FOUND', `there is no ${kind.noun} ${id}`)
    return value
  }

  async function list(kind: AnyDoc, name: string, prefixes: readonly (readonly Part[])[], page: ListPage): Promise<Listed[]> {
    const pages = await Promise.all(prefixes.map((parts) => range(prefixOf(kind, name, parts), page)))
    if (pages.length === 1) return pages[0]!
    const sorted = pages.flat().sort((a, b) => (a.at < b.at ? -1 : a.at > b.at ? 1 : 0))
    // One document may stand under several of the prefixes.
    const merged = sorted.filter(({ at }, i) => at !== sorted[i - 1]?.at)
    return (page.reverse ? merged.reverse() : merged).slice(0, page.limit)
  }
  /** A cursor can only move inside the range that the question itself may see. */
  async function range(prefix: string, { after, limit, reverse }: ListPage): Promise<Listed[]> {
    const from = after === undefined || reverse ? prefix : prefix + after
    const to = reverse && after !== undefined ? prefix + after : prefix + END
    const entries = await store.scan(from, to, limit, reverse)
    return entries.map((entry) => ({ id: idIn(entry), at: entry.slice(prefix.length) }))
  }

  const reader: Read = Object.assign(read, {
    maybe,
    raw,
    list,
    count: (kind: AnyDoc, name: string, parts: readonly Part[]) => store.count(prefixOf(kind, name, parts)),
    facts: store.facts,
    seek: store.seek,
    head: store.head,
    place: (kind: AnyDoc, id: string) => store.place(keyOf(kind, id)),
    subject: (id: string) => directory(reader, id),
    grant: async (task_id: string, scope: string, now: string) => (await grants?.(reader, task_id, scope, now)) ?? null,
    async blob(checksum: string) {
      const size = (await blobs?.size(checksum)) ?? null
      return size === null ? null : { size }
    },
  }) as Read
  return reader
}
