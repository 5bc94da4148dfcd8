// The check of the stored record against its seals: of single facts when they are loaded, and of the whole, which must follow from the last seal
// that this process knows. Seals that were found valid are remembered, so a group is checked once however many of its documents are loaded.
import type { Backend } from '../backend.ts'
import { setBounded } from '../../codec/bounded-map.ts'
import { Damaged } from '../../declare/errors.ts'
import { limits } from '../../limits.ts'
import type { AtRest, Tag } from '../sealed-documents.ts'
import { faultUnder, isSeal, NOTHING_SEALED, SEAL_CHANGED, tipAfter, type Onward, type Seal, type SealedFact, type Tip } from './seals.ts'
import type { Found } from '../store.ts'

export type SealCheck = {
  /** Of each fact how it differs from its seal; an array where nothing had to be asked. */
  faults(facts: readonly SealedFact[]): (string | null)[] | Promise<(string | null)[]>
  /** Of the facts that describe documents. Undefined: all of them are known to be sealed. */
  faultsIn(rows: readonly (AtRest | undefined)[]): Promise<ReadonlyMap<AtRest, string | null>> | undefined
  /** Of the fact that describes a document; null also where none does. */
  faultOf(row: AtRest | undefined): Promise<string | null>
  /** The last seal that this process has written or found valid. */
  tip(): Tip
  /** A group of this process is durable. */
  wrote(seal: Seal): void
  /** Throws where what is stored does not follow from a tip: nothing may be written on top of it. */
  follow(from: Tip, onward: Onward): Tip
  /** The same for readers: a record that was put back or exchanged answers nothing, one with unsealed facts answers what is sealed. */
  followForReading(from: Tip, onward: Onward): void
  /** How what is stored does not follow from the tip; null: it does. */
  recheck(): Promise<string | null>
}

/** The name under which a change of the record as a whole is found. */
const RECORD = 'record'

export function createSealCheck(backend: Pick<Backend, 'sealsAt' | 'onward'>, tag: Tag, report: (difference: Found) => void): SealCheck {
  /** By the positions that they cover. */
  const known = new Map<number, Seal>()
  let tip = NOTHING_SEALED

  function learn(seal: Seal): void {
    for (let position = seal.first; position <= seal.last; position++) setBounded(known, position, seal, limits.sealedPositionsMax)
  }
  const advance = (next: Tip): void => void (next.position > tip.position && (tip = next))

  /** Undefined: the seal of this position is not known yet. */
  function knownFault(fact: SealedFact): string | null | undefined {
    const seal = known.get(fact.position)
    return seal && faultUnder(seal, fact)
  }

  function faults(facts: readonly SealedFact[]): (string | null)[] | Promise<(string | null)[]> {
    const found = facts.map(knownFault)
    const unknown = facts.filter((_, i) => found[i] === undefined)
    return unknown.length === 0 ? (found as (string | null)[]) : asked(facts, unknown)
  }

  async function asked(facts: readonly SealedFact[], unknown: readonly SealedFact[]): Promise<(string | null)[]> {
    const seals = await backend.sealsAt([...new Set(unknown.map(({ position }) => position))])
    const changed = new Set<Seal>()
    for (const seal of seals) {
      if (isSeal(seal, tag)) learn(seal)
      else changed.add(seal)
    }
    return facts.map((fact) => {
      const seal = seals.find(({ first, last }) => first <= fact.position && fact.position <= last)
      return seal && changed.has(seal) ? SEAL_CHANGED : faultUnder(seal ?? known.get(fact.position), fact)
    })
  }

  function follow(from: Tip, onward: Onward): Tip {
    const next = tipAfter(from, onward, tag)
    if (typeof next === 'string') throw new Damaged(RECORD, next)
    for (const seal of onward.since) learn(seal)
    advance(next)
    return next
  }

  return {
    faults,
    faultsIn(rows) {
      const described = rows.filter((row) => row?.newest?.position != null && row.newest.hash !== null) as AtRest[]
      const found = faults(described.map(({ newest }) => ({ position: newest!.position!, hash: newest!.hash! })))
      if (Array.isArray(found) && found.every((fault) => fault === null)) return undefined
      return Promise.resolve(found).then((all) => new Map(described.map((row, i) => [row, all[i]!])))
    },
    async faultOf(row) {
      const { position = null, hash = null } = row?.newest ?? {}
      return position === null || hash === null ? null : (await faults([{ position, hash }]))[0]!
    },
    tip: () => tip,
    wrote(seal) {
      learn(seal)
      advance({ position: seal.last, tag: seal.tag })
    },
    follow,
    followForReading(from, onward) {
      try {
        follow(from, onward)
      } catch (error) {
        if (error instanceof Damaged) report({ what: error.key, how: error.what })
        if (onward.position < from.position || onward.at !== from.tag) throw error
      }
    },
    async recheck() {
      const from = tip
      const onward = await backend.onward(from.position)
      try {
        follow(from, onward)
        return null
      } catch (error) {
        if (error instanceof Damaged) return error.what
        throw error
      }
    },
  }
}
