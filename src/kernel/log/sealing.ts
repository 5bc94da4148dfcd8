// Sealing, as pure code: batches and the durable state go in, rows and refusals come out. Each batch is checked against the durable state and
// the staged rows of earlier batches before it creates its first row, so none needs a savepoint on any database.
import type { Group, State, Wanted } from './backend.ts'
import { digestOf, GENESIS, hashOf, sealedLine, type Head } from './hash-chain.ts'
import { Conflict, Refusal } from '../declare/errors.ts'
import { tagInput, type Tag } from './sealed-documents.ts'
import { sealOf, type Tip } from './seals/seals.ts'
import type { Batch, Fact, Hint, Key, Place, Sealed, Value } from './store.ts'

/** A document as the group leaves it. `place`: that of the fact that described it last. */
export type StagedDoc = {
  readonly version: number
  readonly value: Value | null
  readonly text: string | null
  readonly image: number | null
  /** Made by this group. */
  readonly fresh: boolean
  place: Place | null
}

/** The durable state, and the randomness that sealing needs. */
export type Sources = Pick<State, 'position' | 'image' | 'docOf' | 'headOf' | 'countOf'> & {
  /** Whether a key that must be new exists already. It can miss a key if the database itself refuses a second row. */
  isThere(key: Key): boolean
  salt(): string
  readonly tag: Tag
  /** The seal that the group follows. */
  readonly tip: Tip
}

/** One group on its way. */
export type Staging = {
  readonly docs: Map<Key, StagedDoc>
  readonly heads: Map<string, Head>
  readonly counts: Map<string, number>
  readonly wakes: Set<string>
  readonly group: Omit<Group, 'hint' | 'seal'>
  position: number
  image: number
}

export const nothingStaged = ({ position, image }: Pick<Sources, 'position' | 'image'>): Staging => ({
  docs: new Map(),
  heads: new Map(),
  counts: new Map(),
  wakes: new Set(),
  group: { facts: [], images: [], create: [], update: [], remove: [], entries: [], present: [], counts: [] },
  position,
  image,
})

/** The state that has to be known to stage these batches. */
export function wantedBy(batches: readonly Batch[], sealed: number): Wanted {
  const keys = new Set<Key>()
  const scopes = new Set<string>()
  const prefixes = new Set<string>()
  for (const batch of batches) {
    for (const key of batch.expect.keys()) keys.add(key)
    for (const key of batch.create) keys.add(key)
    for (const { key } of batch.puts) keys.add(key)
    for (const { images } of batch.facts) for (const { key } of images) keys.add(key)
    for (const fact of batch.facts) scopes.add(fact.scope ?? batch.scope)
    for (const prefix of batch.count.keys()) prefixes.add(prefix)
    for (const { prefix } of batch.atMost) prefixes.add(prefix)
  }
  return { keys, scopes, prefixes, sealed }
}

function versionOf(key: Key, { docs }: Staging, { docOf }: Sources): number {
  const staged = docs.get(key)
  if (staged) return staged.value === null ? 0 : staged.version
  return docOf(key)?.version ?? 0
}

const countOf = (prefix: string, staging: Staging, sources: Sources): number => staging.counts.get(prefix) ?? sources.countOf(prefix)

/** Why a batch cannot join the group, or undefined. */
export function refusalOf(batch: Batch, staging: Staging, sources: Sources): Refusal | undefined {
  for (const [key, version] of batch.expect)
    if (versionOf(key, staging, sources) !== version)
      return new Conflict(key, `${key} was changed at the same time: read it again, then retry`)
  for (const key of batch.create)
    if (staging.docs.has(key) ? versionOf(key, staging, sources) !== 0 : sources.isThere(key))
      return new Conflict(key, `${key} exists already`)
  for (const { prefix, max, message, retry_after, decidesAgain } of batch.atMost) {
    if (countOf(prefix, staging, sources) + (batch.count.get(prefix) ?? 0) > max)
      return decidesAgain
        ? new Conflict(prefix, message)
        : new Refusal('QUOTA_EXCEEDED', message, retry_after === undefined ? { max } : { max, retry_after })
  }
  return undefined
}

