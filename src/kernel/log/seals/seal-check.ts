// The check of the stored record against its seals: of single facts when they are loaded, and of the whole, which must follow from the last seal
// that this process knows. Seals that were found valid are remembered, so a group is checked once however many of its documents are loaded.
import type { Backend } from '../backend.ts'
import { setBounded } from '../../codec/bounded-map.ts'
import { Damaged } from '../../declare/errors.ts'
import { limits } from '../../limits.ts'
import type { AtRest } from '../sealed-documents.ts'
import { faultUnder, NOTHING_SEALED, SEAL_CHANGED, tipAfter, type Onward, type Seal, type SealedFact, type Tip } from './seals.ts'
import type { Found } from '../store.ts'

export type SealCheck = {
  /** How each fact differs from its seal; a plain array if no query was needed. */
  faults(facts: readonly SealedFact[]): (string | null)[] | Promise<(string | null)[]>
  /** The faults of the facts that describe documents. Undefined: all of them are known to be sealed. */
  faultsIn(rows: readonly (AtRest | undefined)[]): Promise<ReadonlyMap<AtRest, string | null>> | undefined
  /** The fault of the fact that describes a document; null also if no fact does. */
  faultOf(row: AtRest | undefined): Promise<string | null>
  /** The last seal that was found valid. A failover of a replicated database might lose it. */
  seen(): Tip
  /** The last seal that a commit of this process builds on: it is never lost, and a record without it was rolled back. */
  proven(): Tip
  proved(tip: Tip): void
  /** Remembers a valid seal. */
  learn(seal: Seal): void
  /** Throws if the stored record does not continue the proven one: nothing is written on top of it. */
  follow(onward: Onward, from?: Tip): Tip
  /**
   * The check for readers, against the tip that was seen when they asked. A record that was rolled back or replaced serves no reads; a
   * record with unsealed facts serves the sealed ones.
   */
  followForReading(from: Tip, onward: Onward): Promise<void>
  /** How the stored record fails to continue the known one; null: it continues it. */
  recheck(): Promise<string | null>
}

/** The name under which a change of the record as a whole is found. */
const RECORD = 'record'

export type SealCheckOptions = {
  isValid(seal: Seal): boolean
  /** Other processes write to the store, too. */
  readonly isShared: boolean
  report(difference: Found): void
  /** Evicts cached reads of groups that were seen and are gone. */
  forget(position: number): void
}

export function createSealCheck(backend: Pick<Backend, 'sealsAt' | 'onward'>, options: SealCheckOptions): SealCheck {
  const { isValid, isShared, report, forget } = options
  /** By the positions that they cover. */
  const known = new Map<number, Seal>()
  let seen = NOTHING_SEALED
  let proven = NOTHING_SEALED

  function learn(seal: Seal): void {
    for (let position = seal.first; position <= seal.last; position++) setBounded(known, position, seal, limits.sealedPositionsMax)
  }

  function advance(next: Tip, since: readonly Seal[]): void {
    for (const seal of since) learn(seal)
    if (next.position > seen.position) seen = next
    // A store with a single process loses nothing.
    if (!isShared) proven = seen
  }

  /** A group that was visible and not replicated yet is gone after a failover: the record continues from what is proven. */
  function fallBack(next: Tip): void {
    seen = next
    known.clear()
    forget(next.position)
  }

  /** Undefined: the seal of this position is not known yet. */
  function knownFault(fact: SealedFact): string | null | undefined {
    const seal = known.get(fact.position)
    return seal && faultUnder(seal, fact)
  }

  function faults(facts: readonly SealedFact[]): (string | null)[] | Promise<(string | null)[]> {
    const found = facts.map(knownFault)
    const unknown = facts.filter((_, i) => found[i] === undefined)
    return unknown.length === 0 ? (found as (string | null)[]) : checkUnknown(facts, unknown)
  }

  async function checkUnknown(facts: readonly SealedFact[], unknown: readonly SealedFact[]): Promise<(string | null)[]> {
    const seals = await backend.sealsAt([...new Set(unknown.map(({ position }) => position))])
    const changed = new Set<Seal>()
    for (const seal of seals) {
      if (isValid(seal)) learn(seal)
      else changed.add(seal)
    }
    return facts.map((fact) => {
      const seal = seals.find(({ first, last }) => first <= fact.position && fact.position <= last)
      return seal && changed.has(seal) ? SEAL_CHANGED : faultUnder(seal ?? known.get(fact.position), fact)
    })
  }

  function follow(onward: Onward, from: Tip = proven): Tip {
    const next = tipAfter(from, onward, isValid)
    if (typeof next === 'string') throw new Damaged(RECORD, next)
    if (next.position < seen.position) fallBack(next)
    advance(next, onward.since)
    return next
  }

  const isBehind = (from: Tip, { position, at }: Onward): boolean => position < from.position || at !== from.tag

  /** Null: the record follows. `isPutBack`: the known seal is missing. */
  async function faultBehind(from: Tip, onward: Onward): Promise<{ how: string; isPutBack: boolean } | null> {
    const next = tipAfter(from, onward, isValid)
    if (typeof next !== 'string') {
      advance(next, onward.since)
      return null
    }
    const isPutBack = isBehind(from, onward)
    if (!isPutBack || from.position <= proven.position) return { how: next, isPutBack }
    const [was, base] = [seen, proven]
    const now = await backend.onward(base.position)
    const again = tipAfter(base, now, isValid)
    if (typeof again === 'string') return { how: again, isPutBack: isBehind(base, now) }
    if (seen === was) fallBack(again)
    return null
  }

  return {
    faults,
    faultsIn(rows) {
      const described = rows.filter((row) => (row?.newest?.position ?? null) !== null && row!.newest!.hash !== null) as AtRest[]
      const found = faults(described.map(({ newest }) => ({ position: newest!.position!, hash: newest!.hash! })))
      if (Array.isArray(found) && found.every((fault) => fault === null)) return undefined
      return Promise.resolve(found).then((all) => new Map(described.map((row, i) => [row, all[i]!])))
    },
    async faultOf(row) {
      const { position = null, hash = null } = row?.newest ?? {}
      return position === null || hash === null ? null : (await faults([{ position, hash }]))[0]!
    },
    seen: () => seen,
    proven: () => proven,
    proved(tip) {
      if (tip.position > proven.position) proven = tip
      if (tip.position > seen.position) seen = tip
    },
    learn,
    follow,
    async followForReading(from, onward) {
      const fault = await faultBehind(from, onward)
      if (fault === null) return
      report({ what: RECORD, how: fault.how })
      if (fault.isPutBack) throw new Damaged(RECORD, fault.how)
    },
    async recheck() {
      const from = seen
      return (await faultBehind(from, await backend.onward(from.position)))?.how ?? null
    },
  }
}
