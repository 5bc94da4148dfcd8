// The examination of a whole store against its record: documents, index entries and counts, each as it lies on the disk at one moment.
import { DUE, entriesOf, idIn, idOf, kindOf, type AnyDoc } from '../../declare/schema.ts'
import { soundOr, type Tag } from '../sealed-documents.ts'
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
      const counted = expected.flatMap((one) => one.counted ?? [])
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
    if (kind && value && entriesOf(kind, idOf(key), value).some((one) => one.entry === text)) return []
    return [
      {
        what: shownEntry(text),
        how: value ? 'the index holds it, but its document does not' : 'the index names a document that is not there',
      },
    ]
  }

  async function count(prefix: string): Promise<Found[]> {
    const { counted, there } = await backend.tally(prefix)
    return counted === there ? [] : [{ what: shownEntry(prefix), how: `${counted} entries are counted, but there are ${there}` }]
  }

  return { keys: backend.allKeys, prefixes: backend.prefixes, document, entry, count }
}

function kindIn(key: Key): AnyDoc | null {
  try {
    return kindOf(key)
  } catch {
    return null
  }
}
