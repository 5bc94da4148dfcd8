// Bytes in files that are named by their content: <folder>/ab/cd/<64 hexadecimal digits>. A file gets its name when it is complete
// and durable, so a document can refer to any named file. The next start sweeps the rest of an interrupted upload.
import { randomBytes } from 'node:crypto'
import { mkdir, readdir, rm, stat, statfs } from 'node:fs/promises'
import { join } from 'node:path'
import type { Announced, Blobs, Checksum, Held, Received } from '#kernel/ports/blobs.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { createKeyMutex } from '#kernel/codec/key-mutex.ts'
import { refusalOf } from '../disk-errors.ts'
import { filesIn, listIn, orNull } from './files.ts'
import { createPortions, writeOut } from './writing.ts'

/** Pins of bytes in a folder shared by several servers. */
export type SharedPins = {
  hold(checksum: Checksum): Promise<{ release(): void }>
  /** Runs `work` while no other pin can be added to these bytes. Returns false if there is another pin, or was one beside `pin`. */
  ifFree(checksum: Checksum, pin: { release(): void } | null, work: () => Promise<boolean>): Promise<boolean>
}

export type BlobOptions = {
  readonly pins?: SharedPins
  /** Free space that uploads leave on the disk for all other writes; without it, none. */
  readonly floorBytes?: number
  readonly free?: () => Promise<number>
  /** A sync failed: a stored file or folder might be lost in a power cut. */
  fatal(error: unknown): void
}

const INCOMING = 'incoming'
/** The age at which an unfinished upload in a shared folder is swept. */
const UNFINISHED_MS = 24 * 3_600_000

/** Uploads in progress count with their full size, so all of them together leave the floor free. */
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
      // The next start sweeps a file that cannot be removed here.
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
    let isOver = false
    const release = (): void => {
      if (isOver) return
      isOver = true
      if (--pin.count === 0) pins.delete(checksum)
    }
    const discard = async (): Promise<void> => {
      const leave = await mutex.enter(checksum)
      try {
        // Bytes that cannot be removed now are collected later. The caller gets the refusal either way.
        if (!isOver && created && !pin.shared) await files.drop(checksum).catch(() => undefined)
      } finally {
        release()
        leave()
      }
    }
    return { ...received, release, discard }
  }

  async function holdShared(received: Received, temporary: string): Promise<Held> {
    const { checksum } = received
    // Pin first, then look: no server removes pinned bytes.
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

/** Sweeps unfinished uploads: all of them if one server uses the folder, otherwise only old ones. */
async function sweep(incoming: string, olderThanMs: number): Promise<void> {
  for (const name of await readdir(incoming)) {
    const file = join(incoming, name)
    const info = await orNull(stat(file))
    // File times have fractions of a millisecond, so a file of now can be younger than now.
    if (info && (olderThanMs === 0 || Date.now() - info.mtimeMs >= olderThanMs)) await rm(file, { recursive: true, force: true })
  }
}
