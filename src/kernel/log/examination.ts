// The examination of a whole store against its record: documents, index entries and counts, each as it lies on the disk at one moment.
import { entriesOf, idIn, idOf, kindOf, type AnyDoc } from '../declare/schema.ts'
import { soundOr, type Tag } from './sealed-documents.ts'
import type { Backend } from './group-commit.ts'
import type { AtRestStore, Found, Key, Value } from './store.ts'

export const shownEntry = (entry: string): string => entry.replaceAll('\0', ' ')

export function examinerOf(backend: Backend, tag: Tag): AtRestStore {
  function valueOf(key: Key): Value | string | null {
    const row = backend.get(key)
    if (!row) return null
    const sound = soundOr(row, key, tag)
    if (typeof sound === 'string') return sound
    if (sound.image !== null && backend.imagesOf(key) !== sound.version) return 'its images are more or fewer than its versions'
    return JSON.parse(sound.text) as Value
  }

  function document(key: Key): Found[] {
    const kind = kindIn(key)
    if (!kind) return [{ what: key, how: 'there is no such kind of document' }]
    const value = valueOf(key)
    if (value === null) return []
    if (typeof value === 'string') return [{ what: key, how: value }]
    return entriesOf(kind, idOf(key), value).flatMap(({ entry, counted }) => {
      if (!backend.has(entry)) return [{ what: key, how: `the index lacks its entry ${shownEntry(entry)}` }]
      return counted !== null && backend.countOf(counted) < 1 ? [{ what: shownEntry(counted), how: 'its entries are not counted' }] : []
    })
  }

  function entry(text: string): Found[] {
    if (!backend.has(text)) return []
    const place = text.slice(0, text.indexOf('\0'))
    const key = `${place.slice(0, place.lastIndexOf('.'))}/${idIn(text)}`
    const kind = kindIn(key)
    const value = kind ? valueOf(key) : null
    // How a document itself differs is said of the document.
    if (typeof value === 'string') return []
    if (kind && value && entriesOf(kind, idOf(key), value).some((one) => one.entry === text)) return []
    return [
      {
        what: shownEntry(text),
        how: value ? 'the index holds it, but its document does not' : 'the index names a document that is not there',
      },
    ]
  }

  function count(prefix: string): Found[] {
    const [said, there] = [backend.countOf(prefix), backend.entriesUnder(prefix)]
    return said === there ? [] : [{ what: shownEntry(prefix), how: `${said} entries are counted, but there are ${there}` }]
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
