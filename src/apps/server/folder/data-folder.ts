// The folder that holds everything: private to its user, and used by one server at a time.
import { accessSync, closeSync, constants, fstatSync, fsyncSync, mkdirSync, openSync, rmSync, statSync, writeSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { timestampOf } from '#kernel/ports/clock.ts'
import type { Found } from '#kernel/log/store.ts'
import type { FindingsFile } from '#workers/upkeep/findings.ts'
import type { SeenFile } from '#workers/presence.ts'
import type { Marker, MarkerFile } from '#workers/upkeep/record-verifier.ts'
import { readText, writeAtomically } from './small-files.ts'
import { holdFolder, unwritable, type FolderLock } from './folder-lock.ts'
import { StartError } from '../start-error.ts'

export type DataFolder = {
  readonly path: string
  readonly database: string
  readonly adminKey: string
  readonly blobs: string
  /** Signing and sealing keys. */
  readonly keys: string
  readonly marker: MarkerFile
  readonly findings: FindingsFile
  readonly seen: SeenFile
  readonly reserve: Reserve
  readonly lock: Pick<FolderLock, 'keep' | 'amiss'>
  release(): void
}

export function openDataFolder(path: string): DataFolder {
  try {
    makeFolder(path)
    syncEntry(path)
  } catch (error) {
    throw new StartError(`the data folder ${path} cannot be made: ${(error as Error).message} (see --data)`)
  }
  refuseUnwritable(path)
  const lock = holdFolder(path, `another Countersign server uses ${path}: stop it first, or choose another folder with --data`)
  const reserve = reserveIn(join(path, 'reserve'))
  return {
    path,
    database: join(path, 'countersign.db'),
    adminKey: join(path, 'admin.key'),
    blobs: join(path, 'blobs'),
    keys: join(path, 'keys'),
    marker: markerFile(markerIn(path)),
    findings: findingsFile(join(path, 'findings.json')),
    seen: seenFile(join(path, 'seen.json')),
    reserve,
    lock,
    release() {
      // SQLite has freed space by closing the database: it is reserved for the next start.
      reserve.keep()
      lock.release()
    },
  }
}

/** One level after the other: Node's own recursion never ends below a folder such as /proc, which accepts no folders. */
export function makeFolder(path: string): void {
  const isThere = (): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() === true
  if (isThere()) return
  if (dirname(path) !== path) makeFolder(dirname(path))
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (error) {
    if (!isThere()) throw error
  }
  syncEntry(path)
}

/** Without this sync, a power cut can remove the folder with all its files. A parent that this user cannot open is left to its owner. */
function syncEntry(path: string): void {
  let parent: number
  try {
    parent = openSync(dirname(resolve(path)), 'r')
  } catch {
    return
  }
  try {
    fsyncSync(parent)
  } catch (error) {
    // Not every file system can sync a folder.
    if ((error as NodeJS.ErrnoException).code !== 'EINVAL') throw error
  } finally {
    closeSync(parent)
  }
}

/** SQLite opens a read-only file and fails only at the first write, so check now. A full disk is not refused: it can still be read. */
function refuseUnwritable(path: string): void {
  try {
    accessSync(path, constants.W_OK)
  } catch (error) {
    throw unwritable(path, error)
  }
}

/** Reserved disk space, released when the disk is full so that the server can still start and serve reads. */
export type Reserve = {
  /** Reserves as much as the disk has. */
  keep(): void
  /** Releases the reserve; false: no reserve existed. */
  giveUp(): boolean
}
/** SQLite creates a 32 KiB file beside the database to open it. */
const RESERVE_BYTES = 64 * 1024
const PORTION = new Uint8Array(4_096)

function reserveIn(path: string): Reserve {
  const isThere = (): boolean => statSync(path, { throwIfNoEntry: false }) !== undefined
  return {
    keep() {
      try {
        const file = openSync(path, 'a', 0o600)
        try {
          for (let size = fstatSync(file).size; size < RESERVE_BYTES;) size += writeSync(file, PORTION)
        } finally {
          closeSync(file)
        }
      } catch {
        // The disk is full: a partial reserve, or none, is fine.
      }
    },
    giveUp() {
      const was = isThere()
      rmSync(path, { force: true })
      return was
    },
  }
}

export const markerIn = (path: string): string => join(path, 'verified.json')

/** Null: the marker is unreadable. That costs only a verification from the start. */
export function markerFrom(text: string): Marker | null {
  try {
    const { position, hash, chains } = JSON.parse(text) as Marker
    const isMarker = Number.isSafeInteger(position) && position >= 0 && typeof hash === 'string'
    return isMarker ? { position, hash, ...(typeof chains === 'object' ? { chains } : {}) } : null
  } catch {
    return null
  }
}
export const textOfMarker = ({ position, hash, chains }: Marker): string =>
  JSON.stringify({ position, hash, ...(chains ? { chains } : {}) })

export function markerFile(path: string): MarkerFile {
  return {
    async read() {
      const text = await readText(path)
      return text === null ? null : markerFrom(text)
    },
    write: (marker) => writeAtomically(path, `${textOfMarker(marker)}\n`),
  }
}

function findingsFile(path: string): FindingsFile {
  return {
    async read() {
      try {
        const found = JSON.parse((await readText(path)) ?? '[]') as readonly Found[]
        return Array.isArray(found) ? found.filter(({ what, how }) => typeof what === 'string' && typeof how === 'string') : []
      } catch {
        // The next round finds it again.
        return []
      }
    },
    write: (found) => (found.length === 0 ? rm(path, { force: true }) : writeAtomically(path, `${JSON.stringify(found, null, 2)}\n`)),
  }
}

function seenFile(path: string): SeenFile {
  return {
    async read() {
      try {
        const found = JSON.parse((await readText(path)) ?? '{}') as Record<string, string>
        const times = Object.entries(found).map(([id, at]) => [id, Date.parse(at)] as const)
        return new Map(times.filter(([, at]) => !Number.isNaN(at)))
      } catch {
        // Agents that are present will be seen again.
        return new Map()
      }
    },
    write: (seen) => writeAtomically(path, `${JSON.stringify(Object.fromEntries([...seen].map(([id, at]) => [id, timestampOf(at)])))}\n`),
  }
}
