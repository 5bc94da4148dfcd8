// Sound facts: they match their hash, their images and their seal. Any other fact is left out of answers and reported.
import type { Backend } from '../backend.ts'
import type { SealCheck } from './seal-check.ts'
import { isSound } from '../sealed-documents.ts'
import type { FactsOf, FactsPage, Found, StoredFact } from '../store.ts'

/** Later facts take the places of facts that are left out: a short page would mean the end of the list. */
export async function soundFacts(
  backend: Backend,
  seals: SealCheck,
  of: FactsOf,
  { after, limit, reverse }: FactsPage,
  report: (difference: Found) => void,
): Promise<StoredFact[]> {
  const sound: StoredFact[] = []
  for (let place = after; ;) {
    const missing = limit - sound.length
    const page = await backend.facts(of, { after: place, limit: missing, reverse: reverse ?? false })
    const faults = await seals.faults(page)
    for (const [i, fact] of page.entries()) {
      const how = isSound(fact) ? faults[i]! : 'the event does not match its hash, or an image of it not its digest'
      if (how === null) sound.push(fact)
      else report({ what: `${fact.scope} ${fact.seq}`, how })
    }
    if (page.length < missing || sound.length === limit) return sound
    const last = page.at(-1)!
    place = of.by === 'scope' || of.by === 'actor' ? last.seq : last.position
  }
}
