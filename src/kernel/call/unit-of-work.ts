// The unit of work of one call: everything that the call has read and decided so far, and the batch made from it.
import type { Received } from '../ports/blobs.ts'
import { canonical } from '../log/canonical-json.ts'
import type { Wanted } from './effects.ts'
import { SYSTEM_ID, type Actor } from '../declare/access.ts'
import type { NewId } from '../codec/ids.ts'
import { Conflict } from '../declare/errors.ts'
import type { Bound, ContractFact, Decision } from '../declare/operation.ts'
import { entriesOf, idOf, keyOf, kindOf, prefixOf, talliesOf, type AnyDoc } from '../declare/schema.ts'
import type { Basis, Batch, Fact, Image, Key, Put, Value } from '../log/store.ts'

export type DraftFact = Omit<Fact, 'images' | 'scope'> & {
  readonly scope: string
  readonly images: readonly { readonly key: Key; readonly value: Value }[]
}

export type Draft = {
  readonly at: string
  readonly received: Received | undefined
  scope: string | null
  readonly expect: Map<Key, number>
  readonly before: Map<Key, Value | null>
  readonly after: Map<Key, Value | null>
  readonly facts: DraftFact[]
  readonly puts: Set<Key>
  readonly bounds: Bound[]
  /** An existing document that this actor has no access to. The refusal does not mention it; the record does. */
  hidden: Key | null
  /** The number of documents and facts read, and of the characters in them. */
  rows: number
  chars: number
  consequences: number
  /** No result yet; see `Decision.nothing`. */
  nothing: { readonly again: string | null } | null
  /** The effect that the call requests. */
  wanted: Wanted | null
  /** The draft of a query: it is never committed. */
  readonly onlyReads: boolean
}

export const draftAt = (at: string, received?: Received, onlyReads = false): Draft => ({
  at,
  received,
  scope: null,
  expect: new Map(),
  before: new Map(),
  after: new Map(),
  facts: [],
  puts: new Set(),
  bounds: [],
  hidden: null,
  rows: 0,
  chars: 0,
  consequences: 0,
  nothing: null,
  wanted: null,
  onlyReads,
})

/** The draft of a call that only reads. */
export const readingAt = (at: string): Draft => draftAt(at, undefined, true)

export const isEmpty = (draft: Draft): boolean => draft.facts.length === 0 && draft.puts.size === 0

/** Keys of the documents that the call itself was about, without those of its consequences. */
export const subjectsIn = ({ facts }: Draft): string[] => [
  ...new Set(facts.filter(({ cause }) => cause === null).map(({ subject }) => subject)),
]

/** Adds the facts of a decision, with their actor and basis. A decision and its consequences belong to one chain. */
export function record(
  draft: Draft,
  newId: NewId,
  protocol: string,
  decision: Decision<unknown>,
  actor: Actor,
  basis: Basis,
  cause: number | null,
): void {
  const first = draft.facts.length
  let chain = cause === null ? null : draft.facts[cause]!.scope
  for (const fact of decision.facts) {
    const subject = fact.images[0]!
    const scope = decision.scope ?? subject.doc.scopeOf(subject.after)
    chain ??= scope
    if (chain !== scope) throw new Error(`one decision, one chain: ${fact.action} belongs to ${scope}, not ${chain}`)
    draft.scope ??= scope
    draft.facts.push({
      id: fact.id ?? newId('aud'),
      scope,
      action: `${protocol}/${fact.action}`,
      actor: fact.bySystem ? SYSTEM_ID : actor.id,
      behalf: fact.behalf ?? actor.behalf ?? null,
      basis: fact.basis ?? basis,
      cause: fact.cause === null ? cause : first + fact.cause,
      subject: keyOf(subject.doc, subject.id),
      task: subject.doc.taskOf(subject.after),
      root: subject.doc.rootOf(subject.after),
      detail: fact.detail,
      images: fact.images.map(({ doc, id, after }) => {
        const key = keyOf(doc, id)
        const value = imageWithCount(draft, doc, key, after)
        draft.after.set(key, value)
        return { key, value }
      }),
    })
  }
  draft.bounds.push(...(decision.atMost ?? []))
}

/** The projects, and other scopes, that a decision writes in. */
export function scopesOf({ facts, puts = [], scope }: Decision<unknown>): string[] {
  const images = facts.flatMap((fact) => fact.images.map(({ doc, after }) => doc.scopeOf(after)))
  const changed = puts.flatMap(({ doc, value }) => (value === null ? [] : [doc.scopeOf(value)]))
  return [...(scope === undefined ? [] : [scope]), ...images, ...changed]
}

