// The examination of a whole store against its record: documents, index entries and counts, each as stored at one moment.
import { DUE, END, entriesOf, hasTallies, idIn, idOf, isTallyOf, kindOf, kindsKnown, talliesOf, type AnyDoc } from '../../declare/schema.ts'
import { isSealedIn, soundOr, type Tag } from '../sealed-documents.ts'
import type { SealCheck } from './seal-check.ts'
import type { Backend, Inspection } from '../backend.ts'
import type { AtRestStore, Found, Key, Value } from '../store.ts'

export const shownEntry = (entry: string): string => entry.replaceAll('\0', ' ')

export function examinerOf(backend: Backend, tag: Tag, seals: SealCheck): AtRestStore {
  function valueIn({ row, images }: Inspection, key: Key): Value | string | null {
    if (!row) return null
    const sound = soundOr(row, key, tag)
    if (typeof sound === 'string') return sound
    if (sound.image !== null && images !== sound.version) return 'its images are more or fewer than its versions'
    return JSON.parse(sound.text) as Value
  }

  async function document(key: Key): Promise<Found[]> {
    const kind = kindIn(key)
    if (!kind) return [{ what: key, how: 'there is no such kind of document' }]
    for (let seen = await backend.inspect(key, [], []); ;) {
      const value = valueIn(seen, key)
      if (value === null) return []
      const fault = typeof value === 'string' ? value : await seals.faultOf(seen.row)
      if (fault !== null) return [{ what: key, how: fault }]
      const expected = entriesOf(kind, idOf(key), value as Value)
      const counted = [...expected.flatMap((entry) => entry.counted ?? []), ...talliesOf(kind, value as Value)]
      const now = await backend.inspect(
        key,
        expected.map(({ entry }) => entry),
        counted,
      )
      if (now.row?.doc?.version === seen.row?.doc?.version)
        return [
          ...expected.flatMap(({ entry }, i) =>
            now.entries[i] ? [] : [{ what: key, how: `the index lacks its entry ${shownEntry(entry)}` }],
          ),
          ...counted.flatMap((prefix, i) => (now.counts[i]! < 1 ? [{ what: shownEntry(prefix), how: 'its entries are not counted' }] : [])),
        ]
      // The document changed between the two reads: compute its expected entries again.
      seen = now
    }
  }

  async function entry(text: string): Promise<Found[]> {
    const place = text.slice(0, text.indexOf('\0'))
    const key = place === DUE ? idIn(text) : `${place.slice(0, place.lastIndexOf('.'))}/${idIn(text)}`
    const found = await backend.inspect(key, [text], [])
    if (!found.entries[0]) return []
    const kind = kindIn(key)
    const value = kind ? valueIn(found, key) : null
    // A damaged document is reported by `document`, not by its entries.
    if (typeof value === 'string') return []
    if (kind && value && entriesOf(kind, idOf(key), value).some((entry) => entry.entry === text)) return []
    return [
      {
        what: shownEntry(text),
        how: value ? 'the index holds it, but its document does not' : 'the index names a missing document',
      },
    ]
  }

  async function count(prefix: string): Promise<Found[]> {
    const kind = kindIn(`${placeOf(prefix)}/`)
    if (kind && isTallyOf(kind, prefix)) return []
    const { counted, there } = await backend.tally(prefix)
    return counted === there ? [] : [{ what: shownEntry(prefix), how: `${counted} entries are counted, but there are ${there}` }]
  }

  async function* recount(): AsyncIterable<Found[]> {
    for (const kind of kindsKnown()) if (hasTallies(kind)) yield* recountOf(backend, kind)
  }

  return { keys: backend.allKeys, prefixes: backend.prefixes, document, entry, count, recount }
}

const placeOf = (prefix: string): string => prefix.slice(0, prefix.indexOf('\0')).replace(/\.[^.]*$/, '')

/**
 * The tallies of a kind against its documents, both as of one position: images are only ever added, so what a document was then can be
 * read while other writers continue.
 */
async function* recountOf(backend: Backend, kind: AnyDoc): AsyncIterable<Found[]> {
  const first = `${kind.kind}.`
  const { position, counts } = await backend.counts(first, first + END, COUNTS_MAX)
  // A truncated list would report false differences.
  if (counts.length >= COUNTS_MAX) return
  const missing = new Map(counts.filter(([prefix]) => isTallyOf(kind, prefix)))
  const noted = new Map(missing)
  const end = `${kind.kind}/${END}`
  let isDamaged = false
  for (let after = `${kind.kind}/`; ;) {
    const images = await backend.imagesAt(after, end, position, RECOUNTED)
    for (const { key, version, salt, text, line } of images) {
      // A damaged document is reported by `document`, not by the counts that it is missing in.
      if (text === null || line === null || !isSealedIn(line, key, version, salt, text)) isDamaged = true
      else for (const prefix of talliesOf(kind, JSON.parse(text) as Value)) missing.set(prefix, (missing.get(prefix) ?? 0) - 1)
    }
    if (images.length < RECOUNTED) break
    after = images.at(-1)!.key
    yield []
  }
  if (isDamaged) return
  yield [...missing].flatMap(([prefix, over]) => {
    const counted = noted.get(prefix) ?? 0
    return over === 0 ? [] : [{ what: shownEntry(prefix), how: `${counted} documents are counted, but there are ${counted - over}` }]
  })
}
const RECOUNTED = 20
const COUNTS_MAX = 10_000_000

function kindIn(key: Key): AnyDoc | null {
  try {
    return kindOf(key)
  } catch {
    return null
  }
}