/** The batch joins the group. */
export function stageBatch(batch: Batch, staging: Staging, sources: Sources): Sealed[] {
  const { docs, counts, wakes } = staging
  const { entries, present } = staging.group
  const sealed = batch.facts.length === 0 ? [] : sealFacts(batch, staging, sources)
  for (const put of batch.puts) {
    const { version, fresh } = nextVersion(put.key, batch, staging, sources)
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
  for (const [prefix, change] of batch.count) counts.set(prefix, countOf(prefix, staging, sources) + change)
  for (const name of batch.wakes) wakes.add(name)
  return sealed
}

function nextVersion(key: Key, batch: Batch, staging: Staging, sources: Sources): { version: number; fresh: boolean } {
  const staged = staging.docs.get(key)
  // Fresh: created by this batch, or by one before it in the same transaction.
  if (staged) return { version: staged.value === null ? 1 : staged.version + 1, fresh: staged.fresh }
  return batch.create.has(key) ? { version: 1, fresh: true } : { version: versionOf(key, staging, sources) + 1, fresh: false }
}

function sealFacts(batch: Batch, staging: Staging, sources: Sources): Sealed[] {
  const seqs: number[] = []
  return batch.facts.map((fact): Sealed => {
    const { scope = batch.scope } = fact
    const head = staging.heads.get(scope) ?? sources.headOf(scope) ?? GENESIS
    // A clock that steps back, or that of another server, never turns the record around.
    const at = batch.at > head.at ? batch.at : head.at
    const position = ++staging.position
    const images = fact.images.map((image) => sealImage(image, batch, staging, sources))
    const seq = head.seq + 1
    seqs.push(seq)
    const { id, action, actor, behalf, basis, subject, task, root, detail } = fact
    const cause = fact.cause === null ? null : seqs[fact.cause]!
    const prev = head.hash
    const line = sealedLine({
      v: 1,
      id,
      seq,
      at,
      scope,
      prev,
      action,
      actor,
      behalf,
      basis,
      cause,
      subject,
      task,
      root,
      detail,
      images,
    })
    const hash = hashOf(line)
    staging.heads.set(scope, { seq, hash, at })
    const place: Place = { scope, seq, position, hash }
    for (const { key } of images) staging.docs.get(key)!.place = place
    staging.group.facts.push({ position, scope, seq, at, actor, task, root, hash, line })
    return { position, scope, seq, at, hash, line, fact }
  })
}

function sealImage(
  { key, value, text }: Fact['images'][number],
  batch: Batch,
  staging: Staging,
  sources: Sources,
): { key: Key; version: number; digest: string } {
  const { version, fresh } = nextVersion(key, batch, staging, sources)
  const staged = staging.docs.get(key)
  const previous = staged ? staged.image : fresh ? null : (sources.docOf(key)?.image ?? null)
  const salt = sources.salt()
  const id = ++staging.image
  staging.group.images.push({ id, position: staging.position, key, version, previous, salt, text })
  staging.docs.set(key, { version, value, text, image: id, fresh, place: null })
  return { key, version, digest: digestOf(salt, text) }
}

/** The rows of what was staged, or null if nothing was. */
export function groupOf({ docs, counts, wakes, group, position }: Staging, { tag, tip }: Sources): Group | null {
  if (docs.size === 0 && group.facts.length === 0) return null
  for (const [key, { version, value, text, image, fresh }] of docs) {
    if (value === null) {
      if (!fresh) group.remove.push(key)
    } else {
      const stored = image === null ? { text, tag: tag(tagInput(key, version, text!)) } : { text: null, tag: null }
      const rows = fresh ? group.create : group.update
      rows.push({ key, version, image, ...stored })
    }
  }
  group.counts.push(...counts)
  const hint: Hint = { position, keys: [...docs.keys()], wakes: [...wakes] }
  const seal = group.facts.length === 0 ? null : sealOf(group.facts, tip.tag, tag)
  return { ...group, seal, hint }
}