/** An image with the number of its document's changes, which a batch raises once, however many of its facts change the document. */
function imageWithCount({ before }: Draft, { counter }: AnyDoc, key: Key, after: Value): Value {
  if (counter === null) return after
  const was = before.get(key) ?? null
  return { ...after, [counter]: was === null ? 0 : Number(was[counter] ?? 0) + 1 }
}
/** Whether the images of a decision differ from what it returned. */
export const isCounted = ({ facts }: Decision<unknown>): boolean =>
  facts.some(({ images }) => images.some(({ doc }) => doc.counter !== null))

/** Texts of the images, and the index entries that differ between before and after. */
export function batchOf(draft: Draft): Batch {
  const texts = new Map<Value, string>()
  const textOf = (value: Value): string => {
    let text = texts.get(value)
    if (text === undefined) texts.set(value, (text = canonical(value)))
    return text
  }
  const { add, drop, count, create, wakes } = indexChanges(draft)
  const facts = draft.facts.map((fact): Fact => ({
    ...fact,
    images: fact.images.map(({ key, value }): Image => ({ key, value, text: textOf(value) })),
  }))
  const puts = [...draft.puts].map((key): Put => {
    const value = draft.after.get(key) ?? null
    return { key, value, text: value === null ? null : textOf(value) }
  })
  const atMost = draft.bounds.map(({ doc, index, prefix, max, message, retry_after, decidesAgain }) => ({
    prefix: prefixOf(doc, index, prefix),
    max,
    message,
    retry_after,
    decidesAgain,
  }))
  return { scope: draft.scope ?? '', at: draft.at, expect: draft.expect, create, facts, puts, add, drop, count, wakes, atMost }
}

function indexChanges(draft: Draft): Pick<Batch, 'add' | 'drop' | 'count' | 'create' | 'wakes'> {
  const wakes: string[] = []
  const add: string[] = []
  const drop: string[] = []
  const create = new Set<Key>()
  const count = new Map<string, number>()
  const sum = (prefix: string | null, by: number): void => {
    if (prefix !== null) count.set(prefix, (count.get(prefix) ?? 0) + by)
  }
  for (const [key, value] of draft.after) {
    const kind = kindOf(key)
    const was = entriesOf(kind, idOf(key), draft.before.get(key) ?? null)
    const is = entriesOf(kind, idOf(key), value)
    const bell = value === null ? null : kind.wakes(value)
    if (bell !== null) wakes.push(bell)
    for (const { entry, counted } of was) {
      if (is.some((other) => other.entry === entry)) continue
      drop.push(entry)
      sum(counted, -1)
    }
    for (const { entry, counted } of is) {
      if (was.some((other) => other.entry === entry)) continue
      add.push(entry)
      sum(counted, 1)
    }
    for (const prefix of talliesOf(kind, draft.before.get(key) ?? null)) sum(prefix, -1)
    for (const prefix of talliesOf(kind, value)) sum(prefix, 1)
    // There are no blind writes: a written document was read before, or is new and must still be new at the commit.
    if (!draft.expect.get(key)) {
      draft.expect.delete(key)
      create.add(key)
    }
  }
  for (const [prefix, change] of count) if (change === 0) count.delete(prefix)
  return { add, drop, count, create, wakes }
}

/** The answer shows each document as the whole batch leaves it, consequences included. */
export function asLeftByTheBatch(draft: Draft, { facts, output }: Decision<unknown>): unknown {
  const latest = new Map<unknown, Value>()
  for (const { images } of facts) for (const { doc, id, after } of images) latest.set(after, draft.after.get(keyOf(doc, id)) ?? after)
  return Object.fromEntries(Object.entries(output as object).map(([name, value]) => [name, latest.get(value) ?? (value as unknown)]))
}

export function asContractsSee(draft: Draft, draftFact: DraftFact, { via }: Actor): ContractFact {
  const { action, detail, actor, basis } = draftFact
  const cause = draftFact.cause === null ? null : draft.facts[draftFact.cause]!.action
  return { action, subject: draft.after.get(draftFact.subject), detail, cause, actor, basis, via: via ?? null }
}

/**
 * The credential's documents must be unchanged at the commit. If the decision read a newer version of one, the actor was resolved from
 * outdated documents.
 */
export function expectProof(draft: Draft, { proof = new Map() }: Actor): void {
  for (const [key, version] of proof) {
    if ((draft.expect.get(key) ?? version) !== version)
      throw new Conflict(key, `${key} was changed at the same time: read it again, then retry`)
    if (!draft.after.has(key)) draft.expect.set(key, version)
  }
}
