// Reading bytes under their checksum. The whole is hashed each time, since a file may be changed behind the server's back; for a part, the whole is
// hashed once for each state of the file.
import { createHash } from 'node:crypto'
import { open, rename, stat, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline, Transform, type Readable } from 'node:stream'
import type { Blobs, ByteRange, Checksum } from '#kernel/ports/blobs.ts'
import { Damaged } from '#kernel/declare/errors.ts'

const READ_BYTES = 256 * 1024
/** Files whose bytes were found to be those of their name; forgotten when there are too many. */
const KNOWN_MAX = 10_000

export const hexIn = (checksum: Checksum): string => checksum.slice('sha256:'.length)
export const pathIn = (folder: string, hex: string): string => join(folder, hex.slice(0, 2), hex.slice(2, 4), hex)

/** For programs that look at a folder which a server may be using. */
export function checksOf(folder: string, reading = createBlobReading()): Pick<Blobs, 'check'> {
  return {
    async check(checksum) {
      try {
        return (await reading.isSound(pathIn(folder, hexIn(checksum)), hexIn(checksum))) ? 'sound' : 'changed'
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 'missing'
        throw error
      }
    },
  }
}

export function createBlobReading() {
  const known = new Map<string, string>()
  const markOf = async (path: string): Promise<string> => {
    const { ino, size, mtimeMs, ctimeMs } = await stat(path)
    return `${ino} ${size} ${mtimeMs} ${ctimeMs}`
  }

  /** Under another name no server finds them, and a person who looks into it still can. */
  async function setAside(path: string, hex: string): Promise<never> {
    known.delete(hex)
    // Another reader may have come first.
    await rename(path, `${path}.changed-${Date.now()}`).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error
    })
    throw new Damaged(`sha256:${hex}`, 'its bytes are not those of its name; the file was set aside')
  }

  /** The last portion is held back until all are known to be right: a reader that comes to the end has read what was sent. */
  function whole(file: FileHandle, path: string, hex: string): Readable {
    const hash = createHash('sha256')
    let held: Buffer | null = null
    const checked = new Transform({
      transform(chunk: Buffer, _, done) {
        hash.update(chunk)
        const before = held
        held = chunk
        done(null, before)
      },
      flush(done) {
        if (hash.digest('hex') === hex) done(null, held)
        else setAside(path, hex).catch(done)
      },
    })
    // The file is closed however this ends, also for a reader that is gone before it has begun.
    pipeline(file.createReadStream({ highWaterMark: READ_BYTES }), checked, () => undefined)
    return checked
  }

  async function isSound(path: string, hex: string): Promise<boolean> {
    const mark = await markOf(path)
    if (known.get(hex) === mark) return true
    const file = await open(path, 'r')
    const hash = createHash('sha256')
    try {
      for await (const chunk of file.createReadStream({ highWaterMark: READ_BYTES, autoClose: false })) hash.update(chunk as Buffer)
    } finally {
      await file.close()
    }
    if (hash.digest('hex') !== hex) return false
    if (known.size >= KNOWN_MAX) known.clear()
    known.set(hex, mark)
    return true
  }

  return {
    whole,
    isSound,
    /** A part says nothing about the whole, which is therefore read once before. */
    async part(file: FileHandle, path: string, hex: string, { first, last }: ByteRange): Promise<AsyncIterable<Uint8Array>> {
      try {
        if (!(await isSound(path, hex))) await setAside(path, hex)
      } catch (error) {
        await file.close()
        throw error
      }
      return file.createReadStream({ highWaterMark: READ_BYTES, start: first, end: last })
    },
  }
}
