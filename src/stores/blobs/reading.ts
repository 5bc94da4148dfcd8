// Reading bytes by their checksum. A complete read hashes the file every time, because it can have been changed outside of the server. Reading
// a part hashes the complete file once per state of the file.
import { createHash } from 'node:crypto'
import { open, rename, stat, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline, Transform, type Readable } from 'node:stream'
import type { Blobs, ByteRange, Checksum } from '#kernel/ports/blobs.ts'
import { Damaged } from '#kernel/declare/errors.ts'

const READ_BYTES = 256 * 1024
/** Files whose content matched their name; cleared when there are too many. */
const KNOWN_MAX = 10_000

export const hexIn = (checksum: Checksum): string => checksum.slice('sha256:'.length)
export const pathIn = (folder: string, hex: string): string => join(folder, hex.slice(0, 2), hex.slice(2, 4), hex)

/** Checks for programs that read a folder that a server might be using. */
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

  /** Renamed, so no server uses the bytes, and an operator can still examine them. */
  async function setAside(path: string, hex: string): Promise<never> {
    known.delete(hex)
    // Another reader can have renamed it first.
    await rename(path, `${path}.changed-${Date.now()}`).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'ENOENT') throw error
    })
    throw new Damaged(`sha256:${hex}`, 'its bytes do not match its checksum; the file was set aside')
  }

  /** Holds back the last portion until the hash matches: a reader that reaches the end has read the uploaded bytes. */
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
    // Close the file in every case, even if the reader left before the first byte.
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
    /** The hash covers the complete file, so it is read and checked once before a part is served. */
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
