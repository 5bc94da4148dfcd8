// Bytes in files that are named by their content: <folder>/ab/cd/<64 hexadecimal digits>. A file gets its name when it is whole
// and durable, so whatever has a name can be referred to; what an interrupted upload leaves is swept at the next start.
import { createHash, randomBytes } from 'node:crypto'
import { mkdir, open, readdir, rename, rm, stat, statfs, utimes, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import {
  isChecksum,
  type Announced,
  type Blobs,
  type ByteRange,
  type Checksum,
  type Held,
  type Received,
  type Stored,
} from '#kernel/ports/blobs.ts'
import { Refusal } from '#kernel/declare/errors.ts'
import { createLanes } from '#kernel/codec/key-mutex.ts'
import { countingOf } from './announced-bytes.ts'
import { checksOf, createReading, hexIn, pathIn } from './reading.ts'
import { isOutOfRoom, refusalOf } from '../disk-errors.ts'

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
const WRITE_BYTES = 256 * 1024
/** Portions that are kept for the next upload. */
const SPARE_MAX = 8

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

  const lanes = createLanes()
  const pins = new Map<Checksum, { count: number; shared: boolean }>()
  const files = filesIn(path, fatal)
  const portions = createPortions()
  const takeRoom = createRoom(path, options)

  async function put(source: AsyncIterable<Uint8Array>, announced: Announced, bytesMax: number): Promise<Held> {
    const temporary = join(incoming, randomBytes(16).toString('hex'))
    const leaveRoom = await takeRoom(Math.min(announced.size ?? bytesMax, bytesMax))
    try {
      const received = await writeOut(temporary, source, announced, bytesMax, files.sync, portions)
      const leave = await lanes.enter(received.checksum)
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
      const leave = await lanes.enter(checksum)
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
    const leave = await lanes.enter(checksum)
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

/** Writes, counts and hashes, and stops at the first byte too many. */
async function writeOut(
  temporary: string,
  source: AsyncIterable<Uint8Array>,
  announced: Announced,
  bytesMax: number,
  sync: (file: FileHandle) => Promise<void>,
  portions: Portions,
): Promise<Received> {
  const counting = countingOf(announced, bytesMax)
  const file = await open(temporary, 'wx', 0o600)
  const writer = writerTo(file, portions)
  try {
    for await (const chunk of source) {
      counting.add(chunk.length)
      await writer.write(chunk)
    }
    const received = counting.whole(await writer.flush())
    await sync(file)
    return received
  } finally {
    await writer.settled()
    await file.close()
  }
}

/** Gathers what comes in portions of its own, since it is only lent, and takes the next one while the last is being written. */
function writerTo(file: FileHandle, portions: Portions) {
  let filling = portions.take()
  let bytes = 0
  let writing: Promise<void> = Promise.resolve()
  const hash = createHash('sha256')
  async function begin(): Promise<void> {
    const full = filling.subarray(0, bytes)
    hash.update(full)
    await writing
    const portion = filling
    writing = writeAll(file, full).finally(() => portions.give(portion))
    // It is awaited with the next portion; until then nothing else looks at it.
    writing.catch(() => undefined)
    filling = portions.take()
    bytes = 0
  }
  return {
    async write(chunk: Uint8Array): Promise<void> {
      for (let at = 0; at < chunk.length;) {
        const part = chunk.subarray(at, at + filling.length - bytes)
        filling.set(part, bytes)
        bytes += part.length
        at += part.length
        if (bytes === filling.length) await begin()
      }
    },
    async flush(): Promise<string> {
      await begin()
      await writing
      return hash.digest('hex')
    },
    async settled() {
      await writing.catch(() => undefined)
      portions.give(filling)
    },
  }
}

/** A disk that fills up may take a part before it takes nothing. */
async function writeAll(file: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length;) at += (await file.write(bytes, at)).bytesWritten
}

/** Memory that is used again: what is new for every portion costs more to collect than to fill. */
type Portions = { take(): Buffer; give(portion: Buffer): void }
function createPortions(): Portions {
  const spare: Buffer[] = []
  return {
    take: () => spare.pop() ?? Buffer.allocUnsafeSlow(WRITE_BYTES),
    give(portion) {
      if (spare.length < SPARE_MAX) spare.push(portion)
    },
  }
}

/** The files that have a name. */
function filesIn(path: string, fatal: (error: unknown) => void) {
  /** Folders whose own entry is known to be durable. */
  const known = new Set<string>()
  const pathOf = (checksum: Checksum): string => pathIn(path, hexIn(checksum))

  /** After a failed sync it is unknown what is on the disk, and asking again would hear that all is well. */
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

  const reading = createReading()
  return {
    sync,
    size,
    ...checksOf(path, reading),
    /** Whether they are new. Bytes that were there already with another size were damaged, and are replaced. */
    async adopt(temporary: string, received: Received): Promise<boolean> {
      const hex = hexIn(received.checksum)
      const target = pathOf(received.checksum)
      // A file of the same name may have been changed: then these bytes are the right ones.
      const created = (await size(received.checksum)) !== received.size || !(await reading.isSound(target, hex))
      const folder = await ensureFolder(await ensureFolder(path, hex.slice(0, 2)), hex.slice(2, 4))
      if (created) {
        await rename(temporary, target)
      } else {
        const now = new Date()
        await utimes(target, now, now)
        await rm(temporary)
      }
      // Also for what was there: it may have got its name in a process that ended before it came to this line.
      await syncFolder(folder)
      return created
    },
    drop: (checksum: Checksum) => rm(pathOf(checksum), { force: true }),
    async open(checksum: Checksum, range?: ByteRange): Promise<AsyncIterable<Uint8Array> | null> {
      if (!isChecksum(checksum)) return null
      const file = await orNull(open(pathOf(checksum), 'r'))
      if (!file) return null
      // From here on the bytes can be read to the end, also if the file loses its name.
      const [at, hex] = [pathOf(checksum), hexIn(checksum)]
      return range ? reading.part(file, at, hex, range) : reading.whole(file, at, hex)
    },
  }
}

async function listIn(path: string, after: Checksum | null, limit: number): Promise<Stored[]> {
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

/** null: there is no such file. */
async function orNull<T>(looking: Promise<T>): Promise<T | null> {
  try {
    return await looking
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return null
    throw error
  }
}
