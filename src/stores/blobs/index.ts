// Bytes in files that are named by their content: <folder>/ab/cd/<64 hexadecimal digits>. A file gets its name when it is whole
// and durable, so whatever has a name can be referred to; what an interrupted upload leaves is swept at the next start.
import { randomBytes } from 'node:crypto'
import { mkdir, readdir, rm, stat, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import type { Announced, Blobs, Checksum, Held, Received } from '#kernel/ports/blobs.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { createKeyMutex } from '#kernel/codec/key-mutex.ts'
import { refusalOf } from '../disk-errors.ts'
import { filesIn, listIn, orNull } from './files.ts'
import { createPortions, writeOut } from './writing.ts'

/** Pins of bytes in a folder that several servers share. */
export type SharedPins = {
  hold(checksum: Checksum): Promise<{ release(): void }>
  /** Runs `work` while nothing else can come to hold these bytes; false where another pin does, or has beside `own`. */
  ifFree(checksum: Checksum, own: { release(): void } | null, work: () => Promise<boolean>): Promise<boolean>
}

export type BlobOptions = {
  readonly pins?: SharedPins
  /** Room that uploads leave on the disk, so that everything else can still be written; none without it. */
  readonly floorBytes?: number
  /** Free bytes of the disk. */
  readonly free?: () => Promise<number>
  /** The disk did not keep its promise: a synced file or folder may not be there after a power cut. */
  fatal(error: unknown): void
}

const INCOMING = 'incoming'
/** In a folder that several servers share, an unfinished upload is swept after so long. */
const UNFINISHED_MS = 24 * 3_600_000

/** Uploads under way count as if they were whole: together they leave the floor as well. */
function createRoom(path: string, { floorBytes = 0, free = () => freeIn(path) }: BlobOptions): (bytes: number) => Promise<() => void> {
  let expected = 0
  return async (bytes) => {
    if (floorBytes === 0) return () => undefined
    const room = await free().catch((error: unknown) => {
      throw refusalOf(error)
    })
    if (room - floorBytes - expected < bytes)
      throw new Refusal(
        'QUOTA_EXCEEDED',
        `the disk of the server has no room for ${bytes} more bytes: uploads leave ${floorBytes} bytes free (--disk-floor). Everything else goes on; free space on the disk, or send less`,
        { retry_after: 60 },
      )
    expected += bytes
    return () => void (expected -= bytes)
  }
}
async function freeIn(path: string): Promise<number> {
  const { bavail, bsize } = await statfs(path)
  return bavail * bsize
}

export async function openBlobs(path: string, options: BlobOptions): Promise<Blobs> {
  const { fatal, pins: shared } = options
  const incoming = join(path, INCOMING)
  await mkdir(incoming, { recursive: true, mode: 0o700 })
  await sweep(incoming, shared === undefined ? 0 : UNFINISHED_MS)

  const mutex = createKeyMutex()
  const pins = new Map<Checksum, { count: number; shared: boolean }>()
  const files = filesIn(path, fatal)
  const portions = createPortions()
  const takeRoom = createRoom(path, options)

  async function put(source: AsyncIterable<Uint8Array>, announced: Announced, bytesMax: number): Promise<Held> {
    const temporary = join(incoming, randomBytes(16).toString('hex'))
    const leaveRoom = await takeRoom(Math.min(announced.size ?? bytesMax, bytesMax))
    try {
      const received = await writeOut(temporary, source, announced, bytesMax, files.sync, portions)
      const leave = await mutex.enter(received.checksum)
      try {
        if (shared) return await holdShared(received, temporary)
        return hold(received, await files.adopt(temporary, received))
      } finally {
        leave()
      }
    } catch (error) {
      // A file that cannot be removed here either is swept at the next start.
      await rm(temporary, { force: true }).catch(() => undefined)
      throw refusalOf(error)
    } finally {
      leaveRoom()
    }
  }

  function hold(received: Received, created: boolean): Held {
    const { checksum } = received
    const pin = pins.get(checksum) ?? { count: 0, shared: false }
    pin.shared = pin.count > 0
    pin.count++
    pins.set(checksum, pin)
    let over = false
    const release = (): void => {
      if (over) return
      over = true
      if (--pin.count === 0) pins.delete(checksum)
    }
    const discard = async (): Promise<void> => {
      const leave = await mutex.enter(checksum)
      try {
        // Bytes that cannot be taken away now are collected later; the refusal that it is for goes out all the same.
        if (!over && created && !pin.shared) await files.drop(checksum).catch(() => undefined)
      } finally {
        release()
        leave()
      }
    }
    return { ...received, release, discard }
  }

  async function holdShared(received: Received, temporary: string): Promise<Held> {
    const { checksum } = received
    // Held before it is looked for: from here on no server removes it.
    const pin = await shared!.hold(checksum)
    try {
      const created = await files.adopt(temporary, received)
      return {
        ...received,
        release: pin.release,
        async discard() {
          if (created) await shared!.ifFree(checksum, pin, () => files.drop(checksum).then(() => true)).catch(() => undefined)
          pin.release()
        },
      }
    } catch (error) {
      pin.release()
      throw error
    }
  }

  async function remove(checksum: Checksum, isUnused: () => Promise<boolean>): Promise<boolean> {
    if (shared) return shared.ifFree(checksum, null, async () => (await isUnused()) && files.drop(checksum).then(() => true))
    const leave = await mutex.enter(checksum)
    try {
      if (pins.has(checksum) || !(await isUnused())) return false
      await files.drop(checksum)
      return true
    } finally {
      leave()
    }
  }

  return { put, remove, open: files.open, size: files.size, check: files.check, list: (after, limit) => listIn(path, after, limit) }
}

/** Where one server uses the folder, these are not written any more; where several do, the old ones alone are given up. */
async function sweep(incoming: string, olderThanMs: number): Promise<void> {
  for (const name of await readdir(incoming)) {
    const file = join(incoming, name)
    const info = await orNull(stat(file))
    if (info && Date.now() - info.mtimeMs >= olderThanMs) await rm(file, { recursive: true, force: true })
  }
}
