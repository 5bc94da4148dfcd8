// Seals: each group of facts carries a tag under a key that is not in the database. A seal names the positions and hashes of its facts and the
// tag of the seal before it, so a fact that was appended, exchanged or taken away by a writer of the database alone has no valid seal.
import { hashOf, type Head } from '../hash-chain.ts'
import type { Tag } from '../sealed-documents.ts'
import type { Found, StoredFact } from '../store.ts'

export type Seal = {
  /** Positions of the first and the last fact of the group. */
  readonly first: number
  readonly last: number
  /** The tag of the seal before it; empty: it is the first. */
  readonly before: string
  /** The concatenated hashes of its facts, in order. */
  readonly hashes: string
  readonly tag: string
}

/** How far a process knows the record to be sealed. */
export type Tip = { readonly position: number; readonly tag: string }
export const NOTHING_SEALED: Tip = { position: 0, tag: '' }

/** The record behind a tip as it is stored now, all of one moment. */
export type Onward = {
  /** Of the last fact. */
  readonly position: number
  /** The tag of the seal that ends at the tip; null: there is none. Empty behind position 0. */
  readonly at: string | null
  /** Seals behind the tip in order; of more than `SEALS_MAX` the last ones. */
  readonly since: readonly Seal[]
}
/** A process that missed more groups leaves the gap to the verifier, which checks every seal. */
export const SEALS_MAX = 200

/** SHA-256 in base64url. */
const HASH_CHARS = 43
export type SealedFact = Pick<StoredFact, 'position' | 'hash'>

/** It starts with a letter; the tagged text of a document starts with a digit. */
const sealInput = ({ first, last, before, hashes }: Omit<Seal, 'tag'>): string => `seal ${first} ${last} ${before} ${hashes}`

export function sealOf(facts: readonly SealedFact[], before: string, tag: Tag): Seal {
  const seal = { first: facts[0]!.position, last: facts.at(-1)!.position, before, hashes: facts.map(({ hash }) => hash).join('') }
  return { ...seal, tag: tag(sealInput(seal)) }
}

export const isSeal = (seal: Seal, tag: Tag): boolean =>
  seal.hashes.length === (seal.last - seal.first + 1) * HASH_CHARS && tag(sealInput(seal)) === seal.tag

export const UNSEALED = 'it has no seal: no server of this installation wrote it'
export const SEAL_CHANGED = 'the seal of its group was changed'

/** How a fact differs from the seal that covers its position, or null. */
export function faultUnder(seal: Seal | undefined, { position, hash }: SealedFact): string | null {
  if (!seal || position < seal.first || position > seal.last) return UNSEALED
  const at = (position - seal.first) * HASH_CHARS
  return seal.hashes.slice(at, at + HASH_CHARS) === hash ? null : 'it is not the fact that was sealed at its position'
}

/** The new tip, or a message about how the stored record fails to follow from the tip. */
export function tipAfter(tip: Tip, { position, at, since }: Onward, isValid: (seal: Seal) => boolean): Tip | string {
  if (position < tip.position)
    return `the record ends at position ${position}, but this installation wrote position ${tip.position}: it was put back to an earlier state`
  if (at !== tip.tag) return `the seal of position ${tip.position} is not the one that was written: the record was exchanged`
  let last = tip
  for (const [i, seal] of since.entries()) {
    const follows = seal.first === last.position + 1 && seal.before === last.tag
    if (!follows && (i > 0 || since.length < SEALS_MAX))
      return `the seal of positions ${seal.first} to ${seal.last} does not follow that of position ${last.position}`
    if (!isValid(seal)) return `the seal of positions ${seal.first} to ${seal.last} was changed`
    last = { position: seal.last, tag: seal.tag }
  }
  if (last.position < position)
    return `the facts at positions ${last.position + 1} to ${position} have no seal: no server of this installation wrote them`
  return last.position > position ? `the facts at positions ${position + 1} to ${last.position} were sealed and are gone` : last
}

/** Seals a record from before seals existed: its facts are accepted after a check of their chains. */
export type Baseline = {
  /** The next facts by position; answers the seals that are complete. */
  take(facts: readonly Omit<StoredFact, 'images'>[]): Seal[]
  /** The last seal, if facts are left. */
  end(): Seal[]
  found(): readonly Found[]
}
const BASELINE_GROUP = 256

export function createBaseline(tag: Tag): Baseline {
  const heads = new Map<string, Pick<Head, 'seq' | 'hash'>>()
  const found: Found[] = []
  let open: SealedFact[] = []
  let last = 0
  let before = ''
  function close(): Seal[] {
    if (open.length === 0) return []
    const seal = sealOf(open, before, tag)
    before = seal.tag
    open = []
    return [seal]
  }
  function differenceOf({ position, scope, seq, hash, line }: Omit<StoredFact, 'images'>): string | null {
    const head = heads.get(scope) ?? { seq: 0, hash: '' }
    if (position !== last + 1) return `the facts at positions ${last + 1} to ${position - 1} are missing`
    if (hashOf(line) !== hash) return 'the line does not match its hash'
    if (seq !== head.seq + 1 || !line.includes(`"prev":"${head.hash}"`)) return `it does not follow number ${seq - 1} of its project`
    return null
  }
  return {
    take(facts) {
      const seals: Seal[] = []
      for (const fact of facts) {
        const how = differenceOf(fact)
        if (how !== null) found.push({ what: `project ${fact.scope}, number ${fact.seq}`, how })
        if (fact.position !== last + 1 || open.length === BASELINE_GROUP) seals.push(...close())
        open.push({ position: fact.position, hash: fact.hash })
        last = fact.position
        heads.set(fact.scope, { seq: fact.seq, hash: fact.hash })
      }
      return seals
    },
    end: close,
    found: () => found,
  }
}
