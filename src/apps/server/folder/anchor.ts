// The anchor: the last seal of the record that this server has seen, in a file outside of the database. A database that was put back to an
// earlier state has valid seals, and lacks this one.
import { join } from 'node:path'
import type { Difference } from '#kernel/log/hash-chain.ts'
import type { Store } from '#kernel/log/store.ts'
import type { AnchorKeeping } from '#workers/upkeep/anchor.ts'
import { StartError } from '../start-error.ts'
import { readText, writeAtomically } from './small-files.ts'

export type Anchor = {
  /** The name of the key that the record is sealed with. */
  readonly key: string
  readonly position: number
  readonly tag: string
  /** The operator restored a backup: the next start accepts the record without a comparison, and records that. */
  readonly accepted?: true
}

export type AnchorFile = AnchorKeeping & {
  /** Null: there is no anchor. Refuses an unreadable one. */
  read(): Promise<Anchor | null>
  write(anchor: Anchor): Promise<void>
}

export const anchorIn = (data: string): AnchorFile => anchorFile(join(data, 'anchor.json'))
/** Of a database that several servers share. */
export const sharedAnchorIn = (data: string): AnchorFile => anchorFile(join(data, 'anchor.postgres.json'))

function anchorFile(path: string): AnchorFile {
  return {
    path,
    async read() {
      const text = await readText(path)
      if (text === null) return null
      const found = anchorFrom(text)
      if (found === null)
        throw new StartError(
          `${path} cannot be read: it says how far this server has seen the record. Restore it, or remove it to start without that check`,
        )
      return found
    },
    write: (anchor) => writeAtomically(path, `${JSON.stringify(anchor)}\n`),
  }
}

function anchorFrom(text: string): Anchor | null {
  try {
    const { key, position, tag, accepted } = JSON.parse(text) as Anchor
    const isAnchor = typeof key === 'string' && Number.isSafeInteger(position) && typeof tag === 'string'
    return isAnchor ? { key, position, tag, ...(accepted === true ? { accepted } : {}) } : null
  } catch {
    return null
  }
}

/** The difference between the record and what this server has seen before; null: none. */
export async function differenceFromAnchor(store: Store, { key, position, tag }: Anchor, serverKey: string): Promise<Difference | null> {
  const wrong = (what: string): Difference => ({ scope: 'all', seq: position, what })
  if (key !== serverKey) return wrong(`its key is ${serverKey}, and this server has seen a record under the key ${key}`)
  const [seal] = await store.seals(position - 1, 1)
  if (seal?.last === position && seal.tag === tag) return null
  const last = await store.position()
  return wrong(
    last < position
      ? `it ends at position ${last}, and this server has seen position ${position}: it was put back to an earlier state`
      : `the seal of position ${position} is not the one that this server has seen`,
  )
}
