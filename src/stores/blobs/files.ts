// Stored files, named by their SHA-256: adopted from an upload, opened, removed and listed.
import { mkdir, open, readdir, rename, rm, stat, utimes, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { isChecksum, type ByteRange, type Checksum, type Received, type Stored } from '#kernel/ports/blobs.ts'
import { isOutOfRoom } from '../disk-errors.ts'
import { checksOf, createBlobReading, hexIn, pathIn } from './reading.ts'

export function filesIn(path: string, fatal: (error: unknown) => void) {
  /** Folders whose own entry is known to be durable. */
  const known = new Set<string>()
  const pathOf = (checksum: Checksum): string => pathIn(path, hexIn(checksum))

  /** After a failed sync the content of the disk is unknown, and a second sync would report success. */
  async function sync(file: FileHandle): Promise<void> {
    try {
      await file.sync()
    } catch (error) {
      if (!isOutOfRoom(error)) fatal(error)
      throw error
    }
  }

  async function syncFolder(folder: string): Promise<void> {
    const handle = await open(folder, 'r')
    try {
      await sync(handle)
    } finally {
      await handle.close()
    }
  }

  async function ensureFolder(parent: string, name: string): Promise<string> {
    const folder = join(parent, name)
    if (known.has(folder)) return folder
    await mkdir(folder, { mode: 0o700 }).catch((error: unknown) => {
      if (codeOf(error) !== 'EEXIST') throw error
    })
    await syncFolder(parent)
    known.add(folder)
    return folder
  }

  async function size(checksum: Checksum): Promise<number | null> {
    if (!isChecksum(checksum)) return null
    return (await orNull(stat(pathOf(checksum))))?.size ?? null
  }

  const reading = createBlobReading()
  return {
    sync,
    size,
    ...checksOf(path, reading),
    /** Returns whether the bytes are new. A stored file of another size is damaged and gets replaced. */
    async adopt(temporary: string, received: Received): Promise<boolean> {
      const hex = hexIn(received.checksum)
      const target = pathOf(received.checksum)
      // If the file of that name was changed, these bytes replace it.
      const created = (await size(received.checksum)) !== received.size || !(await reading.isSound(target, hex))
      const folder = await ensureFolder(await ensureFolder(path, hex.slice(0, 2)), hex.slice(2, 4))
      if (created) {
        await rename(temporary, target)
      } else {
        const now = new Date()
        await utimes(target, now, now)
        await rm(temporary)
      }
      // For an existing file, too: the process that named it can have ended before the sync.
      await syncFolder(folder)
      return created
    },
    drop: (checksum: Checksum) => rm(pathOf(checksum), { force: true }),
    async open(checksum: Checksum, range?: ByteRange): Promise<AsyncIterable<Uint8Array> | null> {
      if (!isChecksum(checksum)) return null
      const file = await orNull(open(pathOf(checksum), 'r'))
      if (!file) return null
      // An open file can be read to its end even after it is removed.
      const [at, hex] = [pathOf(checksum), hexIn(checksum)]
      return range ? reading.part(file, at, hex, range) : reading.whole(file, at, hex)
    },
  }
}

export async function listIn(path: string, after: Checksum | null, limit: number): Promise<Stored[]> {
  const from = after === null ? '' : hexIn(after)
  const found: Stored[] = []
  const entries = async (folder: string, digits: number): Promise<string[]> =>
    ((await orNull(readdir(folder))) ?? []).filter((name) => name.length === digits && /^[0-9a-f]+$/.test(name)).sort()
  for (const top of await entries(path, 2)) {
    if (top < from.slice(0, 2)) continue
    for (const middle of await entries(join(path, top), 2)) {
      if (top + middle < from.slice(0, 4)) continue
      for (const hex of await entries(join(path, top, middle), 64)) {
        if (hex <= from) continue
        const info = await orNull(stat(join(path, top, middle, hex)))
        if (info) found.push({ checksum: `sha256:${hex}`, size: info.size, at: info.mtimeMs })
        if (found.length === limit) return found
      }
    }
  }
  return found
}

const codeOf = (error: unknown): string | undefined => (error as NodeJS.ErrnoException).code

export async function orNull<T>(looking: Promise<T>): Promise<T | null> {
  try {
    return await looking
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null
    throw error
  }
}
